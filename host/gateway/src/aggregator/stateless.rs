//! Runs the requests of stateless clients. A request is cancelled when its HTTP connection closes.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http::request::Parts;
use serde_json::{Value, json};

use super::Aggregator;
use super::client::{Client, MAX_WAITING_BYTES, Origin};
use super::event_response::{KEEP_ALIVE_INTERVAL, event, keep_alive};
use super::subscription_filter::{ACKNOWLEDGED, SubscriptionFilter, with_subscription_id};
use crate::admission::Admission;
use crate::byte_channel::byte_channel;
use crate::message::{
    CAPABILITIES_KEY, CLIENT_KEY, Head, Kind, STATELESS_VERSION, SUBSCRIPTION_KEY,
};
use crate::protocol_mode::{ClientInfo, UNKNOWN_CLIENT};
use crate::reply;
use context_guard_protocol::sse::Event;

/// Methods that stateful protocol versions define, but stateless ones do not.
const REMOVED_METHODS: [&str; 6] = [
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/result",
];

impl Aggregator {
    /// Answers a stateless request with JSON. The answer is an event stream if other messages
    /// precede it, or if it takes long.
    pub(super) async fn post_stateless(
        self: &Arc<Self>,
        admission: &Admission,
        parts: &Parts,
        message: Vec<u8>,
    ) -> Response {
        let Some(head) = Head::read(&message) else { return reply::empty(StatusCode::BAD_REQUEST) };
        if head.kind() != Some(Kind::Request) {
            return reply::empty(StatusCode::ACCEPTED);
        }
        if let Some(refusal) = refusal(&head) {
            return refusal;
        }
        let parameters = head.parameters();
        let meta = |name: &str, default: &str| {
            parameters.meta(name).map_or_else(|| default.to_owned(), |value| value.to_string())
        };
        let (capabilities, own) = (meta(CAPABILITIES_KEY, "{}"), meta(CLIENT_KEY, UNKNOWN_CLIENT));
        let info = match ClientInfo::new(STATELESS_VERSION, capabilities, own) {
            Ok(info) => info,
            Err(reason) => {
                let (status, code) = (StatusCode::BAD_REQUEST, reply::INVALID_PARAMS);
                return reply::refuse(status, head.raw_id(), code, &reason);
            }
        };
        let client = Client::stateless(admission, info, &parts.headers);
        if head.method() == "subscriptions/listen" {
            return self.listen(admission, client, &head).await;
        }
        self.run_stateless(client, message, admission.clone()).await
    }

    async fn run_stateless(
        self: &Arc<Self>,
        client: Client,
        message: Vec<u8>,
        admission: Admission,
    ) -> Response {
        let (aggregator, (out, mut related)) = (Arc::clone(self), byte_channel(MAX_WAITING_BYTES));
        let mut answer = Box::pin(async move {
            // The request occupies its place until it is answered.
            let _admission = admission;
            let origin = Origin::new(&client, &out);
            aggregator.answer(&origin, &message).await
        });
        let first = tokio::select! {
            biased;
            answer = &mut answer => return json_response(answer),
            Some(message) = related.recv() => event(&message),
            () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => keep_alive(),
        };
        let state = Some((answer, related, Some(first)));
        let body = stream::unfold(state, |state| async move {
            let (mut answer, mut related, first) = state?;
            if let Some(first) = first {
                return Some((first, Some((answer, related, None))));
            }
            tokio::select! {
                // Biased, so that messages in the course of the request precede its answer.
                biased;
                Some(message) = related.recv() => {
                    Some((event(&message), Some((answer, related, None))))
                }
                answer = &mut answer => {
                    let mut last = Vec::new();
                    while let Some(message) = related.try_recv() {
                        last.extend_from_slice(&Event::message(None, &message).0);
                    }
                    last.extend_from_slice(&Event::message(None, &answer).0);
                    Some((Ok(Bytes::from(last)), None))
                }
                () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => {
                    Some((keep_alive(), Some((answer, related, None))))
                }
            }
        });
        reply::events(Body::from_stream(body))
    }

