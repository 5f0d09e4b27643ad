//! Dispatches a client's request: the aggregator answers it, merges lists, or forwards it to an
//! upstream.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Aggregator;
use super::client::Origin;
use super::list_kinds::{LIST_KINDS, PROMPTS, TOOLS};
use super::programs::RUN_TOOL;
use super::withheld::Withheld;
use crate::access::ANONYMOUS;
use crate::catalogue_tools::{READ_TOOLS, is_catalogue_tool};
use crate::exchange::{Exchange, NextStep};
use crate::message::{Head, error_code, member, splice, with_member};
use crate::protocol_mode::ProtocolMode;
use crate::reply;
use crate::tasks::{GuardInput, run_blocking};
use crate::telemetry::Outcome;
use crate::trace_context;
use crate::upstream::server::UpstreamServer;

/// The prefix of the URIs under which clients read the guard's stored parts of long resources.
const READ_URI: &str = "context-guard://read/";
/// The method that calls a tool.
const TOOLS_CALL: &str = "tools/call";
/// The levels of log messages (RFC 5424).
const LOG_LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
/// The JSON-RPC error code for a missing resource in stateful protocol versions. Stateless versions
/// use -32602.
pub(super) const RESOURCE_NOT_FOUND: i64 = -32002;

impl Aggregator {
    /// Returns the response to a client's request of any method.
    pub(super) async fn answer(&self, origin: &Origin<'_>, request: &[u8]) -> Vec<u8> {
        let exchange = self.forwarder.begin(origin, None, request);
        if !exchange.is_no_call() {
            return self.dispatch(origin, request).await;
        }
        let work = self.dispatch(origin, request);
        let answer = trace_context::within(exchange.trace_context(), work).await;
        exchange.record_operation(&self.recorder, &answer);
        answer
    }

    async fn dispatch(&self, origin: &Origin<'_>, request: &[u8]) -> Vec<u8> {
        let Some(head) = Head::read(request) else {
            return reply::error("null", reply::PARSE_ERROR, "This is not JSON.");
        };
        let method = head.method();
        let is_stateful = origin.client.mode == ProtocolMode::Stateful;
        match method {
            "initialize" => return self.initialize(origin, &head).await,
            "server/discover" => return self.discover(origin, &head).await,
            "ping" => return reply::result(head.raw_id(), "{}"),
            "resources/subscribe" | "resources/unsubscribe" if is_stateful => {
                return self.change_subscription(origin, &head, request).await;
            }
            "logging/setLevel" if is_stateful => {
                return self.set_log_level(origin, &head, request).await;
            }
            _ if method.starts_with("tasks/") => {
                return self.use_task(origin, &head, request).await;
            }
            _ => {}
        }
        if self.forwarder.is_transparent {
            if method == "tools/call" {
                self.lists.ensure_tools_seen(origin, 0).await;
                if let Some(refusal) = self.refuse_headers(origin, 0, &head, request) {
                    return refusal;
                }
            }
            return self.forwarder.forward(origin, 0, request.to_vec()).await;
        }
        if method == TOOLS.method {
            return self.list_tools(origin, &head).await;
        }
        if let Some(kind) = LIST_KINDS.iter().find(|kind| kind.method == method) {
            return self.lists.merged(origin, &head, kind).await;
        }
        match method {
            "tools/call" | "prompts/get" => self.call_named(origin, &head, request).await,
            "resources/read" => self.read_resource(origin, &head, request).await,
            "completion/complete" => self.complete(origin, &head, request).await,
            _ => reply::error(
                head.raw_id(),
                reply::METHOD_NOT_FOUND,
                &format!(
                    "Method not found: {method}. Several servers are behind this gateway, and the method does not determine which one is meant."
                ),
            ),
        }
    }

    /// Answers `tools/call` and `prompts/get`, which are routed by the name in `params`.
    pub(super) async fn call_named(
        &self,
        origin: &Origin<'_>,
        head: &Head<'_>,
        request: &[u8],
    ) -> Vec<u8> {
        let is_call = head.method() == TOOLS_CALL;
        let parameters = head.parameters();
        let name = parameters.name.as_deref().unwrap_or_default();
        if is_call && READ_TOOLS.contains(&name) {
            return self.read(origin, renamed(request, READ_TOOLS[0])).await;
        }
        if is_call && name == RUN_TOOL && self.programs.is_enabled() {
            return self.run_program(origin, head, request).await;
        }
        if is_call && self.is_for_catalogue(origin, name).await {
            return self.call_catalogue(origin, head, request).await;
        }
        self.call_upstream_tool(origin, head, request).await
    }

