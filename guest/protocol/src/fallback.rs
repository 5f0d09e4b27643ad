//! The answer to the client when the guard fails. The upstream's answer is not shaped, but cut to a
//! byte limit, with a text that reports the failure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::non_finite;

/// The number of bytes in a cut answer that are reserved for everything except the upstream's text.
const RESERVED_BYTES: usize = 1_600;
/// Maximum size, in bytes, of a URI or a member that is copied from the upstream's answer. The
/// upstream chooses these values, and they must not exceed the byte limit.
const MAX_MEMBER_BYTES: usize = 256;
/// Placeholder URI in an answer to `resources/read`. It identifies the text that reports the
/// failure, and contents whose own URI is missing or too long.
const FAULT_URI: &str = "context-guard://fault";

/// The policy's treatment of upstream answers that the guard failed to shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFault {
    /// Sends every answer unchanged, whatever its size.
    Pass,
    /// Sends an answer within the byte limit unchanged. Cuts and labels a longer one.
    Limit,
    /// Sends an error text instead of every result of a tool or resource.
    Block,
}

/// The members of an object. Of members with one name, the last one counts, as for clients. Parsing
/// skips deeper values, so that deep nesting cannot make it fail.
type LastMembers<'a> = BTreeMap<String, &'a RawValue>;

/// A content block of a tool result, or one of the contents of a resource. Members of another type
/// count as absent, so that an invalid block cannot evade the limit.
#[derive(Default, Deserialize)]
struct Block {
    #[serde(default, deserialize_with = "lenient")]
    text: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    uri: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    resource: Option<EmbeddedResource>,
}

/// The resource in a content block.
#[derive(Deserialize)]
struct EmbeddedResource {
    text: Option<String>,
}

impl Block {
    fn text(&self) -> Option<&str> {
        self.text.as_deref().or_else(|| self.resource.as_ref()?.text.as_deref())
    }
}

/// Parses a value. Values of another type become `None`.
fn lenient<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(serde_json::from_str(<&RawValue>::deserialize(from)?.get()).ok())
}

/// Parses the blocks of a result. A value that is no list counts as one block.
fn read_blocks(content: &RawValue) -> Vec<Block> {
    let blocks: Vec<&RawValue> =
        serde_json::from_str(content.get()).unwrap_or_else(|_| vec![content]);
    blocks.iter().map(|block| serde_json::from_str(block.get()).unwrap_or_default()).collect()
}

/// Returns the answer to send instead of `message`, the upstream's answer. It has at most `limit`
/// bytes, or about 1,600 if `limit` is lower. Returns `None` if `message` passes unchanged.
///
/// Only results of tools and resources are replaced, because a part of any other message is
/// useless. They are recognized by their members `content`, `contents` or `structuredContent`.
/// O(n).
#[must_use]
pub fn limit(message: &[u8], on_fault: OnFault, limit: usize) -> Option<Vec<u8>> {
    if on_fault == OnFault::Pass || (message.len() <= limit && on_fault == OnFault::Limit) {
        return None;
    }
    let text = String::from_utf8_lossy(message);
    let valid = non_finite::replaced(text.as_bytes());
    let valid = valid.as_deref().unwrap_or(text.as_bytes());
    let answer: LastMembers<'_> = serde_json::from_slice(valid).ok()?;
    let (id, result) = (answer.get("id")?, answer.get("result")?);
    let result: LastMembers<'_> = serde_json::from_str(result.get()).ok()?;
    let member = |name: &str| result.get(name).filter(|value| value.get() != "null");
    let structured = member("structuredContent");
    let is_resource = member("content").is_none() && member("contents").is_some();
    let content = member("content").or(member("contents"));
    content.or(structured)?;
    let blocks = content.map(|content| read_blocks(content)).unwrap_or_default();
    let mut reply = if on_fault == OnFault::Block {
        let text = "[context-guard] This answer could not be shaped, and the policy blocks what is not shaped (onFault: block). Ask for less, or tell the operator.";
        write_texts(&[text], is_resource, &blocks)
    } else {
        let structured =
            structured.and_then(|value| non_finite::verbatim(text.as_bytes(), valid, value.get()));
        cut(structured, &blocks, is_resource, message.len(), limit)
    };
    for name in ["isError", "resultType", "ttlMs", "cacheScope"] {
        let value = member(name).filter(|value| value.get().len() <= MAX_MEMBER_BYTES);
        if let Some(value) = value.and_then(|value| serde_json::from_str(value.get()).ok()) {
            reply.insert(name.to_owned(), value);
        }
    }
    if on_fault == OnFault::Block && !is_resource {
        reply.insert("isError".to_owned(), true.into());
    }
    let reply = Value::Object(reply);
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{reply}}}"#).into_bytes())
}

