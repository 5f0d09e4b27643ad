//! Records requests: log events, Prometheus metrics, a queryable ring in memory and an audit log.
//!
//! Recording never blocks and never fails a request.

#![forbid(unsafe_code)]

mod alerts;
mod audit;
mod error;
mod history_event;
mod known_tools;
mod metrics;
mod record;
mod recorder;
pub mod recording;
pub mod sampler;
mod secret_text;
mod tokenizer;

pub use alerts::{AlertChange, AlertState, AlertStatus, Alerts, GatewayState};
pub use audit::{AuditEntry, AuditLog};
pub use error::{Error, Result};
pub use metrics::Metrics;
pub use record::{
    AnswerEvent, AnswerKind, OptimizationMetadata, Outcome, RecordQuery, RequestKind,
    TelemetryRecord,
};
pub use recorder::Recorder;
pub use tokenizer::{COUNTS_EXACTLY, o200k, require_exact_tokens};

use context_guard_config as config;
use context_guard_engine as engine;
use context_guard_revision as revision;