    /// Returns true if the guard answers calls of this name: of its own tools, of hidden and
    /// withheld tools, and of names that no upstream has, for which it suggests similar ones.
    async fn is_for_catalogue(&self, origin: &Origin<'_>, name: &str) -> bool {
        if self.is_hidden_tool(origin, name) {
            return true;
        }
        if is_catalogue_tool(name) {
            return !self.lists.is_known_tool(origin, name);
        }
        match self.lists.find_named(origin, &TOOLS, name).await {
            Some((server, own)) => {
                let withheld = self.withheld(origin, server).await;
                matches!(&*withheld, Withheld::Tools(names) if names.contains(name))
                    || self.lists.is_unlisted(origin, server, &own).await
            }
            None => true,
        }
    }

    /// Answers `tools/call` and `prompts/get` of an upstream's tool or prompt.
    pub(super) async fn call_upstream_tool(
        &self,
        origin: &Origin<'_>,
        head: &Head<'_>,
        request: &[u8],
    ) -> Vec<u8> {
        let is_call = head.method() == TOOLS_CALL;
        let parameters = head.parameters();
        let name = parameters.name.as_deref().unwrap_or_default();
        let kind = if is_call { &TOOLS } else { &PROMPTS };
        let Some((server, own_name)) = self.lists.find_named(origin, kind, name).await else {
            let kind = if is_call { "tool" } else { "prompt" };
            let reason = format!(
                "Unknown {kind}: {name}. Names here begin with a server's, as in server__{kind}; the servers are {}.",
                self.router.joined_names()
            );
            return reply::error(head.raw_id(), reply::INVALID_PARAMS, &reason);
        };
        let renamed = renamed(request, &own_name);
        if is_call {
            if let Some(refusal) = self.refuse_withheld(origin, server, name, request).await {
                return refusal;
            }
            self.lists.ensure_tools_seen(origin, server).await;
            if let Some(refusal) = self.refuse_headers(origin, server, head, &renamed) {
                return refusal;
            }
        }
        self.forwarder.forward(origin, server, renamed).await
    }

    /// Returns the error response to a stateless client's tool call whose headers differ from its
    /// arguments. `request` has the upstream's own name of the tool.
    fn refuse_headers(
        &self,
        origin: &Origin<'_>,
        server: usize,
        head: &Head<'_>,
        request: &[u8],
    ) -> Option<Vec<u8>> {
        let client = origin.client;
        if !client.has_headers {
            return None;
        }
        let declared = &self.forwarder.param_headers;
        let reason = declared.mismatch(&client.scope, server, request, &client.headers)?;
        let reason = format!("Header mismatch: {reason}.");
        Some(reply::error(head.raw_id(), reply::HEADER_MISMATCH, &reason))
    }

    /// Answers a call of the read tool. A cursor that this guard did not issue may come from the
    /// guard of an upstream, whose notice names the same tool.
    async fn read(&self, origin: &Origin<'_>, request: Vec<u8>) -> Vec<u8> {
        let answer = self.read_stored(origin, request.clone()).await;
        if !is_unknown_cursor(&answer) {
            return answer;
        }
        for server in self.lists.guarded(origin).await {
            let inner = self.forwarder.forward(origin, server, request.clone()).await;
            if !is_unknown_cursor(&inner) {
                return inner;
            }
        }
        answer
    }

    /// Answers a request for content that the guard has stored. If the content is no longer stored,
    /// the guard may repeat the call that produced it.
    async fn read_stored(&self, origin: &Origin<'_>, request: Vec<u8>) -> Vec<u8> {
        let mut exchange = self.forwarder.begin(origin, None, &request);
        let next = run_blocking(
            &self.filter,
            &origin.client.caller,
            GuardInput::Request(&request),
            || exchange.on_request(&self.filter, &request),
        );
        match next.await {
            NextStep::Answer(answer, decision) => {
                exchange.record(&self.recorder, Some(&decision), answer.len(), Outcome::Passed);
                answer
            }
            NextStep::Forward(Some(call)) => {
                self.replay_call(origin, exchange, &request, &call).await
            }
            NextStep::Forward(None) => reply::failure(
                &request,
                reply::UPSTREAM_UNAVAILABLE,
                "The guard cannot read what it held back now. Repeat the original call.",
            ),
        }
    }

