//! Client requests in a fleet. The replica restores sessions that another replica began, and
//! forwards requests that only one replica can serve to that owner.

use std::net::IpAddr;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::header::HeaderValue;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use memchr::memmem;

use crate::admission::{Admission, owner};
use crate::aggregator::{QUESTION_ID_PREFIX, STATE_PREFIX, random_id, resumed_state};
use crate::fleet::{
    Fleet, OWNER_MARK, Owner, PeerError, SessionDescription, SessionKind, with_owner,
};
use crate::front::sse_paths::SseEndpoint;
use crate::headers::{LAST_EVENT_ID, SESSION_ID, header, storage_scope};
use crate::message::{Head, Kind, split_batch};
use crate::protocol_mode::ClientInfo;
use crate::reply;
use crate::serve::Gateway;

/// Methods whose effect is on the event stream of a session, which the session's owner holds.
const STREAM_METHODS: [&str; 2] = ["resources/subscribe", "resources/unsubscribe"];

/// The session that a request to a fleet names.
pub(crate) struct FleetSession {
    /// The id that the client sent.
    token: HeaderValue,
    pub(crate) state: SessionDescription,
}

/// The replica that serves a request.
enum Destination {
    /// This replica.
    Here,
    /// The owner of the session, or this replica if the owner is unreachable.
    Preferred(Owner),
    /// This owner only. If it is unreachable, the request fails.
    Required(Owner, WhenGone),
    /// No replica: the owner in the request's id cannot be decrypted.
    Nowhere(WhenGone),
}

/// The error response to a request whose owner is unreachable, by what is lost with the owner.
enum WhenGone {
    /// The session is lost: the client must initialize again.
    Session,
    /// The stream is lost, but not the session.
    Stream,
    /// The server-to-client request that the client answers is lost.
    Question,
    /// The request with this id (raw JSON), which waited for the client's input, is lost.
    Input(String),
    /// The connection over HTTP+SSE is lost.
    Connection,
}

impl WhenGone {
    fn response(&self, error: PeerError) -> Response {
        let refuse = |status: StatusCode, code: i64, text: &str| {
            let text = match error {
                PeerError::Gone => text.to_owned(),
                PeerError::Lost => format!("{text} The last request may have been executed."),
            };
            reply::refuse(status, "null", code, &text)
        };
        match self {
            Self::Session => refuse(
                StatusCode::NOT_FOUND,
                reply::REFUSED,
                "Session not found: the replica that held it is gone. Begin again with initialize.",
            ),
            Self::Stream => refuse(
                StatusCode::BAD_REQUEST,
                reply::INVALID_REQUEST,
                "The replica that held this stream is gone: send the request again.",
            ),
            Self::Question => refuse(
                StatusCode::BAD_REQUEST,
                reply::INVALID_REQUEST,
                "The replica that sent this request to the client is gone: send the client's own request again.",
            ),
            Self::Input(id) => {
                let text =
                    "The replica that waited for this input is gone: begin the request again.";
                reply::refuse(StatusCode::OK, id, reply::INVALID_PARAMS, text)
            }
            Self::Connection => refuse(
                StatusCode::NOT_FOUND,
                reply::REFUSED,
                "Session not found: connect to the event stream again.",
            ),
        }
    }
}

impl Gateway {
    /// Reads the session id of a request to a fleet, and replaces it with the internal one. `None`
    /// if the request has no session id or is not for the MCP endpoint, or there is no fleet.
    ///
    /// # Errors
    /// The response that refuses a session id which this fleet did not issue for the principal.
    pub(crate) fn open_fleet_session(
        &self,
        principal: &Arc<str>,
        address: IpAddr,
        parts: &mut Parts,
    ) -> Result<Option<FleetSession>, Box<Response>> {
        let Some(fleet) = self.fleet.as_ref().filter(|_| self.is_mcp(&parts.uri)) else {
            return Ok(None);
        };
        let token = parts.headers.get(SESSION_ID).filter(|token| !token.is_empty()).cloned();
        let Some(token) = token else { return Ok(None) };
        let text = token.to_str().unwrap_or_default();
        let Some(state) = fleet.open(principal, text) else {
            let text = "Session not found: begin again with initialize.";
            let refusal = reply::refuse(StatusCode::NOT_FOUND, "null", reply::REFUSED, text);
            return Err(Box::new(refusal));
        };
        if let Ok(internal) = HeaderValue::from_str(state.internal_id()) {
            parts.headers.insert(SESSION_ID, internal);
        }
        self.restore(&owner(principal, address), principal, &state, &parts.headers);
        Ok(Some(FleetSession { token, state }))
    }

