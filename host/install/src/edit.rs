//! Edits of spans of a text, and functions that find and create the pieces of text in edits.

use std::ops::Range;

use crate::tree::Syntax;

/// The replacement of a span of a text.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub(crate) span: Range<usize>,
    pub(crate) text: String,
}

impl Edit {
    pub(crate) fn insert(at: usize, text: String) -> Self {
        Self { span: at..at, text }
    }

    pub(crate) fn replace(span: Range<usize>, text: impl Into<String>) -> Self {
        Self { span, text: text.into() }
    }
}

/// Returns the text with all edits applied. Returns `None` if edits overlap or are outside of the
/// text.
pub(crate) fn apply(text: &str, edits: &[Edit]) -> Option<String> {
    let mut edits: Vec<&Edit> = edits.iter().collect();
    edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
    let mut result = String::with_capacity(text.len() + 128 * edits.len());
    let mut end = 0;
    for edit in edits {
        result.push_str(text.get(end..edit.span.start)?);
        result.push_str(&edit.text);
        end = edit.span.end;
    }
    result.push_str(text.get(end..)?);
    Some(result)
}

/// Returns the text of a span. Empty if the span is outside of `text`.
pub(crate) fn slice(text: &str, span: Range<usize>) -> &str {
    text.get(span).unwrap_or_default()
}

/// Returns `value` as a string literal that is valid in JSON and TOML.
pub(crate) fn quote(value: &str) -> String {
    // TOML wants U+007F escaped, JSON permits it.
    serde_json::Value::from(value).to_string().replace('\u{7f}', "\\u007f")
}

/// Returns the byte offset of the start of the line that contains `position`.
pub(crate) fn line_start(text: &str, position: usize) -> usize {
    slice(text, 0..position).rfind('\n').map_or(0, |at| at + 1)
}

/// Returns the byte offset of the end of the line that contains `position`, before its line break.
pub(crate) fn line_end(text: &str, position: usize) -> usize {
    let rest = slice(text, position..text.len());
    let end = rest.find('\n').unwrap_or(rest.len());
    let line = slice(rest, 0..end);
    position + line.strip_suffix('\r').unwrap_or(line).len()
}

/// Returns the line break of the text, which is that of its first line.
pub(crate) fn line_break(text: &str) -> &'static str {
    let first = text.find('\n').map(|at| slice(text, 0..at));
    if first.is_some_and(|line| line.ends_with('\r')) { "\r\n" } else { "\n" }
}

/// Returns the white space at the start of `text`.
pub(crate) fn leading_space(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_whitespace()).unwrap_or(text.len());
    slice(text, 0..end)
}

/// Returns the byte offset after the white space and comments that start at `position`.
pub(crate) fn skip_blank(syntax: Syntax, text: &str, position: usize) -> usize {
    let mut at = position;
    loop {
        let rest = slice(text, at..text.len());
        let space = leading_space(rest).len();
        let rest = slice(rest, space..rest.len());
        at += space;
        let (is_line, is_block) = match syntax {
            Syntax::Json => (rest.starts_with("//"), rest.starts_with("/*")),
            Syntax::Toml => (rest.starts_with('#'), false),
        };
        let end = if is_line {
            rest.find('\n')
        } else if is_block {
            rest.find("*/").map(|end| end + 2)
        } else {
            return at;
        };
        at += end.unwrap_or(rest.len());
    }
}

/// Returns the byte offset of the comma after the value that ends at `position`. `None` if there is
/// no comma.
pub(crate) fn comma_after(syntax: Syntax, text: &str, position: usize) -> Option<usize> {
    let at = skip_blank(syntax, text, position);
    slice(text, at..text.len()).starts_with(',').then_some(at)
}

/// Extends a span to whole lines if nothing else is on them. Otherwise extends it by the space that
/// follows it.
pub(crate) fn whole_lines(text: &str, span: Range<usize>) -> Range<usize> {
    let start = line_start(text, span.start);
    let end = line_end(text, span.end);
    let is_alone = slice(text, start..span.start).trim().is_empty()
        && slice(text, span.end..end).trim().is_empty();
    if is_alone {
        let rest = slice(text, end..text.len());
        let line_end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        return start..end + line_end;
    }
    let space = leading_space(slice(text, span.end..end)).len();
    span.start..span.end + space
}
