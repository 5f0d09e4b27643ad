//! The configuration that all HTTP adapters share: everything but the policy and the signing keys.

use serde::Deserialize;

/// The settings of an adapter, in addition to `policy` and `signingKeys`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// The upstream's name, part of the endpoint `upstream::tool` that policy rules match.
    /// Default: none.
    pub upstream: String,
    /// Request headers whose values identify callers. Answers of one caller are never shown to
    /// another. Default: `authorization`, `cookie`, `x-api-key`.
    pub principal_headers: Vec<String>,
    /// The identity of every caller, whatever its headers. Default: none.
    pub principal: Option<String>,
    /// Globs of the paths that speak MCP. Default: all.
    pub mcp: Vec<String>,
    /// Endpoints of plain JSON APIs. Default: none.
    pub apis: Vec<Api>,
    /// Maximum size, in bytes, of the body of an MCP answer, and of an event in a stream. Default:
    /// 10 MiB.
    pub max_body: usize,
    /// Maximum size, in bytes, of a body that the host buffers: a request, or an answer of an API,
    /// whose status and headers may change with it. Default: 512 KiB, half of Envoy's default.
    pub max_buffered: usize,
    /// The treatment of bodies that exceed `maxBody` or `maxBuffered`. Default: `refuse`.
    pub over_max_body: OverLimit,
}

impl Settings {
    /// The names of all members in a configuration document.
    pub const MEMBERS: [&str; 8] = [
        "upstream",
        "principal",
        "principalHeaders",
        "mcp",
        "apis",
        "maxBody",
        "maxBuffered",
        "overMaxBody",
    ];
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            upstream: String::new(),
            principal_headers: ["authorization", "cookie", "x-api-key"].map(str::to_owned).into(),
            principal: None,
            mcp: vec!["*".to_owned()],
            apis: Vec::new(),
            max_body: 10 << 20,
            max_buffered: 512 << 10,
            over_max_body: OverLimit::Refuse,
        }
    }
}

/// The treatment of a body that exceeds a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverLimit {
    /// An error replaces the body.
    #[default]
    Refuse,
    /// The body passes unchanged, whatever its size.
    Forward,
}

/// A rule for endpoints of a plain JSON API. The first rule that matches applies.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Api {
    /// The HTTP method, or `*` for any. Default: `GET`.
    #[serde(default = "default_method")]
    pub method: String,
    /// A glob that the path of a request must match, without its query.
    pub path: String,
    /// Query parameters that belong to the API although the guard has parameters of the same names.
    /// The guard's then need the prefix `_guard_`.
    #[serde(default)]
    pub own: Vec<String>,
    /// If false, answers pass unchanged: this exempts endpoints from a later rule. Default: true.
    #[serde(default = "default_guard")]
    pub guard: bool,
}

fn default_method() -> String {
    "GET".to_owned()
}

fn default_guard() -> bool {
    true
}
