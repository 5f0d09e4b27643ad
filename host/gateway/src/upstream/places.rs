//! The places of running processes, or of open connections, of all upstreams of a gateway. Their
//! number is limited in total, and for each owner of those of one upstream.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::inbox::Inbox;

/// The owner of processes and connections that all callers share. It is no principal, because it
/// has a space.
pub(super) const EVERYBODY: &str = "all callers";
/// The maximum time that a process or connection waits for the end of another. It exceeds the time
/// that a process has to exit.
const MAX_WAIT: Duration = Duration::from_secs(6);
/// The pause between two searches for an idle holder while all are busy.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);
/// The time without requests after which a holder is idle. A client that has just received the
/// connection has not sent its request yet.
const MIN_IDLE: Duration = Duration::from_millis(500);

/// The words for the holders of places in messages.
pub(super) struct PlaceNames {
    holder: &'static str,
    holders: &'static str,
    total: &'static str,
    per_owner: &'static str,
}

/// The words for child processes.
pub(super) const PROCESSES: PlaceNames = PlaceNames {
    holder: "process",
    holders: "processes",
    total: "limits.processes",
    per_owner: "limits.processesPerPrincipal",
};
/// The words for connections over HTTP.
const CONNECTIONS: PlaceNames = PlaceNames {
    holder: "connection",
    holders: "connections",
    total: "limits.upstreamConnections",
    per_owner: "limits.upstreamConnectionsPerPrincipal",
};

/// The places of processes or connections.
pub(crate) struct UpstreamPlaces {
    names: PlaceNames,
    max: usize,
    /// The maximum number of places of one upstream for one owner.
    max_per_owner: usize,
    stop: CancellationToken,
    held: Mutex<HeldPlaces>,
    /// Notified when a place is free.
    freed: Notify,
}

#[derive(Default)]
struct HeldPlaces {
    last_id: u64,
    holders: BTreeMap<u64, PlaceHolder>,
}

/// A process or connection that holds a place.
struct PlaceHolder {
    upstream: String,
    /// The caller that it counts for: see [`super::CallerHeaders`].
    owner: Arc<str>,
    inbox: Arc<Inbox>,
    end: CancellationToken,
}

impl PlaceHolder {
    /// Returns the time since which the holder has no requests. `None` while it has some, or ends.
    fn idle_since(&self) -> Option<Instant> {
        let since = self.inbox.requests.idle_since()?;
        (!self.end.is_cancelled() && since.elapsed() >= MIN_IDLE).then_some(since)
    }
}

/// The place of a running process or an open connection. Another may take it when this is dropped.
pub(super) struct UpstreamPlace {
    places: Arc<UpstreamPlaces>,
    id: u64,
    /// Cancelled when the holder must end.
    pub(super) end: CancellationToken,
}

impl Drop for UpstreamPlace {
    fn drop(&mut self) {
        self.places.held().holders.remove(&self.id);
        self.places.freed.notify_waiters();
    }
}

