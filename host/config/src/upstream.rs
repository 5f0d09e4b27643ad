//! The upstreams in a gateway file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use context_guard_protocol::{glob, path};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::Secret;
use super::tls::UpstreamTls;
use super::upstream_sandbox::UpstreamSandbox;

/// An upstream: one of `command`, `url` and `rest`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Upstream {
    /// The name: the part before `__` in tool names, and before `::` in policy rules.
    pub name: String,
    /// True if the gateway serves the upstream. With false, nothing is started, and references to
    /// variables and files are not resolved.
    pub enabled: bool,
    /// An MCP server over standard input and output: the program and its arguments. They may
    /// contain `${env:NAME}` and `${file:PATH}`.
    pub command: Vec<String>,
    /// The environment variables of the command, in addition to those that it inherits.
    pub env: BTreeMap<String, Secret>,
    /// The names of variables that the command inherits from the gateway, in addition to PATH,
    /// HOME, the language, folders and proxies. A `*` at the end matches any rest of a name.
    pub inherit_env: Vec<String>,
    /// The variables that hold the gateway's own secrets, which no command inherits.
    #[serde(skip)]
    #[schemars(skip)]
    pub withheld_env: Vec<String>,
    /// The level at which the lines are logged that the command writes to standard error.
    pub stderr_level: StderrLevel,
    /// The working folder of the command. It may contain `${env:NAME}`.
    pub cwd: Option<PathBuf>,
    /// The sandbox of the command. Without it, the command may do what the account of the gateway
    /// may do. It is refused on other systems than Linux.
    pub sandbox: Option<UpstreamSandbox>,
    /// The callers that share a process, or a session of an HTTP server.
    pub isolation: Isolation,
    /// An MCP server over HTTP. The URL may contain `${env:NAME}` and `${file:PATH}`.
    pub url: Option<String>,
    /// The HTTP transport of `url`.
    pub transport: HttpTransport,
    /// A JSON API.
    pub rest: Option<Rest>,
    /// The client certificate and the certificate authorities of requests to an https:// URL.
    /// Without it, the gateway has no certificate and trusts the authorities of the system.
    pub tls: Option<UpstreamTls>,
    /// Headers that are added to every request to the upstream.
    pub headers: BTreeMap<String, Secret>,
    /// The treatment of the client's credentials.
    pub authorization: Authorization,
    /// The login at the upstream by OAuth, with a token for each principal. `oauth: {}` discovers
    /// everything. `context-guard login` obtains the tokens.
    pub oauth: Option<OAuth>,
    /// The protocol modes that the upstream supports.
    pub era: ProtocolModeSetting,
    /// The limits of the upstream.
    pub limits: UpstreamLimits,
}

/// The level at which the standard error of a command is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StderrLevel {
    /// No line is logged, except the last ones if the command ends unexpectedly, as at any level.
    Off,
    /// Lines are logged with `serve -v`, or if CONTEXT_GUARD_LOG allows it.
    #[default]
    Debug,
    /// Lines are logged at the default level of the log.
    Info,
    /// Lines are logged as warnings.
    Warn,
}

impl Default for Upstream {
    fn default() -> Self {
        Self {
            name: String::new(),
            enabled: true,
            command: Vec::new(),
            env: BTreeMap::new(),
            inherit_env: Vec::new(),
            withheld_env: Vec::new(),
            stderr_level: StderrLevel::default(),
            cwd: None,
            sandbox: None,
            isolation: Isolation::default(),
            url: None,
            transport: HttpTransport::default(),
            rest: None,
            tls: None,
            headers: BTreeMap::new(),
            authorization: Authorization::default(),
            oauth: None,
            era: ProtocolModeSetting::default(),
            limits: UpstreamLimits::default(),
        }
    }
}

