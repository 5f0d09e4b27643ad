//! The contents of the gateway file. Every member but `upstreams` has a default.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::guard::{Component, Store};
use super::secret::Secret;
use crate::options::{CacheOptions, RecordingOptions, RolloutOptions};

/// The configuration of a gateway.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// The listen address; loopback by default.
    pub listen: String,
    /// The path of the MCP endpoint.
    pub path: String,
    /// Certificate and key. Without them the endpoint uses plain HTTP.
    pub tls: Option<Tls>,
    /// The policy of the guard: the path of a file, or the policy itself.
    pub policy: Option<Policy>,
    /// The guard component. Without a file, the embedded one.
    pub component: Component,
    /// Watches this file, the policy, the component and the files of signing keys, and deploys
    /// their changes. Changes of other settings need a restart.
    pub watch: bool,
    /// The rollout of a new component or policy, and its rollback.
    pub rollout: RolloutOptions,
    /// The store of snapshots, which live until their cursors expire.
    pub store: Store,
    /// The cache for answers of read-only tools. Without it nothing is cached.
    pub cache: Option<CacheOptions>,
    /// The recording of traffic for replays. Without it nothing is recorded.
    pub recording: Option<RecordingOptions>,
    /// The naming of tools and prompts: with or without the name of their upstream.
    pub naming: Naming,
    /// The maximum number of entries per page of a merged list.
    #[schemars(range(min = 1))]
    pub list_page: usize,
    /// The upstreams, in the order of merged lists.
    pub upstreams: Vec<Upstream>,
    /// The rules for access.
    pub access: Access,
    /// The limits of requests.
    pub limits: Limits,
    /// The endpoint for operators. Without it there is none.
    pub admin: Option<Admin>,
    /// The audit log. Without it there is none.
    pub audit: Option<Audit>,
    /// The records about requests.
    pub telemetry: Telemetry,
    /// Secrets that sign cursors. The first signs, all verify. Those of `${file:…}` may change
    /// while the gateway runs. Without any, CONTEXT_GUARD_SIGNING_KEYS is used, or a random key.
    pub signing_keys: Vec<Secret>,
    /// The folder that relative paths start from.
    #[serde(skip)]
    #[schemars(skip)]
    pub folder: PathBuf,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8808".to_owned(),
            path: "/mcp".to_owned(),
            tls: None,
            policy: None,
            component: Component::default(),
            watch: true,
            rollout: RolloutOptions::default(),
            store: Store::default(),
            cache: None,
            recording: None,
            naming: Naming::default(),
            list_page: 500,
            upstreams: Vec::new(),
            access: Access::default(),
            limits: Limits::default(),
            admin: None,
            audit: None,
            telemetry: Telemetry::default(),
            signing_keys: Vec::new(),
            folder: PathBuf::new(),
        }
    }
}

impl Config {
    /// Calls `see` with every secret and its path.
    pub(super) fn each_secret(&mut self, see: &mut dyn FnMut(Vec<String>, &mut Secret)) {
        let way = |steps: &[&str]| steps.iter().map(|step| (*step).to_owned()).collect();
        for (at, upstream) in self.upstreams.iter_mut().enumerate() {
            let at = at.to_string();
            for (member, map) in [("headers", &mut upstream.headers), ("env", &mut upstream.env)] {
                for (name, secret) in map {
                    see(way(&["upstreams", &at, member, name]), secret);
                }
            }
        }
        if let Some(admin) = &mut self.admin
            && let Some(token) = &mut admin.token
        {
            see(way(&["admin", "token"]), token);
        }
        see(way(&["store", "url"]), &mut self.store.url);
        for (at, key) in self.signing_keys.iter_mut().enumerate() {
            see(way(&["signingKeys", &at.to_string()]), key);
        }
    }
}

/// The policy of the guard.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Policy {
    /// The path of a .yaml, .json or .toml file.
    File(PathBuf),
    /// The policy itself.
    Inline(serde_json::Map<String, serde_json::Value>),
}

/// Certificate and key in PEM format.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tls {
    /// The certificate with its chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The naming of tools and prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Naming {
    /// Prefixed with several upstreams, plain with one.
    #[default]
    Auto,
    /// `upstream__tool`.
    Prefixed,
    /// The names of the upstream.
    Plain,
}

/// An upstream: one of `command`, `url` and `rest`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Upstream {
    /// The name: the part before `__` in tool names, and before `::` in policy rules.
    pub name: String,
    /// An MCP server over standard input and output: the program and its arguments.
    pub command: Vec<String>,
    /// The environment variables of the command, in addition to those of the gateway.
    pub env: BTreeMap<String, Secret>,
    /// The working folder of the command.
    pub cwd: Option<PathBuf>,
    /// The callers that share a process, or a session of an HTTP server.
    pub isolation: Isolation,
    /// An MCP server over Streamable HTTP.
    pub url: Option<String>,
    /// A JSON API.
    pub rest: Option<Rest>,
    /// Headers that are added to every request to the upstream.
    pub headers: BTreeMap<String, Secret>,
    /// The treatment of the client's Authorization header.
    pub authorization: Authorization,
    /// The protocol modes that the upstream supports.
    pub era: ProtocolModeSetting,
    /// The limits of the upstream.
    pub limits: UpstreamLimits,
}

