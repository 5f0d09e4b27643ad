//! Evaluates the alerts of a gateway, and sends their changes to the webhook.

mod webhook;

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use crate::config::{Config, alert_rules};
use crate::serve::Gateway;
use crate::telemetry::{AlertChange, GatewayState};
use webhook::Webhook;

/// The time between two evaluations. An alert fires at most this long after its condition has been
/// met for its time.
const INTERVAL: Duration = Duration::from_secs(2);

/// Evaluates the alerts periodically. Runs until its task is dropped.
pub(crate) async fn run(gateway: Arc<Gateway>) {
    let webhook = gateway.config.alert_webhook.clone().map(|webhook| {
        Webhook::start(webhook, gateway.config.folder.clone(), Arc::clone(&gateway.recorder))
    });
    loop {
        let gone = std::mem::take(&mut *gateway.gone_alerts());
        let changes = gateway.recorder.evaluate_alerts(&gateway.alert_state());
        if let Some(webhook) = &webhook {
            let changes = gone.iter().chain(&changes).filter(|change| change.notifies);
            changes.for_each(|change| webhook.send(&change.status));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

impl Gateway {
    /// Sets the alerts to those of a changed gateway file. Alerts that are equal to earlier ones
    /// keep their state.
    pub fn set_alerts(&self, config: &Config) {
        match alert_rules(config) {
            Ok(rules) => {
                let gone: Vec<AlertChange> = self.recorder.set_alerts(rules);
                self.gone_alerts().extend(gone);
            }
            // The file was checked when it was read.
            Err(issues) => warn!("the alerts are unchanged: {} faults", issues.len()),
        }
    }

    /// Returns the state of the gateway, as conditions of alerts use it.
    fn alert_state(&self) -> GatewayState {
        let sampled = self.filter.sampler().map(|sampler| sampler.total()).unwrap_or_default();
        GatewayState {
            upstreams_down: self.upstreams_down(),
            store_is_down: !self.filter.store_is_up(),
            samples: sampled.samples,
            sampled_actual: sampled.actual,
            sampled_estimate: sampled.estimated,
            ..GatewayState::default()
        }
    }
}
