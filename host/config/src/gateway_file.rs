//! The contents of the gateway file. Every member but `upstreams` has a default.

use std::path::PathBuf;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::alerts::{AlertSettings, AlertWebhook};
use super::bundle::Bundle;
use super::code::CodeSettings;
use super::external::External;
use super::filter_store::FilterStore;
use super::fleet::Fleet;
use super::guard::{Component, Store};
use super::records::{Audit, Telemetry};
use super::secret::Secret;
use super::timeouts::Timeouts;
use super::tls::Tls;
use super::upstream::Upstream;
use crate::options::{CacheOptions, HistorySettings, RecordingOptions, RolloutOptions};

/// The configuration of a gateway.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// The listen address; loopback by default.
    #[schemars(example = "127.0.0.1:8808")]
    pub listen: String,
    /// The path of the MCP endpoint.
    pub path: String,
    /// Certificates and key, which are read again when their files change. Without them the
    /// endpoint uses plain HTTP.
    pub tls: Option<Tls>,
    /// The policy of the guard: the path of a file, or the policy itself.
    pub policy: Option<Policy>,
    /// The guard component. Without a file, the embedded one.
    pub component: Component,
    /// A signed bundle for all gateways that read it. Without it, policy, component and signing
    /// keys are those of this file.
    pub bundle: Option<Bundle>,
    /// Watches this file, the policy, the component and the files of signing keys, and deploys
    /// their changes and those of `alerts`. Changes of other settings need a restart.
    pub watch: bool,
    /// The rollout of a new component or policy, and its rollback.
    pub rollout: RolloutOptions,
    /// The store of snapshots, which live until their cursors expire.
    pub store: Store,
    /// The other replicas of this gateway. Without it, sessions work at this process only.
    pub fleet: Option<Fleet>,
    /// The endpoint for filters in other proxies, which share the store of this gateway. Without it
    /// there is none.
    pub filter_store: Option<FilterStore>,
    /// The cache for answers of read-only tools. Without it nothing is cached.
    pub cache: Option<CacheOptions>,
    /// The recording of traffic for replays. Without it nothing is recorded.
    pub recording: Option<RecordingOptions>,
    /// Programs of models over tools and answers. Off by default.
    pub code: CodeSettings,
    /// The naming of tools and prompts: with or without the name of their upstream.
    pub naming: Naming,
    /// The maximum number of entries per page of a merged list.
    #[schemars(range(min = 1))]
    pub list_page: usize,
    /// The upstreams, in the order of merged lists.
    pub upstreams: Vec<Upstream>,
    /// The guard as a service for other gateways, instead of `upstreams`. `ext-proc` and `ext-mcp`
    /// read it, and `serve` does not.
    pub external: Option<External>,
    /// The store of tokens for upstreams with `oauth`.
    pub tokens: Tokens,
    /// The rules for access.
    pub access: Access,
    /// The limits of requests.
    pub limits: Limits,
    /// The time limits of client connections and of requests that arrive slowly.
    pub timeouts: Timeouts,
    /// The endpoint for operators. Without it there is none.
    pub admin: Option<Admin>,
    /// The audit log. Without it there is none.
    pub audit: Option<Audit>,
    /// The records about requests.
    pub telemetry: Telemetry,
    /// The alerts, in addition to the built-in ones.
    pub alerts: Vec<AlertSettings>,
    /// The URL that receives changes of alerts. Without it there is none.
    pub alert_webhook: Option<AlertWebhook>,
    /// The history of calls. Without it, `serve` has none, and `stdio` has one in the state folder
    /// of the user.
    pub history: Option<HistorySettings>,
    /// Secrets that sign cursors. The first signs, all verify. Those of `${file:…}` may change
    /// while the gateway runs. Without any, CONTEXT_GUARD_SIGNING_KEYS is used (keys separated by
    /// commas). Without both, `stdio` keeps a key in the state folder of the user, and `serve` uses
    /// a random one until it ends.
    pub signing_keys: Vec<Secret>,
    /// Verifies with a signing key that was removed too early, until the last cursors that it
    /// signed have expired. Set it to false to revoke a leaked key at once.
    pub keep_dropped_keys: bool,
    /// The names of the upstreams with `enabled: false`, which are not among `upstreams`.
    #[serde(skip)]
    #[schemars(skip)]
    pub disabled: Vec<String>,
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
            bundle: None,
            watch: true,
            rollout: RolloutOptions::default(),
            store: Store::default(),
            fleet: None,
            filter_store: None,
            cache: None,
            recording: None,
            code: CodeSettings::default(),
            naming: Naming::default(),
            list_page: 500,
            upstreams: Vec::new(),
            external: None,
            tokens: Tokens::default(),
            access: Access::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            admin: None,
            audit: None,
            telemetry: Telemetry::default(),
            alerts: Vec::new(),
            alert_webhook: None,
            history: None,
            signing_keys: Vec::new(),
            keep_dropped_keys: true,
            disabled: Vec::new(),
            folder: PathBuf::new(),
        }
    }
}

