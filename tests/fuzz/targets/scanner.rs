//! The scanner compared with serde_json: both accept the same JSON, raw and escaped, and unescaping
//! is reversible.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a panic is what is looked for")]

use context_guard_core::json::locate_lists::DocumentInfo;
use context_guard_core::json::scan::is_json;
use context_guard_core::json::text::{Form, boundary, escape, visible};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let raw = is_json(bytes, Form::Raw);
    let _ = (is_json(bytes, Form::Escaped), DocumentInfo::parse(bytes, Form::Escaped));
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let valid = serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok();
    assert!(raw || !valid, "serde_json takes it");
    let mut escaped = Vec::new();
    escape(&mut escaped, bytes);
    assert_eq!(visible(&escaped, Form::Escaped), bytes);
    // The scanner accepts control characters in strings of a raw message, because framing excludes
    // them. In escaped text it must reject them.
    assert!(raw || !is_json(&escaped, Form::Escaped));
    assert!(is_json(&escaped, Form::Escaped) || !valid);
    let cut = boundary(&escaped, bytes.len(), Form::Escaped);
    assert!(bytes.starts_with(&visible(&escaped[..cut], Form::Escaped)));
});
