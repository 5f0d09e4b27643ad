//! Tasks that hold shared permits (slots) for principals. For each principal with requests, a task
//! holds as many slots of the fleet's limit as the principal needs.
//!
//! Requests start and end without waiting for the store, unless they need more slots than recently.

use std::collections::hash_map::Entry;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::lease::Lease;
use super::state::{QueueState, RequestKind};
use super::{FairQueue, deliver};

/// The divisor of the limit that gives the slots which all replicas together hold in advance: one
/// of ten.
const SLOTS_PER_SPARE: usize = 10;
/// The time after which the store frees the slots of a replica that does not renew them.
pub(crate) const SLOT_LIFETIME: Duration = Duration::from_secs(5);
/// The time after which a replica renews the slots in use.
const RENEWAL: Duration = Duration::from_millis(1_500);
/// The period after which slots that no request has used are returned to the store.
const PERIOD: Duration = Duration::from_millis(500);
/// The time between two requests to the store while a principal lacks slots.
const RETRY: Duration = Duration::from_millis(50);
/// The maximum time for returning all slots when the gateway stops.
const RETURN_TIME: Duration = Duration::from_secs(1);

/// The number of slots that a replica needs for a principal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotDemand {
    /// The number of requests in flight.
    pub(crate) used: usize,
    /// The number of requests that wait for a slot.
    pub(crate) waiting: usize,
    /// The number of slots to hold in advance for further requests.
    pub(crate) spare: usize,
}

/// The slots that the store grants a replica for a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotGrant {
    /// The maximum number of the principal's requests in flight at this replica.
    pub(crate) slots: usize,
    /// True if other replicas wait for slots.
    pub(crate) is_contended: bool,
}

/// The future of a [`SlotGrant`]. `None` if the store cannot be reached.
pub(crate) type SlotFuture = Pin<Box<dyn Future<Output = Option<SlotGrant>> + Send>>;

/// A store that divides the slots of principals among replicas.
pub(crate) trait SharedSlots: Send + Sync {
    /// Replaces the slots of this replica for a principal by those that `demand` needs, as far as
    /// the limit allows.
    fn hold(&self, principal: &str, demand: SlotDemand) -> SlotFuture;

    /// Returns true unless the store is known to be down.
    fn is_up(&self) -> bool;
}

/// A limit for each principal that applies to all replicas together.
pub(crate) struct SlotLimit {
    slots: Arc<dyn SharedSlots>,
    /// The number of slots of a replica while the store cannot be reached.
    share: usize,
    /// The number of slots that a replica holds in advance.
    spare: usize,
}

impl SlotLimit {
    /// Creates a limit. `limit` is the maximum number of requests in flight of a principal at all
    /// `replicas` together.
    pub(crate) fn new(slots: Arc<dyn SharedSlots>, limit: usize, replicas: usize) -> Self {
        let replicas = replicas.max(1);
        let spare = limit / SLOTS_PER_SPARE / replicas;
        Self { slots, share: share(limit, replicas), spare }
    }
}

/// Returns the number of slots of one replica without a store. The sum over all replicas does not
/// exceed `limit`, unless there are more replicas than slots.
pub(crate) fn share(limit: usize, replicas: usize) -> usize {
    (limit / replicas.max(1)).max(1)
}

impl FairQueue {
    /// Wakes the task that holds slots for a principal. Starts the task if there is none. Does
    /// nothing for requests that need no slot.
    pub(super) fn request_slots(
        self: &Arc<Self>,
        state: &mut QueueState,
        principal: &Arc<str>,
        kind: RequestKind,
    ) {
        if kind == RequestKind::Local {
            return;
        }
        match state.leases.entry(Arc::clone(principal)) {
            Entry::Occupied(entry) => entry.get().wake(),
            Entry::Vacant(entry) => {
                entry.insert(Lease::default());
                tokio::spawn(keep(Arc::clone(self), Arc::clone(principal)));
            }
        }
    }

    /// Returns all slots to the store, within [`RETURN_TIME`]. No request may need a slot
    /// afterwards.
    pub(crate) async fn return_slots(&self) {
        let Some(limit) = self.shared.get() else { return };
        let leases = std::mem::take(&mut self.state().leases);
        let returned = leases.keys().map(|name| limit.slots.hold(name, SlotDemand::default()));
        let _ = tokio::time::timeout(RETURN_TIME, join_all(returned)).await;
    }

    /// Returns the demand for slots of a principal. `None` if the principal has no lease.
    fn demand(&self, limit: &SlotLimit, principal: &str) -> Option<SlotDemand> {
        let mut state = self.state();
        let waiting = state.startable(&self.places, principal);
        let lease = state.leases.get_mut(principal)?;
        let target = lease.target(waiting);
        let target = if target == 0 { 0 } else { target + limit.spare };
        lease.ask(target);
        let spare = target - lease.used - waiting;
        Some(SlotDemand { used: lease.used, waiting, spare })
    }