/// The callers that share a process or session of an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Isolation {
    /// Each client session has its own. Requests without a session share one per principal.
    #[default]
    Session,
    /// All sessions of a principal share one.
    Principal,
    /// All callers share one. Requests from the server to a client are refused then.
    Shared,
}

/// The treatment of the client's Authorization header on the way to an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Authorization {
    /// Forward it unless the gateway authenticates callers (access.keys, access.jwt).
    #[default]
    Auto,
    /// Forward it.
    Forward,
    /// Drop it. `headers` may set another.
    Drop,
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
    /// The path; `*` matches any part of it.
    pub path: String,
    /// True if answers are shaped.
    #[serde(default = "yes")]
    pub guard: bool,
    /// True if requests are allowed.
    #[serde(default = "yes")]
    pub allow: bool,
    /// Query parameters that belong to the API although the guard has one of the same name. The
    /// guard's parameter has the prefix `_guard_` then.
    #[serde(default)]
    pub own: Vec<String>,
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
    /// Seconds until an answer must begin, and between its parts.
    #[schemars(range(min = 1))]
    pub timeout_seconds: u64,
    /// Seconds for starting the upstream and negotiating the protocol version.
    #[schemars(range(min = 1))]
    pub start_seconds: u64,
    /// The maximum number of concurrent requests.
    #[schemars(range(min = 1))]
    pub concurrency: usize,
    /// Failures in a row that open the circuit breaker.
    #[schemars(range(min = 1))]
    pub failures: u32,
    /// Seconds for which the circuit breaker stays open, doubled with each further failure up to a
    /// minute.
    #[schemars(range(min = 1))]
    pub pause_seconds: u64,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        Self {
            timeout_seconds: 30,
            start_seconds: 20,
            concurrency: 64,
            failures: 5,
            pause_seconds: 2,
        }
    }
}

impl UpstreamLimits {
    /// Returns the timeout of an answer.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    /// Returns the timeout of a start.
    #[must_use]
    pub fn start(&self) -> Duration {
        Duration::from_secs(self.start_seconds)
    }
}

/// The rules for access.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Access {
    /// A file of hashed API keys, written by `context-guard key new`. With it or `jwt`, all callers
    /// must authenticate.
    pub keys: Option<PathBuf>,
    /// The validation of bearer tokens that are JWTs.
    pub jwt: Option<Jwt>,
    /// The allowed addresses and networks; empty allows all.
    #[schemars(with = "Vec<String>")]
    pub allow_ips: Vec<IpNet>,
    /// The allowed Host headers in addition to loopback, with or without a port.
    pub allow_hosts: Vec<String>,
    /// The allowed Origin headers in addition to loopback.
    pub allow_origins: Vec<String>,
    /// The rate limit of each principal and each address.
    pub rate_limit: RateLimit,
}

/// The validation of JWTs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Jwt {
    /// The URL of the key set. It is fetched again when a token names an unknown key.
    pub jwks_url: Option<String>,
    /// The file of the key set, instead of a URL.
    pub jwks_file: Option<PathBuf>,
    /// The required issuer.
    pub issuer: String,
    /// The required audience.
    pub audience: String,
}

/// A rate limit for each principal and each address.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RateLimit {
    /// Requests per minute; 0 disables the limit.
    pub per_minute: u32,
    /// The maximum burst; 0 means the requests of one minute.
    pub burst: u32,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { per_minute: 100, burst: 0 }
    }
}

/// The limits of requests to the gateway.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// The maximum length of a request, in bytes.
    #[schemars(range(min = 1))]
    pub request_bytes: usize,
    /// The maximum length of an upstream's answer, in bytes.
    #[schemars(range(min = 1))]
    pub response_bytes: usize,
    /// The maximum number of concurrent requests. Idle streams do not count.
    #[schemars(range(min = 1))]
    pub concurrency: usize,
    /// The maximum number of queued requests; further ones are refused with 503.
    pub queue: usize,
    /// The maximum number of sessions; the least recently used one ends first.
    #[schemars(range(min = 1))]
    pub sessions: usize,
    /// Seconds after which an idle session ends.
    #[schemars(range(min = 1))]
    pub session_idle_seconds: u64,
    /// Seconds for requests in flight when the gateway stops.
    pub drain_seconds: u64,
    /// The maximum bytes of snapshots in memory.
    #[schemars(range(min = 1))]
    pub store_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: 10 << 20,
            response_bytes: 10 << 20,
            concurrency: 256,
            queue: 1024,
            sessions: 10_000,
            session_idle_seconds: 1_800,
            drain_seconds: 20,
            store_bytes: 256 << 20,
        }
    }
}

/// The endpoint for operators.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Admin {
    /// The listen address.
    #[serde(default = "admin_address")]
    pub listen: String,
    /// The bearer token of its /admin paths. Without one they answer loopback only.
    #[serde(default)]
    pub token: Option<Secret>,
}

fn admin_address() -> String {
    "127.0.0.1:8809".to_owned()
}

/// The audit log: one JSON object per line.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Audit {
    /// The folder of its files, one per day.
    pub folder: PathBuf,
    /// Days after which files are deleted.
    #[serde(default = "month")]
    #[schemars(range(min = 1))]
    pub retention_days: usize,
}

fn month() -> usize {
    30
}

/// The records about requests.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Telemetry {
    /// The maximum number of records in memory.
    pub ring: usize,
    /// The share of answers whose tokens are counted exactly, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub sample: f64,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { ring: 10_000, sample: 0.01 }
    }
}
