//! The guard as the rest of the host sees it: messages in, messages out, and no way for a fault to lose one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Value, json};

use tracing::{error, info, warn};

use crate::engine::{
    CallContext, CompiledPolicy, Component, Decision, LossClass, OnFault, Outcome, RequestVerdict,
    Settings, SigningKey, Surroundings,
};
use crate::sampler::Sampler;
use crate::{Result, fallback};

/// A guard component under a policy, with keys, a store and a clock.
pub struct Filter {
    component: Arc<Component>,
    surroundings: Surroundings,
    /// The policy as it was given.
    policy: String,
    settings: RwLock<Arc<Settings>>,
    sampler: Option<(Arc<Sampler>, bool)>,
    on_fault: OnFault,
    hard_byte_limit: usize,
    faults: AtomicU64,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// It is sent on, with other bytes if there are any.
    Forward(Option<Vec<u8>>, Ticket),
    /// It is not: this is the answer.
    Answer(Vec<u8>, Box<Decision>),
}

/// What is done with the response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// Nothing.
    Pass,
    /// The guard looks at it.
    Guard(Vec<u8>),
    /// The byte limit decides, because the guard failed on the request.
    Limit,
}

impl Filter {
    /// Compiles a policy, written as JSON (an empty text is the default policy), and puts everything together.
    ///
    /// # Errors
    /// [`crate::Error::Policy`], [`crate::Error::Trap`].
    pub fn new(
        component: Arc<Component>,
        surroundings: Surroundings,
        policy: &str,
        keys: Vec<SigningKey>,
    ) -> Result<Self> {
        let CompiledPolicy { resolved, on_fault, hard_byte_limit, warnings, .. } =
            component.compile_policy(&surroundings, policy)?;
        for issue in warnings {
            warn!(path = issue.path, "{}", issue.reason);
        }
        Ok(Self {
            component,
            surroundings,
            policy: policy.to_owned(),
            settings: RwLock::new(Arc::new(Settings { policy: resolved, keys })),
            sampler: None,
            on_fault,
            hard_byte_limit: usize::try_from(hard_byte_limit).unwrap_or(usize::MAX),
            faults: AtomicU64::new(0),
        })
    }

    /// The same, with estimates checked. `learn`: what the sampler finds corrects the estimates of each endpoint for which policy sets no scale itself.
    #[must_use]
    pub fn with_sampler(self, sampler: Option<Arc<Sampler>>, learn: bool) -> Self {
        Self { sampler: sampler.map(|sampler| (sampler, learn)), ..self }
    }

    fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Shows an answer as it is sent to the sampler, and takes over what it has learnt.
    fn sample(&self, decision: &Decision, message: &[u8]) {
        let Some((sampler, learn)) = &self.sampler else { return };
        sampler.offer(decision, message);
        if let Some(corrections) = learn.then(|| sampler.moved()).flatten()
            && let Some(policy) = corrected(&self.policy, &corrections)
        {
            match self.component.compile_policy(&self.surroundings, &policy) {
                Ok(compiled) => {
                    let keys = self.settings().keys.clone();
                    let settings = Settings { policy: compiled.resolved, keys };
                    *self.settings.write().unwrap_or_else(PoisonError::into_inner) =
                        Arc::new(settings);
                    info!(?corrections, "Estimates are corrected by what was counted.");
                }
                Err(error) => warn!("Estimates could not be corrected: {error}"),
            }
        }
    }

    /// How often the guard has failed.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    /// Looks at a request, a whole JSON-RPC message.
    #[must_use]
    pub fn request(&self, cx: &CallContext, message: &[u8]) -> Request {
        match self.component.on_request(&self.surroundings, &self.settings(), cx, message) {
            Ok(RequestVerdict::Forward(forward)) => {
                let ticket = if forward.ticket.is_empty() {
                    Ticket::Pass
                } else {
                    Ticket::Guard(forward.ticket)
                };
                Request::Forward(changed(forward.message), ticket)
            }
            Ok(RequestVerdict::Answer(answer)) => {
                log(cx, &answer.decision);
                self.sample(&answer.decision, &answer.message);
                Request::Answer(answer.message, Box::new(answer.decision))
            }
            Err(fault) => {
                self.fault(cx, "request", &fault);
                Request::Forward(None, Ticket::Limit)
            }
        }
    }