/// Returns a result with the beginning and the end of the texts in `blocks`, or of `structured`,
/// the structured content, if there are no texts. `bytes` is the size of the upstream's answer.
fn cut(
    structured: Option<&str>,
    blocks: &[Block],
    is_resource: bool,
    bytes: usize,
    limit: usize,
) -> Map<String, Value> {
    let texts: Vec<&str> = blocks.iter().filter_map(Block::text).collect();
    let joined = texts.join("\n");
    let text = if texts.is_empty() { structured.unwrap_or_default() } else { &joined };
    let room = limit.saturating_sub(RESERVED_BYTES);
    let (head, tail) = if escaped_bytes(text) <= room {
        (text, "")
    } else {
        let head = head(text, room / 4 * 3);
        (head, tail(text.get(head.len()..).unwrap_or_default(), room / 4))
    };
    let shown = head.len() + tail.len();
    let note = format!(
        "[context-guard] PARTIAL: the guard failed on this answer of {bytes} bytes, so only {shown} bytes of its text are shown, from its beginning and end. \
         The rest is NOT shown and was not kept. Ask for less, or repeat the call."
    );
    let cut = format!("{head}\n[…]\n{tail}");
    let shown = if shown < text.len() { &cut } else { text };
    let mut reply = write_texts(&[shown, &note], is_resource, blocks);
    // A client that has seen an output schema insists on structured content. The guard has relaxed
    // the schema to accept this member.
    if structured.is_some() {
        reply.insert("structuredContent".to_owned(), json!({"context_guard": {"note": note}}));
    }
    reply
}

/// Returns texts as the content of a tool result or, if `is_resource`, of a resource. The URI is
/// that of the first of `blocks`, the upstream's content.
fn write_texts(texts: &[&str], is_resource: bool, blocks: &[Block]) -> Map<String, Value> {
    let uri = blocks.first().and_then(|block| block.uri.as_deref());
    let uri = uri.filter(|uri| escaped_bytes(uri) <= MAX_MEMBER_BYTES).unwrap_or(FAULT_URI);
    let block = |(index, text): (usize, &&str)| {
        if is_resource {
            let uri = if index == 0 { uri } else { FAULT_URI };
            json!({"uri": uri, "mimeType": "text/plain", "text": text})
        } else {
            json!({"type": "text", "text": text})
        }
    };
    let blocks: Vec<Value> = texts.iter().enumerate().map(block).collect();
    let name = if is_resource { "contents" } else { "content" };
    Map::from_iter([(name.to_owned(), blocks.into())])
}

/// Returns the number of bytes of a character in a JSON string. A control character needs six.
fn escaped_len(character: char) -> usize {
    match character {
        '"' | '\\' => 2,
        control if control < ' ' => 6,
        other => other.len_utf8(),
    }
}

fn escaped_bytes(text: &str) -> usize {
    text.chars().map(escaped_len).sum()
}

