//! The two protocol modes of MCP, and a client's description of itself in either mode.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::{CAPABILITIES_KEY, CLIENT_KEY, Head, STATELESS_VERSION, VERSION_KEY, members};
use context_guard_protocol::client::cut_name;
use context_guard_protocol::code::{
    HEADER_MISMATCH, METHOD_NOT_FOUND, MISSING_CAPABILITY, UNSUPPORTED_VERSION,
};

/// The latest stateful protocol version. The gateway proposes it to a stateful upstream on behalf
/// of stateless clients.
pub(crate) const LATEST_STATEFUL_VERSION: &str = "2025-11-25";
/// The stateful protocol versions that the gateway speaks.
pub(crate) const STATEFUL_VERSIONS: [&str; 4] =
    ["2024-11-05", "2025-03-26", "2025-06-18", LATEST_STATEFUL_VERSION];
/// The maximum size of the capabilities of a client, and of the description of its software, in
/// bytes. Each session stores both, and upstreams receive them with each connection.
const MAX_DESCRIPTION_BYTES: usize = 16 << 10;
/// JSON-RPC error codes that only stateless servers use.
const STATELESS_ERRORS: [i64; 3] = [HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION];

/// The description of a client that gives none, as JSON.
pub(crate) const UNKNOWN_CLIENT: &str = r#"{"name":"unknown","version":"0"}"#;

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
    /// Creates the description of a client from raw JSON. A part that is `null` counts as missing.
    ///
    /// # Errors
    /// The reason why the description is refused: a part of it is too long, or not an object.
    pub(crate) fn new(
        version: &str,
        capabilities: String,
        implementation: String,
    ) -> Result<Self, String> {
        let given = |json: String, default: &str| {
            if json.trim() == "null" { default.to_owned() } else { json }
        };
        let (capabilities, implementation) =
            (given(capabilities, "{}"), given(implementation, UNKNOWN_CLIENT));
        let parts = [("the capabilities", &capabilities), ("clientInfo", &implementation)];
        // Upstreams receive both. A strict one refuses the handshake for another value.
        if let Some((name, _)) =
            parts.into_iter().find(|(_, json)| !json.trim_start().starts_with('{'))
        {
            return Err(format!("Invalid params: {name} of the client must be a JSON object."));
        }
        let long = parts.into_iter().find(|(_, json)| json.len() > MAX_DESCRIPTION_BYTES);
        if let Some((name, json)) = long {
            let (bytes, limit) = (json.len(), MAX_DESCRIPTION_BYTES);
            return Err(format!(
                "Invalid params: {name} of the client may have {limit} bytes, but has {bytes}."
            ));
        }
        Ok(Self { version: version.to_owned(), capabilities, implementation })
    }

    /// Returns the client that an `initialize` request describes.
    ///
    /// # Errors
    /// The reason why the description is refused: see [`ClientInfo::new`].
    pub(crate) fn from_initialize(head: &Head<'_>) -> Result<Self, String> {
        let params = head.params.map(|params| members(params.get())).unwrap_or_default();
        let member = |name: &str, default: &str| {
            let found = params.iter().find(|(key, _)| key == name);
            found.map_or_else(|| default.to_owned(), |(_, value)| value.get().to_owned())
        };
        let proposed: String =
            serde_json::from_str(&member("protocolVersion", "\"\"")).unwrap_or_default();
        Self::new(
            negotiate(&proposed),
            member("capabilities", "{}"),
            member("clientInfo", UNKNOWN_CLIENT),
        )
    }

    /// Returns the description of the gateway, for connections on its own behalf.
    pub(crate) fn gateway() -> Self {
        Self {
            version: LATEST_STATEFUL_VERSION.to_owned(),
            capabilities: "{}".to_owned(),
            implementation: gateway_implementation(),
        }
    }

    /// Returns the name of the client software, or `None` if it has none. A long name is cut.
    pub(crate) fn name(&self) -> Option<String> {
        let implementation: Value = serde_json::from_str(&self.implementation).ok()?;
        cut_name(implementation.get("name")?.as_str()?)
    }

    /// Returns the members of `_meta` that every stateless request has, as JSON without braces.
    pub(crate) fn meta(&self) -> String {
        format!(
            r#""{VERSION_KEY}":"{STATELESS_VERSION}","{CAPABILITIES_KEY}":{},"{CLIENT_KEY}":{}"#,
            self.capabilities, self.implementation
        )
    }
}

/// Returns the protocol version that the client proposes if the gateway speaks it, otherwise the
/// latest stateful version.
pub(crate) fn negotiate(proposed: &str) -> &str {
    let known = STATEFUL_VERSIONS.into_iter().find(|known| *known == proposed);
    known.unwrap_or(LATEST_STATEFUL_VERSION)
}

/// Returns the name and version of the gateway software, as JSON.
pub(crate) fn gateway_implementation() -> String {
    format!(r#"{{"name":"context-guard","version":"{}"}}"#, env!("CARGO_PKG_VERSION"))
}

/// Returns true if a JSON-RPC error object can only come from a stateless server.
pub(crate) fn is_stateless_error(error: &RawValue) -> bool {
    error_code(error).is_some_and(|code| STATELESS_ERRORS.contains(&code))
}

/// Returns true if a JSON-RPC error object reports that the server does not know the method,
/// whatever its parameters are.
pub(crate) fn is_unknown_method(error: &RawValue) -> bool {
    error_code(error) == Some(METHOD_NOT_FOUND)
}

fn error_code(error: &RawValue) -> Option<i64> {
    let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
    error.get("code")?.as_i64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_no_objects_are_refused() {
        let initialize = |params: &str| {
            let request = format!(r#"{{"id":1,"method":"initialize","params":{params}}}"#);
            ClientInfo::from_initialize(&Head::read(request.as_bytes()).unwrap())
        };
        for value in ["5", "[]", "\"{}\"", "true"] {
            let refused = initialize(&format!(r#"{{"capabilities":{value}}}"#)).unwrap_err();
            assert!(refused.contains("the capabilities of the client must be"), "{refused}");
            let refused = initialize(&format!(r#"{{"clientInfo":{value}}}"#)).unwrap_err();
            assert!(refused.contains("clientInfo of the client must be"), "{refused}");
        }
        let empty = initialize(r#"{"capabilities":null,"clientInfo":null}"#).unwrap();
        assert_eq!((&*empty.capabilities, &*empty.implementation), ("{}", UNKNOWN_CLIENT));
    }

    #[test]
    fn long_descriptions_are_refused() {
        let initialize = |capabilities: usize, name: usize| {
            let (capabilities, name) = ("c".repeat(capabilities), "é".repeat(name));
            let request = format!(
                r#"{{"id":1,"method":"initialize","params":{{"capabilities":{{"x":"{capabilities}"}},"clientInfo":{{"name":"{name}"}}}}}}"#
            );
            ClientInfo::from_initialize(&Head::read(request.as_bytes()).unwrap())
        };
        let short = initialize(9_000, 150).unwrap();
        assert_eq!(short.name().unwrap(), "é".repeat(128));
        assert!(initialize(MAX_DESCRIPTION_BYTES, 1).unwrap_err().contains("the capabilities"));
        assert!(initialize(1, MAX_DESCRIPTION_BYTES).unwrap_err().contains("clientInfo"));
    }
}
