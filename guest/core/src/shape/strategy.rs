//! Reduction strategies: each is one type in one file, behind the trait [`Strategy`].

mod chunk;
mod condense_page;
mod describe;
mod item_part;
mod page;
mod remove_whitespace;
mod summarize;

pub(super) use self::remove_whitespace::whole_document;
use super::context::ShapeContext;
use super::list::ListTask;
use super::payload::Payload;
use super::pricing::ExcerptPricer;
use super::range::TextTask;
use super::{Coverage, Excerpt, ExcerptBody};
use crate::json::text::Form;
use crate::snapshot::Cursor;

/// A way to reduce a payload so that it fits the token limit.
trait Strategy: Sync {
    /// Returns the excerpt to show. `None` if the strategy does not apply to the task, or nothing
    /// useful fits.
    fn reduce(&self, task: &Task<'_>) -> Option<Excerpt>;
}

/// All strategies in the order in which they are tried: those with the least loss first.
///
/// A payload that needs no reduction is not passed to them (see [`super::plan`]). Chunking is last
/// because it applies to any text, including texts that are better described or summarized.
const STRATEGIES: [&dyn Strategy; 9] = [
    &remove_whitespace::RemoveWhitespace,
    &condense_page::CondensePage { all: true },
    &page::Page { nearly_full: true },
    &condense_page::CondensePage { all: false },
    &page::Page { nearly_full: false },
    &item_part::ItemPart,
    &summarize::Summarize,
    &describe::Describe,
    &chunk::Chunk,
];

/// A reduction task: the content to reduce, with the inputs that strategies need.
pub(super) struct Task<'t> {
    /// The pricer of excerpts, which also has the token limit.
    pub pricer: &'t ExcerptPricer<'t>,
    /// A cursor to the beginning of the stored payload, from which other cursors are derived.
    pub base: &'t Cursor,
    /// The items or lines from which the excerpt is selected.
    pub content: Content<'t>,
    /// Facts about the payload if it is reduced for the first time. `None` for a later part of a
    /// stored payload.
    pub whole: Option<WholePayload<'t>>,
}

/// The items or lines from which an excerpt is selected.
pub(super) enum Content<'t> {
    /// Items of a payload's lists, to be shown as a page.
    List(Box<ListTask<'t>>),
    /// Lines of a text, to be shown as a chunk.
    Text(TextTask<'t>),
}

/// Facts about a payload that is reduced for the first time.
pub(super) struct WholePayload<'t> {
    pub context: &'t ShapeContext<'t>,
    pub payload: &'t Payload<'t, 't>,
    /// True if the payload costs more than the token limit. False if it fits, but exceeds a
    /// size that policy sets.
    pub is_over_limit: bool,
    /// True if the payload is a JSON document without lists to page, so that it is summarized.
    pub is_document: bool,
}

/// Returns the excerpt of the first strategy that returns one.
pub(super) fn reduce(task: &Task<'_>) -> Excerpt {
    STRATEGIES.iter().find_map(|strategy| strategy.reduce(task)).unwrap_or_else(|| {
        // Part and chunk always have a result. Should neither, nothing is shown.
        let coverage = Coverage::Described { what: "content".to_owned(), bytes: 0 };
        let body = ExcerptBody::Text(Vec::new(), Form::Raw);
        Excerpt::new(coverage, Some(task.base.clone()), body).complete()
    })
}

impl<'t> Task<'t> {
    /// Returns the items to show. `None` if the content is a text.
    fn list(&self) -> Option<&ListTask<'t>> {
        match &self.content {
            Content::List(list) => Some(list),
            Content::Text(_) => None,
        }
    }

    /// Returns the items to show. `None` if the content is a text, or if an earlier result showed a
    /// part of the first item.
    fn list_of_whole_items(&self) -> Option<&ListTask<'t>> {
        self.list().filter(|list| list.request.within == 0)
    }
}
