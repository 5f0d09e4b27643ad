//! agentgateway's `ext_mcp`: one call for the params of a request, and one for the result.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use context_guard_grpc::ext_mcp::authorization_error::Code;
use context_guard_grpc::ext_mcp::ext_mcp_server::ExtMcp;
use context_guard_grpc::ext_mcp::{
    AuthorizationError, McpHeader, McpRequest, McpRequestResult, McpResponse, McpResponseResult,
    Pass, mcp_request_result, mcp_response_result,
};
use context_guard_grpc::tonic::{Request, Response, Status, async_trait};
use context_guard_grpc::{Struct, Value, value};
use context_guard_protocol::{Caller, Settings, identify_caller};
use serde_json::json;

use super::messages::ExternalGuard;
use super::pending_results::PendingResults;
use crate::exchange::{Exchange, NextStep};
use crate::fair_queue;
use crate::message::{Head, member};
use crate::tasks::{GuardInput, run_blocking};

/// The id of the messages that the guard receives. Any id works, because agentgateway replaces only
/// params and results.
const ID: &str = "0";
/// The metadata member with which agentgateway returns the ticket of a request.
const TICKET: &str = "contextGuard";
/// The metadata member with the identity of the caller.
const PRINCIPAL: &str = "principal";
/// The metadata member with the name of the tool, for results whose ticket is unknown.
const TOOL: &str = "tool";

/// The gRPC service `ExtMcp` (agentgateway `ext_mcp`), which passes requests and results to the
/// guard.
pub(crate) struct AgentgatewayPolicy {
    guard: Arc<ExternalGuard>,
    settings: Settings,
    /// The requests whose results are pending. The result of a dropped request is shaped like that
    /// of the tool in the metadata, or of an unnamed tool.
    pending: PendingResults,
    /// The prefix of this process's tickets, which distinguishes them from those of other
    /// processes.
    instance: String,
    next: AtomicU64,
}

impl AgentgatewayPolicy {
    pub(crate) fn new(guard: Arc<ExternalGuard>, settings: Settings, instance: String) -> Self {
        Self { guard, settings, pending: PendingResults::new(), instance, next: AtomicU64::new(0) }
    }

    fn suspend(&self, principal: &str, exchange: Exchange) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let ticket = format!("{}-{number:x}", self.instance);
        self.pending.add(principal, ticket.clone(), exchange);
        ticket
    }

    /// Returns the caller of a request. `targets` are the names of the upstreams; a single one is
    /// the caller's upstream.
    fn caller(
        &self,
        targets: &[String],
        metadata: Option<&Struct>,
        headers: &[McpHeader],
    ) -> Caller {
        let header = |name: &str| {
            let found = headers.iter().find(|header| header.key.eq_ignore_ascii_case(name))?;
            Some(String::from_utf8_lossy(&found.value).into_owned())
        };
        let mut caller = identify_caller(&self.settings, &header);
        if let Some(principal) = text(metadata, PRINCIPAL) {
            caller.principal = principal.to_owned();
        }
        if let [target] = targets {
            caller.upstream.clone_from(target);
        }
        caller
    }

    /// Passes a request through the guard.
    async fn on_request(&self, caller: &Caller, message: &[u8]) -> (Exchange, NextStep) {
        let mut exchange = self.guard.begin(caller, ID.to_owned(), message);
        let input = GuardInput::Request(message);
        let work = || self.guard.on_request(&mut exchange, message, true);
        let next = run_blocking(&self.guard.filter, &queue_place(caller), input, work).await;
        (exchange, next)
    }
}

fn queue_place(caller: &Caller) -> fair_queue::Caller {
    let (principal, session) = (caller.principal.as_str().into(), caller.session.as_str().into());
    fair_queue::Caller { principal, session }
}

#[async_trait]
impl ExtMcp for AgentgatewayPolicy {
    async fn check_request(
        &self,
        request: Request<McpRequest>,
    ) -> Result<Response<McpRequestResult>, Status> {
        let request = request.into_inner();
        let metadata = request.metadata_context.as_ref();
        let caller = self.caller(&request.service_names, metadata, &request.headers);
        let Some(message) = request_message(&request.method, request.mcp_request.as_deref()) else {
            return Ok(passed_request());
        };
        let (exchange, next) = self.on_request(&caller, &message).await;
        let result = match next {
            // The interface has no result here, only an error.
            NextStep::Answer(answer, _) => {
                let result = mcp_request_result::Result::Error(as_error(&answer));
                return Ok(Response::new(McpRequestResult {
                    result: Some(result),
                    ..Default::default()
                }));
            }
            NextStep::Forward(changed) => {
                let params = changed.as_deref().and_then(Head::read).and_then(|head| head.params);
                match params {
                    Some(params) => {
                        let params = params.get().as_bytes().to_vec();
                        mcp_request_result::Result::Mutated(params.into())
                    }
                    None => mcp_request_result::Result::Pass(Pass {}),
                }
            }
        };
        let ticket = Value {
            kind: Some(value::Kind::StringValue(self.suspend(&caller.principal, exchange))),
        };
        let metadata = Struct { fields: [(TICKET.to_owned(), ticket)].into() };
        Ok(Response::new(McpRequestResult {
            result: Some(result),
            metadata: Some(metadata),
            ..Default::default()
        }))
    }

