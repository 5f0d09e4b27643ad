//! Lists: selects the items of a page by their cost.

use std::cell::{OnceCell, RefCell};

use super::condense::CondenseOptions;
use super::condense::records::RecordCondenser;
use super::condense::statistics::{MAX_COUNTED_BYTES, statistics, statistics_limit};
use super::content_block::block_text;
use super::item::{Item, minify_items};
use super::page::Pieces;
use super::pricing::ExcerptPricer;
use super::{Coverage, Excerpt, ExcerptBody};
use crate::json::Span;
use crate::json::text::{Form, visible};
use crate::snapshot::Cursor;
use crate::snapshot::index::ListIndex;
use crate::text::line_breaks::without_line_breaks;
use crate::tokens::{CostModel, WordCache};

/// A request for a page of items. Items are numbered through all lists of a payload that are
/// divided into pages.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest {
    /// The number of the first requested item, from 0.
    pub first: u64,
    /// The number of bytes of the first item that earlier results showed already. 0 for a whole
    /// item.
    pub within: u64,
    /// The maximum number of items to show, unless the page grows (`max_records`) or shows all
    /// items condensed (`all`).
    pub limit: u64,
    /// The maximum number of records to which the page grows if more than `limit` fit uncondensed.
    /// Scalars have no maximum. If 0, `limit` is exact.
    pub max_records: u64,
    /// The number of items on a page, as the result metadata reports it. `limit` may cover several
    /// pages.
    pub page_size: u64,
    /// The page size to put into cursors to later pages. 0 for the default of the policy.
    pub carried_limit: u64,
    /// True if items must not be condensed. Items that do not fit go to the next page.
    pub whole: bool,
    /// True if the result may show all items, more than a page, provided that they fit when
    /// condensed.
    pub all: bool,
}

impl PageRequest {
    /// Returns the maximum number of records on the page, grown or not.
    pub(super) fn max_records_shown(&self) -> u64 {
        self.limit.max(self.max_records)
    }

    /// Returns the maximum number of items that the page may contain, if each item costs at least
    /// two tokens.
    pub(super) fn max_items(&self, token_limit: u64) -> u64 {
        if self.max_records == 0 { self.limit } else { self.limit.max(token_limit / 2) }
    }
}

/// Number of items that are priced for a rough estimate of the number of items that fit.
const ROUGHLY_PRICED_ITEMS: usize = 4;

/// Minimum cost of a condensed or summarized item, in tokens.
pub(super) const MIN_ITEM_TOKENS: u64 = 3;

/// The minimum number of items of a list that has statistics. A model can count fewer.
const MIN_COUNTED_ITEMS: usize = 12;

/// All items of the only or longest list of a payload.
#[derive(Clone, Copy)]
pub(super) struct AllItems<'t> {
    /// The payload that contains the list.
    pub bytes: &'t [u8],
    /// The spans of the items in `bytes`.
    pub spans: &'t [Span],
    /// The keys from the root of the payload to the list, if the payload has other lists too.
    pub path: &'t [String],
}

impl<'t> AllItems<'t> {
    fn are_countable(&self) -> bool {
        let bytes = self.spans.last().map_or(0, |last| last.end);
        let from = self.spans.first().map_or(0, |first| first.start);
        self.spans.len() >= MIN_COUNTED_ITEMS && bytes - from <= MAX_COUNTED_BYTES
    }

    fn items(&self) -> impl Iterator<Item = &'t [u8]> {
        self.spans.iter().map(|span| self.bytes.get(span.clone()).unwrap_or_default())
    }
}

/// A request for a page of items, with the items and their estimated costs.
pub(super) struct ListTask<'t> {
    pricer: &'t ExcerptPricer<'t>,
    base: &'t Cursor,
    /// The positions in the payload of the lists that are divided into pages.
    pub index: &'t ListIndex,
    /// The form of the items: raw, or escaped as in a JSON string.
    pub form: Form,
    /// The items from the first requested one on. The page shows as many of them as fit.
    pub items: Vec<Item<'t>>,
    /// The requested page: its first item, its size, and the treatment of items that do not fit.
    pub request: PageRequest,
    options: Option<CondenseOptions<'t>>,
    /// All items of the list, if their statistics are shown beside a page.
    all: Option<AllItems<'t>>,
    statistics: OnceCell<Option<String>>,
    whole_items: OnceCell<CountEstimate>,
    exact_count: OnceCell<usize>,
    priced: RefCell<PricedItems>,
    records: OnceCell<Option<RecordCondenser<'t>>>,
}

/// The costs of items, for later estimates.
#[derive(Default)]
struct PricedItems {
    /// The costs of the first items that were priced.
    costs: Vec<u64>,
    /// The costs of words in items.
    words: WordCache,
}

/// The estimated number of items that fit the token limit without condensing.
#[derive(Clone, Copy)]
pub(super) struct CountEstimate {
    /// The estimated number of items.
    pub count: usize,
    /// True if the estimate is based on the first few items only, false if all were priced.
    is_rough: bool,
}

