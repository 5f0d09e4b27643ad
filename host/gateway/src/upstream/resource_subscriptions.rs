//! The resources of a stateful upstream that the clients of a connection subscribe to.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use tracing::debug;

use super::connection::UpstreamConnection;
use super::request_table::UpstreamReply;
use crate::fair_queue::Caller;

/// The maximum time that an upstream takes to confirm the end of a subscription.
const UNSUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// A subscription of one client to a resource, on a connection that others may use. Dropping it
/// ends the subscription at the upstream, unless other clients have one.
pub(crate) struct ResourceSubscription {
    connection: Weak<UpstreamConnection>,
    uri: String,
}

impl ResourceSubscription {
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
    /// Counts a subscriber of a resource, until the returned value is dropped. The caller sends
    /// `resources/subscribe` afterwards: an end of other subscriptions then does not undo it.
    pub(crate) fn subscribe(self: &Arc<Self>, uri: &str) -> ResourceSubscription {
        self.subscribers.add(uri);
        ResourceSubscription { connection: Arc::downgrade(self), uri: uri.to_owned() }
    }

    /// Subscribes to resources again that clients subscribed to on an earlier connection. Each
    /// request waits for a turn of `caller`.
    pub(crate) async fn renew(self: &Arc<Self>, uris: &[String], caller: &Caller) {
        for uri in uris {
            let Ok(_turn) = self.server.turns.take(caller, 1).await else { continue };
            // The client may have unsubscribed in the meantime.
            if self.subscribers.contains(uri) {
                self.send_subscription("resources/subscribe", uri).await;
            }
        }
    }

    /// Unsubscribes from a resource that no client subscribes to.
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

    async fn send_subscription(self: &Arc<Self>, method: &str, uri: &str) {
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": {"uri": uri}});
        let answered = async {
            let mut call = self.request_uncounted(request.to_string().as_bytes()).await?;
            loop {
                match call.next().await {
                    UpstreamReply::Related(_) => {}
                    UpstreamReply::Answer(_) => return Ok(()),
                    UpstreamReply::Failed(failure) => return Err(failure),
                }
            }
        };
        if let Ok(Err(failure)) = timeout(UNSUBSCRIBE_TIMEOUT, answered).await {
            debug!(upstream = self.server.name, "{method} failed: {failure}");
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::config::{Limits, Upstream};
    use crate::protocol_mode::{ClientInfo, ProtocolMode};
    use crate::store::clock::SystemClock;
    use crate::telemetry::Recorder;
    use crate::upstream::CallerHeaders;
    use crate::upstream::processes::Processes;
    use crate::upstream::server::UpstreamServer;

    /// A server that announces each request about a subscription as a changed resource, whose URI
    /// is the method.
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
}
