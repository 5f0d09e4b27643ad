//! Compares token estimates with a real tokenizer for a share of the answers.
//!
//! The tokenizer is too large for the guard. A separate thread loads it with the first sample. If
//! the thread is busy, samples are skipped.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use lru::LruCache;
use tracing::{debug, warn};

use crate::engine::Decision;
use crate::revision::answer::visible;
use crate::tokenizer::{o200k, require_exact_tokens};

/// The maximum number of sampled answers in the queue of the tokenizer.
const MAX_QUEUED: usize = 16;
/// The maximum number of endpoints whose accuracy is stored. It is limited because clients choose
/// the endpoints of JSON APIs, which are paths.
const MAX_ENDPOINTS: NonZeroUsize = NonZeroUsize::new(1_024).unwrap();
/// The maximum length of the name of an endpoint whose accuracy is stored, in bytes.
const MAX_ENDPOINT_BYTES: usize = 512;
/// The minimum and the maximum factor that corrects token estimates.
const CORRECTION_BOUNDS: (f64, f64) = (0.8, 1.5);
/// The minimum number of samples of an endpoint before its estimates are corrected.
const MIN_SAMPLES: u64 = 5;
/// The weight of a new sample in the running ratio of exact to estimated tokens.
const SAMPLE_WEIGHT: f64 = 0.2;

/// The accuracy of token estimates for the answers of one endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// The number of sampled answers.
    pub samples: u64,
    /// The sum of the exact token counts of all samples.
    pub actual: u64,
    /// The sum of the estimated token counts of all samples.
    pub estimated: u64,
    /// The number of estimates that were off by more than 30 % of the exact count.
    pub off: u64,
    /// The running average ratio of exact to estimated tokens.
    ratio: f64,
    /// The correction that [`Sampler::moved`] last returned.
    reported: f64,
}

impl Default for Accuracy {
    fn default() -> Self {
        Self { samples: 0, actual: 0, estimated: 0, off: 0, ratio: 1.0, reported: 1.0 }
    }
}

impl Accuracy {
    /// Returns the factor that corrects token estimates, from 0.8 to 1.5. Returns 1 with fewer than
    /// five samples.
    #[must_use]
    pub fn correction(&self) -> f64 {
        if self.samples < MIN_SAMPLES {
            1.0
        } else {
            self.ratio.clamp(CORRECTION_BOUNDS.0, CORRECTION_BOUNDS.1)
        }
    }

    fn add(&mut self, actual: u64, estimated: u64) {
        #[allow(clippy::cast_precision_loss, reason = "a ratio of token counts")]
        let ratio = actual as f64 / estimated.max(1) as f64;
        self.ratio = if self.samples == 0 {
            ratio
        } else {
            self.ratio * (1.0 - SAMPLE_WEIGHT) + ratio * SAMPLE_WEIGHT
        };
        self.samples += 1;
        self.actual += actual;
        self.estimated += estimated;
        self.off += u64::from(is_off(actual, estimated));
    }
}

/// The least difference from the exact count that an operator can notice, in tokens.
const MIN_DIFFERENCE: u64 = 50;

/// Returns true if the estimated token count differs from the actual count by more than 30 % of the
/// actual count, and by [`MIN_DIFFERENCE`] tokens or more.
fn is_off(actual: u64, estimated: u64) -> bool {
    let difference = actual.abs_diff(estimated);
    difference >= MIN_DIFFERENCE && difference * 10 > actual * 3
}

struct Sample {
    /// The decision about the answer, without its options.
    decision: Decision,
    client: Option<String>,
    message: Vec<u8>,
}

/// A sampled answer with its exact token count.
pub struct Counted<'s> {
    /// The decision about the answer, which contains the estimate.
    pub decision: &'s Decision,
    /// The name of the client. `None` if it is not known.
    pub client: Option<&'s str>,
    /// The exact token count of the answer.
    pub actual: u64,
    /// True if the estimate differs from the exact count by more than 30 %.
    pub is_off: bool,
}

