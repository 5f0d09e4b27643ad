//! The client that sent a request, and the origin of a request.

use std::sync::Arc;

use http::header::HeaderMap;

use super::client_session::ClientSession;
use crate::admission::{Admission, Rate};
use crate::byte_channel::ByteSender;
use crate::config::Limits;
use crate::fair_queue::Caller;
use crate::headers::{PARAM_PREFIX, client_override, forwarded_headers};
use crate::protocol_mode::{ClientInfo, ProtocolMode};
use crate::revision::GATEWAY_PRINCIPAL;
use crate::stream_limits::StreamLimits;
use crate::upstream::CallerHeaders;

/// The maximum size of the messages that wait for a client in the course of a request, in bytes.
pub(super) const MAX_WAITING_BYTES: usize = 256 << 10;

/// A client of the aggregator, as upstreams and the guard see it.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) principal: Arc<str>,
    /// The caller whose share of an upstream's concurrent requests the client uses.
    pub(super) caller: Caller,
    /// The caller whose share of processes the client uses.
    pub(super) owner: Arc<str>,
    /// The owner under which the guard stores answers for this client: see
    /// [`Admission::storage_scope`].
    pub(super) scope: Arc<str>,
    pub(super) mode: ProtocolMode,
    pub(super) info: Arc<ClientInfo>,
    /// The client whose profile applies instead of that of the name in `info`.
    pub(super) client_override: Option<Arc<str>>,
    /// The session of a stateful client. `None` for a stateless one.
    pub(super) session: Option<Arc<ClientSession>>,
    /// The client's headers that the gateway also sends to HTTP upstreams.
    pub(super) headers: HeaderMap,
    /// True if tool calls must repeat arguments in headers.
    pub(super) has_headers: bool,
    /// Counts calls that a program of the client makes, against its rate limit.
    pub(super) rate: Rate,
    /// The open streams that wait for changes.
    pub(super) streams: Arc<StreamLimits>,
    /// True if the gateway acts for the client on its own, for example to follow changes. Failures
    /// then do not count for the circuit breaker.
    pub(super) is_background: bool,
}

impl Client {
    /// Returns the client to which a session belongs, with the headers of its current request.
    pub(super) fn stateful(
        session: &Arc<ClientSession>,
        admission: &Admission,
        headers: &HeaderMap,
    ) -> Self {
        Self {
            principal: Arc::clone(&session.principal),
            caller: admission.caller.clone(),
            owner: Arc::clone(&admission.owner),
            scope: admission.storage_scope(headers),
            mode: ProtocolMode::Stateful,
            info: Arc::clone(&session.info),
            client_override: client_override(headers).map(Into::into),
            session: Some(Arc::clone(session)),
            headers: forwarded_headers(headers),
            has_headers: false,
            rate: admission.rate.clone(),
            streams: Arc::clone(&admission.streams),
            is_background: false,
        }
    }

    /// Returns the client that sent a stateless request with these headers.
    pub(super) fn stateless(admission: &Admission, info: ClientInfo, headers: &HeaderMap) -> Self {
        Self {
            principal: Arc::clone(&admission.principal),
            caller: admission.caller.clone(),
            owner: Arc::clone(&admission.owner),
            scope: admission.storage_scope(headers),
            mode: ProtocolMode::Stateless,
            info: Arc::new(info),
            client_override: client_override(headers).map(Into::into),
            session: None,
            headers: forwarded_headers(headers),
            has_headers: admission.has_headers,
            rate: admission.rate.clone(),
            streams: Arc::clone(&admission.streams),
            is_background: false,
        }
    }

    /// Returns the gateway itself as a client, for its own work and for requests of operators.
    pub(super) fn gateway() -> Self {
        Self {
            principal: GATEWAY_PRINCIPAL.into(),
            caller: Caller { principal: GATEWAY_PRINCIPAL.into(), session: "".into() },
            owner: GATEWAY_PRINCIPAL.into(),
            scope: GATEWAY_PRINCIPAL.into(),
            mode: ProtocolMode::Stateful,
            info: Arc::new(ClientInfo::gateway()),
            client_override: None,
            session: None,
            headers: HeaderMap::new(),
            has_headers: false,
            rate: Rate::default(),
            // The gateway has few streams of its own, which count apart from those of clients.
            streams: StreamLimits::new(&Limits::default()),
            is_background: true,
        }
    }

    /// Returns the name of the client software whose profile applies. `None` if it is not known.
    pub(super) fn name(&self) -> Option<String> {
        self.client_override.as_deref().map(ToOwned::to_owned).or_else(|| self.info.name())
    }

    /// Counts one more call of the client.
    ///
    /// # Errors
    /// The reason why the client may make no more calls now.
    pub(super) async fn charge(&self) -> Result<(), String> {
        self.rate.charge().await
    }

    /// Returns the client's headers that repeat arguments of a tool call. They are for one request,
    /// unlike the other headers.
    pub(super) fn param_headers(&self) -> HeaderMap {
        let headers = self.headers.iter();
        let repeated = headers.filter(|(name, _)| name.as_str().starts_with(PARAM_PREFIX));
        repeated.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Returns the principal, and the client's headers for all requests on a connection.
    pub(super) fn caller_headers(&self) -> CallerHeaders {
        let headers = self.headers.iter();
        let common = headers.filter(|(name, _)| !name.as_str().starts_with(PARAM_PREFIX));
        CallerHeaders {
            principal: Arc::clone(&self.principal),
            owner: Arc::clone(&self.owner),
            headers: common.map(|(name, value)| (name.clone(), value.clone())).collect(),
            streams: Arc::clone(&self.streams),
        }
    }

    /// Returns a copy of this client for work that the gateway does on its own: `is_background` is
    /// true.
    pub(super) fn in_background(&self) -> Self {
        Self { is_background: true, ..self.clone() }
    }
}

/// The origin of a request: its client, and the channel `out` for notifications and questions that
/// precede the answer.
pub(super) struct Origin<'a> {
    pub(super) client: &'a Client,
    pub(super) out: &'a ByteSender<Vec<u8>>,
    /// The id of the request that runs the program that sends this one. Empty for requests of
    /// clients.
    pub(super) parent: &'a str,
}

impl<'a> Origin<'a> {
    /// Returns the origin of a request that the client itself sent.
    pub(super) fn new(client: &'a Client, out: &'a ByteSender<Vec<u8>>) -> Self {
        Self { client, out, parent: "" }
    }

    /// Sends a notification to the client. Waits for a slow client for a moment, so that the
    /// upstream slows down, and then drops the notification.
    pub(super) async fn notify(&self, message: Vec<u8>) {
        self.out.send(message.len(), message).await;
    }

    /// Sends a request to the client. Returns false if the client reads too slowly.
    pub(super) fn send_request(&self, request: Vec<u8>) -> bool {
        self.out.try_send(request.len(), request)
    }
}
