//! HTTP headers: their names, values and lists.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The header with the method of a stateless request.
pub const MCP_METHOD: &str = "mcp-method";
/// The header that names the tool, prompt, resource or task of a stateless request.
pub const MCP_NAME: &str = "mcp-name";
/// Request headers that request a part of a body, or a body only if it has changed. Adapters remove
/// them from requests to a plain JSON API, because a partial body cannot be shaped.
pub const PARTIAL_REQUEST_HEADERS: [&str; 4] =
    ["range", "if-range", "if-none-match", "if-modified-since"];
/// Response headers that describe the exact bytes of the upstream's body. Adapters remove them when
/// they send a shaped body.
pub const WHOLE_BODY_HEADERS: [&str; 7] = [
    "etag",
    "last-modified",
    "accept-ranges",
    "content-md5",
    "content-digest",
    "digest",
    "repr-digest",
];

/// Returns true if a media type begins with `application/json`, such as that of JSON with
/// parameters.
#[must_use]
pub fn is_json(content_type: &str) -> bool {
    has_prefix(content_type, "application/json")
}

/// Returns true if a media type begins with `text/event-stream`.
#[must_use]
pub fn is_event_stream(content_type: &str) -> bool {
    has_prefix(content_type, "text/event-stream")
}

/// Returns true if a body of this media type is text that the guard can read.
#[must_use]
pub fn is_text(content_type: &str) -> bool {
    let json = content_type.to_ascii_lowercase().contains("json");
    (json || has_prefix(content_type, "text/")) && !is_event_stream(content_type)
}

/// Returns true if a `content-encoding` compresses or otherwise transforms the body.
#[must_use]
pub fn is_encoded(content_encoding: Option<&str>) -> bool {
    content_encoding.is_some_and(|encoding| !encoding.trim().eq_ignore_ascii_case("identity"))
}

/// Returns true if a media type begins with `prefix`. Media types are case-insensitive (RFC 9110,
/// section 8.3.1).
fn has_prefix(content_type: &str, prefix: &str) -> bool {
    let start = content_type.trim_start().get(..prefix.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Encodes a value for an `Mcp-*` header: plain ASCII verbatim, any other value as `=?base64?…?=`.
#[must_use]
pub fn encode_value(value: &str) -> Cow<'_, str> {
    let plain = value.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && value.trim() == value
        && !value.starts_with("=?base64?");
    if plain {
        Cow::Borrowed(value)
    } else {
        Cow::Owned(format!("=?base64?{}?=", STANDARD.encode(value)))
    }
}

/// Decodes the value of an `Mcp-*` header. Returns `None` if its encoding is invalid.
#[must_use]
pub fn decode_value(value: &str) -> Option<Cow<'_, str>> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok().map(Cow::Owned),
        None => Some(Cow::Borrowed(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_case_insensitive() {
        assert!(is_json("Application/JSON; charset=utf-8") && !is_json("text/plain"));
        assert!(is_event_stream("TEXT/event-stream") && !is_text("TEXT/event-stream"));
        assert!(
            is_text("text/csv") && is_text("application/problem+JSON") && !is_text("image/png")
        );
        assert!(is_encoded(Some("gzip")) && !is_encoded(Some("Identity")) && !is_encoded(None));
    }

    #[test]
    fn values_are_encoded_and_decoded() {
        for (value, header) in [
            ("list rooms", "list rooms"),
            ("größe", "=?base64?Z3LDtsOfZQ==?="),
            (" x", "=?base64?IHg=?="),
            ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ] {
            assert_eq!(encode_value(value), header);
            assert_eq!(decode_value(header).as_deref(), Some(value));
        }
        assert_eq!(decode_value("=?base64?!!?="), None);
    }
}
