//! The protocol crate's view of messages, under the names that this crate imports.

pub(crate) use context_guard_protocol::batch::split_batch as each;
pub(crate) use context_guard_protocol::edit::{
    append_members as append, member, members, object, replace_invalid_utf8 as as_text, splice,
    with_id, with_member,
};
pub(crate) use context_guard_protocol::{
    CAPABILITIES_KEY, CLIENT_KEY, Head, Kind, LOG_LEVEL_KEY, SERVER_KEY,
    STATELESS_VERSION as MODERN, SUBSCRIPTION_KEY, VERSION_KEY, is_stateless_version as is_modern,
};
