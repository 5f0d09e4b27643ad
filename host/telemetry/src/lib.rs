//! Records requests: log events, Prometheus metrics, a queryable ring in memory and an audit log.
//!
//! Recording never blocks and never fails a request.

#![forbid(unsafe_code)]

mod audit;
mod error;
mod metrics;
pub mod recording;
pub mod sampler;
mod tokenizer;

pub use audit::{AuditEntry, AuditLog};
pub use error::{Error, Result};
pub use metrics::Metrics;
pub use tokenizer::{COUNTS_EXACTLY, o200k, require_exact_tokens};

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use context_guard_config as config;
use context_guard_cursor_store::Clock;
use context_guard_engine::{self as engine, CacheTier, CallContext, Decision, LossClass};
use context_guard_protocol::glob;
use context_guard_revision::{self as revision, Change};
use serde::Serialize;
use tracing::info;

/// The target of log events about single requests, so that a log filter can select them.
const REQUEST_TARGET: &str = "context_guard::requests";

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The upstream's answer was sent to the client unchanged.
    Passed,
    /// The client received a shaped answer instead of the upstream's.
    Shaped,
    /// The guard refused a cursor, a limit or an argument.
    Refused,
    /// The guard failed, and the byte limit was applied.
    Fault,
    /// The upstream failed or was unreachable.
    UpstreamError,
}

impl Outcome {
    /// Returns [`Outcome::Fault`] if the guard was called (`is_guarded`) but made no decision, else
    /// [`Outcome::Passed`].
    #[must_use]
    pub fn of_answer(is_guarded: bool, decision: Option<&Decision>) -> Self {
        if decision.is_none() && is_guarded { Self::Fault } else { Self::Passed }
    }
}

/// The record of one request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TelemetryRecord {
    /// The number of the request.
    pub request_id: String,
    /// The endpoint: `upstream::tool`, a resource URI or the method.
    pub endpoint: String,
    /// The time of the answer, in milliseconds since 1970.
    pub timestamp: u64,
    /// The estimated tokens of the answer sent to the client; 0 without an estimate.
    pub estimated_tokens: u64,
    /// The length of the answer sent to the client, in bytes.
    pub response_bytes: u64,
    /// The number of items of the list in the upstream's answer; `None` if there is no list.
    pub item_count: Option<u64>,
    /// The time from request to answer, in milliseconds.
    pub latency_ms: u64,
    /// True if a page of a list was sent.
    pub pagination_used: bool,
    /// True if fields or values were omitted.
    pub summarization_used: bool,
    /// True if a chunk of a text was sent.
    pub chunking_used: bool,
    /// Further details of the reduction.
    pub optimization_metadata: OptimizationMetadata,
    /// The estimated tokens of the upstream's answer; 0 without an estimate.
    pub original_tokens: u64,
    /// The length of the upstream's answer, in bytes.
    pub original_bytes: u64,
    /// The guard's rendering of the answer: `full`, `page`, `chunk` and so on; empty if the guard
    /// was not called.
    pub mode: String,
    /// The outcome of the request.
    pub outcome: Outcome,
    /// The principal that sent the request.
    pub principal: String,
    /// The name of the upstream.
    pub upstream: String,
    /// The revision that shaped the answer; 0 if none did.
    #[serde(rename = "generation")]
    pub revision: u64,
    /// The tier of the answer cache that served the answer; empty if the upstream did.
    pub cache: String,
    /// The tier of the answer cache that a tool's answer belongs to. `None` for other answers.
    #[serde(skip)]
    pub tier: Option<CacheTier>,
    /// The kind of the answer. Only calls and catalogs count as original tokens.
    pub kind: AnswerKind,
}

/// The kind of an answer in records and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// The first answer to a call, a resource or another request.
    Call,
    /// A further read of an answer that the guard stored before.
    Read,
    /// A list of tools, prompts or resources.
    Catalog,
}

impl AnswerKind {
    fn for_endpoint(is_read: bool, endpoint: &str) -> Self {
        match endpoint {
            _ if is_read => Self::Read,
            "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list" => {
                Self::Catalog
            }
            _ => Self::Call,
        }
    }

    /// Returns the name of the kind in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Read => "read",
            Self::Catalog => "catalog",
        }
    }
}

/// Details of the reduction of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OptimizationMetadata {
    /// The loss against the original answer: `none`, `lossless`, `partial`, `condensed` or
    /// `described`.
    pub loss: &'static str,
    /// The maximum number of tokens that the policy allowed for the answer.
    pub budget: u64,
    /// The share of tokens that the reduction saved, from 0 to 1.
    pub reduction: f64,
}

