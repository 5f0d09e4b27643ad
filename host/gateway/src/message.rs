//! Re-exports the JSON-RPC message functions of the protocol crate that most modules import.

pub(crate) use context_guard_protocol::batch::split_batch;
pub(crate) use context_guard_protocol::edit::{
    append_members, member, members, object, replace_invalid_utf8, splice, with_id, with_member,
};
pub(crate) use context_guard_protocol::{
    CAPABILITIES_KEY, CLIENT_KEY, Head, Kind, LOG_LEVEL_KEY, SERVER_KEY, STATELESS_VERSION,
    SUBSCRIPTION_KEY, VERSION_KEY, is_stateless_version,
};
