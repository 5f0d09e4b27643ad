//! Options for the optional layers of a filter.

use std::sync::Arc;

use crate::cache::Cache;
use crate::recording::Recording;
use crate::sampler::Sampler;

/// Optional services of a filter: sampling, caching and recording. All are disabled by default.
#[derive(Default)]
pub struct FilterOptions {
    /// Compares a share of the token estimates with a real tokenizer.
    pub sampler: Option<Arc<Sampler>>,
    /// Applies the sampler's measured corrections, unless the policy sets an estimator scale
    /// itself.
    pub learn: bool,
    /// Answers repeated calls of read-only tools.
    pub cache: Option<Arc<Cache>>,
    /// Records traffic, so that a dry run can replay it under another policy.
    pub recording: Option<Recording>,
}
