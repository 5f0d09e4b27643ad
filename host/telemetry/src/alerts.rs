//! Alerts: conditions over sliding windows of calls, and their states.

mod window;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use context_guard_config::AlertRule;
use context_guard_history::Event;
use serde::Serialize;

use window::{Count, Window};

/// The state of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AlertState {
    /// The condition is not met, and the alert has not fired since the start.
    Ok,
    /// The condition is met, but not yet for the time that the rule requires.
    Pending,
    /// The condition has been met for the time that the rule requires.
    Firing,
    /// The alert fired before, and the condition is no longer met.
    Resolved,
}

/// An alert with its state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlertStatus {
    /// The name of the alert.
    pub name: String,
    /// The state of the alert.
    pub state: AlertState,
    /// The time of the last change of the state, in milliseconds since 1970.
    #[serde(rename = "since")]
    pub since_ms: u64,
    /// The value of the condition's left side. `None` if it has none, for example a share of zero
    /// calls.
    pub value: Option<f64>,
    /// The number on the right side of the condition.
    pub threshold: f64,
    /// A sentence that describes the alert to people.
    pub summary: String,
}

/// A change of an alert's state, and its receivers.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertChange {
    /// The alert after the change.
    pub status: AlertStatus,
    /// True if the log receives the change.
    pub logs: bool,
    /// True if the webhook receives the change.
    pub notifies: bool,
}

/// The state of the gateway, as conditions use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatewayState {
    /// The number of upstreams that are down.
    pub upstreams_down: u64,
    /// True if the cursor store cannot be reached.
    pub store_is_down: bool,
    /// The number of lost audit entries since the start.
    pub audit_lost: u64,
    /// The number of definitions of tools that changed or are suspicious, since the start.
    pub definition_alerts: u64,
    /// The number of sampled answers since the start.
    pub samples: u64,
    /// The sum of the exact token counts of all samples.
    pub sampled_actual: u64,
    /// The sum of the estimated token counts of all samples.
    pub sampled_estimate: u64,
}

/// The alerts of a gateway. Their memory is bounded: each distinct window takes about 70 kB, and up
/// to 1 MB more if it counts principals.
#[derive(Default)]
pub struct Alerts(Mutex<State>);

#[derive(Default)]
struct State {
    windows: HashMap<Duration, Window>,
    alerts: Vec<Alert>,
    /// The state of the gateway at the last evaluation.
    last: GatewayState,
}

struct Alert {
    rule: AlertRule,
    status: AlertStatus,
}

impl Alert {
    fn new(rule: AlertRule, now_ms: u64) -> Self {
        let status = AlertStatus {
            name: rule.name.clone(),
            state: AlertState::Ok,
            since_ms: now_ms,
            value: None,
            threshold: rule.condition.threshold(),
            summary: String::new(),
        };
        Self { rule, status }
    }

    /// Sets the state at the time `now_ms`, in milliseconds since 1970, and returns the change.
    fn change(&mut self, state: AlertState, now_ms: u64) -> AlertChange {
        self.status.state = state;
        self.status.since_ms = now_ms;
        AlertChange {
            status: self.status.clone(),
            logs: self.rule.logs,
            // A condition that is met for a moment is no alert yet.
            notifies: self.rule.notifies
                && matches!(state, AlertState::Firing | AlertState::Resolved),
        }
    }

    /// Returns the next state at the time `now_ms`, in milliseconds since 1970. `is_met` is true if
    /// the condition is met.
    fn next(&self, is_met: bool, now_ms: u64) -> AlertState {
        let hold_ms = u64::try_from(self.rule.hold.as_millis()).unwrap_or(u64::MAX);
        let is_over = now_ms.saturating_sub(self.status.since_ms) >= hold_ms;
        match (self.status.state, is_met) {
            (AlertState::Firing, true) => AlertState::Firing,
            (AlertState::Pending, true) if is_over => AlertState::Firing,
            (AlertState::Ok | AlertState::Resolved, true) if hold_ms == 0 => AlertState::Firing,
            (_, true) => AlertState::Pending,
            (AlertState::Firing | AlertState::Resolved, false) => AlertState::Resolved,
            (_, false) => AlertState::Ok,
        }
    }
}

