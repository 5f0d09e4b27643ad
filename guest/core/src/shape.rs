//! The ladder: what of an answer is shown, and what is kept. Each rung is a file; `plan` chooses.

pub mod chunk;
pub mod condense;
pub mod context;
pub mod highlight;
mod index;
pub mod item;
pub mod list;
pub mod lossless;
pub mod notice;
mod others;
pub mod page;
pub mod payload;
pub mod plan;
pub mod pricing;
pub mod projected_list;
pub mod range;
pub mod render;
mod strategy;
pub mod transform;
mod wording;

pub use notice::{Coverage, FieldCoverage};

use crate::blocks::same;
use crate::json::text::Form;
use crate::snapshot::Cursor;

/// A part of a payload, cut to be shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Excerpt {
    /// What it is a part of.
    pub coverage: Coverage,
    /// Where the rest begins, if there is one; or what leads to the whole.
    pub next: Option<Cursor>,
    /// Whether there is a rest.
    pub more: bool,
    /// The part itself.
    pub body: Body,
    /// What stands out in the rest of a text.
    pub highlights: Option<String>,
    /// What this is a part of, where that is not the upstream's answer itself.
    pub about: Option<String>,
}

impl Excerpt {
    /// A part; `next` leads to what follows.
    #[must_use]
    pub fn new(coverage: Coverage, next: Option<Cursor>, body: Body) -> Self {
        Self { coverage, more: next.is_some(), next, body, highlights: None, about: None }
    }

    /// Whether both are the same part, whatever else is said of it.
    #[must_use]
    pub fn has_same_content(&self, other: &Self) -> bool {
        let Self { coverage, next, more, body, highlights: _, about: _ } = self;
        (coverage, next, more, body) == (&other.coverage, &other.next, &other.more, &other.body)
    }

    /// The same, where `next` does not lead on but to the whole.
    #[must_use]
    pub fn complete(self) -> Self {
        Self { more: false, ..self }
    }
}

/// The bytes of a part.
#[derive(Clone, Debug)]
pub enum Body {
    /// A document with fewer items, in pieces: see [`page::Pieces`].
    Page(page::Pieces),
    /// Content blocks as they came, separated by commas.
    Blocks(Vec<u8>),
    /// A piece of text.
    Text(Vec<u8>, Form),
    /// JSON that is not escaped, in another shape than the original.
    Json(Vec<u8>),
    /// A summary of a document, as JSON that is not escaped.
    Summary(Vec<u8>),
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Body::Page(one), Body::Page(two)) => one == two,
            (Body::Text(one, form), Body::Text(two, other)) => form == other && same(one, two),
            (Body::Blocks(one), Body::Blocks(two))
            | (Body::Json(one), Body::Json(two))
            | (Body::Summary(one), Body::Summary(two)) => same(one, two),
            _ => false,
        }
    }
}
