//! Arbitrary JSONPaths and documents: nothing panics, selected values are JSON, and a reference to
//! one value inserts the bytes that its path selects.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, reason = "a panic is what is looked for")]

use context_guard_core::json::outline::Outline;
use context_guard_core::json::text::Form;
use context_guard_core::policy::EndpointSettings;
use context_guard_core::query::path::Path;
use context_guard_core::query::verbatim::verbatim_value;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const DOCUMENT: &[u8] =
    br#"{"items":[{"id":1,"s":"a.b","n":[1,2,[3]]},{"id":2.0,"s":"\u00e9","o":{"id":null}},[],{}]}"#;

// A zero byte separates the path from the document.
fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(2, |byte| *byte == 0);
    let Ok(text) = std::str::from_utf8(parts.next().unwrap_or_default()) else { return };
    let document = parts.next().filter(|document| !document.is_empty()).unwrap_or(DOCUMENT);
    let Ok(path) = Path::parse(text) else { return };
    if serde_json::from_slice::<Value>(document).is_err() {
        return;
    }
    let Ok(outline) = Outline::parse(document, Form::Raw, &(0..document.len())) else { return };
    let Ok(found) = path.follow(&outline, 0) else { return };
    assert!(path.is_many(&outline, 0) || found.len() <= 1, "one value is expected");
    let raw = |id: &usize| outline.node(*id).map(|node| outline.raw(node)).unwrap_or_default();
    for id in found.iter().take(100) {
        let raw = raw(id);
        if let Err(error) = serde_json::from_slice::<Value>(&raw) {
            panic!("{error}: {}", String::from_utf8_lossy(&raw));
        }
    }
    let is_container = matches!(document.trim_ascii_start().first(), Some(b'{' | b'['));
    let value = verbatim_value(document, text, &EndpointSettings::default());
    if let ([id], Ok(value), true) = (found.as_slice(), value, is_container) {
        assert_eq!(value, raw(id).as_ref(), "a reference inserts other bytes");
    }
});
