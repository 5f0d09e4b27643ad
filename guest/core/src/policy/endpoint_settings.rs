//! What applies to one endpoint, with every default.

use super::document::{Advertise, CursorMode, ItemFields, OrderBy, Settings, Strip};
use crate::shape::project::Mask;
use crate::tokens::{Budget, Estimator};

/// The least tokens that a part of an answer with its contract can do with.
const LEAST_BUDGET: u64 = 200;

/// The settings of one endpoint, complete and within their ranges.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSettings {
    /// Whether answers are shaped at all.
    pub shape: bool,
    /// Whether lists are paged.
    pub pagination: bool,
    /// Whether long texts are chunked.
    pub chunking: bool,
    /// Items on a page.
    pub default_page_size: u64,
    /// The largest `limit`.
    pub max_page_size: u64,
    /// Tokens of an answer.
    pub threshold: u64,
    /// Tokens that nothing exceeds.
    pub hard_cap: u64,
    /// Whether the hard cap holds.
    pub enforce_hard_cap: bool,
    /// Lines in a chunk.
    pub chunk_size: u64,
    /// Tokens from which a text is chunked.
    pub chunk_threshold: u64,
    /// Where the list is, if the policy says.
    pub items_path: Option<Vec<String>>,
    /// The order of a list, if the policy says.
    pub order_by: Option<OrderBy>,
    /// Whether what does not fit whole is condensed.
    pub summarization: bool,
    /// Tokens from which a single object is summarised.
    pub summary_threshold: u64,
    /// The fields that a summary keeps, if the policy says.
    pub fields: Option<Mask>,
    /// Words whose sentences stay.
    pub keywords: Vec<String>,
    /// What is taken out of every answer.
    pub strip: Vec<Strip>,
    /// Names of members that are.
    pub strip_fields: Vec<String>,
    /// Whether uniform lists may become rows.
    pub compact: bool,
    /// Whether the first chunk comes with what stands out in the rest.
    pub highlights: bool,
    /// Which members of an item are what.
    pub item_fields: ItemFields,
    /// Characters of a preview.
    pub preview_chars: usize,
    /// Whether the tool changes nothing, if the policy says.
    pub read_only: Option<bool>,
    /// Whether calls with the guard's marks in them are refused.
    pub refuse_marks: bool,
    /// Milliseconds that a cursor lives.
    pub cursor_ttl_ms: u64,
    /// Where the rest of an answer is.
    pub cursor_mode: CursorMode,
    /// How tokens are estimated.
    pub estimator: Estimator,
    /// What schemas show of the guard's arguments.
    pub advertise: Advertise,
    /// Whether plain argument names are the guard's on unknown tools.
    pub plain_arguments: bool,
}

impl Default for EndpointSettings {
    fn default() -> Self {
        Self {
            shape: true,
            pagination: true,
            chunking: true,
            default_page_size: 50,
            max_page_size: 200,
            threshold: 4_000,
            hard_cap: 12_000,
            enforce_hard_cap: true,
            chunk_size: 200,
            chunk_threshold: 2_000,
            items_path: None,
            order_by: None,
            summarization: true,
            summary_threshold: 2_000,
            fields: None,
            keywords: Vec::new(),
            strip: Vec::new(),
            strip_fields: Vec::new(),
            compact: false,
            highlights: true,
            item_fields: ItemFields::default(),
            preview_chars: 200,
            read_only: None,
            refuse_marks: true,
            cursor_ttl_ms: 600_000,
            cursor_mode: CursorMode::default(),
            estimator: Estimator::default(),
            advertise: Advertise::default(),
            plain_arguments: false,
        }
    }
}

impl EndpointSettings {
    /// Whether every answer is given another shape, whatever its size.
    pub(crate) fn changes(&self) -> bool {
        !self.strip.is_empty()
            || !self.strip_fields.is_empty()
            || self.order_by.is_some()
            || self.compact
    }

    /// Lays settings over these.
    pub(super) fn apply_overrides(&mut self, settings: &Settings) {
        fn set<T: Clone>(target: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                target.clone_from(value);
            }
        }
        set(&mut self.shape, settings.shape.as_ref());
        set(&mut self.pagination, settings.pagination.as_ref());
        set(&mut self.chunking, settings.chunking.as_ref());
        set(&mut self.default_page_size, settings.default_page_size.as_ref());
        set(&mut self.max_page_size, settings.max_page_size.as_ref());
        set(&mut self.threshold, settings.token_budget_threshold.as_ref());
        set(&mut self.hard_cap, settings.hard_cap.as_ref());
        set(&mut self.enforce_hard_cap, settings.enforce_hard_cap.as_ref());
        set(&mut self.chunk_size, settings.chunk_size.as_ref());
        set(&mut self.chunk_threshold, settings.chunk_threshold.as_ref());
        set(&mut self.summarization, settings.summarization.as_ref());
        set(&mut self.summary_threshold, settings.summary_threshold.as_ref());
        set(&mut self.keywords, settings.keywords.as_ref());
        set(&mut self.strip, settings.strip.as_ref());
        set(&mut self.strip_fields, settings.strip_fields.as_ref());
        set(&mut self.compact, settings.compact.as_ref());
        set(&mut self.highlights, settings.highlights.as_ref());
        set(&mut self.item_fields, settings.item_fields.as_ref());
        set(&mut self.refuse_marks, settings.refuse_marks.as_ref());
        set(&mut self.cursor_mode, settings.cursor_mode.as_ref());
        set(&mut self.advertise, settings.advertise.as_ref());
        set(&mut self.plain_arguments, settings.plain_arguments.as_ref());
        set(&mut self.cursor_ttl_ms, settings.cursor_ttl.map(|seconds| seconds * 1_000).as_ref());
        self.order_by = settings.order_by.clone().or(self.order_by.take());
        self.read_only = settings.read_only.or(self.read_only);
        if let Some(chars) = settings.preview_chars {
            self.preview_chars = usize::try_from(chars).unwrap_or(usize::MAX);
        }
        // An empty list takes the fields of a wider rule back.
        if let Some(fields) = &settings.fields {
            self.fields =
                Mask::of(fields.iter().map(String::as_str)).ok().filter(|_| !fields.is_empty());
        }
        if let Some(path) = &settings.items_path {
            self.items_path = Some(path.split('.').map(str::to_owned).collect());
        }
        if let Some(estimator) = &settings.estimator {
            set(&mut self.estimator.method, estimator.method.as_ref());
            set(&mut self.estimator.profile, estimator.profile.as_ref());
            set(&mut self.estimator.scale, estimator.scale.as_ref());
        }
    }

    /// The budget of an answer for which the caller may have named one itself: within the hard cap, and never below the least useful.
    #[must_use]
    pub fn budget_for(&self, pages: u64, wanted: Option<u64>) -> Budget {
        match wanted {
            Some(tokens) => Budget {
                estimator: self.estimator,
                threshold: tokens.clamp(LEAST_BUDGET, self.hard_cap.max(LEAST_BUDGET)),
            },
            None => self.budget(pages),
        }
    }

    /// The budget of an answer that may hold `pages` pages or chunks: that many thresholds, within the hard cap.
    #[must_use]
    pub fn budget(&self, pages: u64) -> Budget {
        let wanted = self.threshold.saturating_mul(pages.max(1));
        let threshold = if self.enforce_hard_cap { wanted.min(self.hard_cap) } else { wanted };
        Budget { estimator: self.estimator, threshold }
    }
}
