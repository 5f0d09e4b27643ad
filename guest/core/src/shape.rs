//! The ladder: what of an answer is shown, and what is kept. Each rung is a file; `plan` chooses.

pub mod chunk;
pub mod list;
pub mod notice;
pub mod page;
pub mod plan;
pub mod range;
pub mod render;

pub use notice::Facts;

use crate::json::text::Form;
use crate::snapshot::Cursor;

/// A part of a payload, cut to be shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// What it is a part of.
    pub facts: Facts,
    /// Where the rest begins, if there is one.
    pub next: Option<Cursor>,
    /// The part itself.
    pub body: Body,
}

/// The bytes of a part.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A document with fewer items, in pieces: see [`page::Pieces`].
    Page(page::Pieces),
    /// Content blocks as they came, separated by commas.
    Blocks(Vec<u8>),
    /// A piece of text.
    Text(Vec<u8>, Form),
}
