//! The common stream of a stateful upstream, which carries messages that belong to no request.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use tracing::debug;

use super::{ResponseReader, StreamableHttp};
use crate::protocol_mode::ProtocolMode;
use crate::tasks::AbortOnDrop;
use crate::upstream::Failure;
use crate::upstream::resumption::REOPEN_PAUSE;

/// The additional pause after the upstream refused the principal.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

impl StreamableHttp {
    /// Starts to read a stateful upstream's common stream, which carries the messages that belong
    /// to no request. Has no effect if the upstream offers no such stream.
    pub(in crate::upstream) fn listen(self: &Arc<Self>) {
        if self.mode == ProtocolMode::Stateless {
            return;
        }
        let mut headers = self.headers_for(b"");
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.remove(CONTENT_TYPE);
        let reader = ResponseReader::new(self, None, true);
        let task = tokio::spawn(async move {
            let (http, mut was_open) = (Arc::clone(&reader.http), false);
            while reader.transport.strong_count() > 0 {
                let principal = &reader.principal;
                let sent =
                    http.send_uncounted(Method::GET, None, principal, &headers, Bytes::new());
                match sent.await {
                    Ok(response) if response.status() == StatusCode::OK => {
                        was_open = true;
                        if let Err(failure) = reader.read(response, &mut None).await {
                            debug!(upstream = reader.http.name, "event stream ended: {failure}");
                        }
                    }
                    // A proxy answers for a server that is away.
                    Ok(response) if response.status().is_server_error() => {}
                    Ok(_) => {
                        // The stream is optional: 405 is the usual answer. After an open stream,
                        // the refusal means that the server has forgotten the session.
                        if was_open {
                            reader.inbox.requests.close(&reader.session_ended());
                        }
                        return;
                    }
                    // The principal has to log in, which takes its time.
                    Err(Failure::Refused(_)) => tokio::time::sleep(REFUSED_PAUSE).await,
                    Err(_) => {}
                }
                tokio::time::sleep(REOPEN_PAUSE).await;
            }
        });
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(AbortOnDrop(task));
    }
}