/// The data from which the telemetry record of an answer is created.
pub struct AnswerEvent<'a> {
    /// The context of the call: principal, session, upstream and request id.
    pub cx: &'a CallContext,
    /// The endpoint to record if the guard's decision names none.
    pub endpoint: &'a str,
    /// The decision of the guard on the answer; `None` if it made none.
    pub decision: Option<&'a Decision>,
    /// True if the guard answered with a part of an answer that it stored before.
    pub is_read: bool,
    /// The time from request to answer.
    pub latency: Duration,
    /// The length of the answer sent to the client, in bytes.
    pub bytes: usize,
    /// The outcome that the gateway observed. If it is [`Outcome::Passed`], the guard's decision
    /// refines it.
    pub outcome: Outcome,
}

/// Records requests and changes of revisions as logs, metrics, records in memory and audit entries.
pub struct Recorder {
    ring: Mutex<VecDeque<Arc<TelemetryRecord>>>,
    capacity: usize,
    /// The Prometheus metrics of this gateway.
    pub metrics: Metrics,
    audit: Option<AuditLog>,
    clock: Arc<dyn Clock>,
    last_request: AtomicU64,
}

impl Recorder {
    /// Returns a recorder that retains the last `capacity` records in memory. `audit` is the audit
    /// log, if one is configured.
    #[must_use]
    pub fn new(capacity: usize, audit: Option<AuditLog>, clock: Arc<dyn Clock>) -> Self {
        Self {
            ring: Mutex::new(VecDeque::with_capacity(capacity.min(1 << 16))),
            capacity,
            metrics: Metrics::new(),
            audit,
            clock,
            last_request: AtomicU64::new(0),
        }
    }

    /// Returns a new request id: a number that counts the requests of this process.
    pub fn next_request(&self) -> String {
        (self.last_request.fetch_add(1, Ordering::Relaxed) + 1).to_string()
    }

    /// Records a request that was answered.
    pub fn answered(&self, answered: &AnswerEvent<'_>) {
        let AnswerEvent { cx, endpoint, decision, is_read, latency, bytes, outcome } = *answered;
        let endpoint = decision
            .map(|decision| decision.endpoint.as_str())
            .filter(|endpoint| !endpoint.is_empty())
            .unwrap_or(endpoint);
        let origin = self.origin_of(is_read, cx, endpoint);
        let endpoint = origin.as_deref().unwrap_or(endpoint);
        // A read through the aggregator names its upstream in the endpoint alone.
        let upstream = match endpoint.split_once("::") {
            Some((upstream, _)) if cx.upstream.is_empty() => upstream,
            _ => &cx.upstream,
        };
        let kind = AnswerKind::for_endpoint(is_read, endpoint);
        // Without the guard, four characters count as one token.
        let estimate = match outcome {
            Outcome::Passed if decision.is_none() && endpoint.contains("::") => {
                (bytes as u64).div_ceil(4)
            }
            _ => 0,
        };
        let record = TelemetryRecord {
            request_id: cx.request_id.clone(),
            endpoint: endpoint.to_owned(),
            timestamp: self.now_ms(),
            estimated_tokens: decision.map_or(estimate, |decision| decision.estimated_tokens),
            response_bytes: bytes as u64,
            item_count: decision.and_then(|decision| decision.item_count),
            latency_ms: u64::try_from(latency.as_millis()).unwrap_or(u64::MAX),
            pagination_used: decision.is_some_and(|decision| decision.pagination_used),
            summarization_used: decision.is_some_and(|decision| decision.summarization_used),
            chunking_used: decision.is_some_and(|decision| decision.chunking_used),
            optimization_metadata: decision.map(optimization).unwrap_or_default(),
            original_tokens: decision.map_or(estimate, |decision| decision.original_tokens),
            original_bytes: decision.map_or(bytes as u64, |decision| decision.original_bytes),
            mode: decision.map(|decision| decision.mode.clone()).unwrap_or_default(),
            outcome: match decision {
                Some(decision) if outcome == Outcome::Passed => outcome_of(decision),
                _ => outcome,
            },
            principal: cx.principal.clone(),
            upstream: upstream.to_owned(),
            kind,
            revision: decision.and_then(|decision| decision.revision).unwrap_or_default(),
            cache: decision
                .and_then(|decision| decision.cache)
                .map_or("", CacheTier::name)
                .to_owned(),
            tier: decision.filter(|decision| decision.mode != "catalog").map(CacheTier::of_answer),
        };
        self.metrics.answered(&record);
        info!(
            target: REQUEST_TARGET,
            request = record.request_id,
            endpoint = record.endpoint,
            outcome = ?record.outcome,
            mode = record.mode,
            original_tokens = record.original_tokens,
            tokens = record.estimated_tokens,
            original_bytes = record.original_bytes,
            bytes = record.response_bytes,
            latency_ms = record.latency_ms,
            "request answered"
        );
        if let Some(audit) = &self.audit {
            audit.write(&AuditEntry {
                timestamp: record.timestamp,
                event: "request",
                principal: &record.principal,
                endpoint: &record.endpoint,
                outcome: &format!("{:?}", record.outcome),
                detail: "",
            });
        }
        if self.capacity > 0 {
            let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
            if ring.len() >= self.capacity {
                ring.pop_front();
            }
            ring.push_back(Arc::new(record));
        }
    }

