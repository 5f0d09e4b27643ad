//! Passes MCP messages through the guard. The input is a message, and the output is the message to
//! send. If the guard fails, the upstream's answer still reaches the client, within a byte limit.

#![forbid(unsafe_code)]

mod answer_cache;
pub mod cache;
mod call_metrics;
mod corrections;
mod decision_log;
mod estimate_sampler;
mod failover;
mod fallback;
mod holdback;
mod layer;
mod options;
mod output_validator;
mod purge;
mod shadow_mirror;
mod shared_cache;
mod stack;
mod store_fallback;
mod ticket;
mod traffic_recorder;

pub use layer::AnswerSource;
pub use options::FilterOptions;
pub use ticket::Ticket;

use std::sync::Arc;

use context_guard_config as config;
#[cfg(test)]
use context_guard_cursor_store::clock;
use context_guard_cursor_store::{Clock, StoreFaults};
use context_guard_engine::{
    self as engine, CallContext, Component, Decision, HostServices, SigningKey, StoredPart,
    StoredRange,
};
use context_guard_protocol::{Head, response};
use context_guard_revision::{self as revision, Result, Revision, Revisions, RolloutOptions};
use context_guard_telemetry::{recording, sampler};

use self::layer::{GuardCall, RequestOutput};
use self::stack::Stack;
use self::ticket::ResponseHandling;
use crate::cache::Cache;

/// Passes messages to the deployed revision of the guard, through a stack of layers such as cache,
/// failover and logging.
pub struct Filter {
    revisions: Arc<Revisions>,
    cache: Option<Arc<Cache>>,
    sampler: Option<Arc<sampler::Sampler>>,
    stack: Stack,
}

/// The filter's decision about a client's request.
#[derive(Clone, Debug)]
pub enum Request {
    /// The request is sent to the upstream: these bytes, or the original if `None`. The ticket is
    /// needed for [`Filter::response`].
    Forward(Option<Vec<u8>>, Ticket),
    /// This answer is sent to the client. The upstream is not called.
    Answer(Vec<u8>, Box<Decision>, AnswerSource),
}

impl Filter {
    /// Creates a filter for one component under a JSON policy. An empty `policy` selects the
    /// default policy. `keys` sign and verify cursors.
    ///
    /// # Errors
    /// [`revision::Error::Config`], [`revision::Error::Engine`].
    pub fn new(
        component: Arc<Component>,
        services: HostServices,
        policy: &str,
        keys: Vec<SigningKey>,
    ) -> Result<Self> {
        let options = RolloutOptions::default();
        let revisions = Revisions::new(component, services, policy, keys, options)?;
        Ok(Self::with_options(revisions.into(), FilterOptions::default()))
    }

    /// Creates a filter that uses the active and candidate revisions in `revisions`.
    #[must_use]
    pub fn with_options(revisions: Arc<Revisions>, options: FilterOptions) -> Self {
        let (cache, sampler) = (options.cache.clone(), options.sampler.clone());
        Self { stack: Stack::new(&revisions, options), revisions, cache, sampler }
    }

    /// Returns the revisions of the guard: the active one and those that can replace it.
    #[must_use]
    pub fn revisions(&self) -> &Arc<Revisions> {
        &self.revisions
    }

