//! Where a text may be cut: lines, entries, paragraphs, sections, sentences, words. And what kind of text it is, and of what it consists.
#![forbid(unsafe_code)]

pub mod boundary;
pub mod definition;
pub mod ends;
pub mod entry;
pub mod grave;
pub mod kind;
pub mod level;
pub mod lines;
pub mod outline;
pub mod shorten;