impl<'t> ListTask<'t> {
    /// Creates a task. Decides if white space is removed from the items. `options` is `None` if
    /// items must not be condensed. O(3 items).
    pub(super) fn new(
        pricer: &'t ExcerptPricer<'t>,
        base: &'t Cursor,
        index: &'t ListIndex,
        form: Form,
        mut items: Vec<Item<'t>>,
        request: PageRequest,
        options: Option<CondenseOptions<'t>>,
    ) -> Self {
        if !index.blocks && request.within == 0 {
            minify_items(&mut items);
        }
        // Content blocks have fields of the protocol, not of records.
        let options = options.filter(|_| !index.blocks);
        Self {
            pricer,
            base,
            index,
            form,
            items,
            request,
            options,
            all: None,
            statistics: OnceCell::new(),
            whole_items: OnceCell::new(),
            exact_count: OnceCell::new(),
            priced: RefCell::default(),
            records: OnceCell::new(),
        }
    }

    /// Adds statistics over `all` items to the page, if given.
    pub(super) fn with_statistics(self, all: Option<AllItems<'t>>) -> Self {
        Self { all, ..self }
    }

    /// Returns the statistics over all items of the list. `None` if they are not requested, if no
    /// field has statistics, or if they do not fit. Lists of few items and very large ones have
    /// none. O(bytes of the list) on first use.
    pub(super) fn statistics(&self) -> Option<String> {
        let text = || {
            let all = self.all.as_ref().filter(|all| all.are_countable())?;
            let limit = statistics_limit(self.pricer.token_limit())?;
            let own = (!all.path.is_empty()).then(|| {
                let items = all.items().map(|item| Item::new(0, item, self.form));
                RecordCondenser::new(&items.collect::<Vec<_>>(), self.options?)
            });
            let records = match &own {
                Some(own) => own.as_ref()?,
                None => self.records()?,
            };
            let mut found = statistics(records, all.items(), self.form)?;
            let of = if all.path.is_empty() {
                String::new()
            } else {
                without_line_breaks(format!(" of {}", all.path.join(".")))
            };
            while !found.is_empty() {
                let text = format!("Over all {} items{of}: {}", all.spans.len(), found.join("; "));
                if self.pricer.estimator.cost(text.as_bytes()) <= limit {
                    return Some(text);
                }
                found.pop();
            }
            None
        };
        self.statistics.get_or_init(text).clone()
    }

    /// Returns the maximum number of items on the page: the requested limit, or the number of items
    /// if lower.
    pub(super) fn limit(&self) -> usize {
        usize::try_from(self.request.limit).unwrap_or(usize::MAX).min(self.items.len())
    }

