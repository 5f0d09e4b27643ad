//! The guard as the host uses it: a message in, a message out. No fault of the guard loses an
//! answer.

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
mod shadow_mirror;
mod stack;
mod store_fallback;
mod ticket;
mod traffic_recorder;

pub use options::FilterOptions;
pub use ticket::Ticket;

use std::sync::Arc;

use context_guard_config as config;
use context_guard_cursor_store::Clock;
#[cfg(test)]
use context_guard_cursor_store::clock;
use context_guard_engine::{
    self as engine, CallContext, Component, Decision, HostServices, SigningKey,
};
use context_guard_protocol::Head;
use context_guard_revision::{self as revision, Result, Revision, Revisions, RolloutOptions};
use context_guard_telemetry::{recording, sampler};

use self::layer::{GuardCall, RequestOutput};
use self::stack::Stack;
use self::ticket::ResponseHandling;
use crate::cache::Cache;

/// The guard in its deployed revision, behind a stack of layers.
pub struct Filter {
    revisions: Arc<Revisions>,
    cache: Option<Arc<Cache>>,
    stack: Stack,
}

/// The decision about a request.
#[derive(Clone, Debug)]
pub enum Request {
    /// The request is sent to the upstream, with other bytes if there are any.
    Forward(Option<Vec<u8>>, Ticket),
    /// The request is answered here.
    Answer(Vec<u8>, Box<Decision>),
}

impl Filter {
    /// Creates a filter for one component under a JSON policy. An empty text is the default
    /// policy.
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

    /// Creates a filter for these revisions.
    #[must_use]
    pub fn with_options(revisions: Arc<Revisions>, options: FilterOptions) -> Self {
        let cache = options.cache.clone();
        Self { stack: Stack::new(&revisions, options), revisions, cache }
    }

    /// The revisions of the guard.
    #[must_use]
    pub fn revisions(&self) -> &Arc<Revisions> {
        &self.revisions
    }

    /// The cache of answers.
    #[must_use]
    pub fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.as_ref()
    }

    /// Returns true if a call may wait for a remote store. Such a call must not block other tasks.
    #[must_use]
    pub fn may_block(&self) -> bool {
        self.revisions.services().store.may_block()
    }

    /// Returns true if the store is reachable, as far as is known.
    #[must_use]
    pub fn store_is_up(&self) -> bool {
        self.revisions.services().store.is_up()
    }

    /// The number of guard calls that failed.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.stack.faults()
    }

    /// Handles a request, a whole JSON-RPC message.
    #[must_use]
    pub fn request(&self, cx: &CallContext, message: &[u8]) -> Request {
        self.decide(cx, message, true)
    }

    /// Handles a request whose answer must not come from the cache, because it has its own
    /// headers.
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
            Ok(RequestOutput::Answer(answer, decision)) => {
                Request::Answer(answer, Box::new(decision))
            }
            // The failover has reported the fault.
            Err(_) => Request::Forward(None, Ticket(ResponseHandling::LimitBytes(revision))),
        }
    }

    /// Handles the response to a request. `None` sends it unchanged.
    #[must_use]
    pub fn response(&self, cx: &CallContext, ticket: &Ticket, message: &[u8]) -> Option<Vec<u8>> {
        self.response_with_decision(cx, ticket, message).0
    }

    /// Handles a response and returns the decision of the guard, if it made one.
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

    fn call<'a>(
        &'a self,
        cx: &'a CallContext,
        revision: &'a Arc<Revision>,
        message: &'a [u8],
    ) -> GuardCall<'a> {
        let services = self.revisions.services();
        GuardCall { cx, services, revision, message, may_use_cache: true }
    }

    /// Handles a notification of an upstream, which may make cached answers invalid.
    pub fn on_notification(&self, upstream: &str, notification: &Head<'_>) {
        if let Some(cache) = &self.cache {
            cache.on_notification(upstream, notification);
        }
    }
}

/// Applies the byte limit of a revision to a response that the guard failed on.
fn limited(revision: &Revision, message: &[u8]) -> Option<Vec<u8>> {
    let (on_fault, limit) = revision.on_fault();
    fallback::limit(message, on_fault, limit)
}
