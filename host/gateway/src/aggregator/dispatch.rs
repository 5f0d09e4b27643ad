//! From a request of a client to its answer: what the gateway knows itself, what is merged, and to whom the rest goes.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::lists::{LISTS, READ_TOOLS};
use super::{Aggregator, Ask};
use crate::engine::CallContext;
use crate::filter::{Request, Ticket};
use crate::gateway::blocking::run_blocking;
use crate::gateway::upstream::connection::ProtocolMode;
use crate::gateway::wire::reply;
use crate::message::{Head, member, splice, with_member};
use crate::telemetry::Outcome;

/// Where parts of resources are read that the guard holds back.
const READ_URI: &str = "context-guard://read/";
/// What an upstream answers to a resource that it does not have.
const NOT_FOUND: [i64; 2] = [-32002, reply::INVALID_PARAMS];

impl Aggregator {
    /// The answer to a request.
    pub(super) async fn answer(self: &Arc<Self>, ask: &Ask<'_>, request: &[u8]) -> Vec<u8> {
        let Some(head) = Head::read(request) else {
            return reply::error("null", reply::PARSE_ERROR, "This is not JSON.");
        };
        let method = head.method();
        match method {
            "initialize" => return self.initialize(ask, &head).await,
            "server/discover" => return self.discover(ask, &head).await,
            "ping" => return reply::result(head.raw_id(), "{}"),
            _ => {}
        }
        if ask.client.mode == ProtocolMode::Stateful
            && matches!(method, "resources/subscribe" | "resources/unsubscribe")
        {
            return self.subscribe(ask, &head, request).await;
        }
        if method == "logging/setLevel" && ask.client.mode == ProtocolMode::Stateful {
            return self.set_level(ask, &head, request).await;
        }
        if self.is_plain() {
            if method == "tools/call" {
                self.learn_tools(ask, 0).await;
            }
            return self.exchange(ask, 0, request.to_vec()).await;
        }
        if let Some(list) = LISTS.iter().find(|list| list.method == method) {
            return self.merged(ask, &head, list).await;
        }
        match method {
            "tools/call" | "prompts/get" => self.named(ask, &head, request).await,
            "resources/read" => self.read(ask, &head, request).await,
            "completion/complete" => self.complete(ask, &head, request).await,
            _ if method.starts_with("tasks/") => self.task(ask, &head, request).await,
            _ => reply::error(
                head.raw_id(),
                reply::METHOD_NOT_FOUND,
                &format!(
                    "Method not found: {method}. Behind this gateway are several servers, and which of them is meant cannot be told."
                ),
            ),
        }
    }

    /// A call of a tool, or a prompt.
    async fn named(self: &Arc<Self>, ask: &Ask<'_>, head: &Head<'_>, request: &[u8]) -> Vec<u8> {
        let parameters = head.parameters();
        let name = parameters.name.as_deref().unwrap_or_default();
        if head.method() == "tools/call" && READ_TOOLS.contains(&name) {
            return self.of_guard(ask, renamed(request, READ_TOOLS[0])).await;
        }
        match self.router.from_client_name(name) {
            Some((server, inner)) => {
                if head.method() == "tools/call" {
                    self.learn_tools(ask, server).await;
                }
                self.exchange(ask, server, renamed(request, inner)).await
            }
            None => {
                let kind = if head.method() == "tools/call" { "tool" } else { "prompt" };
                let reason = format!(
                    "Unknown {kind}: {name}. Names here begin with a server's, as in server__{kind}; the servers are {}.",
                    self.router.names()
                );
                reply::error(head.raw_id(), reply::INVALID_PARAMS, &reason)
            }
        }
    }

    /// What the guard answers itself, or has an upstream answer again.
    async fn of_guard(self: &Arc<Self>, ask: &Ask<'_>, request: Vec<u8>) -> Vec<u8> {
        let since = Instant::now();
        let cx = self.context(ask, None);
        match run_blocking(&self.filter, request.len(), || self.filter.request(&cx, &request)).await
        {
            Request::Answer(answer, decision) => {
                let bytes = answer.len();
                self.record(&cx, READ_TOOLS[0], since, Some(&decision), bytes, Outcome::Passed);
                answer
            }
            Request::Forward(Some(again), ticket) => {
                self.again(ask, cx, &request, &again, ticket, since).await
            }
            Request::Forward(None, _) => reply::failure(
                &request,
                reply::UPSTREAM_UNAVAILABLE,
                "The guard cannot read what it held back now. Repeat the original call.",
            ),
        }
    }

