//! Notifications of alerts: signed requests to a URL of the operator, as in Standard Webhooks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::json;
use sha2::Sha256;
use tokio::sync::mpsc;
use tracing::warn;

use crate::access::{HttpClient, http_client};
use crate::config::AlertWebhook;
use crate::tasks::AbortOnDrop;
use crate::telemetry::{AlertStatus, Recorder};

/// The maximum number of notifications in the queue.
const MAX_QUEUED: usize = 64;
/// The maximum time of one attempt to send a notification.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The pauses between the attempts to send a notification.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(20),
    Duration::from_secs(60),
];

/// The queue of notifications. A task sends them one by one, so that a receiver sees the changes of
/// an alert in order.
pub(super) struct Webhook {
    queue: mpsc::Sender<Notification>,
    recorder: Arc<Recorder>,
    _sender: AbortOnDrop,
}

struct Notification {
    id: String,
    body: String,
}

impl Webhook {
    /// Starts the task that sends notifications. Relative paths of the secrets refer to `folder`.
    pub(super) fn start(settings: AlertWebhook, folder: PathBuf, recorder: Arc<Recorder>) -> Self {
        let (queue, notifications) = mpsc::channel(MAX_QUEUED);
        let client = http_client();
        let sender =
            Sender { settings, folder, client, recorder: Arc::clone(&recorder), is_failing: false };
        let task = tokio::spawn(sender.run(notifications));
        Self { queue, recorder, _sender: AbortOnDrop(task) }
    }

    /// Queues a notification of an alert. Drops and counts the notification if the queue is full.
    pub(super) fn send(&self, alert: &AlertStatus) {
        let kind = format!("alert.{}", json!(alert.state).as_str().unwrap_or_default());
        let body = json!({"type": kind, "timestamp": alert.since_ms, "data": alert}).to_string();
        let mut random = [0; 16];
        if getrandom::fill(&mut random).is_err()
            || self.queue.try_send(Notification { id: message_id(&random), body }).is_err()
        {
            self.recorder.metrics.notified("dropped");
            warn!(alert = alert.name, "a notification is dropped: the webhook does not answer");
        }
    }
}

fn message_id(random: &[u8]) -> String {
    format!("msg_{}", context_guard_protocol::to_hex(random))
}

struct Sender {
    settings: AlertWebhook,
    folder: PathBuf,
    client: HttpClient,
    recorder: Arc<Recorder>,
    /// True if the last notification failed.
    is_failing: bool,
}

impl Sender {
    async fn run(mut self, mut notifications: mpsc::Receiver<Notification>) {
        while let Some(notification) = notifications.recv().await {
            let result = self.deliver(&notification).await;
            self.recorder.metrics.notified(if result.is_ok() { "sent" } else { "failed" });
            match &result {
                Ok(()) if self.is_failing => warn!("alertWebhook accepts notifications again"),
                Err(reason) if !self.is_failing => {
                    warn!("alertWebhook does not accept notifications: {reason}");
                }
                _ => {}
            }
            self.is_failing = result.is_err();
        }
    }

    /// Sends a notification, with retries.
    ///
    /// # Errors
    /// The reason for the last failure.
    async fn deliver(&self, notification: &Notification) -> Result<(), String> {
        let mut pauses = PAUSES.iter();
        loop {
            let (reason, is_final) = match self.attempt(notification).await {
                Ok(status) if status.is_success() => return Ok(()),
                Ok(status) => (format!("status {status}"), !may_succeed_later(status)),
                Err(reason) => (reason, false),
            };
            match pauses.next() {
                Some(pause) if !is_final => tokio::time::sleep(*pause).await,
                _ => return Err(reason),
            }
        }
    }

    /// Sends a notification once. Does not follow redirects, because only the configured URL was
    /// checked.
    async fn attempt(&self, notification: &Notification) -> Result<StatusCode, String> {
        // The secrets may be in files, which change while the gateway runs.
        let current = |secret: &crate::config::Secret| {
            secret.resolved_again(&self.folder).unwrap_or_else(|_| secret.clone())
        };
        let (url, secret) = (current(&self.settings.url), current(&self.settings.secret));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let signature = sign(secret.expose(), &notification.id, now, &notification.body)?;
        let request = Request::post(url.expose())
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("context-guard/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", &notification.id)
            .header("webhook-timestamp", now)
            .header("webhook-signature", signature)
            .body(Full::new(Bytes::from(notification.body.clone())))
            // The error of an invalid URL could contain it, and the URL is a secret.
            .map_err(|_| "the URL is invalid".to_owned())?;
        match tokio::time::timeout(TIMEOUT, self.client.request(request)).await {
            Ok(Ok(response)) => Ok(response.status()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
        }
    }
}

/// Returns true if a retry of a request with this status may succeed.
fn may_succeed_later(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429)
}

/// Returns the value of the header `webhook-signature`: HMAC-SHA-256 over id, time and body.
/// `seconds` is the time in seconds since 1970.
fn sign(secret: &str, id: &str, seconds: u64, body: &str) -> Result<String, String> {
    let key = match secret.strip_prefix("whsec_") {
        Some(encoded) => STANDARD.decode(encoded).map_err(|_| "whsec_ needs base64".to_owned())?,
        None => secret.as_bytes().to_vec(),
    };
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|error| error.to_string())?;
    mac.update(format!("{id}.{seconds}.{body}").as_bytes());
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_is_that_of_the_standard() {
        // The example of the specification of Standard Webhooks.
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body = r#"{"test": 2432232314}"#;
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let signature = sign(secret, id, 1_614_265_330, body).unwrap();
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_ne!(sign("another secret", id, 1_614_265_330, body).unwrap(), signature);
        assert!(sign("whsec_?", id, 0, body).is_err());
    }

    #[test]
    fn only_passing_faults_are_repeated() {
        for (status, expected) in [(500, true), (503, true), (429, true), (404, false)] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(may_succeed_later(status), expected, "{status}");
        }
    }
}
