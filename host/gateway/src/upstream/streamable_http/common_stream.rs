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
/// The pause until the next attempt to open the stream of a caller with too many streams.
const FULL_PAUSE: Duration = Duration::from_secs(30);

impl StreamableHttp {
    /// Starts to read a stateful upstream's common stream, which carries the messages that belong
    /// to no request. Has no effect if the upstream offers no such stream. Waits while the
    /// caller has too many of them.
    pub(in crate::upstream) fn listen(self: &Arc<Self>) {
        if self.mode == ProtocolMode::Stateless {
            return;
        }
        let mut headers = self.headers_for(b"");
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.remove(CONTENT_TYPE);
        let reader = ResponseReader::new(self, None, true);
        let (streams, owner) = (Arc::clone(&self.caller.streams), Arc::clone(&self.caller.owner));
        let task = tokio::spawn(async move {
            let (http, mut was_open) = (Arc::clone(&reader.http), false);
            // Each stream may occupy a connection, for as long as the session lasts.
            let _stream = loop {
                match streams.open_optional(&owner, &http.name) {
                    Some(stream) => break stream,
                    None => tokio::time::sleep(FULL_PAUSE).await,
                }
            };
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

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use tokio::net::TcpListener;

    use super::*;
    use crate::config::Limits;
    use crate::stream_limits::StreamLimits;
    use crate::upstream::CallerHeaders;
    use crate::upstream::http_upstream::tests::upstream_at;
    use crate::upstream::inbox::Inbox;

    #[tokio::test]
    async fn common_streams_count_as_streams_of_their_caller() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http = upstream_at(&listener);
        let settings = Limits { streams: 4, streams_per_principal: Some(4), ..Limits::default() };
        let streams = StreamLimits::new(&settings);
        let caller = CallerHeaders {
            principal: "alice".into(),
            owner: "alice".into(),
            headers: HeaderMap::new(),
            streams: Arc::clone(&streams),
        };
        let mut open = Vec::new();
        for session in 0..3 {
            let inbox = Inbox::new("s", &Arc::default(), 1, false);
            let mode = ProtocolMode::Stateful;
            let transport = StreamableHttp::new(&http, mode, caller.clone(), &inbox);
            transport.listen();
            // The third session has no stream, because two are half of the limit.
            let connection = match session {
                0 | 1 => Some(listener.accept().await.unwrap()),
                _ => None,
            };
            open.push((transport, connection));
        }
        let owner = &caller.owner;
        let others: Vec<_> = (0..2).map(|_| streams.open(owner).unwrap()).collect();
        assert!(streams.open(owner).is_err());
        drop((open, others));
        // The tasks of the streams end when they are next polled.
        while streams.open_optional(owner, "s").is_none() {
            tokio::task::yield_now().await;
        }
    }
}
