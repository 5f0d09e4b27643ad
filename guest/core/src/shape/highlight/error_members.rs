//! The members of a JSON document that state an error.

use super::{MAX_LINE_BYTES, shortened};
use crate::json::scan::Scanner;
use crate::json::text::visible;
use crate::text::lines::IndexedText;

/// The names of members that state an error.
const NAMES: [&str; 6] = ["error", "message", "reason", "detail", "errors", "cause"];

/// Returns the members at the top of a JSON document that state an error, one per line, in the
/// order of the document. `None` if the text is no object, or has no such member. O(n).
pub(super) fn error_members(text: &IndexedText<'_>) -> Option<String> {
    let bytes = text.bytes();
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let mut scanner = Scanner::new(bytes, text.form());
    let mut members: Vec<String> = Vec::new();
    let read = scanner.object(|scanner, key| {
        let value = scanner.skip_unchecked()?;
        let Some(name) = NAMES.iter().find(|name| scanner.is_key(&key, name)) else {
            return Ok(());
        };
        let value = visible(bytes.get(value).unwrap_or_default(), text.form());
        if !matches!(&*value, b"null" | b"\"\"" | b"[]" | b"{}") {
            members.push(format!("{name}: {}", shortened(&value, MAX_LINE_BYTES)));
        }
        Ok(())
    });
    // Lines of JSON are no document.
    read.and_then(|()| scanner.end()).ok()?;
    (!members.is_empty()).then(|| members.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::text::Form;

    #[test]
    fn members_that_state_errors_are_found() {
        let long = "1,".repeat(900);
        let object =
            format!(r#"{{"a":[{long}1],"error":{{"code":4}},"cause":null,"message":"x"}}"#);
        let find = |text: &str, form| error_members(&IndexedText::new(text.as_bytes(), form));
        let expected = "error: {\"code\":4}\nmessage: \"x\"";
        assert_eq!(find(&object, Form::Raw).as_deref(), Some(expected));
        let escaped = object.replace('"', "\\\"");
        assert_eq!(find(&escaped, Form::Escaped).as_deref(), Some(expected));
        for text in ["", "error: x", r#"{"a":{"error":1}}"#, "{\"error\":1}\n{\"error\":2}\n"] {
            assert_eq!(find(text, Form::Raw), None, "{text}");
        }
    }
}