    /// Repeats `call`, the tool call that the cursor in `request` contains. The tool's name in it
    /// is `upstream::tool`. Refuses a tool that was hidden or withheld since.
    async fn replay_call(
        &self,
        origin: &Origin<'_>,
        exchange: Exchange,
        request: &[u8],
        call: &[u8],
    ) -> Vec<u8> {
        let name = Head::read(call).and_then(|head| head.parameters().name);
        let owner = name.as_deref().and_then(|name| {
            let (upstream, tool) = name.split_once("::")?;
            let servers = &self.connections.servers;
            Some((servers.iter().position(|server| server.name == upstream)?, tool))
        });
        let Some((server, tool)) = owner else {
            let reason = "The server that this cursor leads to is no longer behind this gateway.";
            return reply::failure(request, reply::UPSTREAM_UNAVAILABLE, reason);
        };
        let client_name = self.router.client_names.to_client_name(server, tool);
        if self.is_hidden_tool(origin, &client_name) {
            return reply::unknown_tool(request, &client_name);
        }
        if let Some(refusal) = self.refuse_withheld(origin, server, &client_name, request).await {
            return refusal;
        }
        let call = renamed(call, tool);
        self.forwarder.send_and_follow(origin, server, exchange, request, call).await
    }

    /// Answers `resources/read` from the upstream known to have the resource, otherwise from the
    /// first upstream that returns it. Refuses a URI that several upstreams list.
    async fn read_resource(&self, origin: &Origin<'_>, head: &Head<'_>, request: &[u8]) -> Vec<u8> {
        let parameters = head.parameters();
        let uri = parameters.uri.as_deref().unwrap_or_default();
        if uri.starts_with(READ_URI) {
            return self.read_stored(origin, request.to_vec()).await;
        }
        let principal = &origin.client.principal;
        let (owner, own_uri) = self.router.uri_owner(principal, uri);
        let request = with_param(request, "uri", own_uri);
        if let Some(server) = owner {
            let answer = self.forwarder.forward(origin, server, request.clone()).await;
            // The upstream no longer has an unlisted resource. Another one may have it.
            let is_gone = is_not_found(&answer) && self.router.forget_read_uri(principal, uri);
            if !is_gone {
                return answer;
            }
        }
        if self.router.is_ambiguous(uri) {
            let text = "Several servers behind this gateway have this resource. List the resources again: each has a URI of its own.";
            return reply::error(head.raw_id(), reply::INVALID_PARAMS, text);
        }
        let not_found = match origin.client.mode {
            ProtocolMode::Stateless => reply::INVALID_PARAMS,
            ProtocolMode::Stateful => RESOURCE_NOT_FOUND,
        };
        let mut last = reply::error_with(
            head.raw_id(),
            not_found,
            "Resource not found: no server behind this gateway has it.",
            &json!({ "uri": uri }),
        );
        for (server, connection) in self.connections.open_all(origin.client).await {
            let is_candidate = connection
                .is_ok_and(|connection| connection.server_info().has_capability("resources"));
            if !is_candidate {
                continue;
            }
            let answer = self.forwarder.forward(origin, server, request.clone()).await;
            if is_not_found(&answer) {
                continue;
            }
            if error_code(&answer).is_none() {
                self.router.learn_read_uri(principal, server, uri);
                return answer;
            }
            last = answer;
        }
        last
    }

    /// Answers `completion/complete` for an argument of a prompt or of a resource template.
    async fn complete(&self, origin: &Origin<'_>, head: &Head<'_>, request: &[u8]) -> Vec<u8> {
        let reference = head.params.and_then(|params| member(params.get(), "ref"));
        let parsed: Value =
            reference.and_then(|found| serde_json::from_str(found.get()).ok()).unwrap_or_default();
        let text = |name: &str| parsed.get(name).and_then(Value::as_str);
        let target = match (text("name"), text("uri")) {
            (Some(name), _) => {
                let found = self.lists.find_named(origin, &PROMPTS, name).await;
                found.map(|(server, own)| (server, "name", own))
            }
            (None, Some(uri)) => match self.router.uri_owner(&origin.client.principal, uri) {
                (Some(server), own) => Some((server, "uri", own.into())),
                (None, _) => None,
            },
            _ => None,
        };
        let (Some((server, member, own)), Some(reference)) = (target, reference) else {
            return reply::error(
                head.raw_id(),
                reply::INVALID_PARAMS,
                "No server behind this gateway has the prompt or template that `ref` names.",
            );
        };
        let renamed = with_member(reference.get(), member, Some(&Value::from(&*own).to_string()));
        let request = splice(request, reference.get(), &renamed);
        self.forwarder.forward(origin, server, request).await
    }

