//! Answers of upstreams that violate JSON-RPC 2.0 (section 5). Lenient servers send such answers,
//! and strict clients reject them or wait until a timeout.

use std::borrow::Cow;

use memchr::memmem;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::edit::members;
use crate::head::Head;
use crate::non_finite;

/// The byte order mark in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The number of bytes at each end of a message that are searched for its id.
const ID_SEARCH_BYTES: usize = 256;
/// The maximum length of a quotation in an error text, in characters.
const MAX_QUOTED_CHARS: usize = 300;
/// The methods whose result has no members, so that `null` is accepted as an empty result.
const EMPTY_RESULT_METHODS: [&str; 4] =
    ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// The state of an upstream's answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerCheck {
    /// A valid response. The interior of its result is not checked. Also a message that cannot be
    /// read at all, which the guard presents as a text.
    Valid,
    /// The corrected response, which the upstream meant.
    Repaired(Vec<u8>),
    /// The answer is not a valid response. Holds a clause that states the reason, such as `has no
    /// result`.
    Invalid(String),
}

/// Returns a message without leading and trailing white space, byte order marks and NUL bytes.
#[must_use]
pub fn trim_padding(message: &[u8]) -> &[u8] {
    let mut rest = message.trim_ascii();
    loop {
        let before = rest.len();
        for padding in [BYTE_ORDER_MARK, b"\0"] {
            rest = rest.strip_prefix(padding).unwrap_or(rest).trim_ascii();
            rest = rest.strip_suffix(padding).unwrap_or(rest).trim_ascii();
        }
        if rest.len() == before {
            return rest;
        }
    }
}

/// Returns true if a message is valid JSON in which numbers may be `NaN`, `Infinity` or
/// `-Infinity`. O(n).
#[must_use]
pub fn is_valid_json(message: &[u8]) -> bool {
    let is_json = |message: &[u8]| {
        std::str::from_utf8(message)
            .is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
    };
    is_json(message) || non_finite::replaced(message).is_some_and(|valid| is_json(&valid))
}

/// Checks the answer `message` to a request with the id `id` (raw JSON) and this method.
///
/// Repairs a missing or wrong `jsonrpc`, an id in another form or null, and `null` beside a result
/// or an error. Also repairs members of a request, and `null` as the result of a method whose
/// result is empty.
#[must_use]
pub fn check_answer(message: &[u8], id: &str, method: &str) -> AnswerCheck {
    if let Some((head, has_version)) = Head::scan_ends(message) {
        return match head.result {
            Some(_) if has_version && head.raw_id() == id => AnswerCheck::Valid,
            Some(result) => AnswerCheck::Repaired(write(id, "result", result)),
            None => AnswerCheck::Invalid("has no result".to_owned()),
        };
    }
    let text = String::from_utf8_lossy(message);
    let found = members(&text);
    let is_empty_object = || serde_json::from_str::<Map<String, Value>>(&text).is_ok();
    if found.is_empty() && !is_empty_object() {
        // The guard presents what cannot be read.
        return AnswerCheck::Valid;
    }
    let value =
        |name: &str| found.iter().find(|(key, _)| key == name).map(|(_, value)| value.get());
    let is_exact = value("jsonrpc") == Some("\"2.0\"")
        && value("id") == Some(id)
        && value("method").or(value("params")).is_none();
    let (result, error) = (value("result"), value("error"));
    let is_null = |value: Option<&str>| value.is_none_or(|value| value == "null");
    let valid = |name: &str, value: &str, other: Option<&str>| {
        if is_exact && other.is_none() {
            AnswerCheck::Valid
        } else {
            AnswerCheck::Repaired(write(id, name, value))
        }
    };
    match (result, error) {
        (Some(result), error) if result.starts_with('{') && is_null(error) => {
            valid("result", result, error)
        }
        (_, Some(error)) if is_null(result) && error != "null" => {
            if is_error_object(error) {
                valid("error", error, result)
            } else {
                AnswerCheck::Invalid(format!("has an invalid error: {}", quote(error)))
            }
        }
        (Some(_), Some(error)) if !is_null(result) && error != "null" => {
            AnswerCheck::Invalid(format!("has both a result and an error: {}", quote(error)))
        }
        (Some("null"), _) if EMPTY_RESULT_METHODS.contains(&method) => {
            AnswerCheck::Repaired(write(id, "result", "{}"))
        }
        (Some(result), _) => {
            AnswerCheck::Invalid(format!("has a result that is not an object: {}", quote(result)))
        }
        (None, _) => AnswerCheck::Invalid("has neither a result nor an error".to_owned()),
    }
}

