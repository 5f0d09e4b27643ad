//! Records requests: log events, Prometheus metrics, a queryable ring in memory and an audit log.
//!
//! Recording does not block or fail a request, except for a required audit log. That one writes
//! each entry before the request ends, and the gateway refuses requests while it fails.

#![forbid(unsafe_code)]

mod alerts;
mod audit;
mod conventions;
mod error;
mod history_event;
mod known_tools;
mod log_queue;
mod metrics;
mod operation;
#[cfg(feature = "otlp")]
pub mod otlp;
mod prometheus_text;
mod record;
mod recorder;
pub mod recording;
pub mod sampler;
mod secret_text;
mod tokenizer;
mod trace;

pub use alerts::{AlertChange, AlertState, AlertStatus, Alerts, GatewayState};
pub use audit::{AuditEntry, AuditLog};
pub use conventions::method_label;
pub use error::{Error, Result};
pub use log_queue::{LogEvent, export_log, exports_logs, take_logs};
pub use metrics::Metrics;
pub use operation::FinishedSpan;
pub use prometheus_text::prometheus_text;
pub use record::{
    AnswerEvent, AnswerKind, OptimizationMetadata, Outcome, RecordQuery, RequestKind,
    TelemetryRecord,
};
pub use recorder::Recorder;
pub use tokenizer::{COUNTS_EXACTLY, o200k, require_exact_tokens};
pub use trace::{RequestTrace, TraceContext, TraceSampler};

use context_guard_config as config;
use context_guard_engine as engine;
use context_guard_revision as revision;
