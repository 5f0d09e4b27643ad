//! JSON inside texts: one document, or JSON Lines, with words before and after.

use context_guard_json::Span;
use context_guard_json::locate_lists::DocumentInfo;
use context_guard_json::scan::{Kind as JsonKind, Scanner, is_json};
use context_guard_json::text::{Form, visible};

use super::kind::Kind;
use super::lines::{IndexedText, LineSpans};

/// Maximum number of bytes of words before the JSON.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Maximum number of positions that are tried as the beginning of a document. Each invalid document
/// may be read to its end.
const MAX_CANDIDATES: usize = 64;
/// The maximum size of the surrounding words, in bytes, with which JSON of half a text is its main
/// content. With more words, the JSON must be three quarters, because a long manual may contain an
/// example of that size.
const MAX_FEW_WORDS_BYTES: usize = 2_048;
/// Maximum number of JSON Lines that are read as records. Their positions take 16 bytes each.
const MAX_RECORDS: usize = 1 << 20;

/// Locates the JSON object or array that forms most of a text, with words before or after it.
///
/// Returns `None` for all other texts: a whole JSON document, several documents, and JSON in logs,
/// in source code or among the examples of a manual. O(n).
#[must_use]
pub fn locate_document(bytes: &[u8], form: Form) -> Option<DocumentInfo> {
    let (mut candidates, mut fences, mut document_end) = (0, 0, 0);
    let mut follows_document = false;
    for line in LineSpans::new(bytes, form) {
        if line.start > MAX_HEAD_BYTES.min(bytes.len() / 2) {
            return None;
        }
        let text = bytes.get(line.clone())?;
        if line.start < document_end || is_blank(text, form) {
            continue;
        }
        let follows = std::mem::take(&mut follows_document);
        fences += usize::from(is_fence(text, form));
        for (at, is_first) in openings(text, form) {
            candidates += 1;
            if candidates > MAX_CANDIDATES {
                return None;
            }
            let mut scanner = Scanner::starting_at(bytes, form, line.start + at);
            let Ok(found) = DocumentInfo::read(&mut scanner) else { continue };
            if !ends_line(bytes, found.root.end, form) {
                continue;
            }
            if !forms_most(found.root.len(), bytes.len(), is_first) {
                (document_end, follows_document) = (found.root.end, is_first);
                break;
            }
            let is_main = !follows && fences <= 1 && is_between_words(bytes, &found.root, form);
            return is_main.then_some(found);
        }
    }
    None
}

/// Returns the spans of the JSON Lines that form most of a text: at least two, each an object or an
/// array. There may be words before the first and after the last line, but not between them. `None`
/// for other texts. O(n).
#[must_use]
pub fn locate_lines(bytes: &[u8], form: Form) -> Option<Vec<Span>> {
    let mut spans: Vec<Span> = Vec::new();
    let mut is_after = false;
    for line in LineSpans::new(bytes, form) {
        let text = bytes.get(line.clone()).unwrap_or_default();
        if is_blank(text, form) {
            continue;
        }
        let text = text.get(..content_length(text, form)).unwrap_or_default();
        let (start, text) = match text.strip_prefix("\u{feff}".as_bytes()) {
            Some(rest) if line.start == 0 => (text.len() - rest.len(), rest),
            _ => (line.start, text),
        };
        if !matches!(text.first(), Some(b'{' | b'[')) || !is_json(text, form) {
            if spans.is_empty() && line.start > MAX_HEAD_BYTES.min(bytes.len() / 2) {
                return None;
            }
            is_after = !spans.is_empty();
        } else if is_after {
            return None;
        } else {
            spans.push(start..start + text.len());
        }
    }
    let whole = spans.first()?.start..spans.last()?.end;
    (spans.len() >= 2 && forms_most(whole.len(), bytes.len(), true)).then_some(spans)
}

/// Returns the number of lines with text before and after the JSON Lines at `lines`. O(n).
#[must_use]
pub fn count_lines_around(bytes: &[u8], form: Form, lines: &Span) -> usize {
    let count = |part: &[u8]| {
        let texts = LineSpans::new(part, form).filter_map(|line| part.get(line));
        texts.filter(|text| !is_blank(text, form)).count()
    };
    let part = |span: Span| count(bytes.get(span).unwrap_or_default());
    let head = part(0..lines.start);
    head + part(lines.end..bytes.len())
}

