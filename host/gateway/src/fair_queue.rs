//! A queue for a limited number of permits. Free permits rotate among principals, and among the
//! sessions of a principal, so that no caller waits behind all requests of another.
//!
//! In a fleet, a request of a principal also needs a shared permit (slot), of which all replicas
//! together have a limited number.

mod keeper;
mod lease;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::oneshot;

pub(crate) use self::keeper::{
    SLOT_LIFETIME, SharedSlots, SlotDemand, SlotFuture, SlotGrant, SlotLimit, share,
};
use self::state::{QueueState, RequestKind};

/// The number of permits that a session may always use, if its principal may use as many.
const MIN_SESSION_SHARE: usize = 4;
/// The number of permits that a principal may always use, if there are more.
const MIN_PRINCIPAL_SHARE: usize = 8;

/// The owner of a request. Permits rotate among callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The authenticated principal, or the address of an anonymous caller.
    pub(crate) principal: Arc<str>,
    /// The session. Empty for requests without a session, which share the principal's bound.
    pub(crate) session: Arc<str>,
}

/// The bounds of a queue: for all callers, for each principal, and for each session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub(crate) total: usize,
    pub(crate) per_principal: usize,
    pub(crate) per_session: usize,
}

impl Shares {
    /// Returns the default bounds for `total` permits: half of them for a principal, but at least
    /// 8, and a quarter for a session, but at least 4. A principal leaves at least one permit to
    /// others if there are three or more: with one alone, a client could not answer the question
    /// of a server while its call waits for the answer.
    pub(crate) fn defaults(total: usize) -> Self {
        Self::with_principal_share(total, total.div_ceil(2).max(MIN_PRINCIPAL_SHARE))
    }

    /// Returns the bounds for `total` permits that are held for long: half of them for a
    /// principal, however few there are.
    pub(crate) fn halves(total: usize) -> Self {
        Self::with_principal_share(total, total.div_ceil(2))
    }

    fn with_principal_share(total: usize, share: usize) -> Self {
        let others = usize::from(total > 2);
        let per_principal = share.min(total - others);
        let per_session = total.div_ceil(4).max(MIN_SESSION_SHARE).min(per_principal);
        Self { total, per_principal, per_session }
    }

    /// Returns the bound for a session. An empty `session` has the bound of the principal.
    fn session_bound(&self, session: &str) -> usize {
        if session.is_empty() { self.per_principal } else { self.per_session }
    }
}

/// The error that the queue is full, in total or for one caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueFull;

/// A limited number of permits with a bounded queue, fair among callers.
pub(crate) struct FairQueue {
    places: Shares,
    queue: Shares,
    state: Mutex<QueueState>,
    /// The limit of each principal that all replicas of a fleet share. Unset if there is none.
    shared: OnceLock<SlotLimit>,
}

/// Permits of a [`FairQueue`], which are returned when this value is dropped.
pub(crate) struct Place {
    queue: Arc<FairQueue>,
    caller: Caller,
    places: usize,
    kind: RequestKind,
}

impl Drop for Place {
    fn drop(&mut self) {
        let granted = {
            let mut state = self.queue.state();
            state.release(&self.caller, self.places, self.kind);
            self.queue.grant(&mut state)
        };
        deliver(granted);
    }
}

/// Removes a request from the queue if its future is dropped before it received a permit.
struct Waiting<'q> {
    queue: &'q FairQueue,
    caller: &'q Caller,
    id: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.queue.state().remove(self.caller, self.id);
    }
}

/// Permits granted to waiting requests, each with the channel that delivers it.
type GrantedPlaces = Vec<(oneshot::Sender<Place>, Place)>;

/// Delivers the permits to the waiting requests. The queue's state must not be locked: dropping a
/// permit, because its receiver was dropped, locks the state again.
fn deliver(granted: GrantedPlaces) {
    for (waiter, place) in granted {
        let _ = waiter.send(place);
    }
}

impl FairQueue {
    pub(crate) fn new(places: Shares, queue: Shares) -> Arc<Self> {
        Arc::new(Self { places, queue, state: Mutex::default(), shared: OnceLock::new() })
    }

