//! Which rung of the ladder a payload needs, and the cut it gets.

use std::cell::RefCell;

use super::condense::Taste;
use super::highlight::Highlights;
use super::item::Item;
use super::list::{self, Ask};
use super::lossless::minify;
use super::payload::Payload;
use super::render::{Frame, Halves, Room};
use super::{Body, Facts, Shown, describe, range, summary};
use crate::json::scan::{Kind, is_json};
use crate::json::survey::{List, Survey};
use crate::json::text::{Form, visible};
use crate::policy::Limits;
use crate::query::Query;
use crate::snapshot::index::{
    Body as Kept, Home, Index, ItemMark, ListIndex, ListMark, SEGMENT_BYTES, View,
};
use crate::snapshot::stored::{Entry, entries};
use crate::snapshot::{Cursor, Keys, Replay, Scope};
use crate::text::lines::Lined;
use crate::tokens::Original;

/// What the caller asked for, beside the tool's own arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Wish {
    /// Items a page; 0: the policy's.
    pub limit: u64,
    /// Pages or chunks in one answer; 0: one.
    pub pages: u64,
    /// First line, from 1; 0: none asked for.
    pub start_line: u64,
    /// Last line; 0: the end.
    pub end_line: u64,
    /// Nothing is to be condensed: `fields=all`.
    pub whole: bool,
}

impl Wish {
    /// Whether lines were asked for.
    #[must_use]
    pub fn ranged(&self) -> bool {
        self.start_line > 0 || self.end_line > 0
    }
}

/// Everything that a cut depends on beside the payload.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// What applies to the endpoint.
    pub limits: &'a Limits,
    /// The live keys.
    pub keys: &'a Keys,
    /// Whose answer it is.
    pub scope: Scope<'a>,
    /// The endpoint without its upstream.
    pub name: &'a str,
    /// A hash of the arguments of the call.
    pub arguments: u128,
    /// How much was asked for.
    pub wish: Wish,
    /// What of it was asked for.
    pub query: &'a Query,
    /// Tokens that the caller says the answer may cost, if it does.
    pub budget: Option<u64>,
    /// Whether this is about something that was made from an answer already.
    pub derived: bool,
    /// Milliseconds since 1970.
    pub now_ms: u64,
    /// The name of the tool that reads on.
    pub read_tool: &'a str,
    /// What the schema of the tool lets stand in structured content.
    pub room: Room,
    /// The call that cursors lead back to, where nothing is kept.
    pub replay: Option<&'a Replay>,
}

impl Setting<'_> {
    /// The same with another wish.
    #[must_use]
    pub fn with(&self, wish: Wish, derived: bool) -> Self {
        Setting { wish, derived, ..*self }
    }

    /// What an answer costs that does not fit, whatever it costs exactly.
    #[must_use]
    pub fn surely_over(&self) -> u64 {
        let limits = self.limits;
        let allowance = limits.budget_for(self.wish.pages, self.budget).allowance();
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
    pub fn frame<'f>(
        &'f self,
        allowance: u64,
        text: bool,
        structured: Option<&'f Home>,
    ) -> Frame<'f> {
        Frame {
            estimator: self.limits.estimator,
            allowance,
            text,
            structured,
            room: self.room,
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
        if self.wish.limit > 0 { self.wish.limit } else { self.limits.default_page_size }
    }

    /// How what does not fit is condensed, if it may be.
    #[must_use]
    pub fn taste(&self) -> Option<Taste<'_>> {
        (self.limits.summarization && !self.wish.whole).then(|| Taste {
            estimator: &self.limits.estimator,
            map: self.limits.fields.as_ref(),
            keywords: &self.limits.keywords,
        })
    }
}

/// What became of a payload that had to be cut.
pub struct Cut<'a> {
    /// What is shown.
    pub shown: Shown,
    /// The same, written.
    pub halves: Halves,
    /// What is kept.
    pub entries: Vec<Entry<'a>>,
    /// What leads to the upstream's answer, where this was made from it.
    pub whole: Option<Cursor>,
}

