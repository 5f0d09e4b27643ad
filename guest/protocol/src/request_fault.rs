//! Requests that the guard refuses, because a server may read them differently than the guard does.
//!
//! A server can be more lenient than the guard: it may accept a byte order mark, UTF-16 or a
//! compressed body. It may take another one of two members with equal names. The guard would then
//! check one call, and the server would execute another. Hosts must not forward such a request.

use std::fmt;

use context_guard_json::scan::{ScanError, Scanner};
use context_guard_json::text::Form;
use serde_json::value::RawValue;

use crate::batch::{BATCH_VERSION, Body, MAX_BATCH_MESSAGES};
use crate::code::{INVALID_REQUEST, PARSE_ERROR};
use crate::edit::members;
use crate::head::Head;
use crate::http::HttpResponse;
use crate::id::MAX_ID_BYTES;
use crate::{answer, non_finite, response};

/// The beginnings of methods that a server executes, and that are never notifications.
const REQUEST_METHODS: [&str; 6] =
    ["tools/", "resources/", "prompts/", "tasks/", "completion/", "logging/"];
/// The members of a message that determine its treatment.
const MESSAGE_MEMBERS: [&str; 5] = ["id", "method", "params", "result", "error"];
/// The members of the parameters that determine their treatment.
const PARAMETER_MEMBERS: [&str; 5] = ["name", "uri", "taskId", "arguments", "cursor"];

/// The reason for which a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// The body has a `content-encoding`.
    Compressed,
    /// The body is not UTF-8, or begins with a byte order mark.
    NotUtf8,
    /// The body is not JSON.
    NotJson,
    /// The message is nested deeper than the guard reads.
    TooDeep,
    /// The message has this member more than once, in another case, or beside a method. Parsers
    /// differ in what they take.
    Ambiguous(String),
    /// The message has this method, which needs an answer, and no id. A server may execute it.
    MissingId(String),
    /// The id of the request is longer than [`MAX_ID_BYTES`].
    LongId,
    /// The batch has more than [`MAX_BATCH_MESSAGES`] messages.
    LongBatch,
    /// The protocol version of the request defines no batches.
    BatchVersion,
}

impl RequestFault {
    /// Returns true if the body as a whole cannot be read, so that it may be no message of MCP.
    pub(crate) fn is_of_body(&self) -> bool {
        matches!(self, Self::Compressed | Self::NotUtf8 | Self::NotJson)
    }

    /// Returns the HTTP status of the response to such a request.
    #[must_use]
    pub fn status(&self) -> u16 {
        if *self == Self::Compressed { 415 } else { 400 }
    }

    /// Returns the code of the JSON-RPC error.
    #[must_use]
    pub fn code(&self) -> i64 {
        match self {
            Self::Compressed | Self::NotUtf8 | Self::NotJson | Self::TooDeep => PARSE_ERROR,
            Self::Ambiguous(_)
            | Self::MissingId(_)
            | Self::LongId
            | Self::LongBatch
            | Self::BatchVersion => INVALID_REQUEST,
        }
    }

    /// Returns the JSON-RPC error with the id `null` that answers the request.
    #[must_use]
    pub fn error(&self) -> Vec<u8> {
        response::error("null", self.code(), &self.to_string())
    }

    /// Returns the HTTP response that answers the request.
    #[must_use]
    pub fn response(&self) -> HttpResponse {
        HttpResponse::json(self.status(), self.error())
    }
}