    /// Answers `subscriptions/listen` with an event stream of change notifications.
    async fn listen(&self, admission: &Admission, client: Client, head: &Head<'_>) -> Response {
        let filter = match SubscriptionFilter::parse(head) {
            Ok(filter) => filter,
            Err(reason) => {
                let (status, code) = (StatusCode::OK, reply::INVALID_PARAMS);
                return reply::refuse(status, head.raw_id(), code, &reason);
            }
        };
        let open = match admission.open_stream() {
            Ok(open) => open,
            Err(full) => {
                self.recorder.refused(&client.principal, "streams", &full.to_string());
                let (status, text) = (full.status(), full.to_string());
                return reply::refuse(status, head.raw_id(), reply::REFUSED, &text);
            }
        };
        let id = head.raw_id().to_owned();
        let parsed_id: Value = serde_json::from_str(&id).unwrap_or_default();
        let acknowledged = json!({
            "jsonrpc": "2.0",
            "method": ACKNOWLEDGED,
            "params": {"notifications": filter.json(), "_meta": {SUBSCRIPTION_KEY: parsed_id}},
        });
        let (to, changes) = byte_channel(MAX_WAITING_BYTES);
        let tasks = self.subscriptions.subscribe(&client, &filter, &to).await;
        let first = Event::message(None, acknowledged.to_string().as_bytes()).0;
        // `to` keeps the channel open while no upstream is connected.
        let state = (changes, (tasks, open), to, id, Some(first));
        let body = stream::unfold(state, |(mut changes, held, to, id, first)| async move {
            let bytes = match first {
                Some(first) => Ok(Bytes::from(first)),
                None => tokio::select! {
                    change = changes.recv() => event(&with_subscription_id(&change?, &id)),
                    () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => keep_alive(),
                },
            };
            Some((bytes, (changes, held, to, id, None)))
        });
        self.until_closing(body)
    }
}

/// Returns the error response to a request that the stateless protocol does not allow, or `None` if
/// the request is valid.
fn refusal(head: &Head<'_>) -> Option<Response> {
    let capabilities = head.parameters().meta(CAPABILITIES_KEY);
    let (status, code, text) = if !capabilities.is_some_and(|capabilities| capabilities.is_object())
    {
        let text = format!("Invalid params: _meta must hold {CAPABILITIES_KEY}, an object.");
        (StatusCode::BAD_REQUEST, reply::INVALID_PARAMS, text)
    } else if REMOVED_METHODS.contains(&head.method()) {
        let text =
            format!("Method not found: {} is none of revision {STATELESS_VERSION}.", head.method());
        (StatusCode::NOT_FOUND, reply::METHOD_NOT_FOUND, text)
    } else {
        return None;
    };
    Some(reply::refuse(status, head.raw_id(), code, &text))
}

/// Returns the error response to a request with the unsupported protocol version `version`.
pub(super) fn unsupported_version(head: &Head<'_>, version: &str) -> Response {
    let text = format!("Unsupported protocol version: {version}");
    let data = json!({"supported": [STATELESS_VERSION], "requested": version});
    let body = reply::error_with(head.raw_id(), reply::UNSUPPORTED_VERSION, &text, &data);
    reply::json(StatusCode::BAD_REQUEST, body)
}

/// Returns the HTTP response for a JSON-RPC answer, with the status that the stateless protocol
/// prescribes.
fn json_response(answer: Vec<u8>) -> Response {
    let error = Head::read(&answer).and_then(|head| head.error);
    let error: Option<Value> = error.and_then(|error| serde_json::from_str(error.get()).ok());
    let status = match error.as_ref().and_then(|error| error.get("code")?.as_i64()) {
        Some(reply::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(reply::HEADER_MISMATCH | reply::MISSING_CAPABILITY | reply::UNSUPPORTED_VERSION) => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    };
    reply::json(status, answer)
}