/// Which cut a payload needs.
enum Rung<'s> {
    Page(Vec<&'s List>),
    Chunk,
    /// A summary first; the whole in chunks of its JSON.
    Summary,
}

/// Cuts a payload so that it fits `allowance` in all its copies; none where it may stay as it is. `cost` is what it costs as it stands, once.
#[must_use]
pub fn cut<'a>(
    setting: &Setting<'_>,
    payload: &Payload<'a, '_>,
    cost: Original,
    home: Option<Home>,
    text: bool,
    allowance: u64,
) -> Option<Cut<'a>> {
    let copies = u64::from(text) + u64::from(home.is_some());
    let total = cost.cost.saturating_mul(copies.max(1));
    let rung = choose(setting, payload, cost.tokens, total, allowance)?;
    let single = allowance / copies.max(1);
    let is_text = payload.survey.is_none_or(|survey| survey.kind == Kind::Scalar);
    let chunked = matches!(rung, Rung::Chunk);
    let told = chunked && is_text && range::tells_rest(setting, payload, total > allowance, single);
    // Of a list no lines are read.
    let lined =
        if matches!(rung, Rung::Page(_)) { Lined::of(&[], payload.form) } else { payload.lined() };
    let highlights = told.then(|| Highlights::of(&lined));
    let (body, items) = match &rung {
        Rung::Page(lists) => {
            let all = all_at_once(setting, lists);
            let limit = if all { u64::MAX } else { first_page(setting).limit };
            (Kept::List(list_index(payload, lists)), first_items(payload, lists, limit))
        }
        Rung::Chunk | Rung::Summary => (
            Kept::Text(range::text_index(setting, &lined, single, highlights.as_ref())),
            Vec::new(),
        ),
    };
    // A text that makes a single chunk is not chunked: nothing would be held back.
    if let (Kept::Text(text), Rung::Chunk) = (&body, &rung)
        && text.chunks.len() == 1
        && total <= allowance
        && !setting.wish.ranged()
    {
        return None;
    }
    let (snapshot, index) = index(setting, payload, cost, home, body);
    let frame = setting.frame(allowance, text, index.structured.as_ref());
    let base = Cursor::new(&snapshot, 0, setting.now_ms);
    // A list of more than a page is paged, however short it is.
    let long = matches!(&index.body, Kept::List(list) if list.total() > first_page(setting).limit);
    let lossless = || lossless(payload, &base, &frame).filter(|_| !long);
    let summary = || match rung {
        Rung::Summary => {
            // What fits the budget is summarised to within the threshold that it is over.
            let least = setting
                .limits
                .estimator
                .allowance(setting.limits.summary_threshold)
                .saturating_mul(copies.max(1));
            let most = if total <= allowance { least.min(allowance) } else { allowance };
            summary::of(setting, payload, &base, most, &frame)
        }
        _ => None,
    };
    let described = || {
        let wanted = is_text && !setting.wish.whole && !setting.wish.ranged();
        (chunked && wanted).then(|| describe::of(payload.bytes, payload.form, &base)).flatten()
    };
    let short = (total > allowance).then(|| lossless().or_else(described)).flatten();
    let shown = match short.or_else(summary) {
        Some(shown) => shown,
        None => match &index.body {
            Kept::List(list) | Kept::View(View { list, .. }) => list::show(
                list,
                payload.form,
                items,
                first_page(setting),
                &base,
                &frame,
                setting.taste(),
            ),
            Kept::Text(text) => {
                range::first_chunk(setting, payload, text, &base, &frame, highlights.as_ref())
            }
        },
    };
    let shown = if all_of_it(&shown) { as_lossless(shown, &base) } else { shown };
    let halves = frame.halves(&shown);
    Some(Cut { shown, halves, entries: entries(&snapshot, &index, payload.bytes), whole: None })
}

