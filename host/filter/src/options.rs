//! The optional duties of a filter.

use std::sync::Arc;

use crate::cache::Cache;
use crate::recording::Recording;
use crate::sampler::Sampler;

/// Services that a filter uses beside the guard. The default is none.
#[derive(Default)]
pub struct FilterOptions {
    /// Compares a share of the estimates with a real tokenizer.
    pub sampler: Option<Arc<Sampler>>,
    /// Applies the corrections of the sampler to endpoints for which policy sets no scale.
    pub learn: bool,
    /// Caches answers of read-only tools.
    pub cache: Option<Arc<Cache>>,
    /// Records traffic for dry runs.
    pub recording: Option<Recording>,
}
