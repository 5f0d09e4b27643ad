//! HTTP responses that the gateway writes, and event streams (SSE).

pub(crate) mod reply;
pub(crate) mod sse;
