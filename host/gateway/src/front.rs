//! The HTTP front: accepts connections, authenticates and limits requests, and passes them to the
//! gateway.

pub(crate) mod batches;
pub(crate) mod listener;
pub(crate) mod request_mode;
