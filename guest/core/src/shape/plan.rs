//! Which rung of the ladder a payload needs, and the cut it gets.

use std::cell::RefCell;

use super::condense::CondenseOptions;
use super::highlight::Highlights;
use super::item::Item;
use super::list::{self, PageRequest};
use super::lossless::minify;
use super::payload::Payload;
use super::render::{RenderContext, Rendered, SchemaConstraint};
use super::{Body, Coverage, Excerpt, describe, range, summary};
use crate::json::scan::{Kind, is_json};
use crate::json::survey::{List, Survey};
use crate::json::text::{Form, visible};
use crate::policy::EndpointSettings;
use crate::query::Query;
use crate::snapshot::index::{
    Body as Kept, Index, ItemMark, ListIndex, ListMark, Placement, ProjectedList, SEGMENT_BYTES,
};
use crate::snapshot::stored::{Entry, entries};
use crate::snapshot::{Cursor, Keys, Replay, Scope};
use crate::text::lines::Lined;
use crate::tokens::Original;

/// What the caller asked for, beside the tool's own arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RequestOptions {
    /// Items a page; 0: the policy's.
    pub limit: u64,
    /// Pages or chunks in one answer; 0: one.
    pub pages: u64,
    /// First line, from 1; 0: none asked for.
    pub start_line: u64,
    /// RenderCache line; 0: the end.
    pub end_line: u64,
    /// Nothing is to be condensed: `fields=all`.
    pub whole: bool,
}

impl RequestOptions {
    /// Whether lines were asked for.
    #[must_use]
    pub fn ranged(&self) -> bool {
        self.start_line > 0 || self.end_line > 0
    }
}

/// Everything that a cut depends on beside the payload.
#[derive(Clone, Copy)]
pub struct ShapeContext<'a> {
    /// What applies to the endpoint.
    pub limits: &'a EndpointSettings,
    /// The live keys.
    pub keys: &'a Keys,
    /// Whose answer it is.
    pub scope: Scope<'a>,
    /// The endpoint without its upstream.
    pub name: &'a str,
    /// A hash of the arguments of the call.
    pub arguments: u128,
    /// How much was asked for.
    pub options: RequestOptions,
    /// What of it was asked for.
    pub query: &'a Query,
    /// Tokens that the caller says the answer may cost, if it does.
    pub budget: Option<u64>,
    /// Whether this is about something that was made from an answer already.
    pub is_transformed: bool,
    /// Milliseconds since 1970.
    pub now_ms: u64,
    /// The name of the tool that reads on.
    pub read_tool: &'a str,
    /// What the schema of the tool lets stand in structured content.
    pub schema_constraint: SchemaConstraint,
    /// The call that cursors lead back to, where nothing is kept.
    pub replay: Option<&'a Replay>,
}

impl ShapeContext<'_> {
    /// The same with another wish.
    #[must_use]
    pub fn with(&self, options: RequestOptions, is_transformed: bool) -> Self {
        ShapeContext { options, is_transformed, ..*self }
    }

    /// What an answer costs that does not fit, whatever it costs exactly.
    #[must_use]
    pub fn surely_over(&self) -> u64 {
        let limits = self.limits;
        let allowance = limits.budget_for(self.options.pages, self.budget).allowance();
        // What may not be cut otherwise is where the hard cap says so.
        let cap = if limits.pagination && limits.chunking { 0 } else { limits.hard_cap };
        allowance.saturating_mul(2).max(limits.estimator.allowance(cap).saturating_mul(2))
    }

    /// When what is kept now stops being kept, in milliseconds since 1970.
    #[must_use]
    pub fn expires_ms(&self) -> u64 {
        self.now_ms + 2 * self.limits.cursor_ttl_ms
    }

    /// Under what a part is written.
    #[must_use]
    pub fn renderer<'f>(
        &'f self,
        allowance: u64,
        text: bool,
        structured: Option<&'f Placement>,
    ) -> RenderContext<'f> {
        RenderContext {
            estimator: self.limits.estimator,
            allowance,
            text,
            structured,
            schema_constraint: self.schema_constraint,
            keys: self.keys,
            principal: self.scope.principal,
            read_tool: self.read_tool,
            replay: self.replay,
            last: RefCell::default(),
        }
    }

    /// Items on a page: as many as were asked for, else as policy says.
    #[must_use]
    pub fn page_size(&self) -> u64 {
        if self.options.limit > 0 { self.options.limit } else { self.limits.default_page_size }
    }

    /// How what does not fit is condensed, if it may be.
    #[must_use]
    pub fn condense_options(&self) -> Option<CondenseOptions<'_>> {
        (self.limits.summarization && !self.options.whole).then(|| CondenseOptions {
            estimator: &self.limits.estimator,
            map: self.limits.fields.as_ref(),
            keywords: &self.limits.keywords,
        })
    }
}

