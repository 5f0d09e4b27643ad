//! Envoy's external processor: a stream of gRPC messages for each HTTP request.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use context_guard_grpc::ext_proc::external_processor_server::ExternalProcessor;
use context_guard_grpc::ext_proc::processing_request::Request as Part;
use context_guard_grpc::ext_proc::{ProcessingRequest, ProcessingResponse};
use context_guard_grpc::tonic::{Request, Response, Status, Streaming, async_trait};
use context_guard_protocol::Settings;
use futures_util::Stream;
use http::{HeaderMap, HeaderName, HeaderValue};
use tracing::warn;

use super::collected_body::body_memory;
use super::envoy_exchange::EnvoyExchange;
use super::messages::ExternalGuard;
use super::transfers::Transfers;
use crate::fair_queue::Caller;
use crate::memory_shares::MemoryShares;
use crate::tasks::run_blocking;
use crate::trace_context;

/// The gRPC metadata with which an Envoy route sets the name of the upstream for policy rules.
const UPSTREAM: &str = "x-context-guard-upstream";
/// The request headers that contain the trace context.
const TRACE_HEADERS: [&str; 2] = ["traceparent", "tracestate"];

/// The gRPC service `ExternalProcessor` (Envoy `ext_proc`), which passes MCP messages to the guard.
pub(crate) struct EnvoyProcessor {
    guard: Arc<ExternalGuard>,
    settings: Settings,
    /// The memory for the bodies of all exchanges.
    bodies: Arc<MemoryShares>,
}

impl EnvoyProcessor {
    pub(crate) fn new(guard: Arc<ExternalGuard>, settings: Settings) -> Self {
        let bodies = body_memory(settings.max_body.max(settings.max_buffered));
        Self { guard, settings, bodies }
    }
}

#[async_trait]
impl ExternalProcessor for EnvoyProcessor {
    type ProcessStream =
        Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send + 'static>>;

    async fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Self::ProcessStream>, Status> {
        let mut settings = self.settings.clone();
        if let Some(upstream) = request.metadata().get(UPSTREAM) {
            let upstream = upstream.to_str();
            upstream.unwrap_or_default().clone_into(&mut settings.upstream);
        }
        let stream = ProcessorStream {
            guard: Arc::clone(&self.guard),
            settings: Some(settings),
            bodies: Arc::clone(&self.bodies),
            received: request.into_inner(),
            ready: VecDeque::new(),
            exchange: None,
            trace: HeaderMap::new(),
        };
        let responses = futures_util::stream::try_unfold(stream, ProcessorStream::next);
        Ok(Response::new(Box::pin(responses)))
    }
}

/// One stream of gRPC messages, for one HTTP request.
struct ProcessorStream {
    guard: Arc<ExternalGuard>,
    /// The settings of the exchange. `None` after the first message has begun it.
    settings: Option<Settings>,
    bodies: Arc<MemoryShares>,
    received: Streaming<ProcessingRequest>,
    /// The messages to send to Envoy.
    ready: VecDeque<ProcessingResponse>,
    exchange: Option<EnvoyExchange>,
    trace: HeaderMap,
}

impl ProcessorStream {
    async fn next(mut self) -> Result<Option<(ProcessingResponse, Self)>, Status> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Ok(Some((ready, self)));
            }
            let Some(message) = self.received.message().await? else { return Ok(None) };
            // Envoy ignores responses in its observability mode, and the guard changes nothing.
            let Some(part) = message.request.filter(|_| !message.observability_mode) else {
                continue;
            };
            if let Some(settings) = self.settings.take() {
                let configuration = message.protocol_config.unwrap_or_default();
                let transfers = Transfers::read(&configuration).map_err(unsupported)?;
                let (guard, bodies) = (Arc::clone(&self.guard), Arc::clone(&self.bodies));
                let exchange = EnvoyExchange::new(guard, settings, transfers, bodies);
                self.exchange = Some(exchange);
            }
            if let Part::RequestHeaders(head) = &part {
                self.trace = trace_headers(head);
            }
            self.ready = self.handle(part).await.map_err(unsupported)?.into();
        }
    }

    async fn handle(&mut self, part: Part) -> Result<Vec<ProcessingResponse>, &'static str> {
        let Some(exchange) = &mut self.exchange else { return Ok(Vec::new()) };
        let caller = exchange.caller().map(|caller| {
            let (principal, session) = (&caller.principal, &caller.session);
            Caller { principal: principal.as_str().into(), session: session.as_str().into() }
        });
        let filter = Arc::clone(&self.guard.filter);
        let work = async {
            match caller.zip(exchange.guard_input(&part)) {
                None => exchange.handle(part),
                Some((caller, input)) => {
                    run_blocking(&filter, &caller, input, || exchange.handle(part.clone())).await
                }
            }
        };
        trace_context::with_headers(&self.trace, work).await
    }
}

/// Returns the status that ends a stream. Logs the reason, because Envoy does not.
fn unsupported(reason: &'static str) -> Status {
    warn!("Envoy's ext_proc: {reason}");
    Status::failed_precondition(reason)
}

fn trace_headers(head: &context_guard_grpc::ext_proc::HttpHeaders) -> HeaderMap {
    let named = TRACE_HEADERS.into_iter().filter_map(|name| {
        let value = super::envoy_exchange::header(head, name)?;
        Some((HeaderName::from_static(name), HeaderValue::from_str(&value).ok()?))
    });
    named.collect()
}
