//! Repairs definitions of tools that violate the protocol, because clients reject a whole list for
//! one invalid definition.

use crate::message::{append_members, member, members, with_member};

/// Returns a definition with schemas of type `object`, as MCP requires, and without members that
/// are null, also in annotations. `None` if the definition needs no repair.
///
/// An input schema that is missing or no object is replaced by one that accepts any arguments. An
/// output schema that is no object is removed. A schema of another type is not changed.
pub(super) fn tool(definition: &str) -> Option<String> {
    let mut repaired = without_nulls(definition);
    for name in ["annotations", "execution"] {
        let object = member(&repaired, name).map(|object| object.get().to_owned());
        if let Some(object) = object.filter(|object| object.starts_with('{')) {
            let plain = without_nulls(&object);
            if plain != object {
                repaired = with_member(&repaired, name, Some(&plain));
            }
        }
    }
    match member(&repaired, "inputSchema").map(|schema| schema.get().to_owned()) {
        Some(schema) if !schema.starts_with('{') => {
            repaired = with_member(&repaired, "inputSchema", Some(r#"{"type":"object"}"#));
        }
        Some(schema) => {
            if let Some(schema) = with_type(&schema) {
                repaired = with_member(&repaired, "inputSchema", Some(&schema));
            }
        }
        None => repaired = append_members(&repaired, r#""inputSchema":{"type":"object"}"#),
    }
    match member(&repaired, "outputSchema").map(|schema| schema.get().to_owned()) {
        Some(schema) if !schema.starts_with('{') => {
            repaired = with_member(&repaired, "outputSchema", None);
        }
        Some(schema) => {
            if let Some(schema) = with_type(&schema) {
                repaired = with_member(&repaired, "outputSchema", Some(&schema));
            }
        }
        None => {}
    }
    (repaired != definition).then_some(repaired)
}

/// Returns an object without its members that are null.
fn without_nulls(object: &str) -> String {
    let nulls = members(object).into_iter().filter(|(_, value)| value.get() == "null");
    nulls.fold(object.to_owned(), |plain, (name, _)| with_member(&plain, &name, None))
}

/// Returns a schema with the type `object` added. `None` if it has a type, or is not an object.
fn with_type(schema: &str) -> Option<String> {
    let is_untyped = schema.starts_with('{') && member(schema, "type").is_none();
    is_untyped.then(|| append_members(schema, r#""type":"object""#))
}

#[cfg(test)]
mod tests {
    use super::tool;

    #[test]
    fn invalid_definitions_are_repaired() {
        for (definition, expected) in [
            (r#"{"name":"a","inputSchema":{"type":"object"}}"#, None),
            (
                r#"{"name":"a","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#"}}"#,
                Some(
                    r#"{"name":"a","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}}"#,
                ),
            ),
            (r#"{"name":"a"}"#, Some(r#"{"name":"a","inputSchema":{"type":"object"}}"#)),
            (
                r#"{"name":"a","title":null,"inputSchema":{"type":"object"},"outputSchema":{}}"#,
                Some(
                    r#"{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}"#,
                ),
            ),
            (
                r#"{"name":"a","annotations":{"destructiveHint":null,"readOnlyHint":true},"inputSchema":{"type":"object"}}"#,
                Some(
                    r#"{"name":"a","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object"}}"#,
                ),
            ),
            (r#"{"name":"a","inputSchema":{"type":"array"}}"#, None),
            (
                r#"{"name":"a","inputSchema":[],"outputSchema":true}"#,
                Some(r#"{"name":"a","inputSchema":{"type":"object"}}"#),
            ),
        ] {
            assert_eq!(tool(definition).as_deref(), expected, "{definition}");
        }
    }
}