    /// Limits the requests of each principal at all replicas together. Must be called at most once.
    pub(crate) fn share(&self, limit: SlotLimit) {
        let _ = self.shared.set(limit);
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the kind of a request. If `is_forwarded` is true, another replica has already
    /// counted it.
    fn kind(&self, is_forwarded: bool) -> RequestKind {
        match self.shared.get() {
            Some(_) if !is_forwarded => RequestKind::NeedsSlot,
            _ => RequestKind::Local,
        }
    }

    /// Returns true if a request of this caller would start or wait now.
    pub(crate) fn has_room(&self, caller: &Caller, is_forwarded: bool) -> bool {
        let (state, kind) = (self.state(), self.kind(is_forwarded));
        state.can_start(&self.places, caller, kind)
            || state.can_wait(&self.queue, caller, 1)
            || state.lacks_only_a_slot(&self.places, caller, kind)
    }

    /// Waits for `places` permits, at most as many as a session may have. The request starts when
    /// one permit is free. It then holds all of them, even if fewer were free, so that more permits
    /// than the bounds may be in use. Requests that need several permits therefore neither wait
    /// forever nor deadlock.
    ///
    /// # Errors
    /// [`QueueFull`] if the queue has no room for this caller.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        caller: &Caller,
        places: usize,
    ) -> Result<Place, QueueFull> {
        self.enter_as(caller, places, self.kind(false)).await
    }

    /// Waits as [`Self::enter`] does, for a request that another replica has forwarded. That
    /// replica holds the shared permit (slot) for it.
    ///
    /// # Errors
    /// [`QueueFull`] if the queue has no room for this caller.
    pub(crate) async fn enter_forwarded(
        self: &Arc<Self>,
        caller: &Caller,
        places: usize,
    ) -> Result<Place, QueueFull> {
        self.enter_as(caller, places, self.kind(true)).await
    }

    async fn enter_as(
        self: &Arc<Self>,
        caller: &Caller,
        places: usize,
        kind: RequestKind,
    ) -> Result<Place, QueueFull> {
        let places = places.clamp(1, self.places.session_bound(&caller.session));
        let (granted, receiver) = oneshot::channel();
        let id = {
            let mut state = self.state();
            if state.can_start(&self.places, caller, kind) {
                state.start(caller, places, kind);
                return Ok(self.place(caller, places, kind));
            }
            // A request that lacks only a slot does not wait for other requests: the store may have
            // a slot for it. The keeper refuses it if not, and the queue is full.
            if !state.can_wait(&self.queue, caller, places)
                && !state.lacks_only_a_slot(&self.places, caller, kind)
            {
                return Err(QueueFull);
            }
            let id = state.wait(caller, places, kind, granted);
            self.request_slots(&mut state, &caller.principal, kind);
            id
        };
        let waiting = Waiting { queue: self, caller, id };
        let place = receiver.await.map_err(|_| QueueFull);
        drop(waiting);
        place
    }

    fn place(self: &Arc<Self>, caller: &Caller, places: usize, kind: RequestKind) -> Place {
        Place { queue: Arc::clone(self), caller: caller.clone(), places, kind }
    }

