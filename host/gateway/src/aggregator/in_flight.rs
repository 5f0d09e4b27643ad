//! A client's request in flight to an upstream.

use std::sync::Arc;
use std::time::Instant;

use super::client_session::ClientSession;
use crate::exchange::Exchange;
use crate::fair_queue::Place;
use crate::upstream::connection::{UpstreamConnection, UpstreamRequest};

/// A client's request that was sent to an upstream and is not answered yet.
pub(super) struct InFlightRequest {
    pub(super) server: usize,
    /// The request in the client's protocol mode, with the upstream's own names of tools and
    /// resources.
    pub(super) request: Vec<u8>,
    pub(super) exchange: Exchange,
    /// The message to send again if the upstream ends the session. `None` if the session cannot end
    /// this way, the message was already sent again, or the upstream has begun the request.
    pub(super) repeatable: Option<Vec<u8>>,
    pub(super) call: UpstreamRequest,
    /// The permit of the request at the upstream. `None` while the upstream waits for the client's
    /// input.
    pub(super) turn: Option<Place>,
    /// The time at which the request was first sent to the upstream, plus the time in which the
    /// client had a question to answer. The limit on the duration of the call starts here.
    pub(super) started: Instant,
    /// The number of times that the upstream has requested input from the client.
    pub(super) input_rounds: usize,
    pub(super) questions: ClientQuestions,
}

/// The server-to-client requests of an upstream, such as elicitations, during one client request.
/// Dropping this value withdraws the unanswered ones.
#[derive(Default)]
pub(super) struct ClientQuestions {
    session: Option<Arc<ClientSession>>,
    numbers: Vec<u64>,
}

impl ClientQuestions {
    /// Returns true if the client has not yet answered all of these requests.
    pub(super) fn is_waiting(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.has_pending_reply(&self.numbers))
    }

    /// Registers a request that the upstream sends to the client. Returns the message for the
    /// client, or `None` if the client already has the maximum of unanswered requests.
    pub(super) fn ask(
        &mut self,
        session: &Arc<ClientSession>,
        connection: &Arc<UpstreamConnection>,
        question: &[u8],
    ) -> Option<Vec<u8>> {
        let (number, message) = session.ask_for_upstream(connection, question)?;
        self.session = Some(Arc::clone(session));
        self.numbers.push(number);
        Some(message)
    }

    /// Withdraws the latest server-to-client request, which could not be sent to the client.
    pub(super) fn withdraw_last(&mut self) {
        if let (Some(session), Some(number)) = (&self.session, self.numbers.pop()) {
            session.withdraw(&[number]);
        }
    }
}

impl Drop for ClientQuestions {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            session.withdraw(&self.numbers);
        }
    }
}
