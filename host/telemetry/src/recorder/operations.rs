//! Records requests as operations of the OpenTelemetry conventions.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};

use context_guard_history::OTHER;

use super::Recorder;
use crate::history_event::session_digest;
use crate::operation::{FinishedSpan, Operation, Tracing};
use crate::record::{AnswerEvent, AnswerKind, OptimizationMetadata, RequestKind, TelemetryRecord};
use crate::trace::TraceSampler;

/// The maximum number of spans in the queue of the export.
const MAX_SPANS: usize = 4_096;

impl Recorder {
    /// Counts a request in the metrics, and sends its spans.
    pub(super) fn count_operation(&self, answered: &AnswerEvent<'_>, record: &TelemetryRecord) {
        let named = record.endpoint.split_once("::").filter(|(_, name)| !name.contains("://"));
        let is_tool = matches!(answered.kind, RequestKind::Tool | RequestKind::Http);
        let tool = named.map(|(_, name)| name).filter(|_| is_tool).map(|name| {
            match self.tools.contains(&record.upstream, name) {
                true => self.metrics.tool_label(name),
                false => OTHER,
            }
        });
        self.metrics.answered(record, tool.unwrap_or_default());
        let tool = match answered.kind {
            RequestKind::Tool => tool.or(Some(OTHER)),
            _ => None,
        };
        self.operation(answered, record, tool);
    }

    /// Records that clients use standard input and output, for the attribute `network.transport`.
    pub fn set_uses_pipe(&self) {
        self.uses_pipe.store(true, Ordering::Relaxed);
    }

    /// Counts a client's request that is not a call and has no record, such as a request for a
    /// merged list.
    pub fn operated(&self, answered: &AnswerEvent<'_>) {
        let record = TelemetryRecord {
            request_id: answered.cx.request_id.clone(),
            endpoint: answered.endpoint.to_owned(),
            timestamp: self.now_ms(),
            estimated_tokens: 0,
            response_bytes: answered.bytes as u64,
            item_count: None,
            latency_ms: u64::try_from(answered.latency.as_millis()).unwrap_or(u64::MAX),
            pagination_used: false,
            summarization_used: false,
            chunking_used: false,
            optimization_metadata: OptimizationMetadata::default(),
            original_tokens: 0,
            original_bytes: 0,
            mode: String::new(),
            outcome: answered.outcome,
            principal: String::new(),
            upstream: String::new(),
            kind: AnswerKind::for_endpoint(false, answered.endpoint),
            revision: 0,
            cache: String::new(),
            tier: None,
            parent: String::new(),
            tokens_kept_out: 0,
            upstream_us: None,
            is_tool_failure: false,
        };
        self.operation(answered, &record, None);
    }

    /// Counts an operation, and sends its spans.
    fn operation(&self, answered: &AnswerEvent<'_>, record: &TelemetryRecord, tool: Option<&str>) {
        let transport = if self.uses_pipe.load(Ordering::Relaxed) { "pipe" } else { "tcp" };
        let session = session_digest(&answered.cx.session);
        let operation = Operation { answered, record, tool, transport, session };
        operation.count(&self.metrics.operations);
        if let Some(tracing) = self.tracing.get() {
            self.metrics.otlp_dropped(operation.trace(tracing));
        }
    }

    /// Starts to send the spans of traces that `sampler` selects to a queue. Returns the receiver
    /// of the queue. `None` if spans are already sent.
    pub fn trace_requests(&self, sampler: TraceSampler) -> Option<Receiver<FinishedSpan>> {
        let (spans, receiver) = sync_channel(MAX_SPANS);
        self.tracing.set(Tracing { sampler, spans }).ok().map(|()| receiver)
    }

    /// Returns the sampling rule of traces. `None` if no spans are sent.
    #[must_use]
    pub fn trace_sampler(&self) -> Option<TraceSampler> {
        self.tracing.get().map(|tracing| tracing.sampler)
    }
}
