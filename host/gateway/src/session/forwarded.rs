//! The requests of an HTTP exchange, which its end removes from the session.

use std::sync::Arc;

use context_guard_protocol::Envelope;
use context_guard_protocol::batch::split_batch;

use super::Session;
use super::detached::PendingNumber;

/// The pending requests of an HTTP exchange. Dropping this value removes those that the upstream
/// has not answered, unless the client can resume the stream of their answers.
pub(crate) struct ForwardedRequests {
    session: Arc<Session>,
    requests: Vec<PendingNumber>,
}

impl ForwardedRequests {
    /// Returns the requests of a client's message or batch that `session` has passed.
    pub(crate) fn new(session: &Arc<Session>, body: &[u8]) -> Self {
        let messages = split_batch(body).into_iter();
        let ids = messages.filter_map(|message| Envelope::read(message)?.id());
        let state = session.state();
        let requests = ids.filter_map(|id| {
            let number = state.pending.number(&id)?;
            Some((id, number))
        });
        let requests = requests.collect();
        drop(state);
        Self { session: Arc::clone(session), requests }
    }

    /// Expects the answers on another stream of the session.
    pub(crate) fn detach(mut self) {
        let requests = std::mem::take(&mut self.requests);
        let mut state = self.session.state();
        for request in requests {
            state.detach(request);
        }
    }
}

impl Drop for ForwardedRequests {
    fn drop(&mut self) {
        let mut state = self.session.state();
        for request in std::mem::take(&mut self.requests) {
            if state.is_resumable {
                state.detach(request);
            } else {
                state.abandon_pending(&request);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::session::detached::{MAX_DETACHED, MAX_DETACHED_BYTES, detached_memory};
    use crate::session::tests::session;

    fn forward(session: &Arc<Session>, body: &str) -> ForwardedRequests {
        assert!(session.pass_from_client(body.as_bytes(), None).upstream.is_some());
        ForwardedRequests::new(session, body.as_bytes())
    }

    #[test]
    fn abandoned_requests_are_removed() {
        let session = Arc::new(session());
        let batch = r#"[{"id":1,"method":"tools/list"},{"id":"a","method":"tools/list"}]"#;
        let requests = forward(&session, batch);
        assert!(session.is_waiting());
        drop(requests);
        assert!(!session.is_waiting());
        // A client that uses an id again has a later request.
        let (first, second) = (r#"{"id":1,"method":"ping"}"#, r#"{"id":1,"method":"tools/list"}"#);
        let first = forward(&session, first);
        let second = forward(&session, second);
        drop(first);
        assert!(session.is_waiting());
        drop(second);
        assert!(!session.is_waiting());
    }

    #[test]
    fn requests_of_resumable_sessions_are_limited() {
        let memory = detached_memory();
        let session = Arc::new(session().with_detached_memory(&memory, &"p".into()));
        session.set_resumable();
        let numbers = || session.state().pending.numbers().count();
        for id in 0..=MAX_DETACHED {
            drop(forward(&session, &format!(r#"{{"id":{id},"method":"tools/list"}}"#)));
        }
        assert_eq!(numbers(), MAX_DETACHED);
        let answers = session.pass_from_upstream(br#"{"id":9,"result":{}}"#, Some(&[]));
        assert_eq!((answers.len(), numbers()), (1, MAX_DETACHED - 1));
        // The name of the tool is a part of the exchange.
        let name = "x".repeat(MAX_DETACHED_BYTES / 2);
        for id in ["a", "b", "c"] {
            let call =
                format!(r#"{{"id":"{id}","method":"tools/call","params":{{"name":"{name}"}}}}"#);
            forward(&session, &call).detach();
            assert!(session.state().detached.bytes <= MAX_DETACHED_BYTES);
        }
        assert!(numbers() <= 1, "{}", numbers());
    }
}