    /// Makes a call again for a cursor that carries it: `upstream::tool` says whose it is.
    async fn again(
        self: &Arc<Self>,
        ask: &Ask<'_>,
        cx: CallContext,
        request: &[u8],
        again: &[u8],
        ticket: Ticket,
        since: Instant,
    ) -> Vec<u8> {
        let name = Head::read(again).and_then(|head| head.parameters().name);
        let owner = name.as_deref().and_then(|name| {
            let (upstream, tool) = name.split_once("::")?;
            Some((self.servers.iter().position(|server| server.name == upstream)?, tool))
        });
        let Some((server, tool)) = owner else {
            let gone = "The server that this cursor leads to is no longer behind this gateway.";
            return reply::failure(request, reply::UPSTREAM_UNAVAILABLE, gone);
        };
        self.send_and_follow(ask, server, cx, request, renamed(again, tool), ticket, since).await
    }

    /// A resource: of the upstream that is known to have it, or of the first that has it.
    async fn read(self: &Arc<Self>, ask: &Ask<'_>, head: &Head<'_>, request: &[u8]) -> Vec<u8> {
        let parameters = head.parameters();
        let uri = parameters.uri.as_deref().unwrap_or_default();
        if uri.starts_with(READ_URI) {
            return self.of_guard(ask, request.to_vec()).await;
        }
        let (owner, inner) = self.router.uri_owner(uri);
        let request = with_param(request, "uri", inner);
        if let Some(server) = owner {
            return self.exchange(ask, server, request).await;
        }
        let mut last = reply::error_with(
            head.raw_id(),
            if ask.client.mode == ProtocolMode::Stateless {
                reply::INVALID_PARAMS
            } else {
                NOT_FOUND[0]
            },
            "Resource not found: no server behind this gateway has it.",
            &serde_json::json!({ "uri": uri }),
        );
        for (server, connection) in self.open_all(ask.client).await {
            if !connection.is_ok_and(|connection| connection.server_info().can("resources")) {
                continue;
            }
            let answer = self.exchange(ask, server, request.clone()).await;
            match error_code(&answer) {
                Some(code) if NOT_FOUND.contains(&code) => {}
                Some(_) => last = answer,
                None => {
                    self.router.learn_uri(server, uri);
                    return answer;
                }
            }
        }
        last
    }

    /// Completion of an argument of a prompt, or of a resource template.
    async fn complete(self: &Arc<Self>, ask: &Ask<'_>, head: &Head<'_>, request: &[u8]) -> Vec<u8> {
        let reference = head.params.and_then(|params| member(params.get(), "ref"));
        let parsed: Value =
            reference.and_then(|found| serde_json::from_str(found.get()).ok()).unwrap_or_default();
        let text = |name: &str| parsed.get(name).and_then(Value::as_str);
        let target = match (text("name"), text("uri")) {
            (Some(name), _) => {
                self.router.from_client_name(name).map(|(server, inner)| (server, "name", inner))
            }
            (None, Some(uri)) => match self.router.uri_owner(uri) {
                (Some(server), inner) => Some((server, "uri", inner)),
                (None, _) => None,
            },
            _ => None,
        };
        let (Some((server, kind, inner)), Some(reference)) = (target, reference) else {
            return reply::error(
                head.raw_id(),
                reply::INVALID_PARAMS,
                "No server behind this gateway has the prompt or template that `ref` names.",
            );
        };
        let inner = with_member(reference.get(), kind, Some(&Value::from(inner).to_string()));
        self.exchange(ask, server, splice(request, reference.get(), &inner)).await
    }

