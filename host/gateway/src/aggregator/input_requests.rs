//! Upstreams' requests for input from the client, and the suspended requests that wait for it.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lru::LruCache;
use serde_json::value::RawValue;

use super::in_flight::InFlightRequest;
use crate::fleet::OwnerTag;
use crate::message::{Head, member, members};

/// The prefix of the `requestState` of requests that the gateway has suspended.
pub(crate) const STATE_PREFIX: &str = "cg-parked-";
/// The number of random bytes in a `requestState`. It is a credential, so it must be unguessable.
const STATE_BYTES: usize = 18;
/// The maximum number of suspended requests. If there are more, the oldest is cancelled.
const MAX_PENDING_INPUTS: NonZeroUsize = NonZeroUsize::new(1_024).unwrap();

/// The questions and the state in a stateless upstream's `input_required` result.
pub(super) struct InputRequest {
    /// The questions to the client, each with its name and the request as raw JSON.
    pub(super) questions: Vec<(String, String)>,
    /// The upstream's `requestState`, as raw JSON. `None` if it has none.
    pub(super) state: Option<String>,
}

impl InputRequest {
    /// Parses the upstream's response. Returns `None` if it does not ask for input.
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

/// A suspended request that waits for the client's answer to a question of its upstream.
pub(super) struct PendingInput {
    pub(super) request: InFlightRequest,
    /// The upstream's id of the question, as raw JSON.
    pub(super) question_id: String,
    principal: Arc<str>,
    since: Instant,
}

/// All suspended requests, by their `requestState`.
pub(super) struct InputRequests {
    pending: Mutex<LruCache<String, PendingInput>>,
    /// The tag of this replica, which alone can resume the requests.
    tag: OwnerTag,
}

impl InputRequests {
    pub(super) fn new(tag: OwnerTag) -> Self {
        Self { pending: Mutex::new(LruCache::new(MAX_PENDING_INPUTS)), tag }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<String, PendingInput>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Suspends a request of a principal. Returns the `requestState` with which the client resumes
    /// it, or `None` if the system has no random numbers.
    pub(super) fn suspend(
        &self,
        principal: &Arc<str>,
        request: InFlightRequest,
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
            since: Instant::now(),
        };
        self.lock().put(state.clone(), pending);
        Some(state)
    }

    /// Removes and returns the suspended request with this `requestState`. Returns `None` if it
    /// belongs to another principal, so that states cannot be probed.
    pub(super) fn take(&self, principal: &Arc<str>, state: &str) -> Option<PendingInput> {
        let mut pending = self.lock();
        let is_own = pending.peek(state).is_some_and(|pending| pending.principal == *principal);
        if is_own { pending.pop(state) } else { None }
    }

    /// Cancels the suspended requests that no client resumed within `max_idle`.
    pub(super) fn expire(&self, max_idle: Duration) {
        let mut pending = self.lock();
        while pending.peek_lru().is_some_and(|(_, oldest)| oldest.since.elapsed() > max_idle) {
            pending.pop_lru();
        }
    }
}

/// Returns the `requestState` in a request that resumes one suspended by the gateway. `None` if an
/// upstream created the state.
pub(crate) fn resumed_state(head: &Head<'_>) -> Option<String> {
    let state = member(head.params?.get(), "requestState")?;
    let state: String = serde_json::from_str(state.get()).ok()?;
    state.starts_with(STATE_PREFIX).then_some(state)
}
