//! The choice of fields and lists by their values: what identifies and describes records is shown,
//! constants are stated once, and nothing looks empty that is not.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "serde_json gives null for what is missing, and a panic is a failure"
)]

mod client;

use client::{first, payload};
use context_guard_test_kit::guard::NativeGuard;
use serde_json::{Map, Value, json};

/// Returns the payload and the metadata of the guard's first answer if the upstream returns
/// `document`.
fn answer(document: &Value) -> (Value, Value) {
    let guard = NativeGuard::with_policy("{}").unwrap();
    let answer = first(&guard, &json!({}), &document.to_string()).unwrap();
    let meta = answer["result"]["_meta"]["dev.context-guard/result"].clone();
    assert!(meta["budgetUsed"].as_f64().unwrap() <= 1.0, "{meta}");
    (payload(&answer).unwrap(), meta)
}

/// Returns 80 events of a cluster, of which event `other` has another namespace.
fn events(other: usize) -> Value {
    let event = |at: usize| {
        let (reason, message) = match at % 4 {
            0 => ("BackOff", "Back-off restarting failed container api".to_owned()),
            1 => ("Pulled", format!("Successfully pulled image shop/api:{at} in 3s")),
            2 => ("FailedScheduling", "0/3 nodes are available: 3 Insufficient memory.".to_owned()),
            _ => ("Unhealthy", "Readiness probe failed with status 503".to_owned()),
        };
        json!({
            "kind": "Event",
            "metadata": {
                "name": format!("api-{}.{:x}", at % 9, at * 7919),
                "namespace": if at == other { "test" } else { "shop" },
                "uid": format!("{:032x}", at * 7_919_777),
                "resourceVersion": format!("{}", at + 1_000),
            },
            "involvedObject": {"kind": "Pod", "uid": format!("{:032x}", at * 104_729)},
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet", "host": format!("node-{}", at % 3)},
            "firstTimestamp": format!("2026-01-02T10:{:02}:00Z", at % 60),
            "count": at % 13 + 1,
            "eventTime": null,
        })
    };
    json!({"kind": "List", "items": (0..80).map(event).collect::<Vec<_>>()})
}

#[test]
fn categories_and_phrases_are_shown() {
    let (shown, meta) = answer(&events(usize::MAX));
    let event = &shown["items"][2];
    assert_eq!(event["reason"], "FailedScheduling", "{event}");
    assert_eq!(event["message"], "0/3 nodes are available: 3 Insufficient memory.", "{event}");
    assert_eq!(meta["constantFields"]["kind"], "Event", "{meta}");
    assert_eq!(meta["constantFields"]["metadata.namespace"], "shop", "{meta}");
    assert!(event.get("kind").is_none() && event.get("eventTime").is_none(), "{event}");
}

#[test]
fn value_that_differs_in_one_record_is_no_constant() {
    // Of 50 records on the page, the sample has 32.
    for other in 0..50 {
        let (_, meta) = answer(&events(other));
        assert_eq!(meta["constantFields"]["metadata.namespace"], Value::Null, "{other}: {meta}");
        assert_eq!(meta["constantFields"]["kind"], "Event", "{other}: {meta}");
    }
}

#[test]
fn findings_are_shown_beside_rules() {
    let rule = |at: usize| {
        json!({
            "id": format!("A{at:03}"), "name": format!("Rule{at}"),
            "fullDescription": {"text": format!("A long text about thing {at}. ").repeat(6)},
        })
    };
    let finding = |at: usize| {
        let place = json!({"artifactLocation": {"uri": format!("src/mod{}.c", at % 17)}});
        json!({
            "ruleId": format!("A{:03}", at % 40), "level": if at.is_multiple_of(2) { "error" } else { "warning" },
            "message": {"text": format!("Unsafe use of thing {} in function f{at}", at % 40)},
            "locations": [{"physicalLocation": place}],
        })
    };
    let run = json!({
        "tool": {"driver": {"name": "Scan", "rules": (0..80).map(rule).collect::<Vec<_>>()}},
        "results": (0..600).map(finding).collect::<Vec<_>>(),
    });
    let (shown, _) = answer(&json!({"version": "2.1.0", "runs": [run]}));
    let found = &shown["summary"]["runs"][0]["results"][1];
    assert_eq!(found["ruleId"], "A001", "{found}");
    assert_eq!(found["message"]["text"], "Unsafe use of thing 1 in function f1", "{found}");
}

