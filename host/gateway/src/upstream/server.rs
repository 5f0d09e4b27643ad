//! The state that all connections to an upstream share: configuration, known protocol modes,
//! circuit breaker and permits.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Failure;
use super::circuit::Circuit;
use super::http_upstream::HttpUpstream;
use super::processes::Processes;
use super::turns::Turns;
use crate::config::{Authorization, HttpTransport, Isolation, ProtocolModeSetting, Upstream};
use crate::invalid_output::InvalidOutput;
use crate::protocol_mode::ProtocolMode;
use crate::telemetry::Recorder;

/// The time after which an upstream that refused both protocol modes is tried again. A server may
/// refuse a handshake because it is not ready yet.
const MODE_RETRY_PAUSE: Duration = Duration::from_secs(15);

/// The protocol modes that an upstream speaks: true or false for each mode. `None` if not known
/// yet.
#[derive(Clone, Copy, Debug, Default)]
struct KnownModes {
    stateful: Option<bool>,
    stateless: Option<bool>,
    /// The time of the last refusal of a mode.
    refused: Option<Instant>,
}

impl KnownModes {
    fn set(&mut self, mode: ProtocolMode, speaks: bool, now: Instant) {
        match mode {
            ProtocolMode::Stateful => self.stateful = Some(speaks),
            ProtocolMode::Stateless => self.stateless = Some(speaks),
        }
        if !speaks {
            self.refused = Some(now);
        }
    }

    /// Forgets both modes if the upstream refused both, the last one at least
    /// [`MODE_RETRY_PAUSE`] before `now`.
    fn expire(&mut self, now: Instant) {
        let is_expired =
            self.refused.is_some_and(|refused| now.duration_since(refused) >= MODE_RETRY_PAUSE);
        if is_expired && (self.stateful, self.stateless) == (Some(false), Some(false)) {
            *self = Self::default();
        }
    }
}

/// An upstream: an HTTP endpoint, or a command that the gateway starts as a child process.
pub(crate) struct UpstreamServer {
    pub(crate) name: String,
    pub(crate) isolation: Isolation,
    pub(crate) config: Upstream,
    /// The folder of the configuration file, to which relative paths refer.
    pub(crate) folder: PathBuf,
    /// The HTTP endpoint. `None` if the upstream is a child process.
    pub(crate) http: Option<Arc<HttpUpstream>>,
    /// The maximum size of a message from the upstream, in bytes.
    pub(super) max_bytes: usize,
    /// The circuit breaker of this upstream, which also counts the calls of its HTTP endpoint.
    pub(crate) circuit: Arc<Circuit>,
    pub(super) processes: Arc<Processes>,
    pub(super) invalid_output: Arc<InvalidOutput>,
    modes: Mutex<KnownModes>,
    pub(crate) turns: Arc<Turns>,
    /// True if the upstream speaks HTTP+SSE of 2024-11-05, false if it speaks Streamable HTTP.
    /// `None` if that is not known yet.
    legacy_sse: Mutex<Option<bool>>,
    recorder: Arc<Recorder>,
}

