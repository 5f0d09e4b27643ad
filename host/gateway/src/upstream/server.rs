//! The state that all connections to an upstream share: configuration, known protocol modes,
//! circuit breaker and permits.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::Failure;
use super::http_upstream::HttpUpstream;
use crate::config::{Isolation, ProtocolModeSetting, Upstream};
use crate::protocol_mode::ProtocolMode;
use crate::store::Breaker;
use crate::telemetry::Recorder;

/// The protocol modes that an upstream speaks: true or false for each, `None` if not known yet.
#[derive(Clone, Copy, Debug, Default)]
struct KnownModes {
    stateful: Option<bool>,
    stateless: Option<bool>,
}

/// An upstream: an HTTP endpoint, or a command that the gateway starts as a child process.
pub(crate) struct UpstreamServer {
    pub(crate) name: String,
    pub(crate) isolation: Isolation,
    pub(super) config: Upstream,
    /// The folder of the configuration file, to which relative paths refer.
    pub(super) folder: PathBuf,
    /// The HTTP endpoint. `None` if the upstream is a child process.
    pub(super) http: Option<Arc<HttpUpstream>>,
    /// The maximum size of a message from the upstream, in bytes.
    pub(super) max_bytes: usize,
    breaker: Breaker,
    modes: Mutex<KnownModes>,
    permits: Semaphore,
    recorder: Arc<Recorder>,
}

impl UpstreamServer {
    pub(crate) fn new(
        config: Upstream,
        folder: PathBuf,
        http: Option<Arc<HttpUpstream>>,
        max_bytes: usize,
        recorder: Arc<Recorder>,
    ) -> Self {
        let modes = match config.era {
            ProtocolModeSetting::Auto => KnownModes::default(),
            ProtocolModeSetting::Stateful => {
                KnownModes { stateful: Some(true), stateless: Some(false) }
            }
            ProtocolModeSetting::Stateless => {
                KnownModes { stateful: Some(false), stateless: Some(true) }
            }
            ProtocolModeSetting::Both => KnownModes { stateful: Some(true), stateless: Some(true) },
        };
        Self {
            name: config.name.clone(),
            isolation: config.isolation,
            breaker: Breaker::new(
                config.limits.failures,
                Duration::from_secs(config.limits.pause_seconds),
            ),
            modes: Mutex::new(modes),
            permits: Semaphore::new(config.limits.concurrency),
            config,
            folder,
            http,
            max_bytes,
            recorder,
        }
    }

    fn modes(&self) -> MutexGuard<'_, KnownModes> {
        self.modes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the upstream speaks this protocol mode, or `None` if that is not known yet.
    pub(crate) fn speaks(&self, mode: ProtocolMode) -> Option<bool> {
        match mode {
            ProtocolMode::Stateful => self.modes().stateful,
            ProtocolMode::Stateless => self.modes().stateless,
        }
    }

    /// Records that the upstream speaks a protocol mode, or that it does not.
    pub(crate) fn set_speaks(&self, mode: ProtocolMode, speaks: bool) {
        match mode {
            ProtocolMode::Stateful => self.modes().stateful = Some(speaks),
            ProtocolMode::Stateless => self.modes().stateless = Some(speaks),
        }
    }

    /// Waits for a permit to send a request, because the configuration limits concurrent requests
    /// to the upstream.
    pub(crate) async fn permit(&self) -> Option<SemaphorePermit<'_>> {
        self.permits.acquire().await.ok()
    }

    /// Returns the maximum time until the upstream's next message about a request.
    pub(crate) fn timeout(&self) -> Duration {
        self.config.limits.timeout()
    }

    /// Returns a failure while the circuit is open, because the upstream failed repeatedly. After a
    /// pause, one caller is admitted as a test.
    pub(super) fn check_circuit(&self) -> Result<(), Failure> {
        self.breaker.admit(Instant::now()).map_err(|wait| Failure::circuit_open(&self.name, wait))
    }

    /// Counts the start of a child process, or the opening of an HTTP connection, in the metrics.
    pub(super) fn started(&self) {
        self.recorder.metrics.upstream_started(&self.name);
    }

    /// Records that the upstream responded, which closes its circuit breaker.
    pub(crate) fn succeeded(&self) {
        self.breaker.succeeded();
        self.recorder.metrics.upstream_is(&self.name, true);
    }

    /// Records a failure of the upstream, which may open its circuit breaker.
    pub(crate) fn failed(&self) {
        self.breaker.failed(Instant::now());
        self.recorder.metrics.upstream_failed(&self.name);
        self.recorder.metrics.upstream_is(&self.name, !self.is_circuit_open());
    }

    /// Returns true if requests to the upstream are suspended because it failed repeatedly.
    pub(crate) fn is_circuit_open(&self) -> bool {
        self.breaker.is_open() || self.http.as_ref().is_some_and(|http| http.breaker.is_open())
    }
}