#[test]
fn series_show_first_last_and_range() {
    let value = |series: usize, at: usize| {
        json!([1_700_000_000 + 60 * at, format!("{:.1}", (100 * series + at) as f64 * 1.5)])
    };
    let series = |series: usize| {
        let values: Vec<Value> = (0..120).map(|at| value(series, at)).collect();
        json!({"metric": {"instance": format!("10.0.0.{series}:9100")}, "values": values})
    };
    let result: Vec<Value> = (0..20).map(series).collect();
    let (shown, _) =
        answer(&json!({"status": "success", "data": {"resultType": "matrix", "result": result}}));
    let second = &shown["data"]["result"][1];
    let values = second["values"].as_array().unwrap();
    assert_eq!(values[0], json!([1_700_000_000, "150.0"]), "{second}");
    assert_eq!(values[values.len() - 1], json!([1_700_007_140, "328.5"]), "{second}");
    assert!(second["values"].to_string().contains(" more items, 150 to 328.5]"), "{second}");
}

#[test]
fn members_of_maps_are_records() {
    let path = |at: usize| {
        let call = json!({
            "operationId": format!("getThing{at}"), "summary": format!("Get the thing {at}"),
            "responses": {"200": {"description": "ok", "content": {}}},
        });
        (format!("/v1/things/{at}"), json!({ "get": call }))
    };
    let schema = |at: usize| {
        let field = |field: usize| {
            (format!("f{field}"), json!({"type": "string", "description": "A field of a thing"}))
        };
        let fields = Value::from((0..12).map(field).collect::<Map<_, _>>());
        (format!("Thing{at}"), json!({"type": "object", "properties": fields}))
    };
    let (shown, _) = answer(&json!({
        "openapi": "3.0.1", "info": {"title": "Shop", "version": "2.3"},
        "components": {"schemas": (0..200).map(schema).collect::<Map<_, _>>()},
        "paths": (0..120).map(path).collect::<Map<_, _>>(),
    }));
    let paths = shown["summary"]["paths"].as_object().unwrap();
    assert!(paths.len() > 20 && paths.contains_key("/v1/things/0"), "{paths:?}");
    assert_eq!(shown["summary"]["info"]["version"], "2.3");
}

#[test]
fn latest_version_of_a_package_is_shown() {
    let version = |at: usize| {
        let dist = json!({"shasum": format!("{:040x}", at * 7919), "tarball": "https://example.org/x.tgz"});
        let version = json!({"name": "thing", "version": format!("1.{at}.0"), "_nodeVersion": "v6.1", "dist": dist});
        (format!("1.{at}.0"), version)
    };
    let (shown, _) = answer(&json!({
        "_id": "thing", "name": "thing", "description": "A library that does things for streams",
        "versions": (0..120).map(version).collect::<Map<_, _>>(),
        "time": (0..120).map(|at| (format!("1.{at}.0"), json!("2026-01-02T00:00:00Z"))).collect::<Map<_, _>>(),
        "dist-tags": {"latest": "1.119.0"},
        "readme": "Use it. ".repeat(2_000),
    }));
    let summary = &shown["summary"];
    assert_eq!(summary["dist-tags"]["latest"], "1.119.0", "{summary}");
    assert_eq!(summary["description"], "A library that does things for streams", "{summary}");
}

