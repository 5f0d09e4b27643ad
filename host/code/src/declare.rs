//! TypeScript declarations of tools, for the authors of programs.

use serde_json::Value;

/// The maximum depth to which schemas are declared. Deeper values have the type `unknown`.
const MAX_DEPTH: usize = 6;
/// The maximum number of members of an object that are declared.
const MAX_MEMBERS: usize = 60;
/// The maximum number of values of an enumeration that are declared.
const MAX_VALUES: usize = 30;
/// The maximum length of a single value in a declaration, in bytes of JSON. A longer value is
/// declared as its kind.
const MAX_VALUE_BYTES: usize = 200;
/// The maximum number of different members of a union that are declared.
const MAX_CHOICES: usize = 30;
/// The maximum length of a description in a declaration, in characters.
const MAX_DESCRIPTION_CHARACTERS: usize = 200;

/// Returns the declaration of a tool of `server`, given its MCP definition. `server` is empty for a
/// tool under the name that clients see. O(definition).
///
/// ```
/// let tool = serde_json::json!({"name": "list", "description": "Lists orders.", "inputSchema":
///     {"type": "object", "properties": {"page": {"type": "integer"}}}});
/// assert_eq!(
///     context_guard_code::declaration("shop", &tool),
///     "/** Lists orders. */\ntools.shop.list(args: {page?: number}): Promise<unknown>;\n"
/// );
/// ```
#[must_use]
pub fn declaration(server: &str, tool: &Value) -> String {
    let name = tool["name"].as_str().unwrap_or_default();
    let mut out = String::new();
    if let Some(text) = tool["description"].as_str().map(first_line).filter(|text| !text.is_empty())
    {
        out.push_str(&format!("/** {} */\n", text.replace("*/", "* /")));
    }
    let path = if server.is_empty() { String::new() } else { step(server) };
    let input = type_of(&tool["inputSchema"], MAX_DEPTH);
    let output = match &tool["outputSchema"] {
        Value::Object(_) => type_of(&tool["outputSchema"], MAX_DEPTH),
        _ => "unknown".to_owned(),
    };
    out.push_str(&format!("tools{path}{}(args: {input}): Promise<{output}>;\n", step(name)));
    out
}

/// Returns the first line of a description, cut to the maximum length.
fn first_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(MAX_DESCRIPTION_CHARACTERS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    }
}

/// Returns the expression that accesses a member with this name, such as `.name` or `["na-me"]`.
fn step(name: &str) -> String {
    if is_identifier(name) { format!(".{name}") } else { format!("[{}]", Value::from(name)) }
}

fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || "_$".contains(first))
        && characters.all(|character| character.is_ascii_alphanumeric() || "_$".contains(character))
}

/// Returns a TypeScript type that includes all values which a JSON Schema accepts. A long
/// enumeration ends with the kinds of the values that are not shown, a long union with `unknown`.
fn type_of(schema: &Value, depth: usize) -> String {
    if depth == 0 {
        return "unknown".to_owned();
    }
    if let Some(value) = schema.get("const") {
        return literal(value);
    }
    if let Some(values) = schema["enum"].as_array() {
        let shown: Vec<String> = values.iter().take(MAX_VALUES).map(literal).collect();
        if values.len() <= MAX_VALUES {
            return shown.join(" | ");
        }
        let kinds = union_of(values.iter().skip(MAX_VALUES).map(|value| kind(value).to_owned()));
        return format!("{} | {kinds}", shown.join(" | "));
    }
    for union in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[union].as_array() {
            return union_of(choices.iter().map(|choice| type_of(choice, depth - 1)));
        }
    }
    match &schema["type"] {
        Value::String(name) => named_type(name, schema, depth),
        Value::Array(names) => {
            let names = names.iter().filter_map(Value::as_str);
            union_of(names.map(|name| named_type(name, schema, depth)))
        }
        _ if schema.get("properties").is_some() => named_type("object", schema, depth),
        _ => "unknown".to_owned(),
    }
}