    /// Forwards a `tasks/` request to the upstream that created the task for the principal. A
    /// single upstream also receives `tasks/list`, unless several principals share it.
    async fn use_task(&self, origin: &Origin<'_>, head: &Head<'_>, request: &[u8]) -> Vec<u8> {
        let parameters = head.parameters();
        let task = parameters.task_id.as_deref().unwrap_or_default();
        let principal = &origin.client.principal;
        // The list of a server that several principals share has the tasks of all.
        let has_own_list =
            |server: &Arc<UpstreamServer>| principal.as_ref() == ANONYMOUS || !server.is_common();
        let owner = match (head.method(), self.servers()) {
            ("tasks/list", [server]) => has_own_list(server).then_some(0),
            _ => self.router.task_owner(principal, task),
        };
        match owner {
            Some(server) => self.forwarder.forward(origin, server, request.to_vec()).await,
            None => reply::error(
                head.raw_id(),
                reply::INVALID_PARAMS,
                &format!("Unknown task: {task}. It was begun by another client, or too long ago."),
            ),
        }
    }

    /// Answers `logging/setLevel`: sets the level at all stateful upstreams that support logging.
    /// Returns the last refusal, if an upstream refuses.
    async fn set_log_level(&self, origin: &Origin<'_>, head: &Head<'_>, request: &[u8]) -> Vec<u8> {
        let level = head.params.and_then(|params| member(params.get(), "level"));
        let level: Option<String> = level.and_then(|level| serde_json::from_str(level.get()).ok());
        let known = LOG_LEVELS.into_iter().find(|known| Some(*known) == level.as_deref());
        let Some(level) = known else {
            let text = format!("Invalid params: level must be one of {}.", LOG_LEVELS.join(", "));
            return reply::error(head.raw_id(), reply::INVALID_PARAMS, &text);
        };
        if let Some(session) = &origin.client.session {
            session.set_log_level(level);
        }
        let mut refusal = None;
        for (server, connection) in self.connections.open_all(origin.client).await {
            let Ok(connection) = connection else { continue };
            // Stateless requests carry the level themselves.
            if connection.mode == ProtocolMode::Stateful
                && connection.server_info().has_capability("logging")
            {
                let answer = self.forwarder.forward(origin, server, request.to_vec()).await;
                if error_code(&answer).is_some() {
                    refusal = Some(answer);
                }
            }
        }
        refusal.unwrap_or_else(|| reply::result(head.raw_id(), "{}"))
    }
}

/// Returns the request with `name` as its `params.name`.
fn renamed(request: &[u8], name: &str) -> Vec<u8> {
    with_param(request, "name", name)
}

/// Returns the request with the string `text` in the member `name` of its `params`. All other bytes
/// are unchanged. Returns an unchanged request if `params` has no such member.
pub(super) fn with_param(request: &[u8], name: &str, text: &str) -> Vec<u8> {
    let params = Head::read(request).and_then(|head| head.params);
    match params.and_then(|params| member(params.get(), name)) {
        Some(old) => splice(request, old.get(), &Value::from(text).to_string()),
        None => request.to_vec(),
    }
}

/// Returns true if `answer` says that the upstream does not have the requested resource.
fn is_not_found(answer: &[u8]) -> bool {
    matches!(error_code(answer), Some(RESOURCE_NOT_FOUND | reply::INVALID_PARAMS))
}

/// Returns true if `answer` says that its cursor was not issued by this guard.
fn is_unknown_cursor(answer: &[u8]) -> bool {
    let code = |text: &Value| text.as_str().is_some_and(|text| text.starts_with("cursor_invalid"));
    serde_json::from_slice::<Value>(answer).is_ok_and(|answer| {
        answer.pointer("/result/isError") == Some(&Value::Bool(true))
            && answer.pointer("/result/content/0/text").is_some_and(code)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renaming_changes_only_the_name() {
        let call = br#"{"jsonrpc":"2.0", "id":1,"params":{"arguments":{"name":"x","n":1.0},"name": "a__b"},"method":"tools/call"}"#;
        assert_eq!(
            String::from_utf8(renamed(call, "b")).unwrap(),
            r#"{"jsonrpc":"2.0", "id":1,"params":{"arguments":{"name":"x","n":1.0},"name": "b"},"method":"tools/call"}"#
        );
        assert_eq!(error_code(br#"{"id":1,"error":{"code":-5,"message":"x"}}"#), Some(-5));
        assert_eq!(error_code(br#"{"id":1,"result":{}}"#), None);
    }
}
