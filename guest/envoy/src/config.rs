//! The configuration of the filter: a JSON document. Reports the errors of all its parts at once.

use context_guard_core::policy::{self, Policy};
use context_guard_core::snapshot::Keys;
use context_guard_protocol::Settings;
use log::warn;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::gateway_store::GatewaySettings;
use crate::store::Slots;

/// The environment variable with the signing keys, separated by white space. Used if the
/// configuration has none. Envoy passes it only if `environment_variables` of the VM lists it.
const KEYS_VARIABLE: &str = "CONTEXT_GUARD_SIGNING_KEYS";
/// The environment variable with the secret of the gateway's store. Used if the configuration has
/// none.
const STORE_SECRET_VARIABLE: &str = "CONTEXT_GUARD_STORE_SECRET";
/// The default size of the store in Envoy's shared data, in bytes.
const SHARED_BYTES: usize = 64 << 20;
/// The members of the Envoy configuration in addition to those of [`Settings`].
const OWN_MEMBERS: [&str; 4] = ["policy", "signingKeys", "store", "nowMs"];

/// A validated configuration of the filter.
pub(crate) struct Config {
    pub(crate) policy: Policy,
    pub(crate) keys: Keys,
    pub(crate) settings: Settings,
    pub(crate) store: Option<Slots>,
    /// The settings of the gateway whose store is used, if [`Store::Gateway`] is configured.
    pub(crate) gateway: Option<GatewaySettings>,
    /// The time, in milliseconds since 1970, that replaces the clock in tests.
    pub(crate) now_ms: Option<u64>,
}

/// The members of the configuration that only the Envoy adapter has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EnvoySettings {
    signing_keys: Vec<String>,
    store: Store,
    now_ms: Option<u64>,
}

impl Default for EnvoySettings {
    fn default() -> Self {
        Self {
            signing_keys: Vec::new(),
            store: Store::Shared { bytes: SHARED_BYTES },
            now_ms: None,
        }
    }
}

/// The kind of cursor store.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Store {
    /// No store: a cursor repeats the upstream call.
    None,
    /// A store in Envoy's shared data, common to all workers, for up to `bytes` bytes.
    Shared { bytes: usize },
    /// The store of a gateway, with recent entries in Envoy's shared data.
    Gateway(GatewayMembers),
}

/// The members of `store.gateway`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GatewayMembers {
    cluster: String,
    #[serde(default)]
    secret: String,
    authority: Option<String>,
    #[serde(default = "default_timeout_ms")]
    timeout_ms: u32,
    #[serde(default = "default_bytes")]
    bytes: usize,
}

fn default_timeout_ms() -> u32 {
    1_000
}

fn default_bytes() -> usize {
    SHARED_BYTES
}

impl GatewayMembers {
    /// Validates the members, and returns the settings of the gateway's store.
    fn settings(self) -> Result<GatewaySettings, String> {
        let Self { cluster, mut secret, authority, timeout_ms, bytes: _ } = self;
        if cluster.is_empty() {
            return Err("store.gateway.cluster: the name of a cluster is needed".to_owned());
        }
        if secret.is_empty() {
            secret = std::env::var(STORE_SECRET_VARIABLE).unwrap_or_default();
        }
        let secret = secret.trim();
        if secret.is_empty() {
            return Err(format!(
                "store.gateway.secret: no secret: set one of the gateway's filterStore.secrets here or in {STORE_SECRET_VARIABLE} (see environment_variables of vm_config)"
            ));
        }
        // Without a timeout, Envoy would wait for the gateway forever.
        if timeout_ms == 0 {
            return Err("store.gateway.timeoutMs: at least 1 ms is needed".to_owned());
        }
        let authority = authority.unwrap_or_else(|| cluster.clone());
        let is_header = |text: &str| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if !is_header(secret) || !is_header(&authority) {
            return Err(
                "store.gateway: secret and authority are headers: use visible ASCII".to_owned()
            );
        }
        Ok(GatewaySettings { cluster, authority, secret: secret.to_owned(), timeout_ms })
    }
}

impl Config {
    /// Parses a configuration from JSON. Fails with all issues of the policy, and the first issue
    /// of each other part.
    pub(crate) fn read(json: &[u8]) -> Result<Self, Vec<String>> {
        let json = if json.trim_ascii().is_empty() { b"{}" } else { json };
        let document: Map<String, Value> = serde_json::from_slice(json)
            .map_err(|error| vec![format!("expected a JSON object: {error}")])?;
        let members = [OWN_MEMBERS.as_slice(), &Settings::MEMBERS].concat();
        let mut faults: Vec<String> = document
            .keys()
            .filter(|name| !members.contains(&name.as_str()))
            .map(|name| format!("unknown member \"{name}\" (known: {})", members.join(", ")))
            .collect();
        let policy = document.get("policy").map(Value::to_string).unwrap_or_default();
        let policy = match policy::compile(&policy) {
            Ok(compiled) => {
                for issue in compiled.warnings {
                    warn!("context-guard: policy.{}: {}", issue.path, issue.reason);
                }
                Some(compiled.policy)
            }
            Err(issues) => {
                faults.extend(
                    issues.iter().map(|issue| format!("policy.{}: {}", issue.path, issue.reason)),
                );
                None
            }
        };
        let mut note = |error: serde_json::Error| faults.push(error.to_string());
        let document = Value::Object(document);
        let settings = Settings::deserialize(&document).map_err(&mut note).ok();
        let own = EnvoySettings::deserialize(&document).map_err(note).ok();
        let keys = own.as_ref().map(|own| keys(&own.signing_keys));
        let keys = keys.and_then(|keys| keys.map_err(|fault| faults.push(fault)).ok());
        let now_ms = own.as_ref().and_then(|own| own.now_ms);
        let (store, gateway) = match own.map(|own| own.store) {
            None | Some(Store::None) => (None, None),
            Some(Store::Shared { bytes }) => (Some(Slots::new(bytes)), None),
            Some(Store::Gateway(members)) => {
                let slots = Slots::new(members.bytes);
                let gateway = members.settings().map_err(|fault| faults.push(fault));
                (Some(slots), gateway.ok())
            }
        };
        match (policy, keys, settings) {
            (Some(policy), Some(keys), Some(settings)) if faults.is_empty() => {
                Ok(Self { policy, keys, settings, store, gateway, now_ms })
            }
            _ => Err(faults),
        }
    }
}

fn keys(configured: &[String]) -> Result<Keys, String> {
    let variable = std::env::var(KEYS_VARIABLE).unwrap_or_default();
    let secrets: Vec<&[u8]> = if configured.is_empty() {
        variable.split_whitespace().map(str::as_bytes).collect()
    } else {
        configured.iter().map(|key| key.as_bytes()).collect()
    };
    if secrets.is_empty() {
        // Each worker runs in its own sandbox. The others could not read the cursors that a
        // generated key signs.
        return Err(format!(
            "signingKeys: no signing key: set at least one secret of 16 bytes or more here or in {KEYS_VARIABLE} (see environment_variables of vm_config), because all workers read each other's cursors"
        ));
    }
    Keys::new(secrets).map_err(|fault| format!("signingKeys: {fault}"))
}