impl Upstream {
    /// Calls `see` with every text that may contain references, and with its path in the upstream's
    /// settings.
    pub(super) fn each_reference(&mut self, see: &mut dyn FnMut(&[&str], &mut String)) {
        for (index, argument) in self.command.iter_mut().enumerate() {
            see(&["command", &index.to_string()], argument);
        }
        if let Some(url) = &mut self.url {
            see(&["url"], url);
        }
        if let Some(rest) = &mut self.rest {
            see(&["rest", "url"], &mut rest.url);
        }
        // A path that is not Unicode cannot come from a gateway file.
        let mut see_path = |at: &[&str], path: &mut PathBuf| {
            let mut text = path.to_string_lossy().into_owned();
            see(at, &mut text);
            *path = PathBuf::from(text);
        };
        if let Some(cwd) = &mut self.cwd {
            see_path(&["cwd"], cwd);
        }
        if let Some(sandbox) = &mut self.sandbox {
            sandbox.each_path(&mut |member, index, path| {
                see_path(&["sandbox", member, &index.to_string()], path);
            });
        }
    }
}

/// The login at an upstream by OAuth.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OAuth {
    /// The issuer URL of the authorization server. Without it, the metadata of the upstream names
    /// the server.
    pub authorization_server: Option<String>,
    /// The id of a client that the operator registered. Without it, the login registers one.
    pub client_id: Option<String>,
    /// The secret of that client, if it has one.
    pub client_secret: Option<Secret>,
    /// The scopes to request. Without any, those that the upstream proposes.
    pub scopes: Vec<String>,
    /// The port of 127.0.0.1 to which logins are redirected, if the registered client needs a
    /// certain one. 0 selects a free one.
    pub redirect_port: u16,
}

/// The callers that share a process or session of an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Isolation {
    /// Each client session has a process or session of its own. Requests without a session share
    /// one per principal.
    #[default]
    Session,
    /// All sessions of a principal share a process or session.
    Principal,
    /// All callers share a process or session. Requests from the server to a client are refused
    /// then.
    Shared,
}

/// The treatment of the client's credentials (Authorization, Cookie, X-Api-Key) on the way to an
/// upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Authorization {
    /// Forwards them to a single upstream unless the gateway authenticates callers (access.keys,
    /// access.jwt, tls.clientCa).
    #[default]
    Auto,
    /// Forwards the credentials.
    Forward,
    /// Drops the credentials. `headers` may set others.
    Drop,
}

/// The HTTP transport of an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HttpTransport {
    /// Streamable HTTP, or HTTP+SSE if the server refuses `initialize` with 400, 404 or 405.
    #[default]
    Auto,
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

/// The protocol modes that an upstream supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ProtocolModeSetting {
    /// Detect it.
    #[default]
    Auto,
    /// 2024-11-05 to 2025-11-25: initialize and sessions.
    #[serde(rename = "legacy")]
    Stateful,
    /// 2026-07-28 and later: stateless.
    #[serde(rename = "modern")]
    Stateless,
    /// Both.
    Both,
}

/// A JSON API, guarded at its own paths.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rest {
    /// The base URL: scheme, host, port, and a path that is put before those of requests.
    pub url: String,
    /// The path prefix of the requests to this API.
    #[serde(default = "slash")]
    pub prefix: String,
    /// Settings by method and path; the first match applies. Without any, GET is guarded and all
    /// other methods pass.
    #[serde(default)]
    pub endpoints: Vec<RestEndpoint>,
}

fn slash() -> String {
    "/".to_owned()
}

/// Settings of an endpoint of a JSON API.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestEndpoint {
    /// The method, or `*`.
    #[serde(default = "any")]
    pub method: String,
    /// The whole path, which begins with the prefix; `*` matches any part of it.
    pub path: String,
    /// True if answers are shaped.
    #[serde(default = "yes")]
    pub guard: bool,
    /// True if matching requests reach the API. Others are refused.
    #[serde(default = "yes")]
    pub allow: bool,
    /// Query parameters that belong to the API although the guard has one of the same name. The
    /// guard's parameter has the prefix `_guard_` then.
    #[serde(default)]
    pub own: Vec<String>,
}

