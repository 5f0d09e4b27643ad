//! Writes the operator's changes into the definition of a tool. All other bytes remain verbatim.

use context_guard_catalogue::document::Json;

use crate::json::Span;
use crate::json::edit::{Edits, append_member};
use crate::json::scan::{Scan, Scanner};
use crate::json::text::{Form, quoted};
use crate::policy::ToolOverride;

/// Replaces or adds the members that `changes` sets, in the definition at the span `tool`.
///
/// # Errors
/// Fails if there is no object at `tool`.
pub(super) fn override_definition(
    message: &[u8],
    tool: &Span,
    changes: &ToolOverride,
    edits: &mut Edits,
) -> Scan<()> {
    let mut members: Vec<(String, Span)> = Vec::new();
    Scanner::starting_at(message, Form::Raw, tool.start).object(|scanner, key| {
        let value = scanner.skip_value()?;
        members.push((scanner.decode(&key), value));
        Ok(())
    })?;
    let current = |name: &str| members.iter().find(|(member, _)| member == name);
    let mut wanted: Vec<(&str, Vec<u8>)> = Vec::new();
    for (name, text) in
        [("name", &changes.name), ("title", &changes.title), ("description", &changes.description)]
    {
        wanted.extend(text.as_ref().map(|text| (name, quoted(text))));
    }
    if let Some(annotations) = &changes.annotations {
        let span = current("annotations").map(|(_, span)| span.clone());
        let bytes = span.and_then(|span| message.get(span)).unwrap_or_default();
        let hints = with_hints(&String::from_utf8_lossy(bytes), &annotations.hints());
        wanted.push(("annotations", hints.into_bytes()));
    }
    let mut added = Vec::new();
    for (name, value) in wanted {
        match current(name) {
            Some((_, span)) => edits.replace(span.clone(), value),
            None => added.push([b"\"", name.as_bytes(), b"\":", &value].concat()),
        }
    }
    if !added.is_empty() {
        let (span, bytes) = append_member(message, tool, &added.join(b",".as_slice()))?;
        edits.replace(span, bytes);
    }
    Ok(())
}

/// Returns the `annotations` object with these hints set. Other members remain.
fn with_hints(annotations: &str, hints: &[(&str, bool)]) -> String {
    let mut members = match Json::parse(annotations) {
        Some(Json::Object(members)) => members,
        _ => Vec::new(),
    };
    for (name, value) in hints {
        match members.iter_mut().find(|(member, _)| member == name) {
            Some((_, current)) => *current = Json::Bool(*value),
            None => members.push(((*name).to_owned(), Json::Bool(*value))),
        }
    }
    Json::Object(members).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(definition: &str, changes: &str) -> String {
        let changes: ToolOverride = serde_json::from_str(changes).unwrap();
        let (bytes, mut edits) = (definition.as_bytes(), Edits::default());
        override_definition(bytes, &(0..bytes.len()), &changes, &mut edits).unwrap();
        String::from_utf8(edits.apply(bytes)).unwrap()
    }

    #[test]
    fn members_are_replaced_or_added() {
        assert_eq!(
            changed(
                r#"{"name": "a", "inputSchema": {"x": 1.0}, "description": "old"}"#,
                r#"{"match": "a", "name": "b", "title": "B", "description": "\"new\""}"#
            ),
            r#"{"name": "b", "inputSchema": {"x": 1.0}, "description": "\"new\"","title":"B"}"#
        );
        assert_eq!(
            changed(
                r#"{"name":"a","annotations":{"title":"x","readOnlyHint":true}}"#,
                r#"{"match": "a", "annotations": {"readOnlyHint": false, "openWorldHint": true}}"#
            ),
            r#"{"name":"a","annotations":{"title":"x","readOnlyHint":false,"openWorldHint":true}}"#
        );
        assert_eq!(
            changed(r#"{"name":"a"}"#, r#"{"match": "a", "annotations": {"readOnlyHint": true}}"#),
            r#"{"name":"a","annotations":{"readOnlyHint":true}}"#
        );
    }
}