    /// Asks the store for the slots of a principal, and starts the requests that can now run.
    /// Returns the next step of the task.
    async fn renew(self: &Arc<Self>, limit: &SlotLimit, principal: &Arc<str>) -> KeeperStep {
        let asked_at = Instant::now();
        let Some(demand) = self.demand(limit, principal) else { return KeeperStep::End };
        let answer = limit.slots.hold(principal, demand).await;
        let (granted, step) = {
            let mut state = self.state();
            let Some(lease) = state.leases.get_mut(principal) else { return KeeperStep::End };
            let needed = demand.used + demand.waiting;
            let has_needed = answer.is_some_and(|grant| grant.slots >= needed);
            match answer {
                Some(SlotGrant { slots, is_contended }) => {
                    lease.grant(slots, is_contended, asked_at);
                    // A store that has no spare slots would be asked with each request.
                    let has_spare = slots >= needed + demand.spare;
                    lease.set_low(if has_spare { limit.spare / 2 } else { 0 });
                }
                None => lease.set_share(limit.share),
            }
            let granted = self.grant(&mut state);
            let waiting = state.startable(&self.places, principal);
            let Some(lease) = state.leases.get_mut(principal) else { return KeeperStep::End };
            let lacks_slots = waiting > 0 && !lease.has_slot();
            lease.rest(lacks_slots);
            let is_unused = lease.target(waiting) == 0;
            let step = if lacks_slots && has_needed {
                KeeperStep::Renew
            } else if lacks_slots {
                state.refuse_excess(&self.queue, principal);
                KeeperStep::Retry
            } else if is_unused && (answer.is_none() || demand == SlotDemand::default()) {
                state.leases.remove(principal);
                KeeperStep::End
            } else {
                KeeperStep::Rest(Arc::clone(&lease.changed))
            };
            (granted, step)
        };
        deliver(granted);
        step
    }

    /// Ends a period of a lease. Returns true if the lease must be renewed at the store.
    fn is_due(&self, limit: &SlotLimit, principal: &str) -> bool {
        let mut state = self.state();
        let waiting = state.startable(&self.places, principal);
        let Some(lease) = state.leases.get_mut(principal) else { return true };
        let target = lease.target(waiting) + limit.spare;
        let is_due =
            Instant::now().checked_sub(RENEWAL).is_some_and(|before| lease.is_due(target, before));
        // A replica that cannot reach the store must not use more than its share.
        lease.end_period() || is_due || !limit.slots.is_up()
    }
}

/// The next step of the task that holds slots for a principal.
enum KeeperStep {
    /// Asks the store again at once, because more requests have arrived.
    Renew,
    /// Asks the store again soon, because requests lack slots.
    Retry,
    /// Waits until the requests need other slots.
    Rest(Arc<tokio::sync::Notify>),
    End,
}