impl UpstreamServer {
    pub(crate) fn new(
        config: Upstream,
        folder: PathBuf,
        http: Option<Arc<HttpUpstream>>,
        max_bytes: usize,
        processes: Arc<Processes>,
        recorder: Arc<Recorder>,
    ) -> Self {
        let modes = match config.era {
            ProtocolModeSetting::Auto => KnownModes::default(),
            ProtocolModeSetting::Stateful => {
                KnownModes { stateful: Some(true), stateless: Some(false), refused: None }
            }
            ProtocolModeSetting::Stateless => {
                KnownModes { stateful: Some(false), stateless: Some(true), refused: None }
            }
            ProtocolModeSetting::Both => {
                KnownModes { stateful: Some(true), stateless: Some(true), refused: None }
            }
        };
        let legacy_sse = match config.transport {
            HttpTransport::Auto => None,
            HttpTransport::StreamableHttp => Some(false),
            HttpTransport::Sse => Some(true),
        };
        let circuit = http.as_ref().map(|http| Arc::clone(&http.circuit));
        let circuit = circuit.unwrap_or_else(|| {
            Arc::new(Circuit::new(&config.name, &config.limits, Arc::clone(&recorder)))
        });
        Self {
            name: config.name.clone(),
            isolation: config.isolation,
            circuit,
            modes: Mutex::new(modes),
            turns: match &http {
                Some(http) => Arc::clone(&http.turns),
                None => Turns::new(&config),
            },
            legacy_sse: Mutex::new(legacy_sse),
            processes,
            invalid_output: Arc::default(),
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

    /// Returns true if the upstream speaks this protocol mode, and false if not. `None` if that is
    /// not known yet, or the upstream refused both modes some time ago.
    pub(crate) fn speaks(&self, mode: ProtocolMode) -> Option<bool> {
        let mut modes = self.modes();
        if self.config.era == ProtocolModeSetting::Auto {
            modes.expire(Instant::now());
        }
        match mode {
            ProtocolMode::Stateful => modes.stateful,
            ProtocolMode::Stateless => modes.stateless,
        }
    }

    /// Records if the upstream speaks a protocol mode.
    pub(crate) fn set_speaks(&self, mode: ProtocolMode, speaks: bool) {
        self.modes().set(mode, speaks, Instant::now());
    }

    /// Returns true if the upstream speaks HTTP+SSE of 2024-11-05, false if it speaks Streamable
    /// HTTP. `None` if that is not known yet.
    pub(crate) fn speaks_legacy_sse(&self) -> Option<bool> {
        *self.legacy_sse.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records if the upstream speaks HTTP+SSE. Has no effect if the configuration determines the
    /// transport.
    pub(crate) fn set_speaks_legacy_sse(&self, speaks: Option<bool>) {
        if self.config.transport == HttpTransport::Auto {
            *self.legacy_sse.lock().unwrap_or_else(PoisonError::into_inner) = speaks;
        }
    }

    /// Returns true if all clients use the same instance of the upstream.
    pub(crate) fn is_common(&self) -> bool {
        self.http.is_some() || self.isolation == Isolation::Shared
    }

    /// Returns true if the upstream receives tokens of its clients' principals, or the
    /// configuration forwards the credentials of clients to it.
    pub(crate) fn needs_credentials(&self) -> bool {
        self.config.oauth.is_some()
            || self.http.is_some() && self.config.authorization == Authorization::Forward
    }

    /// Returns the maximum time until the upstream's next message that belongs to a request.
    pub(crate) fn timeout(&self) -> Duration {
        self.config.limits.timeout()
    }

    /// Counts the start of a child process, or the opening of an HTTP connection, in the metrics.
    pub(super) fn started(&self) {
        self.recorder.metrics.upstream_started(&self.name);
    }

    /// Records that the upstream responded, which closes its circuit breaker.
    pub(crate) fn succeeded(&self) {
        self.circuit.succeeded();
    }

    /// Counts a failed call of the caller `owner`, which may open the circuit of the upstream.
    pub(crate) fn failed(&self, failure: &Failure, owner: &str) {
        self.count_failure(failure, Some(owner));
    }

    /// Counts the failure of a connection that was opened for the caller `owner`, or of its
    /// process. A shared process fails for all callers.
    pub(super) fn connection_failed(&self, failure: &Failure, owner: &str) {
        let is_common = self.http.is_none() && self.isolation == Isolation::Shared;
        self.count_failure(failure, (!is_common).then_some(owner));
    }

    fn count_failure(&self, failure: &Failure, owner: Option<&str>) {
        match &self.http {
            Some(http) => http.count_failure(failure, owner),
            None => {
                self.circuit.count(failure, owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_both_modes_expire() {
        let mut modes = KnownModes::default();
        let start = Instant::now();
        modes.set(ProtocolMode::Stateless, false, start);
        modes.expire(start + MODE_RETRY_PAUSE);
        assert_eq!(modes.stateless, Some(false), "the other mode may work");
        let last = start + MODE_RETRY_PAUSE;
        modes.set(ProtocolMode::Stateful, false, last);
        modes.expire(last + MODE_RETRY_PAUSE / 2);
        assert_eq!((modes.stateful, modes.stateless), (Some(false), Some(false)));
        modes.expire(last + MODE_RETRY_PAUSE);
        assert_eq!((modes.stateful, modes.stateless), (None, None));
        modes.set(ProtocolMode::Stateful, true, last);
        modes.set(ProtocolMode::Stateless, false, last);
        modes.expire(last + MODE_RETRY_PAUSE);
        assert_eq!(modes.stateful, Some(true));
    }
}