    /// A request about a task, which belongs to the upstream that began it.
    async fn task(self: &Arc<Self>, ask: &Ask<'_>, head: &Head<'_>, request: &[u8]) -> Vec<u8> {
        let parameters = head.parameters();
        let task = parameters.task_id.as_deref().unwrap_or_default();
        match self.router.task_owner(&ask.client.principal, task) {
            Some(server) => self.exchange(ask, server, request.to_vec()).await,
            None => reply::error(
                head.raw_id(),
                reply::INVALID_PARAMS,
                &format!("Unknown task: {task}. It was begun by another client, or too long ago."),
            ),
        }
    }

    /// `resources/subscribe` and its end, of a stateful client.
    async fn subscribe(
        self: &Arc<Self>,
        ask: &Ask<'_>,
        head: &Head<'_>,
        request: &[u8],
    ) -> Vec<u8> {
        let parameters = head.parameters();
        let uri = parameters.uri.as_deref().unwrap_or_default();
        let (owner, inner) = self.router.uri_owner(uri);
        let Some(server) = owner else {
            return reply::error(
                head.raw_id(),
                NOT_FOUND[0],
                "Resource not found: list the resources first, so that it is known which server has it.",
            );
        };
        match self.connection(ask.client, server).await {
            Err(failure) => reply::error(head.raw_id(), failure.code(), &failure.to_string()),
            Ok(connection) if connection.mode == ProtocolMode::Stateful => {
                self.exchange(ask, server, with_param(request, "uri", inner)).await
            }
            Ok(connection) => {
                if head.method() == "resources/subscribe" {
                    self.watch_resource(ask, &connection, inner);
                } else if let Some(session) = &ask.client.session {
                    let mut watched =
                        session.watched.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    watched.remove(inner);
                }
                reply::result(head.raw_id(), "{}")
            }
        }
    }

    /// The level of log messages, told to all upstreams that have some.
    async fn set_level(
        self: &Arc<Self>,
        ask: &Ask<'_>,
        head: &Head<'_>,
        request: &[u8],
    ) -> Vec<u8> {
        let params: Value = head
            .params
            .and_then(|params| serde_json::from_str(params.get()).ok())
            .unwrap_or_default();
        if let (Some(session), Some(level)) =
            (&ask.client.session, params.get("level").and_then(Value::as_str))
        {
            session.set_log_level(level);
        }
        let mut refused = None;
        for (server, connection) in self.open_all(ask.client).await {
            let Ok(connection) = connection else { continue };
            if connection.mode == ProtocolMode::Stateful && connection.server_info().can("logging")
            {
                let answer = self.exchange(ask, server, request.to_vec()).await;
                if error_code(&answer).is_some() {
                    refused = Some(answer);
                }
            }
        }
        refused.unwrap_or_else(|| reply::result(head.raw_id(), "{}"))
    }
}

/// A request under another `params.name`.
fn renamed(request: &[u8], name: &str) -> Vec<u8> {
    with_param(request, "name", name)
}

/// A request with another text in a member of `params`, the rest as it is spelt.
fn with_param(request: &[u8], name: &str, text: &str) -> Vec<u8> {
    let Some(params) = Head::read(request).and_then(|head| head.params) else {
        return request.to_vec();
    };
    match member(params.get(), name) {
        Some(old) => splice(request, old.get(), &Value::from(text).to_string()),
        None => request.to_vec(),
    }
}

/// The code of an error, if it is one.
fn error_code(answer: &[u8]) -> Option<i64> {
    let error: Value = serde_json::from_str(Head::read(answer)?.error?.get()).ok()?;
    error.get("code")?.as_i64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_change_in_place() {
        let call = br#"{"jsonrpc":"2.0", "id":1,"params":{"arguments":{"name":"x","n":1.0},"name": "a__b"},"method":"tools/call"}"#;
        assert_eq!(
            String::from_utf8(renamed(call, "b")).unwrap(),
            r#"{"jsonrpc":"2.0", "id":1,"params":{"arguments":{"name":"x","n":1.0},"name": "b"},"method":"tools/call"}"#
        );
        assert_eq!(error_code(br#"{"id":1,"error":{"code":-5,"message":"x"}}"#), Some(-5));
        assert_eq!(error_code(br#"{"id":1,"result":{}}"#), None);
    }
}
