//! Cursors, tickets and stored data: forged input is rejected, and nothing panics.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a panic is what is looked for")]

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
    assert_eq!(
        Cursor::verify(&own.sign(&keys, "a"), &keys, "a", own.issued.saturating_mul(1_000), 0).ok(),
        Some(own)
    );
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