/// Locates the records of JSON Lines that form most of a text, as [`locate_lines`] does. Returns
/// `None` for any other text, and for entries of a log with severities, which are read as lines.
/// O(n).
#[must_use]
pub fn locate_records(bytes: &[u8], form: Form) -> Option<DocumentInfo> {
    let lines = locate_lines(bytes, form).filter(|lines| lines.len() <= MAX_RECORDS)?;
    let (kind, format) = Kind::detect_with_format(&IndexedText::new(bytes, form));
    let is_log = kind == Kind::Log && format.has_severities();
    if is_log { None } else { DocumentInfo::of_lines(lines) }
}

/// Returns the byte offsets in a line at which a document may begin: at the first character, or
/// after a colon or a tag. The boolean is true for the first character.
fn openings(line: &[u8], form: Form) -> impl Iterator<Item = (usize, bool)> {
    memchr::memchr2_iter(b'{', b'[', line).take(8).filter_map(move |at| {
        let before = visible(line.get(..at)?, form);
        let before = before.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&before);
        match before.trim_ascii_end().last() {
            None => Some((at, true)),
            Some(b':' | b'>') => Some((at, false)),
            Some(_) => None,
        }
    })
}

/// Returns true if the rest of the line after offset `at` is white space or begins with `<`. False
/// after a literal in source code, which a bracket or semicolon follows.
fn ends_line(bytes: &[u8], at: usize, form: Form) -> bool {
    let rest = bytes.get(at..).unwrap_or_default();
    let line = LineSpans::new(rest, form).next().unwrap_or(0..0);
    let line = visible(rest.get(line).unwrap_or_default(), form);
    matches!(line.trim_ascii_start().first(), None | Some(b'<'))
}

/// Returns true if `part` bytes of JSON are the main content of a text of `whole` bytes. If the
/// JSON begins inside a line (`is_first` is false), it must be a larger share.
fn forms_most(part: usize, whole: usize, is_first: bool) -> bool {
    let words = whole.saturating_sub(part);
    if is_first && words <= MAX_FEW_WORDS_BYTES { part >= words } else { part >= words * 3 }
}

/// Returns true if a valid object or array is at `root`, and the text around it is words: neither
/// white space alone, nor more JSON, nor entries of a log.
fn is_between_words(bytes: &[u8], root: &Span, form: Form) -> bool {
    let part = |span: Span| bytes.get(span).unwrap_or_default();
    let (head, tail) = (part(0..root.start), part(root.end..bytes.len()));
    let is_container = matches!(
        Scanner::starting_at(bytes, form, root.start).kind(),
        Ok(JsonKind::Object | JsonKind::Array)
    );
    let is_log = |text: &[u8]| Kind::detect(&IndexedText::new(text, form)) == Kind::Log;
    let mut lines = LineSpans::new(tail, form).filter_map(|line| tail.get(line));
    let next = lines.find(|line| !is_blank(line, form)).unwrap_or_default();
    let is_followed = openings(next, form).next().is_some_and(|(at, is_first)| {
        is_first && Scanner::starting_at(next, form, at).skip_value().is_ok()
    });
    let has_words = !is_blank(head, form) || !is_blank(tail, form);
    is_container
        && has_words
        && !is_followed
        && !is_log(head)
        && !is_log(tail)
        && is_json(part(root.clone()), form)
}

fn is_blank(text: &[u8], form: Form) -> bool {
    visible(text, form).trim_ascii().is_empty()
}

fn is_fence(line: &[u8], form: Form) -> bool {
    let line = visible(line, form);
    let line = line.trim_ascii_start();
    line.starts_with(b"```") || line.starts_with(b"~~~")
}

/// Returns the length of a line, in bytes, without its terminator and trailing white space.
fn content_length(line: &[u8], form: Form) -> usize {
    if form == Form::Raw {
        return line.trim_ascii_end().len();
    }
    let line = line.strip_suffix(b"\\n").unwrap_or(line);
    line.strip_suffix(b"\\r").unwrap_or(line).trim_ascii_end().len()
}

#[cfg(test)]
mod tests {
    use context_guard_json::text::escape;

    use super::*;

