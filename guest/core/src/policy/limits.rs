//! What applies to one endpoint, with every default.

use super::document::{Advertise, Settings};
use crate::tokens::{Budget, Estimator};

/// The least tokens that a part of an answer with its contract can do with.
const LEAST_BUDGET: u64 = 200;

/// The settings of one endpoint, complete and within their ranges.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
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
    /// Milliseconds that a cursor lives.
    pub cursor_ttl_ms: u64,
    /// How tokens are estimated.
    pub estimator: Estimator,
    /// What schemas show of the guard's arguments.
    pub advertise: Advertise,
    /// Whether plain argument names are the guard's on unknown tools.
    pub plain_arguments: bool,
}

impl Default for Limits {
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
            cursor_ttl_ms: 600_000,
            estimator: Estimator::default(),
            advertise: Advertise::default(),
            plain_arguments: false,
        }
    }
}

impl Limits {
    /// Lays settings over these.
    pub(super) fn lay(&mut self, settings: &Settings) {
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
        set(&mut self.advertise, settings.advertise.as_ref());
        set(&mut self.plain_arguments, settings.plain_arguments.as_ref());
        set(&mut self.cursor_ttl_ms, settings.cursor_ttl.map(|seconds| seconds * 1_000).as_ref());
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
