//! Arbitrary version tags and changed answers: nothing panics, and an answer is reported as
//! unchanged only if it equals the earlier one.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, reason = "a panic is what is looked for")]

use std::sync::OnceLock;

use context_guard_core::policy::{Policy, compile};
use context_guard_core::snapshot::Keys;
use context_guard_core::snapshot::stored::Loaded;
use context_guard_core::{Context, Guard, Plan};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

const NOW_MS: u64 = 1_790_000_000_000;

/// A guard, the store entries of one answer, its text and its tag.
struct Fixture {
    guard: Guard,
    loaded: Loaded,
    text: String,
    tag: String,
}

fn request(arguments: &Value) -> Vec<u8> {
    let params = json!({"name": "t", "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        .to_string()
        .into_bytes()
}

fn response(text: &str) -> Vec<u8> {
    let result = json!({"content": [{"type": "text", "text": text}]});
    json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string().into_bytes()
}

/// Returns the message to the client: the answer to a call whose upstream answers with `text`.
/// None if the answer passes unchanged, or cannot be read.
fn call(guard: &Guard, loaded: &mut Loaded, arguments: &Value, text: &str) -> Option<Vec<u8>> {
    let (cx, request) = (Context::default(), request(arguments));
    loop {
        match guard.on_request(&cx, &request, loaded, NOW_MS).ok()? {
            Plan::Load(keys) => {
                let before = loaded.len();
                loaded.extend(keys.into_iter().map(|key| (key, None)));
                assert!(loaded.len() > before, "the guard asks for the same keys again");
            }
            Plan::Answer { message, .. } => return Some(message.to_vec()),
            Plan::Forward { ticket, .. } => {
                let answer = response(text);
                let shaped = guard.on_response(&cx, &ticket, &answer, NOW_MS).ok()?;
                let entries = shaped.entries.into_iter();
                loaded.extend(entries.map(|entry| (entry.key, Some(entry.value.into_owned()))));
                return shaped.message.map(|message| message.to_vec());
            }
        }
    }
}

fn fixture() -> Option<Fixture> {
    let policy: Policy = compile(r#"{"tokenBudgetThreshold": 200, "readOnly": true}"#).ok()?.policy;
    let guard = Guard::new(policy, Keys::new([b"a key of 16 bytes".as_slice()]).ok()?);
    let rows: Vec<Value> =
        (0..20).map(|id| json!({"id": id, "tags": ["x", null, 1.5], "note": "words"})).collect();
    let text = json!({"page": 1, "items": rows}).to_string();
    let mut loaded = Loaded::new();
    let message = call(&guard, &mut loaded, &json!({}), &text)?;
    let message: Value = serde_json::from_slice(&message).ok()?;
    let meta = message.pointer("/result/_meta")?.as_object()?.values().next()?;
    let tag = meta.get("nextCursor").or(meta.get("cursor"))?.as_str()?.to_owned();
    Some(Fixture { guard, loaded, text, tag })
}

// The first two bytes are the place and the length of a change in the answer, and the rest is its
// text. If the first byte is 255, the rest up to a zero byte is the tag, and then the answer.
fuzz_target!(|input: &[u8]| {
    static FIXTURE: OnceLock<Option<Fixture>> = OnceLock::new();
    let Some(fixture) = FIXTURE.get_or_init(fixture) else { panic!("no answer is stored") };
    let Ok(text) = std::str::from_utf8(input.get(3..).unwrap_or_default()) else { return };
    let [kind, place, length] = *input.first_chunk::<3>().unwrap_or(&[0; 3]);
    let (tag, answer) = if kind == 255 {
        let (tag, answer) = text.split_once('\0').unwrap_or((text, &fixture.text));
        (tag.replace('C', &fixture.tag), answer.to_owned())
    } else {
        let start = (usize::from(kind) * 256 + usize::from(place)).min(fixture.text.len());
        let end = (start + usize::from(length)).min(fixture.text.len());
        let mut answer = fixture.text.clone();
        answer.replace_range(start..end, text);
        (fixture.tag.clone(), answer)
    };
    let arguments = json!({"_guard": {"since": tag}});
    let Some(message) = call(&fixture.guard, &mut fixture.loaded.clone(), &arguments, &answer)
    else {
        return;
    };
    let Ok(message) = serde_json::from_slice::<Value>(&message) else {
        panic!("the answer is no JSON: {}", String::from_utf8_lossy(&message));
    };
    let shown = message.pointer("/result/content/0/text").and_then(Value::as_str);
    if shown == Some(r#"{"unchanged":true}"#) && answer != r#"{"unchanged":true}"# {
        let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
        assert_eq!(parse(&answer), parse(&fixture.text), "another answer is unchanged");
        assert_eq!(tag.trim(), fixture.tag, "another tag is believed");
    }
});