impl RestEndpoint {
    /// Returns true if the settings apply to a request. `path` must be in the normal form of
    /// [`normalize`](context_guard_protocol::path::normalize). A rule that denies access also
    /// matches other spellings of its paths that servers treat as equal.
    #[must_use]
    pub fn matches(&self, method: &str, path: &str) -> bool {
        let is_denied = || {
            let key = path::deny_key(path);
            !self.allow && glob::matches(&self.path.to_lowercase(), &key)
        };
        (self.method == "*" || self.method.eq_ignore_ascii_case(method))
            && (glob::matches(&self.path, path) || is_denied())
    }
}

fn any() -> String {
    "*".to_owned()
}

fn yes() -> bool {
    true
}

/// The limits of an upstream.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UpstreamLimits {
    /// Seconds until a command must read a request, until an answer must begin, and between its
    /// parts.
    #[schemars(range(min = 1))]
    pub timeout_seconds: u64,
    /// Seconds until a call must be finished, however often the upstream sends something. The time
    /// in which the client has a question to answer does not count.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub call_seconds: u64,
    /// The maximum number of notifications that the upstream may send during a call, such as
    /// progress. Further ones are dropped.
    pub call_notifications: usize,
    /// Seconds for starting the upstream and negotiating the protocol version.
    #[schemars(range(min = 1))]
    pub start_seconds: u64,
    /// The maximum number of concurrent requests. A principal may have half of them, but at least
    /// 8, and a session a quarter, but at least 4. One of several is left to other principals.
    /// Further requests take turns.
    #[schemars(range(min = 1))]
    pub concurrency: usize,
    /// Failures in a row that open the circuit breaker. Failures that may be the fault of a
    /// caller's request count at most a share for each caller: this number, divided by the number
    /// of callers within the last minute, but at least one.
    #[schemars(range(min = 1))]
    pub failures: u32,
    /// Seconds for which the circuit breaker is open, doubled with each further failure up to a
    /// minute.
    #[schemars(range(min = 1))]
    pub pause_seconds: u64,
    /// The maximum address space of each process of the command, in bytes (RLIMIT_AS). Programs
    /// that reserve much of it, such as node, need several times the memory that they use. It is
    /// refused on macOS and Windows.
    #[schemars(range(min = 1_048_576))]
    pub memory_bytes: Option<u64>,
    /// The maximum number of open files of each process of the command (RLIMIT_NOFILE). It is
    /// refused on Windows.
    #[schemars(range(min = 3))]
    pub files: Option<u64>,
    /// The maximum number of processes and threads of the account that runs the command, which may
    /// have others (RLIMIT_NPROC). Root has no such limit. It is refused on Windows.
    #[schemars(range(min = 1))]
    pub processes: Option<u64>,
    /// Seconds of processor time, after which the system ends each process of the command
    /// (RLIMIT_CPU). It is refused on Windows.
    #[schemars(range(min = 1))]
    pub cpu_seconds: Option<u64>,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        Self {
            timeout_seconds: 30,
            call_seconds: 3_600,
            call_notifications: 100_000,
            start_seconds: 20,
            concurrency: 64,
            failures: 5,
            pause_seconds: 2,
            memory_bytes: None,
            files: None,
            processes: None,
            cpu_seconds: None,
        }
    }
}

impl UpstreamLimits {
    /// Returns the time until an answer of the upstream must begin, and between its parts.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    /// Returns the time until a call must be finished.
    #[must_use]
    pub fn call(&self) -> Duration {
        Duration::from_secs(self.call_seconds)
    }

    /// Returns the time for starting the upstream and negotiating the protocol version.
    #[must_use]
    pub fn start(&self) -> Duration {
        Duration::from_secs(self.start_seconds)
    }
}