impl fmt::Display for RequestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compressed => {
                f.write_str("a request body with a content-encoding is not supported")
            }
            Self::NotUtf8 => f.write_str(
                "the request is not JSON in UTF-8 without a byte order mark, as MCP requires",
            ),
            Self::NotJson => f.write_str("the request is not JSON"),
            Self::TooDeep => f.write_str("the request is nested too deeply"),
            Self::Ambiguous(name) => write!(
                f,
                "the request is ambiguous: member {name:?} is repeated, has other letter case, or is not allowed beside \"method\""
            ),
            Self::MissingId(method) => write!(f, "a request with method {method:?} needs an id"),
            Self::LongId => {
                write!(
                    f,
                    "the id of the request is longer than {MAX_ID_BYTES} bytes: use a shorter id"
                )
            }
            Self::LongBatch => write!(
                f,
                "a JSON-RPC batch has at most {MAX_BATCH_MESSAGES} messages: send several requests"
            ),
            Self::BatchVersion => write!(
                f,
                "a JSON-RPC batch needs protocol version {BATCH_VERSION}: send each message in a request of its own"
            ),
        }
    }
}

impl std::error::Error for RequestFault {}

/// Returns the reason for which a host must refuse a message or a batch of a client. `None` if the
/// guard and every server read the same. Also `None` for an empty body, and for JSON that is no
/// request of MCP. O(n).
///
/// ```
/// use context_guard_protocol::{RequestFault, request_fault};
///
/// assert_eq!(request_fault(br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#), None);
/// assert_eq!(request_fault(b"\xef\xbb\xbf{}"), Some(RequestFault::NotUtf8));
/// let repeated = br#"{"id":1,"method":"ping","method":"tools/call"}"#;
/// assert_eq!(request_fault(repeated), Some(RequestFault::Ambiguous("method".to_owned())));
/// ```
#[must_use]
pub fn request_fault(body: &[u8]) -> Option<RequestFault> {
    if body.trim_ascii().is_empty() {
        return None;
    }
    // NUL occurs in no JSON text. It means UTF-16 or UTF-32, of which ASCII can be valid UTF-8.
    let Ok(text) = std::str::from_utf8(body) else { return Some(RequestFault::NotUtf8) };
    if text.starts_with('\u{feff}') || body.contains(&0) {
        return Some(RequestFault::NotUtf8);
    }
    if !answer::is_valid_json(body) {
        return Some(RequestFault::NotJson);
    }
    if Scanner::new(body, Form::Raw).skip_value().is_err_and(|fault| fault == ScanError::TooDeep) {
        return Some(RequestFault::TooDeep);
    }
    let messages = Body::parse(body);
    // A batch whose messages cannot be told apart, such as one with `NaN`.
    if matches!(messages, Body::Single(_)) && body.trim_ascii_start().first() == Some(&b'[') {
        return Some(RequestFault::NotJson);
    }
    messages.messages().iter().find_map(|message| {
        // Numbers such as `NaN` do not change which members there are.
        let valid = non_finite::replaced(message);
        let message = std::str::from_utf8(valid.as_deref().unwrap_or(message));
        message.map_or(Some(RequestFault::NotUtf8), message_fault)
    })
}

/// Returns the reason for which a host must refuse a batch of a client: one POST could otherwise
/// cost as much as thousands. `version` is the protocol version of the request, or empty if the
/// client states none. `None` for a single message, and for an array without requests of MCP. O(n).
pub(crate) fn batch_fault(messages: &Body<'_>, version: &str) -> Option<RequestFault> {
    let Body::Batch(messages) = messages else { return None };
    let is_request = |message: &&[u8]| {
        Head::read(message).is_some_and(|head| {
            REQUEST_METHODS.iter().any(|start| head.method().starts_with(start))
        })
    };
    messages.iter().find(|message| is_request(message))?;
    if !version.is_empty() && version != BATCH_VERSION {
        return Some(RequestFault::BatchVersion);
    }
    (messages.len() > MAX_BATCH_MESSAGES).then_some(RequestFault::LongBatch)
}

