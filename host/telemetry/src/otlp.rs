//! Encodes spans, metrics and log events as OTLP protobuf messages.

mod messages;
mod metrics;

use std::time::Duration;

use prost::Message;

use self::messages::{
    Any, AnyValue, Link, LogRecord, LogsRequest, MetricsRequest, Resource, ResourceLogs,
    ResourceMetrics, ResourceSpans, Scope, ScopeLogs, ScopeMetrics, ScopeSpans, Span, Status,
    TracesRequest, attribute,
};
use crate::log_queue::LogEvent;
use crate::operation::FinishedSpan;
use crate::trace::TraceContext;

/// The attributes of the process in all exports, such as `service.name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessAttributes(pub Vec<(String, String)>);

impl ProcessAttributes {
    fn resource(&self) -> Option<Resource> {
        let attributes = self.0.iter().map(|(key, value)| attribute(key, value)).collect();
        Some(Resource { attributes })
    }
}

fn scope() -> Option<Scope> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Some(Scope { name: "context-guard".to_owned(), version })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Encodes spans as the body of `/v1/traces`.
#[must_use]
pub fn encode_spans(process: &ProcessAttributes, spans: &[FinishedSpan]) -> Vec<u8> {
    let ids = |context: &TraceContext| {
        (context.trace.to_be_bytes().to_vec(), context.span.to_be_bytes().to_vec())
    };
    let spans = spans.iter().map(|span| {
        let (trace_id, span_id) = ids(&span.context);
        let links = span.link.iter().map(|link| {
            let (trace_id, span_id) = ids(link);
            Link { trace_id, span_id, trace_state: link.state.clone() }
        });
        let [start, end] = span.times;
        Span {
            trace_id,
            span_id,
            trace_state: span.context.state.clone(),
            parent_span_id: span.parent.map(|id| id.to_be_bytes().to_vec()).unwrap_or_default(),
            name: span.name.clone(),
            kind: if span.is_client { 3 } else { 2 },
            start_time_unix_nano: nanos(start),
            end_time_unix_nano: nanos(end),
            attributes: span.attributes.iter().map(|(key, value)| attribute(key, value)).collect(),
            links: links.collect(),
            status: span.is_error.then_some(Status { code: 2 }),
            flags: u32::from(span.context.is_sampled),
        }
    });
    let scope_spans = vec![ScopeSpans { scope: scope(), spans: spans.collect() }];
    let resource_spans = vec![ResourceSpans { resource: process.resource(), scope_spans }];
    TracesRequest { resource_spans }.encode_to_vec()
}

/// Encodes metrics as the body of `/v1/metrics`. `text` contains the metrics in the text format of
/// Prometheus, as [`crate::Recorder::metrics_text`] returns it. `start` and `now` are times since
/// 1970.
#[must_use]
pub fn encode_metrics(
    process: &ProcessAttributes,
    text: &str,
    start: Duration,
    now: Duration,
) -> Vec<u8> {
    let metrics = metrics::parse(text, nanos(start), nanos(now));
    let scope_metrics = vec![ScopeMetrics { scope: scope(), metrics }];
    let resource_metrics = vec![ResourceMetrics { resource: process.resource(), scope_metrics }];
    MetricsRequest { resource_metrics }.encode_to_vec()
}

/// Encodes log events as the body of `/v1/logs`.
#[must_use]
pub fn encode_logs(process: &ProcessAttributes, events: &[LogEvent]) -> Vec<u8> {
    let records = events.iter().map(|event| {
        let severity_number = match event.severity {
            "ERROR" => 17,
            "WARN" => 13,
            "INFO" => 9,
            "DEBUG" => 5,
            _ => 1,
        };
        let mut record = LogRecord {
            time_unix_nano: nanos(event.at),
            severity_number,
            severity_text: event.severity.to_owned(),
            body: Some(AnyValue { value: Some(Any::String(event.message.clone())) }),
            ..LogRecord::default()
        };
        for (key, value) in &event.fields {
            let context = (*key == "traceparent").then(|| TraceContext::parse(value, "")).flatten();
            match context {
                Some(context) => {
                    record.trace_id = context.trace.to_be_bytes().to_vec();
                    record.span_id = context.span.to_be_bytes().to_vec();
                }
                None => record.attributes.push(attribute(key, value)),
            }
        }
        record
    });
    let scope_logs = vec![ScopeLogs { scope: scope(), log_records: records.collect() }];
    let resource_logs = vec![ResourceLogs { resource: process.resource(), scope_logs }];
    LogsRequest { resource_logs }.encode_to_vec()
}
