//! HTTP responses of the gateway, and event streams.

pub(crate) mod reply;
pub(crate) mod sse;
