//! Detects that a server is down before many calls have waited for it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, timeout};

use super::{Remote, probe};

/// The time between two heartbeats.
const INTERVAL: Duration = Duration::from_millis(250);
/// The maximum time of a heartbeat. A server that is busy with one long command may take this long.
const PATIENCE: Duration = Duration::from_millis(500);

/// Pings a server at intervals while it is in use. A separate connection ensures that no large
/// value delays the ping.
///
/// If the server does not answer, it counts as down, and calls that wait for it fail at once. In a
/// cluster, only calls detect nodes that are down.
pub(super) async fn watch(remote: Weak<Remote>, probe_key: String) {
    let mut connection = None;
    loop {
        sleep(INTERVAL).await;
        let Some(remote) = remote.upgrade() else { return };
        if remote.server.is_cluster() {
            return;
        }
        // A gateway that stores nothing does not connect.
        if !remote.health.is_up() || !remote.is_connected.load(std::sync::atomic::Ordering::Relaxed)
        {
            connection = None;
            continue;
        }
        let patience = PATIENCE.min(remote.timeout);
        let beat = async {
            let mut open = match connection.take() {
                Some(open) => open,
                None => remote.server.open_node().await?,
            };
            redis::cmd("PING").query_async::<()>(&mut open).await?;
            Ok::<MultiplexedConnection, redis::RedisError>(open)
        };
        let reason = match timeout(patience, beat).await {
            Ok(Ok(open)) => {
                connection = Some(open);
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer to a ping within {} ms", patience.as_millis()),
        };
        if remote.health.failed_probe(&reason) {
            remote.forget_connection();
            tokio::spawn(probe(Arc::downgrade(&remote), probe_key.clone()));
        }
    }
}
