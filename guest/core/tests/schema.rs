//! The published JSON Schema and the table of settings: both are generated from the policy types,
//! with the defaults and ranges of the compiler.
#![cfg(feature = "schema")]
#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests: a panic is a failure")]

use std::fmt::Write as _;
use std::path::Path;

use context_guard_core::policy::{
    CATALOGUE_RANGES, Document, EndpointSettings, RANGES, SCHEMA, compile,
};
use serde_json::{Value, json};

/// Returns the default value of each policy setting that has one.
fn defaults() -> Value {
    let endpoint = EndpointSettings::default();
    let compiled = compile("").unwrap();
    json!({
        "shape": endpoint.shape,
        "pagination": endpoint.pagination,
        "chunking": endpoint.chunking,
        "defaultPageSize": endpoint.default_page_size,
        "maxPageSize": endpoint.max_page_size,
        "tokenBudgetThreshold": endpoint.threshold,
        "hardCap": endpoint.hard_cap,
        "enforceHardCap": endpoint.enforce_hard_cap,
        "chunkSize": endpoint.chunk_size,
        "chunkThreshold": endpoint.chunk_threshold,
        "summarization": endpoint.summarization,
        "summaryThreshold": endpoint.summary_threshold,
        "keywords": endpoint.keywords,
        "strip": endpoint.strip,
        "stripFields": endpoint.strip_fields,
        "compact": endpoint.compact,
        "highlights": endpoint.highlights,
        "previewChars": endpoint.preview_chars,
        "refuseMarks": endpoint.refuse_marks,
        "references": endpoint.references,
        "maxReferenceBytes": endpoint.max_reference_bytes,
        "cursorTtl": endpoint.cursor_ttl_ms / 1_000,
        "cursorMode": endpoint.cursor_mode,
        "cursorFormat": endpoint.cursor_format,
        "estimator": {
            "method": endpoint.estimator.method,
            "profile": endpoint.estimator.profile,
            "scale": endpoint.estimator.scale,
        },
        "advertise": endpoint.advertise,
        "plainArguments": endpoint.plain_arguments,
        "onFault": compiled.policy.on_fault(),
        "hardByteLimit": compiled.policy.hard_byte_limit(),
    })
}

fn schema() -> Value {
    let mut schema = serde_json::to_value(schemars::schema_for!(Document)).unwrap();
    let complete = |properties: &mut Value| {
        for (name, default) in defaults().as_object().unwrap() {
            properties[name]["default"] = default.clone();
        }
        for (name, least, most) in RANGES {
            properties[name]["minimum"] = least.into();
            properties[name]["maximum"] = most.into();
        }
    };
    complete(&mut schema["properties"]);
    for (name, least, most) in RANGES {
        let rule = &mut schema["$defs"]["Rule"]["properties"][name];
        rule["minimum"] = least.into();
        rule["maximum"] = most.into();
    }
    for (name, least, most) in CATALOGUE_RANGES {
        let setting = &mut schema["$defs"]["CatalogueSettings"]["properties"][name];
        setting["minimum"] = least.into();
        setting["maximum"] = most.into();
    }
    let scale = &mut schema["$defs"]["EstimatorSettings"]["properties"]["scale"];
    scale["minimum"] = 0.5.into();
    scale["maximum"] = 4.into();
    schema
}

/// Returns the definition of the values, or list entries, of a policy setting.
fn definition<'s>(schema: &'s Value, property: &Value) -> Option<&'s Value> {
    let reference = property.pointer("/anyOf/0/$ref").or(property.pointer("/items/$ref"))?;
    schema.pointer(reference.as_str()?.trim_start_matches('#'))
}

/// Returns the values that an enumerated policy setting may have.
fn choices(schema: &Value, property: &Value) -> Vec<String> {
    let target = definition(schema, property);
    let all = target.and_then(|target| target["oneOf"].as_array()).into_iter().flatten();
    all.filter_map(|one| one["const"].as_str().map(|one| format!("`{one}`"))).collect()
}

fn table(schema: &Value) -> String {
    let mut table = String::from(
        "# Settings of a policy\n\nGenerated from the code; see [Set a policy](../how-to/set-a-policy.md). A setting without a default\nis derived from the answers. `[]` follows the name of a list.\n\n| setting | default | range | what it is |\n|---|---|---|---|\n",
    );
    add_rows(schema, &schema["properties"], "", &mut table);
    table
}

/// Adds a row for each setting of `properties`, and for the members of its values. `prefix` is the
/// path of the object that has the settings.
fn add_rows(schema: &Value, properties: &Value, prefix: &str, table: &mut String) {
    let shared = &schema["properties"];
    for (name, property) in properties.as_object().unwrap() {
        let default = match &property["default"] {
            Value::Null => String::new(),
            default => format!("`{default}`"),
        };
        let range = match (&property["minimum"], &property["maximum"]) {
            (Value::Number(least), Value::Number(most)) => format!("{least} to {most}"),
            _ => choices(schema, property).join(", "),
        };
        let text = property["description"].as_str().unwrap_or_default().replace('\n', " ");
        writeln!(table, "| `{prefix}{name}` | {default} | {range} | {text} |").unwrap();
        let Some(members) = definition(schema, property).map(|one| &one["properties"]) else {
            continue;
        };
        let list = if property["items"].is_object() { "[]" } else { "" };
        let path = format!("{prefix}{name}{list}.");
        // The settings of a rule have rows of their own already.
        let members = members.as_object().into_iter().flatten();
        let members = members.filter(|(member, _)| name != "endpoints" || shared[member].is_null());
        let members: Value = members.map(|(name, member)| (name.clone(), member.clone())).collect();
        add_rows(schema, &members, &path, table);
    }
}