type Observer = Box<dyn Fn(&Counted<'_>) + Send + Sync>;

/// The accuracy for all answers, and for the most recently sampled endpoints.
struct Measurements {
    total: Accuracy,
    endpoints: LruCache<String, Accuracy>,
}

impl Default for Measurements {
    fn default() -> Self {
        Self { total: Accuracy::default(), endpoints: LruCache::new(MAX_ENDPOINTS) }
    }
}

impl Measurements {
    /// Adds a sample. Returns true if the correction of the endpoint changed by more than
    /// [`MIN_CHANGE`].
    fn add(&mut self, endpoint: String, actual: u64, estimated: u64) -> bool {
        self.total.add(actual, estimated);
        if endpoint.len() > MAX_ENDPOINT_BYTES {
            return false;
        }
        let known = self.endpoints.get_or_insert_mut(endpoint, Accuracy::default);
        known.add(actual, estimated);
        let has_moved = (known.correction() - known.reported).abs() > MIN_CHANGE;
        if has_moved {
            known.reported = known.correction();
        }
        has_moved
    }
}

#[derive(Default)]
struct Known {
    observer: OnceLock<Observer>,
    measurements: Mutex<Measurements>,
    /// True if a correction changed by more than [`MIN_CHANGE`] since the last call of
    /// [`Sampler::moved`].
    moved: AtomicBool,
}

impl Known {
    fn measurements(&self) -> MutexGuard<'_, Measurements> {
        self.measurements.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The minimum change of a correction that is reported.
const MIN_CHANGE: f64 = 0.05;

/// Counts the tokens of a share of the sent answers exactly, to correct the estimates.
pub struct Sampler {
    every: u64,
    seen: AtomicU64,
    queue: SyncSender<Sample>,
    known: Arc<Known>,
}

impl Sampler {
    /// Starts a sampler for a `share` of the answers, from 0 to 1. Returns `None` for a share of 0
    /// or in a build without the tokenizer.
    ///
    /// # Errors
    /// If the thread cannot start.
    pub fn start(share: f64) -> crate::Result<Option<Arc<Self>>> {
        if share <= 0.0 || share.is_nan() {
            return Ok(None);
        }
        // Sampling is on by default, so a build without the tokenizer must start nevertheless.
        if let Err(reason) = require_exact_tokens("telemetry.sample") {
            warn!("token estimates are not checked: {reason}");
            return Ok(None);
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 at least")]
        let every = (1.0 / share.min(1.0)).round() as u64;
        let (queue, samples) = sync_channel(MAX_QUEUED);
        let known = Arc::new(Known::default());
        let shared = Arc::clone(&known);
        std::thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || count(&samples, &shared))?;
        Ok(Some(Arc::new(Self { every, seen: AtomicU64::new(0), queue, known })))
    }

    /// Registers a function that is called with every counted answer, on the sampler's thread. Only
    /// the first registration has an effect.
    pub fn observe(&self, observer: impl Fn(&Counted<'_>) + Send + Sync + 'static) {
        let _ = self.known.observer.set(Box::new(observer));
    }

    /// Samples one of every so many answers, according to the share. `client` is the name of the
    /// client, and `message` the answer that it received. Only sampled answers are copied. Skips an
    /// answer without an estimate, and a full one whose count was extrapolated.
    ///
    /// Never blocks: if the sampler is busy, the answer is skipped.
    pub fn offer(&self, client: Option<&str>, decision: &Decision, message: &[u8]) {
        let turn = self.seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.every);
        // Extrapolated counts of long answers have another kind of error and would distort the
        // correction.
        let extrapolated = decision.original_tokens_sampled && decision.mode == "full";
        if !turn || extrapolated || decision.estimated_tokens == 0 {
            return;
        }
        let sample = Sample {
            decision: Decision { snapshots: Vec::new(), ..decision.clone() },
            client: client.map(str::to_owned),
            message: message.to_vec(),
        };
        if self.queue.try_send(sample).is_err() {
            debug!(endpoint = decision.endpoint, "the sampler is busy: answer skipped");
        }
    }

    /// Returns the accuracy of token estimates for the most recently sampled endpoints.
    #[must_use]
    pub fn report(&self) -> BTreeMap<String, Accuracy> {
        let measurements = self.known.measurements();
        let endpoints = measurements.endpoints.iter();
        endpoints.map(|(name, known)| (name.clone(), *known)).collect()
    }

    /// Returns the accuracy of token estimates for all sampled answers, in constant time.
    #[must_use]
    pub fn total(&self) -> Accuracy {
        self.known.measurements().total
    }

    /// Returns the correction factors of the endpoints with enough samples. `None` if no factor
    /// changed noticeably since it was last reported.
    #[must_use]
    pub fn moved(&self) -> Option<BTreeMap<String, f64>> {
        let moved = self.known.moved.swap(false, Ordering::AcqRel);
        moved.then(|| {
            let known = self.report().into_iter();
            let sampled = known.filter(|(_, known)| known.samples >= MIN_SAMPLES);
            sampled.map(|(name, known)| (name, known.correction())).collect()
        })
    }
}

fn count(samples: &Receiver<Sample>, known: &Known) {
    while let Ok(sample) = samples.recv() {
        let text = visible(&sample.message);
        if text.is_empty() {
            continue;
        }
        let actual = o200k(&text);
        let Sample { decision, client, .. } = sample;
        let estimated = decision.estimated_tokens;
        let is_off = is_off(actual, estimated);
        if let Some(observer) = known.observer.get() {
            observer(&Counted { decision: &decision, client: client.as_deref(), actual, is_off });
        }
        if is_off {
            warn!(
                endpoint = decision.endpoint,
                actual,
                estimated,
                "token estimate is off by more than 30 %; if this repeats, set estimator.scale or estimator.profile for the endpoint"
            );
        }
        if known.measurements().add(decision.endpoint, actual, estimated) {
            known.moved.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(estimated_tokens: u64) -> Decision {
        Decision {
            endpoint: "files::read".to_owned(),
            estimated_tokens,
            original_tokens: estimated_tokens,
            ..Decision::default()
        }
    }

    fn wait(sampler: &Sampler, samples: u64) -> Accuracy {
        loop {
            if let Some(accuracy) =
                sampler.report().get("files::read").filter(|known| known.samples >= samples)
            {
                return *accuracy;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn share_of_answers_is_counted_exactly() {
        let message = br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello world hello world"}],"structuredContent":{"a":1}}}"#;
        let sampler = Sampler::start(0.01).unwrap().unwrap();
        for _ in 0..100 {
            sampler.offer(None, &decision(9), message);
        }
        sampler.offer(None, &decision(90), message);
        let known = wait(&sampler, 2);
        // `hello world hello world`, a line break and `{"a":1}` are ten tokens.
        assert_eq!((known.samples, known.actual, known.estimated, known.off), (2, 20, 99, 1));
        assert_eq!(known.correction(), 1.0);
        assert_eq!(sampler.moved(), None);
        for samples in 3..=MIN_SAMPLES {
            for _ in 0..100 {
                sampler.offer(None, &decision(4), message);
            }
            wait(&sampler, samples);
        }
        assert!(
            sampler.moved().is_some_and(|moved| moved["files::read"] > 1.0)
                && sampler.moved().is_none()
        );
    }

    #[test]
    fn endpoints_of_clients_are_bounded() {
        let mut measurements = Measurements::default();
        for at in 0..5_000 {
            measurements.add(format!("GET /rooms/{at}"), 10, 20);
        }
        measurements.add("x".repeat(100_000), 10, 20);
        assert_eq!(measurements.endpoints.len(), MAX_ENDPOINTS.get());
        assert!(measurements.endpoints.contains("GET /rooms/4999"));
        let total = measurements.total;
        assert_eq!((total.samples, total.actual, total.estimated), (5_001, 50_010, 100_020));
    }

    #[test]
    fn corrections_are_bounded() {
        let mut known = Accuracy::default();
        for _ in 0..4 {
            known.add(900, 100);
        }
        assert_eq!(known.correction(), 1.0);
        known.add(900, 100);
        assert_eq!(known.correction(), 1.5);
        assert!(Sampler::start(0.0).unwrap().is_none());
    }
}
