//! Signatures of tools.
#![allow(clippy::unwrap_used, reason = "tests: a panic is a failure")]

use context_guard_catalogue::signature;
use context_guard_catalogue::tool::Tool;
use serde_json::{Value, json};

fn short(wire_name: &str, description: &str, schema: &Value) -> String {
    let definition = definition(description, schema);
    signature::short(&Tool::parse("s", wire_name, &definition).unwrap())
}

fn definition(description: &str, schema: &Value) -> String {
    // The text keeps the order of members, which a tree of values does not.
    format!(
        r#"{{"name":"x","description":{},"inputSchema":{}}}"#,
        Value::from(description),
        schema.as_str().map_or_else(|| schema.to_string(), str::to_owned)
    )
}

#[test]
fn parameters_have_types_defaults_and_notes() {
    let schema = r#"{"type":"object","properties":{
        "city":{"type":"string","description":"City name"},
        "days":{"type":"integer","default":3,"description":"Days"},
        "units":{"enum":["metric","imperial"]}},"required":["city"]}"#;
    assert_eq!(
        short("weather__get_forecast", "Get the forecast", &json!(schema)),
        r#"weather__get_forecast(city:string /*City name*/, days?:int=3, units?:"metric"|"imperial") // Get the forecast"#
    );
    assert_eq!(short("clock__now", "", &json!({"type": "object"})), "clock__now()");
    assert_eq!(short("clock__now", "", &Value::Null), "clock__now()");
}

#[test]
fn objects_are_nested() {
    let schema = r#"{"properties":{"customer":{"type":"object","properties":{"id":{"type":"integer"},
        "address":{"type":"object","properties":{"street":{"type":"string"},"zip":{"type":"string"}},
        "required":["street"]}},"required":["id"]},"items":{"type":"array","items":{"type":"object",
        "properties":{"sku":{"type":"string"},"quantity":{"type":"integer","default":1}},
        "required":["sku"]}}},"required":["customer","items"]}"#;
    assert_eq!(
        short("shop__create_order", "", &json!(schema)),
        "shop__create_order(customer:{id:int, address?:{street:string, zip?:string}}, items:{sku:string, quantity?:int=1}[])"
    );
}

#[test]
fn null_is_dropped() {
    let schema = r#"{"properties":{"since":{"anyOf":[{"type":"string","format":"date-time"},
        {"type":"null"}],"default":null},"path":{"type":["string","null"]},
        "max_count":{"type":"integer","default":10}}}"#;
    assert_eq!(
        short("git__log", "Show commits.", &json!(schema)),
        "git__log(since?:string<date-time>, path?:string, max_count?:int=10) // Show commits"
    );
}

#[test]
fn references_are_resolved_once() {
    let schema = r##"{"properties":{"root":{"$ref":"#/$defs/Node"}},"required":["root"],"$defs":{
        "Node":{"type":"object","properties":{"value":{"type":"string"},"children":{"type":"array",
        "items":{"$ref":"#/$defs/Node"}}},"required":["value"]}}}"##;
    assert_eq!(
        short("tree__put_node", "Store a tree", &json!(schema)),
        "tree__put_node(root:{value:string, children?:Node[]}) // Store a tree"
    );
    let remote = json!({"properties": {"a": {"$ref": "https://a.example/b.json#/$defs/Money"}}});
    assert_eq!(short("a", "", &remote), "a(a?:Money)");
}

#[test]
fn arrays_and_maps_have_element_types() {
    let schema = r#"{"properties":{"table":{"type":"string"},"rows":{"type":"array","items":
        {"type":["string","number"]}},"options":{"type":"object","additionalProperties":
        {"type":"string"}}},"required":["table","rows"]}"#;
    assert_eq!(
        short("db__insert", "Insert rows", &json!(schema)),
        "db__insert(table:string, rows:(string|number)[], options?:Record<string,string>) // Insert rows"
    );
}

#[test]
fn long_enumerations_are_cut() {
    let values: Vec<String> = ('a'..='n').map(String::from).collect();
    let schema = format!(
        r#"{{"properties":{{"style":{{"type":"string","enum":{}}},"x-scale":{{"type":"number"}}}},"required":["style"]}}"#,
        json!(values)
    );
    assert_eq!(
        short("maps__render", "Render a map", &json!(schema)),
        r#"maps__render(style:"a"|"b"|"c"|"d"|"e"|"f"|"g"|"h"|"i"|"j"|"k"|"l"|…+2, "x-scale"?:number) // Render a map"#
    );
    let definition = definition("Render a map", &json!(schema));
    let tool = Tool::parse("s", "m", &definition).unwrap();
    assert!(signature::complete(&tool).contains(r#""n""#));
}

#[test]
fn alternatives_are_unions() {
    let schema = r#"{"properties":{"target":{"oneOf":[{"type":"object","properties":{"path":
        {"type":"string"}},"required":["path"]},{"type":"object","properties":{"url":{"type":
        "string","format":"uri"}},"required":["url"]}]},"mode":{"const":"append"}},
        "required":["target"]}"#;
    assert_eq!(
        short("files__save", "Save a file", &json!(schema)),
        r#"files__save(target:{path:string}|{url:string<uri>}, mode?:"append") // Save a file"#
    );
}

#[test]
fn all_of_merges_properties() {
    let schema = json!({"properties": {"a": {"allOf": [
        {"properties": {"x": {"type": "integer"}}, "required": ["x"]},
        {"properties": {"y": {"type": "boolean"}}}]}}});
    assert_eq!(short("a", "", &schema), "a(a?:{x:int, y?:bool})");
}

#[test]
fn deep_and_long_parts_are_cut() {
    let level = |inner: Value| json!({"type": "object", "properties": {"a": inner}});
    let deep = level(level(level(level(level(json!({"type": "string"}))))));
    assert_eq!(short("a", "", &deep), "a(a?:{a?:{a?:object}})");
    let schema = json!({"properties": {"a": {"type": "string", "default": "x".repeat(30),
        "description": format!("Closes */ {}", "word ".repeat(30))}}});
    assert_eq!(
        short("a", &"many words ".repeat(30), &schema),
        format!(
            "a(a?:string /*Closes * / word word word word word word word word word word…*/) // {}",
            "many words ".repeat(14) + "many…"
        )
    );
}

#[test]
fn complete_signatures_have_no_limits() {
    let schema = json!({"properties": {"n": {"type": ["integer", "null"], "minimum": 1}}});
    let definition = definition("Counts. Twice.", &schema);
    let tool = Tool::parse("s", "count", &definition).unwrap();
    assert_eq!(signature::complete(&tool), "count(n?:int|null /*minimum 1*/) // Counts. Twice.");
}

#[test]
fn references_do_not_grow_without_bound() {
    let mut defs = serde_json::Map::new();
    for level in 0..30 {
        let next = json!({"$ref": format!("#/$defs/N{}", level + 1)});
        let parts = json!([{"properties": {"a": next}}, {"properties": {"b": next}}]);
        defs.insert(format!("N{level}"), json!({"anyOf": parts}));
    }
    let schema = json!({"properties": {"a": {"$ref": "#/$defs/N0"}}, "$defs": defs});
    let definition = definition("", &schema);
    let tool = Tool::parse("s", "a", &definition).unwrap();
    assert!(signature::complete(&tool).len() < 100_000);
}
