//! Tracks whether a client is connected while its requests run, to cancel the requests of a client
//! that has left and cannot resume.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// The time from the end of a client's connection to the cancellation of its requests, if the
/// client cannot resume the stream of their answers.
const ABANDONED_AFTER: Duration = Duration::from_secs(5);

/// The state of the HTTP connection on which a client waits for answers.
#[derive(Default)]
pub(super) struct ClientPresence {
    gone: CancellationToken,
    is_resumable: AtomicBool,
}

/// A handle that the HTTP response holds. Dropping it records that the client has disconnected.
pub(super) struct ConnectedClient(Arc<ClientPresence>);

impl ConnectedClient {
    /// Records that the client has received an event with an id, from which it can resume the
    /// stream.
    pub(super) fn set_resumable(&self) {
        self.0.is_resumable.store(true, Ordering::Release);
    }
}

impl Drop for ConnectedClient {
    fn drop(&mut self) {
        self.0.gone.cancel();
    }
}

impl ClientPresence {
    /// Returns the presence of a connected client, and the handle for its HTTP response.
    pub(super) fn connected() -> (Arc<Self>, ConnectedClient) {
        let presence = Arc::new(Self::default());
        (Arc::clone(&presence), ConnectedClient(presence))
    }

    /// Waits until the client has disconnected, and then for the time in which it may return. Never
    /// completes if the client can resume the stream.
    pub(super) async fn abandoned(&self) {
        self.gone.cancelled().await;
        if self.is_resumable.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(ABANDONED_AFTER).await;
    }
}