/// What became of a payload that had to be cut.
pub struct ShapedPayload<'a> {
    /// What is shown.
    pub excerpt: Excerpt,
    /// The same, written.
    pub rendered: Rendered,
    /// What is kept.
    pub entries: Vec<Entry<'a>>,
    /// What leads to the upstream's answer, where this was made from it.
    pub whole: Option<Cursor>,
}

/// Which cut a payload needs.
enum Strategy<'s> {
    Page(Vec<&'s List>),
    Chunk,
    /// A summary first; the whole in chunks of its JSON.
    Summary,
}

/// Cuts a payload so that it fits `allowance` in all its copies; none where it may stay as it is. `cost` is what it costs as it stands, once.
#[must_use]
pub fn cut<'a>(
    context: &ShapeContext<'_>,
    payload: &Payload<'a, '_>,
    cost: Original,
    placement: Option<Placement>,
    text: bool,
    allowance: u64,
) -> Option<ShapedPayload<'a>> {
    let copies = u64::from(text) + u64::from(placement.is_some());
    let total = cost.cost.saturating_mul(copies.max(1));
    let rung = choose(context, payload, cost.tokens, total, allowance)?;
    let single = allowance / copies.max(1);
    let is_text = payload.survey.is_none_or(|survey| survey.kind == Kind::Scalar);
    let chunked = matches!(rung, Strategy::Chunk);
    let told = chunked && is_text && range::tells_rest(context, payload, total > allowance, single);
    // Of a list no lines are read.
    let lined = if matches!(rung, Strategy::Page(_)) {
        Lined::of(&[], payload.form)
    } else {
        payload.lined()
    };
    let highlights = told.then(|| Highlights::new(&lined));
    let (body, items) = match &rung {
        Strategy::Page(lists) => {
            let all = all_at_once(context, lists);
            let limit = if all { u64::MAX } else { first_page(context).limit };
            (Kept::List(list_index(payload, lists)), first_items(payload, lists, limit))
        }
        Strategy::Chunk | Strategy::Summary => (
            Kept::Text(range::text_index(context, &lined, single, highlights.as_ref())),
            Vec::new(),
        ),
    };
    // A text that makes a single chunk is not chunked: nothing would be held back.
    if let (Kept::Text(text), Strategy::Chunk) = (&body, &rung)
        && text.chunks.len() == 1
        && total <= allowance
        && !context.options.ranged()
    {
        return None;
    }
    let (snapshot, index) = index(context, payload, cost, placement, body);
    let renderer = context.renderer(allowance, text, index.structured.as_ref());
    let base = Cursor::new(&snapshot, 0, context.now_ms);
    // A list of more than a page is paged, however short it is.
    let long = matches!(&index.body, Kept::List(list) if list.total() > first_page(context).limit);
    let lossless = || lossless(payload, &base, &renderer).filter(|_| !long);
    let summary = || match rung {
        Strategy::Summary => {
            // What fits the budget is summarised to within the threshold that it is over.
            let least = context
                .limits
                .estimator
                .allowance(context.limits.summary_threshold)
                .saturating_mul(copies.max(1));
            let most = if total <= allowance { least.min(allowance) } else { allowance };
            summary::summarize(context, payload, &base, most, &renderer)
        }
        _ => None,
    };
    let described = || {
        let wanted = is_text && !context.options.whole && !context.options.ranged();
        (chunked && wanted)
            .then(|| describe::describe_binary(payload.bytes, payload.form, &base))
            .flatten()
    };
    let short = (total > allowance).then(|| lossless().or_else(described)).flatten();
    let excerpt = match short.or_else(summary) {
        Some(excerpt) => excerpt,
        None => match &index.body {
            Kept::List(list) | Kept::Projected(ProjectedList { list, .. }) => list::show(
                list,
                payload.form,
                items,
                first_page(context),
                &base,
                &renderer,
                context.condense_options(),
            ),
            Kept::Text(text) => {
                range::first_chunk(context, payload, text, &base, &renderer, highlights.as_ref())
            }
        },
    };
    let excerpt = if all_of_it(&excerpt) { as_lossless(excerpt, &base) } else { excerpt };
    let rendered = renderer.render(&excerpt);
    Some(ShapedPayload {
        excerpt,
        rendered,
        entries: entries(&snapshot, &index, payload.bytes),
        whole: None,
    })
}

