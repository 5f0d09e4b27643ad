//! Envelopes of JSON-RPC messages: the fast readers agree with a JSON parser, and ids are compared
//! by value.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a panic is what is looked for")]

use context_guard_protocol::batch::{Body, join_batch};
use context_guard_protocol::{Envelope, Head, Kind, RequestId, is_same_id};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fn check_head(message: &[u8]) {
    let head = Head::read(message);
    let envelope = Envelope::read(message);
    let Some(head) = head else { return };
    if let Some(envelope) = envelope {
        assert_eq!(envelope.id(), head.request_id(), "the readers disagree");
    }
    let Ok(value) = serde_json::from_slice::<Value>(message) else { return };
    let parsed = |raw: &str| serde_json::from_str::<Value>(raw).ok();
    assert_eq!(parsed(head.raw_id()).as_ref(), Some(value.get("id").unwrap_or(&Value::Null)));
    assert_eq!(head.method.as_deref(), value.get("method").and_then(Value::as_str));
    assert_eq!(
        head.result.and_then(parsed).unwrap_or_default(),
        value.get("result").cloned().unwrap_or_default()
    );
    let has_id = value.get("id").is_some_and(|id| !id.is_null());
    assert_eq!(head.kind() == Some(Kind::Request), has_id && head.method.is_some());
    let _ = (head.subject(), head.parameters().version(), head.is_stateless());
}

fn check_id(raw: &str) {
    let Some(id) = RequestId::parse(raw) else { return };
    assert_eq!(RequestId::parse(id.as_str()).as_ref(), Some(&id), "the form is not canonical");
    assert!(is_same_id(raw, id.as_str()) && !is_same_id(raw, "null"));
    if let (Ok(one), Ok(other)) =
        (serde_json::from_str::<i64>(raw), serde_json::from_str::<i64>(id.as_str()))
    {
        assert_eq!(one, other);
    }
}

/// Checks the reader of long responses, which does not parse the result.
fn check_long(raw: &str) {
    let pad = "x".repeat(5_000);
    for message in [
        format!(r#"{{"jsonrpc":"2.0","id":{raw},"result":{{"a":"{pad}"}}}}"#),
        format!(r#"{{"result":{{"a":"{pad}"}},"id":{raw},"jsonrpc":"2.0"}}"#),
    ] {
        check_head(message.as_bytes());
    }
}

fuzz_target!(|body: &[u8]| {
    let parsed = Body::parse(body);
    if let Body::Batch(messages) = &parsed {
        let joined = join_batch(messages);
        let read = Body::parse(&joined);
        assert_eq!(read.messages(), messages.as_slice(), "a batch changes when it is joined");
    }
    parsed.messages().iter().for_each(|message| check_head(message));
    if let Ok(raw) = std::str::from_utf8(body)
        && serde_json::from_str::<&serde_json::value::RawValue>(raw).is_ok()
    {
        check_id(raw);
        check_long(raw);
    }
});
