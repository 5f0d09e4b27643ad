//! A queue for a limited number of places. Free places rotate among principals, and among the
//! sessions of a principal, so that no caller waits behind all requests of another.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The number of places that a session may always use, if there are as many.
const MIN_SESSION_SHARE: usize = 4;
/// The number of places that a principal may always use, if there are as many.
const MIN_PRINCIPAL_SHARE: usize = 8;

/// The owner of a request, among which places rotate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The authenticated principal, or the address of an anonymous caller.
    pub(crate) principal: Arc<str>,
    /// The session. Empty for requests without one, which only the bound of the principal limits.
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
    /// Returns the default shares of `total`: half of it for a principal, but at least 8, and a
    /// quarter for a session, but at least 4.
    pub(crate) fn defaults(total: usize) -> Self {
        Self {
            total,
            per_principal: total.div_ceil(2).max(MIN_PRINCIPAL_SHARE).min(total),
            per_session: total.div_ceil(4).max(MIN_SESSION_SHARE).min(total),
        }
    }

    /// Returns the bound for a session, or for the requests of a principal without a session.
    fn session_bound(&self, session: &str) -> usize {
        if session.is_empty() { self.per_principal } else { self.per_session }
    }
}

/// The queue is full, for all callers or for the one that was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueFull;

struct Waiter {
    id: u64,
    places: usize,
    granted: oneshot::Sender<Place>,
}

#[derive(Default)]
struct SessionQueue {
    running: usize,
    waiting: usize,
    waiters: VecDeque<Waiter>,
}

#[derive(Default)]
struct PrincipalQueue {
    running: usize,
    waiting: usize,
    sessions: HashMap<Arc<str>, SessionQueue>,
    /// The sessions with waiters, in the order of their turns.
    turns: VecDeque<Arc<str>>,
}

#[derive(Default)]
struct QueueState {
    running: usize,
    waiting: usize,
    last_id: u64,
    principals: HashMap<Arc<str>, PrincipalQueue>,
    /// The principals with waiters, in the order of their turns.
    turns: VecDeque<Arc<str>>,
}

/// A limited number of places with a bounded queue, fair among callers.
pub(crate) struct FairQueue {
    places: Shares,
    queue: Shares,
    state: Mutex<QueueState>,
}

/// Occupies places of a [`FairQueue`] until it is dropped.
pub(crate) struct Place {
    queue: Arc<FairQueue>,
    caller: Caller,
    places: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        let granted = {
            let mut state = self.queue.state();
            state.release(&self.caller, self.places);
            self.queue.grant(&mut state)
        };
        // Sent without the lock: a place whose receiver is gone is dropped here, which locks again.
        for (waiter, place) in granted {
            let _ = waiter.send(place);
        }
    }
}

/// Removes a request from the queue if its future is dropped before it got a place.
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

