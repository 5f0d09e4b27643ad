//! The two protocol modes of MCP, and the introduction of a client in either.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::{CAPABILITIES_KEY, CLIENT_KEY, STATELESS_VERSION, VERSION_KEY};
use context_guard_protocol::code::{HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION};

/// The latest stateful version. The gateway proposes it to a stateful upstream if its client
/// speaks no stateful version.
pub(crate) const LATEST_STATEFUL_VERSION: &str = "2025-11-25";
/// Error codes that only stateless servers use.
const STATELESS_ERRORS: [i64; 3] = [HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION];

/// A way of speaking MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ProtocolMode {
    /// A handshake, then a session (2025-11-25 and earlier).
    Stateful,
    /// Self-contained requests (2026-07-28 and later).
    Stateless,
}

/// The introduction of a client: from `initialize`, or from `_meta` of a stateless request. The
/// members are raw JSON, because upstreams must receive them unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientInfo {
    pub(crate) version: String,
    pub(crate) capabilities: String,
    pub(crate) implementation: String,
}

impl ClientInfo {
    /// The introduction of the gateway itself.
    pub(crate) fn gateway() -> Self {
        Self {
            version: LATEST_STATEFUL_VERSION.to_owned(),
            capabilities: "{}".to_owned(),
            implementation: gateway_implementation(),
        }
    }

    /// The name of the client.
    pub(crate) fn name(&self) -> Option<String> {
        let implementation: Value = serde_json::from_str(&self.implementation).ok()?;
        implementation.get("name")?.as_str().map(str::to_owned)
    }

    /// The members of `_meta` that every stateless request has.
    pub(crate) fn meta(&self) -> String {
        format!(
            r#""{VERSION_KEY}":"{STATELESS_VERSION}","{CAPABILITIES_KEY}":{},"{CLIENT_KEY}":{}"#,
            self.capabilities, self.implementation
        )
    }
}

/// The name and version of the gateway, as JSON.
pub(crate) fn gateway_implementation() -> String {
    format!(r#"{{"name":"context-guard","version":"{}"}}"#, env!("CARGO_PKG_VERSION"))
}

/// Returns true if only a stateless server answers with this error.
pub(crate) fn is_stateless_error(error: &RawValue) -> bool {
    let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
    let code = error.get("code").and_then(Value::as_i64);
    code.is_some_and(|code| STATELESS_ERRORS.contains(&code))
}