/// The index under which a payload is kept that is not shown itself.
#[must_use]
pub fn index_of(
    setting: &Setting<'_>,
    payload: &Payload<'_, '_>,
    cost: Original,
    home: Option<Home>,
) -> (String, Index) {
    let lists =
        payload.survey.map(|survey| worth_cutting(setting, payload, survey)).unwrap_or_default();
    let body = if lists.is_empty() {
        Kept::Text(range::text_index(
            setting,
            &payload.lined(),
            setting.limits.budget(1).allowance(),
            None,
        ))
    } else {
        Kept::List(list_index(payload, &lists))
    };
    index(setting, payload, cost, home, body)
}

fn index(
    setting: &Setting<'_>,
    payload: &Payload<'_, '_>,
    cost: Original,
    home: Option<Home>,
    body: Kept,
) -> (String, Index) {
    let home = match (&body, home) {
        (Kept::Text(_), Some(Home::Whole)) => Some(Home::Document),
        (_, home) => home,
    };
    let content = xxhash_rust::xxh3::xxh3_128(payload.bytes);
    let snapshot = setting.keys.snapshot(setting.scope, setting.arguments, content);
    let index = Index {
        endpoint: setting.name.to_owned(),
        form: payload.form,
        bytes: payload.bytes.len() as u64,
        expires_ms: setting.expires_ms(),
        tokens: cost.tokens,
        sampled: cost.sampled,
        structured: home,
        body,
    };
    (snapshot, index)
}

/// Whether a page shows every item, whole.
fn all_of_it(shown: &Shown) -> bool {
    matches!(&shown.facts, Facts::Page { first: 0, shown, total, condensed: None, .. } if shown == total)
}

/// A page of all items: what it lost is white space.
fn as_lossless(shown: Shown, whole: &Cursor) -> Shown {
    let facts = Facts::Lossless { what: WITHOUT_SPACE.to_owned() };
    Shown { facts, ..Shown::new(shown.facts, Some(whole.clone()), shown.body).complete() }
}

/// What the lossless rung takes out.
const WITHOUT_SPACE: &str = "without white space between its values";

