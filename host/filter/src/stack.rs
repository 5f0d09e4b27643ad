//! The stack of layers around a guard call, like the layers of tower. Each layer processes the
//! request and the response, and calls the next layer.

use std::sync::Arc;

use super::answer_cache::AnswerCache;
use super::call_metrics::CallMetrics;
use super::decision_log::DecisionLog;
use super::estimate_sampler::EstimateSampler;
use super::failover::Failover;
use super::holdback::Holdback;
use super::layer::{Layer, Next};
use super::options::FilterOptions;
use super::output_validator::OutputValidator;
use super::shadow_mirror::ShadowMirror;
use super::store_fallback::StoreFallback;
use super::traffic_recorder::TrafficRecorder;
use crate::revision::Revisions;

/// All layers of a filter, from the outermost to the innermost.
pub(super) struct Stack {
    layers: Vec<Box<dyn Layer>>,
    failover: Arc<Failover>,
}

impl Stack {
    pub(super) fn new(revisions: &Arc<Revisions>, options: FilterOptions) -> Self {
        let failover = Arc::new(Failover::new(Arc::clone(revisions)));
        // Outermost first. The order carries meaning:
        // - A layer that must see every attempt (metrics, validation) is inside the failover.
        // - A layer that must see only answers that are sent (log, sampler, recorder, shadow) is
        //   outside the cache, which may discard a rendered answer that is too old for its tier.
        // - The holdback is outside all of these: they describe the shaped answer.
        let layers: [Option<Box<dyn Layer>>; 10] = [
            Some(Box::new(Arc::clone(&failover))),
            Some(Box::new(Holdback::new(Arc::clone(revisions)))),
            Some(Box::new(ShadowMirror::new(Arc::clone(revisions)))),
            options.recording.map(|recording| Box::new(TrafficRecorder(recording)) as _),
            options
                .sampler
                .map(|sampler| Box::new(EstimateSampler::new(sampler, options.learn)) as _),
            Some(Box::new(DecisionLog)),
            options.cache.map(|cache| Box::new(AnswerCache(cache)) as _),
            Some(Box::new(CallMetrics::new(Arc::clone(revisions)))),
            Some(Box::new(OutputValidator)),
            Some(Box::new(StoreFallback)),
        ];
        Self { layers: layers.into_iter().flatten().collect(), failover }
    }

    /// Returns the outermost layer with all that follow, to which a message is passed.
    pub(super) fn first(&self) -> Next<'_> {
        Next::new(&self.layers)
    }

    /// Returns the number of guard calls that failed since the filter was created.
    pub(super) fn faults(&self) -> u64 {
        self.failover.faults()
    }
}
