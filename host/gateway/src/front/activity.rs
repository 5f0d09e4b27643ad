//! The activity of one client connection, which determines when the connection is closed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Version;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Timeouts;

/// The time between the announcement that a connection closes and its end. Meanwhile, a request
/// that an HTTP/2 client has already sent can arrive.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// The phase of a connection without requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The client has not sent the complete head of its first request.
    Opening,
    /// All requests have been answered.
    Idle,
    /// The client has begun to send a further request.
    Head,
    /// The gateway has announced that it closes the connection.
    Closing,
}

#[derive(Debug)]
struct ActivityState {
    phase: Phase,
    /// The time at which the current phase without a request began.
    since: Instant,
    requests: usize,
    /// True for HTTP/2, in which some frames belong to no request.
    is_multiplexed: bool,
    has_unread_body: bool,
    /// The time since which the client has not accepted bytes. `None` if it has accepted all bytes.
    blocked_since: Option<Instant>,
    last_id: u64,
    /// For each request of which the client has not accepted a part of the response, the time since
    /// then. An HTTP/2 client can stop one response while it accepts others.
    unaccepted: BTreeMap<u64, Instant>,
}

impl ActivityState {
    /// Returns the time at which the connection must be closed. `None` if no time limit applies
    /// now.
    fn deadline(&self, timeouts: &Timeouts) -> Option<Instant> {
        if self.requests > 0 {
            let since = self.unaccepted.values().copied().chain(self.blocked_since).min();
            return since.map(|since| since + timeouts.idle());
        }
        Some(match self.phase {
            Phase::Opening | Phase::Head => self.since + timeouts.head(),
            Phase::Idle => self.since + timeouts.idle(),
            Phase::Closing => self.since + CLOSE_GRACE,
        })
    }
}

/// The activity of a connection.
pub(crate) struct Activity {
    state: Mutex<ActivityState>,
    changed: Notify,
    evicted: CancellationToken,
}

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        let state = ActivityState {
            phase: Phase::Opening,
            since: Instant::now(),
            requests: 0,
            is_multiplexed: false,
            has_unread_body: false,
            blocked_since: None,
            last_id: 0,
            unaccepted: BTreeMap::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            changed: Notify::new(),
            evicted: CancellationToken::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, ActivityState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, state: &mut ActivityState, phase: Phase) {
        (state.phase, state.since) = (phase, Instant::now());
        self.changed.notify_one();
    }

    /// Records that the client has sent bytes.
    pub(crate) fn received(&self) {
        let mut state = self.state();
        if state.phase == Phase::Idle && state.requests == 0 && !state.is_multiplexed {
            self.enter(&mut state, Phase::Head);
        }
    }

    /// Records that the client has accepted bytes.
    pub(crate) fn sent(&self) {
        let mut state = self.state();
        state.blocked_since = None;
        // The end of a response may still be on its way. The frames of HTTP/2 need not be parts of
        // responses: answers to pings must not keep a connection open.
        if matches!(state.phase, Phase::Idle | Phase::Closing) && !state.is_multiplexed {
            state.since = Instant::now();
        }
    }

    /// Records that the client does not accept more bytes at the moment.
    pub(crate) fn blocked(&self) {
        let mut state = self.state();
        if state.blocked_since.is_none() {
            state.blocked_since = Some(Instant::now());
            self.changed.notify_one();
        }
    }

    /// Records that the gateway has announced to close the connection.
    pub(crate) fn closing(&self) {
        self.enter(&mut self.state(), Phase::Closing);
    }

    /// Records that a request body was not read to its end.
    pub(crate) fn left_body(&self) {
        self.state().has_unread_body = true;
    }

    /// Returns true if a request body was not read to its end.
    pub(crate) fn has_unread_body(&self) -> bool {
        self.state().has_unread_body
    }

    /// Returns the time since which the connection has no request in flight. `None` while it has
    /// one.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.requests == 0).then_some(state.since)
    }

    /// Requests the end of the connection, because another connection needs its share of the limit.
    pub(crate) fn evict(&self) {
        self.evicted.cancel();
    }

    /// Waits until the connection is evicted.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Waits until the connection has had no request for `limit` since it was opened. Never returns
    /// if a request has begun before.
    #[cfg(feature = "grpc")]
    pub(crate) async fn unused(&self, limit: Duration) {
        loop {
            let unused_since = {
                let state = self.state();
                let is_unused = state.phase == Phase::Opening && state.requests == 0;
                is_unused.then_some(state.since)
            };
            let Some(since) = unused_since else { return std::future::pending().await };
            tokio::select! {
                () = tokio::time::sleep_until(since + limit) => return,
                () = self.changed.notified() => {}
            }
        }
    }

    /// Waits until a time limit has passed: the connection has had no complete request, or the
    /// client has accepted no bytes, for too long.
    pub(crate) async fn expired(&self, timeouts: &Timeouts) {
        loop {
            let deadline = self.state().deadline(timeouts);
            match deadline {
                None => self.changed.notified().await,
                Some(deadline) if deadline <= Instant::now() => return,
                Some(deadline) => tokio::select! {
                    () = tokio::time::sleep_until(deadline) => {}
                    () = self.changed.notified() => {}
                },
            }
        }
    }
}

