//! A request on its way to an upstream and back.

use std::sync::Arc;

use super::client_session::ClientSession;
use crate::exchange::Exchange;
use crate::upstream::connection::{UpstreamConnection, UpstreamRequest};

/// A request in flight.
pub(super) struct InFlightRequest {
    pub(super) server: usize,
    /// The request in the client's mode, under the upstream's names.
    pub(super) request: Vec<u8>,
    pub(super) exchange: Exchange,
    pub(super) call: UpstreamRequest,
    /// The number of times that the upstream asked for input.
    pub(super) input_rounds: usize,
    pub(super) questions: ClientQuestions,
}

/// The questions that the client was asked in the course of a request. Dropping them withdraws
/// those that are not answered.
#[derive(Default)]
pub(super) struct ClientQuestions {
    session: Option<Arc<ClientSession>>,
    numbers: Vec<u64>,
}

impl ClientQuestions {
    /// Returns true if a question is not answered yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.has_pending_reply(&self.numbers))
    }

    /// Returns the message that asks the client a question of an upstream.
    pub(super) fn ask(
        &mut self,
        session: &Arc<ClientSession>,
        connection: &Arc<UpstreamConnection>,
        question: &[u8],
    ) -> Vec<u8> {
        let (number, message) = session.ask_for_upstream(connection, question);
        self.session = Some(Arc::clone(session));
        self.numbers.push(number);
        message
    }
}

impl Drop for ClientQuestions {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            session.withdraw(&self.numbers);
        }
    }
}
