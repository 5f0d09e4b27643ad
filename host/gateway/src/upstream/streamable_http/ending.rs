//! The end of a connection over Streamable HTTP, and of its session.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use http::Method;

use super::StreamableHttp;

impl StreamableHttp {
    /// Returns a function that closes the event stream and ends the session.
    pub(in crate::upstream) fn closing(self: &Arc<Self>) -> impl FnOnce() + Send + use<> {
        let transport = Arc::downgrade(self);
        move || {
            if let Some(transport) = transport.upgrade() {
                transport.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
                transport.end_session();
            }
        }
    }

    /// Ends the session with the upstream, unless other replicas use it.
    fn end_session(&self) {
        // The server holds state for a session. DELETE frees it.
        if self.session().id.is_some()
            && !self.is_portable.load(Ordering::Relaxed)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (http, headers) = (Arc::clone(&self.http), self.headers_for(b""));
            self.session().id = None;
            let principal = Arc::clone(&self.caller.principal);
            runtime.spawn(async move {
                let body = Bytes::new();
                let _ = http.send_uncounted(Method::DELETE, None, &principal, &headers, body).await;
            });
        }
    }
}

impl Drop for StreamableHttp {
    fn drop(&mut self) {
        self.end_session();
    }
}