/// Returns the longest prefix of a text that needs at most `room` bytes in a JSON string.
fn head(text: &str, mut room: usize) -> &str {
    let end = text.char_indices().find(|(_, character)| {
        let cost = escaped_len(*character);
        let fits = cost <= room;
        room = room.saturating_sub(cost);
        !fits
    });
    end.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// Returns the longest suffix of a text that needs at most `room` bytes in a JSON string.
fn tail(text: &str, mut room: usize) -> &str {
    let start = text.char_indices().rev().find(|(_, character)| {
        let cost = escaped_len(*character);
        let fits = cost <= room;
        room = room.saturating_sub(cost);
        !fits
    });
    let start = start.map_or(0, |(start, character)| start + character.len_utf8());
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Vec<u8> {
        let result = json!({
            "content": [
                {"type": "text", "text": text},
                {"type": "resource", "resource": {"uri": "x://1", "text": "embedded end"}},
            ],
            "structuredContent": {"text": text},
            "isError": true, "resultType": "complete", "ttlMs": 500, "cacheScope": "private",
        });
        json!({"jsonrpc": "2.0", "id": "x", "result": result}).to_string().into_bytes()
    }

    #[test]
    fn small_and_unknown_answers_pass() {
        assert_eq!(limit(&answer("small"), OnFault::Limit, 10_240), None);
        assert_eq!(limit(&answer(&"x".repeat(50_000)), OnFault::Pass, 10_240), None);
        assert_eq!(limit(b"not JSON at all", OnFault::Limit, 5), None);
        assert_eq!(limit(br#"{"id":1,"result":{"tools":[]}}"#, OnFault::Block, 5), None);
    }

    #[test]
    fn repeated_members_do_not_evade_the_limit() {
        let long = "x".repeat(50_000);
        let text = |text: &str| format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
        let message =
            format!(r#"{{"id":1,"result":{},"id":2,"result":{}}}"#, text("a"), text(&long));
        let cut = limit(message.as_bytes(), OnFault::Limit, 10_240).unwrap();
        let cut: Value = serde_json::from_slice(&cut).unwrap();
        assert_eq!(cut["id"], json!(2));
        assert!(cut["result"].to_string().contains("PARTIAL"), "{cut}");
    }

    #[test]
    fn long_answer_is_cut_within_the_limit() {
        let mixed = ["\u{1}".repeat(20_000), "plain ".repeat(20_000)].concat();
        for text in ["€uro ".repeat(20_000), "\u{1}".repeat(80_000), mixed, "\"".repeat(50_000)] {
            let cut = limit(&answer(&text), OnFault::Limit, 10_240).unwrap();
            assert!(cut.len() <= 10_240 && cut.len() > 8_000, "{}", cut.len());
            let cut: Value = serde_json::from_slice(&cut).unwrap();
            let result = &cut["result"];
            assert_eq!((&cut["id"], &result["isError"]), (&json!("x"), &json!(true)));
            assert_eq!(
                (&result["resultType"], &result["ttlMs"], &result["cacheScope"]),
                (&json!("complete"), &json!(500), &json!("private"))
            );
            let shown = result["content"][0]["text"].as_str().unwrap();
            assert!(
                shown.starts_with(text.chars().next().unwrap())
                    && shown.ends_with("\nembedded end")
            );
            assert!(result["content"][1]["text"].as_str().unwrap().contains("PARTIAL"));
            assert!(result["structuredContent"]["context_guard"].is_object());
        }
    }

    #[test]
    fn non_finite_numbers_do_not_evade_the_limit() {
        let text = "x".repeat(50_000);
        let message = format!(
            r#"{{"id":1,"result":{{"structuredContent":{{"a":NaN}},"content":[{{"type":"text","text":"{text}"}}]}}}}"#
        );
        let cut = limit(message.as_bytes(), OnFault::Limit, 10_240).unwrap();
        assert!(cut.len() <= 10_240, "{}", cut.len());
    }

    #[test]
    fn invalid_blocks_do_not_evade_the_limit() {
        let text = "x".repeat(20_000);
        for result in [
            json!({"structuredContent": {"a": text}}),
            json!({"content": null, "structuredContent": {"a": text}}),
            json!({"content": [], "structuredContent": {"a": text}}),
            json!({"content": [{"type": "text", "text": 7}, {"type": "text", "text": text}]}),
            json!({"content": ["y", 1, {"type": "text", "text": text, "uri": {}, "resource": 5}]}),
            json!({"content": text, "structuredContent": [text]}),
            json!({"contents": {"text": text}}),
        ] {
            let message = json!({"id": 1, "result": result}).to_string();
            let cut = limit(message.as_bytes(), OnFault::Limit, 10_240).unwrap();
            assert!(cut.len() <= 10_240, "{}", cut.len());
            assert!(String::from_utf8_lossy(&cut).contains(&"x".repeat(5_000)), "{result:.60}");
        }
        let message = br#"{"id":1,"result":{"structuredContent":{"a":1}}}"#;
        let blocked = limit(message, OnFault::Block, 10_240).unwrap();
        let blocked: Value = serde_json::from_slice(&blocked).unwrap();
        assert_eq!(blocked["result"]["isError"], true);
        let invalid =
            [br#"{"id":1,"result":{"structuredContent":[NaN,""#, &[0xff; 20_000][..], b"\"]}}"];
        let cut = limit(&invalid.concat(), OnFault::Limit, 10_240).unwrap();
        assert!(cut.len() <= 10_240 && String::from_utf8_lossy(&cut).contains("[NaN,"));
    }

    #[test]
    fn resource_remains_a_resource() {
        let contents = json!([{"uri": "file:///log", "text": "x".repeat(50_000)}]);
        let message = json!({"id": 1, "result": {"contents": contents}}).to_string();
        for on_fault in [OnFault::Limit, OnFault::Block] {
            let cut = limit(message.as_bytes(), on_fault, 10_240).unwrap();
            let cut: Value = serde_json::from_slice(&cut).unwrap();
            assert_eq!(cut["result"]["contents"][0]["uri"], "file:///log");
            assert!(cut["result"].get("content").is_none());
        }
    }

    #[test]
    fn members_of_the_upstream_cannot_break_the_limit() {
        let long = "y".repeat(50_000);
        let contents = json!([{"uri": long, "text": "x".repeat(50_000)}]);
        let result = json!({"contents": contents, "resultType": long, "cacheScope": long});
        let message = json!({"id": 1, "result": result}).to_string();
        let cut = limit(message.as_bytes(), OnFault::Limit, 10_240).unwrap();
        assert!(cut.len() <= 10_240, "{}", cut.len());
    }

    #[test]
    fn blocked_answer_explains_itself() {
        let blocked = limit(&answer("small"), OnFault::Block, 10_240).unwrap();
        let blocked: Value = serde_json::from_slice(&blocked).unwrap();
        assert_eq!(blocked["result"]["isError"], true);
        assert_eq!(blocked["result"]["resultType"], "complete");
        assert!(blocked["result"]["content"][0]["text"].as_str().unwrap().contains("onFault"));
    }
}