#[test]
fn lists_that_were_cut_do_not_look_empty() {
    let span = |at: usize| {
        let text = "A note on the span, which is long and of little use. ".repeat(8);
        json!({
            "spanID": format!("{at:016x}"), "operationName": format!("call {at}"),
            "references": [{"refType": "CHILD_OF", "note": text}],
            "kinds": ["a", "b"],
        })
    };
    let (shown, _) = answer(&json!({"data": (0..60).map(span).collect::<Vec<_>>()}));
    for span in shown["data"].as_array().unwrap() {
        assert_ne!(span.get("references"), Some(&json!([])), "{span}");
        assert_ne!(span.get("references"), Some(&json!([{}])), "{span}");
        // The mark for one element would be longer than the element.
        assert!(span.get("kinds").is_none_or(|kinds| *kinds == json!(["a", "b"])), "{span}");
    }
}

/// A report of findings in the form of SARIF: a list inside the only element of a list.
fn findings() -> Value {
    let location = |at: usize| json!({"location": {"index": at, "column": at % 7}, "step": at});
    let finding = |at: usize| {
        json!({
            "ruleId": format!("RULE-{}", at % 7),
            "level": if at.is_multiple_of(5) { "error" } else { "note" },
            "message": {"text": format!("The value of variable {at} may be used before it is set on \
                 one of the paths through this function, which leads to wrong results.")},
            "flows": (0..12).map(location).collect::<Vec<_>>(),
        })
    };
    let results: Vec<Value> = (0..200).map(finding).collect();
    json!({"version": "2.1.0", "runs": [{"tool": {"name": "lint"}, "results": results}]})
}

#[test]
fn own_texts_of_records_come_before_values_of_inner_lists() {
    let (shown, meta) = answer(&findings());
    let first = &shown["summary"]["runs"][0]["results"][0];
    let text = first["message"]["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("The value of variable 0"), "{first}\n{meta}");
}

#[test]
fn hashes_outside_of_records_displace_no_texts() {
    let texts = |document: &Value| {
        let (shown, _) = answer(document);
        let results = shown["summary"]["runs"][0]["results"].as_array().unwrap().clone();
        results.iter().filter(|result| !result["message"].is_null()).count()
    };
    let mut document = findings();
    let alone = texts(&document);
    let hashes = (0..15).map(|at: u64| {
        let digits = format!("{:016x}", (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(4);
        (format!("layer{at}"), json!({"blob": digits, "tree": format!("sha256:{digits}")}))
    });
    document["layers"] = Value::Object(hashes.collect());
    let beside_hashes = texts(&document);
    assert!(beside_hashes * 2 >= alone, "{beside_hashes} instead of {alone}");
}

/// Returns recorded requests: no field of theirs is a name or an id.
fn requests() -> Value {
    let request = |at: usize| {
        let headers: Vec<Value> = (0..6)
            .map(|name| json!({"name": format!("x-{name}"), "value": "v".repeat(20)}))
            .collect();
        json!({
            "startedDateTime": format!("2026-01-02T10:00:{:02}.{:03}Z", at % 60, at % 1_000),
            "time": at as f64 * 1.7,
            "request": {
                "method": (["GET", "POST"][at % 2]),
                "url": format!("https://static.example.org/frameworks/{at}/script/module-{at}.js"),
                "httpVersion": "h2", "headers": headers, "headersSize": 300 + at,
            },
            "response": {"status": 200 + at % 2, "headers": headers, "bodySize": at * 37},
        })
    };
    json!({"log": {"version": "1.2", "entries": (0..90).map(request).collect::<Vec<_>>()}})
}

#[test]
fn addresses_identify_records_without_names() {
    let (shown, _) = answer(&requests());
    let entries = shown["log"]["entries"].as_array().unwrap();
    for (at, entry) in entries.iter().enumerate() {
        let url = entry["request"]["url"].as_str().unwrap();
        assert!(url.ends_with(&format!("/module-{at}.js")), "{at}: {url}");
    }
}
