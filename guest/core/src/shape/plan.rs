//! Reduction of a payload: divides it into pages or chunks, tries the strategies, and renders the
//! excerpt.

use super::chunk::plan_first_chunk;
use super::condense::CondenseOptions;
use super::context::ShapeContext;
use super::first_chunk::FirstChunk;
use super::highlight::Highlights;
use super::index::{list_index, pageable_lists, snapshot_index};
use super::item::Item;
use super::list::{AllItems, ListTask, PageRequest};
use super::payload::Payload;
use super::pricing::ExcerptPricer;
use super::range::{self, TextPosition, TextTask};
use super::render::Rendered;
use super::strategy::{Content, Task, WholePayload, reduce, whole_document};
use super::{Coverage, Excerpt};
use crate::json::locate_lists::{DocumentInfo, List};
use crate::json::text::Form;
use crate::snapshot::index::{ListIndex, SnapshotBody, TextIndex};
use crate::snapshot::stored::{Entry, entries};
use crate::snapshot::{Cursor, Placement};
use crate::text::lines::IndexedText;
use crate::tokens::OriginalCost;

/// Maximum number of condensed items in one result, even if more would fit.
const MAX_ITEMS_AT_ONCE: usize = 2_000;

/// A reduced payload: its excerpt for the client, and the entries to store.
pub struct ShapedPayload<'a> {
    /// The part of the payload that the client receives, before rendering.
    pub excerpt: Excerpt,
    /// The excerpt as it is written into the result for the client.
    pub rendered: Rendered,
    /// The snapshot entries to store. Later calls read the rest of the payload from them.
    pub entries: Vec<Entry<'a>>,
    /// A cursor to the upstream's original answer, if the payload is a transformation of it.
    pub whole: Option<Cursor>,
}

impl ShapedPayload<'_> {
    /// Copies the stored bytes that are borrowed from the payload.
    #[must_use]
    pub fn into_owned(self) -> ShapedPayload<'static> {
        let Self { excerpt, rendered, entries, whole } = self;
        let entries = entries.into_iter().map(Entry::into_owned).collect();
        ShapedPayload { excerpt, rendered, entries, whole }
    }

    /// Adds a description of the payload to the excerpt, if it has none and still fits the token
    /// limit.
    #[must_use]
    pub fn named(mut self, about: &str, pricer: &ExcerptPricer<'_>) -> Self {
        let excerpt = Excerpt { about: Some(about.to_owned()), ..self.excerpt.clone() };
        if self.excerpt.about.is_none() && pricer.fits(&excerpt) {
            self.rendered = pricer.render(&excerpt);
            self.excerpt = excerpt;
        }
        self
    }
}

/// The units into which a payload is divided for separate results.
enum Division<'s> {
    /// The items of these lists, divided into pages.
    Pages(Vec<&'s List>),
    /// Chunks of the text.
    Chunks,
    /// No division: the payload is a document, of which a summary is shown. It is stored as chunks
    /// of its text.
    Document,
}

