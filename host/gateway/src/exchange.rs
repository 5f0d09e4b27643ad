//! One client request and its response, as all parts of the gateway use it: stdio, the single
//! upstream, the aggregator and REST.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::engine::{CallContext, Decision};
use crate::filter::{AnswerSource, Filter, Request, Ticket};
use crate::message::{Head, member};
use crate::telemetry::{
    AnswerEvent, Outcome, Recorder, RequestKind, RequestTrace, TraceContext, TraceSampler,
    method_label,
};
use crate::trace_context;
use crate::upstream::Failure;
use context_guard_protocol::answer::{is_valid_json, quote};
use context_guard_protocol::response::FailedRequest;
use memchr::memmem;

/// The JSON-RPC error code of an internal error.
const INTERNAL_ERROR: i64 = -32603;

/// A client's request, with the state that is needed until its answer is recorded.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    /// The caller as the guard sees it: principal, session, client and upstream.
    pub(crate) context: CallContext,
    /// The JSON-RPC method, or the endpoint of a REST request.
    pub(crate) endpoint: String,
    kind: RequestKind,
    /// The maximum time until the upstream's next message. `None` if the transport has its own
    /// limit.
    pub(crate) timeout: Option<Duration>,
    started: Instant,
    /// The ticket by which the guard or the filter processes the response. `None` before the
    /// request is processed.
    ticket: Option<Ticket>,
    /// The data for an error response. `None` if the exchange is not of a JSON-RPC request.
    failed: Option<FailedRequest>,
    /// True if the guard answered with a part of an answer that it stored before.
    is_read: bool,
    /// The label of the MCP method; empty for a request to a JSON API.
    method: &'static str,
    trace: Arc<RequestTrace>,
    /// True if requests to upstreams carry the context of the trace.
    is_traced: bool,
    /// True if the gateway sends this request as a part of serving a client's request.
    is_part: bool,
    /// The id of the request that runs the program that makes this call. Empty for other requests.
    pub(crate) parent: String,
    /// The estimated tokens of the answer after it was counted. `None` unless the answer passes
    /// whole to a program.
    counted: Option<Arc<AtomicU64>>,
    /// The estimated tokens of results that a program read and kept out of its answer.
    pub(crate) kept_out: u64,
    /// Receives the failure of the upstream. `None` unless the gateway itself needs its kind.
    failure: Option<Arc<OnceLock<Failure>>>,
}

/// The next step for a client's request that the guard has processed.
pub(crate) enum NextStep {
    /// Sends the request to the upstream: these bytes if given, else the original.
    Forward(Option<Vec<u8>>),
    /// Sends this answer to the client, without calling the upstream.
    Answer(Vec<u8>, Box<Decision>),
}

/// An upstream's response after the guard has processed it.
pub(crate) struct GuardedResponse {
    /// The message for the client. `None` sends the upstream's response unchanged.
    pub(crate) shaped: Option<Vec<u8>>,
    pub(crate) decision: Option<Decision>,
    pub(crate) outcome: Outcome,
}

impl Exchange {
    /// Creates the exchange of a request to a JSON API. Starts a trace if `recorder` traces
    /// requests.
    pub(crate) fn new(
        context: CallContext,
        endpoint: impl Into<String>,
        recorder: Option<&Recorder>,
    ) -> Self {
        Self::begin(context, endpoint.into(), recorder, None)
    }

    fn begin(
        context: CallContext,
        endpoint: String,
        recorder: Option<&Recorder>,
        head: Option<&Head<'_>>,
    ) -> Self {
        let started = Instant::now();
        let sampler = recorder.and_then(Recorder::trace_sampler);
        // Without a sampler, the trace has times only.
        let trace = match sampler {
            Some(sampler) => {
                let in_message = head.and_then(trace_context::in_message);
                RequestTrace::begin(sampler, in_message, trace_context::in_headers())
            }
            None => RequestTrace::begin(TraceSampler::NEVER, None, None),
        };
        Self {
            context,
            endpoint,
            kind: RequestKind::Http,
            timeout: None,
            started,
            ticket: None,
            failed: None,
            is_read: false,
            method: "",
            trace: Arc::new(trace),
            is_traced: sampler.is_some(),
            is_part: false,
            parent: String::new(),
            counted: None,
            kept_out: 0,
            failure: None,
        }
    }

    /// Creates the exchange of a JSON-RPC request. It is recorded under the tool, prompt or
    /// resource that the request names, else under its method.
    pub(crate) fn of_request(
        context: CallContext,
        head: Option<&Head<'_>>,
        recorder: Option<&Recorder>,
    ) -> Self {
        let method = head.map_or("", Head::method);
        let named = head
            .filter(|_| matches!(method, "tools/call" | "prompts/get" | "resources/read"))
            .and_then(Head::subject);
        let endpoint = match named {
            Some(name) if context.upstream.is_empty() => name.into_owned(),
            Some(name) => format!("{}::{name}", context.upstream),
            None => method.to_owned(),
        };
        let failed = head.map(|head| FailedRequest::new(head, &context.protocol_version));
        let kind = RequestKind::of_method(method);
        let method = method_label(method);
        Self { kind, failed, method, ..Self::begin(context, endpoint, recorder, head) }
    }

