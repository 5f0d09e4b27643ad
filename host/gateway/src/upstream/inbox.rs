//! The receiving side of an upstream connection. Delivers each message to the request to which it
//! belongs, otherwise to all listeners.

use std::sync::Arc;

use tokio::sync::broadcast;

use super::request_table::{Delivery, RequestTable, concerns_all};
use crate::byte_channel::RETRY_PAUSE;
use crate::invalid_output::InvalidOutput;
use crate::message::{Head, Kind};
use crate::reply;

/// The maximum number of messages in the queue of a slow listener. Beyond it, the oldest messages
/// are dropped.
const MAX_WAITING_MESSAGES: usize = 128;
/// The maximum size of a message that belongs to no request, in bytes. A longer one is dropped. The
/// channel retains its last messages, so both limits bound its memory to 4 MB.
const MAX_UNRELATED_BYTES: usize = 32 << 10;

/// The receiving side of a connection: the requests in flight, and the listeners for messages that
/// belong to no request.
pub(crate) struct Inbox {
    pub(super) requests: RequestTable,
    unrelated: broadcast::Sender<Arc<Vec<u8>>>,
    is_shared: bool,
    server: String,
    invalid_output: Arc<InvalidOutput>,
}

impl Inbox {
    /// Creates the receiving side of a connection to `server`. A request receives at most
    /// `max_messages` messages before its answer. `is_shared` is true if clients of several
    /// principals use the connection. `invalid_output` reports invalid answers.
    pub(super) fn new(
        server: &str,
        invalid_output: &Arc<InvalidOutput>,
        max_messages: usize,
        is_shared: bool,
    ) -> Arc<Self> {
        let unrelated = broadcast::channel(MAX_WAITING_MESSAGES).0;
        let requests = RequestTable::new(server, max_messages, is_shared);
        let (server, invalid_output) = (server.to_owned(), Arc::clone(invalid_output));
        Arc::new(Self { requests, unrelated, is_shared, server, invalid_output })
    }

    /// Delivers a message of the upstream. `request` is the gateway's id of the request on whose
    /// stream the message arrived. `None` if the transport does not know it.
    ///
    /// If a client reads slowly and `can_wait` is true, waits for it for a second, and then drops
    /// the message. Returns the reply to send if the message is a ping.
    pub(super) async fn receive(
        &self,
        mut message: Vec<u8>,
        request: Option<u64>,
        can_wait: bool,
    ) -> Option<Vec<u8>> {
        // The gateway answers pings itself: a ping concerns the connection, not the client.
        if let Some(pong) = pong(&message) {
            return Some(pong);
        }
        loop {
            message = match self.requests.deliver(message, request) {
                Delivery::Done => return None,
                Delivery::Unrelated(message) => {
                    self.publish(message);
                    return None;
                }
                Delivery::Unattributed(message) => {
                    self.invalid_output.report_answer(&self.server, &message);
                    return None;
                }
                Delivery::Full(again) if can_wait => again,
                Delivery::Full(_) => return None,
                Delivery::Dropped => {
                    if can_wait {
                        tokio::time::sleep(RETRY_PAUSE).await;
                    }
                    return None;
                }
            };
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Delivers a message from the upstream's common stream. A response is matched by its id. Other
    /// messages belong to no request. Returns the reply to send if the message is a ping.
    pub(super) fn receive_common(&self, message: Vec<u8>) -> Option<Vec<u8>> {
        if Head::read(&message).is_none_or(|head| head.kind() == Some(Kind::Response)) {
            if let Delivery::Unattributed(message) = self.requests.deliver(message, None) {
                self.invalid_output.report_answer(&self.server, &message);
            }
            return None;
        }
        let pong = pong(&message);
        if pong.is_none() {
            self.publish(message);
        }
        pong
    }

    fn publish(&self, message: Vec<u8>) {
        // A log message may be about the call of one of the principals, so the others must not see
        // it. The gateway cannot tell whose it is.
        let is_private = self.is_shared
            && Head::read(&message).is_some_and(|head| {
                head.kind() == Some(Kind::Notification) && !concerns_all(head.method())
            });
        if message.len() <= MAX_UNRELATED_BYTES && !is_private {
            let _ = self.unrelated.send(Arc::new(message));
        }
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