/// Reduces a payload until the result costs at most `token_limit`. `None` if it needs no reduction,
/// or if policy exempts it. A result has at least one character of the payload, even if the limit
/// is too small.
///
/// The excerpt may be written to text content if `text`, and to structured content if `placement`
/// is given. It is written to one of them: see [`RenderContext`](super::render::RenderContext).
#[must_use]
pub fn shape_payload<'a>(
    context: &ShapeContext<'_>,
    payload: &Payload<'a, '_>,
    cost: OriginalCost,
    placement: Option<Placement>,
    text: bool,
    token_limit: u64,
) -> Option<ShapedPayload<'a>> {
    let total = context.cost_for_client(cost.cost, payload.bytes);
    let is_over_limit = total > token_limit;
    let division = divide(context, payload, cost.tokens, total, token_limit)?;
    let is_document = matches!(division, Division::Document);
    // The lines of a list are not read.
    let lined = match division {
        Division::Pages(_) => IndexedText::new(&[], payload.form),
        _ => payload.lined(),
    };
    let has_highlights = matches!(division, Division::Chunks)
        && payload.is_text()
        && range::has_highlights(context, payload, is_over_limit, token_limit);
    let highlights = has_highlights.then(|| Highlights::new(&lined));
    let mut chunks = None;
    let (body, items) = match &division {
        Division::Pages(lists) => {
            let all = shows_all_at_once(context, lists);
            let request = context.first_page();
            let limit = if all { u64::MAX } else { request.max_items(token_limit) };
            (
                SnapshotBody::List(list_index(context, payload, lists)),
                first_items(payload, lists, limit),
            )
        }
        // The later chunks begin where the first ends.
        Division::Chunks if !context.options.ranged() && context.options.pages <= 1 => {
            let size = range::chunk_limits(context, &lined, token_limit, highlights.as_ref());
            chunks = Some(size);
            let index = plan_first_chunk(&lined, &context.limits.estimator, size);
            (SnapshotBody::Text(index), Vec::new())
        }
        Division::Chunks | Division::Document => {
            (SnapshotBody::Text(range::text_index(context, &lined, token_limit)), Vec::new())
        }
    };
    // A text of one chunk passes through: nothing would be withheld.
    if let (SnapshotBody::Text(TextIndex { chunks, .. }), Division::Chunks) = (&body, &division)
        && chunks.len() == 1
        && !is_over_limit
        && !context.options.ranged()
    {
        return None;
    }
    let (snapshot, mut index) = snapshot_index(context, payload, cost, placement, body);
    let pricer = context.pricer(token_limit, text, index.structured.as_ref());
    let base = Cursor::new(&snapshot, 0, context.now_ms);
    let content = match &index.body {
        SnapshotBody::List(list) => {
            let (request, options) = (context.first_page(), context.condense_options());
            let all = match &division {
                Division::Pages(lists) if request.all => {
                    let longest = lists.iter().max_by_key(|list| list.items.len());
                    longest.map(|list| {
                        let path = if lists.len() > 1 { list.path.as_slice() } else { &[] };
                        AllItems { bytes: payload.bytes, spans: &list.items, path }
                    })
                }
                _ => None,
            };
            let list = ListTask::new(&pricer, &base, list, payload.form, items, request, options);
            Content::List(Box::new(list.with_statistics(all)))
        }
        SnapshotBody::Text(text) => {
            let task = TextTask::first(context, payload, text, highlights.as_ref());
            Content::Text(if chunks.is_some() { task.with_unknown_total() } else { task })
        }
        SnapshotBody::Projected(_) => return None,
    };
    let whole = Some(WholePayload { context, payload, is_over_limit, is_document });
    let mut excerpt = reduce(&Task { pricer: &pricer, base: &base, content, whole });
    if let (Some(size), SnapshotBody::Text(text)) = (chunks, &mut index.body) {
        let first = FirstChunk {
            context,
            payload,
            text: &lined,
            size,
            highlights: highlights.as_ref(),
            pricer: &pricer,
            base: &base,
        };
        (*text, excerpt) = first.grow(std::mem::take(text), excerpt);
    }
    if shows_all_items(&excerpt) && excerpt.words == payload.words(usize::MAX) {
        // Only white space is missing, so this is no partial list.
        excerpt = whole_document(excerpt.body, excerpt.words, &base);
    }
    let rendered = pricer.render(&excerpt);
    let entries = entries(&snapshot, &index, payload.bytes);
    Some(ShapedPayload { excerpt, rendered, entries, whole: None })
}

/// Returns the excerpt for a page of lists. `items` begin with the first requested one. They are
/// all items if [`PageRequest::all`], else at most as many as the page may grow to. The cursor to
/// the next page is derived from `base`. `options` is `None` if items must not be condensed.
#[must_use]
pub fn show_items(
    index: &ListIndex,
    form: Form,
    items: Vec<Item<'_>>,
    request: PageRequest,
    base: &Cursor,
    pricer: &ExcerptPricer<'_>,
    options: Option<CondenseOptions<'_>>,
) -> Excerpt {
    let list = ListTask::new(pricer, base, index, form, items, request, options);
    reduce(&Task { pricer, base, content: Content::List(Box::new(list)), whole: None })
}

/// Returns the excerpt for a part of a stored text: all of `bytes`, or as many as fit the token
/// limit. `bytes` begin at `position` in the text. The cursor to the rest is derived from `base`.
#[must_use]
pub fn show_text(
    index: &TextIndex,
    bytes: &[u8],
    form: Form,
    position: TextPosition,
    base: &Cursor,
    pricer: &ExcerptPricer<'_>,
) -> Excerpt {
    let total_chunks = index.chunks.len() as u64;
    let text = TextTask { index, bytes, form, position, highlights: None, total_chunks };
    reduce(&Task { pricer, base, content: Content::Text(text), whole: None })
}

/// Returns the excerpt for the requested lines of a text whose snapshot is divided into items. It
/// has no cursor, because cursors of this snapshot lead to items, not lines. A range that ends
/// beyond the text is cut.
///
/// # Errors
/// Returns a message for the caller if the text ends before the first requested line.
pub fn show_lines(
    context: &ShapeContext<'_>,
    bytes: &[u8],
    form: Form,
    base: &Cursor,
    pricer: &ExcerptPricer<'_>,
) -> Result<Excerpt, String> {
    let payload = Payload { bytes, form, survey: None, ends: None, blocks: false };
    let index = range::text_index(context, &payload.lined(), pricer.token_limit());
    range::check_start(context.options.start_line, index.lines)?;
    let text = TextTask::first(context, &payload, &index, None);
    let excerpt = reduce(&Task { pricer, base, content: Content::Text(text), whole: None });
    // A cursor of this snapshot leads to an item, not to a line.
    Ok(Excerpt { next: None, more: false, ..excerpt })
}

