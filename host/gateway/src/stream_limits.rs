//! The limits of streams that wait for changes. Such streams hold no permits of requests, because
//! their duration is unlimited.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;
use thiserror::Error;
use tracing::warn;

use crate::config::Limits;

/// The reason why a stream is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum TooManyStreams {
    /// The caller has the maximum number of streams for one caller, which this contains.
    #[error(
        "the limit of {0} for streams of this caller that wait for changes is reached \
         (limits.streamsPerPrincipal): close one first"
    )]
    OfCaller(usize),
    /// All callers together have the maximum number of streams, which this contains.
    #[error(
        "the limit of {0} for streams that wait for changes is reached (limits.streams): \
         try again later"
    )]
    InTotal(usize),
}

impl TooManyStreams {
    /// Returns the HTTP status of the response that refuses the stream.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::OfCaller(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::InTotal(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// The numbers of open streams.
#[derive(Debug, Default)]
struct StreamCounts {
    total: usize,
    by_owner: HashMap<Arc<str>, usize>,
}

/// The limits of streams that wait for changes, in total and for each owner, with the numbers of
/// open ones.
#[derive(Debug)]
pub(crate) struct StreamLimits {
    max: usize,
    max_per_owner: usize,
    open: Mutex<StreamCounts>,
    /// True after the log has reported that an optional stream was refused.
    is_reported: AtomicBool,
}

/// An open stream. It counts against the limits until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenStream {
    limits: Arc<StreamLimits>,
    owner: Arc<str>,
}

impl StreamLimits {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let (max, max_per_owner) = (limits.streams, limits.streams_per_principal());
        let (open, is_reported) = (Mutex::default(), AtomicBool::new(false));
        Arc::new(Self { max, max_per_owner, open, is_reported })
    }

    fn counts(&self) -> MutexGuard<'_, StreamCounts> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a stream of `owner` until the returned value is dropped. O(1).
    ///
    /// # Errors
    /// The limit that is reached: that of the owner, or that of all owners.
    pub(crate) fn open(self: &Arc<Self>, owner: &Arc<str>) -> Result<OpenStream, TooManyStreams> {
        self.open_within(owner, self.max, self.max_per_owner)
    }

    /// Counts a stream to an upstream that the gateway opens with each session of `owner`. Such
    /// streams use at most half of each limit, so that clients can open their own. Returns `None`
    /// if a limit is reached, which is logged once. O(1).
    pub(crate) fn open_optional(
        self: &Arc<Self>,
        owner: &Arc<str>,
        upstream: &str,
    ) -> Option<OpenStream> {
        let opened = self.open_within(owner, self.max / 2, self.max_per_owner / 2);
        if opened.is_err() && !self.is_reported.swap(true, Ordering::Relaxed) {
            warn!(
                upstream,
                "no more event streams of upstreams are opened for `{owner}`: its further sessions \
                 receive no notifications (half of limits.streams and limits.streamsPerPrincipal)"
            );
        }
        opened.ok()
    }

    fn open_within(
        self: &Arc<Self>,
        owner: &Arc<str>,
        max: usize,
        max_per_owner: usize,
    ) -> Result<OpenStream, TooManyStreams> {
        let mut counts = self.counts();
        let own = counts.by_owner.get(owner).copied().unwrap_or_default();
        if own >= max_per_owner {
            return Err(TooManyStreams::OfCaller(own));
        }
        if counts.total >= max {
            return Err(TooManyStreams::InTotal(counts.total));
        }
        counts.total += 1;
        counts.by_owner.insert(Arc::clone(owner), own + 1);
        Ok(OpenStream { limits: Arc::clone(self), owner: Arc::clone(owner) })
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut counts = self.limits.counts();
        counts.total = counts.total.saturating_sub(1);
        if let Some(own) = counts.by_owner.get_mut(&self.owner) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                counts.by_owner.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_limited_in_total_and_per_caller() {
        let settings = Limits { streams: 5, streams_per_principal: Some(3), ..Limits::default() };
        let limits = StreamLimits::new(&settings);
        let [alice, bob, carol]: [Arc<str>; 3] = ["alice".into(), "bob".into(), "carol".into()];
        let mut held: Vec<OpenStream> = (0..3).map(|_| limits.open(&alice).unwrap()).collect();
        assert_eq!(limits.open(&alice).unwrap_err(), TooManyStreams::OfCaller(3));
        held.extend((0..2).map(|_| limits.open(&bob).unwrap()));
        let full = limits.open(&carol).unwrap_err();
        assert_eq!(full, TooManyStreams::InTotal(5));
        assert!(full.to_string().contains("limits.streams") && full.status() == 503);
        held.pop();
        held.push(limits.open(&carol).unwrap());
        drop(held);
        assert!(limits.counts().total == 0 && limits.counts().by_owner.is_empty());
    }

    #[test]
    fn optional_streams_leave_room_for_others() {
        let settings = Limits { streams: 6, streams_per_principal: Some(4), ..Limits::default() };
        let limits = StreamLimits::new(&settings);
        let [alice, bob]: [Arc<str>; 2] = ["alice".into(), "bob".into()];
        let mut held: Vec<OpenStream> =
            (0..9).filter_map(|_| limits.open_optional(&alice, "s")).collect();
        assert_eq!(held.len(), 2, "half of the limit of one caller");
        held.extend((0..9).filter_map(|_| limits.open_optional(&bob, "s")));
        assert_eq!(held.len(), 3, "half of the limit of all callers");
        held.extend((0..2).map(|_| limits.open(&alice).unwrap()));
        assert_eq!(limits.open(&alice).unwrap_err(), TooManyStreams::OfCaller(4));
        drop(held);
        assert!(limits.open_optional(&bob, "s").is_some());
    }
}
