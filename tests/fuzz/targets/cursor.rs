//! Cursors, tickets and stored data: forged input is rejected, and nothing panics.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a panic is what is looked for")]

use context_guard_core::encoding::{CursorFormat, Stored};
use context_guard_core::policy::Policy;
use context_guard_core::snapshot::stored::{Loaded, StoredSnapshot};
use context_guard_core::snapshot::{Cursor, Index, Keys};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (String, &[u8], u64, u64)| {
    let (text, bytes, from, to) = input;
    let Ok(keys) = Keys::new([b"0123456789abcdef".as_slice()]) else {
        panic!("the key is refused")
    };
    assert!(
        Cursor::verify(&text, &keys, "somebody", 0, u64::MAX).is_err(),
        "a made-up cursor is believed"
    );
    let own = Cursor::new(&text, from, to);
    let signed = own.sign(CursorFormat::Signed, &keys, "a");
    let now_ms = own.issued.saturating_mul(1_000);
    let verify = |text: &str, principal| Cursor::verify(text, &keys, principal, now_ms, 0).ok();
    assert_eq!(verify(&signed, "a"), Some(own));
    assert_eq!(verify(&signed, "b"), None, "a cursor of another principal is believed");
    // One changed byte, and a genuine signature of another cursor.
    let mut changed = signed.clone().into_bytes();
    let at = usize::try_from(to).unwrap_or(usize::MAX) % changed.len();
    let byte = bytes.first().copied().unwrap_or_default();
    changed[at] = byte;
    if let Ok(changed) = String::from_utf8(changed)
        && changed.trim() != signed
    {
        assert_eq!(verify(&changed, "a"), None, "a changed cursor is believed");
    }
    let other = Cursor::new(&text, from.wrapping_add(1), to).sign(CursorFormat::Signed, &keys, "a");
    if let (Some((payload, _)), Some((_, signature))) =
        (other.split_once('.'), signed.split_once('.'))
    {
        assert_eq!(verify(&format!("{payload}.{signature}"), "a"), None, "a swapped signature");
    }
    // The short format knows the minute of issue, and holds names of twelve characters only.
    let mut short = Cursor::new("AbCdEfGhIjKl", from, 60_000);
    short.within = to;
    let text_of_short = short.sign(CursorFormat::Short, &keys, "a");
    let at = |text: &str, by| Cursor::verify(text, &keys, by, 60_000, 600_000).ok();
    let read = at(&text_of_short, "a").map(|cursor| (cursor.offset, cursor.within));
    assert_eq!(read, Some((from, to)));
    assert_eq!(at(&text_of_short, "b"), None, "a cursor of another principal is believed");
    let _ = Policy::from_bytes(bytes);
    if let Some(index) = Index::from_bytes(bytes) {
        assert_eq!(Index::from_bytes(&index.to_bytes()), Some(index));
    }
    let loaded = Loaded::from([
        (text.clone(), Some(bytes.to_vec())),
        (format!("{text}.0"), Some(bytes.to_vec())),
    ]);
    if let Ok(stored) = StoredSnapshot::open(&text, &loaded) {
        let _ = stored.bytes(from, to.min(from.saturating_add(1 << 20)));
    }
});