impl Config {
    /// Returns true if callers must authenticate, by a key, a token or a client certificate.
    #[must_use]
    pub fn authenticates_callers(&self) -> bool {
        self.access.keys.is_some() || self.access.jwt.is_some() || self.uses_client_certificates()
    }

    /// Returns true if clients need a certificate.
    #[must_use]
    pub fn uses_client_certificates(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some())
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

/// The naming of tools and prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Naming {
    /// Prefixed with several upstreams, plain with one.
    #[default]
    Auto,
    /// `upstream__tool`. Names that models refuse are replaced.
    Prefixed,
    /// The names of the upstream.
    Plain,
}

/// The store of OAuth tokens, which are encrypted.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Tokens {
    /// The folder of the tokens. Without it, `tokens` in the state folder of the user.
    pub folder: Option<PathBuf>,
    /// The key that encrypts the tokens: at least 32 characters. Without it,
    /// CONTEXT_GUARD_TOKEN_KEY, else a file in the folder that the gateway creates.
    pub key: Option<Secret>,
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
    /// The addresses and networks of reverse proxies. Behind one, the caller is the last address in
    /// `X-Forwarded-For`, else in `Forwarded`, that is no trusted proxy. The proxy must set or
    /// remove both headers.
    #[schemars(with = "Vec<String>")]
    pub trusted_proxies: Vec<IpNet>,
    /// Requires that connections of `trustedProxies` begin with a header of the PROXY protocol,
    /// version 2, which names the client. Connections of other addresses have none.
    pub proxy_protocol: bool,
    /// The allowed Host headers in addition to loopback, with or without a port. They hold for the
    /// admin endpoint, too. It also accepts addresses, if it listens beyond loopback.
    pub allow_hosts: Vec<String>,
    /// The allowed Origin headers in addition to loopback, also for the admin endpoint.
    pub allow_origins: Vec<String>,
    /// The rate limit of each principal, and of each address for callers that are anonymous or fail
    /// to authenticate.
    pub rate_limit: RateLimit,
}

/// The validation of JWTs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Jwt {
    /// The URL of the key set. It is fetched at the start, and when a token names an unknown key.
    pub jwks_url: Option<String>,
    /// The file of the key set, instead of a URL.
    pub jwks_file: Option<PathBuf>,
    /// The required issuer.
    pub issuer: String,
    /// The required audience.
    pub audience: String,
    /// The public URL of the MCP endpoint, in the metadata for OAuth clients (RFC 9728). Without
    /// it, `audience` if that is a URL, else the Host of the request if that is loopback or in
    /// `allowHosts`.
    #[serde(default)]
    pub resource: Option<String>,
    /// The issuer URLs of the authorization servers that OAuth clients may use. Without any,
    /// `issuer`.
    #[serde(default)]
    pub authorization_servers: Vec<String>,
    /// The scopes that every token needs, in its claim `scope` or `scp`.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Seconds after which the key set is fetched or read again. Keys that it no longer has are
    /// then refused.
    #[serde(default = "five_minutes")]
    #[schemars(range(min = 1))]
    pub refresh_seconds: u64,
}

fn five_minutes() -> u64 {
    300
}

/// A rate limit for each principal and each address.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RateLimit {
    /// Requests per minute; 0 disables the limit. Each message of a batch counts. Without it 100,
    /// and no limit of addresses on loopback.
    pub per_minute: Option<u32>,
    /// The maximum burst; 0 means the requests of one minute.
    pub burst: u32,
}

