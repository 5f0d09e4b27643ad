//! Requests of upstreams for input from the client, and the requests that wait for it.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lru::LruCache;
use serde_json::value::RawValue;

use super::in_flight::InFlightRequest;
use crate::message::{Head, member, members};

/// The prefix of `requestState` for a request that waits at the gateway.
const STATE_PREFIX: &str = "cg-parked-";
/// The number of random bytes in a state. The state is a credential, so it must be unguessable.
const STATE_BYTES: usize = 18;
/// The maximum number of requests that wait. Beyond, the oldest is dropped and so cancelled.
const MAX_PENDING_INPUTS: NonZeroUsize = NonZeroUsize::new(1_024).unwrap();

/// An `input_required` result of a stateless upstream.
pub(super) struct InputRequest {
    /// Names and requests (raw JSON).
    pub(super) questions: Vec<(String, String)>,
    /// `requestState`, as raw JSON.
    pub(super) state: Option<String>,
}

impl InputRequest {
    /// Parses an answer. Returns `None` if it is a complete result.
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

/// A request that waits for the client's answer to a question of its upstream.
pub(super) struct PendingInput {
    pub(super) request: InFlightRequest,
    /// The id of the question, as raw JSON.
    pub(super) question_id: String,
    principal: Arc<str>,
    since: Instant,
}

/// All requests that wait for input, by their state.
pub(super) struct InputRequests(Mutex<LruCache<String, PendingInput>>);

impl InputRequests {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LruCache::new(MAX_PENDING_INPUTS)))
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<String, PendingInput>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Suspends a request. Returns the state that resumes it.
    pub(super) fn suspend(
        &self,
        principal: &Arc<str>,
        request: InFlightRequest,
        question_id: &str,
    ) -> Option<String> {
        let mut random = [0u8; STATE_BYTES];
        getrandom::fill(&mut random).ok()?;
        let state = format!("{STATE_PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
        let pending = PendingInput {
            request,
            question_id: question_id.to_owned(),
            principal: Arc::clone(principal),
            since: Instant::now(),
        };
        self.lock().put(state.clone(), pending);
        Some(state)
    }

    /// Takes the request with this state if it belongs to the principal. The state of another
    /// principal is reported as missing, so that states cannot be probed.
    pub(super) fn take(&self, principal: &Arc<str>, state: &str) -> Option<PendingInput> {
        let mut pending = self.lock();
        let is_own = pending.peek(state).is_some_and(|pending| pending.principal == *principal);
        if is_own { pending.pop(state) } else { None }
    }

    /// Drops requests whose client did not answer in time.
    pub(super) fn expire(&self, max_idle: Duration) {
        let mut pending = self.lock();
        while pending.peek_lru().is_some_and(|(_, oldest)| oldest.since.elapsed() > max_idle) {
            pending.pop_lru();
        }
    }
}

/// Returns the state that a request resumes, if it is one of the gateway's.
pub(super) fn resumed_state(head: &Head<'_>) -> Option<String> {
    let state = member(head.params?.get(), "requestState")?;
    let state: String = serde_json::from_str(state.get()).ok()?;
    state.starts_with(STATE_PREFIX).then_some(state)
}