/// Returns the id of a message that cannot be parsed, as raw JSON. The id is a string or a number
/// near the start or the end of the message, outside of `result` and `error`. Members of nested
/// values do not count. `None` if there is none. O(n).
#[must_use]
pub fn find_id(message: &[u8]) -> Option<&str> {
    let scalar_after = |at: usize| {
        let rest = message.get(at..)?.trim_ascii_start().strip_prefix(b":")?;
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
        let value = values.next()?.ok()?.get();
        (!value.starts_with(['{', '[', 'n'])).then_some(value)
    };
    let head = message.get(..message.len().min(ID_SEARCH_BYTES))?;
    let tail = message.len().saturating_sub(ID_SEARCH_BYTES);
    let first = memmem::find(head, b"\"id\"");
    let last = || Some(tail + memmem::rfind(message.get(tail..)?, b"\"id\"")?);
    // Only members of the message itself count: before its content, or at the end.
    let content = |name: &str| memmem::find(message, name.as_bytes()).unwrap_or(message.len());
    let content = content("\"result\"").min(content("\"error\""));
    first
        .filter(|at| *at < content && is_top_level(message, *at))
        .and_then(|at| scalar_after(at + 4))
        .or_else(|| scalar_after(last().filter(|at| is_top_level(message, *at))? + 4))
}

/// Returns true if the member at offset `at` of an unreadable message is in no nested value. If
/// quotes or brackets before it do not match, its nesting is unknown. It must then be one of the
/// last members. O(n).
fn is_top_level(message: &[u8], at: usize) -> bool {
    let (mut open, mut is_text, mut is_damaged, mut next) = (Vec::new(), false, false, 0);
    while let Some(byte) = message.get(next).filter(|_| next < at) {
        match byte {
            b'"' => is_text = !is_text,
            b'\\' if is_text => next += 1,
            b'{' | b'[' if !is_text => open.push(*byte),
            b'}' | b']' if !is_text => {
                // `{` and `}` differ by 2, and so do `[` and `]`.
                is_damaged |= open.pop().is_none_or(|begin| begin + 2 != *byte);
            }
            _ => {}
        }
        next += 1;
    }
    if is_text || is_damaged {
        let rest = message.get(at..).unwrap_or_default();
        return serde_json::from_slice::<IgnoredAny>(&[b"{", rest].concat()).is_ok();
    }
    open.len() == 1
}

/// Returns true if a message that cannot be parsed was probably meant as a response: it begins like
/// an object, and contains `jsonrpc` and either `result` or `error`.
#[must_use]
pub fn resembles_answer(message: &[u8]) -> bool {
    let has = |name: &str| memmem::find(message, name.as_bytes()).is_some();
    message.trim_ascii_start().starts_with(b"{")
        && has("\"jsonrpc\"")
        && (has("\"result\"") || has("\"error\""))
}