/// The whole document without the white space between its tokens, where that makes it fit.
fn lossless(payload: &Payload<'_, '_>, whole: &Cursor, frame: &Frame<'_>) -> Option<Shown> {
    payload.survey.filter(|survey| survey.kind != Kind::Scalar && !payload.blocks)?;
    // A token is at most 16 bytes: two thirds of it would have to be white space.
    if payload.bytes.len() as u64 > frame.allowance.saturating_mul(48) || !airy(payload) {
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
    let facts = Facts::Lossless { what: WITHOUT_SPACE.to_owned() };
    let shown = Shown::new(facts, Some(whole.clone()), Body::Json(minified)).complete();
    (frame.halves(&shown).cost <= frame.allowance).then_some(shown)
}

/// Bytes by which it is told whether a list has white space between its values.
const STRETCH: usize = 1_024;

/// Whether a list that dominates a document has white space between its values: its beginning tells. Of any other document it is not known.
fn airy(payload: &Payload<'_, '_>) -> bool {
    let list = payload.survey.and_then(Survey::longest);
    let Some(list) = list.filter(|list| list.span.len() * 4 >= payload.bytes.len() * 3) else {
        return true;
    };
    let Some((first, last)) = list.items.first().zip(list.items.last()) else { return true };
    let far = list.items.iter().find(|item| item.end >= first.start + STRETCH).unwrap_or(last);
    let raw = visible(payload.bytes.get(first.start..far.end).unwrap_or_default(), payload.form);
    minify(&raw).len() * 20 < raw.len() * 19
}

/// Lists of more items than this are not condensed all at once, however much room there is.
const MOST_AT_ONCE: usize = 2_000;

/// Whether all items may be shown at once, if they fit when condensed: the caller did not choose how many.
fn all_at_once(setting: &Setting<'_>, lists: &[&List]) -> bool {
    let items: usize = lists.iter().map(|list| list.items.len()).sum();
    setting.taste().is_some()
        && setting.wish.limit == 0
        && setting.wish.pages <= 1
        && items <= MOST_AT_ONCE
}

/// The page that a call without a cursor asks for.
pub(super) fn first_page(setting: &Setting<'_>) -> Ask {
    let page_size = setting.page_size();
    Ask {
        first: 0,
        within: 0,
        limit: page_size.saturating_mul(setting.wish.pages.max(1)),
        page_size,
        carried_limit: setting.wish.limit,
        whole: setting.wish.whole,
        all: setting.wish.limit == 0 && setting.wish.pages <= 1,
    }
}

/// `tokens` are those of one copy, `total` is the cost of all.
fn choose<'s>(
    setting: &Setting<'_>,
    payload: &Payload<'_, 's>,
    tokens: u64,
    total: u64,
    allowance: u64,
) -> Option<Rung<'s>> {
    let limits = setting.limits;
    let over = total > allowance;
    // What may not be paged or chunked is cut all the same before it exceeds the hard cap.
    let capped = limits.enforce_hard_cap && total > limits.estimator.allowance(limits.hard_cap);
    if (limits.pagination || capped)
        && let Some(survey) = payload.survey
    {
        let lists = worth_cutting(setting, payload, survey);
        let dominates = |list: &&List| {
            list.span.len() * 2 >= survey.root.len() || setting.limits.items_path.is_some()
        };
        let longest = lists.iter().copied().filter(dominates).map(|list| list.items.len()).max();
        if !lists.is_empty() && (over || longest.unwrap_or(0) as u64 > first_page(setting).limit) {
            return Some(Rung::Page(lists));
        }
    }
    let is_text = payload.survey.is_none_or(|survey| survey.kind == Kind::Scalar);
    let summarise =
        !is_text && !payload.blocks && setting.taste().is_some() && !setting.wish.ranged();
    if summarise && (over || tokens > limits.summary_threshold) {
        return Some(Rung::Summary);
    }
    let long = is_text && tokens > limits.chunk_threshold;
    ((limits.chunking || capped) && (over || long || (setting.wish.ranged() && !payload.blocks)))
        .then_some(Rung::Chunk)
}

/// The lists that are paged: the one that policy names, or the one that dominates, with others as large as to matter. None where what stands around
/// them would not leave room for them.
fn worth_cutting<'s>(
    setting: &Setting<'_>,
    payload: &Payload<'_, '_>,
    survey: &'s Survey,
) -> Vec<&'s List> {
    let whole = survey.root.len();
    let bytes = |lists: &[&List]| lists.iter().map(|list| list.span.len()).sum::<usize>();
    let filled = || survey.lists.iter().filter(|list| !list.items.is_empty());
    let dominant = survey
        .longest()
        .filter(|longest| !longest.items.is_empty() && longest.span.len() * 2 >= whole);
    let lists: Vec<&List> = match (&setting.limits.items_path, dominant) {
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
    let room = setting.limits.budget_for(setting.wish.pages, setting.budget).allowance();
    if payload.blocks || around / 3 <= room / 6 { lists } else { Vec::new() }
}

/// Bytes of a bracket, in either form.
const BRACKET: usize = 1;

pub(super) fn list_index(payload: &Payload<'_, '_>, lists: &[&List]) -> ListIndex {
    let Some(survey) = payload.survey else { return ListIndex::default() };
    let mut index = ListIndex {
        blocks: payload.blocks,
        bare: survey.kind == Kind::Array,
        ..ListIndex::default()
    };
    let mut at = survey.root.start;
    for (number, list) in lists.iter().enumerate() {
        let (open, close) = (list.span.start + BRACKET, list.span.end - BRACKET);
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
