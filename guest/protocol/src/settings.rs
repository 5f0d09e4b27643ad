//! How an adapter works, as its operator writes it: all but the policy.

use serde::Deserialize;

/// The settings of an adapter, in its own configuration beside `policy` and `signingKeys`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// The upstream's name, part of the endpoint `upstream::tool` that policy rules match. Default: none.
    pub upstream: String,
    /// Request headers whose values tell callers apart: what one is shown is never kept for another. Default: `authorization`, `cookie`, `x-api-key`.
    pub principal_headers: Vec<String>,
    /// The one caller there is, whatever its headers say. Default: none, so that headers tell.
    pub principal: Option<String>,
    /// Paths that speak MCP, where `*` stands for any characters. Default: all.
    pub mcp: Vec<String>,
    /// Endpoints of plain JSON APIs. Default: none.
    pub apis: Vec<Api>,
    /// The longest answer of an MCP server that is looked into, and the longest event of a stream, in bytes. Default 10 MiB.
    pub max_body: usize,
    /// The longest body that the host is made to hold, in bytes: a request, or the answer of an API, whose status and headers may change with it. Default 512 KiB, half of what Envoy holds
    /// unless told otherwise.
    pub max_buffered: usize,
    /// What becomes of what is longer.
    pub over_max_body: OverLimit,
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

/// What becomes of a body that is too long to be looked into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OverLimit {
    /// An error that says so takes its place.
    #[default]
    Refuse,
    /// It passes as it came, whatever it costs.
    Forward,
}

/// Endpoints of a plain JSON API.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Api {
    /// The method. Default `GET`; `*` for any.
    #[serde(default = "get")]
    pub method: String,
    /// The path, where `*` stands for any characters.
    pub path: String,
    /// Query parameters that are the API's own although the guard has some of that name; the guard's are then written with `_guard_` before them.
    #[serde(default)]
    pub own: Vec<String>,
    /// Whether answers are looked into. Default true: false takes an endpoint out of a rule below.
    #[serde(default = "yes")]
    pub guard: bool,
}

fn get() -> String {
    "GET".to_owned()
}

fn yes() -> bool {
    true
}
