//! The guard as the rest of the host sees it: messages in, messages out, and no way for a fault to lose one.

mod corrections;
mod ticket;
mod validate;

pub use ticket::Ticket;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use self::ticket::{Guarded, Way};
use self::validate::{is_answer, same_request};
use crate::cache::{Cache, Hit, Key};
use crate::engine::{
    CacheTier, CallContext, Component, Decision, LossClass, Outcome, RequestVerdict,
    ResponseVerdict, SigningKey, Surroundings,
};
use crate::generation::{Generation, Generations, RolloutOptions, Sent, share_of};
use crate::message::{Head, with_id};
use crate::recording::Recording;
use crate::sampler::Sampler;
use crate::{Error, Result, fallback};

/// The longest request that is kept until its response, for another generation to do it again.
const LONGEST_AGAIN: usize = 1 << 20;

/// The guard, in whatever generation serves, with keys, a store and a clock.
pub struct Filter {
    generations: Arc<Generations>,
    sampler: Option<(Arc<Sampler>, bool)>,
    cache: Option<Arc<Cache>>,
    recording: Option<Recording>,
    faults: AtomicU64,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Request {
    /// It is sent on, with other bytes if there are any.
    Forward(Option<Vec<u8>>, Ticket),
    /// It is not: this is the answer.
    Answer(Vec<u8>, Box<Decision>),
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
        let options = RolloutOptions::default();
        Ok(Self::of(Generations::new(component, surroundings, policy, keys, options)?.into()))
    }

    /// A filter of these generations.
    #[must_use]
    pub fn of(generations: Arc<Generations>) -> Self {
        Self { generations, sampler: None, cache: None, recording: None, faults: AtomicU64::new(0) }
    }

    /// The same, with estimates checked. `learn`: what the sampler finds corrects the estimates of each endpoint for which policy sets no scale itself.
    #[must_use]
    pub fn with_sampler(self, sampler: Option<Arc<Sampler>>, learn: bool) -> Self {
        Self { sampler: sampler.map(|sampler| (sampler, learn)), ..self }
    }

    /// The same, with answers of read-only tools kept.
    #[must_use]
    pub fn with_cache(self, cache: Option<Arc<Cache>>) -> Self {
        Self { cache, ..self }
    }

    /// The same, with traffic recorded for dry runs.
    #[must_use]
    pub fn with_recording(self, recording: Option<Recording>) -> Self {
        Self { recording, ..self }
    }

    /// What serves, and what did.
    #[must_use]
    pub fn generations(&self) -> &Arc<Generations> {
        &self.generations
    }

