//! The resources of a stateful upstream to which the clients of a connection subscribe.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::json;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::connection::UpstreamConnection;
use super::request_table::UpstreamReply;
use crate::fair_queue::Caller;
use crate::message::Head;

/// The maximum time for the upstream's answer to a request that renews or ends a subscription.
const UNSUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of attempts to renew a subscription on a new connection.
const MAX_RENEWALS: usize = 3;
/// The pause before the gateway tries again to renew a subscription.
const RENEWAL_PAUSE: Duration = Duration::from_secs(5);

/// A subscription of one client to a resource, on a connection that other clients may share.
/// Dropping it ends the subscription at the upstream, unless other clients have one.
pub(crate) struct ResourceSubscription {
    connection: Weak<UpstreamConnection>,
    uri: String,
    is_first: bool,
}

impl ResourceSubscription {
    /// Returns true if the resource had no other subscriber on the connection when this one was
    /// added.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// Returns true if the connection has ended, and the subscription with it.
    pub(crate) fn has_ended(&self) -> bool {
        self.connection.upgrade().is_none_or(|connection| connection.has_ended())
    }
}

impl Drop for ResourceSubscription {
    fn drop(&mut self) {
        let Some(connection) = self.connection.upgrade() else { return };
        if connection.subscribers.remove(&self.uri) && !connection.has_ended() {
            let uri = std::mem::take(&mut self.uri);
            tokio::spawn(async move { connection.unsubscribe(&uri).await });
        }
    }
}

impl UpstreamConnection {
    /// Adds a subscriber of a resource, until the returned value is dropped. The caller sends
    /// `resources/subscribe` afterwards, so that the end of another subscription does not undo it.
    pub(crate) fn subscribe(self: &Arc<Self>, uri: &str) -> ResourceSubscription {
        let is_first = self.subscribers.add(uri);
        ResourceSubscription { connection: Arc::downgrade(self), uri: uri.to_owned(), is_first }
    }

    /// Renews subscriptions of an earlier connection. Each request waits for a permit of `caller`.
    /// Failed requests are repeated after a pause, at most [`MAX_RENEWALS`] times in all.
    pub(crate) async fn renew(connection: Weak<Self>, uris: Vec<String>, caller: &Caller) {
        Self::renew_after_pauses(connection, uris, caller, RENEWAL_PAUSE).await;
    }

    async fn renew_after_pauses(
        connection: Weak<Self>,
        mut uris: Vec<String>,
        caller: &Caller,
        pause: Duration,
    ) {
        for attempt in 0..MAX_RENEWALS {
            if attempt > 0 {
                sleep(pause).await;
            }
            // The pause must not keep the connection open.
            let Some(connection) = connection.upgrade().filter(|one| !one.has_ended()) else {
                return;
            };
            let mut failed = Vec::new();
            for uri in uris {
                let turn = connection.server.turns.take(caller, 1).await;
                // The client may have unsubscribed in the meantime.
                if !connection.subscribers.contains(&uri) {
                    continue;
                }
                let is_renewed =
                    turn.is_ok() && connection.send_subscription("resources/subscribe", &uri).await;
                if !is_renewed {
                    failed.push(uri);
                }
            }
            if failed.is_empty() {
                return;
            }
            uris = failed;
        }
    }

    /// Unsubscribes from a resource, if no client subscribes to it.
    async fn unsubscribe(self: &Arc<Self>, uri: &str) {
        if self.subscribers.contains(uri) {
            return;
        }
        self.send_subscription("resources/unsubscribe", uri).await;
        // The upstream may have read a new subscription before the end of the old one.
        if self.subscribers.contains(uri) {
            self.send_subscription("resources/subscribe", uri).await;
        }
    }

