//! Arbitrary conditions, totals, programs of jq, patterns and tables: nothing panics, and a result
//! that is not a text is JSON.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, reason = "a panic is what is looked for")]

use context_guard_core::json::text::Form;
use context_guard_core::policy::EndpointSettings;
use context_guard_core::query::{Query, QueryInput};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const DOCUMENT: &[u8] = br#"{"items":[{"id":1,"kind":"new","n":2.5,"tags":["a","b"],"o":{"k":1},"at":"2024-05-01T10:00:00Z","m.n":"16Gi","p":"$1,200.50","e":"Wed, 01 May 2024 10:00:00 GMT"},{"id":2,"kind":null,"n":"x","tags":[],"o":{},"v":"1.2.10","p":"9,99 \xe2\x82\xac","e":"25/04/2024"},{"id":3}]}"#;

// The first byte chooses the argument. A zero byte separates it from the document.
fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else { return };
    let mut parts = rest.splitn(2, |byte| *byte == 0);
    let Ok(text) = std::str::from_utf8(parts.next().unwrap_or_default()) else { return };
    let document = parts.next().filter(|document| !document.is_empty()).unwrap_or(DOCUMENT);
    let text = Some(text.to_owned());
    let mut query = match kind % 6 {
        0 => Query { condition: text, ..Query::default() },
        1 => Query { aggregate: text, ..Query::default() },
        2 => Query { jq: text, ..Query::default() },
        3 => Query { grep: text, ..Query::default() },
        4 => Query { path: text, ..Query::default() },
        _ => Query { fields: text, ..Query::default() },
    };
    query.separate_condition();
    if query.validate().is_err() {
        return;
    }
    let settings = EndpointSettings::default();
    let input = QueryInput {
        bytes: document,
        form: Form::Raw,
        survey: None,
        limits: &settings,
        from_line: 0,
        until_line: 0,
        limit: u64::from(kind / 6),
    };
    if let Ok(result) = query.run(&input, &mut |_| false)
        && !result.is_text
        && serde_json::from_slice::<Value>(document).is_ok()
        && let Err(error) = serde_json::from_slice::<Value>(&result.bytes)
    {
        panic!("{error}: {}", String::from_utf8_lossy(&result.bytes));
    }
});