    /// Makes this a call of a program: its answer is counted, and passes whole. Returns the counter
    /// of the answer's tokens.
    pub(crate) fn count_only(&mut self) -> Arc<AtomicU64> {
        let counted = Arc::<AtomicU64>::default();
        self.counted = Some(Arc::clone(&counted));
        self.context.only_count = true;
        counted
    }

    /// Returns a cell that [`Self::note_failure`] fills.
    pub(crate) fn watch_failure(&mut self) -> Arc<OnceLock<Failure>> {
        Arc::clone(self.failure.get_or_insert_default())
    }

    /// Stores the failure of the upstream for [`Self::watch_failure`].
    pub(crate) fn note_failure(&self, failure: &Failure) {
        if let Some(cell) = &self.failure {
            let _ = cell.set(failure.clone());
        }
    }

    /// Returns the error that replaces an answer for a program if the guard failed on it, because
    /// such an answer may be cut. `None` if the guard did not fail.
    pub(crate) fn refuse_damaged(&self, guarded: &GuardedResponse) -> Option<Vec<u8>> {
        if self.counted.is_none() || guarded.outcome != Outcome::Fault {
            return None;
        }
        let reason = "the guard could not read the result of this tool";
        Some(self.failed.as_ref()?.response(INTERNAL_ERROR, reason))
    }

    /// Returns the approximate memory of the exchange while its answer is pending, in bytes.
    pub(crate) fn retained_bytes(&self) -> usize {
        let context = &self.context;
        let names = [
            &context.principal,
            &context.session,
            &context.request_id,
            &context.upstream,
            &context.protocol_version,
            &self.endpoint,
            &self.parent,
        ];
        let options = [&context.client_name, &context.lists_tools, &context.catalog_version];
        let options: usize = options.into_iter().flatten().map(String::len).sum();
        let ticket = self.ticket.as_ref().map_or(0, Ticket::retained_bytes);
        let names: usize = names.iter().map(|name| name.len()).sum();
        size_of::<Self>() + names + options + self.id().len() + ticket
    }

    /// Returns the client's id of the request, as raw JSON. `null` if it is not a JSON-RPC request.
    pub(crate) fn id(&self) -> &str {
        self.failed.as_ref().map_or("null", FailedRequest::id)
    }

    /// Returns the error response that reports a failure of the upstream to the client. `None` if
    /// the exchange is not of a JSON-RPC request.
    pub(crate) fn fail(&self, failure: &Failure) -> Option<Vec<u8>> {
        Some(self.failed.as_ref()?.response(failure.code(), &failure.to_string()))
    }

    /// Passes the client's request to the filter, which may answer from the cache. Stores the
    /// ticket for the response.
    pub(crate) fn on_request(&mut self, filter: &Filter, message: &[u8]) -> NextStep {
        let decision = filter.request(&self.context, message);
        match self.next_step(decision) {
            NextStep::Forward(changed) if self.is_traced => {
                let sent = changed.as_deref().unwrap_or(message);
                let context = self.trace.upstream_context();
                NextStep::Forward(trace_context::inject(sent, &context).or(changed))
            }
            next => next,
        }
    }

    /// Passes the client's request to the filter without its cache.
    pub(crate) fn on_request_uncached(&mut self, filter: &Filter, message: &[u8]) -> NextStep {
        let decision = filter.request_uncached(&self.context, message);
        self.next_step(decision)
    }

    fn next_step(&mut self, decision: Request) -> NextStep {
        match decision {
            Request::Answer(answer, decision, source) => {
                self.is_read = source == AnswerSource::Guard;
                NextStep::Answer(answer, decision)
            }
            Request::Forward(changed, ticket) => {
                self.ticket = Some(ticket);
                self.trace.upstream_called();
                NextStep::Forward(changed)
            }
        }
    }

    /// Records that the request has its permit at the upstream. The upstream's latency begins now.
    pub(crate) fn upstream_admitted(&self) {
        self.trace.upstream_admitted();
    }

    /// Records that the request waits for input of the client, without a permit at the upstream.
    pub(crate) fn upstream_suspended(&self) {
        self.trace.upstream_suspended();
    }

    /// Writes to the audit log that values of stored answers replaced references in the request.
    pub(crate) fn audit_references(&self, recorder: &Recorder) {
        let sources = self.ticket.as_ref().map_or(&[][..], Ticket::references);
        recorder.referenced(&self.context.principal, &self.endpoint, sources);
    }

    /// Passes the upstream's response through the filter. Returns the message for the client, with
    /// the guard's decision. A message that is not valid JSON is replaced by an error.
    pub(crate) fn on_response(&self, filter: &Filter, message: &[u8]) -> GuardedResponse {
        self.note_answer(message);
        self.checked(self.shape(filter, message), message)
    }

    /// Returns the estimated tokens of a response, without shaping it. 0 if the guard fails.
    pub(crate) fn estimate(&self, filter: &Filter, message: &[u8]) -> u64 {
        let Some(ticket) = &self.ticket else { return 0 };
        let context = CallContext { only_count: true, ..self.context.clone() };
        let (_, decision) = filter.response_with_decision(&context, ticket, message);
        decision.map_or(0, |decision| decision.original_tokens)
    }

