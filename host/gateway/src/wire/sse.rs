//! Re-exports the types for event streams (SSE) of the protocol crate.

pub(crate) use context_guard_protocol::sse::{Event, Framer};
