//! The schemas in `tools/list`: those that the guard writes follow the rules of clients and model
//! APIs, and a schema that followed a rule still does after the guard.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

mod catalogue_host;
mod schema_rules;

use std::collections::BTreeSet;
use std::path::Path;

use context_guard_test_kit::guard::{NativeGuard, TestGuard, Verdict};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use schema_rules::{RULES, Rule, Subject};
use serde_json::{Map, Value, json};

const MODES: [&str; 3] = ["none", "compact", "full"];

/// Returns the tools in the guard's version of a tool list, under the `advertise` setting of the
/// same name.
fn listed(advertise: &str, tools: &Value) -> Vec<Value> {
    let guard = NativeGuard::with_policy(&json!({ "advertise": advertise }).to_string()).unwrap();
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let Verdict::Forward(_, ticket) = guard.request(request.as_bytes()).unwrap() else {
        panic!("the request is forwarded")
    };
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}).to_string();
    let (shaped, _) = guard.response(&ticket, response.as_bytes()).unwrap();
    let shaped: Value = serde_json::from_slice(&shaped.unwrap()).unwrap();
    shaped["result"]["tools"].as_array().unwrap().clone()
}

/// Returns the rules that the upstream's schemas of tools follow, but the guard's versions of them
/// break.
fn broken(tools: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    for mode in MODES {
        let after = listed(mode, tools);
        for (before, after) in tools.as_array().unwrap().iter().zip(&after) {
            for member in ["inputSchema", "outputSchema"] {
                let Some(schema) = before.get(member) else { continue };
                for rule in &RULES {
                    if rule.subject != Subject::Any && member == "outputSchema" {
                        continue;
                    }
                    let fault = (rule.check)(schema).and_then(|()| (rule.check)(&after[member]));
                    if let (Ok(()), Err(reason)) = ((rule.check)(schema), fault) {
                        let (name, tool) = (rule.name, &before["name"]);
                        broken.push(format!("{mode}: {tool} {member} {name}: {reason}"));
                    }
                }
            }
        }
    }
    broken
}

/// Returns the captured tool lists in a folder, each with the path of its file.
fn captured(folder: &Path) -> Vec<(String, Value)> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let lists = files.filter(|path| path.to_string_lossy().ends_with("tools-list.json"));
    lists
        .map(|path| {
            let list: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            (path.display().to_string(), list["result"]["tools"].clone())
        })
        .collect()
}

#[test]
fn own_schemas_follow_every_rule() {
    let properties =
        |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}});
    let tools = json!([
        {"name": "a", "inputSchema": properties("q")},
        {"name": "b", "inputSchema": properties("limit")},
        {"name": "context_guard_read", "inputSchema": properties("filter_ids")},
    ]);
    let mut broken = Vec::new();
    for (mode, tools) in
        MODES.into_iter().flat_map(|mode| [(mode, json!([])), (mode, tools.clone())])
    {
        for tool in listed(mode, &tools) {
            for rule in RULES.iter().filter(|rule| rule.subject != Subject::RequiredParameters) {
                if let Err(reason) = (rule.check)(&tool["inputSchema"]) {
                    let Rule { name, source, .. } = rule;
                    broken.push(format!("{mode}: {} {name} ({source}): {reason}", tool["name"]));
                }
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn schemas_of_the_catalogue_follow_every_rule() {
    let mut checked = BTreeSet::new();
    for call_tools in ["split", "one"] {
        let settings = json!({"catalogue": {"mode": "tiered", "callTools": call_tools}});
        let mut host = catalogue_host::host(&settings.to_string()).with_many(60);
        for tool in host.list() {
            let name = tool["name"].as_str().unwrap();
            if !name.starts_with("context_guard_") {
                continue;
            }
            checked.insert(name.to_owned());
            for rule in RULES.iter().filter(|rule| rule.subject != Subject::RequiredParameters) {
                let outcome = (rule.check)(&tool["inputSchema"]);
                assert_eq!(outcome, Ok(()), "{name}: {} ({})", rule.name, rule.source);
            }
        }
    }
    assert!(checked.len() >= 5, "{checked:?}");
}

#[test]
fn rules_detect_faults() {
    let with = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
    for (rule, schema) in [
        ("draft-2020-12", with(json!({"type": "array", "items": [{}]}))),
        ("draft-07", with(json!({"type": "text"}))),
        ("declared-dialect", with(json!({"$ref": "#/$defs/none"}))),
        ("openai-function", with(json!({"type": "array"}))),
        ("openai-strict", with(json!({"type": "string"}))),
        ("openai-agents-strict", with(json!({"type": "object"}))),
        ("openai-agents-strict", with(json!({"additionalProperties": true}))),
        ("gemini-function", with(json!({"type": "array"}))),
        ("gemini-function", with(json!({"type": "object"}))),
        ("gemini-keywords", with(json!({"oneOf": []}))),
        ("vscode", with(json!({"anyOf": [{"type": "array"}]}))),
        ("tool-input", json!({})),
    ] {
        let known = RULES.iter().find(|known| known.name == rule).unwrap();
        assert!((known.check)(&schema).is_err(), "{rule}: {schema}");
    }
}

#[test]
fn captured_schemas_keep_their_rules() {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let lists = captured(&captures);
    assert!(lists.len() >= 5, "the captured lists are missing");
    for (path, tools) in lists {
        assert_eq!(broken(&tools), Vec::<String>::new(), "{path}");
    }
}

#[test]
fn input_schemas_are_unchanged_by_default() {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    for (_, tools) in captured(&captures) {
        for (before, after) in tools.as_array().unwrap().iter().zip(listed("none", &tools)) {
            assert_eq!(before["inputSchema"], after["inputSchema"]);
        }
    }
}

/// Generates names of properties, some of which are names of guard arguments.
fn name() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "limit", "fields", "filter_ids", "_guard", "context_guard", "type"])
        .prop_map(str::to_owned)
}

