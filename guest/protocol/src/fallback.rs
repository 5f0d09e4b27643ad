//! What becomes of an answer when the guard fails on it: no shaping, only a byte limit, and a label that says so (requirements, reliability).

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// What policy wants then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFault {
    /// Every answer passes, whatever its size.
    Pass,
    /// What fits the byte limit passes, the rest is cut and labelled.
    Limit,
    /// An error takes the place of every answer.
    Block,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    result: Result<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Result<'a> {
    content: Option<Vec<Text>>,
    contents: Option<Vec<Text>>,
    structured_content: Option<IgnoredAny>,
    #[serde(borrow)]
    is_error: Option<&'a RawValue>,
    #[serde(borrow)]
    result_type: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Text {
    text: Option<String>,
    uri: Option<String>,
}

/// The answer that is sent instead, of at most `limit` bytes; none to send the one that came. What is no answer of a tool or resource passes: half of it would be of no use.
#[must_use]
pub fn limit(message: &[u8], on_fault: OnFault, limit: usize) -> Option<Vec<u8>> {
    if on_fault == OnFault::Pass || (on_fault == OnFault::Limit && message.len() <= limit) {
        return None;
    }
    let Answer { id, result } = serde_json::from_slice(message).ok()?;
    let blocks = result.content.as_ref().or(result.contents.as_ref())?;
    let mut members = if on_fault == OnFault::Block {
        json!({"content": [said("This answer could not be shaped, and the policy blocks what is not shaped (onFault: block). Ask for less, or tell the operator.")], "isError": true})
    } else {
        let (shown, of) = (room(blocks, limit), message.len());
        let note = format!(
            "PARTIAL: the guard failed on this answer of {of} bytes. Only the beginning is shown; the rest is NOT shown and was not kept. Ask for less, or repeat the call."
        );
        if result.contents.is_some() {
            let uri = blocks.first().and_then(|block| block.uri.clone());
            json!({"contents": [{"uri": uri, "text": shown}, {"uri": "context-guard://fault", "text": note}]})
        } else {
            json!({"content": [{"type": "text", "text": shown}, said(&note)]})
        }
    };
    if let Some(members) = members.as_object_mut() {
        if result.structured_content.is_some() && on_fault == OnFault::Limit {
            members.insert(
                "structuredContent".to_owned(),
                json!({"context_guard": {"note": "PARTIAL"}}),
            );
        }
        for (name, value) in [("isError", result.is_error), ("resultType", result.result_type)] {
            if let Some(value) =
                value.and_then(|value| serde_json::from_str::<Value>(value.get()).ok())
            {
                members.entry(name).or_insert(value);
            }
        }
    }
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{members}}}"#).into_bytes())
}

fn said(text: &str) -> Value {
    json!({"type": "text", "text": format!("[context-guard] {text}")})
}

/// As much of the text as fits. Control characters grow sixfold when they are escaped.
fn room(blocks: &[Text], limit: usize) -> String {
    let mut left = limit.saturating_sub(1_200);
    let mut shown = String::new();
    for text in blocks.iter().filter_map(|block| block.text.as_deref()) {
        for character in text.chars() {
            let cost = match character {
                '"' | '\\' => 2,
                control if control < ' ' => 6,
                other => other.len_utf8(),
            };
            if cost > left {
                return shown;
            }
            left -= cost;
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Vec<u8> {
        json!({"jsonrpc": "2.0", "id": "x", "result": {"content": [{"type": "text", "text": text}], "structuredContent": {"a": 1}, "isError": false}})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn what_fits_passes_and_what_does_not_is_cut_and_says_so() {
        assert_eq!(limit(&answer("small"), OnFault::Limit, 10_240), None);
        assert_eq!(limit(&answer(&"x".repeat(50_000)), OnFault::Pass, 10_240), None);
        assert_eq!(limit(b"no JSON", OnFault::Limit, 2), None);
        for text in ["€uro ".repeat(20_000), "\u{1}".repeat(80_000)] {
            let cut = limit(&answer(&text), OnFault::Limit, 10_240).unwrap();
            assert!(cut.len() <= 10_240 && cut.len() > 4_000, "{}", cut.len());
            let cut: Value = serde_json::from_slice(&cut).unwrap();
            assert_eq!((&cut["id"], &cut["result"]["isError"]), (&json!("x"), &json!(false)));
            assert!(cut["result"]["content"][1]["text"].as_str().unwrap().contains("PARTIAL"));
        }
        let blocked = limit(&answer("small"), OnFault::Block, 10_240).unwrap();
        let blocked: Value = serde_json::from_slice(&blocked).unwrap();
        assert_eq!(blocked["result"]["isError"], true);
    }
}
