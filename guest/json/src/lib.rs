//! JSON in place: a span scanner, outlines, string text, comparison and edits.
//!
//! All of them read raw JSON, and JSON escaped inside a JSON string, without a copy.
//!
//! There is no tree: member order, the spelling of numbers and unknown members are kept, because
//! their bytes are.
//!
//! ```
//! use context_guard_json::locate_lists::DocumentInfo;
//! use context_guard_json::text::Form;
//!
//! let document = br#"{"data": {"items": [1, 2, 3]}}"#;
//! let info = DocumentInfo::parse(document, Form::Raw).unwrap();
//! assert_eq!(info.longest().unwrap().path, ["data", "items"]);
//! ```
#![forbid(unsafe_code)]

pub mod blocks;
pub mod edit;
pub mod equal;
pub mod key_cache;
pub mod locate_lists;
pub mod outline;
pub mod scan;
pub mod text;

/// A byte range of the scanned buffer.
pub type Span = std::ops::Range<usize>;
