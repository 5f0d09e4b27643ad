//! Notifications of changed lists, which are combined. When many upstreams start, their lists
//! change within a second, and a client must not receive a notification for each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::lock::lock;

/// The time without a further change after which a notification is sent.
const QUIET_TIME: Duration = Duration::from_millis(250);
/// The maximum delay of a notification, if changes never pause.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// A series of changes that one notification reports.
#[derive(Clone, Copy)]
pub(super) struct ChangeBurst {
    first: Instant,
    last: Instant,
}

impl ChangeBurst {
    /// Creates a burst that begins at `now`.
    pub(super) fn begin(now: Instant) -> Self {
        Self { first: now, last: now }
    }

    /// Adds a change that occurs at `now`.
    pub(super) fn extend(&mut self, now: Instant) {
        self.last = now;
    }

    /// Returns the time at which the notification is sent.
    pub(super) fn deadline(&self) -> Instant {
        (self.last + QUIET_TIME).min(self.first + MAX_DELAY)
    }
}

/// The notifications that one client has not received yet, by their method.
#[derive(Default)]
pub(super) struct ListChanges(Mutex<BTreeMap<&'static str, ChangeBurst>>);

impl ListChanges {
    /// Calls `send` once for all changes under this method that occur in one burst. A change after
    /// the call begins another burst, so that the last change is never lost.
    pub(super) fn announce(
        self: &Arc<Self>,
        method: &'static str,
        send: impl FnOnce() + Send + 'static,
    ) {
        if !self.add(method, Instant::now()) {
            return;
        }
        let changes = Arc::clone(self);
        tokio::spawn(async move {
            while let Some(deadline) = changes.next_deadline(method, Instant::now()) {
                sleep_until(deadline).await;
            }
            send();
        });
    }

    /// Adds a change that occurs at `now`. Returns true if it begins a burst.
    fn add(&self, method: &'static str, now: Instant) -> bool {
        let mut bursts = lock(&self.0);
        if let Some(burst) = bursts.get_mut(method) {
            burst.extend(now);
            return false;
        }
        bursts.insert(method, ChangeBurst::begin(now));
        true
    }

    /// Returns the time at which the notification is sent. Removes the burst and returns `None` if
    /// that time has come.
    fn next_deadline(&self, method: &str, now: Instant) -> Option<Instant> {
        let mut bursts = lock(&self.0);
        let deadline = bursts.get(method)?.deadline();
        if deadline > now {
            return Some(deadline);
        }
        bursts.remove(method);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregator::list_kinds::{PROMPTS, TOOLS};

    /// Returns the times, in milliseconds, at which the notifications of changes at these times are
    /// sent.
    fn sent_at(changed_at: &[u64]) -> Vec<u64> {
        let (changes, begin) = (ListChanges::default(), Instant::now());
        let (mut sent, mut is_pending) = (Vec::new(), false);
        for now in 0..5_000 {
            let time = begin + Duration::from_millis(now);
            if is_pending && changes.next_deadline(TOOLS.changed, time).is_none() {
                is_pending = false;
                sent.push(now);
            }
            for _ in changed_at.iter().filter(|at| **at == now) {
                let is_new = changes.add(TOOLS.changed, time);
                assert_eq!(is_new, !is_pending);
                is_pending = true;
            }
        }
        sent
    }

    #[test]
    fn burst_is_one_notification() {
        assert_eq!(sent_at(&[0; 100]), [250]);
        assert_eq!(sent_at(&[0, 100, 300]), [550]);
        // A change at the time of the notification begins another burst.
        assert_eq!(sent_at(&[0, 250]), [250, 500]);
    }

    #[test]
    fn changes_without_pause_are_announced_each_second() {
        let changed_at: Vec<u64> = (0..25).map(|at| at * 100).collect();
        assert_eq!(sent_at(&changed_at), [1_000, 2_000, 2_650]);
    }

    #[test]
    fn kinds_of_lists_are_announced_separately() {
        let (changes, now) = (ListChanges::default(), Instant::now());
        assert!(changes.add(TOOLS.changed, now) && changes.add(PROMPTS.changed, now));
        assert!(!changes.add(TOOLS.changed, now));
        assert_eq!(changes.next_deadline(TOOLS.changed, now + QUIET_TIME), None);
        assert_eq!(changes.next_deadline(PROMPTS.changed, now), Some(now + QUIET_TIME));
    }
}