    /// Returns the endpoint with its upstream that a read continues, if the reader does not name
    /// the upstream. It is that of the principal's last call of the tool.
    fn origin_of(&self, is_read: bool, cx: &CallContext, endpoint: &str) -> Option<String> {
        if !is_read || !cx.upstream.is_empty() || endpoint.contains("::") {
            return None;
        }
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let is_origin = |record: &&Arc<TelemetryRecord>| {
            record.kind == AnswerKind::Call
                && record.principal == cx.principal
                && record.endpoint.split_once("::").is_some_and(|(_, tool)| tool == endpoint)
        };
        ring.iter().rev().find(is_origin).map(|record| record.endpoint.clone())
    }

    /// Records a request that was refused. `reason` is a metric label, and `detail` is the message
    /// for the caller.
    pub fn refused(&self, principal: &str, reason: &'static str, detail: &str) {
        self.metrics.refused(reason);
        info!(target: REQUEST_TARGET, principal, reason, detail, "request refused");
        if let Some(audit) = &self.audit {
            audit.write(&AuditEntry {
                timestamp: self.now_ms(),
                event: "refused",
                principal,
                endpoint: "",
                outcome: reason,
                detail,
            });
        }
    }

    /// Records a change of revisions, with old and new values.
    pub fn changed(&self, change: &Change) {
        self.metrics.changed(change);
        if let Some(audit) = &self.audit {
            audit.write(&AuditEntry {
                timestamp: self.now_ms(),
                event: "change",
                principal: change.actor.name(),
                endpoint: "",
                outcome: change.event.name(),
                detail: &serde_json::to_string(change).unwrap_or_default(),
            });
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.now().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the records in memory that match a query, the newest first.
    #[must_use]
    pub fn query(&self, query: &RecordQuery) -> Vec<Arc<TelemetryRecord>> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = ring.iter().rev().filter(|record| query.fits(record));
        fitting.take(query.limit.unwrap_or(100)).cloned().collect()
    }
}

fn optimization(decision: &Decision) -> OptimizationMetadata {
    let loss = match decision.loss {
        LossClass::None => "none",
        LossClass::Lossless => "lossless",
        LossClass::Partial => "partial",
        LossClass::Condensed => "condensed",
        LossClass::Described => "described",
    };
    #[allow(clippy::cast_precision_loss, reason = "a ratio of token counts")]
    let reduction = if decision.original_tokens == 0 {
        0.0
    } else {
        (1.0 - decision.estimated_tokens as f64 / decision.original_tokens as f64).max(0.0)
    };
    OptimizationMetadata { loss, budget: decision.budget, reduction }
}

fn outcome_of(decision: &Decision) -> Outcome {
    match (decision.mode.as_str(), decision.loss) {
        ("error", _) => Outcome::Refused,
        ("full" | "catalog", LossClass::None) => Outcome::Passed,
        _ => Outcome::Shaped,
    }
}

/// A query for telemetry records. Members that are `None` match every record.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordQuery {
    /// The pattern that endpoints must match; `*` matches any characters.
    pub endpoint: Option<String>,
    /// The earliest time of the answer, in milliseconds since 1970.
    pub from: Option<u64>,
    /// The latest time of the answer, in milliseconds since 1970.
    pub to: Option<u64>,
    /// The outcome: `passed`, `shaped`, `refused`, `fault` or `upstream_error`.
    pub outcome: Option<String>,
    /// The maximum number of returned records; 100 by default.
    pub limit: Option<usize>,
}