/// The index under which a payload is kept that is not shown itself.
#[must_use]
pub fn payload_index(
    context: &ShapeContext<'_>,
    payload: &Payload<'_, '_>,
    cost: Original,
    placement: Option<Placement>,
) -> (String, Index) {
    let lists =
        payload.survey.map(|survey| pageable_lists(context, payload, survey)).unwrap_or_default();
    let body = if lists.is_empty() {
        Kept::Text(range::text_index(
            context,
            &payload.lined(),
            context.limits.budget(1).allowance(),
            None,
        ))
    } else {
        Kept::List(list_index(payload, &lists))
    };
    index(context, payload, cost, placement, body)
}

fn index(
    context: &ShapeContext<'_>,
    payload: &Payload<'_, '_>,
    cost: Original,
    placement: Option<Placement>,
    body: Kept,
) -> (String, Index) {
    let placement = match (&body, placement) {
        (Kept::Text(_), Some(Placement::Whole)) => Some(Placement::Document),
        (_, placement) => placement,
    };
    let content = xxhash_rust::xxh3::xxh3_128(payload.bytes);
    let snapshot = context.keys.snapshot(context.scope, context.arguments, content);
    let index = Index {
        endpoint: context.name.to_owned(),
        form: payload.form,
        bytes: payload.bytes.len() as u64,
        expires_ms: context.expires_ms(),
        tokens: cost.tokens,
        sampled: cost.sampled,
        structured: placement,
        body,
    };
    (snapshot, index)
}

/// Whether a page shows every item, whole.
fn all_of_it(excerpt: &Excerpt) -> bool {
    matches!(&excerpt.coverage, Coverage::Page { first: 0, shown, total, condensed: None, .. } if shown == total)
}

/// A page of all items: what it lost is white space.
fn as_lossless(excerpt: Excerpt, whole: &Cursor) -> Excerpt {
    let coverage = Coverage::Lossless { what: WITHOUT_SPACE.to_owned() };
    Excerpt {
        coverage,
        ..Excerpt::new(excerpt.coverage, Some(whole.clone()), excerpt.body).complete()
    }
}

/// What the lossless rung takes out.
const WITHOUT_SPACE: &str = "without white space between its values";

