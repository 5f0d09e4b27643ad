//! The second tier of the cache: answers that all gateways with the same store share.
//!
//! The store encrypts and authenticates values, with a separate key for each principal. A purge is
//! published to all gateways. While a gateway may miss purges, it uses no shared answers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use context_guard_cursor_store::{ChannelEvent, CursorStore};

use crate::Clock;
use crate::purge::Purge;

/// The name of the channel for purges.
const CHANNEL: &str = "cache-purges";
/// The maximum time that a call waits for a shared answer.
const PATIENCE: Duration = Duration::from_millis(50);
/// The maximum number of answers in the queue for the store. Further answers are not shared.
const MAX_QUEUED: usize = 64;
/// The maximum number of stored purges. Beyond it, answers older than the dropped purges are not
/// used.
const MAX_PURGES: usize = 1_024;
/// The maximum difference between the clocks of two gateways.
const CLOCK_SKEW: Duration = Duration::from_secs(5);
/// The time between two attempts to publish a purge while the store is down.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The length of the timestamp before a stored answer, in bytes.
const STAMP_BYTES: usize = 8;

/// A purge in the form in which gateways publish it.
#[derive(Clone, Serialize, Deserialize)]
struct PublishedPurge {
    at_ms: u64,
    purge: Purge,
}

/// The purges that this gateway has received.
#[derive(Default)]
struct KnownPurges {
    /// The time since which no purge was missed. `None` while purges may be missed.
    since: Option<Duration>,
    purges: VecDeque<(Duration, Purge)>,
}

impl KnownPurges {
    fn add(&mut self, at: Duration, purge: Purge) {
        self.purges.push_back((at, purge));
        if self.purges.len() > MAX_PURGES
            && let Some((oldest, _)) = self.purges.pop_front()
        {
            self.since = self.since.map(|since| since.max(oldest));
        }
    }

    /// Returns true if an answer that was stored at the time `stored` may be used.
    fn allows(&self, endpoint: &str, message: &[u8], stored: Duration) -> bool {
        let is_later = |than: Duration| stored > than + CLOCK_SKEW;
        self.since.is_some_and(is_later)
            && self
                .purges
                .iter()
                .all(|(at, purge)| is_later(*at) || !purge.selects(endpoint, message))
    }
}

/// A change that the worker writes to the store.
enum Job {
    Store { principal: String, name: String, value: Vec<u8> },
    Purge(PublishedPurge),
}

/// The answers that all gateways with the same store share.
pub(crate) struct SharedAnswers {
    store: Arc<dyn CursorStore>,
    clock: Arc<dyn Clock>,
    known: Arc<Mutex<KnownPurges>>,
    jobs: Sender<Job>,
    /// The number of answers in the queue for the store.
    queued: Arc<AtomicUsize>,
}

