//! Arbitrary arguments with references: nothing panics, the request remains JSON, and without a
//! reference the arguments pass byte for byte.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, reason = "a panic is what is looked for")]

use std::sync::OnceLock;

use context_guard_core::policy::{Policy, compile};
use context_guard_core::snapshot::Keys;
use context_guard_core::snapshot::stored::Loaded;
use context_guard_core::{Context, Guard, Plan};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const NOW_MS: u64 = 1_790_000_000_000;
const ARGUMENTS: &str = "\"arguments\":";

/// A guard, the store entries of one answer, and the cursor to it.
struct Fixture {
    guard: Guard,
    loaded: Loaded,
    cursor: String,
}

fn fixture() -> Option<Fixture> {
    let policy: Policy = compile(r#"{"tokenBudgetThreshold": 200}"#).ok()?.policy;
    let guard = Guard::new(policy, Keys::new([b"a key of 16 bytes".as_slice()]).ok()?);
    let cx = Context::default();
    let request =
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}"#;
    let mut loaded = Loaded::new();
    let ticket = loop {
        match guard.on_request(&cx, request, &loaded, NOW_MS).ok()? {
            Plan::Load(keys) => loaded.extend(keys.into_iter().map(|key| (key, None))),
            Plan::Forward { ticket, .. } => break ticket,
            Plan::Answer { .. } => return None,
        }
    };
    let rows: Vec<Value> =
        (0..200).map(|id| serde_json::json!({"id": id, "a/b": ["x", null, 1.5]})).collect();
    let result = serde_json::json!({"structuredContent": {"rows": rows}, "content": []});
    let answer = serde_json::json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
    let shaped = guard.on_response(&cx, &ticket, answer.as_bytes(), NOW_MS).ok()?;
    let stored =
        shaped.entries.into_iter().map(|entry| (entry.key, Some(entry.value.into_owned())));
    let loaded: Loaded = stored.collect();
    let message: Value = serde_json::from_slice(&shaped.message?).ok()?;
    let meta = message.pointer("/result/_meta")?.as_object()?.values().next()?;
    let cursor = meta.get("nextCursor").or(meta.get("cursor"))?.as_str()?.to_owned();
    Some(Fixture { guard, loaded, cursor })
}

// The letter C in the input stands for the cursor.
fuzz_target!(|input: &[u8]| {
    static FIXTURE: OnceLock<Option<Fixture>> = OnceLock::new();
    let Some(fixture) = FIXTURE.get_or_init(fixture) else { panic!("no answer is stored") };
    let Ok(text) = std::str::from_utf8(input) else { return };
    let arguments = text.replace('C', &fixture.cursor);
    let request = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t",{ARGUMENTS}{arguments}}}}}"#
    );
    if !serde_json::from_str::<Value>(&arguments).is_ok_and(|arguments| arguments.is_object()) {
        return;
    }
    let mut loaded = fixture.loaded.clone();
    loop {
        let plan =
            fixture.guard.on_request(&Context::default(), request.as_bytes(), &loaded, NOW_MS);
        match plan {
            Ok(Plan::Load(keys)) => {
                let before = loaded.len();
                loaded.extend(keys.into_iter().map(|key| (key, None)));
                assert!(loaded.len() > before, "the guard asks for the same keys again");
            }
            Ok(Plan::Forward { message, references, .. }) => {
                let sent = message.as_deref().unwrap_or(request.as_bytes());
                if let Err(error) = serde_json::from_slice::<Value>(sent) {
                    // A value may be nested deeper than serde_json reads.
                    assert!(error.to_string().contains("recursion limit"), "{error}");
                }
                assert!(
                    !references.is_empty() || sent == request.as_bytes() || text.contains("_guard")
                );
                return;
            }
            Ok(Plan::Answer { message, .. }) => {
                assert!(serde_json::from_slice::<Value>(&message).is_ok(), "the answer is no JSON");
                return;
            }
            Err(_) => return,
        }
    }
});
