//! The index: one flat, versioned, little-endian byte string that is searched in place.

mod compile;
mod layout;
mod view;

pub use compile::{Settings, compile};
pub use view::{Index, IndexedTool, Posting};