/// Returns the reason for which a message, which is valid JSON, is refused.
fn message_fault(message: &str) -> Option<RequestFault> {
    if !message.trim_ascii_start().starts_with('{') {
        return None;
    }
    let found = members(message);
    if found.is_empty() {
        // A name is no valid text, such as one with half of a surrogate pair.
        return (message.trim_ascii().len() > 2 && message.contains('"'))
            .then_some(RequestFault::NotJson);
    }
    let method = |(name, value): &(String, &RawValue)| {
        let is_method = folded(name) == "method";
        is_method.then(|| serde_json::from_str::<String>(value.get()).ok()).flatten()
    };
    let is_request =
        |method: &String| REQUEST_METHODS.iter().any(|start| method.starts_with(start));
    let called = found.iter().filter_map(method).find(is_request);
    if called.is_none() && !found.iter().any(|(name, _)| name == "jsonrpc") {
        return None;
    }
    if let Some(name) = repeated(&found, &MESSAGE_MEMBERS) {
        return Some(RequestFault::Ambiguous(name));
    }
    let value =
        |name: &str| found.iter().find(|(key, _)| key == name).map(|(_, value)| value.get());
    if value("method").is_some() && value("id").is_some_and(|id| id.len() > MAX_ID_BYTES) {
        return Some(RequestFault::LongId);
    }
    let called = called?;
    let is_given = |name: &&str| value(name).is_some_and(|value| value != "null");
    if let Some(name) = ["result", "error"].into_iter().find(is_given) {
        return Some(RequestFault::Ambiguous(name.to_owned()));
    }
    if value("id").is_none_or(|id| id == "null") {
        return Some(RequestFault::MissingId(called));
    }
    let params = value("params").filter(|params| params.starts_with('{'))?;
    let found = members(params);
    if found.is_empty() && params.contains('"') {
        return Some(RequestFault::NotJson);
    }
    repeated(&found, &PARAMETER_MEMBERS).map(RequestFault::Ambiguous)
}

/// Returns the first of `names` that the members contain twice, or in another case. Parsers such as
/// `encoding/json` of Go ignore the case.
fn repeated(found: &[(String, &RawValue)], names: &[&str]) -> Option<String> {
    let is_repeated = |name: &&&str| {
        let wanted = folded(name);
        let mut same = found.iter().filter(|(key, _)| folded(key) == wanted);
        same.next().is_some_and(|(key, _)| key != **name) || same.next().is_some()
    };
    names.iter().find(is_repeated).map(|name| (*name).to_owned())
}

