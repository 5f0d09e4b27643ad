//! Where a text may be cut: lines, entries, paragraphs, sections, sentences, words. And what kind of text it is, and of what it consists.
#![forbid(unsafe_code)]

pub mod boundary;
pub mod definition;
pub mod kind;
pub mod line_index;
pub mod lines;
pub mod log_entry;
pub mod outline;
pub mod severity;
pub mod severity_prefilter;
pub mod shorten;
