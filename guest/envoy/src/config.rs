//! The configuration of the filter: JSON, checked as a whole, every fault told.

use context_guard_core::policy::{self, Policy};
use context_guard_core::snapshot::Keys;
use context_guard_protocol::Settings;
use log::warn;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::store::Slots;

/// Where signing keys are read from, separated by white space, unless the configuration has them: `environment_variables` of the VM lets it through.
const KEYS_VARIABLE: &str = "CONTEXT_GUARD_SIGNING_KEYS";
/// Every member.
const MEMBERS: [&str; 12] = [
    "policy",
    "signingKeys",
    "store",
    "nowMs",
    "upstream",
    "principal",
    "principalHeaders",
    "mcp",
    "apis",
    "maxBody",
    "maxBuffered",
    "overMaxBody",
];

/// A configuration that was found right.
pub(crate) struct Config {
    pub(crate) policy: Policy,
    pub(crate) keys: Keys,
    pub(crate) settings: Settings,
    pub(crate) store: Option<Slots>,
    /// A clock that stands still, in milliseconds since 1970: for tests.
    pub(crate) now_ms: Option<u64>,
}

/// What is the filter's alone.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Own {
    signing_keys: Vec<String>,
    store: Store,
    now_ms: Option<u64>,
}

impl Default for Own {
    fn default() -> Self {
        Self { signing_keys: Vec::new(), store: Store::Shared { bytes: 64 << 20 }, now_ms: None }
    }
}

/// Where snapshots are kept.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Store {
    /// Nowhere: the upstream is called again.
    None,
    /// In Envoy, for all its workers, up to so many bytes.
    Shared { bytes: usize },
}

impl Config {
    /// Reads a configuration.
    pub(crate) fn read(json: &[u8]) -> Result<Self, Vec<String>> {
        let json = if json.trim_ascii().is_empty() { b"{}" } else { json };
        let document: Map<String, Value> = serde_json::from_slice(json)
            .map_err(|error| vec![format!("it is no object of JSON: {error}")])?;
        let mut faults: Vec<String> = document
            .keys()
            .filter(|name| !MEMBERS.contains(&name.as_str()))
            .map(|name| format!("there is no member `{name}`; there are {}", MEMBERS.join(", ")))
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
        let own = Own::deserialize(&document).map_err(note).ok();
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
        // Each worker is a sandbox of its own: a key that one makes up is none of the others'.
        return Err(format!(
            "signingKeys: at least one secret of 16 bytes or more is needed, here or in the variable {KEYS_VARIABLE} (see environment_variables of vm_config): all workers read each other's cursors"
        ));
    }
    Keys::new(secrets).map_err(|fault| format!("signingKeys: {fault}"))
}
