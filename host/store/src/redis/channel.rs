//! Messages to all gateways that use the same server, by publish and subscribe.

use std::sync::Weak;
use std::time::Duration;

use futures_util::StreamExt as _;
use redis::{Client, RedisResult};
use tokio::time::{sleep, timeout};

use super::Remote;
use crate::{ChannelEvent, ChannelFollower};

/// The time without messages after which the connection is checked.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum time for opening a connection, or for checking it.
const PATIENCE: Duration = Duration::from_millis(500);
/// The time between two attempts to connect.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Passes the events of a channel to `follower`, until it returns false or the store is dropped.
/// Reconnects when the connection is lost. Reports both, because messages are lost in between.
pub(super) async fn follow(remote: Weak<Remote>, channel: String, follower: ChannelFollower) {
    loop {
        let Some(open) = remote.upgrade() else { return };
        let client = timeout(PATIENCE, open.server.client()).await;
        drop(open);
        if let Ok(Ok(client)) = client {
            // The reason is that of the store, which reports its own state.
            let _ = receive(&client, &channel, &follower).await;
        }
        if !follower(ChannelEvent::Lost) {
            return;
        }
        sleep(RETRY_INTERVAL).await;
    }
}

async fn receive(client: &Client, channel: &str, follower: &ChannelFollower) -> RedisResult<()> {
    let late =
        |_| redis::RedisError::from(std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer"));
    let opened = timeout(PATIENCE, client.get_async_pubsub()).await.map_err(late)??;
    let (mut sink, mut messages) = opened.split();
    timeout(PATIENCE, sink.subscribe(channel)).await.map_err(late)??;
    let mut goes_on = follower(ChannelEvent::Connected);
    while goes_on {
        match timeout(PING_INTERVAL, messages.next()).await {
            Ok(Some(message)) => {
                let bytes = message.get_payload_bytes().to_vec();
                goes_on = follower(ChannelEvent::Message(bytes.into()));
            }
            Ok(None) => break,
            // A connection whose other end is gone looks like a silent one.
            Err(_) => {
                timeout(PATIENCE, sink.ping::<redis::Value>()).await.map_err(late)??;
            }
        }
    }
    Ok(())
}