    /// Opens a session that another replica began. Does nothing if only its owner can serve it.
    fn restore(
        &self,
        owner: &Arc<str>,
        principal: &Arc<str>,
        state: &SessionDescription,
        headers: &HeaderMap,
    ) {
        let Some(fleet) = self.fleet.as_ref().filter(|_| !state.is_bound) else { return };
        match &state.kind {
            SessionKind::Aggregated(upstreams) => {
                if !self.aggregator.has_session_id(&state.id) && !fleet.has_ended(principal, state)
                {
                    let client = &state.client;
                    self.aggregator.restore_session(principal, owner, &state.id, client, upstreams);
                }
            }
            SessionKind::Passed(name) => {
                if let Some(single) = &self.single_upstream {
                    let scope = || {
                        let authenticator = self.access.authenticator(headers);
                        let headers = self.forwardable(principal, headers.clone());
                        storage_scope(principal, authenticator.as_ref(), &headers)
                    };
                    single.restore_session(principal, owner, name, &state.client, scope);
                }
            }
        }
    }

    /// Dispatches an admitted request, here or at the replica that owns its session, stream or
    /// suspended request. `is_final` is true if another replica has forwarded the request to this
    /// one.
    pub(crate) async fn dispatch_in_fleet(
        &self,
        admission: &Admission,
        session: Option<FleetSession>,
        address: IpAddr,
        is_final: bool,
        mut parts: Parts,
        body: Bytes,
    ) -> Response {
        let Some(fleet) = self.fleet.as_ref().filter(|_| self.is_mcp(&parts.uri)) else {
            return self.dispatch(admission, parts, body).await;
        };
        let principal = &admission.principal;
        let ends_session = parts.method == Method::DELETE;
        if let Some(session) = session.as_ref().filter(|_| ends_session) {
            fleet.set_ended(principal, &session.state);
        }
        if !is_final {
            let destination = self.destination(fleet, session.as_ref(), &parts, &body);
            let (to, when_gone) = match destination {
                Destination::Here => (None, None),
                Destination::Preferred(to) => (Some(to), None),
                Destination::Required(to, when_gone) => (Some(to), Some(when_gone)),
                Destination::Nowhere(when_gone) => return when_gone.response(PeerError::Gone),
            };
            if let Some(to) = to {
                let mut sent = parts.clone();
                if let Some(session) = &session {
                    sent.headers.insert(SESSION_ID, session.token.clone());
                }
                let address = address.to_string();
                let passed = fleet.forward(&to, &sent, body.clone(), principal, &address).await;
                match (passed, when_gone) {
                    (Ok(response), None) if ends_session => drop(response),
                    (Ok(response), _) => return response,
                    (Err(error), Some(when_gone)) => return when_gone.response(error),
                    (Err(_), None) => {}
                }
            }
        }
        if let Some((_, id)) = header(&parts.headers, LAST_EVENT_ID).split_once(OWNER_MARK)
            && let Ok(id) = HeaderValue::from_str(id)
        {
            parts.headers.insert(LAST_EVENT_ID, id);
        }
        let first = body.clone();
        let mut response = self.dispatch(admission, parts, body).await;
        let issued = header(response.headers(), SESSION_ID).to_owned();
        if !issued.is_empty() {
            let token = match &session {
                // Some upstreams repeat the id in all responses.
                Some(session) if session.state.internal_id() == issued => {
                    Some(session.token.clone())
                }
                _ => self.issue(fleet, principal, &issued, &first),
            };
            let Some(token) = token else {
                return reply::empty(StatusCode::INTERNAL_SERVER_ERROR);
            };
            response.headers_mut().insert(SESSION_ID, token);
        }
        with_owner(response, &fleet.tag().prefix())
    }

    /// Returns the session id for the client, after `body`, an `initialize` request, has opened a
    /// session here under the internal id `issued`. `None` if it cannot be encrypted.
    fn issue(
        &self,
        fleet: &Fleet,
        principal: &Arc<str>,
        issued: &str,
        body: &Bytes,
    ) -> Option<HeaderValue> {
        let own = fleet.own()?.clone();
        let state = match self.aggregator.describe_session(principal, issued) {
            Some((client, upstreams)) => {
                let kind = SessionKind::Aggregated(upstreams);
                let is_bound = self.aggregator.binds_sessions();
                SessionDescription::new(issued.to_owned(), own, is_bound, kind, client)
            }
            None => {
                let head = split_batch(body).into_iter().find_map(Head::read)?;
                let kind = SessionKind::Passed(issued.to_owned());
                let client = ClientInfo::from_initialize(&head).ok()?;
                SessionDescription::new(random_id()?, own, false, kind, client)
            }
        };
        HeaderValue::from_str(&fleet.seal(principal, state)?).ok()
    }

