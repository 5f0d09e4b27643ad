//! Upstreams' requests for input from the client, and the suspended requests that wait for the
//! input.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::value::RawValue;

use super::in_flight::InFlightRequest;
use crate::fleet::OwnerTag;
use crate::message::{Head, member, members};
use crate::session_table::SessionTable;

/// The prefix of the `requestState` of a request that the gateway has suspended.
pub(crate) const STATE_PREFIX: &str = "cg-parked-";
/// The number of random bytes in a `requestState`. It is a credential, so it must be unguessable.
const STATE_BYTES: usize = 18;
/// The maximum number of suspended requests. Beyond it, the oldest request of the caller with the
/// most requests is cancelled.
const MAX_PENDING_INPUTS: NonZeroUsize = NonZeroUsize::new(1_024).unwrap();
/// The maximum number of suspended requests of a caller. Beyond it, the caller's oldest request is
/// cancelled.
const MAX_PENDING_PER_OWNER: usize = 128;
/// The maximum size of a suspended request, in bytes. `limits.bufferedBytes` does not count it.
const MAX_PENDING_BYTES: usize = 256 << 10;
/// The maximum total size of all suspended requests, in bytes. Beyond it, the oldest requests of
/// the caller with the most bytes are cancelled.
const MAX_TOTAL_BYTES: usize = 64 << 20;
/// The maximum total size of the suspended requests of a caller, in bytes. Beyond it, the caller's
/// oldest requests are cancelled.
const MAX_BYTES_PER_OWNER: usize = 8 << 20;

/// The requests for input and the state in a stateless upstream's `input_required` result.
pub(super) struct InputRequest {
    /// The requests for input, each as its name and its raw JSON.
    pub(super) questions: Vec<(String, String)>,
    /// The upstream's `requestState`, as raw JSON. `None` if the result has none.
    pub(super) state: Option<String>,
}

impl InputRequest {
    /// Parses the upstream's response. Returns `None` if the response does not request input.
    pub(super) fn parse(answer: &[u8]) -> Option<Self> {
        // Most answers are not, and a substring search is cheaper than parsing a large answer.
        memchr::memmem::find(answer, b"input_required")?;
        let result = members(Head::read(answer)?.result?);
        let member =
            |name: &str| result.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
        if member("resultType").map(RawValue::get) != Some("\"input_required\"") {
            return None;
        }
        let questions = member("inputRequests").map(|questions| members(questions.get()));
        Some(Self {
            questions: questions
                .unwrap_or_default()
                .into_iter()
                .map(|(name, question)| (name, question.get().to_owned()))
                .collect(),
            state: member("requestState").map(|state| state.get().to_owned()),
        })
    }
}

/// A suspended request that waits for the client's answer to its upstream's request for input.
pub(super) struct PendingInput<R = InFlightRequest> {
    pub(super) request: R,
    /// The upstream's id of its request for input, as raw JSON.
    pub(super) question_id: String,
    principal: Arc<str>,
    /// The caller in whose share the request counts.
    owner: Arc<str>,
    bytes: usize,
    /// The time at which the request was suspended.
    pub(super) since: Instant,
}

/// All suspended requests, by their `requestState`. Their number and bytes are limited in total and
/// for each caller.
pub(super) struct InputRequests<R = InFlightRequest> {
    pending: Mutex<SessionTable<PendingInput<R>>>,
    /// The tag of this replica, which begins each `requestState`. Only this replica can resume the
    /// requests.
    tag: OwnerTag,
}

impl<R> InputRequests<R> {
    pub(super) fn new(tag: OwnerTag) -> Self {
        let pending = SessionTable::with_shares(MAX_PENDING_INPUTS, MAX_PENDING_PER_OWNER);
        Self { pending: Mutex::new(pending), tag }
    }

    fn lock(&self) -> MutexGuard<'_, SessionTable<PendingInput<R>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a request of `bytes` bytes may be suspended.
    pub(super) fn admits(bytes: usize) -> bool {
        bytes <= MAX_PENDING_BYTES
    }

    /// Suspends a request of a principal, of `bytes` bytes, in the share of the caller `owner`.
    /// Returns the `requestState` with which the client resumes the request. `None` if the
    /// operating system provides no random numbers. Cancels older requests if a limit is exceeded.
    /// O(suspended requests) for each cancelled request.
    pub(super) fn suspend(
        &self,
        principal: &Arc<str>,
        owner: &Arc<str>,
        request: R,
        bytes: usize,
        question_id: &str,
    ) -> Option<String> {
        let mut random = [0u8; STATE_BYTES];
        getrandom::fill(&mut random).ok()?;
        let (tag, random) = (self.tag.prefix(), URL_SAFE_NO_PAD.encode(random));
        let state = format!("{STATE_PREFIX}{tag}{random}");
        let pending = PendingInput {
            request,
            question_id: question_id.to_owned(),
            principal: Arc::clone(principal),
            owner: Arc::clone(owner),
            bytes,
            since: Instant::now(),
        };
        // Dropped after the lock is released: that cancels the requests at their upstreams.
        let mut evicted = Vec::new();
        let mut pending_requests = self.lock();
        evicted.extend(pending_requests.insert(owner, state.clone(), pending));
        while let Some(oldest) = oldest_in_excess(&pending_requests, &state) {
            evicted.extend(pending_requests.remove(&oldest));
        }
        drop(pending_requests);
        drop(evicted);
        Some(state)
    }

    /// Removes and returns the suspended request with this `requestState`. Returns `None` if the
    /// request belongs to another principal, so that clients cannot probe for states.
    pub(super) fn take(&self, principal: &Arc<str>, state: &str) -> Option<PendingInput<R>> {
        let mut pending = self.lock();
        let is_own = pending.get(state).is_some_and(|pending| pending.principal == *principal);
        if is_own { pending.remove(state) } else { None }
    }