    /// Sends a request about the subscription to a resource. Returns true if the upstream accepts.
    async fn send_subscription(self: &Arc<Self>, method: &str, uri: &str) -> bool {
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": {"uri": uri}});
        let answered = async {
            let mut call = self.request_uncounted(request.to_string().as_bytes()).await?;
            loop {
                match call.next().await {
                    UpstreamReply::Related(_) => {}
                    UpstreamReply::Answer(answer) => {
                        return Ok(Head::read(&answer).is_some_and(|head| head.error.is_none()));
                    }
                    UpstreamReply::Failed(failure) => return Err(failure),
                }
            }
        };
        match timeout(UNSUBSCRIBE_TIMEOUT, answered).await {
            Ok(Ok(is_accepted)) => is_accepted,
            Ok(Err(failure)) => {
                debug!(upstream = self.server.name, "{method} failed: {failure}");
                false
            }
            Err(_) => false,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::config::{Limits, Upstream};
    use crate::protocol_mode::{ClientInfo, ProtocolMode};
    use crate::store::clock::SystemClock;
    use crate::stream_limits::StreamLimits;
    use crate::telemetry::Recorder;
    use crate::upstream::CallerHeaders;
    use crate::upstream::processes::Processes;
    use crate::upstream::server::UpstreamServer;

    /// A server that announces each request about a subscription as a changed resource, whose URI
    /// is the method. It refuses subscriptions to `x://refused`.
    const SERVER: &str = r#"
        id=0
        while read -r line; do
            case "$line" in *'"id"'*) ;; *) continue ;; esac
            id=$((id + 1))
            for method in resources/subscribe resources/unsubscribe; do
                case "$line" in *"\"$method\""*)
                    echo '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"'$method'"}}'
                esac
            done
            case "$line" in *x://refused*)
                echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32002,"message":"no"}}'
                continue
            esac
            echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}'
        done"#;

    /// Returns a connection to the server.
    pub(crate) async fn connect() -> Arc<UpstreamConnection> {
        let config = Upstream {
            name: "s".to_owned(),
            command: ["sh", "-c", SERVER].map(str::to_owned).to_vec(),
            ..Upstream::default()
        };
        let recorder = Arc::new(Recorder::new(0, None, Arc::new(SystemClock)));
        let (folder, max_bytes) = (std::env::temp_dir(), Limits::default().response_bytes);
        let processes = Processes::new(4, 4);
        let server = UpstreamServer::new(config, folder, None, max_bytes, processes, recorder);
        let caller = CallerHeaders {
            principal: "alice".into(),
            owner: "alice".into(),
            headers: http::HeaderMap::new(),
            streams: StreamLimits::new(&Limits::default()),
        };
        let (mode, client) = (ProtocolMode::Stateful, ClientInfo::gateway());
        Arc::new(server).open(mode, &client, &caller, true).await.unwrap()
    }

    #[tokio::test]
    async fn last_subscriber_unsubscribes() {
        let connection = connect().await;
        let mut messages = connection.unrelated();
        let [alice, bob] = [(); 2].map(|()| connection.subscribe("x://1"));
        let other = connection.subscribe("x://2");
        for uri in ["x://1", "x://1", "x://2"] {
            connection.send_subscription("resources/subscribe", uri).await;
            let announced = String::from_utf8(messages.recv().await.unwrap().to_vec()).unwrap();
            assert!(announced.contains("resources/subscribe"), "{announced}");
        }
        drop(alice);
        // The task of the first drop would have run before this answer.
        connection.send_subscription("ping", "").await;
        assert!(messages.try_recv().is_err());
        drop(bob);
        let announced = String::from_utf8(messages.recv().await.unwrap().to_vec()).unwrap();
        assert!(announced.contains("resources/unsubscribe"), "{announced}");
        assert!(!connection.subscribers.contains("x://1"));
        drop(other);
    }

    #[tokio::test]
    async fn refused_renewals_are_repeated_a_few_times() {
        let connection = connect().await;
        let mut messages = connection.unrelated();
        let held = ["x://refused", "x://1"].map(|uri| connection.subscribe(uri));
        let caller = Caller { principal: "alice".into(), session: "s".into() };
        let uris = ["x://refused", "x://1", "x://unwanted"].map(str::to_owned).to_vec();
        let weak = Arc::downgrade(&connection);
        UpstreamConnection::renew_after_pauses(weak, uris, &caller, Duration::ZERO).await;
        // An accepted request is sent once, and one for no subscriber never.
        let announced = std::iter::from_fn(|| messages.try_recv().ok()).count();
        assert_eq!(announced, MAX_RENEWALS + 1);
        drop(held);
    }

    #[tokio::test]
    async fn first_subscription_is_known() {
        let connection = connect().await;
        let first = connection.subscribe("x://1");
        assert!(first.is_first() && !connection.subscribe("x://1").is_first());
        assert!(connection.subscribe("x://2").is_first());
    }
}