impl FairQueue {
    pub(crate) fn new(places: Shares, queue: Shares) -> Arc<Self> {
        Arc::new(Self { places, queue, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a request of this caller would start or wait now.
    pub(crate) fn has_room(&self, caller: &Caller) -> bool {
        let state = self.state();
        state.can_start(&self.places, caller) || state.can_wait(&self.queue, caller, 1)
    }

    /// Waits for `places` places, at most as many as a session may have. The request starts when
    /// one is free, and occupies the others as they become free. So requests that need several
    /// places neither wait for ever nor for each other.
    ///
    /// # Errors
    /// The queue is full.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        caller: &Caller,
        places: usize,
    ) -> Result<Place, QueueFull> {
        let places = places.clamp(1, self.places.session_bound(&caller.session));
        let (granted, receiver) = oneshot::channel();
        let id = {
            let mut state = self.state();
            if state.can_start(&self.places, caller) {
                state.start(caller, places);
                return Ok(self.place(caller, places));
            }
            if !state.can_wait(&self.queue, caller, places) {
                return Err(QueueFull);
            }
            state.wait(caller, places, granted)
        };
        let waiting = Waiting { queue: self, caller, id };
        let place = receiver.await.map_err(|_| QueueFull);
        drop(waiting);
        place
    }

    fn place(self: &Arc<Self>, caller: &Caller, places: usize) -> Place {
        Place { queue: Arc::clone(self), caller: caller.clone(), places }
    }

    /// Starts the waiting requests for which there are places now. The caller sends the places to
    /// them after it has unlocked the state.
    fn grant(self: &Arc<Self>, state: &mut QueueState) -> Vec<(oneshot::Sender<Place>, Place)> {
        let mut granted = Vec::new();
        while let Some((caller, waiter)) = state.next_waiter(&self.places) {
            state.start(&caller, waiter.places);
            granted.push((waiter.granted, self.place(&caller, waiter.places)));
        }
        granted
    }
}

impl QueueState {
    fn session(&self, caller: &Caller) -> Option<(&PrincipalQueue, Option<&SessionQueue>)> {
        let principal = self.principals.get(&caller.principal)?;
        Some((principal, principal.sessions.get(&caller.session)))
    }

    fn can_start(&self, places: &Shares, caller: &Caller) -> bool {
        let (principal, session) = match self.session(caller) {
            Some((principal, session)) => {
                (principal.running, session.map_or(0, |session| session.running))
            }
            None => (0, 0),
        };
        self.running < places.total
            && principal < places.per_principal
            && session < places.session_bound(&caller.session)
    }

    fn can_wait(&self, queue: &Shares, caller: &Caller, places: usize) -> bool {
        let (principal, session) = match self.session(caller) {
            Some((principal, session)) => {
                (principal.waiting, session.map_or(0, |session| session.waiting))
            }
            None => (0, 0),
        };
        self.waiting + places <= queue.total
            && principal + places <= queue.per_principal
            && session + places <= queue.session_bound(&caller.session)
    }

    fn start(&mut self, caller: &Caller, places: usize) {
        self.running += places;
        let principal = self.principals.entry(Arc::clone(&caller.principal)).or_default();
        principal.running += places;
        let session = principal.sessions.entry(Arc::clone(&caller.session)).or_default();
        session.running += places;
    }

    fn release(&mut self, caller: &Caller, places: usize) {
        self.running -= places;
        if let Some(principal) = self.principals.get_mut(&caller.principal) {
            principal.running -= places;
            if let Some(session) = principal.sessions.get_mut(&caller.session) {
                session.running -= places;
            }
        }
        self.forget_idle(caller);
    }

    /// Adds a request to the queue, and returns its id.
    fn wait(&mut self, caller: &Caller, places: usize, granted: oneshot::Sender<Place>) -> u64 {
        self.last_id += 1;
        self.waiting += places;
        let principal = self.principals.entry(Arc::clone(&caller.principal)).or_default();
        if principal.waiting == 0 {
            self.turns.push_back(Arc::clone(&caller.principal));
        }
        principal.waiting += places;
        let session = principal.sessions.entry(Arc::clone(&caller.session)).or_default();
        if session.waiting == 0 {
            principal.turns.push_back(Arc::clone(&caller.session));
        }
        session.waiting += places;
        session.waiters.push_back(Waiter { id: self.last_id, places, granted });
        self.last_id
    }

    /// Removes the waiting request with this id, if it still waits.
    fn remove(&mut self, caller: &Caller, id: u64) {
        let Some(principal) = self.principals.get_mut(&caller.principal) else { return };
        let Some(session) = principal.sessions.get_mut(&caller.session) else { return };
        let Some(at) = session.waiters.iter().position(|waiter| waiter.id == id) else { return };
        if let Some(waiter) = session.waiters.remove(at) {
            session.waiting -= waiter.places;
            principal.waiting -= waiter.places;
            self.waiting -= waiter.places;
        }
        if session.waiting == 0 {
            principal.turns.retain(|session| *session != caller.session);
        }
        if principal.waiting == 0 {
            self.turns.retain(|principal| *principal != caller.principal);
        }
        self.forget_idle(caller);
    }

    /// Removes the next request from the queue that may start, or returns `None`.
    fn next_waiter(&mut self, places: &Shares) -> Option<(Caller, Waiter)> {
        if self.running >= places.total {
            return None;
        }
        for _ in 0..self.turns.len() {
            let name = self.turns.pop_front()?;
            let principal = self.principals.get_mut(&name)?;
            let next = if principal.running < places.per_principal {
                principal.next_waiter(places)
            } else {
                None
            };
            if principal.waiting > 0 {
                self.turns.push_back(Arc::clone(&name));
            }
            if let Some((session, waiter)) = next {
                self.waiting -= waiter.places;
                return Some((Caller { principal: name, session }, waiter));
            }
        }
        None
    }

    /// Removes the entries of a caller that has no requests any more.
    fn forget_idle(&mut self, caller: &Caller) {
        let Some(principal) = self.principals.get_mut(&caller.principal) else { return };
        let session = principal.sessions.get(&caller.session);
        if session.is_some_and(|session| session.running == 0 && session.waiting == 0) {
            principal.sessions.remove(&caller.session);
        }
        if principal.sessions.is_empty() {
            self.principals.remove(&caller.principal);
        }
    }
}

impl PrincipalQueue {
    fn next_waiter(&mut self, places: &Shares) -> Option<(Arc<str>, Waiter)> {
        for _ in 0..self.turns.len() {
            let name = self.turns.pop_front()?;
            let session = self.sessions.get_mut(&name)?;
            let next = if session.running < places.session_bound(&name) {
                session.waiters.pop_front()
            } else {
                None
            };
            if let Some(waiter) = &next {
                session.waiting -= waiter.places;
                self.waiting -= waiter.places;
            }
            if session.waiting > 0 {
                self.turns.push_back(Arc::clone(&name));
            }
            if let Some(waiter) = next {
                return Some((name, waiter));
            }
        }
        None
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

    /// Starts tasks that wait for a place, in order, and returns the order in which they get it.
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
    fn small_limits_are_not_divided() {
        let shares = |total| {
            let shares = Shares::defaults(total);
            (shares.per_principal, shares.per_session)
        };
        assert_eq!([1, 4, 8, 64, 256].map(shares), [(1, 1), (4, 4), (8, 4), (32, 16), (128, 64)]);
    }
}
