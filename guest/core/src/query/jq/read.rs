//! Converts JSON to jq values. Texts without escapes share the memory of the input, which saves
//! most allocations of jaq's own parser.

use bytes::Bytes;
use jaq_json::{Map, Val, read::parse_single_num};

use super::MAX_INPUT_DEPTH;
use crate::json::Span;
use crate::json::scan::{Kind, Scan, ScanError, Scanner};
use crate::json::text::{Form, visible};

/// Reads a JSON document. O(input).
///
/// # Errors
/// Returns a message for the caller if the document is invalid or nested too deeply.
pub(super) fn read(input: &[u8]) -> Result<Val, String> {
    read_value(input).map_err(|error| match error {
        ScanError::TooDeep => format!(
            "jq takes values that are nested at most {MAX_INPUT_DEPTH} levels deep: read a part of this answer with path"
        ),
        error => format!("jq: the answer is not valid JSON: {error}"),
    })
}

/// Reads one JSON value. Fails if something follows it. O(input).
pub(super) fn read_value(input: &[u8]) -> Scan<Val> {
    let reader = ValueReader { input: Bytes::copy_from_slice(input) };
    let mut scanner = Scanner::new(input, Form::Raw);
    let value = reader.value(&mut scanner, 0)?;
    scanner.end().map(|()| value)
}

/// A reader of the input. Texts of values are slices of the input.
struct ValueReader {
    input: Bytes,
}

impl ValueReader {
    fn value(&self, scanner: &mut Scanner<'_>, depth: usize) -> Scan<Val> {
        if depth > MAX_INPUT_DEPTH {
            return Err(ScanError::TooDeep);
        }
        match scanner.kind()? {
            Kind::String => {
                let span = scanner.string()?;
                Ok(self.text(span))
            }
            Kind::Scalar => {
                let span = scanner.scalar()?;
                match scanner.bytes(&span) {
                    b"null" => Ok(Val::Null),
                    b"true" => Ok(Val::Bool(true)),
                    b"false" => Ok(Val::Bool(false)),
                    number => {
                        parse_single_num(number).map(Val::Num).ok_or(ScanError::Syntax(span.start))
                    }
                }
            }
            Kind::Array => {
                let mut elements = Vec::new();
                scanner.array(|scanner| {
                    elements.push(self.value(scanner, depth + 1)?);
                    Ok(())
                })?;
                Ok(Val::Arr(elements.into()))
            }
            Kind::Object => {
                let mut members = Map::default();
                scanner.object(|scanner, key| {
                    let value = self.value(scanner, depth + 1)?;
                    // The last one of equal keys counts.
                    members.insert(self.text(key), value);
                    Ok(())
                })?;
                Ok(Val::obj(members))
            }
        }
    }

    /// Returns the text at `span`, the content of a JSON string, as a value.
    fn text(&self, span: Span) -> Val {
        let inner = self.input.get(span.clone()).unwrap_or_default();
        match visible(inner, Form::Escaped) {
            std::borrow::Cow::Owned(text) => Val::utf8_str(text),
            std::borrow::Cow::Borrowed([]) => Val::utf8_str(Bytes::new()),
            std::borrow::Cow::Borrowed(_) => Val::utf8_str(self.input.slice(span)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_parser_of_jaq() {
        for json in [
            r#"{"a":[1,-2.50,1e400,12345678901234567890123],"b":"x\n\u00e9\ud83d\ude00\"","":""}"#,
            r#" [ null , true , false , { } , [ ] , "" , -0 , 1.0 ] "#,
            r#"{"a":1,"b":2,"a":3,"\u0061":4}"#,
            "17",
            "NaN",
            "-Infinity",
        ] {
            let expected = jaq_json::read::parse_single(json.as_bytes()).unwrap().to_string();
            assert_eq!(read(json.as_bytes()).unwrap().to_string(), expected, "{json}");
        }
    }

    #[test]
    fn invalid_documents_are_refused() {
        for json in ["", "[1,", "{\"a\" 1}", "[1] 2", "{'a': 1}", "[01x]"] {
            assert!(read(json.as_bytes()).unwrap_err().contains("not valid JSON"), "{json}");
        }
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(nested(MAX_INPUT_DEPTH).as_bytes()).is_ok());
        let error = read(nested(MAX_INPUT_DEPTH + 2).as_bytes()).unwrap_err();
        assert!(error.contains("nested at most"), "{error}");
    }
}
