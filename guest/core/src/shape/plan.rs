//! Which rung of the ladder a payload needs, and the cut it gets.

use super::Shown;
use super::list::{self, Ask};
use super::range;
use super::render::{Frame, Halves};
use crate::json::scan::Kind;
use crate::json::survey::{List, Survey};
use crate::json::text::Form;
use crate::policy::Limits;
use crate::snapshot::index::{
    Body as Kept, Home, Index, ItemMark, ListIndex, ListMark, SEGMENT_BYTES,
};
use crate::snapshot::stored::{Entry, entries};
use crate::snapshot::{Cursor, Keys, Scope};
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
}

impl Wish {
    /// Whether lines were asked for.
    #[must_use]
    pub fn ranged(&self) -> bool {
        self.start_line > 0 || self.end_line > 0
    }
}

/// A payload: a document or text, and where it stands.
pub struct Payload<'a, 's> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// How they stand.
    pub form: Form,
    /// What it holds, where it is JSON.
    pub survey: Option<&'s Survey>,
    /// Whether its items are content blocks.
    pub blocks: bool,
}

/// Everything that a cut depends on beside the payload.
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
    /// What was asked for.
    pub wish: Wish,
    /// Tokens that the caller says the answer may cost, if it does.
    pub budget: Option<u64>,
    /// Milliseconds since 1970.
    pub now_ms: u64,
    /// The name of the tool that reads on.
    pub read_tool: &'a str,
    /// Whether fields may stand beside a list in structured content.
    pub open: bool,
}

impl Setting<'_> {
    /// Items on a page: as many as were asked for, else as policy says.
    #[must_use]
    pub fn page_size(&self) -> u64 {
        if self.wish.limit > 0 { self.wish.limit } else { self.limits.default_page_size }
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
}

/// Which cut a payload needs.
enum Rung<'s> {
    Page(Vec<&'s List>),
    Chunk,
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
    let content = xxhash_rust::xxh3::xxh3_128(payload.bytes);
    let snapshot = setting.keys.snapshot(setting.scope, setting.arguments, content);
    let (body, items) = match rung {
        Rung::Page(lists) => {
            let items = first_items(payload, &lists, first_page(setting).limit);
            (Kept::List(list_index(payload, &lists)), items)
        }
        Rung::Chunk => {
            let text = range::text_index(setting, payload, allowance / copies.max(1));
            (Kept::Text(text), Vec::new())
        }
    };
    // A text that makes a single chunk is not chunked: nothing would be held back.
    if let Kept::Text(text) = &body
        && text.chunks.len() == 1
        && total <= allowance
        && !setting.wish.ranged()
    {
        return None;
    }
    let home = match (&body, home) {
        (Kept::Text(_), Some(Home::Whole)) => Some(Home::Document),
        (_, home) => home,
    };
    let index = Index {
        endpoint: setting.name.to_owned(),
        form: payload.form,
        bytes: payload.bytes.len() as u64,
        expires_ms: setting.now_ms + 2 * setting.limits.cursor_ttl_ms,
        tokens: cost.tokens,
        sampled: cost.sampled,
        structured: home,
        body,
    };
    let frame = Frame {
        estimator: setting.limits.estimator,
        allowance,
        text,
        structured: index.structured.as_ref(),
        open: setting.open,
        keys: setting.keys,
        principal: setting.scope.principal,
        read_tool: setting.read_tool,
    };
    let base = Cursor::new(&snapshot, 0, setting.now_ms);
    let shown = match &index.body {
        Kept::List(list) => {
            list::show(list, payload.form, &items, first_page(setting), &base, &frame)
        }
        Kept::Text(text) => range::first_chunk(setting, payload, text, &base, &frame),
    };
    let halves = frame.halves(&shown);
    Some(Cut { shown, halves, entries: entries(&snapshot, &index, payload.bytes) })
}

/// The page that a call without a cursor asks for.
fn first_page(setting: &Setting<'_>) -> Ask {
    let page_size = setting.page_size();
    Ask {
        first: 0,
        within: 0,
        limit: page_size.saturating_mul(setting.wish.pages.max(1)),
        page_size,
        carried_limit: setting.wish.limit,
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

fn list_index(payload: &Payload<'_, '_>, lists: &[&List]) -> ListIndex {
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
fn first_items<'a>(payload: &Payload<'a, '_>, lists: &[&List], limit: u64) -> list::Items<'a> {
    let spans = lists
        .iter()
        .enumerate()
        .flat_map(|(at, list)| list.items.iter().map(move |span| (at, span)));
    spans
        .take(usize::try_from(limit).unwrap_or(usize::MAX))
        .map(|(at, span)| (at, payload.bytes.get(span.clone()).unwrap_or_default()))
        .collect()
}