    fn destination(
        &self,
        fleet: &Fleet,
        session: Option<&FleetSession>,
        parts: &Parts,
        body: &Bytes,
    ) -> Destination {
        let required = |tag: &str, when_gone: WhenGone| match fleet.owner_in(tag) {
            Some(owner) if fleet.is_own(&owner) => Destination::Here,
            Some(owner) => Destination::Required(owner, when_gone),
            None => Destination::Nowhere(when_gone),
        };
        if let Some(SseEndpoint::Messages(id)) = self.sse_endpoint(&parts.uri) {
            let tag = id.split_once(OWNER_MARK).map_or("", |(tag, _)| tag);
            return required(tag, WhenGone::Connection);
        }
        let state = session.map(|session| &session.state);
        let elsewhere = state.filter(|state| !fleet.is_own(&state.owner));
        if let Some(state) = elsewhere.filter(|state| state.is_bound) {
            return Destination::Required(state.owner.clone(), WhenGone::Session);
        }
        let last_event = header(&parts.headers, LAST_EVENT_ID);
        if parts.method == Method::GET && !last_event.is_empty() {
            let tag = last_event.split_once(OWNER_MARK).map_or("", |(tag, _)| tag);
            return required(tag, WhenGone::Stream);
        }
        if parts.method == Method::POST
            && let Some((tag, when_gone)) = waiting_owner(body)
        {
            return required(&tag, when_gone);
        }
        // The upstream holds the streams of its own sessions.
        let Some(state) = elsewhere.filter(|state| state.is_aggregated()) else {
            return Destination::Here;
        };
        let is_stream_method = || {
            let heads = split_batch(body).into_iter().filter_map(Head::read);
            heads.into_iter().any(|head| STREAM_METHODS.contains(&head.method()))
        };
        match parts.method {
            Method::GET | Method::DELETE => Destination::Preferred(state.owner.clone()),
            Method::POST if is_stream_method() => {
                Destination::Required(state.owner.clone(), WhenGone::Session)
            }
            _ => Destination::Here,
        }
    }
}

/// Returns the tag of the replica that waits for a message in `body`. It waits for the answer to
/// its server-to-client request, or for the input of a request that it has suspended.
fn waiting_owner(body: &Bytes) -> Option<(String, WhenGone)> {
    // Most messages are neither, and are not parsed.
    memmem::find(body, QUESTION_ID_PREFIX.as_bytes())?;
    split_batch(body).into_iter().filter_map(Head::read).find_map(|head| {
        if head.kind() == Some(Kind::Response) {
            let id: String = serde_json::from_str(head.raw_id()).ok()?;
            let (tag, _) = id.strip_prefix(QUESTION_ID_PREFIX)?.split_once(OWNER_MARK)?;
            return Some((tag.to_owned(), WhenGone::Question));
        }
        let state = resumed_state(&head)?;
        let (tag, _) = state.strip_prefix(STATE_PREFIX)?.split_once(OWNER_MARK)?;
        Some((tag.to_owned(), WhenGone::Input(head.raw_id().to_owned())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_replica_is_found() {
        let tag = |body: &str| waiting_owner(&Bytes::from(body.to_owned())).map(|found| found.0);
        let answer = r#"{"jsonrpc":"2.0","id":"cg-TAG~7","result":{}}"#;
        assert_eq!(tag(answer).as_deref(), Some("TAG"));
        assert_eq!(tag(&format!("[{answer}]")).as_deref(), Some("TAG"));
        let input = r#"{"id":1,"method":"tools/call","params":{"requestState":"cg-parked-TAG~x"}}"#;
        assert_eq!(tag(input).as_deref(), Some("TAG"));
        for other in [
            r#"{"id":"cg-TAG~7","method":"tools/call","params":{}}"#,
            r#"{"id":"cg-7","result":{}}"#,
            r#"{"id":1,"method":"tools/call","params":{"requestState":"an upstream's cg-TAG~x"}}"#,
        ] {
            assert_eq!(tag(other), None, "{other}");
        }
    }
}