impl Alerts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the alerts at the time `now_ms`, in milliseconds since 1970. An alert that is equal
    /// to an earlier one keeps its state, and windows keep their contents. Returns the changes of
    /// alerts that fired and were removed.
    pub fn set(&self, rules: Vec<AlertRule>, now_ms: u64) -> Vec<AlertChange> {
        let mut state = self.state();
        let mut old = std::mem::take(&mut state.alerts);
        let mut windows = std::mem::take(&mut state.windows);
        for rule in rules {
            let known = old.iter().position(|alert| alert.rule == rule);
            let length = rule.over;
            let has_principals = rule.condition.uses("metadata_queries");
            state.alerts.push(match known {
                Some(at) => old.swap_remove(at),
                None => Alert::new(rule, now_ms),
            });
            let window = state.windows.remove(&length).or_else(|| windows.remove(&length));
            let window = window.filter(|window| window.has_principals() || !has_principals);
            let window = window.unwrap_or_else(|| Window::new(length, has_principals));
            state.windows.insert(length, window);
        }
        let firing = old.iter_mut().filter(|alert| alert.status.state == AlertState::Firing);
        firing.map(|alert| alert.change(AlertState::Resolved, now_ms)).collect()
    }

    /// Counts a request. `metadata_query_by` is the principal of a metadata query, or `None` for
    /// other requests. O(windows).
    pub(crate) fn observe(&self, event: &Event, metadata_query_by: Option<&str>) {
        for window in self.state().windows.values_mut() {
            window.observe(event);
            if let Some(principal) = metadata_query_by {
                window.queried_metadata(principal, event.at_ms);
            }
        }
    }

    /// Evaluates all alerts, and returns the changes of their states. `now_ms` is in milliseconds
    /// since 1970.
    pub fn evaluate(&self, now: &GatewayState, now_ms: u64) -> Vec<AlertChange> {
        let mut state = self.state();
        let State { windows, alerts, last } = &mut *state;
        let more = |new: u64, old: u64| new.saturating_sub(old);
        for window in windows.values_mut() {
            for (count, more) in [
                (Count::AuditLost, more(now.audit_lost, last.audit_lost)),
                (Count::DefinitionAlerts, more(now.definition_alerts, last.definition_alerts)),
                (Count::Samples, more(now.samples, last.samples)),
                (Count::SampledActual, more(now.sampled_actual, last.sampled_actual)),
                (Count::SampledEstimate, more(now.sampled_estimate, last.sampled_estimate)),
            ] {
                window.add(count, more, now_ms);
            }
        }
        *last = *now;
        let totals: HashMap<Duration, _> =
            windows.iter().map(|(length, window)| (*length, window.totals(now_ms))).collect();
        let mut changes = Vec::new();
        for alert in alerts {
            let Some((totals, window)) =
                totals.get(&alert.rule.over).zip(windows.get(&alert.rule.over))
            else {
                continue;
            };
            #[allow(clippy::cast_precision_loss, reason = "counts of one window")]
            let measure = |name: &str| match name {
                "metadata_queries" => Some(window.most_metadata_queries(now_ms) as f64),
                "upstreams_down" => Some(now.upstreams_down as f64),
                "store_down" => Some(f64::from(u8::from(now.store_is_down))),
                name => totals.value(name),
            };
            let calls = totals.get(Count::Calls);
            let is_met = alert.rule.condition.is_true(&measure) == Some(true);
            let is_met = is_met && calls >= alert.rule.min;
            let value = alert.rule.condition.value(&measure);
            alert.status.value = value.map(|value| (value * 10_000.0).round() / 10_000.0);
            alert.status.summary = summary(&alert.rule, alert.status.value, calls);
            let next = alert.next(is_met, now_ms);
            if next != alert.status.state {
                changes.push(alert.change(next, now_ms));
            }
        }
        changes
    }

    /// Returns all alerts with their states.
    #[must_use]
    pub fn report(&self) -> Vec<AlertStatus> {
        self.state().alerts.iter().map(|alert| alert.status.clone()).collect()
    }
}

/// Returns a sentence with the condition, its value and the number of calls. It contains no data
/// of calls.
fn summary(rule: &AlertRule, value: Option<f64>, calls: u64) -> String {
    let value = value.map_or_else(|| "no value".to_owned(), |value| value.to_string());
    let seconds = rule.over.as_secs();
    format!("{}: {value} with {calls} calls in {seconds} s", rule.condition)
}

#[cfg(test)]
mod tests {
    use super::*;
    use context_guard_config::{CALL_MEASURES, Condition, GATEWAY_MEASURES};
    use context_guard_history::Measure;

    const START: u64 = 1_790_000_000_000;

    fn rule(name: &str, when: &str, hold: u64) -> AlertRule {
        AlertRule {
            name: name.to_owned(),
            condition: Condition::parse(when).unwrap(),
            over: Duration::from_secs(60),
            min: 10,
            hold: Duration::from_secs(hold),
            logs: true,
            notifies: true,
        }
    }

    fn calls(alerts: &Alerts, second: u64, count: u64, is_oversized: bool) {
        for _ in 0..count {
            let at_ms = START + second * 1_000;
            alerts.observe(&Event { at_ms, is_oversized, ..Event::default() }, None);
        }
    }

    fn states(alerts: &Alerts, second: u64) -> Vec<(String, AlertState, bool)> {
        let changes = alerts.evaluate(&GatewayState::default(), START + second * 1_000);
        let one = |change: AlertChange| (change.status.name, change.status.state, change.notifies);
        changes.into_iter().map(one).collect()
    }

