//! A shadow revision shapes copies of upstreams' answers without sending them to clients. The
//! differences from the sent answers are reported.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::Revision;
use crate::Result;
use crate::engine::{CallContext, Decision, HostServices, Outcome, RequestVerdict};
use crate::store::{CursorStore, StoreError};

/// The maximum number of answers in the queue of the shadow revision. Further answers are skipped,
/// so that it never delays a request.
const MAX_QUEUED: usize = 32;
/// The maximum number of endpoints in the report of a shadow comparison.
const MAX_ENDPOINTS: usize = 1_000;

/// An exchange that the active revision served, queued to be shaped again by the shadow revision.
pub struct ShadowExchange {
    /// The context of the call.
    pub cx: CallContext,
    /// The client's request as the guard received it.
    pub request: Arc<[u8]>,
    /// The answer of the upstream.
    pub response: Vec<u8>,
    /// The decision of the active revision.
    pub decision: Decision,
    /// The answer that the active revision sent. `None` if it sent the upstream's answer unchanged.
    pub shaped: Option<Vec<u8>>,
}

#[derive(Clone, Debug, Default)]
struct Compared {
    answers: u64,
    same: u64,
    faults: u64,
    active_tokens: u64,
    candidate_tokens: u64,
    /// The maximum number of estimated tokens by which a shadow answer exceeded the active one.
    worst: i64,
}

/// A running comparison of a shadow revision with the active one.
pub struct Shadow {
    queue: SyncSender<ShadowExchange>,
    compared: Arc<Mutex<BTreeMap<String, Compared>>>,
}

impl Shadow {
    /// Starts the thread that shapes copies of answers with `revision`. The thread ends when the
    /// shadow is dropped.
    pub(super) fn start(revision: Arc<Revision>, services: &HostServices) -> Result<Arc<Self>> {
        let (queue, sent) = sync_channel(MAX_QUEUED);
        let compared = Arc::new(Mutex::new(BTreeMap::new()));
        let shared = Arc::clone(&compared);
        let store = Arc::new(ReadOnly(Arc::clone(&services.store)));
        let services = HostServices { store, clock: Arc::clone(&services.clock) };
        std::thread::Builder::new()
            .name("shadow".to_owned())
            .spawn(move || compare(&revision, &services, &sent, &shared))?;
        Ok(Arc::new(Self { queue, compared }))
    }

    /// Queues an exchange for comparison. If the queue is full, the exchange is skipped.
    pub fn offer(&self, sent: ShadowExchange) {
        let _ = self.queue.try_send(sent);
    }

    pub(super) fn report(&self) -> Value {
        let compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        let endpoints = compared.iter().map(|(endpoint, one)| {
            json!({
                "endpoint": endpoint, "answers": one.answers, "same": one.same, "faults": one.faults,
                "activeTokens": one.active_tokens, "candidateTokens": one.candidate_tokens,
                "worstGrowth": one.worst,
            })
        });
        endpoints.collect()
    }
}

fn compare(
    revision: &Revision,
    services: &HostServices,
    sent: &Receiver<ShadowExchange>,
    compared: &Mutex<BTreeMap<String, Compared>>,
) {
    while let Ok(sent) = sent.recv() {
        let other = shape(revision, services, &sent);
        let mut compared = compared.lock().unwrap_or_else(PoisonError::into_inner);
        let endpoint = &sent.decision.endpoint;
        if compared.len() >= MAX_ENDPOINTS && !compared.contains_key(endpoint) {
            continue;
        }
        let one = compared.entry(endpoint.clone()).or_default();
        one.answers += 1;
        one.active_tokens += sent.decision.estimated_tokens;
        match other {
            Some((decision, shaped)) => {
                let (active, candidate) =
                    (sent.decision.estimated_tokens, decision.estimated_tokens);
                one.candidate_tokens += candidate;
                one.worst =
                    one.worst.max(candidate.cast_signed().saturating_sub(active.cast_signed()));
                let alike = decision.mode == sent.decision.mode
                    && decision.loss == sent.decision.loss
                    && candidate == active
                    && shaped.as_ref().map(Vec::len) == sent.shaped.as_ref().map(Vec::len);
                one.same += u64::from(alike);
            }
            None => one.faults += 1,
        }
    }
}

/// Shapes an answer with the shadow revision. Returns the decision, and the shaped answer or `None`
/// if the upstream's answer is unchanged. Returns `None` as a whole if the revision fails, or
/// answers the request itself.
fn shape(
    revision: &Revision,
    services: &HostServices,
    sent: &ShadowExchange,
) -> Option<(Decision, Option<Vec<u8>>)> {
    let RequestVerdict::Forward(forward) =
        revision.request(services, &sent.cx, &sent.request).ok()?
    else {
        return None;
    };
    if forward.ticket.is_empty() {
        let tokens = sent.decision.original_tokens;
        let decision = Decision { estimated_tokens: tokens, ..sent.decision.clone() };
        return Some((decision, None));
    }
    let verdict = revision.response(services, &sent.cx, &forward.ticket, &sent.response).ok()?;
    let shaped = match verdict.message {
        Outcome::Unchanged => None,
        Outcome::Shaped(message) => Some(message),
    };
    Some((verdict.decision, shaped))
}

/// A store that ignores writes, for the shadow revision. No client receives its cursors.
struct ReadOnly(Arc<dyn CursorStore>);

impl CursorStore for ReadOnly {
    fn get(&self, principal: &str, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.0.get(principal, keys)
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
}
