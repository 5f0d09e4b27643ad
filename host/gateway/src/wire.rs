//! What goes over the wire: messages as far as a gateway looks into them, event streams, replies of its own.

pub(crate) mod reply;
pub(crate) mod sse;
