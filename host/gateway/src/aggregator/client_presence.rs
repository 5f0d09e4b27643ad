//! The presence of a client while its requests run. Requests of a client that is gone for good are
//! cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// The time after which requests are cancelled whose client closed the connection, if it cannot
/// resume the stream of their answers.
const ABANDONED_AFTER: Duration = Duration::from_secs(5);

/// The state of the HTTP connection on which a client waits for answers.
#[derive(Default)]
pub(super) struct ClientPresence {
    gone: CancellationToken,
    is_resumable: AtomicBool,
}

/// A handle that the HTTP response holds. Dropping it records that the client no longer waits.
pub(super) struct ConnectedClient(Arc<ClientPresence>);

impl ConnectedClient {
    /// Records that the client has received an event with an id, from which it can resume.
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

    /// Waits until the client is gone and can no longer get an answer. Never returns if it can
    /// resume the stream.
    pub(super) async fn abandoned(&self) {
        self.gone.cancelled().await;
        if self.is_resumable.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(ABANDONED_AFTER).await;
    }
}
