//! JSON inside a JSON string, which servers write that encode a result twice.

use crate::json::Span;
use crate::json::locate_lists::DocumentInfo;
use crate::json::scan::{Kind, Scanner};
use crate::json::text::{Form, visible};

/// U+FFFD in UTF-8. Decoding replaces a lone surrogate by it, which loses the surrogate.
const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();

/// The description of the document for result notices.
pub(super) const JSON_STRING: &str = "the JSON in a string";

/// A text in which a string of JSON is replaced by the JSON in it.
#[derive(Debug)]
pub(super) struct UnwrappedText {
    /// The text, not escaped.
    pub(super) bytes: Vec<u8>,
    /// The number of bytes before the document, which are words.
    pub(super) document_start: usize,
    /// The positions of lists in the document.
    pub(super) survey: DocumentInfo,
}

impl UnwrappedText {
    /// Unwraps a JSON-escaped text. `survey` has the positions of the document in it, or is `None`
    /// if the text has none. Returns `None` unless the text is a string with a JSON object or list.
    /// Also unwraps an object of which such a string is more than half. O(1) for other texts.
    pub(super) fn read(escaped: &[u8], survey: Option<&DocumentInfo>) -> Option<Self> {
        let (root, string) = match survey {
            _ if escaped.starts_with(br#"\""#) => whole_string(escaped)?,
            Some(survey) if survey.kind == Kind::Object => {
                let string = survey.text.as_ref()?.span.clone();
                (string.len() * 2 > survey.root.len()).then(|| (survey.root.clone(), string))?
            }
            _ => return None,
        };
        let content = escaped.get(string.clone())?;
        if !matches!(content.trim_ascii_start().first(), Some(b'{' | b'[')) {
            return None;
        }
        // The quotes of the string are escaped as well.
        let before = visible(escaped.get(..string.start - 2)?, Form::Escaped);
        let after = visible(escaped.get(string.end + 2..)?, Form::Escaped);
        let document_start = visible(escaped.get(..root.start)?, Form::Escaped).len();
        let content = visible(content, Form::Escaped);
        let json = visible(&content, Form::Escaped);
        // The value must end where the string ends: `[1], "x": [2]` would add a member.
        DocumentInfo::parse(&json, Form::Raw)?;
        let bytes = [before.as_ref(), &json, after.as_ref()].concat();
        if memchr::memmem::find(&bytes, REPLACEMENT).is_some() {
            return None;
        }
        let mut scanner = Scanner::starting_at(&bytes, Form::Raw, document_start);
        let survey = DocumentInfo::read(&mut scanner).ok()?;
        Some(Self { bytes, document_start, survey })
    }
}

/// Returns the span of the string that makes up an escaped text, with and without its quotes.
/// `None` if the text is not a single string.
fn whole_string(escaped: &[u8]) -> Option<(Span, Span)> {
    let mut scanner = Scanner::new(escaped, Form::Escaped);
    let string = scanner.string().ok()?;
    scanner.end().ok()?;
    Some((string.start - 2..string.end + 2, string))
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// Returns `text` escaped, as the content of a JSON string.
    fn escaped(text: &str) -> Vec<u8> {
        let quoted = Value::from(text).to_string();
        quoted.as_bytes()[1..quoted.len() - 1].to_vec()
    }

    fn unwrap(text: &str) -> Option<String> {
        let escaped = escaped(text);
        let survey = DocumentInfo::parse(&escaped, Form::Escaped);
        let found = UnwrappedText::read(&escaped, survey.as_ref())?;
        Some(String::from_utf8(found.bytes).unwrap())
    }

    #[test]
    fn wrapped_documents_are_found() {
        let list = r#"[{"id": 1, "text": "a \"b\" \\ é\n"}, {"id": 2.0}]"#;
        assert_eq!(unwrap(&Value::from(list).to_string()), Some(list.to_owned()));
        let wrapped = json!({"ok": true, "result": list, "next": null}).to_string();
        let expected = format!(r#"{{"ok":true,"result":{list},"next":null}}"#);
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(value(&unwrap(&wrapped).unwrap()), value(&expected));
    }

    #[test]
    fn other_texts_are_not_unwrapped() {
        let hostile = json!({"result": "[1], \"admin\": [2, 3, 4, 5]"}).to_string();
        let long = json!({"result": "[1,2]", "rows": "x".repeat(50)}).to_string();
        let scalars =
            ["\"12345\"", "\"[1, 2\"", "\"\"", "\"", "{}", "[\"[1]\"]", "words", "\"[1]\" x"];
        for text in scalars.into_iter().chain([hostile.as_str(), long.as_str()]) {
            assert_eq!(unwrap(text), None, "{text}");
        }
        // A lone surrogate cannot be decoded.
        assert!(UnwrappedText::read(br#"\"[\\\"\\ud800\\\"]\""#, None).is_none());
    }

    proptest! {
        #[test]
        fn strings_have_the_bytes_of_their_document(texts: Vec<String>, number: u32) {
            let list = json!([texts, {"n": number}]).to_string();
            let is_decodable = !list.contains('\u{FFFD}');
            let found = unwrap(&Value::from(list.as_str()).to_string());
            prop_assert_eq!(found, is_decodable.then_some(list));
        }
    }
}
