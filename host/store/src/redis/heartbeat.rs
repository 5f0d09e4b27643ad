//! Finds out that a server is dead before many calls have waited for it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, timeout};

use super::{Remote, probe};

/// The time between two heartbeats.
const INTERVAL: Duration = Duration::from_millis(250);
/// The maximum time of a heartbeat. A server that is busy with one long command may take as long.
const PATIENCE: Duration = Duration::from_millis(500);

/// Pings a server while it is in use, over a connection of its own, on which no large value is in
/// the way. A server that does not answer is down: calls that wait for it fail at once. Nodes of a
/// cluster are found by the calls to them.
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