    /// Returns the cache of upstream answers. `None` if it is disabled.
    #[must_use]
    pub fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.as_ref()
    }

    /// Returns the sampler of token estimates. `None` if sampling is disabled.
    #[must_use]
    pub fn sampler(&self) -> Option<&Arc<sampler::Sampler>> {
        self.sampler.as_ref()
    }

    /// Returns true if a guard call may wait for a remote store. Such a call must not run on an
    /// async executor thread.
    #[must_use]
    pub fn may_block(&self) -> bool {
        self.revisions.services().store.may_block()
    }

    /// Returns true unless the store of snapshots is known to be unreachable.
    #[must_use]
    pub fn store_is_up(&self) -> bool {
        self.revisions.services().store.is_up()
    }

    /// Returns the numbers of faults of the store of snapshots, since it was opened.
    #[must_use]
    pub fn store_faults(&self) -> StoreFaults {
        self.revisions.services().store.faults()
    }

    /// Returns the number of guard calls that failed since the filter was created.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.stack.faults()
    }

    /// Passes a client's request, a whole JSON-RPC message, to the guard or the cache. Returns the
    /// decision to forward or answer it.
    #[must_use]
    pub fn request(&self, cx: &CallContext, message: &[u8]) -> Request {
        self.decide(cx, message, true)
    }

    /// Passes a client's request to the guard but not to the cache. REST uses it, because the cache
    /// does not store the HTTP headers of a response.
    pub fn request_uncached(&self, cx: &CallContext, message: &[u8]) -> Request {
        self.decide(cx, message, false)
    }

    fn decide(&self, cx: &CallContext, message: &[u8], may_use_cache: bool) -> Request {
        let revision = self.revisions.choose(cx);
        let call = GuardCall { may_use_cache, ..self.call(cx, &revision, message) };
        match self.stack.first().on_request(call) {
            Ok(RequestOutput::Forward { changed, ticket }) if ticket.wants_response() => {
                Request::Forward(changed, Ticket(ResponseHandling::Guard(Box::new(ticket))))
            }
            Ok(RequestOutput::Forward { changed, .. }) => {
                Request::Forward(changed, Ticket(ResponseHandling::Pass))
            }
            Ok(RequestOutput::Answer(answer, decision, source)) => {
                Request::Answer(answer, Box::new(decision), source)
            }
            // The failover has reported the faults.
            Err(fault) if failover::is_callers_deadline(message, &fault) => {
                let (answer, decision) = timed_out(message, revision.number);
                Request::Answer(answer, Box::new(decision), AnswerSource::Guard)
            }
            Err(_) => Request::Forward(None, Ticket(ResponseHandling::LimitBytes(revision))),
        }
    }

    /// Passes an upstream's response to the guard. Returns the message for the client, or `None` to
    /// send the response unchanged.
    #[must_use]
    pub fn response(&self, cx: &CallContext, ticket: &Ticket, message: &[u8]) -> Option<Vec<u8>> {
        self.response_with_decision(cx, ticket, message).0
    }

    /// Passes an upstream's response to the guard. Returns the message for the client, or `None` if
    /// the response is unchanged. Also returns the guard's decision, or `None` if the guard did not
    /// shape the response.
    #[must_use]
    pub fn response_with_decision(
        &self,
        cx: &CallContext,
        ticket: &Ticket,
        message: &[u8],
    ) -> (Option<Vec<u8>>, Option<Decision>) {
        let ticket = match &ticket.0 {
            ResponseHandling::Pass => return (None, None),
            ResponseHandling::LimitBytes(revision) => return (limited(revision, message), None),
            ResponseHandling::Guard(ticket) => ticket,
        };
        match self.stack.first().on_response(self.call(cx, &ticket.revision, message), ticket) {
            Ok(output) => (output.shaped, Some(output.decision)),
            Err(_) => (limited(&ticket.revision, message), None),
        }
    }

    /// Reads a part of the stored answer of a cursor, for a program of `cx.principal`.
    ///
    /// # Errors
    /// The reason, for the author of the program.
    pub fn read_stored(
        &self,
        cx: &CallContext,
        cursor: &str,
        range: StoredRange,
    ) -> Result<StoredPart, String> {
        let revision = self.revisions.choose(cx);
        let read = revision.read_stored(self.revisions.services(), cx, cursor, range);
        read.map_err(|error| match error {
            engine::Error::Fault(reason) => reason,
            error => error.to_string(),
        })
    }

    fn call<'a>(
        &'a self,
        cx: &'a CallContext,
        revision: &'a Arc<Revision>,
        message: &'a [u8],
    ) -> GuardCall<'a> {
        let services = self.revisions.services();
        GuardCall { cx, services, revision, message, may_use_cache: true }
    }

    /// Passes a notification of the upstream `upstream` to the cache, because it may invalidate
    /// cached answers.
    pub fn on_notification(&self, upstream: &str, notification: &Head<'_>) {
        if let Some(cache) = &self.cache {
            cache.on_notification(upstream, notification);
        }
    }
}

/// Returns the answer to a tool call whose query exceeded the deadline, and the decision about it.
fn timed_out(request: &[u8], revision: u64) -> (Vec<u8>, Decision) {
    let id = Head::read(request).map_or("null", |head| head.raw_id());
    let text = "[context-guard] The query took too long and was stopped. Ask for fewer things: fewer parts in where or aggregate, a simpler pattern, or a smaller answer.";
    let result = serde_json::json!({"content": [{"type": "text", "text": text}], "isError": true});
    let answer = response::result(id, &result.to_string());
    let decision = Decision {
        mode: "error".to_owned(),
        response_bytes: answer.len() as u64,
        revision: Some(revision),
        ..Decision::default()
    };
    (answer, decision)
}

/// Applies the byte limit of the revision's policy to a response that the guard failed to process.
/// `None` if the response can be sent unchanged.
fn limited(revision: &Revision, message: &[u8]) -> Option<Vec<u8>> {
    let (on_fault, limit) = revision.on_fault();
    fallback::limit(message, on_fault, limit)
}