/// A request of a connection, from its complete head to the end of its response.
pub(crate) struct ActiveRequest {
    activity: Arc<Activity>,
    id: u64,
}

impl ActiveRequest {
    pub(crate) fn begin(activity: &Arc<Activity>, version: Version) -> Self {
        let mut state = activity.state();
        state.requests += 1;
        state.last_id += 1;
        state.is_multiplexed |= version == Version::HTTP_2;
        activity.changed.notify_one();
        let id = state.last_id;
        drop(state);
        Self { activity: Arc::clone(activity), id }
    }

    /// Records that a part of the response is ready for the client.
    pub(crate) fn offered(&self) {
        let mut state = self.activity.state();
        state.unaccepted.insert(self.id, Instant::now());
        // Later parts change no deadline.
        if state.unaccepted.len() == 1 {
            self.activity.changed.notify_one();
        }
    }

    /// Records that the client has accepted the last part, and can accept the next part of the
    /// response.
    pub(crate) fn accepted(&self) {
        self.activity.state().unaccepted.remove(&self.id);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut state = self.activity.state();
        state.unaccepted.remove(&self.id);
        state.requests = state.requests.saturating_sub(1);
        if state.requests == 0 {
            let phase = if state.phase == Phase::Closing { Phase::Closing } else { Phase::Idle };
            self.activity.enter(&mut state, phase);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadline(activity: &Activity) -> Option<Instant> {
        activity.state().deadline(&Timeouts::default())
    }

    #[test]
    fn pings_do_not_keep_a_connection_open() {
        for (version, is_extended) in [(Version::HTTP_11, true), (Version::HTTP_2, false)] {
            let activity = Activity::new();
            drop(ActiveRequest::begin(&activity, version));
            let before = deadline(&activity).unwrap();
            activity.sent();
            assert_eq!(deadline(&activity).unwrap() > before, is_extended, "{version:?}");
        }
    }

    #[test]
    fn only_unaccepted_responses_end_a_connection_with_requests() {
        let activity = Activity::new();
        let stopped = ActiveRequest::begin(&activity, Version::HTTP_2);
        let other = ActiveRequest::begin(&activity, Version::HTTP_2);
        assert_eq!(deadline(&activity), None, "an event stream may be silent");
        stopped.offered();
        let end = deadline(&activity).unwrap();
        // The other responses of the connection do not extend the time.
        other.offered();
        other.accepted();
        activity.sent();
        assert_eq!(deadline(&activity), Some(end));
        stopped.accepted();
        assert_eq!(deadline(&activity), None);
        stopped.offered();
        drop(stopped);
        assert_eq!(deadline(&activity), None);
    }
}
