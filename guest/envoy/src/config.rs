//! The configuration of the filter: a JSON document. All its errors are reported at once.

use context_guard_core::policy::{self, Policy};
use context_guard_core::snapshot::Keys;
use context_guard_protocol::Settings;
use log::warn;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::store::Slots;

/// The environment variable with the signing keys, separated by white space. Used if the
/// configuration has none. Envoy passes it only if `environment_variables` of the VM lists it.
const KEYS_VARIABLE: &str = "CONTEXT_GUARD_SIGNING_KEYS";
/// Members of the Envoy configuration besides those of [`Settings`].
const OWN_MEMBERS: [&str; 4] = ["policy", "signingKeys", "store", "nowMs"];

/// A validated configuration of the filter.
pub(crate) struct Config {
    pub(crate) policy: Policy,
    pub(crate) keys: Keys,
    pub(crate) settings: Settings,
    pub(crate) store: Option<Slots>,
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
        Self { signing_keys: Vec::new(), store: Store::Shared { bytes: 64 << 20 }, now_ms: None }
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
}

impl Config {
    /// Parses a configuration from JSON. The error has all its issues.
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
        match (policy, keys, settings, own) {
            (Some(policy), Some(keys), Some(settings), Some(own)) if faults.is_empty() => {
                let store = match own.store {
                    Store::None => None,
                    Store::Shared { bytes } => Some(Slots::new(bytes)),
                };
                Ok(Self { policy, keys, settings, store, now_ms: own.now_ms })
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
