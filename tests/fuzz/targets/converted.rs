//! Arbitrary YAML, XML, tables and lines: nothing panics, and what is read of them is JSON.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, reason = "a panic is what is looked for")]

use context_guard_core::json::text::Form;
use context_guard_core::policy::EndpointSettings;
use context_guard_core::query::{Query, QueryInput, table_rows};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|document: &[u8]| {
    // The guard reads only answers that are UTF-8.
    if std::str::from_utf8(document).is_err() {
        return;
    }
    let check = |json: &[u8]| {
        // Answers with control characters in strings are repaired when they are written.
        let json: Vec<u8> = json.iter().map(|byte| (*byte).max(b' ')).collect();
        if let Err(error) = serde_json::from_slice::<Value>(&json) {
            // Depth is limited where the JSON is read.
            let is_deep = error.to_string().contains("recursion limit");
            assert!(is_deep, "{error}: {}", String::from_utf8_lossy(&json));
        }
    };
    if let Some(rows) = table_rows(document) {
        check(&rows);
    }
    let settings = EndpointSettings::default();
    let input = QueryInput {
        bytes: document,
        form: Form::Raw,
        survey: None,
        limits: &settings,
        from_line: 0,
        until_line: 0,
        limit: 0,
    };
    let of = |text: &str| Some(text.to_owned());
    for query in [
        Query { jq: of("."), ..Query::default() },
        Query { path: of("$..*"), ..Query::default() },
        Query { aggregate: of("count"), ..Query::default() },
    ] {
        if let Ok(result) = query.run(&input, &mut |_| false)
            && !result.is_text
        {
            check(&result.bytes);
        }
    }
});
