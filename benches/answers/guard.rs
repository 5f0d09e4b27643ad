//! A client of the native guard.

use anyhow::{Result, bail};
use context_guard_test_kit::guard::{NativeGuard, TestGuard as _, Verdict};
use context_guard_tokens::Estimator;
use serde_json::{Value, json};

use crate::payload::Payload;

/// The contents in which a server returns a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// Text alone.
    Text,
    /// Text, and the same as structured content.
    Both,
}

impl Contents {
    /// Returns the contents in which a server may return a payload.
    pub(crate) fn possible(payload: &Payload) -> Vec<Self> {
        match payload.json {
            Some(Value::Object(_)) => vec![Self::Text, Self::Both],
            _ => vec![Self::Text],
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Both => "both",
        }
    }

    /// Returns the result of a tool as JSON. The structured content has the same bytes as the text,
    /// so that the guard treats both as one payload.
    fn result(self, payload: &Payload) -> String {
        let content = json!([{"type": "text", "text": payload.text}]);
        match self {
            Self::Text => format!("{{\"content\":{content}}}"),
            Self::Both => {
                format!("{{\"content\":{content},\"structuredContent\":{}}}", payload.text)
            }
        }
    }

    /// Returns the tokens of the payload in these contents.
    pub(crate) fn tokens(self, payload: &Payload) -> u64 {
        let message = format!("{{\"result\":{}}}", self.result(payload));
        Answer(serde_json::from_str(&message).unwrap_or_default()).tokens()
    }
}

/// A client that calls a tool behind a guard with an empty store.
pub(crate) struct Client(NativeGuard);

impl Client {
    pub(crate) fn new(budget: u64) -> Result<Self> {
        let policy = json!({
            "tokenBudgetThreshold": budget,
            "summaryThreshold": budget.max(500),
            "hardCap": budget.max(12_000),
        });
        Ok(Self(NativeGuard::with_policy(&policy.to_string())?))
    }

    /// Returns the first answer with a payload.
    pub(crate) fn first(&self, payload: &Payload, contents: Contents) -> Result<Answer> {
        let result = contents.result(payload);
        let message = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}").into_bytes();
        let answer = match self.0.request(&call("tool", &json!({})))? {
            Verdict::Forward(_, ticket) => self.0.response(&ticket, &message)?.0,
            Verdict::Answer(answer, _) => Some(answer),
        };
        Ok(Answer(serde_json::from_slice(answer.as_ref().unwrap_or(&message))?))
    }

    /// Reads from the stored original of an answer, with these arguments beside its cursor. None if
    /// the answer has no cursor.
    pub(crate) fn read(&self, answer: &Answer, arguments: &Value) -> Result<Option<Answer>> {
        let Some(cursor) = answer.cursor() else { return Ok(None) };
        let mut arguments = arguments.clone();
        arguments["cursor"] = cursor.into();
        match self.0.request(&call("context_guard_read", &arguments))? {
            Verdict::Answer(answer, _) => Ok(Some(Answer(serde_json::from_slice(&answer)?))),
            Verdict::Forward(..) => bail!("a read was forwarded"),
        }
    }
}

fn call(tool: &str, arguments: &Value) -> Vec<u8> {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        .to_string()
        .into_bytes()
}

/// An answer as the client receives it.
pub(crate) struct Answer(pub(crate) Value);

impl Answer {
    fn texts(&self) -> impl Iterator<Item = &str> {
        let blocks = self.0["result"]["content"].as_array().into_iter().flatten();
        blocks.filter_map(|block| block["text"].as_str())
    }

    /// Returns the text and the structured content, as a model sees them.
    pub(crate) fn shown(&self) -> String {
        let mut shown: Vec<String> = self.texts().map(str::to_owned).collect();
        let structured = &self.0["result"]["structuredContent"];
        if !structured.is_null() {
            shown.push(structured.to_string());
        }
        shown.join("\n")
    }

    fn metadata(&self) -> &Value {
        &self.0["result"]["_meta"]["dev.context-guard/result"]
    }

    /// Returns the cursor to the next part, or else the cursor to the whole.
    fn cursor(&self) -> Option<&str> {
        let metadata = self.metadata();
        metadata["nextCursor"].as_str().or_else(|| metadata["cursor"].as_str())
    }

    /// Returns true if the answer has a cursor to a next part.
    pub(crate) fn has_next(&self) -> bool {
        self.metadata()["nextCursor"].is_string()
    }

    /// Returns the kind of the answer: `whole` if it is unchanged.
    pub(crate) fn kind(&self) -> String {
        self.metadata()["kind"].as_str().unwrap_or("whole").to_owned()
    }

    /// Returns the cost of text and structured content, as the guard plans with it, as a share of
    /// what a budget allows.
    pub(crate) fn planned(&self, budget: u64) -> f64 {
        let estimator = Estimator::default();
        let structured = &self.0["result"]["structuredContent"];
        let structured = (!structured.is_null()).then(|| structured.to_string());
        let texts = self.texts().chain(structured.as_deref());
        let cost: u64 = texts.map(|text| estimator.cost(text.as_bytes())).sum();
        cost as f64 / estimator.allowance(budget) as f64
    }

    /// Returns the tokens of text and structured content, by the tokenizer o200k.
    pub(crate) fn tokens(&self) -> u64 {
        let shown = self.texts().map(o200k).sum::<u64>();
        let structured = &self.0["result"]["structuredContent"];
        shown + if structured.is_null() { 0 } else { o200k(&structured.to_string()) }
    }
}

pub(crate) fn o200k(text: &str) -> u64 {
    tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len() as u64
}