    /// Cancels the suspended requests that their clients have not resumed within `max_idle`.
    pub(super) fn expire(&self, max_idle: Duration) {
        let mut pending = self.lock();
        let all = pending.iter();
        let expired: Vec<String> = all
            .filter(|(_, pending)| pending.since.elapsed() > max_idle)
            .map(|(state, _)| state.clone())
            .collect();
        for state in expired {
            pending.remove(&state);
        }
    }
}

/// The suspended requests of a caller, ordered by their bytes, then by the age of the oldest
/// request.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
struct CallerShare<'t> {
    bytes: usize,
    /// The oldest request except the newest of all callers: the number of later requests, and its
    /// `requestState`. `None` if the caller has only the newest.
    oldest: Option<(usize, &'t String)>,
}

/// Returns the `requestState` of the oldest suspended request of the caller with the most bytes, if
/// a limit of bytes is exceeded. Never returns `newest`. O(suspended requests).
fn oldest_in_excess<R>(pending: &SessionTable<PendingInput<R>>, newest: &str) -> Option<String> {
    let mut callers: HashMap<&Arc<str>, CallerShare<'_>> = HashMap::new();
    // The order is from the last suspended request to the first.
    for (later, (state, request)) in pending.iter().enumerate() {
        let share = callers.entry(&request.owner).or_default();
        share.bytes += request.bytes;
        if state != newest {
            share.oldest = Some((later, state));
        }
    }
    let total: usize = callers.values().map(|share| share.bytes).sum();
    let most = callers.values().map(|share| share.bytes).max()?;
    if most <= MAX_BYTES_PER_OWNER && total <= MAX_TOTAL_BYTES {
        return None;
    }
    let shares = callers.into_values().filter(|share| share.oldest.is_some());
    shares.max()?.oldest.map(|(_, state)| state.clone())
}

/// Returns the `requestState` in a request that resumes a request which the gateway has suspended.
/// `None` if an upstream created the state, or there is none.
pub(crate) fn resumed_state(head: &Head<'_>) -> Option<String> {
    let state = member(head.params?.get(), "requestState")?;
    let state: String = serde_json::from_str(state.get()).ok()?;
    state.starts_with(STATE_PREFIX).then_some(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_cancel_their_own_requests_only() {
        let requests = InputRequests::<usize>::new(OwnerTag::default());
        let [alice, bob]: [Arc<str>; 2] = ["alice".into(), "bob".into()];
        let of_alice = requests.suspend(&alice, &alice, 0, 100, "1").unwrap();
        let suspend = |at| requests.suspend(&bob, &bob, at, 100, "1").unwrap();
        let of_bob: Vec<String> = (0..2_000).map(suspend).collect();
        assert!(requests.take(&bob, &of_alice).is_none());
        assert_eq!(requests.take(&alice, &of_alice).unwrap().request, 0);
        let remaining = of_bob.iter().filter(|state| requests.take(&bob, state).is_some());
        assert_eq!(remaining.count(), MAX_PENDING_PER_OWNER);
    }

    #[test]
    fn bytes_are_limited_in_total_and_per_caller() {
        let requests = InputRequests::<usize>::new(OwnerTag::default());
        let suspend = |caller: &str, at: usize| {
            let caller: Arc<str> = caller.into();
            requests.suspend(&caller, &caller, at, MAX_PENDING_BYTES, "1").unwrap()
        };
        let of_alice = suspend("alice", 0);
        let of_bob: Vec<String> = (0..100).map(|at| suspend("bob", at)).collect();
        let bob: Arc<str> = "bob".into();
        let remaining: Vec<usize> =
            of_bob.iter().filter_map(|state| Some(requests.take(&bob, state)?.request)).collect();
        let share = MAX_BYTES_PER_OWNER / MAX_PENDING_BYTES;
        assert_eq!(remaining, Vec::from_iter(100 - share..100));
        for caller in 0..20 {
            (0..20).for_each(|at| drop(suspend(&format!("caller{caller}"), at)));
        }
        assert_eq!(requests.lock().len(), MAX_TOTAL_BYTES / MAX_PENDING_BYTES);
        assert!(requests.take(&"alice".into(), &of_alice).is_some());
    }

    #[test]
    fn oldest_request_is_cancelled_among_callers_with_equal_shares() {
        let requests = InputRequests::<usize>::new(OwnerTag::default());
        let caller = |at: usize| Arc::<str>::from(format!("caller{at}"));
        let suspend = |at: usize| {
            requests.suspend(&caller(at), &caller(at), at, MAX_PENDING_BYTES, "1").unwrap()
        };
        let max = MAX_TOTAL_BYTES / MAX_PENDING_BYTES;
        let states: Vec<String> = (0..max + 3).map(suspend).collect();
        let remains = |(at, state): (usize, &String)| requests.take(&caller(at), state).is_some();
        let remaining: Vec<bool> = states.iter().enumerate().map(remains).collect();
        assert_eq!(remaining, [vec![false; 3], vec![true; max]].concat());
    }

    #[test]
    fn expired_requests_are_cancelled() {
        let requests = InputRequests::<usize>::new(OwnerTag::default());
        let alice: Arc<str> = "alice".into();
        let state = requests.suspend(&alice, &alice, 0, 100, "1").unwrap();
        requests.expire(Duration::from_secs(60));
        assert_eq!(requests.lock().len(), 1);
        requests.expire(Duration::ZERO);
        assert!(requests.take(&alice, &state).is_none());
    }
}
