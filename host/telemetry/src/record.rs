//! Telemetry records: their contents, and queries for them.

use std::time::Duration;

use context_guard_protocol::glob;
use serde::Serialize;

use crate::engine::{CacheTier, CallContext, Decision, LossClass};
use crate::trace::RequestTrace;

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
    /// Returns the name of the outcome in metrics and spans.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Shaped => "shaped",
            Self::Refused => "refused",
            Self::Fault => "fault",
            Self::UpstreamError => "upstream_error",
        }
    }

    /// Returns [`Outcome::Fault`] if the guard was called (`is_guarded`) but made no decision,
    /// otherwise [`Outcome::Passed`].
    #[must_use]
    pub fn of_answer(is_guarded: bool, decision: Option<&Decision>) -> Self {
        if decision.is_none() && is_guarded { Self::Fault } else { Self::Passed }
    }
}

/// The record of one request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TelemetryRecord {
    /// The number of the request in this process, as text.
    pub request_id: String,
    /// The endpoint: `upstream::tool`, a resource URI or the method.
    pub endpoint: String,
    /// The time of the answer, in milliseconds since 1970.
    pub timestamp: u64,
    /// The estimated tokens of the answer sent to the client. 0 without an estimate.
    pub estimated_tokens: u64,
    /// The length of the answer sent to the client, in bytes.
    pub response_bytes: u64,
    /// The number of items of the list in the upstream's answer. `None` if there is no list.
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
    /// The estimated tokens of the upstream's answer. 0 without an estimate.
    pub original_tokens: u64,
    /// The length of the upstream's answer, in bytes.
    pub original_bytes: u64,
    /// The guard's rendering of the answer: `full`, `page`, `chunk` and so on. Empty if the guard
    /// was not called.
    pub mode: String,
    /// The outcome of the request.
    pub outcome: Outcome,
    /// The principal that sent the request.
    pub principal: String,
    /// The name of the upstream.
    pub upstream: String,
    /// The number of the revision that shaped the answer. 0 if none did.
    #[serde(rename = "generation")]
    pub revision: u64,
    /// The tier of the answer cache that served the answer. Empty if the upstream answered.
    pub cache: String,
    /// The tier of the answer cache to which a tool's answer belongs. `None` for other answers.
    #[serde(skip)]
    pub tier: Option<CacheTier>,
    /// The kind of the answer. Only calls and catalogs contribute to original tokens.
    pub kind: AnswerKind,
    /// The id of the request that runs the program which made this call. Empty for other calls.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub parent: String,
    /// The estimated tokens of results of tools that a program kept out of its answer.
    #[serde(skip_serializing_if = "is_zero")]
    pub tokens_kept_out: u64,
    /// The time that the upstream needed for a tool call, in microseconds, without the wait for a
    /// permit. `None` if the upstream was not called.
    #[serde(skip)]
    pub upstream_us: Option<u64>,
    /// True if the tool call failed, at the upstream or with a result that is an error.
    #[serde(skip)]
    pub is_tool_failure: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The kind of an answer in records and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// The first answer to a call, a resource or another request.
    Call,
    /// A further read of an answer that the guard has stored.
    Read,
    /// A list of tools, prompts or resources.
    Catalog,
}

impl AnswerKind {
    pub(super) fn for_endpoint(is_read: bool, endpoint: &str) -> Self {
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

/// The kind of a request, which determines the name that the history stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// A tool call.
    Tool,
    /// A read of a resource.
    Resource,
    /// A prompt.
    Prompt,
    /// The result of a task.
    Task,
    /// A request to a JSON API.
    Http,
    /// Any other request, such as a list. It is not a call.
    Other,
}

impl RequestKind {
    /// Returns the kind of a JSON-RPC request with this method.
    #[must_use]
    pub fn of_method(method: &str) -> Self {
        match method {
            "tools/call" => Self::Tool,
            "resources/read" => Self::Resource,
            "prompts/get" => Self::Prompt,
            "tasks/result" => Self::Task,
            _ => Self::Other,
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
    /// The kind of the request.
    pub kind: RequestKind,
    /// The label of the MCP method (see [`crate::method_label`]). Empty for a request to a JSON
    /// API.
    pub method: &'static str,
    /// The JSON-RPC id of the request, as raw JSON. Empty if there is none.
    pub json_rpc_id: &'a str,
    /// True if the gateway sent the request as a part of serving a client's request, such as a
    /// merged list. The request is then not an operation of a client.
    pub is_part: bool,
    /// The id of the request that runs the program which made this call. Empty for other calls.
    pub parent: &'a str,
    /// The estimated tokens of results of tools that a program kept out of its answer.
    pub kept_out: u64,
    /// The trace of the request. `None` if requests are not traced.
    pub trace: Option<&'a RequestTrace>,
    /// The decision of the guard on the answer. `None` if the guard made none.
    pub decision: Option<&'a Decision>,
    /// True if the guard answered with a part of a stored answer.
    pub is_read: bool,
    /// The time from request to answer.
    pub latency: Duration,
    /// The length of the answer sent to the client, in bytes.
    pub bytes: usize,
    /// The outcome that the gateway observed. If it is [`Outcome::Passed`], the guard's decision
    /// refines it.
    pub outcome: Outcome,
}

impl AnswerEvent<'_> {
    /// Returns the time that the upstream needed for a tool call, in microseconds. `None` if the
    /// upstream was not called, or the guard refused the call.
    pub(super) fn upstream_us(&self) -> Option<u64> {
        let is_refused = self.outcome == Outcome::Refused
            || self.decision.is_some_and(|decision| outcome_of(decision) == Outcome::Refused);
        let trace = self.trace.filter(|_| self.kind == RequestKind::Tool && !is_refused)?;
        let latency = trace.upstream_latency()?;
        Some(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX))
    }

    /// Returns true if the upstream failed, or answered with an error or an error result.
    pub(super) fn is_tool_failure(&self) -> bool {
        let is_error = |trace: &RequestTrace| trace.is_tool_error() || trace.error_code().is_some();
        self.outcome == Outcome::UpstreamError || self.trace.is_some_and(is_error)
    }
}

pub(super) fn optimization(decision: &Decision) -> OptimizationMetadata {
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

pub(super) fn outcome_of(decision: &Decision) -> Outcome {
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
    /// The maximum number of returned records. The default is 100.
    pub limit: Option<usize>,
}

impl RecordQuery {
    pub(super) fn fits(&self, record: &TelemetryRecord) -> bool {
        let outcome = serde_json::to_value(record.outcome).unwrap_or_default();
        self.endpoint.as_deref().is_none_or(|pattern| glob::matches(pattern, &record.endpoint))
            && self.from.is_none_or(|from| record.timestamp >= from)
            && self.to.is_none_or(|to| record.timestamp <= to)
            && self.outcome.as_deref().is_none_or(|wanted| outcome == wanted)
    }
}
