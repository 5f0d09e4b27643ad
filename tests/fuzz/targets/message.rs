//! The message layer: no input panics, and JSON remains JSON.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a panic is what is looked for")]

use context_guard_core::policy::compile;
use context_guard_core::snapshot::Keys;
use context_guard_core::snapshot::stored::Loaded;
use context_guard_core::{Context, Guard, Plan};
use libfuzzer_sys::fuzz_target;

const REQUESTS: [&[u8]; 4] = [
    br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"_guard":{"limit":3}}}}"#,
    br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
    br#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:"}}"#,
    br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"_guard":{"startLine":2,"endLine":3}}}}"#,
];

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<&serde_json::value::RawValue>(bytes).is_ok()
}

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, message) = input;
    let policy = r#"{"tokenBudgetThreshold": 300, "defaultPageSize": 2, "chunkSize": 3}"#;
    let (Ok(policy), Ok(keys)) = (compile(policy), Keys::new([b"0123456789abcdef".as_slice()]))
    else {
        panic!("the policy or key is refused")
    };
    let guard = Guard::new(policy.policy, keys);
    let cx = Context::default();
    let mut loaded = Loaded::new();
    for message in [message, REQUESTS[usize::from(choice) % REQUESTS.len()]] {
        for _ in 0..3 {
            match guard.on_request(&cx, message, &loaded, 0) {
                Ok(Plan::Load(keys)) => loaded.extend(keys.into_iter().map(|key| (key, None))),
                Ok(Plan::Forward { ticket, message: changed, .. }) => {
                    assert!(changed.is_none_or(|changed| is_json(&changed)));
                    if let Ok(shaped) = guard.on_response(&cx, &ticket, input.1, 0)
                        && is_json(input.1)
                    {
                        assert!(
                            shaped.message.is_none_or(|message| is_json(&message)),
                            "a shaped message is no JSON"
                        );
                    }
                    break;
                }
                Ok(Plan::Answer { message, .. }) => assert!(is_json(&message)),
                Err(_) => break,
            }
        }
    }
});