impl RateLimit {
    /// Returns the requests per minute. 0 means no limit.
    #[must_use]
    pub fn per_minute(&self) -> u32 {
        self.per_minute.unwrap_or(100)
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
    /// The maximum bytes of request bodies that are being received or processed; further requests
    /// are refused with 503. A principal, or an address for anonymous callers, may use half of it.
    #[schemars(range(min = 1))]
    pub buffered_bytes: usize,
    /// The maximum number of client connections. The number of file descriptors that upstreams do
    /// not need may lower it. A further connection closes the one that is idle for longest.
    #[schemars(range(min = 1))]
    pub connections: usize,
    /// The maximum number of connections of one address, or of one IPv6 network (/64). A further
    /// connection closes the one that is idle for longest. Trusted proxies are exempt.
    #[schemars(range(min = 1))]
    pub connections_per_address: usize,
    /// The percentage of the memory limit of the process above which new requests are refused with
    /// 503. The limit is that of its control groups, else the memory of the machine. 100 disables
    /// it. It holds on Linux only.
    #[schemars(range(min = 1, max = 100))]
    pub memory_percent: u8,
    /// The memory limit of the process, in bytes, instead of the detected one. It is refused where
    /// the gateway cannot measure its memory: on other systems than Linux.
    #[schemars(range(min = 1))]
    pub memory_bytes: Option<u64>,
    /// The maximum number of concurrent requests. Idle streams do not count. A request counts until
    /// its answer is available, and each message of a batch counts.
    #[schemars(range(min = 1))]
    pub concurrency: usize,
    /// The maximum number of concurrent requests of a principal, or of an address for anonymous
    /// callers. It holds for all replicas of a fleet together. Without it half of `concurrency` at
    /// each replica, but at least 8, and at most one less than all.
    #[schemars(range(min = 1))]
    pub per_principal: Option<usize>,
    /// The maximum number of concurrent requests of a session. Without it a quarter of
    /// `concurrency`, but at least 4.
    #[schemars(range(min = 1))]
    pub per_session: Option<usize>,
    /// The maximum number of queued requests; further ones are refused with 503. A principal may
    /// have half of them in the queue, and a session a quarter.
    pub queue: usize,
    /// The maximum number of sessions. Beyond it, the least recently used one ends of the principal
    /// with the most sessions.
    #[schemars(range(min = 1))]
    pub sessions: usize,
    /// The maximum number of sessions of a principal, or of an address for anonymous callers; its
    /// least recently used one ends first. Without it a quarter of `sessions`, but at least 4.
    #[schemars(range(min = 1))]
    pub sessions_per_principal: Option<usize>,
    /// The maximum number of open streams that wait for changes. They are those of
    /// `subscriptions/listen`, GET streams of a single server, and event streams of JSON APIs. A
    /// resource of a stateless server that a session subscribes to counts as one, too. So do the
    /// event streams of sessions at stateful HTTP upstreams, which use at most half of the limit.
    /// Further ones are refused, except for those of JSON APIs, which then occupy places of
    /// requests.
    #[schemars(range(min = 1))]
    pub streams: usize,
    /// The maximum number of such streams of a principal, or of an address for anonymous callers.
    /// Without it a quarter of `streams`, but at least 4.
    #[schemars(range(min = 1))]
    pub streams_per_principal: Option<usize>,
    /// Seconds after which an idle session ends.
    #[schemars(range(min = 1))]
    pub session_idle_seconds: u64,
    /// The maximum number of running upstream processes. A further one ends an idle one of the
    /// same principal, else of the principal with the most; if all have requests, it is refused.
    #[schemars(range(min = 1))]
    pub processes: usize,
    /// The maximum number of processes of one upstream for a principal, or for an address of
    /// anonymous callers. A further one ends the one that is idle for longest.
    #[schemars(range(min = 1))]
    pub processes_per_principal: usize,
    /// Seconds for requests in flight when the gateway stops.
    pub drain_seconds: u64,
    /// The maximum bytes of snapshots in memory. Beyond it, the least recently used ones of the
    /// principal with the most bytes are removed.
    #[schemars(range(min = 1))]
    pub store_bytes: usize,
    /// The maximum bytes of snapshots of a principal in memory. Beyond it, its least recently used
    /// ones are removed. Without it a quarter of `storeBytes`, or all of it if callers do not
    /// authenticate. A shared store has no such limit.
    #[schemars(range(min = 1))]
    pub store_bytes_per_principal: Option<usize>,
}

impl Limits {
    /// Returns the maximum number of sessions of a principal.
    #[must_use]
    pub fn sessions_per_principal(&self) -> usize {
        let share = self.sessions.div_ceil(4).max(4);
        self.sessions_per_principal.unwrap_or(share).clamp(1, self.sessions.max(1))
    }

    /// Returns the maximum number of a principal's open streams that wait for changes.
    #[must_use]
    pub fn streams_per_principal(&self) -> usize {
        let share = self.streams.div_ceil(4).max(4);
        self.streams_per_principal.unwrap_or(share).clamp(1, self.streams.max(1))
    }

    /// Returns the maximum size of a principal's snapshots in memory, in bytes. `is_authenticated`
    /// is true if callers authenticate.
    #[must_use]
    pub fn store_bytes_per_principal(&self, is_authenticated: bool) -> usize {
        let share = if is_authenticated { self.store_bytes.div_ceil(4) } else { self.store_bytes };
        self.store_bytes_per_principal.unwrap_or(share).min(self.store_bytes)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: 10 << 20,
            response_bytes: 10 << 20,
            buffered_bytes: 128 << 20,
            connections: 10_000,
            connections_per_address: 512,
            memory_percent: 90,
            memory_bytes: None,
            concurrency: 256,
            per_principal: None,
            per_session: None,
            queue: 1024,
            sessions: 10_000,
            sessions_per_principal: None,
            streams: 4_096,
            streams_per_principal: None,
            session_idle_seconds: 1_800,
            processes: 256,
            processes_per_principal: 8,
            drain_seconds: 20,
            store_bytes: 256 << 20,
            store_bytes_per_principal: None,
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
    /// The bearer token for /admin and /metrics. Without a token, `listen` must be a loopback
    /// address.
    #[serde(default)]
    pub token: Option<Secret>,
    /// Certificates and key of this endpoint, which are read again when their files change. Without
    /// them it uses plain HTTP. The names in the certificates of clients have no effect.
    #[serde(default)]
    pub tls: Option<Tls>,
}

fn admin_address() -> String {
    "127.0.0.1:8809".to_owned()
}
