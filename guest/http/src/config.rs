//! What the operator says, in the environment: every host of wasi:http has one.

use std::sync::OnceLock;

use context_guard_protocol::Settings as ProtocolSettings;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::bindings::context_guard::guard::guard;
use crate::bindings::context_guard::guard::types::{
    CompiledPolicy, Settings, Severity, SigningKey,
};

/// The configuration: `policy`, and what `context-guard-protocol` knows, as JSON. Default: every setting's default.
const CONFIG: &str = "CONTEXT_GUARD_CONFIG";
/// Secrets that sign cursors, separated by white space: the first signs, all verify.
const KEYS: &str = "CONTEXT_GUARD_SIGNING_KEYS";

/// What every exchange is served under.
pub(crate) struct Config {
    pub(crate) protocol: ProtocolSettings,
    pub(crate) settings: Settings,
    pub(crate) compiled: CompiledPolicy,
}

/// The configuration of this instance, read once; or all that is wrong with it.
pub(crate) fn config() -> Result<&'static Config, &'static str> {
    static CONFIG: OnceLock<Result<Config, String>> = OnceLock::new();
    CONFIG.get_or_init(read).as_ref().map_err(String::as_str)
}

fn read() -> Result<Config, String> {
    let json = std::env::var(CONFIG).unwrap_or_default();
    let json = if json.trim().is_empty() { "{}" } else { &json };
    let mut document: Map<String, Value> = serde_json::from_str(json)
        .map_err(|error| format!("{CONFIG} is no object of JSON: {error}"))?;
    let policy = document.remove("policy").map(|policy| policy.to_string()).unwrap_or_default();
    let compiled = guard::compile_policy(&policy).map_err(|issues| {
        let faults = issues.iter().filter(|issue| matches!(issue.severity, Severity::Error));
        let faults: Vec<_> =
            faults.map(|issue| format!("policy.{}: {}", issue.path, issue.reason)).collect();
        format!("{CONFIG}: {}", faults.join("; "))
    })?;
    let protocol = ProtocolSettings::deserialize(Value::Object(document))
        .map_err(|error| format!("{CONFIG}: {error}"))?;
    let keys = std::env::var(KEYS).unwrap_or_default();
    let keys: Vec<SigningKey> = keys
        .split_whitespace()
        .map(|key| SigningKey { id: String::new(), secret: key.as_bytes().to_vec() })
        .collect();
    if keys.is_empty() {
        // Each request may be another instance: a key that one makes up is none of the others'.
        return Err(format!(
            "{KEYS} is not set: at least one secret of 16 bytes or more is needed, since instances read each other's cursors"
        ));
    }
    let settings = Settings { policy: compiled.resolved.clone(), keys };
    Ok(Config { protocol, settings, compiled })
}