    /// Looks at the response to a request. None: it is sent as it came.
    #[must_use]
    pub fn response(&self, cx: &CallContext, ticket: &Ticket, message: &[u8]) -> Option<Vec<u8>> {
        self.response_with_decision(cx, ticket, message).0
    }

    /// The same, with what was done, where the guard did it.
    #[must_use]
    pub fn response_with_decision(
        &self,
        cx: &CallContext,
        ticket: &Ticket,
        message: &[u8],
    ) -> (Option<Vec<u8>>, Option<Decision>) {
        let ticket = match ticket {
            Ticket::Pass => return (None, None),
            Ticket::Limit => {
                return (fallback::limit(message, self.on_fault, self.hard_byte_limit), None);
            }
            Ticket::Guard(ticket) => ticket,
        };
        match self.component.on_response(&self.surroundings, &self.settings(), cx, ticket, message)
        {
            Ok(verdict) => {
                log(cx, &verdict.decision);
                let shaped = changed(verdict.message);
                self.sample(&verdict.decision, shaped.as_deref().unwrap_or(message));
                (shaped, Some(verdict.decision))
            }
            Err(fault) => {
                self.fault(cx, "response", &fault);
                (fallback::limit(message, self.on_fault, self.hard_byte_limit), None)
            }
        }
    }

    fn fault(&self, cx: &CallContext, on: &str, fault: &crate::Error) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        error!(
            request = cx.request_id,
            upstream = cx.upstream,
            "On a {on}: {fault}. The byte limit of {} decides instead.",
            self.hard_byte_limit
        );
    }
}

/// The policy with a scale for each endpoint whose estimates are off; none where nothing would change. Where an operator has set a scale, it stays.
fn corrected(policy: &str, corrections: &BTreeMap<String, f64>) -> Option<String> {
    let mut document: Value =
        if policy.trim().is_empty() { json!({}) } else { serde_json::from_str(policy).ok()? };
    let has_scale = |settings: &Value| settings.pointer("/estimator/scale").is_some();
    let rules = document.get("endpoints").and_then(Value::as_array).cloned().unwrap_or_default();
    if has_scale(&document) || rules.iter().any(has_scale) {
        return None;
    }
    let learnt = corrections
        .iter()
        .filter(|(name, _)| !name.contains(['*', '?']))
        .map(|(name, scale)| json!({"match": name, "estimator": {"scale": scale}}));
    let rules: Vec<Value> = rules.into_iter().chain(learnt).collect();
    document.as_object_mut()?.insert("endpoints".to_owned(), rules.into());
    Some(document.to_string())
}

fn changed(outcome: Outcome) -> Option<Vec<u8>> {
    match outcome {
        Outcome::Unchanged => None,
        Outcome::Shaped(message) => Some(message),
    }
}

fn log(cx: &CallContext, decision: &Decision) {
    if decision.loss == LossClass::None && decision.mode == "full" {
        return;
    }
    info!(
        request = cx.request_id,
        endpoint = decision.endpoint,
        mode = decision.mode,
        original_tokens = decision.original_tokens,
        tokens = decision.estimated_tokens,
        original_bytes = decision.original_bytes,
        bytes = decision.response_bytes,
        "Shaped an answer."
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrections_are_rules_and_leave_an_operators_scale_alone() {
        let learnt: BTreeMap<String, f64> = [("files::read".to_owned(), 1.2)].into();
        let policy =
            corrected(r#"{"endpoints":[{"match":"files::*","hardCap":9000}]}"#, &learnt).unwrap();
        let policy: Value = serde_json::from_str(&policy).unwrap();
        assert_eq!(
            policy["endpoints"][1],
            json!({"match": "files::read", "estimator": {"scale": 1.2}})
        );
        assert_eq!(corrected(r#"{"estimator":{"scale":1.3}}"#, &learnt), None);
        assert_eq!(
            corrected(r#"{"endpoints":[{"match":"*","estimator":{"scale":1.3}}]}"#, &learnt),
            None
        );
    }
}
