//! The host functions that a guest calls, with arbitrary keys, values and times in any order.
//! Quotas hold, principals are separated, and nothing is left behind.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a panic is what is looked for")]

use std::sync::Arc;
use std::time::Duration;

use context_guard::clock::ManualClock;
use context_guard::store::{CursorStore, MemoryLimits, MemoryStore};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step {
    Get(bool, Vec<String>),
    Put(bool, Vec<(String, u16)>, u64),
    Extend(bool, Vec<String>, u64),
    Delete(bool, Vec<String>),
    Wait(u32),
}

fn who(first: bool) -> &'static str {
    if first { "alice" } else { "bob" }
}

fuzz_target!(|steps: Vec<Step>| {
    const LIMITS: MemoryLimits = MemoryLimits { principal_bytes: 40_000, total_bytes: 60_000 };
    let clock = Arc::new(ManualClock::at_ms(0));
    let store = MemoryStore::new(Arc::clone(&clock) as _, LIMITS);
    for step in steps {
        match step {
            Step::Get(first, keys) => {
                let Ok(values) = store.get(who(first), &keys) else {
                    panic!("memory is always there")
                };
                assert_eq!(values.len(), keys.len());
                let mine = u8::from(first);
                assert!(
                    values.iter().flatten().all(|value| value.iter().all(|byte| *byte == mine)),
                    "somebody else's value"
                );
            }
            Step::Put(first, entries, ttl) => {
                let entries = entries
                    .into_iter()
                    .map(|(key, length)| (key, vec![u8::from(first); usize::from(length)]))
                    .collect();
                let _ = store.put(who(first), entries, Duration::from_millis(ttl));
            }
            Step::Extend(first, keys, ttl) => {
                drop(store.extend(who(first), &keys, Duration::from_millis(ttl)))
            }
            Step::Delete(first, keys) => drop(store.delete(who(first), &keys)),
            Step::Wait(ms) => clock.advance_ms(ms.into()),
        }
        assert!(store.bytes() <= LIMITS.total_bytes, "over the quota");
    }
});
