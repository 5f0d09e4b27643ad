//! Envoy's external processor: a stream of gRPC messages for each HTTP request.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use context_guard_grpc::ext_proc::external_processor_server::ExternalProcessor;
use context_guard_grpc::ext_proc::processing_request::Request as Part;
use context_guard_grpc::ext_proc::{ProcessingRequest, ProcessingResponse};
use context_guard_grpc::tonic::{Request, Response, Status, Streaming, async_trait};
use context_guard_protocol::Settings;
use futures_util::{Stream, TryStreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::body_memory::EnvoyBodyMemory;
use super::envoy_exchange::EnvoyExchange;
use super::messages::ExternalGuard;
use super::transfers::Transfers;
use crate::config::Timeouts;
use crate::fair_queue::Caller;
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
    timeouts: Arc<Timeouts>,
    /// The memory for the bodies of all exchanges.
    bodies: Arc<EnvoyBodyMemory>,
}

impl EnvoyProcessor {
    pub(crate) fn new(guard: Arc<ExternalGuard>, settings: Settings, timeouts: &Timeouts) -> Self {
        let bodies = EnvoyBodyMemory::for_bodies(settings.max_body.max(settings.max_buffered));
        Self { guard, settings, timeouts: Arc::new(timeouts.clone()), bodies }
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
            timeouts: Arc::clone(&self.timeouts),
            bodies: Arc::clone(&self.bodies),
            received: request.into_inner(),
            ready: VecDeque::new(),
            exchange: None,
            body_end: None,
            trace: HeaderMap::new(),
        };
        let responses = futures_util::stream::try_unfold(stream, ProcessorStream::next);
        Ok(Response::new(Box::pin(responses)))
    }
}

/// One stream of gRPC messages, for one HTTP request. `R` is the stream of Envoy's messages.
struct ProcessorStream<R> {
    guard: Arc<ExternalGuard>,
    /// The settings of the exchange. `None` after the first message has begun it.
    settings: Option<Settings>,
    timeouts: Arc<Timeouts>,
    bodies: Arc<EnvoyBodyMemory>,
    received: R,
    /// The messages to send to Envoy.
    ready: VecDeque<ProcessingResponse>,
    exchange: Option<EnvoyExchange>,
    /// The time at which the request body must be complete. `None` before it is collected.
    body_end: Option<Instant>,
    trace: HeaderMap,
}

/// The reason why an exchange does not wait for the next message of Envoy.
enum Interruption {
    /// The request body does not arrive within the time limits.
    TooSlow,
    /// Other bodies need the memory of the exchange.
    GivenUp,
}

impl<R> ProcessorStream<R>
where
    R: Stream<Item = Result<ProcessingRequest, Status>> + Unpin,
{
    async fn next(mut self) -> Result<Option<(ProcessingResponse, Self)>, Status> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Ok(Some((ready, self)));
            }
            let deadline = self.body_deadline();
            let given_up = self.exchange.as_ref().and_then(EnvoyExchange::given_up);
            let message = tokio::select! {
                biased;
                message = self.received.try_next() => message?,
                reason = interruption(deadline, given_up) => {
                    self.ready = self.interrupt(&reason)?.into();
                    continue;
                }
            };
            let Some(message) = message else { return Ok(None) };
            self.on_message(message).await?;
        }
    }

    /// Returns the time until which Envoy must send the next part of a request body. `None` if the
    /// guard waits for none. Responses have the time limits of Envoy's route.
    fn body_deadline(&mut self) -> Option<Instant> {
        self.exchange.as_ref().filter(|exchange| exchange.collects_request())?;
        let now = Instant::now();
        let end = *self.body_end.get_or_insert(now + self.timeouts.body());
        Some(end.min(now + self.timeouts.body_part()))
    }

    /// Ends the collection of a body. Returns the messages to send to Envoy.
    fn interrupt(&mut self, reason: &Interruption) -> Result<Vec<ProcessingResponse>, Status> {
        let Some(exchange) = &mut self.exchange else { return Ok(Vec::new()) };
        match reason {
            Interruption::TooSlow => Ok(exchange.refuse_slow_request(&self.timeouts)),
            Interruption::GivenUp => exchange.give_up().map_err(|reason| {
                warn!("Envoy's ext_proc: {reason}");
                Status::resource_exhausted(reason)
            }),
        }
    }

    /// Handles a message from Envoy.
    async fn on_message(&mut self, message: ProcessingRequest) -> Result<(), Status> {
        // Envoy ignores responses in its observability mode, and the guard changes nothing.
        let Some(part) = message.request.filter(|_| !message.observability_mode) else {
            return Ok(());
        };
        if let Some(settings) = self.settings.take() {
            let configuration = message.protocol_config.unwrap_or_default();
            let transfers = Transfers::read(&configuration).map_err(unsupported)?;
            let (guard, bodies) = (Arc::clone(&self.guard), Arc::clone(&self.bodies));
            self.exchange = Some(EnvoyExchange::new(guard, settings, transfers, bodies));
        }
        if let Part::RequestHeaders(head) = &part {
            self.trace = trace_headers(head);
        }
        self.ready = self.handle(part).await.map_err(unsupported)?.into();
        Ok(())
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

/// Waits until a body must no longer be collected: until `deadline`, or until it is given up.
async fn interruption(
    deadline: Option<Instant>,
    given_up: Option<CancellationToken>,
) -> Interruption {
    let passed = async {
        match deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    let cancelled = async {
        match given_up {
            Some(given_up) => given_up.cancelled().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = passed => Interruption::TooSlow,
        () = cancelled => Interruption::GivenUp,
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

#[cfg(test)]
mod tests {
    use super::*;

    use context_guard_grpc::ext_proc::ProtocolConfiguration;
    use context_guard_grpc::ext_proc::processing_mode::BodySendMode;
    use futures_util::{StreamExt as _, stream};

    use super::super::envoy_exchange::tests::{body, guard, immediate_status, request_head};

    #[tokio::test]
    async fn slow_request_bodies_are_refused() {
        let duplex = BodySendMode::FullDuplexStreamed.into();
        let first = ProcessingRequest {
            request: Some(request_head("a")),
            protocol_config: Some(ProtocolConfiguration {
                request_body_mode: duplex,
                response_body_mode: duplex,
                ..ProtocolConfiguration::default()
            }),
            ..ProcessingRequest::default()
        };
        let part = ProcessingRequest {
            request: Some(Part::RequestBody(body(b"{", false))),
            ..ProcessingRequest::default()
        };
        let received = stream::iter([Ok(first), Ok(part)]).chain(stream::pending());
        // The time of a part has passed as soon as no part is there.
        let timeouts = Timeouts { body_part_seconds: 0, ..Timeouts::default() };
        let stream = ProcessorStream {
            guard: guard(),
            settings: Some(Settings::default()),
            timeouts: Arc::new(timeouts),
            bodies: EnvoyBodyMemory::for_bodies(1_000),
            received,
            ready: VecDeque::new(),
            exchange: None,
            body_end: None,
            trace: HeaderMap::new(),
        };
        let (response, stream) = stream.next().await.unwrap().unwrap();
        assert_eq!(immediate_status(&[response]), Some(408));
        assert!(stream.body_end.is_some() && stream.ready.is_empty());
    }
}
