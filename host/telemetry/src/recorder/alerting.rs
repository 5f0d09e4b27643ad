//! The alerts of a recorder.

use context_guard_config::AlertRule;
use tracing::{info, warn};

use super::Recorder;
use crate::alerts::{AlertChange, AlertState, Alerts, GatewayState};
use crate::audit::AuditLog;

impl Recorder {
    /// Sets the alerts for which calls are counted, and which [`Self::evaluate_alerts`] evaluates.
    #[must_use]
    pub fn with_alerts(self, rules: Vec<AlertRule>) -> Self {
        let alerts = Alerts::default();
        alerts.set(rules, self.now_ms());
        Self { alerts: Some(alerts), ..self }
    }

    /// Returns the alerts, or `None` if there are none.
    #[must_use]
    pub fn alerts(&self) -> Option<&Alerts> {
        self.alerts.as_ref()
    }

    /// Replaces the alerts, as [`Alerts::set`] does. Returns the changes of alerts that fired and
    /// were removed.
    pub fn set_alerts(&self, rules: Vec<AlertRule>) -> Vec<AlertChange> {
        let Some(alerts) = &self.alerts else { return Vec::new() };
        let changes = alerts.set(rules, self.now_ms());
        self.metrics.forget_alerts();
        self.metrics.alerts(&alerts.report());
        changes
    }

    /// Evaluates the alerts. Returns the changes of their states, and logs them.
    pub fn evaluate_alerts(&self, state: &GatewayState) -> Vec<AlertChange> {
        let Some(alerts) = &self.alerts else { return Vec::new() };
        let audit_lost = self.audit.as_ref().map_or(0, AuditLog::lost);
        let definition_alerts = self.metrics.all_definition_alerts();
        let state = GatewayState { audit_lost, definition_alerts, ..*state };
        let changes = alerts.evaluate(&state, self.now_ms());
        self.metrics.alerts(&alerts.report());
        for change in changes.iter().filter(|change| change.logs) {
            let (alert, summary) = (&change.status.name, &change.status.summary);
            match change.status.state {
                AlertState::Firing => warn!(alert, "alert is firing: {summary}"),
                AlertState::Pending => info!(alert, "alert is pending: {summary}"),
                AlertState::Resolved => info!(alert, "alert is resolved: {summary}"),
                AlertState::Ok => info!(alert, "alert is no longer pending: {summary}"),
            }
        }
        changes
    }
}
