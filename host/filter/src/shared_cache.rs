//! The second tier of the cache: answers that all gateways with the same store share.
//!
//! The store encrypts and authenticates values, with a separate key for each principal. A purge is
//! published to all gateways. While a gateway may miss purges, it uses no shared answers.

use std::collections::{HashMap, VecDeque};
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
/// The maximum number of stored purges, and of purges that wait for the store. Beyond it, those of
/// one upstream are merged, which removes all of its answers.
const MAX_PURGES: usize = 1_024;
/// The maximum number of purges that are published before the next answer is stored.
const PURGES_PER_TURN: usize = 16;
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
        // If no two purges have the same pattern, answers older than the dropped purge are not
        // used.
        if self.purges.len() > MAX_PURGES
            && !merge_most_frequent(&mut self.purges)
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

/// Replaces the purges with the most frequent pattern of endpoints by one that removes all answers
/// of these endpoints, with the last of their times. Returns false if each pattern occurs once.
///
/// The most frequent pattern is that of an upstream that reports many changed resources. The purges
/// of other upstreams remain precise.
fn merge_most_frequent(purges: &mut VecDeque<(Duration, Purge)>) -> bool {
    let mut counts: HashMap<Option<&str>, usize> = HashMap::new();
    for (_, purge) in purges.iter() {
        *counts.entry(purge.tool.as_deref()).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 1);
    let Some((tool, _)) = most else { return false };
    let merged = Purge { tool: tool.map(str::to_owned), document: None };
    let mut last = Duration::ZERO;
    purges.retain(|(at, purge)| {
        let is_merged = purge.tool == merged.tool;
        last = if is_merged { last.max(*at) } else { last };
        !is_merged
    });
    purges.push_back((last, merged));
    true
}

/// The purges that wait to be published. At most [`MAX_PURGES`] wait.
#[derive(Default)]
struct PendingPurges {
    purges: VecDeque<(Duration, Purge)>,
    /// True if a [`Job::Publish`] is in the queue of the worker. There is at most one.
    is_announced: bool,
}

impl PendingPurges {
    fn push(&mut self, at: Duration, purge: Purge) {
        let purges = &mut self.purges;
        // A purge of all answers of an endpoint includes those with a document.
        let includes = |(_, other): &&mut (Duration, Purge)| {
            other.tool == purge.tool && other.document.is_none()
        };
        if let Some((last, _)) = purges.iter_mut().find(includes) {
            *last = at;
            return;
        }
        purges.push_back((at, purge));
        if purges.len() > MAX_PURGES && !merge_most_frequent(purges) {
            *purges = VecDeque::from([(at, Purge::default())]);
        }
    }

    /// Returns a purge to the front of the queue, because it could not be published.
    fn push_front(&mut self, at: Duration, purge: Purge) {
        self.purges.push_front((at, purge));
        if self.purges.len() > MAX_PURGES && !merge_most_frequent(&mut self.purges) {
            self.purges = VecDeque::from([(at, Purge::default())]);
        }
    }
}

/// Work for the worker.
enum Job {
    Store {
        principal: String,
        name: String,
        value: Vec<u8>,
    },
    /// Publish the pending purges.
    Publish,
}