/// Returns a name in the form in which parsers that ignore the case compare it. The long s and the
/// Kelvin sign are the only other characters whose folded form is ASCII.
fn folded(name: &str) -> String {
    let folded = |character: char| match character {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    name.chars().map(folded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(body: &str) -> Option<RequestFault> {
        request_fault(body.as_bytes())
    }

    #[test]
    fn requests_and_other_json_pass() {
        for body in [
            "",
            " \r\n",
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"Name":1,"name":2,"name":3}}}"#,
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"}]"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","result":null,"error":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":NaN}}}"#,
            r#"{"Id":5,"Method":"card","id":6,"method":"cash"}"#,
            r#"{"Name":"a","name":"b"}"#,
            &format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(1_022)),
            &format!(r#"{{"jsonrpc":"2.0","id":"{}","result":{{}}}}"#, "x".repeat(9_999)),
            "{}",
            "[]",
            "[1]",
            "5",
        ] {
            assert_eq!(fault(body), None, "{body}");
        }
    }

    #[test]
    fn other_encodings_are_refused() {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
        let utf16 = |bytes: fn(u16) -> [u8; 2]| call.encode_utf16().flat_map(bytes).collect();
        let utf32 = |bytes: fn(u32) -> [u8; 4]| {
            call.chars().flat_map(|character| bytes(character.into())).collect()
        };
        let bodies: [Vec<u8>; 7] = [
            [b"\xef\xbb\xbf", call.as_bytes()].concat(),
            utf16(u16::to_le_bytes),
            utf16(u16::to_be_bytes),
            utf32(u32::to_le_bytes),
            utf32(u32::to_be_bytes),
            [b"\xff\xfe".to_vec(), utf16(u16::to_le_bytes)].concat(),
            call.replace("\"a\"", "\"\u{1}\"")
                .into_bytes()
                .iter()
                .map(|b| b.max(&2) | 128)
                .collect(),
        ];
        for body in bodies {
            assert_eq!(request_fault(&body), Some(RequestFault::NotUtf8), "{body:?}");
        }
        let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
        assert_eq!(fault(&deep), Some(RequestFault::TooDeep));
        let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03";
        assert_eq!(request_fault(gzip), Some(RequestFault::NotUtf8));
        let batch =
            r#"[{"id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":NaN}}}]"#;
        for body in [batch, "no JSON", "[", "{'id':1}", "{\"id\":1,}", "{} {}", r#"{"\ud800":1}"#] {
            assert_eq!(fault(body), Some(RequestFault::NotJson), "{body}");
        }
    }

    #[test]
    fn ambiguous_members_are_refused() {
        for (body, name) in [
            (r#"{"id":1,"method":"ping","method":"tools/call"}"#, "method"),
            (r#"{"id":1,"method":"tools/call","method":"ping"}"#, "method"),
            (r#"{"id":1,"method":"ping","meth\u006fd":"tools/call"}"#, "method"),
            (r#"{"id":1,"Method":"tools/call"}"#, "method"),
            (r#"{"id":9,"id":9,"method":"tools/call"}"#, "id"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","id":2}"#, "id"),
            (r#"{"id":1,"method":"tools/call","params":{},"params":{}}"#, "params"),
            (r#"{"id":1,"method":"tools/call","params":{},"param\u017f":{}}"#, "params"),
            (r#"{"id":1,"method":"tools/call","result":{}}"#, "result"),
            (r#"{"id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#, "name"),
            (r#"{"id":1,"method":"tools/call","params":{"Name":"a"}}"#, "name"),
            (r#"[5,{"id":1,"method":"resources/read","params":{"uri":"a","URI":"b"}}]"#, "uri"),
        ] {
            assert_eq!(fault(body), Some(RequestFault::Ambiguous(name.to_owned())), "{body}");
        }
    }

    #[test]
    fn batches_need_their_version_and_a_bounded_length() {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
        let other = r#"{"method":"card"}"#;
        let fault = |message: &str, count: usize, version: &str| {
            let body = format!("[{}]", vec![message; count].join(","));
            batch_fault(&Body::parse(body.as_bytes()), version)
        };
        assert_eq!(fault(call, MAX_BATCH_MESSAGES, ""), None);
        assert_eq!(fault(call, MAX_BATCH_MESSAGES, BATCH_VERSION), None);
        assert_eq!(fault(call, MAX_BATCH_MESSAGES + 1, ""), Some(RequestFault::LongBatch));
        assert_eq!(fault(call, 1, "2025-06-18"), Some(RequestFault::BatchVersion));
        assert_eq!(fault(other, MAX_BATCH_MESSAGES + 1, "2025-06-18"), None);
        assert_eq!(batch_fault(&Body::parse(call.as_bytes()), "2025-06-18"), None);
    }

    #[test]
    fn calls_without_id_or_with_a_long_one_are_refused() {
        for body in [
            r#"{"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"tools/call"}"#,
            r#"[{"jsonrpc":"2.0","method":"tools/call"}]"#,
        ] {
            let expected = RequestFault::MissingId("tools/call".to_owned());
            assert_eq!(fault(body), Some(expected), "{body}");
        }
        assert_eq!(RequestFault::MissingId(String::new()).code(), INVALID_REQUEST);
        let long = "x".repeat(MAX_ID_BYTES - 1);
        for body in [
            format!(r#"{{"jsonrpc":"2.0","id":"{long}","method":"ping"}}"#),
            format!(r#"[{{"id":"{long}","method":"tools/call"}}]"#),
        ] {
            assert_eq!(fault(&body), Some(RequestFault::LongId), "{body}");
        }
        assert_eq!(RequestFault::Compressed.response().status, 415);
        assert!(RequestFault::NotJson.error().starts_with(br#"{"jsonrpc":"2.0","id":null"#));
    }
}
