//! Checks a document against the generated JSON Schema and reports every violation with its path.
//!
//! Error messages never contain values of the document: they may be secrets.

use serde_json::Value;

use crate::document::Issue;

/// Returns an issue for every value in the document that violates the schema.
pub(super) fn check(schema: &Value, document: &Value) -> Vec<Issue> {
    let mut checker = Checker { root: schema, steps: Vec::new(), issues: Vec::new() };
    checker.value(schema, document);
    checker.issues
}

struct Checker<'a> {
    root: &'a Value,
    /// The path of the value that is being checked.
    steps: Vec<String>,
    issues: Vec<Issue>,
}

impl<'a> Checker<'a> {
    fn value(&mut self, schema: &'a Value, value: &Value) {
        let schema = self.resolve(schema);
        if let Some(branches) = schema.get("anyOf").or(schema.get("oneOf")) {
            self.branches(branches.as_array().map_or(&[], Vec::as_slice), value);
        }
        let types = types(schema);
        if !types.is_empty() && !types.iter().any(|name| has_type(value, name)) {
            let expected = types.join(" or ");
            return self.fault(format!(
                "expected {expected}{}, found {}",
                hint(schema),
                kind(value)
            ));
        }
        if let Some(number) = value.as_f64() {
            let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
            if let Some(minimum) = bound("minimum").filter(|minimum| number < *minimum) {
                self.fault(format!("less than the minimum of {minimum}"));
            }
            if let Some(maximum) = bound("maximum").filter(|maximum| number > *maximum) {
                self.fault(format!("more than the maximum of {maximum}"));
            }
        }
        if let (Some(entries), Some(items)) = (value.as_array(), schema.get("items")) {
            for (index, entry) in entries.iter().enumerate() {
                self.inside(index.to_string(), |checker| checker.value(items, entry));
            }
        }
        self.members(schema, value);
    }

    fn members(&mut self, schema: &'a Value, value: &Value) {
        let Some(members) = value.as_object() else { return };
        let known = schema.get("properties").and_then(Value::as_object);
        let names = || known.into_iter().flat_map(|known| known.keys()).map(String::as_str);
        let others = schema.get("additionalProperties");
        for (name, member) in members {
            let expected = known.and_then(|known| known.get(name)).or(others);
            self.inside(name.clone(), |checker| match expected {
                Some(Value::Bool(false)) => checker.fault(unknown(name, &Vec::from_iter(names()))),
                Some(expected) => checker.value(expected, member),
                None => {}
            });
        }
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                self.fault(format!("`{name}` is missing"));
            }
        }
    }

    /// Checks a value that must conform to one of the schemas in `branches`.
    fn branches(&mut self, branches: &'a [Value], value: &Value) {
        let mut expected = Vec::new();
        for branch in branches {
            let branch = self.resolve(branch);
            let types = types(branch);
            match branch.get("const") {
                Some(constant) if constant == value => return,
                Some(constant) => expected.push(constant.to_string()),
                // No two branches of the generated schema have a type in common, so the faults
                // of this one are those to report.
                None if types.is_empty() || types.iter().any(|name| has_type(value, name)) => {
                    return self.value(branch, value);
                }
                None => expected.extend(types.into_iter().map(str::to_owned)),
            }
        }
        self.fault(format!("expected {}", expected.join(" or ")));
    }

    fn resolve(&self, schema: &'a Value) -> &'a Value {
        let reference = schema.get("$ref").and_then(Value::as_str);
        let target = reference.and_then(|name| self.root.pointer(name.trim_start_matches('#')));
        target.unwrap_or(schema)
    }

    fn inside(&mut self, step: String, check: impl FnOnce(&mut Self)) {
        self.steps.push(step);
        check(self);
        self.steps.pop();
    }

    fn fault(&mut self, reason: String) {
        self.issues.push(Issue { line: None, steps: self.steps.clone(), reason });
    }
}

/// Returns an example of a valid value, or the names of its members, for a message.
fn hint(schema: &Value) -> String {
    if let Some(example) = schema.pointer("/examples/0") {
        return format!(" such as {example}");
    }
    match schema.get("properties").and_then(Value::as_object) {
        Some(members) => format!(" with {}", Vec::from_iter(members.keys().cloned()).join(", ")),
        None => String::new(),
    }
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    kind(value) == name || (name == "number" && value.is_number())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        // `1.0` is a number here, because serde does not read it into an integer either.
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn unknown(name: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= 3)
        .min();
    match near {
        Some((_, near)) => format!("there is no such setting; did you mean `{near}`?"),
        None if known.is_empty() => "there is no such setting".to_owned(),
        None => format!("there is no such setting; there are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The JSON Schema keywords that [`check`] supports, and annotations. `const` is supported only
    /// in branches. `format` only gives the size of an integer, which `minimum` covers.
    const KEYWORDS: [&str; 20] = [
        "$defs",
        "$ref",
        "$schema",
        "additionalProperties",
        "anyOf",
        "const",
        "default",
        "description",
        "format",
        "items",
        "maximum",
        "maxItems",
        "minimum",
        "oneOf",
        "properties",
        "required",
        "title",
        "type",
        "examples",
        "deprecated",
    ];

    fn keywords(schema: &Value, found: &mut Vec<String>) {
        match schema {
            Value::Object(members) => {
                for (keyword, value) in members {
                    found.push(keyword.clone());
                    match keyword.as_str() {
                        "properties" | "$defs" => value
                            .as_object()
                            .into_iter()
                            .flat_map(|named| named.values())
                            .for_each(|schema| keywords(schema, found)),
                        "default" | "const" | "examples" => {}
                        _ => keywords(value, found),
                    }
                }
            }
            Value::Array(entries) => entries.iter().for_each(|entry| keywords(entry, found)),
            _ => {}
        }
    }

    #[test]
    fn every_keyword_of_the_schema_is_known() {
        let mut found = Vec::new();
        keywords(&crate::schema(), &mut found);
        for keyword in found {
            assert!(KEYWORDS.contains(&keyword.as_str()), "the checker ignores {keyword}");
        }
    }

    #[test]
    fn every_fault_has_a_path_and_a_reason() {
        let document = json!({
            "listn": "127.0.0.1:1",
            "listPage": -1,
            "admin": 7,
            "naming": "hidden-value",
            "telemetry": {"sample": 2},
            "tls": {"cert": "file"},
            "upstreams": [{"command": ["cat", 7]}],
        });
        let faults: Vec<String> = check(&crate::schema(), &document)
            .into_iter()
            .map(|issue| format!("{}: {}", issue.steps.join("."), issue.reason))
            .collect();
        for expected in [
            "listn: there is no such setting; did you mean `listen`?",
            "listPage: less than the minimum of ",
            "admin: expected object or null",
            "naming: expected \"auto\" or \"prefixed\" or \"plain\"",
            "telemetry.sample: more than the maximum of 1",
            "tls: `key` is missing",
            "upstreams.0.command.1: expected string, found integer",
        ] {
            assert!(
                faults.iter().any(|fault| fault.starts_with(expected)),
                "{expected} {faults:?}"
            );
        }
        assert_eq!(faults.len(), 7, "{faults:?}");
        assert!(!faults.concat().contains("hidden-value"));
    }
}
