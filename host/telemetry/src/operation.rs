//! The operations of MCP in the form of the OpenTelemetry conventions: metrics and spans.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::conventions as names;
use crate::record::{AnswerEvent, AnswerKind, Outcome, TelemetryRecord};
use crate::trace::{RequestTrace, TraceContext, TraceSampler};

/// A span that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedSpan {
    /// The trace context with the ids of the span and its trace.
    pub context: TraceContext,
    /// The id of the parent span. `None` for a root span.
    pub parent: Option<u64>,
    /// The span of another trace to which this span belongs. `None` if there is none.
    pub link: Option<TraceContext>,
    /// True for a CLIENT span, false for a SERVER span.
    pub is_client: bool,
    /// The name of the span.
    pub name: String,
    /// The start and the end of the span, since 1970.
    pub times: [Duration; 2],
    /// The attributes of the span, as names and values.
    pub attributes: Vec<(&'static str, String)>,
    /// True if the operation failed.
    pub is_error: bool,
}

/// The destination of spans.
pub(crate) struct Tracing {
    pub(crate) sampler: TraceSampler,
    pub(crate) spans: SyncSender<FinishedSpan>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    mcp_method_name: &'static str,
    gen_ai_tool_name: Option<String>,
    gen_ai_operation_name: Option<&'static str>,
    network_transport: Option<&'static str>,
    error_type: Option<String>,
    context_guard_upstream: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    context_guard_upstream: String,
    side: &'static str,
}

/// The metrics of the conventions. All label values come from closed sets.
pub(crate) struct OperationMetrics {
    pub(crate) registry: Registry,
    server: Family<OperationLabels, Histogram>,
    client: Family<OperationLabels, Histogram>,
    tokens: Family<TokenLabels, Histogram>,
}

impl OperationMetrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let duration = || {
            Family::<OperationLabels, Histogram>::new_with_constructor(|| {
                Histogram::new(names::DURATION_BUCKETS)
            })
        };
        let (server, client) = (duration(), duration());
        let tokens = Family::<TokenLabels, Histogram>::new_with_constructor(|| {
            Histogram::new(names::TOKEN_BUCKETS)
        });
        let [(server_name, _), (client_name, _), (tokens_name, _)] = names::METRICS;
        registry.register_with_unit(
            server_name,
            "Time from a client's request to its answer",
            Unit::Seconds,
            server.clone(),
        );
        registry.register_with_unit(
            client_name,
            "Time from a request to an upstream to its answer",
            Unit::Seconds,
            client.clone(),
        );
        registry.register(
            tokens_name,
            "Estimated tokens of original and of sent answers to calls",
            tokens.clone(),
        );
        Self { registry, server, client, tokens }
    }
}

/// An answered request in the form of the conventions.
pub(crate) struct Operation<'a> {
    pub(crate) answered: &'a AnswerEvent<'a>,
    pub(crate) record: &'a TelemetryRecord,
    /// The name of the tool if its upstream has listed it, otherwise `_OTHER`. `None` if the
    /// request is not a tool call.
    pub(crate) tool: Option<&'a str>,
    /// The transport of clients: `tcp`, or `pipe` for standard input and output.
    pub(crate) transport: &'static str,
    /// The digest of the session id. Empty without a session.
    pub(crate) session: String,
}