/// The whole document without the white space between its tokens, where that makes it fit.
fn lossless(
    payload: &Payload<'_, '_>,
    whole: &Cursor,
    renderer: &RenderContext<'_>,
) -> Option<Excerpt> {
    payload.survey.filter(|survey| survey.kind != Kind::Scalar && !payload.blocks)?;
    // A token is at most 16 bytes: two thirds of it would have to be white space.
    if payload.bytes.len() as u64 > renderer.allowance.saturating_mul(48)
        || !has_excess_whitespace(payload)
    {
        return None;
    }
    let raw = visible(payload.bytes, payload.form);
    if !is_json(&raw, Form::Raw) {
        return None;
    }
    let minified = minify(&raw);
    // A tenth must be gained, or it is not worth trying.
    if minified.len() * 10 > raw.len() * 9 {
        return None;
    }
    let coverage = Coverage::Lossless { what: WITHOUT_SPACE.to_owned() };
    let excerpt = Excerpt::new(coverage, Some(whole.clone()), Body::Json(minified)).complete();
    (renderer.render(&excerpt).cost <= renderer.allowance).then_some(excerpt)
}

/// Bytes by which it is told whether a list has white space between its values.
const WHITESPACE_SAMPLE_BYTES: usize = 1_024;

/// Whether a list that dominates a document has white space between its values: its beginning tells. Of any other document it is not known.
fn has_excess_whitespace(payload: &Payload<'_, '_>) -> bool {
    let list = payload.survey.and_then(Survey::longest);
    let Some(list) = list.filter(|list| list.span.len() * 4 >= payload.bytes.len() * 3) else {
        return true;
    };
    let Some((first, last)) = list.items.first().zip(list.items.last()) else { return true };
    let far = list
        .items
        .iter()
        .find(|item| item.end >= first.start + WHITESPACE_SAMPLE_BYTES)
        .unwrap_or(last);
    let raw = visible(payload.bytes.get(first.start..far.end).unwrap_or_default(), payload.form);
    minify(&raw).len() * 20 < raw.len() * 19
}

/// Lists of more items than this are not condensed all at once, however much room there is.
const MAX_ITEMS_AT_ONCE: usize = 2_000;

/// Whether all items may be shown at once, if they fit when condensed: the caller did not choose how many.
fn all_at_once(context: &ShapeContext<'_>, lists: &[&List]) -> bool {
    let items: usize = lists.iter().map(|list| list.items.len()).sum();
    context.condense_options().is_some()
        && context.options.limit == 0
        && context.options.pages <= 1
        && items <= MAX_ITEMS_AT_ONCE
}

/// The page that a call without a cursor asks for.
pub(super) fn first_page(context: &ShapeContext<'_>) -> PageRequest {
    let page_size = context.page_size();
    PageRequest {
        first: 0,
        within: 0,
        limit: page_size.saturating_mul(context.options.pages.max(1)),
        page_size,
        carried_limit: context.options.limit,
        whole: context.options.whole,
        all: context.options.limit == 0 && context.options.pages <= 1,
    }
}

/// `tokens` are those of one copy, `total` is the cost of all.
fn choose<'s>(
    context: &ShapeContext<'_>,
    payload: &Payload<'_, 's>,
    tokens: u64,
    total: u64,
    allowance: u64,
) -> Option<Strategy<'s>> {
    let limits = context.limits;
    let over = total > allowance;
    // What may not be paged or chunked is cut all the same before it exceeds the hard cap.
    let capped = limits.enforce_hard_cap && total > limits.estimator.allowance(limits.hard_cap);
    if (limits.pagination || capped)
        && let Some(survey) = payload.survey
    {
        let lists = pageable_lists(context, payload, survey);
        let dominates = |list: &&List| {
            list.span.len() * 2 >= survey.root.len() || context.limits.items_path.is_some()
        };
        let longest = lists.iter().copied().filter(dominates).map(|list| list.items.len()).max();
        if !lists.is_empty() && (over || longest.unwrap_or(0) as u64 > first_page(context).limit) {
            return Some(Strategy::Page(lists));
        }
    }
    let is_text = payload.survey.is_none_or(|survey| survey.kind == Kind::Scalar);
    let summarise = !is_text
        && !payload.blocks
        && context.condense_options().is_some()
        && !context.options.ranged();
    if summarise && (over || tokens > limits.summary_threshold) {
        return Some(Strategy::Summary);
    }
    let long = is_text && tokens > limits.chunk_threshold;
    ((limits.chunking || capped) && (over || long || (context.options.ranged() && !payload.blocks)))
        .then_some(Strategy::Chunk)
}