fn lock(known: &Mutex<KnownPurges>) -> MutexGuard<'_, KnownPurges> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedAnswers {
    /// Opens the shared answers in a store. Each answer is kept for at most the time `ttl`.
    /// `on_purge` is called with the purges of all gateways. `None` if the store cannot publish, or
    /// no thread can start.
    pub(crate) fn open(
        store: Arc<dyn CursorStore>,
        clock: Arc<dyn Clock>,
        ttl: Duration,
        on_purge: impl Fn(&Purge) + Send + Sync + 'static,
    ) -> Option<Self> {
        let known = Arc::new(Mutex::new(KnownPurges::default()));
        let (followed, now) = (Arc::downgrade(&known), Arc::clone(&clock));
        let follower = move |event: ChannelEvent| {
            let Some(known) = Weak::upgrade(&followed) else { return false };
            match event {
                ChannelEvent::Connected => lock(&known).since = Some(now.now()),
                ChannelEvent::Lost => lock(&known).since = None,
                ChannelEvent::Message(message) => {
                    if let Ok(published) = serde_json::from_slice::<PublishedPurge>(&message) {
                        on_purge(&published.purge);
                        let at = Duration::from_millis(published.at_ms).max(now.now());
                        lock(&known).add(at, published.purge);
                    }
                }
            }
            true
        };
        store.follow(CHANNEL, Box::new(follower)).ok()?;
        let (jobs, queue) = channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let (writer, taken) = (Arc::clone(&store), Arc::clone(&queued));
        let thread = std::thread::Builder::new().name("shared-cache".to_owned());
        thread.spawn(move || write(&*writer, &queue, &taken, ttl)).ok()?;
        Some(Self { store, clock, known, jobs, queued })
    }

    /// Returns a shared answer and the time at which it was stored. `None` if there is none, or the
    /// store does not answer in time.
    pub(crate) fn get(
        &self,
        principal: &str,
        name: &str,
        endpoint: &str,
    ) -> Option<(Vec<u8>, Duration)> {
        if !self.store.is_up() || lock(&self.known).since.is_none() {
            return None;
        }
        let (done, result) = channel();
        let (store, principal) = (Arc::clone(&self.store), principal.to_owned());
        let names = [name.to_owned()];
        // A slow store must not delay a call that an upstream can answer.
        std::thread::Builder::new()
            .name("shared-answer".to_owned())
            .spawn(move || done.send(store.get(&principal, &names)))
            .ok()?;
        let value = result.recv_timeout(PATIENCE).ok()?.ok()?.into_iter().next().flatten()?;
        let (stamp, message) = value.split_first_chunk::<STAMP_BYTES>()?;
        let stored = Duration::from_millis(u64::from_le_bytes(*stamp));
        lock(&self.known).allows(endpoint, message, stored).then(|| (message.to_vec(), stored))
    }

    /// Stores an answer for all gateways, in the background.
    pub(crate) fn put(&self, principal: &str, name: String, message: &[u8]) {
        // A long queue means a slow store: the answer is cached at this gateway only.
        if !self.store.is_up() || self.queued.load(Ordering::Relaxed) >= MAX_QUEUED {
            return;
        }
        let stamp = millis(self.clock.now()).to_le_bytes();
        let value = [stamp.as_slice(), message].concat();
        let job = Job::Store { principal: principal.to_owned(), name, value };
        self.queued.fetch_add(1, Ordering::Relaxed);
        let _ = self.jobs.send(job);
    }

    /// Publishes a purge to all gateways, in the background.
    pub(crate) fn purge(&self, purge: &Purge) {
        let at = self.clock.now();
        lock(&self.known).add(at, purge.clone());
        let published = PublishedPurge { at_ms: millis(at), purge: purge.clone() };
        let _ = self.jobs.send(Job::Purge(published));
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Writes jobs to the store until the cache is dropped. Purges are published in order. A failed
/// purge is repeated before later ones.
fn write(store: &dyn CursorStore, queue: &Receiver<Job>, queued: &AtomicUsize, ttl: Duration) {
    let mut purges: VecDeque<PublishedPurge> = VecDeque::new();
    loop {
        match queue.recv_timeout(RETRY_INTERVAL) {
            Ok(Job::Store { principal, name, value }) => {
                queued.fetch_sub(1, Ordering::Relaxed);
                let _ = store.put(&principal, vec![(name, value)], ttl);
            }
            Ok(Job::Purge(purge)) => {
                purges.push_back(purge);
                // With more purges than others remember, older ones add nothing.
                if purges.len() > MAX_PURGES {
                    purges.pop_front();
                    if let Some(last) = purges.back_mut() {
                        last.purge = Purge::default();
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while let Some(purge) = purges.front() {
            let message = serde_json::to_vec(purge).unwrap_or_default();
            if store.publish(CHANNEL, message).is_err() {
                break;
            }
            purges.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn answers_before_a_purge_or_a_gap_are_not_used() {
        let mut known = KnownPurges::default();
        assert!(!known.allows("docs::search", b"", seconds(1_000)), "purges may be missed");
        known.since = Some(seconds(100));
        assert!(!known.allows("docs::search", b"", seconds(104)));
        assert!(known.allows("docs::search", b"", seconds(106)));
        let tool = Purge { tool: Some("docs::*".to_owned()), document: None };
        known.add(seconds(200), tool);
        assert!(!known.allows("docs::search", b"", seconds(150)));
        assert!(known.allows("web::search", b"", seconds(150)));
        assert!(known.allows("docs::search", b"", seconds(206)));
    }

    #[test]
    fn forgotten_purges_forbid_older_answers() {
        let mut known = KnownPurges { since: Some(seconds(1)), ..KnownPurges::default() };
        let other = Purge { tool: Some("other::*".to_owned()), document: None };
        for at in 0..=MAX_PURGES as u64 {
            known.add(seconds(100 + at), other.clone());
        }
        assert!(!known.allows("docs::search", b"", seconds(50)));
        assert!(known.allows("docs::search", b"", seconds(200)));
    }
}
