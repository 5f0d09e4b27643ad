//! The rules that clients and model APIs apply to the schemas of tools.

use std::collections::BTreeSet;

use boon::{Compiler, Draft, SchemaIndex, Schemas};
use serde_json::{Map, Value, json};

/// The result of a check: the reason if the schema breaks the rule.
pub(crate) type Outcome = Result<(), String>;

/// The kinds of schemas that a rule applies to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Schemas of parameters and of results.
    Any,
    /// Schemas of parameters only, because model APIs do not receive the schemas of results.
    Parameters,
    /// Schemas whose parameters are all required, because the rule forbids optional ones.
    RequiredParameters,
}

/// A rule for the schemas of tools.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// The document or program that the rule is taken from.
    pub(crate) source: &'static str,
    pub(crate) subject: Subject,
    pub(crate) check: fn(&Value) -> Outcome,
}

pub(crate) const RULES: [Rule; 10] = [
    Rule {
        name: "draft-2020-12",
        source: "meta-schema of JSON Schema 2020-12, the default dialect of MCP",
        subject: Subject::Any,
        check: |schema| matches_metaschema(schema, Draft::V2020_12),
    },
    Rule {
        name: "draft-07",
        source: "meta-schema of JSON Schema draft-07, the default of ajv",
        subject: Subject::Any,
        check: |schema| matches_metaschema(schema, Draft::V7),
    },
    Rule {
        name: "declared-dialect",
        source: "MCP 2025-11-25, JSON Schema Usage; SDKs compile a schema before they use it",
        subject: Subject::Any,
        check: compiles,
    },
    Rule {
        name: "openai-function",
        source: "OpenAI API: \"array schema missing items\", \"object schema missing properties\"",
        subject: Subject::Parameters,
        check: openai_function,
    },
    Rule {
        name: "openai-strict",
        source: "OpenAI API: supported schemas of structured outputs",
        subject: Subject::RequiredParameters,
        check: openai_strict,
    },
    Rule {
        name: "openai-agents-strict",
        source: "openai-agents 0.24, agents/strict_schema.py, as agents/mcp/util.py calls it",
        subject: Subject::Parameters,
        check: strict_convertible,
    },
    Rule {
        name: "gemini-function",
        source: "Gemini API: Schema of a FunctionDeclaration; \"items: missing field\"",
        subject: Subject::Parameters,
        check: gemini_function,
    },
    Rule {
        name: "gemini-keywords",
        source: "Gemini API: \"Unknown name\" for keywords that Schema does not have",
        subject: Subject::Parameters,
        check: gemini_keywords,
    },
    Rule {
        name: "vscode",
        source: "vscode-copilot-chat, toolSchemaNormalizer.ts: rules that throw",
        subject: Subject::Parameters,
        check: vscode,
    },
    Rule {
        name: "tool-input",
        source: "MCP 2025-11-25: the type of an inputSchema is object",
        subject: Subject::Parameters,
        check: is_object_at_root,
    },
];

fn ensure(holds: bool, reason: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(reason()) }
}

thread_local! {
    static METASCHEMAS: [(Draft, Schemas, SchemaIndex); 2] = [
        (Draft::V2020_12, "https://json-schema.org/draft/2020-12/schema"),
        (Draft::V7, "http://json-schema.org/draft-07/schema"),
    ]
    .map(|(draft, id)| {
        let mut schemas = Schemas::new();
        let index = Compiler::new().compile(id, &mut schemas).unwrap();
        (draft, schemas, index)
    });
}

fn matches_metaschema(schema: &Value, draft: Draft) -> Outcome {
    METASCHEMAS.with(|metaschemas| {
        let (_, schemas, index) = metaschemas.iter().find(|known| known.0 == draft).unwrap();
        schemas.validate(schema, *index).map_err(|error| error.to_string())
    })
}

