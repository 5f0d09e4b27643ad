//! The JSON-RPC message functions that most modules import. Most are from the protocol crate.

pub(crate) use context_guard_protocol::batch::split_batch;
pub(crate) use context_guard_protocol::edit::{
    append_members, member, members, object, replace_invalid_utf8, splice, with_id, with_member,
};
pub(crate) use context_guard_protocol::{
    CAPABILITIES_KEY, CLIENT_KEY, Head, Kind, LOG_LEVEL_KEY, SERVER_KEY, STATELESS_VERSION,
    SUBSCRIPTION_KEY, VERSION_KEY, is_stateless_version,
};

use serde_json::Value;

/// Returns the string at a JSON Pointer in a message. `None` if there is no string at the pointer.
pub(crate) fn text_at(message: &[u8], pointer: &str) -> Option<String> {
    let message: Value = serde_json::from_slice(message).ok()?;
    message.pointer(pointer)?.as_str().map(str::to_owned)
}

/// Returns the JSON-RPC error code of a response, or `None` if it is not an error.
pub(crate) fn error_code(answer: &[u8]) -> Option<i64> {
    let error: Value = serde_json::from_str(Head::read(answer)?.error?.get()).ok()?;
    error.get("code")?.as_i64()
}
