//! The context of one call: policy, keys, caller, and the options that the caller requests.

use super::condense::CondenseOptions;
use super::list::PageRequest;
use super::pricing::ExcerptPricer;
use super::pricing::line_breaks;
use super::render::{RenderContext, SchemaConstraint};
use crate::json::locate_lists::DocumentInfo;
use crate::json::text::Form;
use crate::policy::{EndpointSettings, VisibleContent};
use crate::query::comparison::PreviousAnswer;
use crate::query::{Query, QueryInput};
use crate::snapshot::index::Original;
use crate::snapshot::{Cursor, Keys, Placement, Replay, Scope};

/// The guard's arguments of a tool call that set the size of the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RequestOptions {
    /// The number of items on a page. 0 for the default of the policy.
    pub limit: u64,
    /// The number of pages or chunks in one result. 0 means one.
    pub pages: u64,
    /// The first requested line of a text, counted from 1. If 0, the first line of the text or, if
    /// `end_line` is 0 too, no range of lines.
    pub start_line: u64,
    /// The last requested line of a text. 0 for the last line of the text.
    pub end_line: u64,
    /// True if the caller sets `fields=all`: no fields are removed and no values shortened.
    pub whole: bool,
}

impl RequestOptions {
    /// Returns true if a range of lines is requested.
    #[must_use]
    pub fn ranged(&self) -> bool {
        self.start_line > 0 || self.end_line > 0
    }
}

/// Everything besides the payload that determines how an upstream's answer is reduced.
#[derive(Clone, Copy)]
pub struct ShapeContext<'a> {
    /// The policy settings for the called tool or other endpoint.
    pub limits: &'a EndpointSettings,
    /// The currently valid keys, which sign cursors and derive the names of snapshots.
    pub keys: &'a Keys,
    /// The principal and endpoint that stored snapshots and cursors are bound to.
    pub scope: Scope<'a>,
    /// The name of the upstream. May be empty.
    pub upstream: &'a str,
    /// The name of the called endpoint, without the prefix of its upstream.
    pub name: &'a str,
    /// A hash of the arguments of the call, which is part of the snapshot's name.
    pub arguments: u128,
    /// The page size, range of lines and level of detail that the caller requests.
    pub options: RequestOptions,
    /// The query that the caller requests on the answer, such as a selection of fields. May be
    /// empty.
    pub query: &'a Query,
    /// The earlier answer with which the caller compares this one, if any.
    pub since: Option<&'a PreviousAnswer>,
    /// The token budget that the caller states for this answer. `None` for the budget of the
    /// policy.
    pub budget: Option<u64>,
    /// The stored answer of the upstream from which the payload was made. `None` if the payload is
    /// that answer.
    pub original: Option<&'a Original>,
    /// The current time, in milliseconds since 1970.
    pub now_ms: u64,
    /// The name of the guard's tool that reads the rest of an answer.
    pub read_tool: &'a str,
    /// The members that the tool's output schema accepts in structured content.
    pub schema_constraint: SchemaConstraint,
    /// The upstream call that a cursor repeats to get the answer again. `None` if the answer is
    /// stored.
    pub replay: Option<&'a Replay>,
}

