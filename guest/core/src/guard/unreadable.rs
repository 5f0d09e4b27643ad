//! Answers that are no valid JSON, such as those with a superfluous comma or a missing end.
//! They are presented as a text, so that they are stored and paged like one.

use std::borrow::Cow;

use memchr::memmem;

use super::{Fault, Shaped};
use crate::json::scan::Scanner;
use crate::json::text::{Form, quoted};
use crate::snapshot::stored::Entry;

/// The number of bytes at each end of a message that are searched for its id.
const ID_SEARCH_BYTES: usize = 256;

/// Returns the message that presents the unreadable answer `message` as a text. Returns none if it
/// has no id: it is no JSON-RPC message then, and no client waits for it.
pub(super) fn as_text(message: &[u8], fault: &Fault, uri: &str) -> Option<Vec<u8>> {
    let cause = match fault {
        Fault::Malformed(at) => format!("it is not valid JSON at byte {at}"),
        Fault::TooDeep => "its nesting is too deep".to_owned(),
        _ => return None,
    };
    let note = format!(
        "The server's answer cannot be read: {cause}. Its {} bytes follow as a text, unchanged.",
        message.len()
    );
    let text = quoted(std::str::from_utf8(message).ok()?);
    let has = |name: &str| memmem::find(message, name.as_bytes()).is_some();
    let (name, member) = if has("\"contents\"") && !has("\"content\"") {
        ("contents", [b"\"uri\":".as_slice(), &quoted(uri)].concat())
    } else {
        ("content", b"\"type\":\"text\"".to_vec())
    };
    let block = |text: &[u8]| [b"{", member.as_slice(), b",\"text\":", text, b"}"].concat();
    // A client that has seen an output schema insists on structured content.
    let structured = if has("\"structuredContent\"") {
        [b",\"structuredContent\":{\"context_guard\":{\"note\":", &*quoted(&note), b"}}"].concat()
    } else {
        Vec::new()
    };
    Some(
        [
            b"{\"jsonrpc\":\"2.0\",\"id\":".as_slice(),
            find_id(message)?,
            b",\"result\":{\"",
            name.as_bytes(),
            b"\":[",
            &block(&quoted(&note)),
            b",",
            &block(&text),
            b"]",
            &structured,
            b"}}",
        ]
        .concat(),
    )
}

/// Returns the raw id of a message, which is near one of its ends: a string or a number.
fn find_id(message: &[u8]) -> Option<&[u8]> {
    let scalar_after = |at: usize| {
        let mut scanner = Scanner::starting_at(message, Form::Raw, at);
        scanner.skip_whitespace();
        let is_member = scanner.consume_bytes(b":");
        scanner.skip_whitespace();
        let value = is_member.then(|| scanner.skip_value().ok()).flatten()?;
        let value = scanner.bytes(&value);
        (!value.starts_with(b"{") && !value.starts_with(b"[") && value != b"null").then_some(value)
    };
    let head = message.get(..message.len().min(ID_SEARCH_BYTES))?;
    let tail = message.len().saturating_sub(ID_SEARCH_BYTES);
    let first = memmem::find(head, b"\"id\"");
    let last = || Some(tail + memmem::rfind(message.get(tail..)?, b"\"id\"")?);
    // Only members of the message itself count: before `result`, or at the end.
    let result = memmem::find(message, b"\"result\"").unwrap_or(message.len());
    first
        .filter(|at| *at < result)
        .and_then(|at| scalar_after(at + 4))
        .or_else(|| last().and_then(|at| scalar_after(at + 4)))
}

/// Returns a decision that does not borrow from the message.
pub(super) fn into_owned(shaped: Shaped<'_>) -> Shaped<'static> {
    let own =
        |entry: Entry<'_>| Entry { key: entry.key, value: Cow::Owned(entry.value.into_owned()) };
    Shaped {
        message: shaped.message,
        entries: shaped.entries.into_iter().map(own).collect(),
        ttl_ms: shaped.ttl_ms,
        must_be_stored: shaped.must_be_stored,
        record: shaped.record,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_at_both_ends() {
        let long = "x".repeat(2_000);
        for (message, id) in [
            (format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":["{long}",]}}}}"#), "7"),
            (format!(r#"{{"id" : "a\"b","result":{{"a":"{long}"#), r#""a\"b""#),
            (format!(r#"{{"result":{{"id":5,"a":["{long}",]}},"id":8}}"#), "8"),
        ] {
            let found = find_id(message.as_bytes()).map(String::from_utf8_lossy);
            assert_eq!(found.as_deref(), Some(id), "{message:.60}");
        }
        assert_eq!(find_id(long.as_bytes()), None);
        assert_eq!(find_id(br#"{"id":null,"result":{},}"#), None);
    }

    #[test]
    fn unreadable_answer_becomes_a_text() {
        let broken = br#"{"jsonrpc":"2.0","id":7,"result":{"structuredContent":{"a":[1,]}}}"#;
        let message = as_text(broken, &Fault::Malformed(61), "t").unwrap();
        let read: serde_json::Value = serde_json::from_slice(&message).unwrap();
        assert_eq!(read["id"], 7);
        assert_eq!(
            read["result"]["content"][1]["text"].as_str().map(str::as_bytes),
            Some(&broken[..])
        );
        assert!(read["result"]["structuredContent"]["context_guard"]["note"].is_string());
        let resource = br#"{"id":1,"result":{"contents":[{"uri":"x://y","text":"z"},]}}"#;
        let message = as_text(resource, &Fault::Malformed(9), "x://y").unwrap();
        let read: serde_json::Value = serde_json::from_slice(&message).unwrap();
        assert_eq!(read["result"]["contents"][0]["uri"], "x://y");
    }
}
