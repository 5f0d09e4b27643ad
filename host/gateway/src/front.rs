//! The HTTP front: accepts connections, authenticates and limits requests, and passes them to the
//! gateway.

pub(crate) mod activity;
pub(crate) mod batches;
pub(crate) mod certificates;
mod client_body;
mod client_stream;
pub(crate) mod connections;
pub(crate) mod cors;
pub(crate) mod descriptors;
pub(crate) mod listener;
pub(crate) mod memory_monitor;
mod proxy_protocol;
pub(crate) mod request_body;
pub(crate) mod request_mode;
pub(crate) mod sse_paths;
