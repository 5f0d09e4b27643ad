//! The alerts of a gateway: the built-in ones, and those of its file.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::alerts::{AlertReceiver, AlertRule, AlertSettings, Condition};
use crate::document::Issue;
use crate::gateway_file::Config;
use crate::oauth_rules::is_secure_url;
use crate::secret::Secret;

/// The maximum number of alerts, including the built-in ones.
const MAX_ALERTS: usize = 64;
/// The shortest and the longest window of an alert.
const WINDOWS: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(24 * 3_600)];
/// The minimum length of the secret that signs notifications, in bytes.
const MIN_SECRET_BYTES: usize = 16;

/// The built-in alerts: name, condition, window in seconds, minimum of calls, and hold in seconds.
const BUILT_IN: [(&str, &str, u64, u64, u64); 8] = [
    ("oversized", "oversized / calls > 0.05", 600, 50, 0),
    ("faults", "faults / calls > 0.05", 300, 20, 0),
    ("upstream-down", "upstreams_down > 0", 60, 0, 30),
    ("store-down", "store_down > 0", 60, 0, 0),
    ("estimates", "estimate_error > 0.3", 3_600, 0, 0),
    ("harvesting", "metadata_queries >= 1000", 3_600, 0, 0),
    ("audit", "audit_lost > 0", 600, 0, 0),
    ("definitions", "definition_alerts > 0", 600, 0, 0),
];

/// Returns the alerts of a gateway: the built-in ones, as the gateway file changes and extends
/// them.
///
/// # Errors
/// The errors of all alerts.
pub fn alert_rules(config: &Config) -> Result<Vec<AlertRule>, Vec<Issue>> {
    let has_webhook = config.alert_webhook.is_some();
    let (mut rules, mut issues) = (Vec::new(), Vec::new());
    for (name, when, over, min, hold) in BUILT_IN {
        let Ok(condition) = Condition::parse(when) else { continue };
        rules.push(AlertRule {
            name: name.to_owned(),
            condition,
            over: Duration::from_secs(over),
            min,
            hold: Duration::from_secs(hold),
            logs: true,
            notifies: has_webhook,
        });
    }
    let mut names = BTreeSet::new();
    for (at, settings) in config.alerts.iter().enumerate() {
        let at = at.to_string();
        let mut fault = |member: &str, reason: String| {
            issues.push(Issue::new(&["alerts", &at, member], reason));
        };
        if !is_name(&settings.name) {
            fault("name", "a name has 1 to 64 letters, digits, `-` and `_`".to_owned());
        } else if !names.insert(&settings.name) {
            fault("name", format!("there is another alert `{}`", settings.name));
        }
        let known = rules.iter().position(|rule| rule.name == settings.name);
        match apply(settings, known.and_then(|at| rules.get(at)), has_webhook, &mut fault) {
            Some(rule) if settings.enabled => match known.and_then(|at| rules.get_mut(at)) {
                Some(place) => *place = rule,
                None => rules.push(rule),
            },
            _ => rules.retain(|rule| rule.name != settings.name),
        }
    }
    if rules.len() > MAX_ALERTS {
        let reason = format!("there are at most {MAX_ALERTS} alerts, with the built-in ones");
        issues.push(Issue::new(&["alerts"], reason));
    }
    if issues.is_empty() { Ok(rules) } else { Err(issues) }
}