/// Returns the beginning of an upstream's text, for quotation in an error message.
#[must_use]
pub fn quote(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// Returns true if a JSON text is an error object of JSON-RPC 2.0, section 5.1: with an integer
/// code and a message.
fn is_error_object(error: &str) -> bool {
    serde_json::from_str::<Value>(error).is_ok_and(|error| {
        let has_code = error.get("code").is_some_and(|code| code.is_i64() || code.is_u64());
        has_code && error.get("message").is_some_and(Value::is_string)
    })
}

fn write(id: &str, name: &str, value: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"{name}":{value}}}"#).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str) -> AnswerCheck {
        check_answer(message.as_bytes(), "5", "tools/call")
    }

    #[test]
    fn padding_is_removed() {
        for padded in ["\u{feff}{}", "\0\0 {}\0", " \u{feff}\0{}\r\n\0", "{}"] {
            assert_eq!(trim_padding(padded.as_bytes()), b"{}", "{padded:?}");
        }
        assert_eq!(trim_padding("\u{feff}\0".as_bytes()), b"");
    }

    #[test]
    fn answers_are_repaired() {
        let result = r#"{"jsonrpc":"2.0","id":5,"result":{"a":1.0}}"#;
        assert_eq!(check(result), AnswerCheck::Valid);
        for odd in [
            r#"{"id":5,"result":{"a":1.0}}"#,
            r#"{"jsonrpc":2.0,"id":5,"result":{"a":1.0}}"#,
            r#"{"jsonrpc":"2.0","id":5.0,"result":{"a":1.0}}"#,
            r#"{"jsonrpc":"2.0","id":"5","result":{"a":1.0}}"#,
            r#"{"jsonrpc":"2.0","id":5,"result":{"a":1.0},"error":null}"#,
            r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","result":{"a":1.0}}"#,
        ] {
            assert_eq!(check(odd), AnswerCheck::Repaired(result.into()), "{odd}");
        }
        let error = r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32700,"message":"no"}}"#;
        assert_eq!(check(error), AnswerCheck::Valid);
        for odd in [
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#,
            r#"{"error":{"code":-32700,"message":"no"},"result":null}"#,
        ] {
            assert_eq!(check(odd), AnswerCheck::Repaired(error.into()), "{odd}");
        }
        let empty = br#"{"jsonrpc":"2.0","id":5,"result":null}"#;
        assert!(matches!(check_answer(empty, "5", "ping"), AnswerCheck::Repaired(_)));
        let long = format!(r#"{{"id":5,"result":{{"a":"{}"}}}}"#, "x".repeat(9_000));
        assert!(matches!(check(&long), AnswerCheck::Repaired(_)));
    }

    #[test]
    fn invalid_answers_are_described() {
        for (message, reason) in [
            (" {} ", "has neither"),
            (r#"{"jsonrpc":"2.0","id":5}"#, "has neither"),
            (r#"{"jsonrpc":"2.0","id":5,"error":null}"#, "has neither"),
            (r#"{"jsonrpc":"2.0","id":5,"result":null}"#, "not an object: null"),
            (r#"{"jsonrpc":"2.0","id":5,"result":[1]}"#, "not an object: [1]"),
            (r#"{"jsonrpc":"2.0","id":5,"error":"x"}"#, "invalid error: \"x\""),
            (r#"{"jsonrpc":"2.0","id":5,"error":{"code":1}}"#, "invalid error"),
            (r#"{"id":5,"result":{},"error":{"code":1,"message":"x"}}"#, "has both"),
        ] {
            let AnswerCheck::Invalid(found) = check(message) else { panic!("{message}") };
            assert!(found.contains(reason), "{message}: {found}");
        }
    }

    #[test]
    fn ids_are_found_at_both_ends() {
        let long = "x".repeat(2_000);
        for (message, id) in [
            (format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":["{long}",]}}}}"#), "7"),
            (format!(r#"{{"id" : "a\"b","result":{{"a":"{long}"#), r#""a\"b""#),
            (format!(r#"{{"result":{{"id":5,"a":["{long}",]}},"id":8}}"#), "8"),
        ] {
            assert_eq!(find_id(message.as_bytes()), Some(id), "{message:.60}");
        }
        let unescaped = r#"{"jsonrpc":"2.0","result":{"text":"a"b"},"id":8,"jsonrpc":"2.0"}"#;
        assert_eq!(find_id(unescaped.as_bytes()), Some("8"));
        let mismatched = r#"{"jsonrpc":"2.0","result":{"items":[1,2},"id":8}"#;
        assert_eq!(find_id(mismatched.as_bytes()), Some("8"));
        let comma = r#"{"jsonrpc":"2.0","result":{"text":"a"},"id":8,}"#;
        assert_eq!(find_id(comma.as_bytes()), Some("8"));
        for nested in [
            r#"{"jsonrpc":"2.0","result":{"items":[{"id":7},{"x""#,
            r#"{"jsonrpc":"2.0","result":{"items":[{"id":7}"#,
            r#"{"jsonrpc":"2.0","result":{"a":{},"id":7}"#,
            r#"{"method":"x","params":{"id":7,"a":"#,
            r#"done: "id":7"#,
        ] {
            assert_eq!(find_id(nested.as_bytes()), None, "{nested}");
        }
        assert_eq!(find_id(long.as_bytes()), None);
        assert_eq!(find_id(br#"{"id":null,"result":{},}"#), None);
    }
}