/// Generates schemas of values, correct ones and ones that break rules.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        select(vec!["string", "integer", "number", "boolean", "null", "array", "object"])
            .prop_map(|kind| json!({ "type": kind })),
        Just(json!({})),
        Just(json!(true)),
        Just(json!({"type": ["string", "null"], "default": null})),
        Just(json!({"type": "string", "enum": ["x", "y"], "description": "d \"q\" {"})),
        Just(json!({"enum": [1, null]})),
        Just(json!({"$ref": "#/$defs/d"})),
        Just(json!({"type": "array", "items": [{"type": "string"}]})),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            (select(vec!["anyOf", "oneOf", "allOf"]), vec(inner.clone(), 1..3))
                .prop_map(|(keyword, variants)| json!({ keyword: variants })),
            object(inner),
        ]
    })
}

/// Generates schemas of objects, with the schemas of their properties from `inner`.
fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let properties = proptest::option::of(btree_map(name(), inner, 0..4));
    let closed = select(vec![None, Some(json!(false)), Some(json!(true)), Some(json!({}))]);
    (properties, closed, 0..4_u8).prop_map(|(properties, closed, required)| {
        let mut schema = json!({"type": "object"});
        if let Some(properties) = properties {
            // All, none or some of the properties are required.
            let names = properties.keys().take(match required {
                0 => 0,
                1 => 1,
                _ => usize::MAX,
            });
            let names: Vec<String> = names.cloned().collect();
            if required > 0 {
                schema["required"] = json!(names);
            }
            schema["properties"] = json!(properties);
        }
        if let Some(closed) = closed {
            schema["additionalProperties"] = closed;
        }
        schema
    })
}

/// Generates root schemas, most of them of objects.
fn root() -> impl Strategy<Value = Value> {
    let dialects = vec![
        None,
        Some("http://json-schema.org/draft-07/schema#"),
        Some("https://json-schema.org/draft/2020-12/schema"),
    ];
    let extra = select(vec!["", "anyOf", "oneOf", "allOf", "$defs"]);
    let root =
        prop_oneof![4 => object(schema()), 1 => schema().prop_filter("object", Value::is_object)];
    (select(dialects), extra, schema(), root).prop_map(|(dialect, extra, other, mut root)| {
        let members = root.as_object_mut().unwrap();
        if let Some(dialect) = dialect {
            members.insert("$schema".to_owned(), dialect.into());
        }
        match extra {
            "" => {}
            "$defs" => drop(members.insert("$defs".to_owned(), json!({ "d": other }))),
            keyword => drop(members.insert(keyword.to_owned(), json!([other]))),
        }
        root
    })
}

proptest! {
    #[test]
    fn generated_schemas_keep_their_rules(input in root(), output in proptest::option::of(root())) {
        let mut tool = Map::from_iter([("name".to_owned(), "t".into()), ("inputSchema".to_owned(), input)]);
        tool.extend(output.map(|output| ("outputSchema".to_owned(), output)));
        prop_assert_eq!(broken(&json!([tool])), Vec::<String>::new());
    }
}
