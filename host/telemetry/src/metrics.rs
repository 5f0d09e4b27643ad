//! The Prometheus metrics. Labels have few values: the configured upstreams, fixed names, and a
//! limited number of tools.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use context_guard_cursor_store::StoreFaults;
use context_guard_history::OTHER;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::{AlertState, AlertStatus, AnswerKind, Outcome, TelemetryRecord};
use crate::operation::OperationMetrics;
use crate::revision::{Change, ChangeEvent};

/// The maximum number of tools with their own label value.
const MAX_TOOLS: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    upstream: String,
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Upstream {
    upstream: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Side {
    upstream: String,
    tool: String,
    kind: &'static str,
    side: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Changed {
    event: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DefinitionAlert {
    upstream: String,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AlertName {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Notified {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kept {
    tier: &'static str,
    hit: &'static str,
}

/// All metrics of a gateway. Their names begin with `context_guard_`, except those of the semantic
/// conventions for MCP.
pub struct Metrics {
    registry: Registry,
    pub(super) operations: OperationMetrics,
    requests: Family<Request, Counter>,
    seconds: Family<Upstream, Histogram>,
    tokens: Family<Side, Counter>,
    bytes: Family<Side, Counter>,
    oversized: Family<Upstream, Counter>,
    refused: Family<Reason, Counter>,
    failures: Family<Upstream, Counter>,
    up: Family<Upstream, Gauge>,
    restarts: Family<Upstream, Counter>,
    sessions: Gauge,
    revision: Gauge,
    changes: Family<Changed, Counter>,
    cache: Family<Kept, Counter>,
    store: Gauge,
    store_faults: Family<Reason, Counter>,
    audit_lost: Counter,
    history_dropped: Counter,
    memory_pressure: Gauge,
    definition_alerts: Family<DefinitionAlert, Counter>,
    all_definition_alerts: AtomicU64,
    alerts: Family<AlertName, Gauge>,
    pending_alerts: Family<AlertName, Gauge>,
    notifications: Family<Notified, Counter>,
    otlp_dropped: Counter,
    /// The tools that have their own label value.
    tools: Mutex<HashSet<String>>,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut registry = Registry::with_prefix("context_guard");
        let requests = Family::default();
        registry.register(
            "requests",
            "Answered requests by upstream and outcome",
            requests.clone(),
        );
        let seconds = Family::<Upstream, Histogram>::new_with_constructor(|| {
            Histogram::new([
                0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
            ])
        });
        registry.register_with_unit(
            "request_duration",
            "Time from request to answer",
            Unit::Seconds,
            seconds.clone(),
        );
        let tokens = Family::default();
        registry.register(
            "tokens",
            "Estimated tokens of original and of sent answers",
            tokens.clone(),
        );
        let bytes = Family::default();
        registry.register("response_bytes", "Bytes of original and of sent answers", bytes.clone());
        let oversized = Family::default();
        registry.register(
            "oversized",
            "Original answers that exceeded their budget",
            oversized.clone(),
        );
        let refused = Family::default();
        registry.register("refused", "Refused requests by reason", refused.clone());
        let failures = Family::default();
        registry.register("upstream_failures", "Failures of upstreams", failures.clone());
        let up = Family::default();
        registry.register("upstream_up", "1 if the upstream is reachable, else 0", up.clone());
        let restarts = Family::default();
        registry.register(
            "upstream_starts",
            "Starts of processes or sessions of an upstream",
            restarts.clone(),
        );
        let sessions = Gauge::default();
        registry.register("sessions", "Sessions of clients", sessions.clone());
        let revision = Gauge::default();
        revision.set(1);
        registry.register("generation", "The number of the active revision", revision.clone());
        let changes = Family::default();
        registry.register("changes", "Changes of revisions by event", changes.clone());
        let cache = Family::default();
        registry.register(
            "cache_lookups",
            "Answers of tools by cache tier, and cache hits",
            cache.clone(),
        );
        let store = Gauge::default();
        store.set(1);
        registry.register("store_up", "1 if the cursor store is reachable, else 0", store.clone());
        let store_faults = Family::default();
        registry.register(
            "store_faults",
            "Calls that the cursor store failed, and entries that it dropped early, by reason",
            store_faults.clone(),
        );
        let audit_lost = Counter::default();
        registry.register(
            "audit_lost",
            "Entries of the audit log that could not be written",
            audit_lost.clone(),
        );
        let history_dropped = Counter::default();
        registry.register(
            "telemetry_dropped",
            "Calls that are missing in the history because its file is written too slowly",
            history_dropped.clone(),
        );
        let memory_pressure = Gauge::default();
        registry.register(
            "memory_pressure",
            "1 while requests are refused because memory is short, else 0",
            memory_pressure.clone(),
        );
        let definition_alerts = Family::default();
        registry.register(
            "definition_alerts",
            "Definitions of tools that an upstream changed, or that are suspicious",
            definition_alerts.clone(),
        );
        let alerts = Family::default();
        registry.register("alert", "1 while the alert fires, else 0", alerts.clone());
        let pending_alerts = Family::default();
        registry.register(
            "alert_pending",
            "1 while the condition of the alert is met, but not yet for long enough, else 0",
            pending_alerts.clone(),
        );
        let spans_dropped = Counter::default();
        registry.register(
            "otlp_dropped",
            "Spans and log events that were not exported",
            spans_dropped.clone(),
        );
        let notifications = Family::default();
        registry.register(
            "alert_notifications",
            "Notifications of alerts for the webhook, by result",
            notifications.clone(),
        );
        Self {
            registry,
            operations: OperationMetrics::new(),
            requests,
            seconds,
            tokens,
            bytes,
            oversized,
            refused,
            failures,
            up,
            restarts,
            sessions,
            revision,
            changes,
            cache,
            store,
            store_faults,
            audit_lost,
            history_dropped,
            memory_pressure,
            definition_alerts,
            all_definition_alerts: AtomicU64::new(0),
            alerts,
            pending_alerts,
            notifications,
            otlp_dropped: spans_dropped,
            tools: Mutex::default(),
        }
    }

    /// Counts an answered request. `tool` is the label of its tool, or empty for other requests.
    pub(super) fn answered(&self, record: &TelemetryRecord, tool: &str) {
        let upstream = || record.upstream.clone();
        self.requests
            .get_or_create(&Request { upstream: upstream(), outcome: record.outcome })
            .inc();
        #[allow(clippy::cast_precision_loss, reason = "milliseconds of a request")]
        self.seconds
            .get_or_create(&Upstream { upstream: upstream() })
            .observe(record.latency_ms as f64 / 1000.0);
        let sides = [
            ("original", record.original_tokens, record.original_bytes),
            ("sent", record.estimated_tokens, record.response_bytes),
        ];
        for (side, tokens, bytes) in sides {
            // The original of a read has counted with the call that it continues.
            if record.kind == AnswerKind::Read && side == "original" {
                continue;
            }
            let (kind, tool) = (record.kind.name(), tool.to_owned());
            let labels = Side { upstream: upstream(), tool, kind, side };
            self.tokens.get_or_create(&labels).inc_by(tokens);
            self.bytes.get_or_create(&labels).inc_by(bytes);
        }
        if let Some(tier) = record.tier.filter(|_| record.outcome != Outcome::Refused) {
            let hit = if record.cache.is_empty() { "false" } else { "true" };
            self.cache.get_or_create(&Kept { tier: tier.name(), hit }).inc();
        }
        if record.kind == AnswerKind::Call
            && record.optimization_metadata.budget > 0
            && record.original_tokens > record.optimization_metadata.budget
        {
            self.oversized.get_or_create(&Upstream { upstream: upstream() }).inc();
        }
    }

    /// Returns the label of a tool that its upstream has listed: its name. Returns `_OTHER` for
    /// tools beyond [`MAX_TOOLS`].
    pub(super) fn tool_label<'t>(&self, tool: &'t str) -> &'t str {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if tools.contains(tool) {
            return tool;
        }
        if tools.len() >= MAX_TOOLS {
            return OTHER;
        }
        tools.insert(tool.to_owned());
        tool
    }

    pub(super) fn changed(&self, change: &Change) {
        if matches!(
            change.event,
            ChangeEvent::Activated | ChangeEvent::Promoted | ChangeEvent::RolledBack
        ) {
            self.revision.set(i64::try_from(change.to).unwrap_or(i64::MAX));
        }
        self.changes.get_or_create(&Changed { event: change.event.name() }).inc();
    }

    /// Sets the gauge of the cursor store: `up` is true if the store is reachable.
    pub fn store_is(&self, up: bool) {
        self.store.set(i64::from(up));
    }

    /// Sets the counters of faults of the cursor store to these totals.
    pub fn store_faults(&self, totals: StoreFaults) {
        let StoreFaults { unavailable, full, evicted, rejected } = totals;
        let totals = [
            ("unavailable", unavailable),
            ("full", full),
            ("evicted", evicted),
            ("rejected", rejected),
        ];
        for (reason, total) in totals {
            let counter = self.store_faults.get_or_create(&Reason { reason });
            counter.inc_by(total.saturating_sub(counter.get()));
        }
    }

    /// Sets the counter of lost audit entries to this total.
    pub(super) fn audit_lost(&self, total: u64) {
        self.audit_lost.inc_by(total.saturating_sub(self.audit_lost.get()));
    }

    /// Sets the counter of calls that are missing in the history to this total.
    pub(super) fn history_dropped(&self, total: u64) {
        self.history_dropped.inc_by(total.saturating_sub(self.history_dropped.get()));
    }

    /// Sets the gauge of memory pressure: `is_short` is true while requests are refused.
    pub fn memory_pressure(&self, is_short: bool) {
        self.memory_pressure.set(i64::from(is_short));
    }

    pub(super) fn definition_alert(&self, upstream: &str, kind: &'static str) {
        let alert = DefinitionAlert { upstream: upstream.to_owned(), kind };
        self.definition_alerts.get_or_create(&alert).inc();
        self.all_definition_alerts.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of definitions that changed or are suspicious, of all upstreams.
    pub(super) fn all_definition_alerts(&self) -> u64 {
        self.all_definition_alerts.load(Ordering::Relaxed)
    }

    /// Removes the gauges of all alerts, because some alerts may have been removed.
    pub(super) fn forget_alerts(&self) {
        self.alerts.clear();
        self.pending_alerts.clear();
    }

    /// Sets the gauges of alerts to these states.
    pub(super) fn alerts(&self, alerts: &[AlertStatus]) {
        let gauges =
            [(&self.alerts, AlertState::Firing), (&self.pending_alerts, AlertState::Pending)];
        for (family, state) in gauges {
            for alert in alerts {
                let name = AlertName { name: alert.name.clone() };
                family.get_or_create(&name).set(i64::from(alert.state == state));
            }
        }
    }

    /// Counts a notification of the webhook. `result` is `sent`, `failed` or `dropped`.
    pub fn notified(&self, result: &'static str) {
        self.notifications.get_or_create(&Notified { result }).inc();
    }

    /// Counts spans and log events that were not exported.
    pub fn otlp_dropped(&self, dropped: u64) {
        self.otlp_dropped.inc_by(dropped);
    }

    pub(super) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&Reason { reason }).inc();
    }

    /// Counts a connection that was refused, because too many are open.
    pub fn connection_refused(&self) {
        self.refused("connections");
    }

    /// Counts a failure of an upstream.
    pub fn upstream_failed(&self, upstream: &str) {
        self.failures.get_or_create(&Upstream { upstream: upstream.to_owned() }).inc();
    }

    /// Sets the gauge of an upstream: `up` is true if the upstream is reachable.
    pub fn upstream_is(&self, upstream: &str, up: bool) {
        self.up.get_or_create(&Upstream { upstream: upstream.to_owned() }).set(i64::from(up));
    }

    /// Counts the start of a process or session of an upstream.
    pub fn upstream_started(&self, upstream: &str) {
        self.restarts.get_or_create(&Upstream { upstream: upstream.to_owned() }).inc();
    }

    /// Sets the gauge of client sessions.
    pub fn sessions(&self, sessions: usize) {
        self.sessions.set(i64::try_from(sessions).unwrap_or(i64::MAX));
    }

    /// Returns the metrics in the text format of Prometheus.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        let registries = [&self.registry, &self.operations.registry];
        let encoded =
            registries.into_iter().try_for_each(|one| text::encode_registry(&mut out, one));
        if let Err(error) = encoded.and_then(|()| text::encode_eof(&mut out)) {
            let _ = writeln!(out, "# {error}");
        }
        out
    }
}
