//! What becomes of an answer when the guard fails on it: no shaping here, only a byte limit, and a label that says so.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::engine::OnFault;

/// As much of an answer as is needed to cut it. Nothing is parsed deeper, so no nesting is too deep.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    result: Parts<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parts<'a> {
    content: Option<Vec<Block>>,
    contents: Option<Vec<Block>>,
    structured_content: Option<IgnoredAny>,
    #[serde(borrow)]
    is_error: Option<&'a RawValue>,
    #[serde(borrow)]
    result_type: Option<&'a RawValue>,
    #[serde(borrow)]
    ttl_ms: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_scope: Option<&'a RawValue>,
}

/// A content block, or one of the contents of a resource.
#[derive(Deserialize)]
struct Block {
    text: Option<String>,
    uri: Option<String>,
    resource: Option<Box<Block>>,
}

impl Block {
    fn text(&self) -> Option<&str> {
        self.text.as_deref().or_else(|| self.resource.as_ref()?.text())
    }
}

/// The answer that is sent instead; none to send the one that came.
///
/// Only results of tools and resources are ever cut: everything else passes, since half of it would be of no use.
#[must_use]
pub fn limit(message: &[u8], on_fault: OnFault, limit: usize) -> Option<Vec<u8>> {
    if on_fault == OnFault::Pass || (message.len() <= limit && on_fault == OnFault::Limit) {
        return None;
    }
    let answer: Answer<'_> = serde_json::from_slice(message).ok()?;
    let blocks = answer.result.content.as_ref().or(answer.result.contents.as_ref())?;
    let reply = if on_fault == OnFault::Block {
        let text = "[context-guard] This answer could not be shaped, and the policy blocks what is not shaped (onFault: block). Ask for less, or tell the operator.";
        json!({"content": [{"type": "text", "text": text}], "isError": true})
    } else {
        cut(&answer.result, blocks, message.len(), limit)
    };
    Some(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{reply}}}"#, answer.id).into_bytes())
}

fn cut(result: &Parts<'_>, blocks: &[Block], bytes: usize, limit: usize) -> Value {
    let text: Vec<&str> = blocks.iter().filter_map(Block::text).collect();
    let text = text.join("\n");
    // Control characters grow sixfold when they are escaped: of a text that is full of them, so much less is shown.
    let escaped = serde_json::to_string(&text).map_or(text.len(), |json| json.len());
    let room = limit.saturating_sub(1_600) * text.len() / escaped.max(1);
    let (head, tail) = (head(&text, room * 3 / 4), tail(&text, room / 4));
    let shown = head.len() + tail.len();
    let note = format!(
        "[context-guard] PARTIAL: the guard failed on this answer of {bytes} bytes, so only {shown} bytes of its text are shown, from its beginning and end. \
         The rest is NOT shown and was not kept. Ask for less, or repeat the call."
    );
    let text = if shown < text.len() { format!("{head}\n[…]\n{tail}") } else { text };
    let mut reply = if result.contents.is_some() {
        let uri = blocks.first().and_then(|block| block.uri.clone());
        json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}, {"uri": "context-guard://fault", "mimeType": "text/plain", "text": note}]})
    } else {
        json!({"content": [{"type": "text", "text": text}, {"type": "text", "text": note}]})
    };
    // A client that was shown an output schema insists on structured content; the schema was relaxed to take this.
    if result.structured_content.is_some() {
        add(&mut reply, "structuredContent", json!({"context_guard": {"note": note}}));
    }
    let kept = [
        ("isError", result.is_error),
        ("resultType", result.result_type),
        ("ttlMs", result.ttl_ms),
        ("cacheScope", result.cache_scope),
    ];
    for (name, value) in kept {
        if let Some(value) = value.and_then(|value| serde_json::from_str(value.get()).ok()) {
            add(&mut reply, name, value);
        }
    }
    reply
}

fn add(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

fn head(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

fn tail(text: &str, bytes: usize) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(bytes));
    if text.len() <= bytes { "" } else { text.get(from..).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str, structured: bool) -> Vec<u8> {
        let mut result = json!({"content": [{"type": "text", "text": text}], "isError": true});
        if structured {
            result["structuredContent"] = json!({"text": text});
        }
        serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": "x", "result": result})).unwrap()
    }

    #[test]
    fn what_fits_passes_as_it_is() {
        assert_eq!(limit(&answer("small", true), OnFault::Limit, 10_240), None);
        assert_eq!(limit(&answer(&"x".repeat(50_000), true), OnFault::Pass, 10_240), None);
        assert_eq!(limit(b"not JSON at all", OnFault::Limit, 5), None);
        assert_eq!(limit(br#"{"id":1,"result":{"tools":[]}}"#, OnFault::Limit, 5), None);
    }

    #[test]
    fn more_is_cut_to_a_valid_labelled_answer() {
        for text in ["€uro ".repeat(20_000), "\u{1}".repeat(80_000)] {
            let cut = limit(&answer(&text, true), OnFault::Limit, 10_240).unwrap();
            assert!(cut.len() <= 10_240, "{}", cut.len());
            let cut: Value = serde_json::from_slice(&cut).unwrap();
            assert_eq!((&cut["id"], &cut["result"]["isError"]), (&json!("x"), &json!(true)));
            assert!(cut["result"]["content"][1]["text"].as_str().unwrap().contains("PARTIAL"));
            assert!(cut["result"]["structuredContent"]["context_guard"].is_object());
        }
    }

    #[test]
    fn blocking_is_an_error_that_explains() {
        let blocked: Value = serde_json::from_slice(
            &limit(&answer("small", false), OnFault::Block, 10_240).unwrap(),
        )
        .unwrap();
        assert_eq!(blocked["result"]["isError"], true);
    }
}
