//! JSON in place: a span scanner, outlines, string text, comparison and edits.
//!
//! All modules read raw JSON, and JSON that is escaped inside a JSON string, without copying the
//! buffer.
//!
//! No module builds a tree of values. Values are byte ranges of the buffer, so that member order,
//! the spelling of numbers and unknown members do not change.
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

/// A byte range in the buffer that is scanned.
pub type Span = std::ops::Range<usize>;
