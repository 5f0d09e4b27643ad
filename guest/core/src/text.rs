//! Where text may be cut: lines, log entries, paragraphs, sections, sentences, words.

pub mod boundary;
pub mod fit;
pub mod lines;
