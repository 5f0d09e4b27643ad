//! Checks of arguments, next to a complete validator.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is a failure")]

use boon::{Compiler, Schemas};
use context_guard_catalogue::arguments::check;
use context_guard_catalogue::document::Json;
use proptest::prelude::*;
use serde_json::{Value, json};

fn errors(schema: &Value, arguments: &Value) -> Vec<String> {
    let parse = |value: &Value| Json::parse(&value.to_string()).unwrap();
    check(&parse(schema), &parse(arguments))
}

#[test]
fn problems_are_named() {
    let schema = json!({"type": "object", "required": ["city"], "additionalProperties": false,
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
        "units": {"enum": ["metric", "imperial"]},
        "stops": {"type": "array", "items": {"type": "object", "required": ["id"]}}}});
    let cases = [
        (json!({"city": "Rome", "days": 3.0, "units": "metric", "stops": [{"id": 1}]}), vec![]),
        (json!({}), vec!["arguments.city: required, but missing"]),
        (
            json!({"city": "Rome", "days": "three"}),
            vec![r#"arguments.days: expected int, got "three""#],
        ),
        (
            json!({"city": "Rome", "units": "kelvin"}),
            vec![r#"arguments.units: expected "metric"|"imperial", got "kelvin""#],
        ),
        (
            json!({"city": "Rome", "dayz": 3}),
            vec![r#"arguments.dayz: unknown parameter (did you mean "days"?)"#],
        ),
        (json!({"city": "Rome", "x y": 3}), vec![r#"arguments["x y"]: unknown parameter"#]),
        (
            json!({"city": "Rome", "stops": [{"id": 1}, {}]}),
            vec!["arguments.stops[1].id: required, but missing"],
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(errors(&schema, &arguments), expected, "{arguments}");
    }
}

#[test]
fn alternatives_are_checked() {
    let schema = json!({"properties": {"target": {"oneOf": [
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}]},
        "next": {"$ref": "#/$defs/next"}}, "$defs": {"next": {"type": ["integer", "null"]}}});
    assert_eq!(errors(&schema, &json!({"target": {"url": "x"}, "next": null})), [""; 0]);
    assert_eq!(
        errors(&schema, &json!({"target": {"id": 1}, "next": "a"})),
        [
            r#"arguments.next: expected int, got "a""#,
            r#"arguments.target: expected {path:string}|{url:string}, got {"id":1}"#
        ]
    );
}

#[test]
fn recursion_is_bounded() {
    let schema = json!({"$ref": "#"});
    assert_eq!(errors(&schema, &json!({})), [""; 0]);
    let schema = json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]});
    assert_eq!(errors(&schema, &json!({})), [""; 0]);
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
        prop_oneof![Just(1.0), Just(0.5), Just(-2.0)].prop_map(|number: f64| Value::from(number)),
        "[ab]{0,1}".prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[abc]", inner, 0..3)
                .prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![
        Just("null"),
        Just("boolean"),
        Just("integer"),
        Just("number"),
        Just("string"),
        Just("array"),
        Just("object")
    ];
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        kind.clone().prop_map(|kind| json!({"type": kind})),
        (kind.clone(), kind.clone()).prop_map(|(one, other)| if one == other {
            json!({"type": one})
        } else {
            json!({"type": [one, other]})
        }),
        value().prop_map(|value| json!({"const": value})),
        value().prop_map(|value| json!({"enum": [value, 1]})),
        Just(json!({"$ref": "#/$defs/a"})),
        Just(json!({"minimum": 1, "maxLength": 0})),
    ];
    leaf.prop_recursive(3, 24, 3, move |inner| {
        let members = proptest::collection::btree_map("[abc]", inner.clone(), 0..3)
            .prop_map(|members| members.into_iter().collect::<Value>());
        let list = proptest::collection::vec(inner.clone(), 1..3).prop_map(Value::from);
        prop_oneof![
            members.clone().prop_map(|members| json!({"properties": members})),
            (members.clone(), inner.clone()).prop_map(
                |(members, more)| json!({"properties": members, "additionalProperties": more})
            ),
            members.prop_map(|members| json!({"patternProperties": members,
                "additionalProperties": false, "required": ["a"]})),
            inner.clone().prop_map(|items| json!({"items": items})),
            (list.clone(), inner.clone())
                .prop_map(|(first, items)| json!({"prefixItems": first, "items": items})),
            list.clone().prop_map(|parts| json!({"allOf": parts})),
            list.clone().prop_map(|parts| json!({"anyOf": parts})),
            list.prop_map(|parts| json!({"oneOf": parts})),
            inner.clone().prop_map(|part| json!({"not": part})),
            (inner.clone(), inner).prop_map(|(part, other)| json!({"if": part, "then": other})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn accepted_values_are_not_rejected(
        schema in schema(),
        definition in schema(),
        value in value(),
    ) {
        let root = json!({"allOf": [schema], "$defs": {"a": definition}});
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource("memory:///schema.json", root.clone()).unwrap();
        // A definition that refers to itself only is no schema.
        if let Ok(compiled) = compiler.compile("memory:///schema.json", &mut schemas)
            && schemas.validate(&value, compiled).is_ok()
        {
            let found = errors(&root, &value);
            prop_assert!(found.is_empty(), "{root}\n{value}\n{found:?}");
        }
    }

    #[test]
    fn any_text_is_checked(schema in any::<String>(), value in value()) {
        let schema = Json::parse(&schema).unwrap_or(Json::String(schema));
        let _ = check(&schema, &Json::parse(&value.to_string()).unwrap());
    }
}
