//! The configuration, read from the environment, which every host of wasi:http provides.

use std::sync::OnceLock;

use context_guard_protocol::Settings as ProtocolSettings;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::bindings::context_guard::guard::guard;
use crate::bindings::context_guard::guard::types::{
    CompiledPolicy, Settings, Severity, SigningKey,
};

/// The environment variable with the configuration as JSON: `policy`, and the members of
/// [`ProtocolSettings`]. Default: `{}`.
const CONFIG_VARIABLE: &str = "CONTEXT_GUARD_CONFIG";
/// The environment variable with the secrets that sign cursors, separated by white space. The first
/// one signs, and all verify.
const KEYS_VARIABLE: &str = "CONTEXT_GUARD_SIGNING_KEYS";

/// The validated configuration of a middleware instance.
pub(crate) struct Config {
    pub(crate) protocol: ProtocolSettings,
    pub(crate) settings: Settings,
    pub(crate) compiled: CompiledPolicy,
}

/// Returns the configuration of this instance, or the reason why it is invalid. Reads the
/// environment on first use only.
pub(crate) fn config() -> Result<&'static Config, &'static str> {
    static CONFIG: OnceLock<Result<Config, String>> = OnceLock::new();
    CONFIG.get_or_init(read).as_ref().map_err(String::as_str)
}

fn read() -> Result<Config, String> {
    let json = std::env::var(CONFIG_VARIABLE).unwrap_or_default();
    let json = if json.trim().is_empty() { "{}" } else { &json };
    let invalid = |reason: String| format!("invalid {CONFIG_VARIABLE}: {reason}");
    let mut document: Map<String, Value> =
        serde_json::from_str(json).map_err(|error| invalid(error.to_string()))?;
    let policy = document.remove("policy").map(|policy| policy.to_string()).unwrap_or_default();
    let compiled = guard::compile_policy(&policy).map_err(|issues| {
        let faults = issues.iter().filter(|issue| matches!(issue.severity, Severity::Error));
        let faults: Vec<_> =
            faults.map(|issue| format!("policy.{}: {}", issue.path, issue.reason)).collect();
        invalid(faults.join("; "))
    })?;
    let members = ProtocolSettings::MEMBERS;
    if let Some(unknown) = document.keys().find(|name| !members.contains(&name.as_str())) {
        let known = members.join(", ");
        return Err(invalid(format!("unknown member \"{unknown}\" (known: policy, {known})")));
    }
    let protocol = ProtocolSettings::deserialize(Value::Object(document))
        .map_err(|error| invalid(error.to_string()))?;
    let keys = std::env::var(KEYS_VARIABLE).unwrap_or_default();
    let keys: Vec<SigningKey> = keys
        .split_whitespace()
        .map(|key| SigningKey { id: String::new(), secret: key.as_bytes().to_vec() })
        .collect();
    if keys.is_empty() {
        // Hosts may start an instance for each request. A generated key would be unknown to the
        // next instance, which then could not read this one's cursors.
        return Err(format!(
            "{KEYS_VARIABLE} is not set: all instances share at least one secret of 16 bytes or more, because they read each other's cursors"
        ));
    }
    let settings = Settings { policy: compiled.resolved.clone(), keys };
    Ok(Config { protocol, settings, compiled })
}
