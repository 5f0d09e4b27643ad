//! Converts JSON Schemas to short types.

use super::form::Form;
use super::note::{clean, cut};
use super::parameter_list;
use crate::document::{Json, quoted};

/// Maximum number of values of an enumeration that a short type lists.
const MAX_VALUES: usize = 12;
/// Maximum number of characters of a value that a short type lists.
const MAX_VALUE_CHARACTERS: usize = 60;
/// Maximum depth of nested parameters in a short type.
const MAX_DEPTH: usize = 3;
/// Maximum depth of nested parameters in a complete type.
const MAX_COMPLETE_DEPTH: usize = 24;
/// Maximum number of schemas that one signature visits. Nested references can repeat schemas
/// exponentially.
const MAX_SCHEMAS: usize = 600;

/// Writes types of the schemas of one document.
pub(crate) struct TypeWriter<'s> {
    root: &'s Json,
    form: Form,
    /// The references that are being resolved, to detect recursion.
    open: Vec<&'s str>,
    visited: usize,
}

/// Returns the short type of a schema inside the document `root`.
pub(crate) fn type_text(root: &Json, schema: &Json) -> String {
    // Errors name types, for which the lists of members matter less.
    TypeWriter::new(root, Form::Short).text(schema, 1)
}

impl<'s> TypeWriter<'s> {
    pub(crate) fn new(root: &'s Json, form: Form) -> Self {
        Self { root, form, open: Vec::new(), visited: 0 }
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Returns the type of a schema. `depth` is the nesting depth of the parameter, from 1.
    pub(crate) fn text(&mut self, schema: &'s Json, depth: usize) -> String {
        let members = self.alternatives(schema, depth);
        self.union(members)
    }

    /// Returns the parameters of an object schema. Each has a name, a schema, and true if it is
    /// required.
    pub(crate) fn parameters(&self, schema: &'s Json) -> Vec<(String, &'s Json, bool)> {
        let mut found = Vec::new();
        let mut required = Vec::new();
        self.collect(schema, 0, true, &mut found, &mut required);
        let is_required = |name: &str| required.contains(&name);
        found
            .into_iter()
            .map(|(name, property)| (name.to_owned(), property, is_required(name)))
            .collect()
    }

    /// Collects the properties of a schema, of the parts of `allOf`, and of alternatives.
    /// Properties of alternatives are optional.
    fn collect(
        &self,
        schema: &'s Json,
        depth: usize,
        all_apply: bool,
        found: &mut Vec<(&'s str, &'s Json)>,
        required: &mut Vec<&'s str>,
    ) {
        if depth > MAX_DEPTH || found.len() > MAX_SCHEMAS {
            return;
        }
        for (name, property) in schema.get("properties").map_or(&[][..], Json::members) {
            if !found.iter().any(|(known, _)| known == name) && *property != Json::Bool(false) {
                found.push((name, property));
            }
        }
        if all_apply {
            let names = schema.get("required").map_or(&[][..], Json::elements);
            required.extend(names.iter().filter_map(Json::as_str));
        }
        if let Some(target) = self.target(schema) {
            self.collect(target, depth + 1, all_apply, found, required);
        }
        for (keyword, applies) in [("allOf", all_apply), ("anyOf", false), ("oneOf", false)] {
            for part in schema.get(keyword).map_or(&[][..], Json::elements) {
                self.collect(part, depth + 1, applies, found, required);
            }
        }
    }

    fn target(&self, schema: &'s Json) -> Option<&'s Json> {
        self.root.resolve(schema.get("$ref")?.as_str()?)
    }

    /// Returns the alternatives of a schema as types. The short form omits `null`.
    fn alternatives(&mut self, schema: &'s Json, depth: usize) -> Vec<String> {
        self.visited += 1;
        if self.visited > MAX_SCHEMAS {
            return vec!["any".to_owned()];
        }
        if let Some(reference) = schema.get("$ref").and_then(Json::as_str) {
            return self.reference(schema, reference, depth);
        }
        if let Some(value) = schema.get("const") {
            return vec![self.literal(value)];
        }
        if let Some(Json::Array(values)) = schema.get("enum") {
            return self.values(values);
        }
        for keyword in ["oneOf", "anyOf"] {
            let parts = schema.get(keyword).map_or(&[][..], Json::elements);
            if !parts.is_empty() && schema.get("properties").is_none() {
                let members: Vec<String> =
                    parts.iter().flat_map(|part| self.alternatives(part, depth)).collect();
                return self.without_null(members);
            }
        }
        if let Some(parts @ [first, ..]) = schema.get("allOf").map(Json::elements)
            && schema.get("type").is_none_or(|kind| kind.as_str() == Some("object"))
        {
            if self.parameters(schema).is_empty() && parts.len() == 1 {
                return self.alternatives(first, depth);
            }
            return vec![self.object(schema, depth)];
        }
        let members = match schema.get("type") {
            Some(Json::Array(kinds)) => {
                let kinds = kinds.iter().filter_map(Json::as_str);
                kinds.map(|kind| self.single(kind, schema, depth)).collect()
            }
            Some(Json::String(kind)) => vec![self.single(kind, schema, depth)],
            _ if schema.get("properties").is_some() => vec![self.object(schema, depth)],
            _ if schema.get("items").is_some() => vec![self.single("array", schema, depth)],
            _ => vec!["any".to_owned()],
        };
        self.without_null(members)
    }

    fn without_null(&self, mut members: Vec<String>) -> Vec<String> {
        if self.form == Form::Short && members.iter().any(|member| member != "null") {
            members.retain(|member| member != "null");
        }
        members
    }

    /// Resolves a reference once. A recursive or remote reference becomes the name of its target.
    fn reference(&mut self, schema: &'s Json, reference: &'s str, depth: usize) -> Vec<String> {
        let name = reference.rsplit(['/', '#']).next().map(clean).unwrap_or_default();
        let name = if name.is_empty() { "object".to_owned() } else { name };
        match self.target(schema) {
            Some(target) if !self.open.contains(&reference) && self.open.len() < 16 => {
                self.open.push(reference);
                let members = self.alternatives(target, depth);
                self.open.pop();
                members
            }
            _ => vec![name],
        }
    }

    /// Returns the literals of an enumeration. A last element such as `…+2` counts the omitted
    /// ones.
    fn values(&self, values: &[Json]) -> Vec<String> {
        let literals: Vec<String> = values.iter().map(|value| self.literal(value)).collect();
        let mut members = self.without_null(literals);
        if self.form == Form::Short && members.len() > MAX_VALUES {
            let rest = members.len() - MAX_VALUES;
            members.truncate(MAX_VALUES);
            members.push(format!("…+{rest}"));
        }
        if members.is_empty() { vec!["any".to_owned()] } else { members }
    }

    fn literal(&self, value: &Json) -> String {
        match (value, self.form) {
            (Json::String(text), Form::Short) => quoted(&cut(&clean(text), MAX_VALUE_CHARACTERS)),
            (Json::String(text), Form::Complete) => quoted(&clean(text)),
            (other, _) => clean(&other.to_string()),
        }
    }

    fn single(&mut self, kind: &str, schema: &'s Json, depth: usize) -> String {
        match kind {
            "integer" => "int".to_owned(),
            "boolean" => "bool".to_owned(),
            "string" => match schema.get("format").and_then(Json::as_str) {
                Some(format) => format!("string<{}>", cut(&clean(format), MAX_VALUE_CHARACTERS)),
                None => "string".to_owned(),
            },
            "array" => self.array(schema, depth),
            "object" => self.object(schema, depth),
            "number" | "null" => kind.to_owned(),
            _ => "any".to_owned(),
        }
    }

    fn array(&mut self, schema: &'s Json, depth: usize) -> String {
        let items = match (schema.get("items"), schema.get("prefixItems")) {
            (Some(Json::Array(items)), _) | (None, Some(Json::Array(items))) => {
                items.iter().flat_map(|item| self.alternatives(item, depth)).collect()
            }
            (Some(items), _) => self.alternatives(items, depth),
            _ => vec!["any".to_owned()],
        };
        let mut distinct: Vec<String> = Vec::new();
        for item in items {
            if !distinct.contains(&item) {
                distinct.push(item);
            }
        }
        match distinct.as_slice() {
            [] => "any[]".to_owned(),
            [one] => format!("{one}[]"),
            _ => format!("({})[]", distinct.join("|")),
        }
    }

    fn object(&mut self, schema: &'s Json, depth: usize) -> String {
        let parameters = self.parameters(schema);
        let limit = if self.form == Form::Short { MAX_DEPTH } else { MAX_COMPLETE_DEPTH };
        if !parameters.is_empty() {
            if depth >= limit {
                return "object".to_owned();
            }
            return format!("{{{}}}", parameter_list(self, parameters, depth + 1));
        }
        match schema.get("additionalProperties") {
            Some(values @ Json::Object(members)) if !members.is_empty() && depth < limit => {
                format!("Record<string,{}>", self.text(values, depth + 1))
            }
            _ => "object".to_owned(),
        }
    }

    fn union(&self, members: Vec<String>) -> String {
        let mut distinct: Vec<String> = Vec::new();
        for member in members {
            if !distinct.contains(&member) {
                distinct.push(member);
            }
        }
        // A union with `any` is `any`.
        if distinct.iter().any(|member| member == "any") {
            return "any".to_owned();
        }
        distinct.join("|")
    }
}
