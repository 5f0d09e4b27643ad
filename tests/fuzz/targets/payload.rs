//! Arbitrary tool answers and queries: nothing panics, and the answer is valid JSON and no error.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a panic is what is looked for")]

use context_guard_core::policy::compile;
use context_guard_core::snapshot::Keys;
use context_guard_core::snapshot::stored::Loaded;
use context_guard_core::{Context, Guard, Plan};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

const POLICIES: [&str; 3] = [
    r#"{"tokenBudgetThreshold": 200, "defaultPageSize": 3, "chunkSize": 3, "summaryThreshold": 500}"#,
    r#"{"tokenBudgetThreshold": 500, "strip": ["nulls", "empty", "repeats"], "stripFields": ["d*"], "compact": true, "orderBy": {"field": "id"}}"#,
    r#"{"tokenBudgetThreshold": 300, "fields": ["id", "a.b"], "keywords": ["x"]}"#,
];

fn queries() -> [Value; 10] {
    [
        json!({}),
        json!({"fields": "id,a.b"}),
        json!({"fields": "all", "limit": 2}),
        json!({"path": "$..id"}),
        json!({"path": "/0/a"}),
        json!({"grep": "a|1", "context": 1}),
        json!({"aggregate": "count by id, sum(id), avg(a.b), distinct(a)"}),
        json!({"where": "id>1,a!=x"}),
        json!({"response_mode": "metadata", "filter_ids": ["1", "a"]}),
        json!({"response_mode": "preview", "min_score": 0.5}),
    ]
}

/// Returns a document made from bytes. Bytes themselves would rarely be JSON, and never a large
/// document.
fn document(bytes: &mut std::slice::Iter<'_, u8>, depth: u8) -> Value {
    const NAMES: [&str; 8] = ["id", "name", "a", "b", "description", "url", "score", "debug"];
    let Some(kind) = bytes.next() else { return Value::Null };
    let size = usize::from(kind / 8);
    match kind % 8 {
        0 => Value::Null,
        1 => Value::Bool(size > 9),
        2 => json!(size as f64 - 9.5),
        3 => json!(format!("{size} \"\\ é🦀")),
        4 => json!("A sentence that goes on. ".repeat(size)),
        _ if depth > 5 => json!(size),
        6 if depth > 1 => json!(format!("deep {size}")),
        5 => (0..size).map(|_| document(bytes, depth + 1)).collect(),
        6 => {
            // Similar records, as in lists.
            let one = document(bytes, depth + 1);
            (0..size * 2).map(|id| json!({"id": id, "a": one, "name": format!("n{id}")})).collect()
        }
        _ => {
            let members = (0..size).map(|at| {
                (
                    format!("{}{}", NAMES[at % NAMES.len()], at / NAMES.len()),
                    document(bytes, depth + 1),
                )
            });
            Value::Object(members.collect())
        }
    }
}

fuzz_target!(|input: (u8, u8, u8, bool, &[u8])| {
    let (policy, query, kind, structured, bytes) = input;
    let document = document(&mut bytes.iter(), 0);
    let text = match kind % 4 {
        0 => String::from_utf8_lossy(bytes).repeat(usize::from(kind)),
        1 => serde_json::to_string_pretty(&document).unwrap_or_default(),
        2 => {
            document.as_array().into_iter().flatten().map(|line| line.to_string() + "\n").collect()
        }
        _ => document.to_string(),
    };
    // Larger inputs take longer, and find no more.
    if text.len() > 200_000 {
        return;
    }
    let (Ok(policy), Ok(keys)) = (
        compile(POLICIES[usize::from(policy) % POLICIES.len()]),
        Keys::new([b"0123456789abcdef".as_slice()]),
    ) else {
        panic!("the policy or key is refused")
    };
    let guard = Guard::new(policy.policy, keys);
    let cx = Context::default();
    let queries = queries();
    let arguments = json!({"_guard": queries[usize::from(query) % queries.len()]});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "arguments": arguments}}).to_string();
    let mut result = json!({"content": [{"type": "text", "text": text}]});
    if structured && document.is_object() {
        result["structuredContent"] = document;
    }
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
    let mut loaded = Loaded::new();
    for _ in 0..4 {
        match guard.on_request(&cx, call.as_bytes(), &loaded, 0) {
            Ok(Plan::Load(keys)) => loaded.extend(keys.into_iter().map(|key| (key, None))),
            Ok(Plan::Forward { ticket, .. }) => {
                let shaped = match guard.on_response(&cx, &ticket, answer.as_bytes(), 0) {
                    Ok(shaped) => shaped,
                    Err(fault) => panic!("a valid answer is rejected: {fault}"),
                };
                if let Some(message) = shaped.message {
                    let Ok(shaped) = serde_json::from_slice::<Value>(&message) else {
                        panic!("a shaped message is no JSON: {}", String::from_utf8_lossy(&message))
                    };
                    assert_ne!(shaped["result"]["isError"], true, "an answer became an error");
                    assert!(shaped["result"]["_meta"]["dev.context-guard/result"].is_object());
                }
                return;
            }
            other => panic!("a valid call is not forwarded: {other:?}"),
        }
    }
});
