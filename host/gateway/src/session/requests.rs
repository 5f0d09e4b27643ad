//! Requests of the client, which the guard or the upstream answers.

use std::borrow::Cow;

use context_guard_protocol::{Envelope, RequestFault, RequestId, request_fault};

use super::{FromClient, Session};
use crate::exchange::{Exchange, NextStep};
use crate::message::text_at;
use crate::reply;
use crate::telemetry::Outcome;

/// Returns the error response to a message that the server may read differently than the guard.
/// `None` if there is no such risk.
pub(super) fn refuse_ambiguous(message: &[u8]) -> Option<Vec<u8>> {
    // A line without an object is no message: the server answers it as without a guard.
    let fault = request_fault(message).filter(|_| message.contains(&b'{'))?;
    let id = Envelope::read(message).and_then(|envelope| envelope.id());
    let id = id.filter(|_| fault != RequestFault::LongId);
    let id = id.as_ref().map_or("null", RequestId::as_str);
    Some(reply::error(id, fault.code(), &fault.to_string()))
}

/// Returns the name that a server tells about itself, in its answer to `initialize` or
/// `server/discover`.
pub(super) fn server_name(answer: &[u8]) -> Option<String> {
    const STATELESS: &str = "/result/_meta/io.modelcontextprotocol~1serverInfo/name";
    text_at(answer, "/result/serverInfo/name").or_else(|| text_at(answer, STATELESS))
}

impl Session {
    /// Passes a request through the filter. Stores the request as pending if it goes to the
    /// upstream.
    pub(super) fn request<'m>(
        &self,
        id: RequestId,
        mut exchange: Exchange,
        message: &'m [u8],
    ) -> FromClient<'m> {
        match exchange.on_request(self.filter(), message) {
            NextStep::Answer(answer, decision) => {
                if let Some(recorder) = &self.recorder {
                    exchange.record(recorder, Some(&decision), answer.len(), Outcome::Passed);
                }
                FromClient { upstream: None, client: Some(answer) }
            }
            NextStep::Forward(changed) => {
                if let Some(recorder) = &self.recorder {
                    exchange.audit_references(recorder);
                }
                self.state().pending.insert(id, exchange);
                let upstream = changed.map_or(Cow::Borrowed(message), Cow::Owned);
                FromClient { upstream: Some(upstream), client: None }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_tells_its_name_in_both_modes() {
        let stateful = br#"{"id":1,"result":{"serverInfo":{"name":"files"}}}"#;
        assert_eq!(server_name(stateful).as_deref(), Some("files"));
        let stateless =
            br#"{"id":1,"result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"web"}}}}"#;
        assert_eq!(server_name(stateless).as_deref(), Some("web"));
        assert_eq!(server_name(br#"{"id":1,"result":{}}"#), None);
    }
}
