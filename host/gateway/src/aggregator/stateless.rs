//! Stateless clients: a request stands for itself, and ends with its connection.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use http::request::Parts;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::http::{SILENCE, along, comment, event};
use super::subscriptions::{ACKNOWLEDGED, Filter, named};
use super::{Aggregator, Ask, Client};
use crate::gateway::front::{Caller, scope};
use crate::gateway::upstream::connection::{ClientInfo, ProtocolMode};
use crate::gateway::wire::reply;
use crate::gateway::wire::sse::Event;
use crate::message::{CAPABILITIES_KEY, CLIENT_KEY, Head, Kind, MODERN, SUBSCRIPTION_KEY};

/// Methods of the stateful mode alone.
const REMOVED: [&str; 6] = [
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/result",
];

impl Aggregator {
    /// A stateless request: its answer, over a stream where something is said before it. When the client goes, so does the request.
    pub(super) async fn stateless(
        self: &Arc<Self>,
        caller: &Caller,
        parts: &Parts,
        message: Vec<u8>,
    ) -> Response {
        let Some(head) = Head::read(&message) else { return reply::empty(StatusCode::BAD_REQUEST) };
        let parameters = head.parameters();
        let meta = |name: &str, default: &str| {
            parameters.meta(name).map_or_else(|| default.to_owned(), |value| value.to_string())
        };
        let client = Client {
            principal: Arc::clone(&caller.principal),
            scope: scope(&caller.principal, &parts.headers),
            mode: ProtocolMode::Stateless,
            info: ClientInfo {
                version: MODERN.to_owned(),
                capabilities: meta(CAPABILITIES_KEY, "{}"),
                implementation: meta(CLIENT_KEY, r#"{"name":"unknown","version":"0"}"#),
            },
            session: None,
            headers: along(&parts.headers),
        };
        match head.kind() {
            Some(Kind::Request) => {}
            _ => return reply::empty(StatusCode::ACCEPTED),
        }
        if parameters.meta(CAPABILITIES_KEY).is_none_or(|capabilities| !capabilities.is_object()) {
            let text = format!("Invalid params: _meta must hold {CAPABILITIES_KEY}, an object.");
            return reply::refuse(
                StatusCode::BAD_REQUEST,
                head.raw_id(),
                reply::INVALID_PARAMS,
                &text,
            );
        }
        if REMOVED.contains(&head.method()) {
            let text = format!("Method not found: {} is none of revision {MODERN}.", head.method());
            return reply::refuse(
                StatusCode::NOT_FOUND,
                head.raw_id(),
                reply::METHOD_NOT_FOUND,
                &text,
            );
        }
        if head.method() == "subscriptions/listen" {
            return self.listen(client, &head).await;
        }
        let (aggregator, (out, mut related)) = (Arc::clone(self), mpsc::unbounded_channel());
        let mut answer = Box::pin(async move {
            let ask = Ask { client: &client, out: &out };
            aggregator.answer(&ask, &message).await
        });
        let first = tokio::select! {
            biased;
            answer = &mut answer => return stateless_response(answer),
            Some(message) = related.recv() => message,
            () = tokio::time::sleep(SILENCE) => Vec::new(),
        };
        let state = Some((answer, related, (!first.is_empty()).then_some(first)));
        let body = stream::unfold(state, |state| async move {
            let (mut answer, mut related, first) = state?;
            if let Some(first) = first {
                return Some((event(&first), Some((answer, related, None))));
            }
            tokio::select! {
                biased;
                Some(message) = related.recv() => Some((event(&message), Some((answer, related, None)))),
                answered = &mut answer => {
                    let mut last = Vec::new();
                    while let Ok(message) = related.try_recv() {
                        last.extend_from_slice(&Event::message(None, &message).0);
                    }
                    last.extend_from_slice(&Event::message(None, &answered).0);
                    Some((Ok(Bytes::from(last)), None))
                }
                () = tokio::time::sleep(SILENCE) => Some((comment(), Some((answer, related, None)))),
            }
        });
        reply::events(Body::from_stream(body))
    }

    /// `subscriptions/listen`: a stream of changes that ends with its connection.
    async fn listen(self: &Arc<Self>, client: Client, head: &Head<'_>) -> Response {
        let Some(filter) = Filter::of(head) else {
            let text = "Invalid params: `notifications` is needed, an object.";
            return reply::refuse(StatusCode::OK, head.raw_id(), reply::INVALID_PARAMS, text);
        };
        let id = head.raw_id().to_owned();
        let parsed: Value = serde_json::from_str(&id).unwrap_or_default();
        let acknowledged = json!({
            "jsonrpc": "2.0",
            "method": ACKNOWLEDGED,
            "params": {"notifications": filter.json(), "_meta": {SUBSCRIPTION_KEY: parsed}},
        });
        let (to, changes) = mpsc::unbounded_channel();
        let watching = self.watch(&client, &filter, &to).await;
        let first = Event::message(None, acknowledged.to_string().as_bytes()).0;
        let state = (changes, watching, to, id, Some(first));
        let body = stream::unfold(state, |(mut changes, watching, to, id, first)| async move {
            let bytes = match first {
                Some(first) => Ok(Bytes::from(first)),
                None => tokio::select! {
                    change = changes.recv() => event(&named(&change?, &id)),
                    () = tokio::time::sleep(SILENCE) => comment(),
                },
            };
            Some((bytes, (changes, watching, to, id, None)))
        });
        let body = body.take_until(self.closing.clone().cancelled_owned());
        reply::events(Body::from_stream(body))
    }
}

pub(super) fn unsupported(head: &Head<'_>, version: &str) -> Response {
    let text = format!("Unsupported protocol version: {version}");
    let data = json!({"supported": [MODERN], "requested": version});
    let body = reply::error_with(head.raw_id(), reply::UNSUPPORTED_VERSION, &text, &data);
    reply::json(StatusCode::BAD_REQUEST, body)
}

/// The answer to a stateless request, with the status that goes with it.
fn stateless_response(answer: Vec<u8>) -> Response {
    let error = Head::read(&answer).and_then(|head| head.error);
    let error: Option<Value> = error.and_then(|error| serde_json::from_str(error.get()).ok());
    let status = match error.as_ref().and_then(|error| error.get("code")?.as_i64()) {
        Some(reply::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(reply::MISSING_CAPABILITY | reply::UNSUPPORTED_VERSION) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    reply::json(status, answer)
}
