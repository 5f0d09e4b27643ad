//! Shaping: reduces an answer to its budget.
//!
//! Reduction strategies, in the order that `strategy` lists, select the excerpt of a payload. The
//! excerpt is rendered once, and the payload is stored so that the rest of it can be read.

pub mod binary;
pub mod chunk;
pub mod condense;
pub mod content_block;
pub mod context;
pub mod coverage;
mod first_chunk;
pub mod highlight;
mod index;
pub mod item;
pub mod list;
pub mod notice;
mod others;
pub mod page;
pub mod payload;
pub mod plan;
pub mod pricing;
pub mod projected_list;
pub mod range;
pub mod render;
pub mod stored_list;
mod strategy;
pub mod strip;
mod table_statistics;
pub mod transform;

pub use coverage::{Coverage, FieldCoverage};

use crate::blocks::equal_bytes;
use crate::json::text::Form;
use crate::snapshot::Cursor;
use crate::snapshot::index::Words;

/// The part of a payload that an answer shows to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Excerpt {
    /// The extent of the excerpt within the payload: items, lines or fields.
    pub coverage: Coverage,
    /// A cursor to the rest of the payload, or to the whole payload if there is no rest. `None` if
    /// the excerpt needs no cursor.
    pub next: Option<Cursor>,
    /// True if `next` leads to the rest of the payload, false if it leads to the whole.
    pub more: bool,
    /// The content of the excerpt.
    pub body: ExcerptBody,
    /// Important parts of the payload outside the excerpt, as text: errors of a log, or the ids and
    /// names of other list items.
    pub highlights: Option<String>,
    /// A description of the excerpt's source, if that is not the upstream's answer but, for
    /// example, a query result.
    pub about: Option<String>,
    /// The words before and after the JSON document, if the payload is a text that contains one.
    pub words: Words,
}

impl Excerpt {
    /// Creates an excerpt. `next` is a cursor to the rest of the payload, or `None` if the excerpt
    /// reaches its end.
    #[must_use]
    pub fn new(coverage: Coverage, next: Option<Cursor>, body: ExcerptBody) -> Self {
        let words = Words::default();
        Self { coverage, more: next.is_some(), next, body, highlights: None, about: None, words }
    }

    /// Returns true if both excerpts have the same content and cursor. Their highlights and
    /// descriptions may differ.
    #[must_use]
    pub fn has_same_content(&self, other: &Self) -> bool {
        let Self { coverage, next, more, body, words, highlights: _, about: _ } = self;
        (coverage, next, more, body, words)
            == (&other.coverage, &other.next, &other.more, &other.body, &other.words)
    }

    /// Returns the excerpt, marked as complete: its cursor leads to the whole payload, not to the
    /// rest.
    #[must_use]
    pub fn complete(self) -> Self {
        Self { more: false, ..self }
    }
}

/// The content of an excerpt, by its format.
#[derive(Clone, Debug)]
pub enum ExcerptBody {
    /// A page of a document: the document with fewer list items. See [`page::Pieces`].
    Page(page::Pieces),
    /// Content blocks as the upstream sent them, separated by commas.
    Blocks(Vec<u8>),
    /// A part of a text, raw or escaped as in a JSON string.
    Text(Vec<u8>, Form),
    /// Unescaped JSON that is not a page of the document, such as a query result.
    Json(Vec<u8>),
    /// The summary of a document, as unescaped JSON.
    Summary(Vec<u8>),
}

impl PartialEq for ExcerptBody {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (ExcerptBody::Page(one), ExcerptBody::Page(two)) => one == two,
            (ExcerptBody::Text(one, form), ExcerptBody::Text(two, other)) => {
                form == other && equal_bytes(one, two)
            }
            (ExcerptBody::Blocks(one), ExcerptBody::Blocks(two))
            | (ExcerptBody::Json(one), ExcerptBody::Json(two))
            | (ExcerptBody::Summary(one), ExcerptBody::Summary(two)) => equal_bytes(one, two),
            _ => false,
        }
    }
}
