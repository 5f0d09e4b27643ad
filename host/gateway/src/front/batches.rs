//! Accepts JSON-RPC batches only where the protocol defines them, within a number of messages.

use std::fmt;

use context_guard_protocol::batch::{BATCH_VERSION, MAX_BATCH_MESSAGES};
use serde::de::{Deserializer, Error, IgnoredAny, SeqAccess, Visitor};

/// Returns true if a body is a batch, which is a JSON array.
pub(crate) fn is_batch(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'[')
}

/// Returns the number of messages in a batch. `version` is the protocol version that the client's
/// session negotiated, or `None` without a session.
///
/// # Errors
/// The reason why the batch is refused.
pub(crate) fn count_messages(body: &[u8], version: Option<&str>) -> Result<usize, String> {
    if version != Some(BATCH_VERSION) {
        return Err(format!(
            "a JSON-RPC batch needs a session with protocol version {BATCH_VERSION}: send each message in a request of its own"
        ));
    }
    let mut parser = serde_json::Deserializer::from_slice(body);
    let count = parser.deserialize_seq(MessageCounter).map_err(|error| {
        format!("invalid JSON-RPC batch of 1 to {MAX_BATCH_MESSAGES} messages: {error}")
    })?;
    parser.end().map_err(|error| format!("invalid JSON-RPC batch: {error}"))?;
    Ok(count)
}

/// Counts the elements of a JSON array without collecting them. Fails when the count exceeds the
/// maximum.
struct MessageCounter;

impl<'de> Visitor<'de> for MessageCounter {
    type Value = usize;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a batch of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut messages: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while messages.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
            if count > MAX_BATCH_MESSAGES {
                return Err(A::Error::custom("too many messages"));
            }
        }
        if count == 0 {
            return Err(A::Error::custom("no message"));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_need_their_version_and_a_bounded_length() {
        let batch = |messages: usize| format!(" [{}]", vec!["{\"id\":1}"; messages].join(","));
        let count = |messages, version| count_messages(batch(messages).as_bytes(), version);
        assert!(is_batch(batch(2).as_bytes()) && !is_batch(b"{\"a\":[]}") && !is_batch(b""));
        assert_eq!(count(1, Some(BATCH_VERSION)), Ok(1));
        assert_eq!(count(MAX_BATCH_MESSAGES, Some(BATCH_VERSION)), Ok(MAX_BATCH_MESSAGES));
        for (messages, version) in [
            (0, Some(BATCH_VERSION)),
            (51, Some(BATCH_VERSION)),
            (1, None),
            (1, Some("2025-06-18")),
        ] {
            assert!(count(messages, version).is_err(), "{messages} {version:?}");
        }
        assert!(count_messages(b"[1,", Some(BATCH_VERSION)).is_err());
        assert!(count_messages(b"[1] 2", Some(BATCH_VERSION)).is_err());
    }
}