impl Operation<'_> {
    fn error(&self) -> Option<String> {
        let trace = self.answered.trace;
        match (trace.and_then(RequestTrace::error_code), self.record.outcome) {
            (Some(code), _) => Some(code.to_string()),
            (None, Outcome::UpstreamError) => Some("_OTHER".to_owned()),
            (None, Outcome::Refused) => Some(names::TOOL_ERROR.to_owned()),
            _ if trace.is_some_and(RequestTrace::is_tool_error) => {
                Some(names::TOOL_ERROR.to_owned())
            }
            _ => None,
        }
    }

    fn labels(&self, transport: Option<&'static str>) -> OperationLabels {
        OperationLabels {
            mcp_method_name: self.answered.method,
            gen_ai_tool_name: self.tool.map(str::to_owned),
            gen_ai_operation_name: self.tool.map(|_| names::EXECUTE_TOOL),
            network_transport: transport,
            error_type: self.error(),
            context_guard_upstream: None,
        }
    }

    /// Counts the operation in the metrics. Ignores requests to JSON APIs, which are not MCP
    /// operations.
    #[allow(clippy::cast_precision_loss, reason = "tokens of one answer")]
    pub(crate) fn count(&self, metrics: &OperationMetrics) {
        if self.record.kind == AnswerKind::Call && self.record.original_tokens > 0 {
            for (side, tokens) in
                [("original", self.record.original_tokens), ("sent", self.record.estimated_tokens)]
            {
                let context_guard_upstream = self.record.upstream.clone();
                let labels = TokenLabels { context_guard_upstream, side };
                metrics.tokens.get_or_create(&labels).observe(tokens as f64);
            }
        }
        if self.answered.method.is_empty() {
            return;
        }
        if !self.answered.is_part {
            let labels = self.labels(Some(self.transport));
            metrics.server.get_or_create(&labels).observe(self.answered.latency.as_secs_f64());
        }
        let upstream = self.answered.trace.and_then(RequestTrace::upstream_times);
        if let Some([start, end]) = upstream {
            let context_guard_upstream = Some(self.record.upstream.clone());
            let labels = OperationLabels { context_guard_upstream, ..self.labels(None) };
            let seconds = end.saturating_sub(start).as_secs_f64();
            metrics.client.get_or_create(&labels).observe(seconds);
        }
    }

    /// Sends the spans of the operation to the queue. Returns the number of spans that were
    /// dropped, because the queue is full.
    pub(crate) fn trace(&self, tracing: &Tracing) -> u64 {
        let Some(trace) = self.answered.trace.filter(|trace| trace.server.is_sampled) else {
            return 0;
        };
        let method = match self.answered.method {
            "" => "tools/call",
            method => method,
        };
        let name = match self.tool.filter(|tool| *tool != "_OTHER") {
            Some(tool) => format!("{method} {tool}"),
            None => method.to_owned(),
        };
        let error = self.error();
        let mut shared = vec![(names::METHOD, method.to_owned())];
        let mut add = |key, value: Option<String>| {
            shared.extend(value.filter(|value| !value.is_empty()).map(|value| (key, value)));
        };
        add(names::TOOL, self.tool.map(str::to_owned));
        add(names::OPERATION, self.tool.map(|_| names::EXECUTE_TOOL.to_owned()));
        add(names::VERSION, Some(self.answered.cx.protocol_version.clone()));
        add(names::UPSTREAM, Some(self.record.upstream.clone()));
        add(names::ERROR, error.clone());
        add(names::STATUS_CODE, trace.error_code().map(|code| code.to_string()));
        let mut own = shared.clone();
        let number = |number: u64| Some(number).filter(|number| *number > 0);
        let own_values = [
            (names::SESSION, Some(self.session.clone())),
            (names::REQUEST_ID, Some(self.answered.json_rpc_id.trim_matches('"').to_owned())),
            (names::TRANSPORT, Some(self.transport.to_owned())),
            (names::OUTCOME, Some(self.record.outcome.name().to_owned())),
            (names::TOKENS_ORIGINAL, number(self.record.original_tokens).map(|n| n.to_string())),
            (names::TOKENS_SENT, number(self.record.estimated_tokens).map(|n| n.to_string())),
        ];
        for (key, value) in own_values {
            own.extend(value.filter(|value| !value.is_empty()).map(|value| (key, value)));
        }
        let is_part = self.answered.is_part;
        let server = (!is_part).then(|| FinishedSpan {
            context: trace.server.clone(),
            parent: trace.parent.as_ref().map(|parent| parent.span),
            link: trace.link.clone(),
            is_client: false,
            name: name.clone(),
            times: trace.times(),
            attributes: own,
            is_error: error.is_some(),
        });
        let client = trace.upstream_times().map(|times| FinishedSpan {
            context: trace.upstream_context(),
            parent: match is_part {
                true => trace.parent.as_ref().map(|parent| parent.span),
                false => Some(trace.server.span),
            },
            link: None,
            is_client: true,
            name,
            times,
            attributes: shared,
            is_error: error.is_some(),
        });
        let spans = client.into_iter().chain(server);
        spans.filter(|span| tracing.spans.try_send(span.clone()).is_err()).count() as u64
    }
}
