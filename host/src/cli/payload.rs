//! Sends one payload through the guard, as if a tool had returned it.

use std::sync::Arc;

use anyhow::{Context, Result};
use context_guard::engine::{CallContext, Decision};
use context_guard::filter::{Request, Ticket};
use context_guard::{Filter, answer};
use serde_json::{Value, json};

use super::Refused;

/// The end of the error for a cursor that leads to nothing.
const EXPIRED_HINT: &str =
    " A cursor of a query, such as --where, needs the same query and file again beside --cursor.";

/// The result of a simulated call through the guard.
pub(crate) struct Answer {
    /// The answer that a client receives.
    pub(crate) message: Vec<u8>,
    /// The decision of the guard. `None` if the guard was not called, or it failed.
    pub(crate) decision: Option<Decision>,
}

/// A simulated tool call, whose upstream answer is given in advance.
pub(crate) struct Payload {
    filter: Arc<Filter>,
    tool: String,
    message: Vec<u8>,
}

impl Payload {
    /// Returns a payload in which `bytes` are the upstream's answer: a JSON-RPC response, otherwise
    /// the text of a tool result.
    pub(crate) fn new(filter: Arc<Filter>, tool: &str, bytes: &[u8]) -> Result<Self> {
        let is_answer = |value: &Value| {
            value.get("jsonrpc").is_some() && value.get("result").is_some_and(Value::is_object)
        };
        let message = match serde_json::from_slice::<Value>(bytes) {
            Ok(value) if is_answer(&value) => bytes.to_vec(),
            _ => {
                let text = std::str::from_utf8(bytes).context("the payload is not UTF-8 text")?;
                serde_json::to_vec(
                    &json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}}),
                )?
            }
        };
        Ok(Self { filter, tool: tool.to_owned(), message })
    }

    /// Returns the upstream's answer before shaping, as a JSON-RPC response.
    pub(crate) fn original(&self) -> &[u8] {
        &self.message
    }

    /// Returns the answer to a call of the tool with the guard's arguments `guard`, such as cursor,
    /// limit or fields.
    pub(crate) fn call(&self, guard: &Value) -> Result<Answer> {
        let cx = CallContext {
            principal: "local".to_owned(),
            request_id: "1".to_owned(),
            ..CallContext::default()
        };
        let call = |guard: &Value| {
            let arguments = json!({"_guard": guard});
            let params = json!({"name": self.tool, "arguments": arguments});
            let request =
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            serde_json::to_vec(&request)
        };
        let is_refusal = |verdict: &Request| match verdict {
            Request::Answer(_, decision, _) => decision.mode == "error",
            Request::Forward(..) => false,
        };
        let mut verdict = self.filter.request(&cx, &call(guard)?);
        // A cursor may come from another run of this program, whose store is gone. Shaping the same
        // bytes again stores the snapshot under the same name.
        let fill = |wish: &Value| -> Result<()> {
            if let Request::Forward(_, ticket) = self.filter.request(&cx, &call(wish)?) {
                let _ = self.filter.response(&cx, &ticket, &self.message);
            }
            Ok(())
        };
        let mut expired = "";
        if let Some(cursor) = guard.get("cursor").filter(|_| is_refusal(&verdict)) {
            fill(&json!({}))?;
            verdict = self.filter.request(&cx, &call(guard)?);
            if is_refusal(&verdict) {
                // The cursor of a query leads to its result, which the same query stores.
                let mut query = guard.clone();
                query.as_object_mut().map(|members| members.remove("cursor"));
                fill(&query)?;
                let page = json!({"cursor": cursor, "limit": guard.get("limit")});
                verdict = self.filter.request(&cx, &call(&page)?);
                expired = EXPIRED_HINT;
            }
        }
        let answer = match verdict {
            Request::Answer(message, decision, _) => Answer { message, decision: Some(*decision) },
            Request::Forward(_, ticket) => self.shape(&cx, &ticket),
        };
        // A refusal by the guard is identified by its mode; an error inside the payload is content.
        match &answer.decision {
            Some(decision) if decision.mode == "error" => {
                Err(Refused(answer::content(&answer.message).concat() + expired).into())
            }
            _ => match answer::query_error(&answer.message) {
                Some(reason) => Err(Refused(reason).into()),
                None => Ok(answer),
            },
        }
    }

    fn shape(&self, cx: &CallContext, ticket: &Ticket) -> Answer {
        let (message, decision) = self.filter.response_with_decision(cx, ticket, &self.message);
        Answer { message: message.unwrap_or_else(|| self.message.clone()), decision }
    }
}
