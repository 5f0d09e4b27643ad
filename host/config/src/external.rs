//! The settings of the guard as a service for other gateways: `external`.

use context_guard_protocol as protocol;
use schemars::JsonSchema;
use serde::Deserialize;

/// The guard as a gRPC service for other gateways: `context-guard ext-proc` for Envoy, and
/// `context-guard ext-mcp` for agentgateway.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct External {
    /// The listen address. With `tls`, the connections are encrypted.
    #[schemars(example = "127.0.0.1:8811")]
    pub listen: String,
    /// The name of the upstream in policy rules: `upstream::tool`. A route of Envoy replaces it by
    /// the gRPC metadata `x-context-guard-upstream`, and agentgateway by the name of its target.
    pub upstream: String,
    /// The request headers whose values identify callers. Answers of one caller are never shown to
    /// another.
    pub principal_headers: Vec<String>,
    /// The identity of every caller, whatever its headers.
    pub principal: Option<String>,
    /// Globs of the paths that speak MCP.
    pub mcp: Vec<String>,
    /// Endpoints of plain JSON APIs. The first rule that matches applies.
    pub apis: Vec<ExternalApi>,
    /// The maximum size, in bytes, of the body of an MCP answer, and of an event in a stream.
    #[schemars(range(min = 1))]
    pub max_body: usize,
    /// The maximum size, in bytes, of a request, and of an answer of a JSON API.
    #[schemars(range(min = 1))]
    pub max_buffered: usize,
    /// The treatment of bodies that exceed `maxBody` or `maxBuffered`.
    pub over_max_body: OverMaxBody,
}

/// A rule for endpoints of a plain JSON API.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalApi {
    /// The HTTP method, or `*` for any.
    #[serde(default = "get")]
    pub method: String,
    /// A glob that the path of a request must match, without its query.
    pub path: String,
    /// Query parameters that belong to the API although the guard has parameters of the same
    /// names. The guard's then need the prefix `_guard_`.
    #[serde(default)]
    pub own: Vec<String>,
    /// If false, answers pass unchanged: this exempts endpoints from a later rule.
    #[serde(default = "yes")]
    pub guard: bool,
}

/// The treatment of a body that exceeds a limit.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OverMaxBody {
    /// An error replaces the body.
    #[default]
    Refuse,
    /// The body passes unchanged, whatever its size.
    Forward,
}

fn get() -> String {
    "GET".to_owned()
}

fn yes() -> bool {
    true
}

impl Default for External {
    fn default() -> Self {
        let settings = protocol::Settings::default();
        Self {
            listen: "127.0.0.1:8811".to_owned(),
            upstream: settings.upstream,
            principal_headers: settings.principal_headers,
            principal: settings.principal,
            mcp: settings.mcp,
            apis: Vec::new(),
            max_body: settings.max_body,
            max_buffered: settings.max_buffered,
            over_max_body: OverMaxBody::Refuse,
        }
    }
}

impl External {
    /// Returns the settings of an HTTP exchange.
    #[must_use]
    pub fn settings(&self) -> protocol::Settings {
        let api = |api: &ExternalApi| protocol::Api {
            method: api.method.clone(),
            path: api.path.clone(),
            own: api.own.clone(),
            guard: api.guard,
        };
        protocol::Settings {
            upstream: self.upstream.clone(),
            principal_headers: self.principal_headers.clone(),
            principal: self.principal.clone(),
            mcp: self.mcp.clone(),
            apis: self.apis.iter().map(api).collect(),
            max_body: self.max_body,
            max_buffered: self.max_buffered,
            over_max_body: match self.over_max_body {
                OverMaxBody::Refuse => protocol::OverLimit::Refuse,
                OverMaxBody::Forward => protocol::OverLimit::Forward,
            },
        }
    }
}
