//! What stands in the file. Every member has a default but the upstreams.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::guard::{Component, Store};
use super::secret::Secret;
use crate::options::{CacheOptions, RecordingOptions, RolloutOptions};

/// The gateway: where it listens, what stands behind it, who may come in.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// The address to listen on. Loopback unless you say otherwise.
    pub listen: String,
    /// The path of the MCP endpoint.
    pub path: String,
    /// Certificate and key; without them the endpoint speaks plain HTTP.
    pub tls: Option<Tls>,
    /// The policy of the guard: the path of a file, or the policy itself.
    pub policy: Option<Policy>,
    /// The guard component. Without a file, the one inside the program.
    pub component: Component,
    /// Whether this file, the policy, the component and the files of signing keys are watched, and taken over when they change. What else stands in this file needs a restart.
    pub watch: bool,
    /// How a new component or policy comes in, and when it is taken back.
    pub rollout: RolloutOptions,
    /// Where snapshots are kept until their cursors expire.
    pub store: Store,
    /// Answers of read-only tools that are kept and given again. Without it none are.
    pub cache: Option<CacheOptions>,
    /// Traffic on record, for dry runs of policies. Without it there is none.
    pub recording: Option<RecordingOptions>,
    /// Whether names of tools and prompts get the upstream's name before them.
    pub naming: Naming,
    /// The most entries of one page of a merged list.
    #[schemars(range(min = 1))]
    pub list_page: usize,
    /// What stands behind the gateway, in the order of merged lists.
    pub upstreams: Vec<Upstream>,
    /// Who may come in.
    pub access: Access,
    /// What a request may take.
    pub limits: Limits,
    /// The endpoint for operators. Without it there is none.
    pub admin: Option<Admin>,
    /// The audit log. Without it there is none.
    pub audit: Option<Audit>,
    /// What is recorded of requests.
    pub telemetry: Telemetry,
    /// Secrets that sign cursors: the first signs, all verify. Those of `${file:…}` may change while the gateway runs. Without any, CONTEXT_GUARD_SIGNING_KEYS, or one made up for this run.
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
    /// Shows every secret, with the way to it.
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

/// A policy.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Policy {
    /// The path of a .yaml, .json or .toml file.
    File(PathBuf),
    /// The policy itself.
    Inline(serde_json::Map<String, serde_json::Value>),
}

/// Certificate and key, both PEM.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tls {
    /// The certificate with its chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How tools and prompts are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Naming {
    /// Prefixed where there are several upstreams, plain where there is one.
    #[default]
    Auto,
    /// `upstream__tool`.
    Prefixed,
    /// As the upstream has them.
    Plain,
}

/// What stands behind the gateway: one of `command`, `url` and `rest`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Upstream {
    /// Its name: stands before `__` in names of tools, and in policy rules before `::`.
    pub name: String,
    /// An MCP server that speaks over its standard input and output: the program and its arguments.
    pub command: Vec<String>,
    /// The environment variables of the command, beside the gateway's own.
    pub env: BTreeMap<String, Secret>,
    /// The working folder of the command.
    pub cwd: Option<PathBuf>,
    /// Who shares a process, or a session of an HTTP server.
    pub isolation: Isolation,
    /// An MCP server that speaks Streamable HTTP.
    pub url: Option<String>,
    /// A plain JSON API.
    pub rest: Option<Rest>,
    /// Headers that every request to the upstream gets.
    pub headers: BTreeMap<String, Secret>,
    /// What becomes of the client's Authorization header.
    pub authorization: Authorization,
    /// The revisions of MCP that it speaks.
    pub era: ProtocolModeSetting,
    /// What it may take.
    pub limits: UpstreamLimits,
}

/// Who shares a process or session of an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Isolation {
    /// Every session of a client has its own. Requests without a session share by principal.
    #[default]
    Session,
    /// All sessions of a principal share one.
    Principal,
    /// Everybody shares one. Requests of the server to a client are refused then.
    Shared,
}

/// What becomes of the client's Authorization header on the way to an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Authorization {
    /// It goes on unless the gateway itself asks for one (access.keys, access.jwt).
    #[default]
    Auto,
    /// It goes on.
    Forward,
    /// It does not. `headers` may set another.
    Drop,
}

/// The revisions of MCP that an upstream speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ProtocolModeSetting {
    /// It is asked.
    #[default]
    Auto,
    /// 2024-11-05 to 2025-11-25: initialize, sessions.
    #[serde(rename = "legacy")]
    Stateful,
    /// 2026-07-28 and later: stateless.
    #[serde(rename = "modern")]
    Stateless,
    /// Both.
    Both,
}

/// A plain JSON API behind the gateway, guarded at the same paths.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rest {
    /// Where it is: scheme, host, port, and a path that is put before those of requests.
    pub url: String,
    /// Requests below this path are for it.
    #[serde(default = "slash")]
    pub prefix: String,
    /// Flags by method and path, the first that matches counts. Without any, GET is guarded and everything else passes.
    #[serde(default)]
    pub endpoints: Vec<RestEndpoint>,
}

