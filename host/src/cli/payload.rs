//! One payload through the guard, as if a tool had answered with it.

use std::sync::Arc;

use anyhow::{Context, Result};
use context_guard::engine::{CallContext, Decision};
use context_guard::filter::{Request, Ticket};
use context_guard::{Filter, answer};
use serde_json::{Value, json};

use super::Refused;

/// What came of it.
pub(crate) struct Answer {
    /// The answer as a client gets it.
    pub(crate) message: Vec<u8>,
    /// What was done, where the guard did it.
    pub(crate) decision: Option<Decision>,
}

/// A call whose answer is already there.
pub(crate) struct Payload {
    filter: Arc<Filter>,
    tool: String,
    message: Vec<u8>,
}

impl Payload {
    /// Takes bytes as the text that a tool answered with; a JSON-RPC response is taken as it is.
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

    /// The payload as it came.
    pub(crate) fn original(&self) -> &[u8] {
        &self.message
    }

    /// The answer to a call with these arguments of the guard.
    pub(crate) fn call(&self, guard: &Value) -> Result<Answer> {
        let cx = CallContext {
            principal: "local".to_owned(),
            request_id: "1".to_owned(),
            ..CallContext::default()
        };
        let call = |guard: &Value| {
            let arguments = json!({"_guard": guard});
            serde_json::to_vec(
                &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": self.tool, "arguments": arguments}}),
            )
        };
        let is_refusal = |verdict: &Request| matches!(verdict, Request::Answer(_, decision) if decision.mode == "error");
        let mut verdict = self.filter.request(&cx, &call(guard)?);
        // What a cursor leads to may have been kept by another run of this program: it is made anew from the same bytes, which gives it the same name.
        if guard.get("cursor").is_some() && is_refusal(&verdict) {
            let mut first = guard.clone();
            if let Some(members) = first.as_object_mut() {
                members.remove("cursor");
            }
            for wish in [json!({}), first] {
                if let Request::Forward(_, ticket) = self.filter.request(&cx, &call(&wish)?) {
                    let _ = self.filter.response(&cx, &ticket, &self.message);
                }
            }
            verdict = self.filter.request(&cx, &call(guard)?);
        }
        let answer = match verdict {
            Request::Answer(message, decision) => Answer { message, decision: Some(*decision) },
            Request::Forward(_, ticket) => self.shape(&cx, &ticket),
        };
        // The guard's own refusals are known by their mode; an error that the payload holds is a payload.
        match &answer.decision {
            Some(decision) if decision.mode == "error" => {
                Err(Refused(answer::content(&answer.message).concat()).into())
            }
            _ => Ok(answer),
        }
    }

    fn shape(&self, cx: &CallContext, ticket: &Ticket) -> Answer {
        let (message, decision) = self.filter.response_with_decision(cx, ticket, &self.message);
        Answer { message: message.unwrap_or_else(|| self.message.clone()), decision }
    }
}
