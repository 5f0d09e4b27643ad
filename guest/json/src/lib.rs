//! Bytes to spans: a scanner that reads JSON in place, raw or as it stands escaped inside a JSON string; string text; edits.
//!
//! There is no tree. Order, number spelling and unknown fields survive because the bytes they are made of do.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod edit;
pub mod equal;
pub mod key_cache;
pub mod locate_lists;
pub mod outline;
pub mod scan;
pub mod text;

/// A range of bytes of the buffer at hand.
pub type Span = std::ops::Range<usize>;