/// Returns the alert that `settings` describe, based on `base`, the built-in alert of that name.
/// Reports errors to `fault`. `None` without a valid condition.
fn apply(
    settings: &AlertSettings,
    base: Option<&AlertRule>,
    has_webhook: bool,
    fault: &mut dyn FnMut(&str, String),
) -> Option<AlertRule> {
    let condition = match (&settings.when, base) {
        (Some(when), _) => Condition::parse(when).map_err(|reason| fault("when", reason)).ok(),
        (None, Some(base)) => Some(base.condition.clone()),
        (None, None) => {
            fault("when", "a condition is needed, such as oversized / calls > 0.05".to_owned());
            None
        }
    };
    let mut time = |member: &str, text: &Option<String>, default: Duration| match text {
        None => default,
        Some(text) => duration(text).unwrap_or_else(|| {
            fault(member, format!("`{text}` is not a time, such as 30s, 10m or 1h"));
            default
        }),
    };
    let over = base.map_or(Duration::from_secs(600), |base| base.over);
    let over = time("over", &settings.over, over);
    let hold = base.map_or(Duration::ZERO, |base| base.hold);
    let hold = time("for", &settings.r#for, hold);
    let [shortest, longest] = WINDOWS;
    if over < shortest || over > longest {
        fault("over", "the time is from 10s to 24h".to_owned());
    }
    let sends = |receiver| settings.send.as_ref().map(|send| send.contains(&receiver));
    let notifies = sends(AlertReceiver::Webhook).unwrap_or(has_webhook);
    if notifies && !has_webhook {
        fault("send", "`webhook` needs alertWebhook, with url and secret".to_owned());
    }
    Some(AlertRule {
        name: settings.name.clone(),
        condition: condition?,
        over,
        min: settings.min.or(base.map(|base| base.min)).unwrap_or_default(),
        hold,
        logs: sends(AlertReceiver::Log).unwrap_or(true),
        notifies,
    })
}

/// Returns the errors in the settings of the alerts and of their webhook.
pub(crate) fn alert_errors(config: &Config) -> Vec<Issue> {
    let mut issues = alert_rules(config).err().unwrap_or_default();
    if let Some(webhook) = &config.alert_webhook {
        // A reference that is not resolved has its own error.
        let is_resolved = |secret: &Secret| !secret.expose().contains("${");
        if is_resolved(&webhook.url) && !is_secure_url(webhook.url.expose()) {
            let reason = "an https:// URL is needed, or http:// on this machine";
            issues.push(Issue::new(&["alertWebhook", "url"], reason));
        }
        if is_resolved(&webhook.secret) && webhook.secret.expose().len() < MIN_SECRET_BYTES {
            let reason = format!("a secret has at least {MIN_SECRET_BYTES} characters");
            issues.push(Issue::new(&["alertWebhook", "secret"], reason));
        }
    }
    issues
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// Parses a number with the unit `s`, `m`, `h` or `d`. `None` if it is invalid.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse::<u64>().ok().filter(|_| is_number)?;
    Some(Duration::from_secs(number.checked_mul(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::References;

    fn read(text: &str) -> Result<Vec<AlertRule>, String> {
        let text = format!("upstreams:\n  - name: a\n    command: [cat]\n{text}\n");
        let config = crate::parse("gateway.yaml".as_ref(), &text, [], References::Resolve);
        let config = config.map_err(|error| error.to_string())?;
        Ok(alert_rules(&config).unwrap())
    }

    fn names(rules: &[AlertRule]) -> Vec<&str> {
        rules.iter().map(|rule| rule.name.as_str()).collect()
    }

    #[test]
    fn built_in_alerts_can_be_changed_and_switched_off() {
        let all = [
            "oversized",
            "faults",
            "upstream-down",
            "store-down",
            "estimates",
            "harvesting",
            "audit",
            "definitions",
        ];
        let rules = read("").unwrap();
        assert_eq!(names(&rules), all);
        assert!(rules.iter().all(|rule| rule.logs && !rule.notifies));
        let rules = read(
            "alerts:\n  - {name: oversized, over: 1h, for: 2m}\n  - {name: faults, enabled: false}\n  - {name: slow, when: latency_p95 > 2000, min: 5, send: [log]}",
        )
        .unwrap();
        assert_eq!(names(&rules), [&all[..1], &all[2..], &["slow"]].concat());
        let changed = &rules[0];
        assert_eq!(changed.condition.to_string(), "oversized / calls > 0.05");
        assert_eq!((changed.over.as_secs(), changed.hold.as_secs(), changed.min), (3_600, 120, 50));
        let added = rules.last().unwrap();
        assert_eq!((added.over.as_secs(), added.hold.as_secs(), added.min), (600, 0, 5));
    }

    #[test]
    fn webhook_receives_by_default() {
        let webhook =
            "alertWebhook: {url: 'http://127.0.0.1:9/hook', secret: a-secret-of-24-letters}";
        let rules = read(webhook).unwrap();
        assert!(rules.iter().all(|rule| rule.logs && rule.notifies));
        let rules = read(&format!("{webhook}\nalerts: [{{name: audit, send: []}}]")).unwrap();
        assert!(rules.iter().all(|rule| (rule.name != "audit") == rule.notifies));
    }

    #[test]
    fn faults_have_lines_and_reasons() {
        let text = "\
alertWebhook: {url: 'http://hooks.example/x', secret: short}
alerts:
  - name: oversized
    over: 5
  - name: new
  - name: new
    when: oversise > 1
  - name: 'no name'
    when: calls > 1
    over: 1s";
        let faults = read(text).unwrap_err();
        for expected in [
            "line 4: alertWebhook.url: an https:// URL is needed",
            "line 4: alertWebhook.secret: a secret has at least 16 characters",
            "line 7: alerts[0].over: expected string or null such as \"10m\"",
        ] {
            assert!(faults.contains(expected), "{expected} is not in:\n{faults}");
        }
        let faults = read(&text.replace("over: 5", "over: 5x")).unwrap_err();
        for expected in [
            "line 7: alerts[0].over: `5x` is not a time",
            "line 8: alerts[1].when: a condition is needed",
            "line 9: alerts[2].name: there is another alert `new`",
            "line 10: alerts[2].when: column 1: there is no measure `oversise`; there are calls,",
            "line 11: alerts[3].name: a name has",
            "line 13: alerts[3].over: the time is from 10s to 24h",
        ] {
            assert!(faults.contains(expected), "{expected} is not in:\n{faults}");
        }
        let missing = read("alerts: [{name: faults, send: [webhook]}]").unwrap_err();
        assert!(missing.contains("alerts[0].send: `webhook` needs alertWebhook"), "{missing}");
    }
}