/// The lists that are paged: the one that policy names, or the one that dominates, with others as large as to matter. None where what stands around
/// them would not leave room for them.
fn pageable_lists<'s>(
    context: &ShapeContext<'_>,
    payload: &Payload<'_, '_>,
    survey: &'s Survey,
) -> Vec<&'s List> {
    let whole = survey.root.len();
    let bytes = |lists: &[&List]| lists.iter().map(|list| list.span.len()).sum::<usize>();
    let filled = || survey.lists.iter().filter(|list| !list.items.is_empty());
    let dominant = survey
        .longest()
        .filter(|longest| !longest.items.is_empty() && longest.span.len() * 2 >= whole);
    let lists: Vec<&List> = match (&context.limits.items_path, dominant) {
        (Some(path), _) => {
            survey.lists.iter().find(|list| list.path == *path).into_iter().collect()
        }
        (None, Some(longest)) => {
            filled().filter(|list| list.span.len() * 8 >= longest.span.len()).collect()
        }
        // Several lists may dominate together.
        (None, None) if bytes(&survey.lists.iter().collect::<Vec<_>>()) * 2 >= whole => {
            filled().filter(|list| list.span.len() * 16 >= whole).collect()
        }
        (None, None) => Vec::new(),
    };
    let around = u64::try_from(whole.saturating_sub(bytes(&lists))).unwrap_or(u64::MAX);
    // A token is three bytes and more in most JSON.
    let room = context.limits.budget_for(context.options.pages, context.budget).allowance();
    if payload.blocks || around / 3 <= room / 6 { lists } else { Vec::new() }
}

/// Bytes of a bracket, in either form.
const BRACKET_BYTES: usize = 1;

pub(super) fn list_index(payload: &Payload<'_, '_>, lists: &[&List]) -> ListIndex {
    let Some(survey) = payload.survey else { return ListIndex::default() };
    let mut index = ListIndex {
        blocks: payload.blocks,
        bare: survey.kind == Kind::Array,
        ..ListIndex::default()
    };
    let mut at = survey.root.start;
    for (number, list) in lists.iter().enumerate() {
        let (open, close) = (list.span.start + BRACKET_BYTES, list.span.end - BRACKET_BYTES);
        index.skeleton.push(payload.bytes.get(at..open).unwrap_or_default().to_vec());
        index.lists.push(ListMark {
            path: list.path.join("."),
            start: open as u64,
            count: list.items.len() as u64,
        });
        at = close;
        if lists
            .get(usize::try_from(index.main).unwrap_or(0))
            .is_some_and(|main| main.span.len() < list.span.len())
        {
            index.main = number as u64;
        }
    }
    index.skeleton.push(payload.bytes.get(at..survey.root.end).unwrap_or_default().to_vec());
    let items = lists.iter().flat_map(|list| list.items.iter());
    let mut segment = None;
    for (item, span) in items.enumerate() {
        let here = span.start / SEGMENT_BYTES;
        if segment != Some(here) {
            segment = Some(here);
            index.marks.push(ItemMark { item: item as u64, offset: span.start as u64 });
        }
    }
    index
}

/// The first items of these lists.
fn first_items<'a>(payload: &Payload<'a, '_>, lists: &[&List], limit: u64) -> Vec<Item<'a>> {
    let spans = lists
        .iter()
        .enumerate()
        .flat_map(|(at, list)| list.items.iter().map(move |span| (at, span)));
    spans
        .take(usize::try_from(limit).unwrap_or(usize::MAX))
        .map(|(at, span)| {
            Item::new(at, payload.bytes.get(span.clone()).unwrap_or_default(), payload.form)
        })
        .collect()
}
