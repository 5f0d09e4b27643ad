//! The published schema of the policy is the one that its types give, with the defaults and ranges that the compiler has; and so is the table of settings.
#![cfg(feature = "schema")]
#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests: a panic is a failure")]

use std::fmt::Write as _;
use std::path::Path;

use context_guard_core::policy::{Document, EndpointSettings, RANGES, SCHEMA, compile};
use serde_json::{Value, json};

/// Every setting that has a value where nothing sets it.
fn defaults() -> Value {
    let limits = EndpointSettings::default();
    let compiled = compile("").unwrap();
    json!({
        "shape": limits.shape,
        "pagination": limits.pagination,
        "chunking": limits.chunking,
        "defaultPageSize": limits.default_page_size,
        "maxPageSize": limits.max_page_size,
        "tokenBudgetThreshold": limits.threshold,
        "hardCap": limits.hard_cap,
        "enforceHardCap": limits.enforce_hard_cap,
        "chunkSize": limits.chunk_size,
        "chunkThreshold": limits.chunk_threshold,
        "summarization": limits.summarization,
        "summaryThreshold": limits.summary_threshold,
        "keywords": limits.keywords,
        "strip": limits.strip,
        "stripFields": limits.strip_fields,
        "compact": limits.compact,
        "highlights": limits.highlights,
        "previewChars": limits.preview_chars,
        "refuseMarks": limits.refuse_marks,
        "cursorTtl": limits.cursor_ttl_ms / 1_000,
        "cursorMode": limits.cursor_mode,
        "estimator": {
            "method": limits.estimator.method,
            "profile": limits.estimator.profile,
            "scale": limits.estimator.scale,
        },
        "advertise": limits.advertise,
        "plainArguments": limits.plain_arguments,
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
    schema
}

/// The values that a setting of several words may have.
fn choices(schema: &Value, property: &Value) -> Vec<String> {
    let reference = property.pointer("/anyOf/0/$ref").or(property.pointer("/items/$ref"));
    let target = reference
        .and_then(Value::as_str)
        .and_then(|path| schema.pointer(path.trim_start_matches('#')));
    let all = target.and_then(|target| target["oneOf"].as_array()).into_iter().flatten();
    all.filter_map(|one| one["const"].as_str().map(|one| format!("`{one}`"))).collect()
}

fn table(schema: &Value) -> String {
    let mut table = String::from(
        "# Settings of a policy\n\nGenerated from the code; see [Set a policy](../how-to/set-a-policy.md). A setting without a default\nis derived from the answers.\n\n| setting | default | range | what it is |\n|---|---|---|---|\n",
    );
    for (name, property) in schema["properties"].as_object().unwrap() {
        let default = match &property["default"] {
            Value::Null => String::new(),
            default => format!("`{default}`"),
        };
        let range = match (&property["minimum"], &property["maximum"]) {
            (Value::Number(least), Value::Number(most)) if least.as_u64() > Some(0) => {
                format!("{least} to {most}")
            }
            _ => choices(schema, property).join(", "),
        };
        let text = property["description"].as_str().unwrap_or_default().replace('\n', " ");
        writeln!(table, "| `{name}` | {default} | {range} | {text} |").unwrap();
    }
    table
}

#[test]
fn the_published_schema_is_generated_from_the_types() {
    let schema = schema();
    let settings = table(&schema);
    let schema = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = here.join("../../docs/reference");
    let files = [
        (here.join("policy.schema.json"), &schema),
        (docs.join("policy.schema.json"), &schema),
        (docs.join("policy-settings.md"), &settings),
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
fn the_defaults_that_are_told_are_those_that_apply() {
    let told = compile(&defaults().to_string()).unwrap().policy;
    assert_eq!(told.settings_for("", "any"), EndpointSettings::default());
}

#[test]
fn the_schema_takes_what_the_compiler_takes() {
    let policy = r#"{"tokenBudgetThreshold": 5000, "hardCap": 9000, "estimator": {"profile": "claude-legacy", "scale": 1.3}, "endpoints": [{"match": "list_*", "shape": false}]}"#;
    assert!(compile(policy).is_ok());
    for name in
        ["tokenBudgetThreshold", "hardCap", "claude-legacy", "scale", "endpoints", "match", "shape"]
    {
        assert!(SCHEMA.contains(name), "{name}");
    }
}