    /// Returns the maximum number of uncondensed items to which the page may grow.
    fn grown_limit(&self) -> usize {
        if self.request.max_records == 0 || self.index.blocks {
            return self.limit();
        }
        let is_scalar = |item: &Item<'_>| !matches!(item.bytes().first(), Some(b'{' | b'['));
        let most = match self.items.first().is_some_and(is_scalar) {
            true => usize::MAX,
            false => usize::try_from(self.request.max_records).unwrap_or(usize::MAX),
        };
        most.min(self.items.len()).max(self.limit())
    }

    /// Returns the number of uncondensed items to which a page of `count` items grows: the number
    /// that fits, if larger.
    pub(super) fn grown_count(&self, count: usize) -> usize {
        let limit = self.grown_limit();
        if count < self.limit() || limit <= count {
            return count;
        }
        self.fit(self.estimate_fit(usize::MAX, limit)).max(count)
    }

    /// Returns true if `count` items fill the page: all of a first page, or nine tenths of a later
    /// one. A first page with fewer items would show less than one with a smaller budget.
    pub(super) fn is_nearly_full(&self, count: usize) -> bool {
        if self.request.first == 0 {
            return count >= self.limit();
        }
        count * 10 >= self.limit() * 9
    }

    /// Returns an excerpt that shows the first `count` items of the task uncondensed.
    pub(super) fn page(&self, count: usize) -> Excerpt {
        let page_size = self.request.page_size;
        let page_size = if count > self.limit() { count as u64 } else { page_size };
        let request = PageRequest { page_size, ..self.request };
        let items = self.items.iter().take(count);
        let page = page(self.index, self.form, items, request, self.base);
        Excerpt { highlights: self.statistics(), ..page }
    }

    /// Returns the condenser for the items. `None` if they must not be condensed, are invalid JSON,
    /// or have too many fields. O(32 items) on first use.
    pub(super) fn records(&self) -> Option<&RecordCondenser<'t>> {
        let new = || RecordCondenser::new(&self.items, self.options?);
        self.records.get_or_init(new).as_ref()
    }

    /// Returns an estimate of the number of items that fit the token limit without condensing.
    /// Computed on first use.
    pub(super) fn whole_items(&self) -> CountEstimate {
        *self.whole_items.get_or_init(|| {
            // If far from all items fit, they are condensed, and a rough estimate is enough.
            let may_condense = self.options.is_some() && !self.request.whole;
            let rough = may_condense.then(|| self.estimate_fit(ROUGHLY_PRICED_ITEMS, self.limit()));
            if let Some(count) = rough.filter(|count| count * 2 < self.limit()) {
                return CountEstimate { count, is_rough: true };
            }
            let mut count = self.estimate_fit(usize::MAX, self.limit());
            if self.is_nearly_full(count) {
                count = self.fit(count);
            }
            CountEstimate { count, is_rough: false }
        })
    }

    /// Returns the number of items of an uncondensed page that was rendered and fits the token
    /// limit. A few more may fit. Computed on first use.
    pub(super) fn exact_count(&self) -> usize {
        *self.exact_count.get_or_init(|| {
            let estimate = self.whole_items();
            let count = match estimate.is_rough {
                true => self.estimate_fit(usize::MAX, self.limit()),
                false => estimate.count,
            };
            self.fit(count)
        })
    }

    /// Returns the estimated number of items that fit the token limit, at most `limit`, from the
    /// sum of their costs. The first `priced` items are priced. The costs of later items are
    /// estimated.
    fn estimate_fit(&self, priced: usize, limit: usize) -> usize {
        let mut sum = self.pricer.cost(&self.page(0));
        let fits = |cost: &u64| {
            sum = sum.saturating_add(*cost);
            sum <= self.pricer.token_limit()
        };
        self.item_costs(priced, limit).take_while(fits).count()
    }

    /// Iterates over the costs of the first `limit` items. Costs after the first `priced` items are
    /// estimated.
    fn item_costs(&self, priced: usize, limit: usize) -> impl Iterator<Item = u64> {
        let mut model = CostModel::default();
        let items = self.items.iter().take(limit).enumerate();
        items.map(move |(number, item)| {
            model.estimate_cost(item.original.len(), number < priced, || self.item_cost(number))
        })
    }

    /// Returns the cost of the item with index `at`. O(item) on first use.
    fn item_cost(&self, at: usize) -> u64 {
        let PricedItems { costs, words } = &mut *self.priced.borrow_mut();
        let rest = self.items.get(costs.len()..=at).unwrap_or_default();
        costs.extend(rest.iter().map(|item| {
            let (bytes, form) = item.read();
            let text = match self.index.blocks {
                true => block_text(bytes, self.pricer.context.shown.shows_data),
                false => visible(bytes, form),
            };
            // The comma after an element is a token.
            self.pricer.estimator.measure_in(words, &text).cost + u64::from(!self.index.blocks)
        }));
        costs.get(at).copied().unwrap_or_default()
    }

    /// Returns a number of leading items, up to `count`, with which the rendered page fits the
    /// token limit. It falls in steps in proportion to the excess, so a few more may fit. 0 if not
    /// even one fits.
    fn fit(&self, mut count: usize) -> usize {
        let limit = self.pricer.token_limit();
        while count > 0 {
            let cost = self.pricer.cost(&self.page(count));
            if cost <= limit {
                break;
            }
            // Items cost about the same: the excess says how many are too many.
            let over = (cost - limit).saturating_mul(count as u64) / cost.max(1);
            count = count.saturating_sub(usize::try_from(over).unwrap_or(1).max(1));
        }
        count
    }
}

/// Returns an excerpt that shows `items`, which begin with the first requested one. The excerpt's
/// cursor, derived from `base`, leads to the item after the last.
pub(super) fn page<'i>(
    list: &ListIndex,
    form: Form,
    items: impl Iterator<Item = &'i Item<'i>> + Clone,
    request: PageRequest,
    base: &Cursor,
) -> Excerpt {
    let shown = items.clone().count() as u64;
    let total = list.total();
    let next = request.first + shown;
    let lists = if list.lists.len() < 2 {
        Vec::new()
    } else {
        per_list(list, items.clone().map(|item| item.list))
    };
    let body = if list.blocks {
        let blocks: Vec<&[u8]> = items.map(Item::bytes).collect();
        ExcerptBody::Blocks(blocks.join(&b','))
    } else {
        ExcerptBody::Page(Pieces::new(list, form, items.map(|item| (item.list, item.bytes()))))
    };
    let coverage = Coverage::Page {
        first: request.first,
        shown,
        total,
        page_size: request.page_size,
        lists,
        condensed: None,
    };
    let next = (next < total).then(|| Cursor {
        offset: next,
        within: 0,
        limit: request.carried_limit,
        whole: u64::from(request.whole),
        ..base.clone()
    });
    Excerpt { words: list.words.clone(), ..Excerpt::new(coverage, next, body) }
}

fn per_list(
    list: &ListIndex,
    shown: impl Iterator<Item = usize> + Clone,
) -> Vec<(String, u64, u64)> {
    let count = |at: usize| shown.clone().filter(|list| *list == at).count() as u64;
    list.lists
        .iter()
        .enumerate()
        .map(|(at, list)| (list.path.clone(), count(at), list.count))
        .collect()
}
