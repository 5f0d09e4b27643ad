//! The context of one call: policy, keys, caller, and the caller's wishes.

use super::condense::CondenseOptions;
use super::list::PageRequest;
use super::pricing::ExcerptPricer;
use super::render::{RenderContext, SchemaConstraint};
use crate::policy::EndpointSettings;
use crate::query::Query;
use crate::snapshot::{Cursor, Keys, Placement, Replay, Scope};

/// The guard's own arguments of a call that set the size of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RequestOptions {
    /// The number of items on a page. 0: as policy says.
    pub limit: u64,
    /// The number of pages or chunks in one answer. 0: one.
    pub pages: u64,
    /// The first line, counted from 1. 0: no range of lines is requested.
    pub start_line: u64,
    /// The last line. 0: the last line of the text.
    pub end_line: u64,
    /// If true, nothing is condensed (`fields=all`).
    pub whole: bool,
}

impl RequestOptions {
    /// Returns true if a range of lines is requested.
    #[must_use]
    pub fn ranged(&self) -> bool {
        self.start_line > 0 || self.end_line > 0
    }
}

/// Everything besides the payload that determines how an answer is shaped.
#[derive(Clone, Copy)]
pub struct ShapeContext<'a> {
    /// The policy for the endpoint.
    pub limits: &'a EndpointSettings,
    /// The live keys.
    pub keys: &'a Keys,
    /// The principal and endpoint that snapshots and cursors are bound to.
    pub scope: Scope<'a>,
    /// The endpoint without its upstream.
    pub name: &'a str,
    /// A hash of the arguments of the call.
    pub arguments: u128,
    /// The requested size.
    pub options: RequestOptions,
    /// The requested selection.
    pub query: &'a Query,
    /// The token budget that the caller states for this answer.
    pub budget: Option<u64>,
    /// True if the payload is the result of a transformation, not the upstream's answer.
    pub is_transformed: bool,
    /// The current time, in milliseconds since 1970.
    pub now_ms: u64,
    /// The name of the tool that reads the rest of an answer.
    pub read_tool: &'a str,
    /// The members that the tool's output schema accepts in structured content.
    pub schema_constraint: SchemaConstraint,
    /// The call that cursors repeat, if the answer is not stored.
    pub replay: Option<&'a Replay>,
}

impl ShapeContext<'_> {
    /// Returns the same context with other options.
    #[must_use]
    pub fn with(&self, options: RequestOptions, is_transformed: bool) -> Self {
        ShapeContext { options, is_transformed, ..*self }
    }

    /// Returns a cost that no fitting answer reaches, so that pricing can stop there.
    #[must_use]
    pub fn surely_over(&self) -> u64 {
        let limits = self.limits;
        let token_limit = limits.budget_for(self.options.pages, self.budget).allowance();
        // A payload that policy exempts from paging or chunking is reduced only beyond the hard
        // cap.
        let cap = if limits.pagination && limits.chunking { 0 } else { limits.hard_cap };
        token_limit.saturating_mul(2).max(limits.estimator.allowance(cap).saturating_mul(2))
    }

    /// The expiry time of entries that are stored now, in milliseconds since 1970.
    #[must_use]
    pub fn expires_ms(&self) -> u64 {
        // A cursor that is issued at the end of the first lifetime must live for a full one.
        self.now_ms + 2 * self.limits.cursor_ttl_ms
    }

    /// Returns the pricer for excerpts that go into these parts of a result.
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
            schema_constraint: self.schema_constraint,
            keys: self.keys,
            principal: self.scope.principal,
            read_tool: self.read_tool,
            replay: self.replay,
        };
        ExcerptPricer::new(self.limits.estimator, context)
    }

    /// Signs a cursor.
    #[must_use]
    pub fn sign(&self, cursor: &Cursor) -> String {
        self.pricer(0, true, None).context.sign(cursor)
    }

    /// The number of items on a page.
    #[must_use]
    pub fn page_size(&self) -> u64 {
        if self.options.limit > 0 { self.options.limit } else { self.limits.default_page_size }
    }

    /// The page that a call without a cursor requests.
    pub(super) fn first_page(&self) -> PageRequest {
        let page_size = self.page_size();
        PageRequest {
            first: 0,
            within: 0,
            limit: page_size.saturating_mul(self.options.pages.max(1)),
            page_size,
            carried_limit: self.options.limit,
            whole: self.options.whole,
            all: self.options.limit == 0 && self.options.pages <= 1,
        }
    }

    /// The options for condensing, or `None` if policy or caller forbid it.
    #[must_use]
    pub fn condense_options(&self) -> Option<CondenseOptions<'_>> {
        (self.limits.summarization && !self.options.whole).then(|| CondenseOptions {
            estimator: &self.limits.estimator,
            map: self.limits.fields.as_ref(),
            keywords: &self.limits.keywords,
        })
    }
}
