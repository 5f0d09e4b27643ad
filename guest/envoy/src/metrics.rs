//! Envoy statistics (`wasmcustom.context_guard_…`), and the record of an exchange's last answer as
//! filter state for access logs.

use context_guard_core::{Loss, Record};
use proxy_wasm::hostcalls::{define_metric, increment_metric, record_metric, set_property};
use proxy_wasm::types::MetricType;

/// The property that holds the telemetry record of an answer. Access logs read it as
/// `%FILTER_STATE(wasm.context_guard:PLAIN)%`.
const RECORD_PROPERTY: &str = "context_guard";

/// The ids that Envoy assigned to the filter's metrics.
pub(crate) struct Metrics {
    answers: u32,
    shaped: u32,
    paged: u32,
    chunked: u32,
    summarised: u32,
    original_tokens: u32,
    sent_tokens: u32,
    answer_tokens: u32,
    faults: u32,
    store_full: u32,
    store_unavailable: u32,
    over_limit: u32,
}

impl Metrics {
    /// Registers the filter's metrics with Envoy.
    pub(crate) fn new() -> Self {
        let define = |kind, name: &str| {
            define_metric(kind, &format!("context_guard_{name}")).unwrap_or(u32::MAX)
        };
        let counter = |name: &str| define(MetricType::Counter, name);
        Self {
            answers: counter("answers"),
            shaped: counter("answers_shaped"),
            paged: counter("answers_paged"),
            chunked: counter("answers_chunked"),
            summarised: counter("answers_summarised"),
            original_tokens: counter("tokens_original"),
            sent_tokens: counter("tokens_sent"),
            answer_tokens: define(MetricType::Histogram, "answer_tokens"),
            faults: counter("faults"),
            store_full: counter("store_full"),
            store_unavailable: counter("store_unavailable"),
            over_limit: counter("over_limit"),
        }
    }

    /// Counts an answer that the guard shaped or passed, and publishes its record for access logs.
    pub(crate) fn answered(&self, record: &Record) {
        let add = |id: u32, by: u64| {
            let _ = increment_metric(id, i64::try_from(by).unwrap_or(0));
        };
        add(self.answers, 1);
        add(self.shaped, u64::from(record.loss != Loss::None));
        add(self.paged, u64::from(record.pagination_used()));
        add(self.chunked, u64::from(record.chunking_used()));
        add(self.summarised, u64::from(record.summarization_used()));
        add(self.original_tokens, record.original_tokens);
        add(self.sent_tokens, record.estimated_tokens);
        let _ = record_metric(self.answer_tokens, record.estimated_tokens);
        if let Ok(record) = serde_json::to_vec(record) {
            let _ = set_property(vec![RECORD_PROPERTY], Some(&record));
        }
    }

    /// Counts a message on which the guard failed.
    pub(crate) fn fault(&self) {
        let _ = increment_metric(self.faults, 1);
    }

    /// Counts a write that the store rejected because it is full.
    pub(crate) fn store_full(&self) {
        let _ = increment_metric(self.store_full, 1);
    }

    /// Counts an entry that was not found, or a write, while the store of the gateway cannot be
    /// used.
    pub(crate) fn store_unavailable(&self) {
        let _ = increment_metric(self.store_unavailable, 1);
    }

    /// Counts a body that exceeded `maxBody` or `maxBuffered`.
    pub(crate) fn over_limit(&self) {
        let _ = increment_metric(self.over_limit, 1);
    }
}