fn compiles(schema: &Value) -> Outcome {
    const LOCATION: &str = "file:///schema.json";
    let mut compiler = Compiler::new();
    compiler.set_default_draft(Draft::V2020_12);
    compiler.add_resource(LOCATION, schema.clone()).map_err(|error| error.to_string())?;
    compiler.compile(LOCATION, &mut Schemas::new()).map(drop).map_err(|error| error.to_string())
}

/// Returns all schemas nested in a schema, itself first, each with its path.
fn nodes(schema: &Value) -> Vec<(String, &Map<String, Value>)> {
    let (mut found, mut pending) = (Vec::new(), vec![(String::new(), schema)]);
    while let Some((path, schema)) = pending.pop() {
        let Value::Object(node) = schema else { continue };
        for (keyword, value) in node {
            match keyword.as_str() {
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependencies"
                | "dependentSchemas" => {
                    let members = value.as_object().into_iter().flatten();
                    pending.extend(
                        members.map(|(name, value)| (format!("{path}/{keyword}/{name}"), value)),
                    );
                }
                "items" | "prefixItems" | "anyOf" | "allOf" | "oneOf" if value.is_array() => {
                    let elements = value.as_array().into_iter().flatten().enumerate();
                    pending.extend(
                        elements.map(|(at, value)| (format!("{path}/{keyword}/{at}"), value)),
                    );
                }
                "items"
                | "additionalProperties"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames"
                | "unevaluatedProperties"
                | "unevaluatedItems" => {
                    pending.push((format!("{path}/{keyword}"), value));
                }
                _ => {}
            }
        }
        found.push((path, node));
    }
    found
}

/// Returns true if the schema's `type` is or contains `name`.
fn has_type(node: &Map<String, Value>, name: &str) -> bool {
    match node.get("type") {
        Some(Value::String(kind)) => kind == name,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == name),
        _ => false,
    }
}

fn names(node: &Map<String, Value>, keyword: &str) -> BTreeSet<String> {
    match node.get(keyword) {
        Some(Value::Object(members)) => members.keys().cloned().collect(),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => BTreeSet::new(),
    }
}

fn is_object_at_root(schema: &Value) -> Outcome {
    ensure(schema["type"] == "object", || "the root is no object".to_owned())
}

/// Checks that every array has `items`: a schema, or a list of schemas that is not empty.
fn arrays_have_items(schema: &Value) -> Outcome {
    for (path, node) in nodes(schema) {
        let items = node.get("items").is_some_and(|items| items.is_object() || items.is_array());
        ensure(!has_type(node, "array") || items, || format!("{path}: array without items"))?;
    }
    Ok(())
}

fn openai_function(schema: &Value) -> Outcome {
    is_object_at_root(schema)?;
    arrays_have_items(schema)?;
    for keyword in ["anyOf", "oneOf", "allOf", "enum", "not"] {
        ensure(schema.get(keyword).is_none(), || format!("{keyword} at the root"))?;
    }
    ensure(schema["properties"].is_object(), || "no properties".to_owned())
}

fn openai_strict(schema: &Value) -> Outcome {
    openai_function(schema)?;
    for (path, node) in nodes(schema) {
        for keyword in [
            "allOf",
            "oneOf",
            "not",
            "dependentRequired",
            "dependentSchemas",
            "if",
            "then",
            "else",
            "patternProperties",
            "propertyNames",
            "unevaluatedProperties",
            "prefixItems",
        ] {
            ensure(!node.contains_key(keyword), || format!("{path}: {keyword}"))?;
        }
        if has_type(node, "object") {
            let closed = node.get("additionalProperties") == Some(&Value::Bool(false));
            ensure(closed, || format!("{path}: open object"))?;
            let required = node.get("required").is_some_and(Value::is_array)
                && names(node, "properties") == names(node, "required");
            ensure(required, || format!("{path}: optional properties"))?;
        }
    }
    Ok(())
}

