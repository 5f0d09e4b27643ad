//! Adds and removes tables of a TOML document.

use std::ops::Range;

use crate::document::Document;
use crate::edit::{
    Edit, apply, line_break, line_end, line_start, quote, skip_blank, slice, whole_lines,
};
use crate::tree::{self, Node, Syntax, Value};

/// Returns the text without the tables at `paths`. Returns `None` if a path does not exist, or a
/// table is written with dotted keys.
pub(crate) fn without(document: &Document, paths: &[Vec<String>]) -> Option<String> {
    let edits = paths.iter().map(|path| blocks(document, path));
    let spans: Vec<Range<usize>> = edits.collect::<Option<Vec<_>>>()?.concat();
    let edits: Vec<Edit> = spans.into_iter().map(|span| Edit::replace(span, "")).collect();
    apply(&document.text, &edits)
}

/// Returns the text of the tables at `path`. `None` if there is no such table, or it has dotted
/// keys or shares its line with others.
pub(crate) fn text_of(document: &Document, path: &[String]) -> Option<String> {
    let blocks = blocks(document, path)?;
    Some(blocks.into_iter().map(|span| slice(&document.text, span)).collect())
}

/// Returns the spans of the tables at and below `path`. Each span extends from a header to the next
/// one.
fn blocks(document: &Document, path: &[String]) -> Option<Vec<Range<usize>>> {
    let text = document.text.as_str();
    let (name, container) = path.split_last()?;
    let member = document.root.descendant(container)?.member(name)?;
    if slice(text, member.node.span.clone()).starts_with('{') {
        // `files = {command = "npx"}` on lines of its own below `[mcp_servers]`.
        let starts_line =
            slice(text, line_start(text, member.key.start)..member.key.start).trim().is_empty();
        let end = line_end(text, member.node.span.end);
        return starts_line.then(|| vec![whole_lines(text, member.key.start..end)]);
    }
    let mut all = Vec::new();
    add_headers(&document.root, text, &mut all);
    all.sort_unstable();
    all.dedup();
    let mut own = Vec::new();
    add_headers(&member.node, text, &mut own);
    if own.is_empty() || has_dotted_keys(&member.node, text) {
        return None;
    }
    own.sort_unstable();
    own.dedup();
    let block = |start: usize| {
        let next = all.iter().copied().find(|&other| other > start);
        start..next.map_or(text.len(), |next| before_comments(text, next))
    };
    Some(own.into_iter().map(block).collect())
}

/// Returns true if a value below `node` is not in a block with its own header. That is the case if
/// its key has dots and is in the block of another table.
fn has_dotted_keys(node: &Node, text: &str) -> bool {
    if is_header(node, text) {
        return false;
    }
    let is_implicit =
        matches!(node.value, Value::Table(_)) && !slice(text, node.span.clone()).starts_with('{');
    !is_implicit || node.members().iter().any(|one| has_dotted_keys(&one.node, text))
}

fn is_header(node: &Node, text: &str) -> bool {
    let raw = slice(text, node.span.clone());
    matches!(node.value, Value::Table(_)) && raw.starts_with('[') && raw.ends_with(']')
}

/// Adds the byte offsets of the lines with headers at and below `node` to `headers`.
fn add_headers(node: &Node, text: &str, headers: &mut Vec<usize>) {
    match &node.value {
        Value::Table(members) => {
            if is_header(node, text) {
                headers.push(line_start(text, node.span.start));
            }
            for member in members {
                add_headers(&member.node, text, headers);
            }
        }
        Value::List(list) => list.iter().for_each(|one| add_headers(one, text, headers)),
        _ => {}
    }
}

/// Returns the byte offset of the first of the comment lines directly before the line at
/// `position`.
fn before_comments(text: &str, position: usize) -> usize {
    let mut start = position;
    while start > 0 {
        let previous = line_start(text, start - 1);
        if !slice(text, previous..start).trim_start().starts_with('#') {
            break;
        }
        start = previous;
    }
    start
}

/// Returns the text of the document with `tables` appended.
pub(crate) fn appended(document: &Document, tables: &str) -> String {
    let text = document.text.as_str();
    let line_break = line_break(text);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { line_break };
    [text, end, tables].concat()
}

/// Returns the text of the document with the server `text` of [`text_of`] restored in `container`:
/// tables at the end, or an inline table below the header of the container.
pub(crate) fn restored(document: &Document, container: &[String], text: &str) -> String {
    if is_table(text) {
        return appended(document, text);
    }
    let line_break = line_break(&document.text);
    let end = if text.ends_with('\n') { "" } else { line_break };
    let line = [text, end].concat();
    let holder = document.root.descendant(container);
    match holder.filter(|holder| is_header(holder, &document.text)) {
        Some(holder) => {
            let end = line_end(&document.text, holder.span.end);
            let (head, rest) = document.text.split_at_checked(end).unwrap_or((&document.text, ""));
            let rest = rest.trim_start_matches('\r');
            let rest = rest.strip_prefix('\n').unwrap_or(rest);
            [head, line_break, &line, rest].concat()
        }
        None => {
            let header = container.iter().map(|name| key(name)).collect::<Vec<_>>().join(".");
            appended(document, &format!("{line_break}[{header}]{line_break}{line}"))
        }
    }
}

/// Returns the server in `text`, which [`text_of`] has returned for `container` and `name`. `None`
/// if there is no such server in it.
pub(crate) fn parsed(container: &[String], name: &str, text: &str) -> Option<Node> {
    let root = tree::parse(Syntax::Toml, text).ok()?;
    let container = if is_table(text) { container } else { &[] };
    Some(root.descendant(container)?.get(name)?.clone())
}

/// Returns true if `text` begins with the header of a table.
fn is_table(text: &str) -> bool {
    slice(text, skip_blank(Syntax::Toml, text, 0)..text.len()).starts_with('[')
}

/// Returns a key, in quotes if it needs them.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { quote(name) }
}