impl ShapeContext<'_> {
    /// Returns the input for the query of this call on a payload.
    #[must_use]
    pub fn query_input<'q>(
        &'q self,
        bytes: &'q [u8],
        form: Form,
        survey: Option<&'q DocumentInfo>,
    ) -> QueryInput<'q> {
        QueryInput {
            bytes,
            form,
            survey,
            limits: self.limits,
            from_line: self.options.start_line,
            until_line: self.options.end_line,
            limit: self.options.limit,
        }
    }

    /// Returns a cost, in tokens, that exceeds every limit of this call. Pricing stops there,
    /// because a payload of that cost certainly needs reduction.
    #[must_use]
    pub fn surely_over(&self) -> u64 {
        let limits = self.limits;
        let token_limit = self.answer_limit();
        // A payload that policy exempts from paging or chunking is reduced only beyond the hard
        // cap.
        let cap = if limits.pagination && limits.chunking { 0 } else { limits.hard_cap };
        token_limit.saturating_mul(2).max(limits.estimator.allowance(cap).saturating_mul(2))
    }

    /// Returns the cost, in tokens, below which no limit of this call is exceeded. A payload that
    /// certainly costs less needs no exact price.
    #[must_use]
    pub fn surely_under(&self) -> u64 {
        let limits = self.limits;
        self.answer_limit()
            .min(limits.estimator.allowance(limits.hard_cap))
            .min(limits.summary_threshold)
            .min(limits.chunk_threshold)
    }

    /// Returns the expiry time of snapshots that this call stores, in milliseconds since 1970.
    #[must_use]
    pub fn expires_ms(&self) -> u64 {
        // A cursor that is issued at the end of the first lifetime must live for a full one.
        self.now_ms + 2 * self.limits.cursor_ttl_ms
    }

    /// Returns the content of the result that the client shows to its model.
    #[must_use]
    pub fn visible_content(&self) -> VisibleContent {
        self.limits.visible_content.unwrap_or_default()
    }

    /// Returns the maximum cost of the whole answer, in tokens.
    #[must_use]
    pub fn answer_limit(&self) -> u64 {
        self.limits.budget_for(self.options.pages, self.budget).allowance()
    }

    /// Returns the cost of visible content: its `tokens`, or more if `bytes` use a larger share of
    /// a limit of the client. O(bytes) if the client limits lines.
    #[must_use]
    pub fn cost_for_client(&self, tokens: u64, bytes: &[u8]) -> u64 {
        let shown = self.limits.shown;
        let lines = if shown.lines.is_some() { line_breaks(bytes) } else { 0 };
        shown.cost(tokens, bytes.len() as u64, lines, self.answer_limit())
    }

    /// Returns a pricer for excerpts with the limit `token_limit`. It prices text content if
    /// `text`, and structured content at `structured` if given.
    #[must_use]
    pub fn pricer<'f>(
        &'f self,
        token_limit: u64,
        text: bool,
        structured: Option<&'f Placement>,
    ) -> ExcerptPricer<'f> {
        let context = RenderContext {
            token_limit,
            text,
            structured,
            visible: self.visible_content(),
            answer_limit: self.answer_limit(),
            shown: self.limits.shown,
            cuts_end: self.limits.cuts_end,
            schema_constraint: self.schema_constraint,
            keys: self.keys,
            cursor_format: self.limits.cursor_format,
            principal: self.scope.principal,
            read_tool: self.read_tool,
            replay: self.replay,
        };
        ExcerptPricer::new(self.limits.estimator, context)
    }

    /// Returns the cursor as an opaque string, signed for the principal of this call.
    #[must_use]
    pub fn sign(&self, cursor: &Cursor) -> String {
        self.pricer(0, true, None).context.sign(cursor)
    }

    /// Returns the number of items on a page: as the caller requests, or else the default of the
    /// policy.
    #[must_use]
    pub fn page_size(&self) -> u64 {
        if self.options.limit > 0 { self.options.limit } else { self.limits.default_page_size }
    }

    /// Returns the maximum number of records to which a page grows. 0 if its size is exact: the
    /// caller requests `limit` items or several pages, or policy sets the size.
    #[must_use]
    pub fn max_records(&self, limit: u64) -> u64 {
        let is_exact = limit > 0 || self.options.pages > 1 || self.limits.has_exact_pages;
        if is_exact { 0 } else { self.limits.max_page_size }
    }

    /// Returns the request for the first page of a payload's lists, for a call without a cursor.
    pub(super) fn first_page(&self) -> PageRequest {
        let page_size = self.page_size();
        PageRequest {
            first: 0,
            within: 0,
            limit: page_size.saturating_mul(self.options.pages.max(1)),
            max_records: self.max_records(self.options.limit),
            page_size,
            carried_limit: self.options.limit,
            whole: self.options.whole,
            all: self.options.limit == 0 && self.options.pages <= 1,
        }
    }

    /// Returns the options for condensing records. `None` if the policy or the caller forbids
    /// condensing.
    #[must_use]
    pub fn condense_options(&self) -> Option<CondenseOptions<'_>> {
        (self.limits.summarization && !self.options.whole).then(|| CondenseOptions {
            estimator: &self.limits.estimator,
            map: self.limits.fields.as_ref(),
            keywords: &self.limits.keywords,
        })
    }
}
