//! The settings of alerts, and of the webhook that receives them.

mod expression;

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

pub use expression::{CALL_MEASURES, Comparison, Condition, GATEWAY_MEASURES};

use crate::secret::Secret;

/// An alert. With the name of a built-in alert, it changes the given members of that alert.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AlertSettings {
    /// The name: `oversized`, `faults`, `upstream-down`, `store-down`, `estimates`, `harvesting`,
    /// `audit` and `definitions` are built in.
    pub name: String,
    /// False switches the alert off.
    #[serde(default = "enabled")]
    pub enabled: bool,
    /// The condition: an expression of measures, `>`, `>=`, `<` or `<=`, and a number.
    #[schemars(example = "oversized / calls > 0.05")]
    pub when: Option<String>,
    /// The time over which measures are counted, from 10s to 24h; by default 10m.
    #[schemars(example = "10m")]
    pub over: Option<String>,
    /// The minimum number of calls in that time. With fewer, the condition is not met.
    pub min: Option<u64>,
    /// The time for which the condition must be met until the alert fires; by default 0s.
    #[schemars(example = "2m")]
    pub r#for: Option<String>,
    /// The receivers of changes. By default the log, and the webhook if there is one.
    pub send: Option<Vec<AlertReceiver>>,
}

fn enabled() -> bool {
    true
}

/// A receiver of changes of alerts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AlertReceiver {
    /// The log of the gateway.
    Log,
    /// `alertWebhook`.
    Webhook,
}

/// The URL that receives changes of alerts, signed as in Standard Webhooks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AlertWebhook {
    /// The URL: https://, or http:// on this machine.
    pub url: Secret,
    /// The key of the HMAC-SHA-256 signature: at least 16 characters, or `whsec_` and base64.
    pub secret: Secret,
}

/// An alert with all its members.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertRule {
    /// The name of the alert.
    pub name: String,
    /// The condition that the alert reports.
    pub condition: Condition,
    /// The window over which the condition's metrics are counted.
    pub over: Duration,
    /// The minimum number of calls in the window. With fewer, the condition is not met.
    pub min: u64,
    /// The time for which the condition must be met until the alert fires.
    pub hold: Duration,
    /// True if the log receives changes.
    pub logs: bool,
    /// True if the webhook receives changes.
    pub notifies: bool,
}