    /// Returns the response to a handshake, which the guard does not process.
    pub(crate) fn on_handshake(&self, message: &[u8]) -> GuardedResponse {
        self.note_answer(message);
        let passed = GuardedResponse { shaped: None, decision: None, outcome: Outcome::Passed };
        self.checked(passed, message)
    }

    /// Replaces a message that is not valid JSON by an error.
    fn checked(&self, mut guarded: GuardedResponse, message: &[u8]) -> GuardedResponse {
        if self.failed.is_some() && guarded.shaped.is_none() && !is_valid_json(message) {
            let text = String::from_utf8_lossy(message);
            let reason = format!("is not valid JSON: {}", quote(&text));
            let failure = Failure::invalid_answer(&self.context.upstream, &reason);
            guarded.shaped = self.fail(&failure);
            guarded.outcome = Outcome::UpstreamError;
        }
        guarded
    }

    /// Records the end of the upstream call, and the error in the answer, if any.
    fn note_answer(&self, message: &[u8]) {
        let find = |text: &str| memmem::find(message, text.as_bytes()).is_some();
        let may_be_tool_error = self.kind == RequestKind::Tool && may_have_tool_error(message);
        // Most answers have neither, and are not parsed.
        let head = match may_be_tool_error || find("\"error\"") {
            true => Head::read(message),
            false => None,
        };
        let code = head.as_ref().and_then(|head| member(head.error?.get(), "code"));
        let code = code.and_then(|code| code.get().parse().ok());
        let result = head.and_then(|head| head.result).filter(|_| may_be_tool_error);
        let is_error = result.and_then(|result| member(result, "isError"));
        self.trace.upstream_answered(is_error.is_some_and(|value| value.get() == "true"), code);
    }

    fn shape(&self, filter: &Filter, message: &[u8]) -> GuardedResponse {
        let Some(ticket) = &self.ticket else {
            return GuardedResponse { shaped: None, decision: None, outcome: Outcome::Passed };
        };
        let (shaped, decision) = filter.response_with_decision(&self.context, ticket, message);
        if let (Some(counted), Some(decision)) = (&self.counted, &decision) {
            counted.store(decision.original_tokens, Ordering::Relaxed);
        }
        let outcome = Outcome::of_answer(!ticket.is_pass(), decision.as_ref());
        GuardedResponse { shaped, decision, outcome }
    }

    /// Records the answer that the client receives, of `bytes` bytes. `decision` is `None` if the
    /// guard did not shape it.
    pub(crate) fn record(
        &self,
        recorder: &Recorder,
        decision: Option<&Decision>,
        bytes: usize,
        outcome: Outcome,
    ) {
        recorder.answered(&self.event(decision, bytes, outcome));
    }

    /// Records the answer to a request that is not a call, as spans and metrics without a traffic
    /// record.
    pub(crate) fn record_operation(&self, recorder: &Recorder, answer: &[u8]) {
        self.note_answer(answer);
        recorder.operated(&self.event(None, answer.len(), Outcome::Passed));
    }

    fn event<'e>(
        &'e self,
        decision: Option<&'e Decision>,
        bytes: usize,
        outcome: Outcome,
    ) -> AnswerEvent<'e> {
        AnswerEvent {
            cx: &self.context,
            endpoint: &self.endpoint,
            kind: self.kind,
            method: self.method,
            json_rpc_id: self.failed.as_ref().map_or("", FailedRequest::id),
            is_part: self.is_part,
            parent: &self.parent,
            kept_out: self.kept_out,
            trace: Some(&self.trace),
            is_read: self.is_read,
            decision,
            latency: self.started.elapsed(),
            bytes,
            outcome,
        }
    }

    /// Returns true if the request is not a call, for example a request for a list.
    pub(crate) fn is_no_call(&self) -> bool {
        self.kind == RequestKind::Other
    }

    /// Returns the exchange of a request that the gateway sends as a part of serving a client's
    /// request. The client request's span, which the current task knows, is its parent.
    pub(crate) fn into_part(self, recorder: &Recorder) -> Self {
        let Some(sampler) = recorder.trace_sampler() else { return Self { is_part: true, ..self } };
        let trace = RequestTrace::begin(sampler, trace_context::in_headers(), None);
        Self { is_part: true, trace: Arc::new(trace), ..self }
    }

    /// Returns the context of the client's request.
    pub(crate) fn trace_context(&self) -> TraceContext {
        self.trace.server.clone()
    }
}

/// Returns true if an answer contains the member `isError` with the value true, at any depth.
fn may_have_tool_error(message: &[u8]) -> bool {
    const NAME: &[u8] = b"\"isError\"";
    memmem::find_iter(message, NAME).any(|at| {
        let rest = message.get(at + NAME.len()..).unwrap_or_default().trim_ascii_start();
        let value = rest.strip_prefix(b":").unwrap_or_default().trim_ascii_start();
        value.starts_with(b"true")
    })
}