    const RECORDS: &str = r#"[{"id":1,"name":"one"},{"id":2,"name":"two [x]"},{"id":3}]"#;

    /// Returns the located document. Checks that both forms of the text have the same one.
    fn document(text: &str) -> Option<String> {
        let found = locate_document(text.as_bytes(), Form::Raw)
            .and_then(|found| text.get(found.root))
            .map(str::to_owned);
        let mut escaped = Vec::new();
        escape(&mut escaped, text.as_bytes());
        let other = locate_document(&escaped, Form::Escaped)
            .map(|found| visible(&escaped[found.root], Form::Escaped).into_owned());
        assert_eq!(found.as_ref().map(String::as_bytes), other.as_deref(), "{text}");
        found
    }

    #[test]
    fn documents_between_words_are_located() {
        let records = "  {\n    \"id\": 1\n  },\n".repeat(5);
        let pretty = &format!("[\n{records}  {{\n    \"id\": 2\n  }}\n]");
        for (head, json, tail) in [
            ("[Reading 1 lines from start]\n\n", RECORDS, ""),
            ("### Result\n", pretty, "\n### Ran code\n```js\nawait f({});\n```\n"),
            ("Data:\n\n<data-7>\n", RECORDS, "\n</data-7>\n\nEnd."),
            ("```json\n", pretty, "\n```"),
            ("Found 3 records:\n", RECORDS, ""),
            ("Found 3 records: ", RECORDS, ""),
            ("<data>", RECORDS, "</data>\n"),
            ("One.\r\nTwo [2]:\r\n\r\n", RECORDS, "\r\n\r\nNote: see page 2.\r\nEnd.\r\n"),
            ("\u{feff}", RECORDS, "\nDone in 3 ms."),
            ("Query: {\"a\":1}\nRows:\n  ", RECORDS, "\n"),
        ] {
            assert_eq!(document(&format!("{head}{json}{tail}")).as_deref(), Some(json), "{head}");
        }
    }

    #[test]
    fn other_texts_have_no_document() {
        let manual = "A manual with many words about the service.\n".repeat(60);
        for text in [
            RECORDS.to_owned(),
            format!("\n{RECORDS}\n"),
            format!("{RECORDS}\n{RECORDS}\n"),
            format!("[1]\n{RECORDS}\n"),
            format!("const rows =\n{RECORDS};\n"),
            format!("rows = {RECORDS}\n"),
            format!("load({RECORDS})\n"),
            format!("Found:\n{}", RECORDS.replace('"', "'")),
            format!("{manual}\n{RECORDS}\n"),
            format!("# A\n```json\n[1]\n```\n# B\n```json\n{RECORDS}\n```\n"),
            format!("2026-01-02 10:00:00 INFO a\n2026-01-02 10:00:01 INFO b\n{RECORDS}\n"),
            "Found 3: [1] and {2}\n".repeat(400),
            "[".repeat(5_000),
        ] {
            assert_eq!(document(&text), None, "{text:.60}");
        }
    }

    #[test]
    fn json_lines_are_located_in_both_forms() {
        assert_eq!(locate_lines(b"{\"a\":1}\n\n[2]\n", Form::Raw), Some(vec![0..7, 9..12]));
        assert_eq!(locate_lines(br#"{\"a\":1}\n{}\n"#, Form::Escaped), Some(vec![0..9, 11..13]));
        assert_eq!(locate_lines(b"{}\nnot json\n", Form::Raw), None);
        assert_eq!(locate_lines(b"{}\n", Form::Raw), None);
        let lines = "2 rows:\r\n{\"id\":1,\"a\":\"b\"}\r\n{\"id\":2,\"a\":\"c\"}\r\nEnd.\r\n";
        let expected = vec![9..25, 27..43];
        assert_eq!(locate_lines(lines.as_bytes(), Form::Raw), Some(expected));
        assert_eq!(count_lines_around(lines.as_bytes(), Form::Raw, &(9..43)), 2);
        let marked = "\u{feff}{\"a\":1}\n{}\n";
        assert_eq!(locate_lines(marked.as_bytes(), Form::Raw), Some(vec![3..10, 11..13]));
        let mixed = lines.replace("End.", "and\r\n{\"id\":3,\"a\":\"c\"}");
        assert_eq!(locate_lines(mixed.as_bytes(), Form::Raw), None);
    }
}
