//! Message bodies: one JSON-RPC message, or a batch (MCP revision 2025-03-26).

use serde_json::value::RawValue;

/// The only protocol version of MCP that defines batches.
pub const BATCH_VERSION: &str = "2025-03-26";
/// The maximum number of messages in a batch.
pub const MAX_BATCH_MESSAGES: usize = 50;

/// The JSON-RPC messages of an HTTP body: one message, or a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// A single message, or bytes that are not a batch.
    Single(&'a [u8]),
    /// The elements of a JSON array, each one message.
    Batch(Vec<&'a [u8]>),
}

impl<'a> Body<'a> {
    /// Splits an HTTP body into its messages. Never fails: a body that is not a valid JSON array is
    /// a single message.
    #[must_use]
    pub fn parse(body: &'a [u8]) -> Self {
        if body.trim_ascii_start().first() != Some(&b'[') {
            return Self::Single(body);
        }
        match serde_json::from_slice::<Vec<&RawValue>>(body) {
            Ok(messages) => {
                Self::Batch(messages.into_iter().map(|raw| raw.get().as_bytes()).collect())
            }
            Err(_) => Self::Single(body),
        }
    }

    /// Returns the messages of the body, in order.
    #[must_use]
    pub fn messages(&self) -> &[&'a [u8]] {
        match self {
            Self::Single(message) => std::slice::from_ref(message),
            Self::Batch(messages) => messages,
        }
    }
}

/// Splits a body into its messages. See [`Body::parse`].
#[must_use]
pub fn split_batch(body: &[u8]) -> Vec<&[u8]> {
    Body::parse(body).messages().to_vec()
}

/// Joins messages into one batch, a JSON array.
#[must_use]
pub fn join_batch<M: AsRef<[u8]>>(messages: &[M]) -> Vec<u8> {
    let mut batch = vec![b'['];
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
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
    fn bodies_are_split_and_joined() {
        assert_eq!(split_batch(b" [1, {\"a\":[2]}] "), [b"1".as_slice(), b"{\"a\":[2]}"]);
        assert_eq!(Body::parse(b"[]"), Body::Batch(vec![]));
        for single in [b"{}".as_slice(), b"[1", b"text", b""] {
            assert_eq!(Body::parse(single), Body::Single(single));
        }
        assert_eq!(join_batch(&[b"1", b"2"]), b"[1,2]");
        assert_eq!(join_batch::<&[u8]>(&[]), b"[]");
    }
}
