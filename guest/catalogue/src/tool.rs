//! Tools, and their texts for searches.

use crate::document::Json;
use crate::score::Usage;
use crate::sentence::split_first;

/// Maximum number of characters after the first sentence of a description that are searched.
const MAX_REST_CHARACTERS: usize = 4_000;
/// Maximum number of characters of all parameter descriptions of a tool that are searched.
const MAX_PARAMETER_CHARACTERS: usize = 600;
/// Maximum depth of parameters that are searched.
const MAX_PARAMETER_DEPTH: usize = 3;
/// Maximum number of schemas of one tool that are visited.
const MAX_VISITED_SCHEMAS: usize = 2_000;
/// The number of searched fields.
pub const FIELD_COUNT: usize = 6;

/// A tool of the catalogue.
#[derive(Clone, Debug)]
pub struct Tool<'a> {
    /// The name of its server.
    pub server: &'a str,
    /// The client-visible name.
    pub wire_name: &'a str,
    /// The name of the tool on its server.
    pub name: String,
    /// The category. It is the server if policy assigns none.
    pub category: &'a str,
    /// The definition as JSON text, verbatim as in a full list.
    pub definition: &'a str,
    /// The parsed definition.
    pub document: Json,
    /// True if the tool changes nothing.
    pub read_only: bool,
    /// The call statistics.
    pub usage: Usage,
}

impl<'a> Tool<'a> {
    /// Parses the definition of a tool. Its category is the server. Returns `None` if the
    /// definition is not a JSON object with a name.
    #[must_use]
    pub fn parse(server: &'a str, wire_name: &'a str, definition: &'a str) -> Option<Self> {
        let document = Json::parse(definition)?;
        let name = document.get("name")?.as_str()?.to_owned();
        let hints = document.get("annotations");
        let read_only =
            hints.and_then(|hints| hints.get("readOnlyHint")).is_some_and(Json::is_true);
        Some(Self {
            server,
            wire_name,
            name,
            category: server,
            definition,
            document,
            read_only,
            usage: Usage::default(),
        })
    }

    /// Returns the description. Empty if there is none.
    #[must_use]
    pub fn description(&self) -> &str {
        self.document.get("description").and_then(Json::as_str).unwrap_or_default()
    }

    /// Returns the first sentence of the description.
    #[must_use]
    pub fn first_sentence(&self) -> &str {
        split_first(self.description()).0
    }

    /// Returns the searched texts: name, server, first sentence, rest of the description with the
    /// title, names of parameters, descriptions of parameters.
    #[must_use]
    pub fn fields(&self) -> [String; FIELD_COUNT] {
        let (first, rest) = split_first(self.description());
        let mut parameters = ParameterTexts::default();
        if let Some(schema) = self.document.get("inputSchema") {
            parameters.visit(schema, schema, 0);
        }
        let title = self.document.get("title").and_then(Json::as_str);
        let annotations = self.document.get("annotations");
        let title = title.or_else(|| annotations?.get("title")?.as_str());
        let mut rest = rest.chars().take(MAX_REST_CHARACTERS).collect::<String>();
        if let Some(title) = title.filter(|title| *title != self.name) {
            rest.push('\n');
            rest.extend(title.chars().take(MAX_REST_CHARACTERS));
        }
        [
            self.name.clone(),
            self.server.to_owned(),
            first.to_owned(),
            rest,
            parameters.names,
            parameters.descriptions,
        ]
    }
}

/// The names and descriptions of the parameters of a schema.
#[derive(Default)]
struct ParameterTexts {
    names: String,
    descriptions: String,
    description_characters: usize,
    visited: usize,
}

impl ParameterTexts {
    fn visit(&mut self, root: &Json, schema: &Json, depth: usize) {
        self.visited += 1;
        if depth >= MAX_PARAMETER_DEPTH || self.visited > MAX_VISITED_SCHEMAS {
            return;
        }
        for (name, property) in schema.get("properties").map_or(&[][..], Json::members) {
            self.names.push_str(name);
            self.names.push('\n');
            self.describe(property);
            self.visit(root, property, depth + 1);
        }
        if let Some(target) = schema.get("$ref").and_then(|target| root.resolve(target.as_str()?)) {
            self.visit(root, target, depth + 1);
        }
        if let Some(items) = schema.get("items") {
            self.visit(root, items, depth);
        }
        for combinator in ["anyOf", "oneOf", "allOf"] {
            for part in schema.get(combinator).map_or(&[][..], Json::elements) {
                self.visit(root, part, depth);
            }
        }
    }

    fn describe(&mut self, property: &Json) {
        let Some(description) = property.get("description").and_then(Json::as_str) else { return };
        let left = MAX_PARAMETER_CHARACTERS.saturating_sub(self.description_characters);
        let shown: String = description.chars().take(left).collect();
        self.description_characters += shown.chars().count();
        self.descriptions.push_str(&shown);
        self.descriptions.push('\n');
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn nested_parameters_are_searched() {
        let definition = r#"{"name":"a","description":"Creates an order. Asks first.","inputSchema":
            {"properties":{"customer":{"properties":{"id":{"description":"The number"}}},
            "items":{"items":{"properties":{"sku":{}}}}}}}"#;
        let tool = Tool::parse("shop", "shop__a", definition).unwrap();
        let [name, server, first, rest, names, descriptions] = tool.fields();
        assert_eq!((name.as_str(), server.as_str()), ("a", "shop"));
        assert_eq!((first.as_str(), rest.trim()), ("Creates an order.", "Asks first."));
        assert_eq!(names, "customer\nid\nitems\nsku\n");
        assert_eq!(descriptions, "The number\n");
    }

    #[test]
    fn only_named_objects_are_tools() {
        for definition in ["", "[]", "{}", r#"{"name":1}"#] {
            assert!(Tool::parse("s", "s__a", definition).is_none());
        }
    }
}