impl RecordQuery {
    fn fits(&self, record: &TelemetryRecord) -> bool {
        let outcome = serde_json::to_value(record.outcome).unwrap_or_default();
        self.endpoint.as_deref().is_none_or(|pattern| glob::matches(pattern, &record.endpoint))
            && self.from.is_none_or(|from| record.timestamp >= from)
            && self.to.is_none_or(|to| record.timestamp <= to)
            && self.outcome.as_deref().is_none_or(|wanted| outcome == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use context_guard_cursor_store::clock::SystemClock;

    fn decision(endpoint: &str, original: u64, sent: u64) -> Decision {
        Decision {
            endpoint: endpoint.to_owned(),
            mode: "page".to_owned(),
            loss: LossClass::Partial,
            original_tokens: original,
            estimated_tokens: sent,
            original_bytes: original * 4,
            response_bytes: sent * 4,
            budget: 1_000,
            ..Decision::default()
        }
    }

    /// Returns the sum of a metric over all labels that contain `label`.
    fn sum(recorder: &Recorder, name: &str, label: &str) -> u64 {
        let text = recorder.metrics.text();
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    proptest::proptest! {
        #[test]
        fn net_savings_are_original_minus_first_minus_reads(
            walks in proptest::collection::vec(
                (
                    1u64..500_000,
                    1u64..12_000,
                    proptest::collection::vec(1u64..12_000, 0..6),
                    0usize..3,
                ),
                1..12,
            ),
        ) {
            let recorder = Recorder::new(100, None, Arc::new(SystemClock));
            let answer = |upstream: &str, endpoint: &str, is_read, original, sent| {
                let cx = CallContext { upstream: upstream.into(), ..CallContext::default() };
                let decision = decision(endpoint, original, sent);
                recorder.answered(&AnswerEvent {
                    cx: &cx,
                    endpoint: "tools/call",
                    decision: Some(&decision),
                    is_read,
                    latency: Duration::ZERO,
                    bytes: 1,
                    outcome: Outcome::Passed,
                });
            };
            let (mut net, mut oversized) = (0i128, 0);
            for (original, first, reads, tool) in &walks {
                let tool = format!("tool{tool}");
                answer("up", &format!("up::{tool}"), false, *original, *first);
                oversized += u64::from(*original > 1_000);
                // The aggregator does not know the upstream of a read.
                for sent in reads {
                    answer("", &tool, true, *original, *sent);
                }
                let sent = first + reads.iter().sum::<u64>();
                net += i128::from(*original) - i128::from(sent);
            }
            // A list of tools is no saving.
            answer("up", "tools/list", false, 137, 554);
            let calls = |side: &str| {
                let of = |kind: &str| -> u64 {
                    let text = recorder.metrics.text();
                    let lines = text.lines().filter(|line| {
                        line.starts_with("context_guard_tokens_total{upstream=\"up\"")
                            && line.contains(&format!("kind=\"{kind}\""))
                            && line.contains(&format!("side=\"{side}\""))
                    });
                    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
                };
                i128::from(of("call") + of("read"))
            };
            proptest::prop_assert_eq!(calls("original") - calls("sent"), net);
            proptest::prop_assert_eq!(sum(&recorder, "context_guard_oversized_total", "up"), oversized);
            proptest::prop_assert_eq!(sum(&recorder, "context_guard_tokens_total", "kind=\"catalog\""), 137 + 554);
        }
    }

    #[test]
    fn ring_is_bounded_and_queryable() {
        let recorder = Recorder::new(3, None, Arc::new(SystemClock));
        let cx = CallContext {
            principal: "p".into(),
            upstream: "files".into(),
            ..CallContext::default()
        };
        for (endpoint, outcome) in [
            ("gone", Outcome::Passed),
            ("files::read", Outcome::Passed),
            ("files::list", Outcome::UpstreamError),
            ("web::get", Outcome::Passed),
        ] {
            recorder.answered(&AnswerEvent {
                cx: &cx,
                endpoint,
                decision: None,
                is_read: false,
                latency: Duration::from_millis(7),
                bytes: 10,
                outcome,
            });
        }
        let found = |query: RecordQuery| {
            recorder.query(&query).iter().map(|found| found.endpoint.clone()).collect::<Vec<_>>()
        };
        assert_eq!(found(RecordQuery::default()), ["web::get", "files::list", "files::read"]);
        let files = RecordQuery { endpoint: Some("files::*".into()), ..RecordQuery::default() };
        assert_eq!(found(files), ["files::list", "files::read"]);
        let failed =
            RecordQuery { outcome: Some("upstream_error".into()), ..RecordQuery::default() };
        assert_eq!(found(failed), ["files::list"]);
        assert!(found(RecordQuery { to: Some(1), ..RecordQuery::default() }).is_empty());
        assert!(recorder.metrics.text().contains("context_guard_requests_total"));
    }
}
