//! Event streams, from the protocol crate.

pub(crate) use context_guard_protocol::sse::{Event, Framer};