impl UpstreamPlaces {
    /// Creates `max` places, of which one owner may hold `max_per_owner` for one upstream.
    pub(super) fn new(names: PlaceNames, max: usize, max_per_owner: usize) -> Arc<Self> {
        Arc::new(Self {
            names,
            max,
            max_per_owner,
            stop: CancellationToken::new(),
            held: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Creates the places of connections over HTTP.
    pub(crate) fn of_connections(max: usize, max_per_owner: usize) -> Arc<Self> {
        Self::new(CONNECTIONS, max, max_per_owner)
    }

    fn held(&self) -> MutexGuard<'_, HeldPlaces> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if no place is held.
    #[cfg(test)]
    pub(super) fn are_free(&self) -> bool {
        self.held().holders.is_empty()
    }

    /// Ends all holders.
    pub(super) fn end(&self) {
        self.stop.cancel();
    }

    /// Waits for a place. If the owner has too many of this upstream, its holder that is idle for
    /// longest ends first. If there are too many in total, that of the owner ends, or that of the
    /// owner with the most.
    ///
    /// # Errors
    /// The reason why there is no place: all holders have requests.
    pub(super) async fn enter(
        self: &Arc<Self>,
        upstream: &str,
        owner: &Arc<str>,
        inbox: &Arc<Inbox>,
    ) -> Result<UpstreamPlace, String> {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            // Created before the search, so that no end in between is missed.
            let freed = self.freed.notified();
            let reason = match self.try_enter(upstream, owner, inbox) {
                Ok(place) => return Ok(place),
                Err(reason) => reason,
            };
            if Instant::now() >= deadline {
                return Err(reason);
            }
            tokio::select! {
                () = freed => {}
                () = tokio::time::sleep(SEARCH_PAUSE) => {}
            }
        }
    }

    /// Takes a place, or begins to make room for one.
    ///
    /// # Errors
    /// The reason why there is no place now.
    pub(super) fn try_enter(
        self: &Arc<Self>,
        upstream: &str,
        owner: &Arc<str>,
        inbox: &Arc<Inbox>,
    ) -> Result<UpstreamPlace, String> {
        let mut held = self.held();
        let is_own = |holder: &&PlaceHolder| holder.owner == *owner;
        let is_same = |holder: &&PlaceHolder| is_own(holder) && holder.upstream == upstream;
        let all = || held.holders.values();
        let PlaceNames { holders, total, per_owner, .. } = self.names;
        let reason = if all().filter(is_same).count() >= self.max_per_owner {
            self.make_room(all().filter(is_same).collect());
            format!(
                "the caller has {} {holders} of this upstream, and all have requests \
                 ({per_owner}). End unused sessions, share {holders} by `isolation: principal`, \
                 or raise the limit",
                self.max_per_owner
            )
        } else if held.holders.len() >= self.max {
            let own: Vec<_> = all().filter(is_own).collect();
            let own_count = own.len();
            if !self.make_room(own) {
                self.make_room(largest_owner(&held, own_count));
            }
            format!(
                "{} upstream {holders} run already ({total}). End unused sessions, share \
                 {holders} by `isolation: principal`, or raise the limit",
                self.max
            )
        } else {
            held.last_id += 1;
            let (id, end) = (held.last_id, self.stop.child_token());
            let holder = PlaceHolder {
                upstream: upstream.to_owned(),
                owner: Arc::clone(owner),
                inbox: Arc::clone(inbox),
                end: end.clone(),
            };
            held.holders.insert(id, holder);
            return Ok(UpstreamPlace { places: Arc::clone(self), id, end });
        };
        Err(reason)
    }

    /// Ends the holder that is idle for longest, unless one of these ends already. Returns false if
    /// all have requests.
    fn make_room(&self, holders: Vec<&PlaceHolder>) -> bool {
        if holders.iter().any(|holder| holder.end.is_cancelled()) {
            return true;
        }
        let idle = holders.into_iter().filter_map(|one| Some((one.idle_since()?, one)));
        let Some((_, longest)) = idle.min_by_key(|(since, _)| *since) else { return false };
        let PlaceNames { holder, total, per_owner, .. } = self.names;
        info!(
            upstream = longest.upstream,
            "ended an idle {holder}, because its place is needed ({total}, {per_owner})"
        );
        longest.end.cancel();
        true
    }
}

/// Returns the holders of the owner that has the most, if it has more than `count`.
fn largest_owner(held: &HeldPlaces, count: usize) -> Vec<&PlaceHolder> {
    let mut by_owner: BTreeMap<&str, Vec<&PlaceHolder>> = BTreeMap::new();
    for holder in held.holders.values() {
        by_owner.entry(&holder.owner).or_default().push(holder);
    }
    let largest = by_owner.into_values().max_by_key(Vec::len);
    largest.filter(|holders| holders.len() > count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::processes::Processes;

    fn inbox(is_busy: bool) -> Arc<Inbox> {
        let inbox = Inbox::new("x", &Arc::default(), 10, false);
        let request = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let started = inbox.requests.begin(request).unwrap();
        if !is_busy {
            inbox.requests.forget(started.id);
        }
        inbox
    }

    async fn idle() {
        tokio::time::sleep(MIN_IDLE).await;
    }

    /// Starts a process that exits as soon as it must.
    async fn start(processes: &Arc<Processes>, owner: &str, is_busy: bool) -> CancellationToken {
        let place = processes.places.enter("files", &owner.into(), &inbox(is_busy)).await.unwrap();
        let end = place.end.clone();
        processes.spawn(async move { place.end.cancelled().await });
        end
    }

    #[tokio::test]
    async fn longest_idle_process_of_the_owner_makes_room() {
        let processes = Processes::new(10, 2);
        let other = start(&processes, "other", false).await;
        let busy = start(&processes, "one", true).await;
        let first = start(&processes, "one", false).await;
        idle().await;
        let second = start(&processes, "one", false).await;
        assert!(first.is_cancelled() && !second.is_cancelled());
        assert!(!busy.is_cancelled() && !other.is_cancelled());
        // Another upstream has a limit of its own.
        let place = processes.places.enter("web", &"one".into(), &inbox(false)).await.unwrap();
        assert!(!second.is_cancelled());
        drop(place);
        processes.end().await;
        assert!(processes.places.are_free());
    }

    #[tokio::test]
    async fn largest_holder_makes_room_for_others() {
        let processes = Processes::new(3, 2);
        let small = start(&processes, "small", false).await;
        let first = start(&processes, "large", false).await;
        let second = start(&processes, "large", false).await;
        idle().await;
        let new = start(&processes, "new", true).await;
        assert!(first.is_cancelled() && !second.is_cancelled() && !small.is_cancelled());
        // All have as many as the next one would: it is refused.
        let refused = processes.places.try_enter("files", &"newest".into(), &inbox(false));
        assert!(refused.is_err_and(|reason| reason.contains("limits.processes)")));
        assert!(!new.is_cancelled());
        processes.end().await;
    }
}