    /// Starts the waiting requests for which permits are free. The caller must pass the result to
    /// [`deliver`] after it has unlocked the state.
    fn grant(self: &Arc<Self>, state: &mut QueueState) -> GrantedPlaces {
        let mut granted = Vec::new();
        while let Some((caller, waiter)) = state.next_waiter(&self.places) {
            state.start(&caller, waiter.places, waiter.kind);
            granted.push((waiter.granted, self.place(&caller, waiter.places, waiter.kind)));
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::pin::pin;
    use std::task::Poll;

    fn caller(principal: &str, session: &str) -> Caller {
        Caller { principal: principal.into(), session: session.into() }
    }

    fn queue(places: [usize; 3], queue: [usize; 3]) -> Arc<FairQueue> {
        let shares = |[total, per_principal, per_session]: [usize; 3]| Shares {
            total,
            per_principal,
            per_session,
        };
        FairQueue::new(shares(places), shares(queue))
    }

    /// Starts tasks that wait for a permit, in order. Returns the order in which they get permits.
    async fn order(queue: &Arc<FairQueue>, held: Place, callers: &[(&str, &str)]) -> Vec<String> {
        let (names, mut order) = tokio::sync::mpsc::unbounded_channel();
        for (principal, session) in callers {
            let (queue, caller, names) =
                (Arc::clone(queue), caller(principal, session), names.clone());
            tokio::spawn(async move {
                let place = queue.enter(&caller, 1).await.unwrap();
                names.send(format!("{}{}", caller.principal, caller.session)).unwrap();
                tokio::task::yield_now().await;
                drop(place);
            });
            tokio::task::yield_now().await;
        }
        drop((held, names));
        let mut all = Vec::new();
        while let Some(name) = order.recv().await {
            all.push(name);
        }
        all
    }

    #[tokio::test]
    async fn turns_rotate_among_principals_and_sessions() {
        let queue = queue([1, 1, 1], [9, 9, 9]);
        let held = queue.enter(&caller("x", ""), 1).await.unwrap();
        let waiting =
            [("a", "1"), ("a", "1"), ("a", "1"), ("a", "2"), ("b", "1"), ("b", "1"), ("c", "1")];
        let order = order(&queue, held, &waiting).await;
        assert_eq!(order, ["a1", "b1", "c1", "a2", "b1", "a1", "a1"]);
        assert!(queue.state().principals.is_empty() && queue.state().turns.is_empty());
    }

    #[tokio::test]
    async fn shares_leave_places_for_others() {
        let queue = queue([4, 3, 2], [1, 1, 1]);
        let _first = queue.enter(&caller("a", "1"), 1).await.unwrap();
        let second = queue.enter(&caller("a", "1"), 1).await.unwrap();
        let mut third = pin!(async { queue.enter(&caller("a", "1"), 1).await });
        assert!(matches!(futures_util::poll!(&mut third), Poll::Pending));
        assert_eq!(queue.enter(&caller("a", "1"), 1).await.err(), Some(QueueFull));
        let _other_session = queue.enter(&caller("a", "2"), 1).await.unwrap();
        assert_eq!(queue.enter(&caller("a", "3"), 1).await.err(), Some(QueueFull));
        let _other_principal = queue.enter(&caller("b", "1"), 1).await.unwrap();
        assert!(matches!(futures_util::poll!(&mut third), Poll::Pending));
        drop(second);
        assert!(third.await.is_ok());
    }

    #[tokio::test]
    async fn several_places_start_with_one_and_are_charged() {
        let queue = queue([4, 4, 4], [9, 9, 9]);
        let _held = queue.enter(&caller("a", "1"), 3).await.unwrap();
        let batch = queue.enter(&caller("b", "1"), 50).await.unwrap();
        assert_eq!((batch.places, queue.state().running), (4, 7));
        let mut next = pin!(async { queue.enter(&caller("c", "1"), 1).await });
        assert!(matches!(futures_util::poll!(&mut next), Poll::Pending));
        drop(batch);
        assert!(next.await.is_ok());
    }

    #[tokio::test]
    async fn abandoned_requests_leave_the_queue() {
        let queue = queue([1, 1, 1], [1, 1, 1]);
        let held = queue.enter(&caller("a", "1"), 1).await.unwrap();
        for _ in 0..3 {
            let mut waiting = Box::pin(async { queue.enter(&caller("b", "1"), 1).await });
            assert!(matches!(futures_util::poll!(&mut waiting), Poll::Pending));
        }
        drop(held);
        assert!(queue.state().principals.is_empty() && queue.state().running == 0);
    }

    #[test]
    fn small_limits_leave_one_place_to_others() {
        let bounds = |shares: Shares| (shares.per_principal, shares.per_session);
        let defaults = |total| bounds(Shares::defaults(total));
        let expected = [(0, 0), (1, 1), (2, 2), (3, 3), (7, 4), (8, 4), (32, 16), (128, 64)];
        assert_eq!([0, 1, 2, 4, 8, 9, 64, 256].map(defaults), expected);
        let halves = |total| bounds(Shares::halves(total));
        assert_eq!([0, 1, 2, 8, 64].map(halves), [(0, 0), (1, 1), (1, 1), (4, 4), (32, 16)]);
    }
}
