//! The client of a request.

use std::sync::Arc;

use http::header::HeaderMap;
use tokio::sync::mpsc::UnboundedSender;

use super::client_session::ClientSession;
use crate::headers::{forwarded_headers, storage_scope};
use crate::protocol_mode::{ClientInfo, ProtocolMode};

/// A client as upstreams and the guard see it.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) principal: Arc<str>,
    /// The owner of its stored answers.
    pub(super) scope: Arc<str>,
    pub(super) mode: ProtocolMode,
    pub(super) info: ClientInfo,
    /// The session of a stateful client.
    pub(super) session: Option<Arc<ClientSession>>,
    /// The headers that HTTP upstreams receive too.
    pub(super) headers: HeaderMap,
}

impl Client {
    /// The client of a session. Only the principal of the session can use it.
    pub(super) fn stateful(session: &Arc<ClientSession>, headers: &HeaderMap) -> Self {
        Self {
            principal: Arc::clone(&session.principal),
            scope: storage_scope(&session.principal, headers),
            mode: ProtocolMode::Stateful,
            info: session.info.clone(),
            session: Some(Arc::clone(session)),
            headers: forwarded_headers(headers),
        }
    }

    /// The client of a stateless request.
    pub(super) fn stateless(principal: &Arc<str>, info: ClientInfo, headers: &HeaderMap) -> Self {
        Self {
            principal: Arc::clone(principal),
            scope: storage_scope(principal, headers),
            mode: ProtocolMode::Stateless,
            info,
            session: None,
            headers: forwarded_headers(headers),
        }
    }
}

/// The origin of a request: its client, and the channel for messages in its course.
pub(super) struct Origin<'a> {
    pub(super) client: &'a Client,
    pub(super) out: &'a UnboundedSender<Vec<u8>>,
}