    /// What is kept of answers.
    #[must_use]
    pub fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.as_ref()
    }

    /// Whether a call may wait for a store elsewhere: then it is not made where others would wait too.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.generations.surroundings().store.waits()
    }

    /// Whether the store can be reached, as far as is known.
    #[must_use]
    pub fn store_is_up(&self) -> bool {
        self.generations.surroundings().store.is_up()
    }

    /// How often the guard has failed.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    /// Looks at a request, a whole JSON-RPC message.
    #[must_use]
    pub fn request(&self, cx: &CallContext, message: &[u8]) -> Request {
        self.request_with(cx, message, self.cache.as_ref())
    }

    /// Decides about a request whose answer must not come from the cache: it has headers of its own.
    pub(crate) fn request_uncached(&self, cx: &CallContext, message: &[u8]) -> Request {
        self.request_with(cx, message, None)
    }

    fn request_with(
        &self,
        cx: &CallContext,
        message: &[u8],
        cache: Option<&Arc<Cache>>,
    ) -> Request {
        let key = |generation: &Generation, request: &[u8]| {
            cache?.key(cx, &generation.origin.policy, request)
        };
        let generation = self.generations.choose(cx);
        let (generation, verdict) = match self.ask(&generation, cx, message) {
            Ok(verdict) => (generation, verdict),
            Err(fault) => {
                self.fault(cx, "request", &generation, &fault);
                let again = self.generations.instead_of(&generation).filter(|_| is_own(&fault));
                let again = again.and_then(|other| {
                    Some((Arc::clone(&other), self.ask(&other, cx, message).ok()?))
                });
                match again {
                    Some(again) => again,
                    None => return Request::Forward(None, Ticket(Way::Limit(generation))),
                }
            }
        };
        match verdict {
            RequestVerdict::Forward(forward) => {
                let changed = changed(forward.message);
                if forward.ticket.is_empty() {
                    return Request::Forward(changed, Ticket(Way::Pass));
                }
                let sent = changed.as_deref().unwrap_or(message);
                let key = key(&generation, sent);
                if let Some(answer) = key
                    .as_ref()
                    .and_then(|key| self.kept(&generation, cx, &forward.ticket, key, message))
                {
                    return answer;
                }
                let guarded = Guarded {
                    request: self.keeps_request(&generation, message),
                    generation,
                    bytes: forward.ticket,
                    key,
                };
                Request::Forward(changed, Ticket(Way::Guard(Box::new(guarded))))
            }
            RequestVerdict::Answer(answer) => {
                let mut decision = self.done(cx, &generation, answer.decision, &answer.message);
                // The same call in another rendition: its snapshot is the copy that is kept.
                if let (Some(cache), Some(key)) = (cache, key(&generation, message))
                    && cache.is_of(&key, &decision)
                {
                    decision.cache = Some(CacheTier::of_answer(&decision));
                }
                Request::Answer(answer.message, Box::new(decision))
            }
        }
    }

    /// The request, where its answer may have to be shaped more than once.
    fn keeps_request(&self, generation: &Generation, message: &[u8]) -> Option<Arc<[u8]>> {
        let current = self.generations.current();
        let again = current.trial.is_some()
            || current.standby.is_some()
            || current.active.number != generation.number;
        let wanted = (again && message.len() <= LONGEST_AGAIN) || self.recording.is_some();
        wanted.then(|| message.into())
    }

    /// The answer to a call whose answer is kept, and young enough.
    fn kept(
        &self,
        generation: &Arc<Generation>,
        cx: &CallContext,
        ticket: &[u8],
        key: &Key,
        request: &[u8],
    ) -> Option<Request> {
        let cache = self.cache.as_ref()?;
        let hit: Hit = cache.get(key)?;
        let id = Head::read(request)?.raw_id().to_owned();
        let message = with_id(&hit.message, &id);
        let verdict = self.tell(generation, cx, ticket, &message).ok()?;
        let tier = cache.serves(&hit, &verdict.decision);
        tier?;
        let shaped = changed(verdict.message).unwrap_or(message);
        let mut decision = self.done(cx, generation, verdict.decision, &shaped);
        decision.cache = tier;
        Some(Request::Answer(shaped, Box::new(decision)))
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
        let guarded = match &ticket.0 {
            Way::Pass => return (None, None),
            Way::Limit(generation) => return (limited(generation, message), None),
            Way::Guard(guarded) => guarded,
        };
        let mut by = Arc::clone(&guarded.generation);
        let verdict = self.tell(&by, cx, &guarded.bytes, message).or_else(|fault| {
            self.fault(cx, "response", &by, &fault);
            let (other, verdict) = self.again(guarded, cx, message, &fault).ok_or(fault)?;
            by = other;
            Ok::<_, Error>(verdict)
        });
        let Ok(verdict) = verdict else { return (limited(&by, message), None) };
        let shaped = changed(verdict.message);
        let decision = self.done(cx, &by, verdict.decision, shaped.as_deref().unwrap_or(message));
        if let (Some(cache), Some(key)) = (&self.cache, &guarded.key) {
            cache.put(key, &decision, message);
        }
        self.show(guarded, cx, message, &decision, shaped.as_deref());
        let unshaped = self.generations.options().unshaped;
        if unshaped > 0 && share_of(cx, 0) < unshaped {
            return (None, Some(Decision { unshaped: true, ..decision }));
        }
        (shaped, Some(decision))
    }

    /// Has the generation that is known to be sound do a call again that another has failed on.
    fn again(
        &self,
        guarded: &Guarded,
        cx: &CallContext,
        message: &[u8],
        fault: &Error,
    ) -> Option<(Arc<Generation>, ResponseVerdict)> {
        let request = guarded.request.as_ref().filter(|_| is_own(fault))?;
        let other = self.generations.instead_of(&guarded.generation)?;
        let RequestVerdict::Forward(forward) = self.ask(&other, cx, request).ok()? else {
            return None;
        };
        let verdict = self.tell(&other, cx, &forward.ticket, message).ok()?;
        Some((other, verdict))
    }

    /// Shows an answer to those that look on.
    fn show(
        &self,
        guarded: &Guarded,
        cx: &CallContext,
        message: &[u8],
        decision: &Decision,
        shaped: Option<&[u8]>,
    ) {
        let Some(request) = &guarded.request else { return };
        if let Some(recording) = &self.recording {
            recording.offer(cx, request, message, decision);
        }
        let current = self.generations.current();
        if let Some(shadow) = current.trial.as_ref().and_then(|trial| trial.shadow.as_ref()) {
            shadow.offer(Sent {
                cx: cx.clone(),
                request: Arc::clone(request),
                response: message.to_vec(),
                decision: decision.clone(),
                shaped: shaped.map(<[u8]>::to_vec),
            });
        }
    }

    /// An upstream has said something of its own accord: what is kept may be old.
    pub(crate) fn on_notification(&self, upstream: &str, notification: &Head<'_>) {
        if let Some(cache) = &self.cache {
            cache.changed(upstream, notification);
        }
    }

    /// Has a generation look at a request, and looks at what it says.
    fn ask(
        &self,
        generation: &Generation,
        cx: &CallContext,
        message: &[u8],
    ) -> Result<RequestVerdict> {
        self.counted(generation, || {
            let surroundings = self.generations.surroundings();
            let verdict = generation.request(surroundings, cx, message).or_else(|fault| {
                let (surroundings, cx) = without_store(surroundings, cx, &fault).ok_or(fault)?;
                generation.request(&surroundings, &cx, message)
            })?;
            let sound = match &verdict {
                RequestVerdict::Forward(forward) => match &forward.message {
                    Outcome::Unchanged => true,
                    Outcome::Shaped(changed) => same_request(message, changed),
                },
                RequestVerdict::Answer(answer) => is_answer(message, &answer.message),
            };
            if sound { Ok(verdict) } else { Err(garbage()) }
        })
    }

    /// Has a generation look at a response, and looks at what it says.
    fn tell(
        &self,
        generation: &Generation,
        cx: &CallContext,
        ticket: &[u8],
        message: &[u8],
    ) -> Result<ResponseVerdict> {
        self.counted(generation, || {
            let surroundings = self.generations.surroundings();
            let verdict =
                generation.response(surroundings, cx, ticket, message).or_else(|fault| {
                    let (surroundings, cx) =
                        without_store(surroundings, cx, &fault).ok_or(fault)?;
                    generation.response(&surroundings, &cx, ticket, message)
                })?;
            let sound = match &verdict.message {
                Outcome::Unchanged => true,
                Outcome::Shaped(shaped) => is_answer(message, shaped),
            };
            if sound { Ok(verdict) } else { Err(garbage()) }
        })
    }

    fn counted<T>(&self, generation: &Generation, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let since = Instant::now();
        let ended = call();
        let failed = ended.as_ref().is_err_and(is_own);
        let span = Duration::from_secs(self.generations.options().limits.window_seconds);
        generation.numbers.called(since.elapsed(), failed, span);
        ended
    }

    /// What is done once an answer is there.
    fn done(
        &self,
        cx: &CallContext,
        generation: &Arc<Generation>,
        mut decision: Decision,
        message: &[u8],
    ) -> Decision {
        generation.numbers.answered(&decision);
        decision.revision = Some(generation.number);
        log(cx, &decision);
        if let Some((sampler, learn)) = &self.sampler {
            sampler.offer(&decision, message);
            if *learn {
                self.learn(generation, sampler);
            }
        }
        decision
    }

    /// Takes over what the sampler has learnt.
    fn learn(&self, generation: &Generation, sampler: &Sampler) {
        let Some(corrections) = sampler.moved() else { return };
        let Some(policy) = corrections::corrected(&generation.policy, &corrections) else { return };
        match generation.correct(self.generations.surroundings(), &policy) {
            Ok(()) => info!(?corrections, "Estimates are corrected by what was counted."),
            Err(error) => warn!("Estimates could not be corrected: {error}"),
        }
    }

    fn fault(&self, cx: &CallContext, on: &str, generation: &Generation, fault: &Error) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        error!(
            request = cx.request_id,
            upstream = cx.upstream,
            generation = generation.number,
            "On a {on}: {fault}."
        );
        if is_own(fault) {
            self.generations.failed(generation);
        }
    }
}

/// Whether a fault is the component's own, and not the message's or the store's.
fn is_own(fault: &Error) -> bool {
    matches!(fault, Error::Trap(_))
}

fn garbage() -> Error {
    Error::Trap("what it gave is no message, or none to this request".to_owned())
}

/// The same call where the store has failed: what can be kept here is kept here, and the guard is told.
fn without_store(
    surroundings: &Surroundings,
    cx: &CallContext,
    fault: &Error,
) -> Option<(Surroundings, CallContext)> {
    let Error::Store(_) = fault else { return None };
    let store = surroundings.store.instead().unwrap_or_else(|| Arc::clone(&surroundings.store));
    let cx = CallContext { store_unavailable: true, ..cx.clone() };
    Some((Surroundings { store, clock: Arc::clone(&surroundings.clock) }, cx))
}

/// What is sent of a response that the guard failed on.
fn limited(generation: &Generation, message: &[u8]) -> Option<Vec<u8>> {
    let (on_fault, limit) = generation.on_fault();
    fallback::limit(message, on_fault, limit)
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
