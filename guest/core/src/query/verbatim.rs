//! The single value that a path selects, verbatim, for references in the arguments of calls.

use std::borrow::Cow;

use super::input;
use super::path::Path;
use super::records::RecordSet;
use crate::policy::EndpointSettings;

/// The error for a path into an answer that is a text.
const IS_TEXT: &str =
    "that answer is a text, not JSON: write the cursor alone, without # and a path";

/// Returns the JSON text of the value that the path `fragment` selects in an unescaped payload. An
/// empty path selects the document. The path may be percent-encoded as a URI fragment (RFC 6901,
/// section 6). O(payload).
///
/// # Errors
/// Returns a message for the caller if the path does not select exactly one value.
pub fn verbatim_value(
    raw: &[u8],
    fragment: &str,
    limits: &EndpointSettings,
) -> Result<Vec<u8>, String> {
    let converted = input::convert(raw);
    let json = converted.as_ref().map_or(raw, |converted| &converted.json);
    let records = RecordSet::locate(json, limits).ok_or(IS_TEXT)?;
    if !records.outline.is_complete() {
        return Err("that answer has more than a million values: write the cursor alone".to_owned());
    }
    let follow = |text: &str| Path::parse(text)?.follow(&records.outline, 0);
    let mut found = follow(fragment)?;
    if found.is_empty()
        && let Some(decoded) = percent_decoded(fragment)
    {
        found = follow(&decoded)?;
    }
    match found.as_slice() {
        [] => Err(records.leads_to_nothing()),
        [id] => records
            .outline
            .node(*id)
            .map(|node| records.outline.raw(node).into_owned())
            // The root of JSON lines is a list that no bytes hold.
            .filter(|json| !json.is_empty())
            .map_or_else(|| Ok(records.whole()), Ok),
        many => Err(format!("the path leads to {} values, and one is needed", many.len())),
    }
}

/// Returns a text with its percent-encoded bytes decoded. `None` if it has none, or if the result
/// is not UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = Cow::Borrowed(parts.next()?.as_bytes());
    for part in parts {
        let code = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (code, part.get(2..)) {
            (Some(code), Some(rest)) => {
                bytes.to_mut().push(code);
                bytes.to_mut().extend_from_slice(rest.as_bytes());
            }
            _ => bytes.to_mut().extend_from_slice(format!("%{part}").as_bytes()),
        }
    }
    match bytes {
        Cow::Borrowed(_) => None,
        Cow::Owned(bytes) => String::from_utf8(bytes).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(raw: &str, fragment: &str) -> Result<String, String> {
        verbatim_value(raw.as_bytes(), fragment, &EndpointSettings::default())
            .map(|value| String::from_utf8(value).unwrap())
    }

    #[test]
    fn values_are_verbatim() {
        let json = r#"{"items":[{"body":"a\u00e9\n\/"},{"n": 1.50, "m" : [ 1 ]}],"a b":{"~/":0}}"#;
        for (fragment, expected) in [
            ("/items/0/body", r#""a\u00e9\n\/""#),
            ("/items/1", r#"{"n": 1.50, "m" : [ 1 ]}"#),
            ("$.items[1].m", "[ 1 ]"),
            ("/a b/~0~1", "0"),
            ("/a%20b/~0~1", "0"),
            ("", json),
            ("/summary/items/1/n", "1.50"),
        ] {
            assert_eq!(value(json, fragment).as_deref(), Ok(expected), "{fragment}");
        }
        assert_eq!(value("[{\"a\":1}, {\"a\":2}]", "/items/1/a").as_deref(), Ok("2"));
    }

    #[test]
    fn other_formats_are_converted() {
        assert_eq!(value("{\"a\":1}\n{\"a\":2}\n", "/1/a").as_deref(), Ok("2"));
        assert_eq!(value("{\"a\":1}\n{\"a\":2}\n", "").as_deref(), Ok("[{\"a\":1},{\"a\":2}]"));
        assert_eq!(value("name,age\nann,5\nbob,7\n", "/1/name").as_deref(), Ok("\"bob\""));
    }

    #[test]
    fn one_value_is_needed() {
        let json = r#"{"items":[{"id":1},{"id":2}]}"#;
        assert!(value(json, "/items/7").unwrap_err().contains("the document has: items"));
        assert!(value(json, "$.items[*].id").unwrap_err().contains("2 values"));
        assert!(value(json, "items[").unwrap_err().contains("JSON Pointer such as"));
        assert_eq!(value("just a text", "/a").unwrap_err(), IS_TEXT);
    }
}