fn slash() -> String {
    "/".to_owned()
}

/// Flags of an endpoint of a JSON API.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestEndpoint {
    /// The method, or `*`.
    #[serde(default = "any")]
    pub method: String,
    /// The path; `*` stands for any part of it.
    pub path: String,
    /// Whether its answers are shaped.
    #[serde(default = "yes")]
    pub guard: bool,
    /// Whether it may be called at all.
    #[serde(default = "yes")]
    pub allow: bool,
    /// Names of query parameters that are the API's, though the guard has one of that name. The guard's is written with `_guard_` before it then.
    #[serde(default)]
    pub own: Vec<String>,
}

fn any() -> String {
    "*".to_owned()
}

fn yes() -> bool {
    true
}

/// What an upstream may take.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UpstreamLimits {
    /// Seconds until an answer must have begun, and between its parts.
    #[schemars(range(min = 1))]
    pub timeout_seconds: u64,
    /// Seconds that starting it, and agreeing on a revision, may take.
    #[schemars(range(min = 1))]
    pub start_seconds: u64,
    /// Requests to it at the same time.
    #[schemars(range(min = 1))]
    pub concurrency: usize,
    /// Failures in a row after which it is left alone for a while: the circuit breaker.
    #[schemars(range(min = 1))]
    pub failures: u32,
    /// Seconds that it is left alone, doubled with each further failure up to a minute.
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
    /// How long an answer may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    /// How long a start may take.
    #[must_use]
    pub fn start(&self) -> Duration {
        Duration::from_secs(self.start_seconds)
    }
}

/// Who may come in.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Access {
    /// A file of hashed API keys, as `context-guard key new` writes it. With it or `jwt`, nobody comes in without one of them.
    pub keys: Option<PathBuf>,
    /// Bearer tokens that are JWTs.
    pub jwt: Option<Jwt>,
    /// Addresses and networks that may come in; empty: all.
    #[schemars(with = "Vec<String>")]
    pub allow_ips: Vec<IpNet>,
    /// Names that the Host header may have beside those of loopback, with or without a port.
    pub allow_hosts: Vec<String>,
    /// What the Origin header may be beside loopback origins.
    pub allow_origins: Vec<String>,
    /// How many requests a key, and an address, may send.
    pub rate_limit: RateLimit,
}

/// How JWTs are validated.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Jwt {
    /// Where the keys are, asked again when a token names one that is not known.
    pub jwks_url: Option<String>,
    /// A file with the keys instead.
    pub jwks_file: Option<PathBuf>,
    /// The issuer that tokens must have.
    pub issuer: String,
    /// The audience that tokens must have.
    pub audience: String,
}

/// A token bucket for each key and each address.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RateLimit {
    /// Requests a minute; 0: no limit.
    pub per_minute: u32,
    /// Requests that may come at once; 0: as many as a minute's.
    pub burst: u32,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { per_minute: 100, burst: 0 }
    }
}

/// What requests may take of the gateway.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// The longest request, in bytes.
    #[schemars(range(min = 1))]
    pub request_bytes: usize,
    /// The longest answer of an upstream, in bytes.
    #[schemars(range(min = 1))]
    pub response_bytes: usize,
    /// Requests that are worked on at the same time. Streams that only wait do not count.
    #[schemars(range(min = 1))]
    pub concurrency: usize,
    /// Requests that may wait for their turn; what comes beyond is refused (503).
    pub queue: usize,
    /// Sessions at the same time; the one that was idle longest goes first.
    #[schemars(range(min = 1))]
    pub sessions: usize,
    /// Seconds after which an idle session ends.
    #[schemars(range(min = 1))]
    pub session_idle_seconds: u64,
    /// Seconds that requests in flight get to end when the gateway stops.
    pub drain_seconds: u64,
    /// Bytes of snapshots that are kept in memory.
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
    /// Its address.
    #[serde(default = "admin_address")]
    pub listen: String,
    /// What its /admin paths ask for as a bearer token. Without one they answer loopback alone.
    #[serde(default)]
    pub token: Option<Secret>,
}

fn admin_address() -> String {
    "127.0.0.1:8809".to_owned()
}

/// The audit log: who asked what, one JSON object a line.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Audit {
    /// Where its files go, one a day.
    pub folder: PathBuf,
    /// Days that they are kept.
    #[serde(default = "month")]
    #[schemars(range(min = 1))]
    pub retention_days: usize,
}

fn month() -> usize {
    30
}

/// What is recorded of requests.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Telemetry {
    /// Records that are kept in memory for queries.
    pub ring: usize,
    /// The share of answers whose tokens are counted with a real tokenizer, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub sample: f64,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { ring: 10_000, sample: 0.01 }
    }
}
