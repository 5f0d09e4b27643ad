//! The receiving side of a connection: delivers each message of the upstream to the request that
//! it belongs to, or to all listeners.

use std::sync::Arc;

use tokio::sync::broadcast;

use super::request_table::RequestTable;
use crate::message::{Head, Kind};
use crate::wire::reply;

/// The number of unrelated messages that wait for a slow listener. Beyond, the oldest are dropped.
const MAX_WAITING_MESSAGES: usize = 256;

/// The requests in flight and the listeners of a connection.
pub(crate) struct Inbox {
    pub(super) requests: RequestTable,
    unrelated: broadcast::Sender<Arc<Vec<u8>>>,
}

impl Inbox {
    pub(super) fn new() -> Arc<Self> {
        let unrelated = broadcast::channel(MAX_WAITING_MESSAGES).0;
        Arc::new(Self { requests: RequestTable::default(), unrelated })
    }

    /// Delivers a message. `request` is the request on whose stream the message arrived, if the
    /// transport knows. Returns the reply to a ping.
    pub(super) fn receive(&self, message: Vec<u8>, request: Option<u64>) -> Option<Vec<u8>> {
        // The gateway answers pings itself: a ping concerns the connection, not the client.
        if let Some(pong) = pong(&message) {
            return Some(pong);
        }
        if let Some(unrelated) = self.requests.deliver(message, request) {
            self.publish(unrelated);
        }
        None
    }

    /// Delivers a message of the common stream, which belongs to no request in flight except for
    /// responses: their id names the request.
    pub(super) fn receive_common(&self, message: Vec<u8>) -> Option<Vec<u8>> {
        if Head::read(&message).is_some_and(|head| head.kind() == Some(Kind::Response)) {
            self.requests.deliver(message, None);
            return None;
        }
        let pong = pong(&message);
        if pong.is_none() {
            self.publish(message);
        }
        pong
    }

    fn publish(&self, message: Vec<u8>) {
        let _ = self.unrelated.send(Arc::new(message));
    }

    /// Returns the messages that belong to no request, from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Arc<Vec<u8>>> {
        self.unrelated.subscribe()
    }
}

/// The reply to a message if it is a ping.
fn pong(message: &[u8]) -> Option<Vec<u8>> {
    let head = Head::read(message)?;
    let is_ping = head.kind() == Some(Kind::Request) && head.method() == "ping";
    is_ping.then(|| reply::result(head.raw_id(), "{}"))
}
