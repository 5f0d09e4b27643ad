//! Options for the optional layers of a filter.

use std::sync::Arc;

use crate::cache::Cache;
use crate::recording::Recording;
use crate::sampler::Sampler;

/// Optional services of a filter: sampling, caching and recording. All are disabled by default.
#[derive(Default)]
pub struct FilterOptions {
    /// The sampler that compares a share of the token estimates with a real tokenizer.
    pub sampler: Option<Arc<Sampler>>,
    /// True if the sampler's corrections are applied, unless the policy sets an estimator scale
    /// itself.
    pub learn: bool,
    /// The cache that answers repeated calls of read-only tools.
    pub cache: Option<Arc<Cache>>,
    /// The recording of traffic, which a replay can later shape under another policy.
    pub recording: Option<Recording>,
}
