//! As much of a JSON-RPC message as the pump must know: whose it is, not what it holds. What it holds need not even be UTF-8: the guard decides on that.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::message::Head;

/// The head of a message. The rest is passed over, not kept.
#[derive(Debug, Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    /// Requests and notifications have one.
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
}

/// An id, spelt one way: clients and servers may space or escape it differently.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id(String);

impl Id {
    /// The id as text, for the record.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'a> Envelope<'a> {
    /// The head of a message; none where it is not a JSON object.
    pub(super) fn read(message: &'a [u8]) -> Option<Self> {
        match Head::by_ends(message) {
            Some(head) => Some(Self { id: head.id, method: None }),
            None => serde_json::from_slice(message).ok(),
        }
    }

    /// The id, if it has one that is not null.
    pub(super) fn id(&self) -> Option<Id> {
        let id: serde_json::Value = serde_json::from_str(self.id?.get()).ok()?;
        (!id.is_null()).then(|| Id(id.to_string()))
    }
}

/// The messages of a batch, if it is one (revision 2025-03-26).
pub(super) fn batch(message: &[u8]) -> Option<Vec<&RawValue>> {
    if message.trim_ascii_start().first() != Some(&b'[') {
        return None;
    }
    serde_json::from_slice(message).ok()
}

/// Puts messages together to a batch.
pub(super) fn join(messages: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut batch = b"[".to_vec();
    for (at, message) in messages.iter().enumerate() {
        if at > 0 {
            batch.push(b',');
        }
        batch.extend_from_slice(message.as_ref());
    }
    batch.push(b']');
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_however_they_are_spelt_and_wherever_they_stand() {
        let id =
            |message: &str| Envelope::read(message.as_bytes()).and_then(|envelope| envelope.id());
        assert_eq!(id(r#"{"result":{"id":9},"id": 7 }"#), id(r#"{"id":7}"#));
        assert_eq!(id(r#"{"id":"a\/b"}"#), id(r#"{"id":"a/b"}"#));
        assert_ne!(id(r#"{"id":"7"}"#), id(r#"{"id":7}"#));
        assert_eq!(id(r#"{"id":null}"#), None);
        assert_eq!(id("log line"), None);
    }
}