/// Returns the type of a single value: the value itself, or its kind if it is long.
fn literal(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= MAX_VALUE_BYTES { text } else { kind(value).to_owned() }
}

/// Returns the type of all values of the same kind.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "unknown[]",
        Value::Object(_) => "{[name: string]: unknown}",
    }
}

fn union_of(types: impl Iterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for one in types {
        if distinct.contains(&one) {
            continue;
        }
        if distinct.len() == MAX_CHOICES {
            distinct.push("unknown".to_owned());
            break;
        }
        distinct.push(one);
    }
    if distinct.is_empty() { "unknown".to_owned() } else { distinct.join(" | ") }
}

fn named_type(name: &str, schema: &Value, depth: usize) -> String {
    match name {
        "string" | "boolean" | "null" => name.to_owned(),
        "number" | "integer" => "number".to_owned(),
        "array" => {
            let item = type_of(&schema["items"], depth - 1);
            if item.contains(' ') { format!("Array<{item}>") } else { format!("{item}[]") }
        }
        "object" => object_type(schema, depth),
        _ => "unknown".to_owned(),
    }
}

fn object_type(schema: &Value, depth: usize) -> String {
    let Some(properties) = schema["properties"].as_object() else {
        return "{[name: string]: unknown}".to_owned();
    };
    let is_required = |name: &str| {
        let required = schema["required"].as_array();
        required.is_some_and(|names| names.iter().any(|required| required == name))
    };
    // The guard's own member is not in whole results.
    let own = |name: &String| name.as_str() != "context_guard";
    let properties: Vec<_> = properties.iter().filter(|(name, _)| own(name)).collect();
    let members = properties.iter().take(MAX_MEMBERS).map(|(name, member)| {
        let optional = if is_required(name) { "" } else { "?" };
        let name = if is_identifier(name) {
            (*name).clone()
        } else {
            Value::from(name.as_str()).to_string()
        };
        format!("{name}{optional}: {}", type_of(member, depth - 1))
    });
    let mut members: Vec<String> = members.collect();
    if properties.len() > MAX_MEMBERS {
        members.push("[name: string]: unknown".to_owned());
    }
    format!("{{{}}}", members.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schemas_become_types() {
        let schema = json!({"type": "object", "required": ["state"], "properties": {
            "state": {"enum": ["open", "closed"]},
            "ids": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
            "x-y": {"type": ["string", "number", "integer"]},
            "deep": {"$ref": "#/x"}
        }});
        assert_eq!(
            type_of(&schema, MAX_DEPTH),
            r#"{deep?: unknown; ids?: Array<number | null>; state: "open" | "closed"; "x-y"?: string | number}"#
        );
    }

    #[test]
    fn long_schemas_are_bounded() {
        let numbers: Vec<u32> = (0..100).collect();
        let declared = type_of(&json!({"enum": numbers}), MAX_DEPTH);
        assert!(declared.starts_with("0 | 1") && declared.ends_with("29 | number"), "{declared}");
        let mixed: Vec<Value> =
            (0..100).map(|at| if at % 2 == 0 { json!(at) } else { Value::Null }).collect();
        assert!(type_of(&json!({"enum": mixed}), MAX_DEPTH).ends_with(" | number | null"));
        assert_eq!(type_of(&json!({"const": "x".repeat(1_000)}), MAX_DEPTH), "string");
        assert_eq!(type_of(&json!({"const": "x"}), MAX_DEPTH), "\"x\"");
        let choices: Vec<Value> = (0..1_000).map(|at| json!({"const": at})).collect();
        let declared = type_of(&json!({"anyOf": choices}), MAX_DEPTH);
        assert!(declared.ends_with("28 | 29 | unknown"), "{declared}");
    }

    #[test]
    fn names_that_are_no_identifiers_are_quoted() {
        let tool = json!({"name": "get-x", "inputSchema": {"type": "object", "properties": {}},
            "description": "Reads */ x.\nMore."});
        assert_eq!(
            declaration("my server", &tool),
            "/** Reads * / x. */\ntools[\"my server\"][\"get-x\"](args: {}): Promise<unknown>;\n"
        );
    }
}
