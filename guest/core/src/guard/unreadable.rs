//! Answers that are not valid JSON, such as those with a superfluous comma or a missing end. The
//! guard stores and pages them like texts.

use std::borrow::Cow;

use context_guard_protocol::answer::{find_id, is_valid_json};
use memchr::memmem;

use super::{Fault, Shaped};
use crate::json::text::quoted;
use crate::snapshot::stored::Entry;

/// Returns the message that presents the unreadable answer `message` as a text. `None` if it has no
/// id: it is then not a JSON-RPC response, and no client waits for it. `None` also for faults that
/// do not concern the syntax.
pub(super) fn as_text(message: &[u8], fault: &Fault, uri: &str) -> Option<Vec<u8>> {
    let cause = match fault {
        Fault::Malformed(at) => format!("it is not valid JSON at byte {at}"),
        Fault::TooDeep => "its nesting is too deep".to_owned(),
        Fault::InvalidString => {
            "it is not valid JSON, as a string has an invalid escape or control character"
                .to_owned()
        }
        _ => return None,
    };
    let note = format!(
        "The server's answer cannot be read: {cause}. Its {} bytes follow as a text, unchanged.",
        message.len()
    );
    let text = quoted(std::str::from_utf8(message).ok()?);
    let has = |name: &str| memmem::find(message, name.as_bytes()).is_some();
    // The name of a tool is no URI. An answer with a missing end may lack its `contents`.
    let is_resource = uri.contains("://") || (has("\"contents\"") && !has("\"content\""));
    let (name, member) = if is_resource {
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
            find_id(message)?.as_bytes(),
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

/// Returns `message`, which contains parts of an unreadable answer, as valid JSON. Escapes
/// characters that JSON strings must not contain. Any other damage is reported as an error in a
/// response to `id` (raw JSON).
pub(super) fn repair(message: &[u8], id: &[u8]) -> Vec<u8> {
    let mut repaired = Vec::with_capacity(message.len() + 16);
    let (mut at, mut in_string) = (0, false);
    while let Some(&byte) = message.get(at) {
        at += 1;
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                let rest = message.get(at..).unwrap_or_default();
                let is_unicode = rest.first() == Some(&b'u')
                    && rest.get(1..5).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
                if is_unicode || rest.first().is_some_and(|next| b"\"\\/bfnrt".contains(next)) {
                    repaired.push(byte);
                    repaired.extend(rest.first());
                    at += 1;
                } else {
                    repaired.extend_from_slice(b"\\\\");
                }
                continue;
            }
            b'\0'..b' ' if in_string => {
                repaired.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                continue;
            }
            _ => {}
        }
        repaired.push(byte);
    }
    if is_valid_json(&repaired) {
        return repaired;
    }
    let text = "[context-guard] This part of the server's answer is not valid JSON, so it cannot be shown as such. Read another part, or repeat the call.";
    [
        b"{\"jsonrpc\":\"2.0\",\"id\":".as_slice(),
        id,
        b",\"result\":{\"content\":[{\"type\":\"text\",\"text\":",
        &quoted(text),
        b"}],\"isError\":true}}",
    ]
    .concat()
}

/// Returns the decision with owned data, independent of the message.
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
        let cut = br#"{"id":1,"result":{"ttlMs":1,"content":"#;
        let message = as_text(cut, &Fault::Malformed(9), "x://y").unwrap();
        let read: serde_json::Value = serde_json::from_slice(&message).unwrap();
        assert_eq!(read["result"]["contents"][0]["uri"], "x://y");
    }
}