    async fn check_response(
        &self,
        request: Request<McpResponse>,
    ) -> Result<Response<McpResponseResult>, Status> {
        let response = request.into_inner();
        let metadata = response.metadata_context.as_ref();
        let caller = self.caller(&response.service_names, metadata, &[]);
        let exchange = match text(metadata, TICKET).and_then(|ticket| self.pending.take(ticket)) {
            Some(exchange) => exchange,
            None => {
                let params = json!({"name": text(metadata, TOOL).unwrap_or_default()}).to_string();
                let message = request_message(&response.method, Some(params.as_bytes()));
                self.on_request(&caller, &message.unwrap_or_default()).await.0
            }
        };
        let Some(message) = response_message(&response.mcp_response) else {
            return Ok(passed_response());
        };
        let input = GuardInput::Response(&message);
        let work = || self.guard.on_response(&exchange, &message);
        let place = queue_place(&caller);
        let Some(shaped) = run_blocking(&self.guard.filter, &place, input, work).await else {
            return Ok(passed_response());
        };
        let result = Head::read(&shaped)
            .and_then(|head| head.result)
            .map(|result| mcp_response_result::Result::Mutated(result.as_bytes().to_vec().into()));
        let result =
            result.unwrap_or_else(|| mcp_response_result::Result::Error(as_error(&shaped)));
        Ok(Response::new(McpResponseResult { result: Some(result) }))
    }
}

fn passed_request() -> Response<McpRequestResult> {
    let result = Some(mcp_request_result::Result::Pass(Pass {}));
    Response::new(McpRequestResult { result, ..Default::default() })
}

fn passed_response() -> Response<McpResponseResult> {
    Response::new(McpResponseResult { result: Some(mcp_response_result::Result::Pass(Pass {})) })
}

/// Returns a string from the metadata that agentgateway adds to calls. `None` if it is missing.
fn text<'m>(metadata: Option<&'m Struct>, name: &str) -> Option<&'m str> {
    match metadata?.fields.get(name)?.kind.as_ref()? {
        value::Kind::StringValue(text) => Some(text),
        _ => None,
    }
}

/// Returns the JSON-RPC request with these params. `None` if they are not UTF-8.
fn request_message(method: &str, params: Option<&[u8]>) -> Option<Vec<u8>> {
    let method = serde_json::Value::from(method);
    let params = match params {
        Some(params) => format!(r#","params":{}"#, std::str::from_utf8(params).ok()?),
        None => String::new(),
    };
    Some(format!(r#"{{"jsonrpc":"2.0","id":{ID},"method":{method}{params}}}"#).into_bytes())
}

/// Returns the JSON-RPC response with this result. `None` if it is not UTF-8.
fn response_message(result: &[u8]) -> Option<Vec<u8>> {
    let result = std::str::from_utf8(result).ok()?;
    Some(format!(r#"{{"jsonrpc":"2.0","id":{ID},"result":{result}}}"#).into_bytes())
}

/// Converts an answer of the guard to an error. The error's reason is the text of the answer, and
/// its data is the result.
fn as_error(answer: &[u8]) -> AuthorizationError {
    let head = Head::read(answer);
    let result = head.as_ref().and_then(|head| head.result);
    let error = head.as_ref().and_then(|head| head.error);
    let reason = match (result, error) {
        (Some(result), _) => texts(result),
        (None, Some(error)) => member(error.get(), "message")
            .and_then(|message| serde_json::from_str(message.get()).ok())
            .unwrap_or_default(),
        (None, None) => String::from_utf8_lossy(answer).into_owned(),
    };
    let data = result.map(|result| result.as_bytes().to_vec().into());
    AuthorizationError { code: Code::Invalid.into(), reason, mcp_error: data }
}

/// Returns the text content of a result.
fn texts(result: &str) -> String {
    let result: serde_json::Value = serde_json::from_str(result).unwrap_or_default();
    let content = result.get("content").and_then(serde_json::Value::as_array);
    let texts = content.into_iter().flatten().filter_map(|block| block.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}