    #[test]
    fn measures_of_statistics_have_values_here() {
        let names: Vec<&str> = Measure::ALL.iter().map(|measure| measure.name()).collect();
        for name in CALL_MEASURES {
            assert!(names.contains(&name), "{name} is not a metric of statistics");
        }
        let alerts = Alerts::default();
        let all = CALL_MEASURES.iter().chain(&GATEWAY_MEASURES);
        let rules = all.map(|name| AlertRule { min: 0, ..rule(name, &format!("{name} < 0"), 0) });
        alerts.set(rules.collect(), START);
        calls(&alerts, 0, 1, true);
        let samples = GatewayState { samples: 9, sampled_actual: 9, ..GatewayState::default() };
        alerts.evaluate(&samples, START);
        for status in alerts.report() {
            // Without tokens there is no reduction.
            assert_eq!(status.value.is_some(), status.name != "reduction", "{status:?}");
        }
    }

    #[test]
    fn states_follow_the_condition() {
        let alerts = Alerts::default();
        let when = "oversized / calls > 0.05";
        alerts.set(vec![rule("at-once", when, 0), rule("later", when, 5)], START);
        calls(&alerts, 0, 9, true);
        assert_eq!(states(&alerts, 0), []);
        calls(&alerts, 1, 1, true);
        let (fired, pending) = (AlertState::Firing, AlertState::Pending);
        let change = |name: &str, state, notifies| (name.to_owned(), state, notifies);
        let expected = [change("at-once", fired, true), change("later", pending, false)];
        assert_eq!(states(&alerts, 1), expected);
        assert_eq!(states(&alerts, 5), []);
        assert_eq!(states(&alerts, 6), [change("later", fired, true)]);
        assert_eq!(states(&alerts, 20), []);
        calls(&alerts, 21, 190, false);
        let resolved = AlertState::Resolved;
        assert_eq!(
            states(&alerts, 21),
            [change("at-once", resolved, true), change("later", resolved, true)]
        );
        let report = alerts.report();
        assert_eq!((report[0].since_ms, report[0].value), (START + 21_000, Some(0.05)));
        assert_eq!(report[0].summary, "oversized / calls > 0.05: 0.05 with 200 calls in 60 s");
        assert_eq!(serde_json::to_value(&report[0]).unwrap()["state"], "resolved");
    }

    #[test]
    fn pending_alert_that_ends_early_is_not_sent() {
        let alerts = Alerts::default();
        alerts.set(vec![rule("later", "faults + oversized > 0", 30)], START);
        calls(&alerts, 0, 10, true);
        assert_eq!(states(&alerts, 0), [("later".to_owned(), AlertState::Pending, false)]);
        // The calls have left the window.
        assert_eq!(states(&alerts, 61), [("later".to_owned(), AlertState::Ok, false)]);
    }

    #[test]
    fn reload_keeps_states_of_unchanged_alerts() {
        let alerts = Alerts::default();
        let when = "oversized > 0";
        let old = vec![rule("same", when, 0), rule("changed", when, 0), rule("gone", when, 0)];
        alerts.set(old.clone(), START);
        calls(&alerts, 0, 10, true);
        assert_eq!(states(&alerts, 0).len(), 3);
        let changed = AlertRule { over: Duration::from_secs(61), ..old[1].clone() };
        let ended = alerts.set(vec![old[0].clone(), changed], START + 1_000);
        let mut ended: Vec<_> = ended.into_iter().map(|change| change.status.name).collect();
        ended.sort();
        assert_eq!(ended, ["changed", "gone"]);
        let found: Vec<_> = alerts.report().into_iter().map(|alert| alert.state).collect();
        assert_eq!(found, [AlertState::Firing, AlertState::Ok]);
        assert_eq!(states(&alerts, 2), []);
    }

    #[test]
    fn states_of_the_gateway_are_measures() {
        let alerts = Alerts::default();
        let rules = [
            "upstreams_down > 0",
            "store_down > 0",
            "audit_lost > 0",
            "definition_alerts > 1",
            "calls < 0",
        ];
        let rules = rules.map(|when| AlertRule { min: 0, ..rule(when, when, 0) });
        alerts.set(rules.to_vec(), START);
        let state = GatewayState {
            upstreams_down: 1,
            store_is_down: true,
            audit_lost: 3,
            definition_alerts: 2,
            ..GatewayState::default()
        };
        assert_eq!(alerts.evaluate(&state, START).len(), 4);
        // What was lost or reported leaves the window; the other states last.
        let changes = alerts.evaluate(&state, START + 61_000);
        let names: Vec<_> = changes.iter().map(|change| change.status.name.as_str()).collect();
        assert_eq!(names, ["audit_lost > 0", "definition_alerts > 1"]);
    }
}
