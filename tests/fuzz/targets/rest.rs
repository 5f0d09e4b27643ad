//! Requests to JSON APIs: the API receives its own parameters only, and no spelling of a denied
//! path evades its rule.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a panic is what is looked for")]

use context_guard::config::RestEndpoint;
use context_guard_protocol::path::normalize;
use context_guard_protocol::rest::RestRequest;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const DENIED: &str = "/api/admin/users";

/// Returns a spelling of the denied path that some server resolves to it. Each byte changes one
/// character.
fn spelling(bytes: &[u8]) -> String {
    let mut choices = bytes.iter().copied().chain(std::iter::repeat(0));
    let mut path = String::new();
    for char in DENIED.chars() {
        let choice = choices.next().unwrap_or(0);
        match (char, choice % 8) {
            ('/', 1) => path.push_str("/./"),
            ('/', 2) => path.push_str("//"),
            ('/', 3) => path.push_str("/zz/../"),
            ('/', 4) => path.push_str(";v=1/"),
            ('/', 5) => path.push_str("/%2e/"),
            ('/', 6) => path.push_str("/zz/.%2E/"),
            ('/', 7) => path.push_str("/;/"),
            (_, 1) => path.push_str(&format!("%{:02x}", u32::from(char))),
            (_, 2) => path.push_str(&format!("%{:02X}", u32::from(char))),
            (_, 3) => path.push(char.to_ascii_uppercase()),
            (_, 4) => path.push_str(&format!("%{:02x}", u32::from(char.to_ascii_uppercase()))),
            _ => path.push(char),
        }
    }
    path.push_str(["", "/", ";x", "//", "/.", "/;y"][usize::from(choices.next().unwrap_or(0)) % 6]);
    // The first separator may have become parameters of no segment.
    if path.starts_with('/') { path } else { format!("/{path}") }
}

fn check_rule(bytes: &[u8]) {
    let rule = RestEndpoint {
        method: "*".to_owned(),
        path: "/api/admin/*".to_owned(),
        guard: true,
        allow: false,
        own: Vec::new(),
    };
    let path = spelling(bytes);
    if let Ok(normal) = normalize(&path) {
        assert!(rule.matches("GET", &normal), "{path} ({normal}) evades the rule of {DENIED}");
    }
}

fn check_path(path: &str) {
    let Ok(normal) = normalize(path) else { return };
    assert_eq!(normalize(&normal).as_deref(), Ok(normal.as_str()), "not a normal form");
    assert!(normal.starts_with('/'));
    assert!(!normal.split('/').any(|segment| matches!(segment, "." | "..")), "{normal}");
    let lower = normal.to_ascii_lowercase();
    for code in ["%2e", "%2f", "%5c", "%00", "\\"] {
        assert!(!lower.contains(code), "{normal}");
    }
}

fn check_query(target: &str) {
    let own = ["limit".to_owned()];
    let request = RestRequest::parse("GET", target, &own);
    let sent = request.target();
    let (_, query) = target.split_once('?').unwrap_or((target, ""));
    let mut given = query.split('&');
    let (_, sent_query) = sent.split_once('?').unwrap_or((&sent, ""));
    for pair in sent_query.split('&').filter(|pair| !pair.is_empty()) {
        assert!(given.any(|given| given == pair), "{pair} is changed or out of order");
    }
    // A second gateway finds none of its parameters in what the first one sends.
    let again = RestRequest::parse("GET", &sent, &own);
    assert_eq!(again.target(), sent);
    let call: Value = serde_json::from_slice(&again.tool_call()).unwrap_or_default();
    assert_eq!(call["params"]["arguments"]["_guard"], serde_json::json!({}), "{sent}");
}

fuzz_target!(|bytes: &[u8]| {
    check_rule(bytes);
    let Ok(target) = std::str::from_utf8(bytes) else { return };
    check_path(target);
    check_query(target);
});
