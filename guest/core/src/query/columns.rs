//! Tables in JSON whose rows are lists: `{"columns": ["city", "price"], "rows": [["Rome", 5]]}`.

use crate::json::outline::{NodeId, Outline};
use crate::json::scan::Kind;
use crate::json::text::quoted;

/// The maximum depth of a table in the document.
const MAX_DEPTH: usize = 6;
/// The maximum number of columns.
const MAX_COLUMNS: usize = 1_000;
/// The maximum size of the document with records, in bytes.
const MAX_BYTES: usize = 48 << 20;

/// A table whose rows are lists.
struct RowTable {
    rows: NodeId,
    path: String,
    names: Vec<String>,
    /// True if the first row has the names.
    has_names: bool,
}

/// Returns the document with the rows of its largest such table as objects, and a note for the
/// answer. The names of the columns are in a list beside the rows, as texts or as objects with a
/// `name`, or else in the first row. `None` if there is no such table. O(document).
pub(super) fn with_records(outline: &Outline<'_>, root: NodeId) -> Option<(Vec<u8>, String)> {
    let mut tables = Vec::new();
    find(outline, root, "", MAX_DEPTH, &mut tables);
    let size = |table: &RowTable| outline.node(table.rows).map_or(0, |rows| rows.children);
    let table = tables.into_iter().max_by_key(size)?;
    let (rows, document) = (outline.node(table.rows)?, outline.node(root)?);
    let mut out = Vec::new();
    let raw = outline.raw(document);
    let start = outline.start(rows).checked_sub(outline.start(document))?;
    out.extend_from_slice(raw.get(..start)?);
    let keys: Vec<Vec<u8>> = table.names.iter().map(|name| quoted(name)).collect();
    out.push(b'[');
    let skipped = usize::from(table.has_names);
    for (at, (row, _)) in outline.children(table.rows).skip(skipped).enumerate() {
        out.extend_from_slice(if at > 0 { b",{" } else { b"{" });
        for (column, ((_, cell), key)) in outline.children(row).zip(&keys).enumerate() {
            if column > 0 {
                out.push(b',');
            }
            out.extend_from_slice(key);
            out.push(b':');
            out.extend_from_slice(&outline.raw(cell));
        }
        out.push(b'}');
        if out.len() > MAX_BYTES {
            return None;
        }
    }
    out.push(b']');
    out.extend_from_slice(raw.get(start + outline.raw(rows).len()..)?);
    let place = if table.path.is_empty() { String::new() } else { format!(" of {}", table.path) };
    Some((out, format!("; the rows{place} were read as records")))
}

/// Adds the tables in a value, which is at `path`.
fn find(outline: &Outline<'_>, id: NodeId, path: &str, depth: usize, tables: &mut Vec<RowTable>) {
    let Some(node) = outline.node(id).filter(|_| depth > 0) else { return };
    if node.kind == Kind::Array {
        tables.extend(table(outline, id, path, &[]));
        return;
    }
    let members: Vec<(NodeId, String)> =
        outline.children(id).map(|(child, node)| (child, outline.step(&node.key))).collect();
    let headers: Vec<Vec<String>> =
        members.iter().filter_map(|(child, _)| names(outline, *child)).collect();
    for (child, step) in members {
        let path = format!("{path}/{step}");
        match outline.node(child).map(|node| node.kind) {
            Some(Kind::Array) => tables.extend(table(outline, child, &path, &headers)),
            Some(Kind::Object) => find(outline, child, &path, depth - 1, tables),
            _ => {}
        }
    }
}

/// Returns the table whose rows are the elements of a list. `None` if they are no rows, or have no
/// names.
fn table(
    outline: &Outline<'_>,
    rows: NodeId,
    path: &str,
    headers: &[Vec<String>],
) -> Option<RowTable> {
    let mut widths = outline
        .children(rows)
        .map(|(_, row)| (row.kind == Kind::Array && !row.closed).then_some(row.children as usize));
    let first = widths.next()??;
    // Sheets leave out empty cells at the end of a row.
    let widest = widths.try_fold(first, |widest, width| Some(widest.max(width?)))?;
    let table = |names, has_names| RowTable { rows, path: path.to_owned(), names, has_names };
    if let Some(names) = headers.iter().find(|names| names.len() == widest) {
        return Some(table(names.clone(), false));
    }
    let (row, _) = outline.children(rows).next()?;
    names(outline, row).filter(|names| names.len() == widest).map(|names| table(names, true))
}

/// Returns the distinct names in a list of at least two texts, or of objects with a name each.
fn names(outline: &Outline<'_>, list: NodeId) -> Option<Vec<String>> {
    let node = outline.node(list)?;
    let count = node.children as usize;
    if node.kind != Kind::Array || !(2..=MAX_COLUMNS).contains(&count) {
        return None;
    }
    let text = |id: NodeId| {
        let node = outline.node(id).filter(|node| node.kind == Kind::String)?;
        Some(outline.decoded(&node.span)).filter(|text| !text.trim().is_empty())
    };
    let name = |id: NodeId| {
        let keys = ["name", "Name", "label", "field", "column"];
        text(id).or_else(|| keys.iter().find_map(|key| text(outline.member(id, key)?.0)))
    };
    let names: Option<Vec<String>> = outline.children(list).map(|(id, _)| name(id)).collect();
    let mut sorted = names.clone()?;
    sorted.sort();
    sorted.dedup();
    names.filter(|_| sorted.len() == count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::locate_lists::DocumentInfo;
    use crate::json::text::Form;

    fn converted(json: &str) -> Option<(String, String)> {
        let survey = DocumentInfo::parse(json.as_bytes(), Form::Raw).unwrap();
        let outline = Outline::parse(json.as_bytes(), Form::Raw, &survey.root).ok()?;

        with_records(&outline, 0).map(|(json, note)| (String::from_utf8(json).unwrap(), note))
    }

    #[test]
    fn rows_become_records() {
        let records = r#"[{"a":1,"b":"x"},{"a":2.50,"b":null}]"#;
        let rows = r#"[[1,"x"],[2.50,null]]"#;
        for names in [r#"["a","b"]"#, r#"[{"name":"a","type":"INT"},{"name":"b"}]"#] {
            let json = format!(r#"{{"r":{{"columns":{names},"rows": {rows} }},"n":2}}"#);
            let expected = format!(r#"{{"r":{{"columns":{names},"rows": {records} }},"n":2}}"#);
            let note = "; the rows of /r/rows were read as records".to_owned();
            assert_eq!(converted(&json), Some((expected, note)));
        }
        let sheet = r#"{"values":[["a","b"],[1,"x"],[2]]}"#;
        let expected = r#"{"values":[{"a":1,"b":"x"},{"a":2}]}"#;
        assert_eq!(converted(sheet).unwrap().0, expected);
        for other in [
            r#"{"columns":["a","b"],"rows":[[1,2,3]]}"#,
            r#"{"columns":["a","a"],"rows":[[1,2]]}"#,
            r#"{"points":[[1,2],[3,4]]}"#,
            r#"{"rows":[{"a":1}],"tags":["a","b"]}"#,
            "[]",
        ] {
            assert_eq!(converted(other), None, "{other}");
        }
    }
}
