//! Options for the optional layers of a filter.

use std::sync::Arc;

use crate::cache::Cache;
use crate::recording::Recording;
use crate::sampler::Sampler;

/// Optional services of a filter: sampling, caching and recording. All are disabled by default.
#[derive(Default)]
pub struct FilterOptions {
    /// The sampler that compares a share of the token estimates with a real tokenizer. `None`
    /// disables sampling.
    pub sampler: Option<Arc<Sampler>>,
    /// True if the sampler's corrections are applied. A policy that sets an estimator scale takes
    /// precedence.
    pub learn: bool,
    /// The cache that answers repeated calls of read-only tools. `None` disables caching.
    pub cache: Option<Arc<Cache>>,
    /// The recording of traffic, for replays under another policy. `None` disables recording.
    pub recording: Option<Recording>,
}
