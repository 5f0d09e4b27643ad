//! Adds and removes whole members of objects and tables.

use crate::document::Document;
use crate::edit::{Edit, apply, comma_after, line_break, line_start, quote, slice, whole_lines};
use crate::tables;
use crate::tree::{Member, Syntax, Value};

/// Returns the text without the members at `paths`. Returns `None` if a member cannot be removed.
pub(crate) fn without(document: &Document, paths: &[Vec<String>]) -> Option<String> {
    if document.syntax() == Syntax::Toml {
        return tables::without(document, paths);
    }
    let mut edits: Vec<Edit> = Vec::new();
    let mut containers: Vec<&[String]> = Vec::new();
    for path in paths {
        let (_, container) = path.split_last()?;
        if !containers.contains(&container) {
            containers.push(container);
        }
    }
    for container in containers {
        let members = document.root.descendant(container)?.members();
        let is_removed = |member: &Member| {
            paths.iter().any(|path| {
                path.split_last()
                    .is_some_and(|(name, rest)| rest == container && *name == member.name)
            })
        };
        edits.extend(removals(document, members, &is_removed));
    }
    apply(&document.text, &edits)
}

/// Returns the edits that remove members of one object, with their commas and lines.
fn removals(
    document: &Document,
    members: &[Member],
    is_removed: &dyn Fn(&Member) -> bool,
) -> Vec<Edit> {
    let text = document.text.as_str();
    let comma = |member: &Member| comma_after(Syntax::Json, text, member.node.span.end);
    let mut edits = Vec::new();
    for member in members.iter().filter(|member| is_removed(member)) {
        let end = comma(member).map_or(member.node.span.end, |comma| comma + 1);
        edits.push(Edit::replace(whole_lines(text, member.key.start..end), ""));
    }
    // If the last member goes and had no comma, then that of the last one that remains goes.
    let last_has_comma = members.last().is_some_and(|last| comma(last).is_some());
    let remaining = members.iter().rposition(|member| !is_removed(member));
    if let Some(at) = remaining.filter(|&at| at + 1 < members.len() && !last_has_comma)
        && let Some(comma) = members.get(at).and_then(comma)
    {
        edits.push(Edit::replace(comma..comma + 1, ""));
    }
    edits
}

/// Returns the edit that removes a member with the comma before it, or else with the comma after
/// it. `None` if there is no comma.
pub(crate) fn remove(document: &Document, member: &Member) -> Option<Edit> {
    let text = document.text.as_str();
    let before = slice(text, 0..member.key.start).trim_end();
    if before.ends_with(',') {
        return Some(Edit::replace(before.len() - 1..member.node.span.end, ""));
    }
    let comma = comma_after(Syntax::Json, text, member.node.span.end)?;
    Some(Edit::replace(member.key.start..comma + 1, ""))
}

/// Returns the text with a new member at the end of the object at `container`. Creates the object
/// if the root lacks it. Returns `None` if there is another kind of value at that path.
///
/// In TOML, `value` is the text of a whole table, which is appended to the document.
pub(crate) fn insert(
    document: &Document,
    container: &[String],
    name: &str,
    value: &str,
) -> Option<String> {
    if document.syntax() == Syntax::Toml {
        return Some(tables::appended(document, value));
    }
    let text = document.text.as_str();
    let member = format!("{}: {value}", quote(name));
    let Some(holder) = document.root.descendant(container) else {
        let (last, parent) = container.split_last()?;
        document.root.descendant(parent)?;
        return insert(document, parent, last, &format!("{{{member}}}"));
    };
    let Value::Table(members) = &holder.value else { return None };
    let edits = match members.last() {
        None => {
            let inner = slice(text, holder.span.start + 1..holder.span.end - 1);
            // `{` and `}` on different lines: the member gets a line of its own.
            let space = match inner.trim().is_empty().then(|| inner.rsplit_once('\n')).flatten() {
                Some((_, indent)) => format!("{}{indent}  ", line_break(text)),
                None => String::new(),
            };
            vec![Edit::insert(holder.span.start + 1, format!("{space}{member}"))]
        }
        Some(last) => {
            let start = line_start(text, last.key.start);
            let indent = slice(text, start..last.key.start);
            let space = if indent.trim().is_empty() && start > 0 {
                format!("{}{indent}", line_break(text))
            } else {
                " ".to_owned()
            };
            match comma_after(Syntax::Json, text, last.node.span.end) {
                Some(comma) => vec![Edit::insert(comma + 1, format!("{space}{member},"))],
                None => vec![Edit::insert(last.node.span.end, format!(",{space}{member}"))],
            }
        }
    };
    apply(text, &edits)
}
