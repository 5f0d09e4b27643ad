//! The state of a fair queue: the running and the waiting requests of each principal and session.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::lease::Lease;
use super::{Caller, Place, Shares};

/// The limits that apply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// The limits of this replica only.
    Local,
    /// The limits of this replica, and the limit that all replicas share.
    NeedsSlot,
}

pub(super) struct Waiter {
    id: u64,
    pub(super) places: usize,
    pub(super) kind: RequestKind,
    pub(super) granted: oneshot::Sender<Place>,
}

#[derive(Default)]
struct SessionQueue {
    running: usize,
    waiting: usize,
    waiters: VecDeque<Waiter>,
}

#[derive(Default)]
pub(super) struct PrincipalQueue {
    running: usize,
    waiting: usize,
    sessions: HashMap<Arc<str>, SessionQueue>,
    /// The sessions with waiting requests, in the order in which they receive permits.
    turns: VecDeque<Arc<str>>,
}

#[derive(Default)]
pub(super) struct QueueState {
    pub(super) running: usize,
    waiting: usize,
    last_id: u64,
    pub(super) principals: HashMap<Arc<str>, PrincipalQueue>,
    /// The principals with waiting requests, in the order in which they receive permits.
    pub(super) turns: VecDeque<Arc<str>>,
    /// The shared permits (slots) that this replica holds for principals.
    pub(super) leases: HashMap<Arc<str>, Lease>,
}

impl QueueState {
    fn session(&self, caller: &Caller) -> Option<(&PrincipalQueue, Option<&SessionQueue>)> {
        let principal = self.principals.get(&caller.principal)?;
        Some((principal, principal.sessions.get(&caller.session)))
    }

    /// Returns true if this replica holds an unused slot for the principal.
    fn has_slot(&self, principal: &str) -> bool {
        self.leases.get(principal).is_some_and(Lease::has_slot)
    }

    /// Returns true if this replica has a permit for a request, whose principal may lack a slot.
    /// With `counts_waiting`, the permits that waiting requests need count as used.
    fn has_place(&self, places: &Shares, caller: &Caller, counts_waiting: bool) -> bool {
        let count = |running, waiting| running + if counts_waiting { waiting } else { 0 };
        let (principal, session) = match self.session(caller) {
            Some((principal, session)) => (
                count(principal.running, principal.waiting),
                session.map_or(0, |session| count(session.running, session.waiting)),
            ),
            None => (0, 0),
        };
        count(self.running, self.waiting) < places.total
            && principal < places.per_principal
            && session < places.session_bound(&caller.session)
    }

    pub(super) fn can_start(&self, places: &Shares, caller: &Caller, kind: RequestKind) -> bool {
        self.has_place(places, caller, false)
            && (kind == RequestKind::Local || self.has_slot(&caller.principal))
    }

    /// Returns true if a request would start if its principal had more slots.
    pub(super) fn lacks_only_a_slot(
        &self,
        places: &Shares,
        caller: &Caller,
        kind: RequestKind,
    ) -> bool {
        kind == RequestKind::NeedsSlot && self.has_place(places, caller, true)
    }

