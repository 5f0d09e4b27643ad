//! Fault injection for tests: misbehaviour on request. Released builds do not contain it.

use crate::bindings::context_guard::guard::types::{Outcome, ResponseVerdict};

/// Injects the fault that the upstream's answer `message` names in its text, such as
/// `inject-fault:trap`. Returns the verdict `sound` unchanged if it names none.
pub(crate) fn inject(message: &[u8], sound: ResponseVerdict) -> ResponseVerdict {
    let text = String::from_utf8_lossy(message);
    let Some((_, wanted)) = text.split_once("inject-fault:") else { return sound };
    match wanted.chars().take_while(char::is_ascii_lowercase).collect::<String>().as_str() {
        "trap" => core::arch::wasm32::unreachable(),
        "loop" => loop {
            core::hint::black_box(());
        },
        "memory" => {
            let mut all: Vec<Vec<u8>> = Vec::new();
            loop {
                all.push(core::hint::black_box(vec![1; 1 << 20]));
            }
        }
        "garbage" => ResponseVerdict { message: Outcome::Shaped(b"garbage".to_vec()), ..sound },
        "id" => {
            let other = br#"{"jsonrpc":"2.0","id":"another","result":{"content":[]}}"#;
            ResponseVerdict { message: Outcome::Shaped(other.to_vec()), ..sound }
        }
        _ => sound,
    }
}