/// Checks that an SDK can convert the schema to a strict one. Looks only at keywords that the
/// conversion follows: a `$ref` remains unless other keywords constrain the value too.
fn strict_convertible(schema: &Value) -> Outcome {
    let mut pending = vec![(String::new(), schema, true)];
    if *schema == json!({}) {
        return Ok(());
    }
    ensure(!schema["anyOf"].is_array(), || "anyOf at the root".to_owned())?;
    while let Some((path, schema, is_root)) = pending.pop() {
        let node = schema.as_object().ok_or_else(|| format!("{path}: no object"))?;
        let properties = node.get("properties").and_then(Value::as_object);
        let additional = node.get("additionalProperties");
        let is_object =
            has_type(node, "object") || (!node.contains_key("type") && properties.is_some());
        if is_object || !node.contains_key("type") {
            let closed = additional.is_none_or(|value| *value == Value::Bool(false));
            ensure(closed, || format!("{path}: additional properties are allowed"))?;
        }
        // The SDK adds `properties` to a root without them.
        let declared = properties.is_some_and(|members| !members.is_empty());
        let explicit = additional == Some(&Value::Bool(false));
        ensure(!is_object || declared || explicit, || format!("{path}: open object"))?;
        if let Some(Value::String(reference)) = node.get("$ref") {
            let resource = node.contains_key("$id") && !is_root;
            ensure(reference.starts_with("#/") && !resource, || format!("{path}: {reference}"))?;
        }
        for keyword in ["properties", "$defs", "definitions"] {
            let members = node.get(keyword).and_then(Value::as_object).into_iter().flatten();
            pending.extend(members.map(|(name, value)| (format!("{path}/{name}"), value, false)));
        }
        if let Some(items) = node.get("items").filter(|items| items.is_object()) {
            pending.push((format!("{path}/items"), items, false));
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            let variants = node.get(keyword).and_then(Value::as_array).into_iter().flatten();
            pending.extend(variants.map(|value| (format!("{path}/{keyword}"), value, false)));
        }
    }
    Ok(())
}

/// Checks the keywords that the Gemini API reads. Client SDKs remove all other keywords.
fn gemini_function(schema: &Value) -> Outcome {
    is_object_at_root(schema)?;
    for (path, node) in nodes(schema) {
        let array = node.get("type").is_some_and(|kind| kind == "array");
        let items = node.get("items").is_some_and(Value::is_object);
        ensure(!array || items, || format!("{path}: items: missing field"))?;
        let single = node.get("type").is_none_or(Value::is_string);
        ensure(single, || format!("{path}: several types"))?;
        let texts = node.get("enum").and_then(Value::as_array);
        let texts = texts.is_none_or(|values| values.iter().all(Value::is_string));
        ensure(texts, || format!("{path}: enum of other values than strings"))?;
        let defined = names(node, "required").is_subset(&names(node, "properties"));
        ensure(defined, || format!("{path}: required property is not defined"))?;
        // The root of a tool without parameters is left out of the request.
        let empty = names(node, "properties").is_empty() && !path.is_empty();
        ensure(!(empty && has_type(node, "object")), || {
            format!("{path}: properties should be non-empty for OBJECT type")
        })?;
    }
    Ok(())
}

fn gemini_keywords(schema: &Value) -> Outcome {
    const KNOWN: [&str; 20] = [
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "items",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "example",
        "anyOf",
        "minimum",
        "maximum",
    ];
    for (path, node) in nodes(schema) {
        let unknown = node.keys().find(|keyword| !KNOWN.contains(&keyword.as_str()));
        ensure(unknown.is_none(), || format!("{path}: unknown name {unknown:?}"))?;
    }
    Ok(())
}

fn vscode(schema: &Value) -> Outcome {
    matches_metaschema(schema, Draft::V7)?;
    for (path, node) in nodes(schema) {
        let array = node.get("type").is_some_and(|kind| kind == "array");
        // As JavaScript decides it: `false` and null count as missing.
        let items = node
            .get("items")
            .is_some_and(|items| !matches!(items, Value::Bool(false) | Value::Null));
        ensure(!array || items, || format!("{path}: tool parameters array type must have items"))?;
    }
    Ok(())
}