/// Returns the units into which to divide a payload. `None` if it needs no reduction, or if policy
/// exempts it. `tokens` is the estimate for the payload, and `total` its cost.
fn divide<'s>(
    context: &ShapeContext<'_>,
    payload: &Payload<'_, 's>,
    tokens: u64,
    total: u64,
    token_limit: u64,
) -> Option<Division<'s>> {
    let limits = context.limits;
    let is_over = total > token_limit;
    let (is_text, is_ranged) = (payload.is_text(), context.options.ranged());
    let may_summarize =
        !is_text && !payload.blocks && context.condense_options().is_some() && !is_ranged;
    // The hard cap also holds for what policy exempts from paging or chunking.
    let is_capped = limits.enforce_hard_cap && total > limits.estimator.allowance(limits.hard_cap);
    let mut has_lists = false;
    if (limits.pagination || is_capped)
        && let Some(survey) = payload.survey
    {
        let lists = pageable_lists(context, payload, survey);
        let dominates =
            |list: &&List| list.span.len() * 2 >= survey.root.len() || limits.items_path.is_some();
        // An object with a long list beside other members is no list.
        has_lists = lists.iter().any(|list| list.span.len() * 5 >= survey.root.len() * 4);
        let request = context.first_page();
        let is_long = lists.iter().copied().filter(dominates).any(|list| {
            let most = match request.max_records {
                // Images and the like have no cost, so that the number alone limits them.
                0 => request.limit,
                _ if payload.blocks => request.limit,
                _ if has_scalars(payload, list) => u64::MAX,
                _ => request.max_records_shown(),
            };
            list.items.len() as u64 > most
        });
        let is_document =
            is_over && may_summarize && context.options.limit == 0 && has_one_item(payload, &lists);
        let is_long = is_long && !survey.is_lines;
        if !lists.is_empty() && (is_over || is_long) && !is_document {
            return Some(Division::Pages(lists));
        }
    }
    // A list that fits is no single object, however long.
    if may_summarize && (is_over || !has_lists && limits.summarizes(tokens)) {
        return Some(Division::Document);
    }
    let is_long = is_text && limits.has_exact_chunks && tokens > limits.chunk_threshold;
    let must_divide = is_over || is_long || (is_ranged && !payload.blocks);
    ((limits.chunking || is_capped) && must_divide).then_some(Division::Chunks)
}

/// Returns true if pages of `lists` would divide a single item: the only one, or one with a text
/// that makes up at least half of the payload. O(item).
fn has_one_item(payload: &Payload<'_, '_>, lists: &[&List]) -> bool {
    if lists.iter().map(|list| list.items.len()).sum::<usize>() == 1 {
        return true;
    }
    let half = payload.bytes.len() / 2;
    let mut items = lists.iter().flat_map(|list| &list.items);
    let item =
        items.find(|item| item.len() >= half).and_then(|item| payload.bytes.get(item.clone()));
    item.and_then(|item| DocumentInfo::parse(item, payload.form))
        .and_then(|info| info.text)
        .is_some_and(|text| text.span.len() >= half)
}

/// Returns true if a list of the payload begins with a scalar.
fn has_scalars(payload: &Payload<'_, '_>, list: &List) -> bool {
    let first = list.items.first().and_then(|item| payload.bytes.get(item.start));
    !matches!(first, Some(b'{' | b'['))
}

/// Returns true if a result may show all items of `lists`, condensed. The caller must not request a
/// page size or several pages, condensing must be allowed, and there must be at most
/// [`MAX_ITEMS_AT_ONCE`] items.
fn shows_all_at_once(context: &ShapeContext<'_>, lists: &[&List]) -> bool {
    let items: usize = lists.iter().map(|list| list.items.len()).sum();
    context.condense_options().is_some() && context.first_page().all && items <= MAX_ITEMS_AT_ONCE
}

/// Returns the first `limit` items of `lists`, which are lists of the payload.
fn first_items<'a>(payload: &Payload<'a, '_>, lists: &[&List], limit: u64) -> Vec<Item<'a>> {
    let spans = lists
        .iter()
        .enumerate()
        .flat_map(|(number, list)| list.items.iter().map(move |span| (number, span)));
    let item = |(number, span): (usize, &crate::json::Span)| {
        Item::new(number, payload.bytes.get(span.clone()).unwrap_or_default(), payload.form)
    };
    spans.take(usize::try_from(limit).unwrap_or(usize::MAX)).map(item).collect()
}

/// Returns true if the excerpt is a page with every item of its lists, none of them condensed.
fn shows_all_items(excerpt: &Excerpt) -> bool {
    matches!(
        excerpt.coverage,
        Coverage::Page { first: 0, shown, total, condensed: None, .. } if shown == total
    )
}
