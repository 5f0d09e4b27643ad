//! A client's request on its way to an upstream and back.

use std::sync::Arc;
use std::time::Instant;

use super::client_session::ClientSession;
use crate::exchange::Exchange;
use crate::fair_queue::Place;
use crate::upstream::connection::{UpstreamConnection, UpstreamRequest};

/// A client's request that was sent to an upstream, and is not answered yet.
pub(super) struct InFlightRequest {
    pub(super) server: usize,
    /// The request in the client's protocol mode, with the upstream's own names of tools and
    /// resources.
    pub(super) request: Vec<u8>,
    pub(super) exchange: Exchange,
    /// The message to send again if the upstream has forgotten the session. `None` if that cannot
    /// happen, or has happened already.
    pub(super) repeatable: Option<Vec<u8>>,
    pub(super) call: UpstreamRequest,
    /// The turn of the request at the upstream. `None` while a client has to give input.
    pub(super) turn: Option<Place>,
    /// The time of the first request to the upstream.
    pub(super) started: Instant,
    /// The number of times that the upstream has asked for input.
    pub(super) input_rounds: usize,
    pub(super) questions: ClientQuestions,
}

/// The questions that an upstream asks the client, such as elicitations, during one request.
/// Dropping this value withdraws the unanswered ones.
#[derive(Default)]
pub(super) struct ClientQuestions {
    session: Option<Arc<ClientSession>>,
    numbers: Vec<u64>,
}

impl ClientQuestions {
    /// Returns true if the client has not answered all questions yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.has_pending_reply(&self.numbers))
    }

    /// Registers a question of the upstream. Returns the message that forwards it to the client, or
    /// `None` if the client has too many questions to answer.
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

    /// Withdraws the latest question, which the client has not received.
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