    pub(super) fn can_wait(&self, queue: &Shares, caller: &Caller, places: usize) -> bool {
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

    pub(super) fn start(&mut self, caller: &Caller, places: usize, kind: RequestKind) {
        self.running += places;
        let principal = self.principals.entry(Arc::clone(&caller.principal)).or_default();
        principal.running += places;
        let session = principal.sessions.entry(Arc::clone(&caller.session)).or_default();
        session.running += places;
        if kind == RequestKind::NeedsSlot
            && let Some(lease) = self.leases.get_mut(&caller.principal)
        {
            lease.start(places);
        }
    }

    pub(super) fn release(&mut self, caller: &Caller, places: usize, kind: RequestKind) {
        self.running -= places;
        if let Some(principal) = self.principals.get_mut(&caller.principal) {
            principal.running -= places;
            if let Some(session) = principal.sessions.get_mut(&caller.session) {
                session.running -= places;
            }
        }
        if kind == RequestKind::NeedsSlot
            && let Some(lease) = self.leases.get_mut(&caller.principal)
        {
            lease.release(places);
        }
        self.forget_idle(caller);
    }

    /// Adds a request for `places` permits to the queue, and returns its id.
    pub(super) fn wait(
        &mut self,
        caller: &Caller,
        places: usize,
        kind: RequestKind,
        granted: oneshot::Sender<Place>,
    ) -> u64 {
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
        session.waiters.push_back(Waiter { id: self.last_id, places, kind, granted });
        self.last_id
    }

    /// Removes the waiting request with this id. Does nothing if it no longer waits.
    pub(super) fn remove(&mut self, caller: &Caller, id: u64) {
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

    /// Removes and returns the next request in the queue that may start. `None` if none may.
    pub(super) fn next_waiter(&mut self, places: &Shares) -> Option<(Caller, Waiter)> {
        if self.running >= places.total {
            return None;
        }
        for _ in 0..self.turns.len() {
            let name = self.turns.pop_front()?;
            let has_slot = self.has_slot(&name);
            let principal = self.principals.get_mut(&name)?;
            let next = if principal.running < places.per_principal {
                principal.next_waiter(places, has_slot)
            } else {
                None
            };
            let has_place = principal.running < places.per_principal;
            if principal.waiting > 0 {
                self.turns.push_back(Arc::clone(&name));
            }
            // A place became free for a request that lacks a slot.
            if next.is_none()
                && has_place
                && !has_slot
                && let Some(lease) = self.leases.get(&name)
            {
                lease.wake();
            }
            if let Some((session, waiter)) = next {
                self.waiting -= waiter.places;
                return Some((Caller { principal: name, session }, waiter));
            }
        }
        None
    }

    /// Returns the number of permits that the waiting requests of a principal could use now if it
    /// had enough slots. Returns at least one for waiting requests, so that the principal has a
    /// slot when a permit is free.
    pub(super) fn startable(&self, places: &Shares, principal: &str) -> usize {
        let Some(principal) = self.principals.get(principal) else { return 0 };
        let of_sessions = principal.sessions.iter().map(|(name, session)| {
            session.waiting.min(places.session_bound(name).saturating_sub(session.running))
        });
        let room = places.per_principal.saturating_sub(principal.running);
        let free = of_sessions.sum::<usize>().min(room);
        free.min(places.total.saturating_sub(self.running)).max(principal.waiting.min(1))
    }

    /// Removes the latest requests of a principal that need a slot, while the queue is too long.
    /// Their callers receive [`QueueFull`](super::QueueFull).
    pub(super) fn refuse_excess(&mut self, queue: &Shares, name: &Arc<str>) {
        while let Some(principal) = self.principals.get(name)
            && (principal.waiting > queue.per_principal || self.waiting > queue.total)
        {
            let waiters = principal.sessions.iter().flat_map(|(session, queue)| {
                queue.waiters.iter().map(move |waiter| (waiter.kind, waiter.id, session))
            });
            let latest = waiters
                .filter(|(kind, ..)| *kind == RequestKind::NeedsSlot)
                .max_by_key(|(_, id, _)| *id);
            let Some((_, id, session)) = latest else { return };
            let caller = Caller { principal: Arc::clone(name), session: Arc::clone(session) };
            self.remove(&caller, id);
        }
    }

    /// Removes the entries of a caller that has no requests.
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
    fn next_waiter(&mut self, places: &Shares, has_slot: bool) -> Option<(Arc<str>, Waiter)> {
        for _ in 0..self.turns.len() {
            let name = self.turns.pop_front()?;
            let session = self.sessions.get_mut(&name)?;
            let next = if session.running < places.session_bound(&name) {
                session.next_waiter(has_slot)
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

impl SessionQueue {
    /// Removes and returns the first request that may start. A request that another replica has
    /// forwarded may overtake those that lack a slot, because they could be waiting for that
    /// request's own slot.
    fn next_waiter(&mut self, has_slot: bool) -> Option<Waiter> {
        let may_start = |waiter: &Waiter| has_slot || waiter.kind == RequestKind::Local;
        let at = self.waiters.iter().position(may_start)?;
        self.waiters.remove(at)
    }
}
