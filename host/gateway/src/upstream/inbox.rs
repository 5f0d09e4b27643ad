//! The receiving side of an upstream connection. Delivers each message to the request that it
//! belongs to, or else to all listeners.

use std::sync::Arc;

use tokio::sync::broadcast;

use super::request_table::RequestTable;
use crate::message::{Head, Kind};
use crate::reply;

/// The maximum number of messages that wait for a slow listener. If there are more, the oldest are
/// dropped.
const MAX_WAITING_MESSAGES: usize = 256;

/// The receiving side of a connection: the requests in flight, and the listeners for messages that
/// belong to no request.
pub(crate) struct Inbox {
    pub(super) requests: RequestTable,
    unrelated: broadcast::Sender<Arc<Vec<u8>>>,
}

impl Inbox {
    pub(super) fn new() -> Arc<Self> {
        let unrelated = broadcast::channel(MAX_WAITING_MESSAGES).0;
        Arc::new(Self { requests: RequestTable::default(), unrelated })
    }

    /// Delivers a message of the upstream. `request` is the gateway's id of the request on whose
    /// stream it arrived, if the transport knows. Returns the reply to send if the message is a
    /// ping.
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

    /// Delivers a message from the upstream's common stream. A response is matched by its id, and
    /// other messages belong to no request. Returns the reply to send if the message is a ping.
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

    /// Returns a receiver for later messages that belong to no request.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Arc<Vec<u8>>> {
        self.unrelated.subscribe()
    }
}

/// Returns the reply to a message if it is a ping, otherwise `None`.
fn pong(message: &[u8]) -> Option<Vec<u8>> {
    let head = Head::read(message)?;
    let is_ping = head.kind() == Some(Kind::Request) && head.method() == "ping";
    is_ping.then(|| reply::result(head.raw_id(), "{}"))
}
