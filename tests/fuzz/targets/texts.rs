//! Arbitrary snapshots of pages, HTML pages and outputs of test runners: nothing panics, and the
//! places that are found lie in the text.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, reason = "a panic is what is looked for")]

use context_guard_core::json::text::Form;
use context_guard_core::text::lines::IndexedText;
use context_guard_core::text::page_snapshot::snapshot_lines;
use context_guard_core::text::page_text::page_text;
use context_guard_core::text::test_failures::test_failures;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((form, rest)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    for line in snapshot_lines(text).into_iter().flatten() {
        assert!(text.is_char_boundary(line.offset), "{} is in no place", line.offset);
    }
    let _ = page_text(text);
    let form = if form & 1 == 0 { Form::Raw } else { Form::Escaped };
    let lines = IndexedText::new(rest, form);
    let start = |line: &[u8]| line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let Some(failures) = test_failures(&lines, start) else { return };
    for test in failures.tests {
        assert!(test.line + test.length <= lines.len(), "{test:?}");
        assert!(test.message <= test.says.len(), "{test:?}");
    }
});