/// The settings for which null has a meaning of its own. For others it is as if they were absent.
const NULLABLE: [&str; 1] = ["httpPrefix"];

/// Returns the TypeScript type of a schema.
fn type_of(schema: &Value) -> String {
    let union = |all: &Value| {
        let all = all.as_array().into_iter().flatten().map(type_of);
        Vec::from_iter(all.filter(|one| one != "null")).join(" | ")
    };
    if let Some(reference) = schema["$ref"].as_str() {
        return reference.trim_start_matches("#/$defs/").to_owned();
    }
    if schema["const"].is_string() {
        return schema["const"].to_string();
    }
    for name in ["anyOf", "oneOf"] {
        if schema[name].is_array() {
            return union(&schema[name]);
        }
    }
    let name = match &schema["type"] {
        Value::Array(names) => {
            names.iter().find_map(|one| one.as_str().filter(|one| *one != "null"))
        }
        name => name.as_str(),
    };
    match name.unwrap_or("unknown") {
        "integer" => "number".to_owned(),
        "array" => format!("({})[]", type_of(&schema["items"])),
        "object" if schema["properties"].is_object() => members(schema),
        "object" => format!("Record<string, {}>", type_of(&schema["additionalProperties"])),
        other => other.to_owned(),
    }
}

/// Returns the members of an object as a TypeScript type.
fn members(schema: &Value) -> String {
    members_that(schema, &|_| true)
}

/// Returns those members of an object that `is_included` selects by name, as a TypeScript type.
fn members_that(schema: &Value, is_included: &dyn Fn(&str) -> bool) -> String {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut text = String::from("{\n");
    let properties = schema["properties"].as_object().unwrap().iter();
    for (name, member) in properties.filter(|(name, _)| is_included(name)) {
        let mark = if required.contains(&name.as_str().into()) { "" } else { "?" };
        if let Some(description) = member["description"].as_str() {
            writeln!(text, "  /** {} */", description.replace('\n', " ")).unwrap();
        }
        let null = if NULLABLE.contains(&name.as_str()) { " | null" } else { "" };
        writeln!(text, "  {name}{mark}: {}{null};", type_of(member)).unwrap();
    }
    text + "}"
}

/// Returns the TypeScript types. The settings that policies and rules share are one type.
fn typescript(schema: &Value) -> String {
    let rule = &schema["$defs"]["Rule"];
    let is_shared = |name: &str| {
        let (own, of_rule) = (&schema["properties"][name], &rule["properties"][name]);
        own["description"] == of_rule["description"] && type_of(own) == type_of(of_rule)
    };
    let is_own = |name: &str| !is_shared(name);
    let mut text =
        String::from("// Generated from the schema of policies by `cargo xtask generate`.\n");
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        if name != "Rule" {
            writeln!(text, "\nexport type {name} = {};", type_of(definition)).unwrap();
        }
    }
    let types = [
        (
            "The settings of a policy, and of the endpoints that a rule matches.",
            "Settings",
            members_that(schema, &is_shared),
        ),
        (
            "The settings of some endpoints.",
            "Rule",
            format!("Settings & {}", members_that(rule, &is_own)),
        ),
        (
            "A policy. Default: the default of every setting.",
            "Policy",
            format!("Settings & {}", members_that(schema, &is_own)),
        ),
    ];
    for (description, name, members) in types {
        writeln!(text, "\n/** {description} */\nexport type {name} = {members};").unwrap();
    }
    text
}

#[test]
fn published_schema_is_up_to_date() {
    let schema = schema();
    let settings = table(&schema);
    let types = typescript(&schema);
    let schema = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = here.join("../../docs/reference");
    let files = [
        (here.join("policy.schema.json"), &schema),
        (docs.join("policy.schema.json"), &schema),
        (docs.join("policy-settings.md"), &settings),
        (here.join("../browser/js/policy.d.ts"), &types),
    ];
    let bless = std::env::var_os("CONTEXT_GUARD_BLESS").is_some();
    for (path, text) in files {
        if bless {
            std::fs::write(&path, text).unwrap();
        }
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            published == *text,
            "{} is out of date: run `cargo xtask generate`",
            path.display()
        );
    }
    assert!(bless || SCHEMA == schema);
}

#[test]
fn published_defaults_apply() {
    let published = compile(&defaults().to_string()).unwrap().policy;
    // Sizes that a policy sets are exact, even if it sets the defaults. Unset ones grow.
    let exact = EndpointSettings {
        has_exact_chunks: true,
        has_exact_pages: true,
        ..EndpointSettings::default()
    };
    assert_eq!(published.settings_for("", "any"), exact);
}

#[test]
fn schema_covers_the_compiler() {
    let policy = r#"{"tokenBudgetThreshold": 5000, "hardCap": 9000, "estimator": {"profile": "claude-legacy", "scale": 1.3}, "endpoints": [{"match": "list_*", "shape": false}]}"#;
    assert!(compile(policy).is_ok());
    for name in
        ["tokenBudgetThreshold", "hardCap", "claude-legacy", "scale", "endpoints", "match", "shape"]
    {
        assert!(SCHEMA.contains(name), "{name}");
    }
}
