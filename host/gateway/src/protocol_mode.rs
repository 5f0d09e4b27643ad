//! The two protocol modes of MCP, and a client's description of itself in either mode.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::{CAPABILITIES_KEY, CLIENT_KEY, STATELESS_VERSION, VERSION_KEY};
use context_guard_protocol::code::{HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION};

/// The latest stateful protocol version. The gateway proposes it to a stateful upstream on behalf
/// of stateless clients.
pub(crate) const LATEST_STATEFUL_VERSION: &str = "2025-11-25";
/// JSON-RPC error codes that only stateless servers use.
const STATELESS_ERRORS: [i64; 3] = [HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION];

/// A protocol mode of MCP: with sessions or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ProtocolMode {
    /// Begins with a handshake and uses sessions (2025-11-25 and earlier).
    Stateful,
    /// Uses self-contained requests (2026-07-28 and later).
    Stateless,
}

/// A client's description of itself, from `initialize` or from `_meta` of a stateless request.
/// Capabilities and implementation are raw JSON, because upstreams must receive them unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientInfo {
    pub(crate) version: String,
    pub(crate) capabilities: String,
    pub(crate) implementation: String,
}

impl ClientInfo {
    /// Returns the description of the gateway, for connections on its own behalf.
    pub(crate) fn gateway() -> Self {
        Self {
            version: LATEST_STATEFUL_VERSION.to_owned(),
            capabilities: "{}".to_owned(),
            implementation: gateway_implementation(),
        }
    }

    /// Returns the name of the client software, or `None` if it has none.
    pub(crate) fn name(&self) -> Option<String> {
        let implementation: Value = serde_json::from_str(&self.implementation).ok()?;
        implementation.get("name")?.as_str().map(str::to_owned)
    }

    /// Returns the members of `_meta` that every stateless request has, as JSON without braces.
    pub(crate) fn meta(&self) -> String {
        format!(
            r#""{VERSION_KEY}":"{STATELESS_VERSION}","{CAPABILITIES_KEY}":{},"{CLIENT_KEY}":{}"#,
            self.capabilities, self.implementation
        )
    }
}

/// Returns the name and version of the gateway software, as JSON.
pub(crate) fn gateway_implementation() -> String {
    format!(r#"{{"name":"context-guard","version":"{}"}}"#, env!("CARGO_PKG_VERSION"))
}

/// Returns true if a JSON-RPC error object can only come from a stateless server.
pub(crate) fn is_stateless_error(error: &RawValue) -> bool {
    let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
    let code = error.get("code").and_then(Value::as_i64);
    code.is_some_and(|code| STATELESS_ERRORS.contains(&code))
}