/// The answers that all gateways with the same store share.
pub(crate) struct SharedAnswers {
    store: Arc<dyn CursorStore>,
    clock: Arc<dyn Clock>,
    known: Arc<Mutex<KnownPurges>>,
    pending: Arc<Mutex<PendingPurges>>,
    jobs: Sender<Job>,
    /// The number of answers in the queue for the store.
    queued: Arc<AtomicUsize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let pending = Arc::default();
        let worker = Worker {
            store: Arc::clone(&store),
            pending: Arc::clone(&pending),
            queued: Arc::clone(&queued),
            ttl,
        };
        let thread = std::thread::Builder::new().name("shared-cache".to_owned());
        thread.spawn(move || worker.run(&queue)).ok()?;
        Some(Self { store, clock, known, pending, jobs, queued })
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
        let mut pending = lock(&self.pending);
        pending.push(at, purge.clone());
        if !std::mem::replace(&mut pending.is_announced, true) {
            let _ = self.jobs.send(Job::Publish);
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Writes to the store until the cache is dropped.
struct Worker {
    store: Arc<dyn CursorStore>,
    pending: Arc<Mutex<PendingPurges>>,
    queued: Arc<AtomicUsize>,
    ttl: Duration,
}

impl Worker {
    fn run(&self, queue: &Receiver<Job>) {
        let mut has_more = false;
        loop {
            let wait = if has_more { Duration::ZERO } else { RETRY_INTERVAL };
            match queue.recv_timeout(wait) {
                Ok(Job::Store { principal, name, value }) => {
                    self.queued.fetch_sub(1, Ordering::Relaxed);
                    let _ = self.store.put(&principal, vec![(name, value)], self.ttl);
                }
                Ok(Job::Publish) => lock(&self.pending).is_announced = false,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.publish(MAX_PURGES);
                    return;
                }
            }
            has_more = self.publish(PURGES_PER_TURN);
        }
    }

    /// Publishes the first `max` pending purges in their order, until one fails. Returns true if
    /// more can be published now.
    fn publish(&self, max: usize) -> bool {
        for _ in 0..max {
            // The lock is not held during the round trip to the store.
            let next = lock(&self.pending).purges.pop_front();
            let Some((at, purge)) = next else { return false };
            let published = PublishedPurge { at_ms: millis(at), purge };
            let message = serde_json::to_vec(&published).unwrap_or_default();
            if self.store.publish(CHANNEL, message).is_err() {
                lock(&self.pending).push_front(at, published.purge);
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use context_guard_cursor_store::{ChannelFollower, StoreError};

    use super::*;
    use crate::clock::ManualClock;

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
        for at in 0..=MAX_PURGES as u64 {
            let other = Purge { tool: Some(format!("other::{at}")), document: None };
            known.add(seconds(100 + at), other);
        }
        assert!(!known.allows("docs::search", b"", seconds(50)));
        assert!(known.allows("docs::search", b"", seconds(200)));
    }

    fn document(upstream: &str, id: u64) -> Purge {
        Purge { tool: Some(format!("{upstream}::*")), document: Some(format!("doc-{id}")) }
    }

    #[test]
    fn many_purges_of_an_upstream_leave_others_usable() {
        let mut known = KnownPurges { since: Some(seconds(1)), ..KnownPurges::default() };
        known.add(seconds(50), document("docs", 1));
        for at in 0..=MAX_PURGES as u64 {
            known.add(seconds(100 + at), document("files", at));
        }
        assert!(known.allows("docs::search", b"doc-2", seconds(20)));
        assert!(!known.allows("docs::search", b"doc-1", seconds(20)));
        assert!(!known.allows("files::read", b"other", seconds(1_000)));
        assert!(known.allows("files::read", b"other", seconds(101 + MAX_PURGES as u64 + 5)));
        assert!(known.purges.len() <= MAX_PURGES);
    }

    /// A store in which a purge blocks until the test receives it.
    struct BlockingStore(std::sync::mpsc::SyncSender<Vec<u8>>);

    impl CursorStore for BlockingStore {
        fn get(&self, _: &str, _: &[String]) -> Result<Vec<Option<Bytes>>, StoreError> {
            Ok(Vec::new())
        }

        fn put(&self, _: &str, _: Vec<(String, Vec<u8>)>, _: Duration) -> Result<(), StoreError> {
            Ok(())
        }

        fn extend(&self, _: &str, _: &[String], _: Duration) -> Result<(), StoreError> {
            Ok(())
        }

        fn delete(&self, _: &str, _: &[String]) -> Result<(), StoreError> {
            Ok(())
        }

        fn publish(&self, _: &str, message: Vec<u8>) -> Result<(), StoreError> {
            // The test ends before the thread that publishes.
            let _ = self.0.send(message);
            Ok(())
        }

        fn follow(&self, _: &str, _: ChannelFollower) -> Result<(), StoreError> {
            Ok(())
        }
    }

    #[test]
    fn number_of_waiting_purges_is_limited() {
        let (sender, published) = std::sync::mpsc::sync_channel(0);
        let clock = Arc::new(ManualClock::at_ms(1_000));
        let store = Arc::new(BlockingStore(sender));
        let shared = SharedAnswers::open(store, clock, seconds(60), |_| {}).unwrap();
        shared.purge(&document("docs", 1));
        for id in 0..3 * MAX_PURGES as u64 {
            shared.purge(&document("files", id));
        }
        assert!(lock(&shared.pending).purges.len() <= MAX_PURGES);
        let (mut count, mut tools) = (0, Vec::new());
        // The last one is a purge of another upstream, which removes all of its answers.
        shared.purge(&Purge { tool: Some("last::*".to_owned()), document: None });
        while !tools.contains(&"last::*".to_owned()) {
            let message: PublishedPurge =
                serde_json::from_slice(&published.recv().unwrap()).unwrap();
            count += 1;
            tools.extend(message.purge.document.is_none().then_some(message.purge.tool).flatten());
        }
        assert!(count <= MAX_PURGES + 1, "{count}");
        assert!(tools.contains(&"files::*".to_owned()), "{tools:?}");
    }
}