/// Holds the slots of a principal until the principal has no requests.
async fn keep(queue: Arc<FairQueue>, principal: Arc<str>) {
    let Some(limit) = queue.shared.get() else { return };
    loop {
        match queue.renew(limit, &principal).await {
            KeeperStep::End => return,
            KeeperStep::Renew => {}
            KeeperStep::Retry => tokio::time::sleep(RETRY).await,
            KeeperStep::Rest(changed) => loop {
                let notified = tokio::time::timeout(PERIOD, changed.notified()).await.is_ok();
                if notified || queue.is_due(limit, &principal) {
                    break;
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::HashMap;
    use std::pin::pin;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;

    use super::super::{Caller, QueueFull, Shares};

    /// The maximum time until an awaited event. It only bounds a test that hangs.
    const HANG_LIMIT: Duration = Duration::from_secs(180);

    /// A store with a limit for each principal, which counts how often it was asked.
    struct Store {
        limit: Option<usize>,
        held: Mutex<HashMap<usize, usize>>,
        asked: AtomicUsize,
    }

    /// A replica of a store.
    struct Replica(usize, Arc<Store>);

    impl SharedSlots for Replica {
        fn hold(&self, _: &str, demand: SlotDemand) -> SlotFuture {
            let Self(replica, store) = self;
            store.asked.fetch_add(1, Ordering::Relaxed);
            let Some(limit) = store.limit else { return Box::pin(std::future::ready(None)) };
            let mut held = store.held.lock().unwrap();
            let others: usize =
                held.iter().filter(|(other, _)| *other != replica).map(|(_, held)| held).sum();
            let slots = (demand.used + demand.waiting + demand.spare).min(limit - others);
            held.insert(*replica, slots);
            let grant = SlotGrant { slots, is_contended: slots < demand.used + demand.waiting };
            Box::pin(std::future::ready(Some(grant)))
        }

        fn is_up(&self) -> bool {
            self.1.limit.is_some()
        }
    }

    fn store(limit: Option<usize>) -> Arc<Store> {
        Arc::new(Store { limit, held: Mutex::default(), asked: AtomicUsize::new(0) })
    }

    /// Returns the queue of one of two replicas with a shared limit of `limit`.
    fn replica(number: usize, store: &Arc<Store>, limit: usize, waiting: usize) -> Arc<FairQueue> {
        let shares = |total| Shares { total, per_principal: total, per_session: total };
        let queue = FairQueue::new(shares(100), shares(waiting));
        queue.share(SlotLimit::new(Arc::new(Replica(number, Arc::clone(store))), limit, 2));
        queue
    }

    /// Waits until a condition holds.
    async fn until(is_true: impl Fn() -> bool) {
        let wait = async {
            while !is_true() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(HANG_LIMIT, wait).await.unwrap();
    }

    fn caller() -> Caller {
        Caller { principal: "a".into(), session: "1".into() }
    }

    #[tokio::test]
    async fn sequential_requests_need_one_round_trip() {
        let store = store(Some(100));
        let queue = replica(1, &store, 100, 9);
        for _ in 0..500 {
            drop(queue.enter(&caller(), 1).await.unwrap());
        }
        assert_eq!(store.asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn replicas_share_a_limit() {
        let store = store(Some(3));
        let (one, two) = (replica(1, &store, 3, 9), replica(2, &store, 3, 9));
        let mut places = Vec::new();
        for _ in 0..3 {
            places.push(one.enter(&caller(), 1).await.unwrap());
        }
        let caller = caller();
        let mut waiting = pin!(two.enter(&caller, 1));
        assert!(matches!(futures_util::poll!(&mut waiting), Poll::Pending));
        until(|| store.held.lock().unwrap().get(&2) == Some(&0)).await;
        assert!(matches!(futures_util::poll!(&mut waiting), Poll::Pending));
        places.pop();
        // The slot is given back after a period without its use.
        assert!(waiting.await.is_ok());
        assert_eq!(*store.held.lock().unwrap(), HashMap::from([(1, 2), (2, 1)]));
    }

    #[tokio::test]
    async fn unused_slots_are_given_back() {
        let store = store(Some(3));
        let queue = replica(1, &store, 3, 9);
        drop(queue.enter(&caller(), 1).await.unwrap());
        until(|| store.held.lock().unwrap()[&1] == 0 && queue.state().leases.is_empty()).await;
        let place = queue.enter(&caller(), 1).await.unwrap();
        assert_eq!(store.held.lock().unwrap()[&1], 1);
        drop(place);
        queue.return_slots().await;
        assert_eq!(store.held.lock().unwrap()[&1], 0);
    }

    #[tokio::test]
    async fn replica_without_a_store_uses_its_share() {
        let queue = replica(1, &store(None), 5, 9);
        let caller = caller();
        let _first = queue.enter(&caller, 1).await.unwrap();
        let second = queue.enter(&caller, 1).await.unwrap();
        let mut third = pin!(queue.enter(&caller, 1));
        assert!(matches!(futures_util::poll!(&mut third), Poll::Pending));
        drop(second);
        assert!(third.await.is_ok());
    }

    #[tokio::test]
    async fn forwarded_requests_overtake_those_without_a_slot() {
        let queue = replica(1, &store(Some(0)), 1, 9);
        let caller = caller();
        let mut own = pin!(queue.enter(&caller, 1));
        assert!(matches!(futures_util::poll!(&mut own), Poll::Pending));
        let forwarded = queue.enter_forwarded(&caller, 1).await.unwrap();
        assert!(matches!(futures_util::poll!(&mut own), Poll::Pending));
        drop(forwarded);
    }

    #[tokio::test]
    async fn requests_that_wait_for_places_get_slots() {
        let store = store(Some(9));
        let queue = replica(1, &store, 9, 99);
        let other =
            |number: usize| Caller { principal: "b".into(), session: format!("{number}").into() };
        let mut places = Vec::new();
        for number in 0..100 {
            places.push(queue.enter_forwarded(&other(number), 1).await.unwrap());
        }
        let caller = caller();
        let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(queue.enter(&caller, 1))).collect();
        for request in &mut waiting {
            assert!(matches!(futures_util::poll!(request), Poll::Pending));
        }
        until(|| store.asked.load(Ordering::Relaxed) > 0).await;
        places.clear();
        assert_eq!(join_all(waiting).await.iter().filter(|place| place.is_ok()).count(), 5);
    }

    #[tokio::test]
    async fn request_without_a_slot_is_refused_if_the_queue_is_full() {
        let store = store(Some(1));
        let queue = replica(1, &store, 1, 0);
        let place = queue.enter(&caller(), 1).await.unwrap();
        assert_eq!(queue.enter(&caller(), 1).await.err(), Some(QueueFull));
        drop(place);
        assert!(queue.enter(&caller(), 1).await.is_ok());
    }
}
