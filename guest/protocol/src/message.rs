//! JSON-RPC messages, as far as HTTP has to know them. What is not looked at is not parsed.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The head of a message.
#[derive(Deserialize)]
pub(crate) struct Head<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// Parameters that name what is asked for.
#[derive(Deserialize)]
struct Subject<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uri: Option<Cow<'a, str>>,
}

impl<'a> Head<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(message).ok()
    }

    /// The id as it is spelt; `null` where there is none.
    pub(crate) fn id(&self) -> &'a str {
        self.id.map_or("null", RawValue::get)
    }

    pub(crate) fn is_answer(&self) -> bool {
        self.method.is_none() && (self.result.is_some() || self.error.is_some())
    }

    pub(crate) fn is_tool_call(&self) -> bool {
        self.method.as_deref() == Some("tools/call")
    }

    /// The tool, prompt or resource that is asked for.
    pub(crate) fn subject(&self) -> Option<String> {
        let subject: Subject<'_> = serde_json::from_str(self.params?.get()).ok()?;
        subject.name.or(subject.uri).map(Cow::into_owned)
    }
}

/// The messages of a body: one, or a batch.
pub(crate) enum Body<'a> {
    One(&'a [u8]),
    Batch(Vec<&'a [u8]>),
}

impl<'a> Body<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Self {
        let batch = body.trim_ascii_start().starts_with(b"[");
        match serde_json::from_slice::<Vec<&RawValue>>(body) {
            Ok(messages) if batch => {
                Self::Batch(messages.into_iter().map(|raw| raw.get().as_bytes()).collect())
            }
            _ => Self::One(body),
        }
    }

    pub(crate) fn messages(&self) -> &[&'a [u8]] {
        match self {
            Self::One(message) => std::slice::from_ref(message),
            Self::Batch(messages) => messages,
        }
    }
}

/// Messages as a batch.
pub(crate) fn joined<M: AsRef<[u8]>>(messages: &[M]) -> Vec<u8> {
    let mut batch = vec![b'['];
    for (at, message) in messages.iter().enumerate() {
        if at > 0 {
            batch.push(b',');
        }
        batch.extend_from_slice(message.as_ref());
    }
    batch.push(b']');
    batch
}

/// What a client is told in the place of an answer. A tool's failure is a result, so that the model sees why.
pub(crate) fn failure(id: &str, tool: bool, reason: &str) -> Vec<u8> {
    let text = serde_json::Value::from(format!("[context-guard] {reason}"));
    if tool {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":{text}}}],"isError":true,"resultType":"complete"}}}}"#).into_bytes()
    } else {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-31003,"message":{text}}}}}"#)
            .into_bytes()
    }
}
