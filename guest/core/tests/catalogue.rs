//! The tool catalogue: lists, search, describe, browse and calls, as a host uses them.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

mod catalogue_host;

use catalogue_host::{META, Reaction, host, tool};
use context_guard_core::policy::compile;
use serde_json::{Value, json};

#[test]
fn short_lists_are_complete() {
    let mut host = host("");
    let names = host.names();
    assert_eq!(names.len(), 6);
    assert_eq!(
        (names[0].as_str(), names[5].as_str()),
        ("weather__get_forecast", "context_guard_read")
    );
}

#[test]
fn long_lists_are_tiered() {
    let mut host = host(r#"{"catalogue": {"pins": ["git::com*"]}}"#).with_many(300);
    let list = host.list();
    let names: Vec<&str> = list.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names[..5], META);
    assert_eq!(names[5], "git__commit");
    // The tool with calls has the best score.
    assert_eq!(names[6], "jira__search");
    assert_eq!((names.len(), *names.last().unwrap()), (19, "context_guard_read"));
    assert_eq!(list[5]["_meta"]["anthropic/alwaysLoad"], true);
    assert_eq!(list[6].get("_meta"), None);
    let cost = context_guard_core::tokens::Estimator::default();
    assert!(cost.price(json!(list).to_string().as_bytes()) <= 3_000);
    assert_eq!(host.list(), list);
}

#[test]
fn deferring_clients_get_full_lists() {
    let mut host = host("").with_many(300);
    host.client = "claude-code".to_owned();
    assert_eq!(host.names().len(), 306);
    // MCP 2026-07-28 forbids lists that depend on the connection.
    host.protocol = "2026-07-28".to_owned();
    assert_eq!(host.names()[..5], META);
    host.protocol = "2025-11-25".to_owned();
    let mut host = host.with_many(300);
    assert_eq!(host.names()[..5], META);
}

#[test]
fn modes_are_settings() {
    assert_eq!(host(r#"{"catalogue": {"mode": "tiered"}}"#).names()[..5], META);
    let mut full = host(r#"{"catalogue": {"mode": "full"}}"#).with_many(300);
    assert_eq!(full.names().len(), 306);
    let mut one = host(r#"{"catalogue": {"mode": "tiered", "callTools": "one", "hot": 0}}"#);
    assert_eq!(one.names(), [META[0], META[1], META[2], META[4], "context_guard_read"]);
}

#[test]
fn names_alone_make_a_tiered_list() {
    // The host has reduced the definitions to names: their size remains that of the full list.
    let mut reduced = host("");
    reduced.definition_facts = json!({"fullBytes": 40_000});
    assert_eq!(reduced.names()[..5], META);
    reduced.definition_facts = json!({"fullBytes": 20_000});
    assert_eq!(reduced.names()[0], "weather__get_forecast");
}

#[test]
fn search_returns_signatures() {
    let mut host = host("");
    let text = host.text(META[0], json!({"queries": ["weather tomorrow in Paris"]}));
    assert_eq!(
        text,
        "query 1: weather tomorrow in Paris\n\
         weather__get_forecast(city:string, days?:int) // Get the weather forecast for a city\n\
         weather__set_alert(city:string, days?:int) // Set a storm alert\n\
         shown 2 of 2"
    );
    // The catalogue is compiled for the first call, and stored.
    assert_eq!(host.lists, 1);
    let text = host.text(META[0], json!({"queries": "search", "limit": 1, "detail": "names"}));
    assert_eq!(
        text,
        "query 1: search\njira__search\nshown 1 of 2; narrow with server= or category="
    );
    let text = host.text(
        META[0],
        json!({"queries": ["search", "storm alert"], "detail": "names",
        "server": "weather"}),
    );
    assert!(
        text.contains("query 1: search\nno match\nquery 2: storm alert\nweather__set_alert"),
        "{text}"
    );
    let text = host.text(
        META[0],
        json!({"queries": ["search", "storm alert"], "detail": "names", "limit": 1}),
    );
    assert!(text.contains("query 2: storm alert\n1 matches, under other"), "{text}");
    assert_eq!(host.lists, 1);
}

#[test]
fn invalid_searches_are_refused() {
    let mut host = host("");
    for (arguments, reason) in [
        (json!({}), "arguments.queries: required, but missing"),
        (json!({"queries": 5}), "arguments.queries: expected string[], got 5"),
        (
            json!({"query": "a", "queries": "a", "limit": "many", "read_only": null}),
            "arguments.limit: expected int, got \"many\"\n\
             arguments.query: unknown parameter (did you mean \"queries\"?)",
        ),
        (json!({"queries": "a", "limit": 1.5}), "arguments.limit: expected int, got 1.5"),
        (json!({"queries": "a", "max_latency_ms": -5}), "max_latency_ms is a number from 0 on"),
        (json!({"queries": []}), "queries must have 1 to 8 texts"),
        (json!({"queries": "a", "limit": 51}), "limit must be from 1 to 50"),
        (
            json!({"queries": "a", "min_success_rate": 0.9}),
            "min_success_rate is a percentage from 1 to 100",
        ),
        (
            json!({"queries": "a", "server": "gti"}),
            "no server \"gti\"; servers: git, jira, weather",
        ),
        (
            json!({"queries": "a", "category": "x"}),
            "no category \"x\"; categories: git, jira, weather",
        ),
    ] {
        assert_eq!(host.text(META[0], arguments), reason);
    }
}

#[test]
fn numbers_have_other_forms() {
    let mut host = host("");
    let expected = host.text(META[0], json!({"queries": "search", "limit": 1}));
    for limit in [json!(1.0), json!("1"), json!("1.0")] {
        let arguments = json!({"queries": "search", "limit": limit, "min_success_rate": null});
        assert_eq!(host.text(META[0], arguments), expected);
    }
    let arguments = json!({"queries": "search", "max_latency_ms": "150.5", "detail": "names"});
    assert!(host.text(META[0], arguments).contains("jira__search"));
    assert_eq!(
        host.text(META[4], json!({"arguments": {"a": 1}, "nam": "x"})),
        "arguments.name: required, but missing\n\
         arguments.nam: unknown parameter (did you mean \"name\"?)"
    );
}

/// Returns a host with a tool whose definition exceeds every budget.
fn host_with_large_tool() -> catalogue_host::Host {
    let mut host = host("");
    let named = |at: usize| (format!("parameter_{at}"), json!({"type": "integer"}));
    let properties: serde_json::Map<String, Value> = (0..1_000).map(named).collect();
    let schema = json!({"type": "object", "properties": properties, "required": ["parameter_7"]});
    host.tools.push(("wide".into(), "huge".into(), tool("wide__huge", "Does all", schema.clone())));
    for at in 0..19 {
        let name = format!("part_{at}");
        let tool = tool(&format!("wide__{name}"), "Does a part", schema.clone());
        host.tools.push(("wide".into(), name, tool));
    }
    host
}

#[test]
fn answers_have_a_budget() {
    let mut host = host_with_large_tool();
    let estimator = context_guard_core::tokens::Estimator::default();
    let calls = [
        (META[0], json!({"queries": "wide::huge"})),
        (META[0], json!({"queries": ["wide::huge", "part 5"], "detail": "full"})),
        (META[2], json!({"server": "wide"})),
        (META[4], json!({"name": "wide__huge", "arguments": {"parameter_7": "x"}})),
    ];
    for (name, arguments) in calls {
        let text = host.text(name, arguments.clone());
        let tokens = estimator.cost(text.as_bytes());
        assert!(tokens <= 4_000, "{name} {arguments}: {tokens}");
        let signature = "wide__huge(parameter_7:int, ";
        assert!(text.contains(signature) && text.contains("…+"), "{name}: {text:.200}");
    }
    let page = host.text(META[2], json!({"server": "wide"}));
    assert!(page.contains("wide__part_18(") && page.ends_with("shown 20 of 20 tools"), "{page}");
}

#[test]
fn wrong_names_do_not_prevent_descriptions() {
    let mut host = host("");
    let reaction = host.call(META[1], json!({"names": ["git__comit", "git__commit", "search"]}));
    let Reaction::Response(response) = reaction else { panic!("a call") };
    let blocks = response["result"]["content"].as_array().unwrap();
    let texts: Vec<&str> = blocks.iter().map(|block| block["text"].as_str().unwrap()).collect();
    assert!(texts[0].contains(r#""name":"git__commit""#), "{texts:?}");
    assert_eq!(
        texts[1..],
        [
            "no tool \"git__comit\"; similar: git__commit",
            "\"search\" is on 2 servers: git__search, jira__search"
        ]
    );
    assert_eq!(response["result"].get("isError"), None);
}

#[test]
fn tool_that_is_listed_twice_is_found() {
    let mut host = host("");
    let twice = host.tools[2].clone();
    host.tools.push(twice);
    assert!(matches!(host.call(META[4], json!({"name": "commit"})), Reaction::Call(_)));
}

#[test]
fn pins_and_read_tool_are_always_loaded() {
    let mut host = host(r#"{"catalogue": {"pins": ["commit"]}}"#);
    let list = host.list();
    let loaded: Vec<&str> = list
        .iter()
        .filter(|tool| tool["_meta"]["anthropic/alwaysLoad"] == true)
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(loaded, ["git__commit", "context_guard_read"]);
    assert_eq!(list.len(), 6);
}

#[test]
fn patterns_without_server_match_all_servers() {
    let mut host = host(r#"{"catalogue": {"hide": ["search", "set_*"], "pins": ["jira::x"]}}"#);
    let names = host.names();
    assert_eq!(names, ["weather__get_forecast", "git__commit", "context_guard_read"]);
    assert_eq!(host.text(META[4], json!({"name": "jira::search"})), "no tool \"jira::search\"");
}

#[test]
fn describe_returns_definitions_verbatim() {
    let mut host = host("");
    let list = host.list();
    let reaction = host.call(META[1], json!({"names": ["git::commit", "get_forecast"]}));
    let Reaction::Response(response) = reaction else { panic!("a call") };
    let texts: Vec<Value> = response["result"]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| serde_json::from_str(block["text"].as_str().unwrap()).unwrap())
        .collect();
    assert_eq!(texts, [list[2].clone(), list[0].clone()]);
    assert_eq!(
        host.text(META[1], json!({"names": ["git__comit"]})),
        "no tool \"git__comit\"; similar: git__commit"
    );
}

#[test]
fn browse_lists_categories_and_tools() {
    let policy = r#"{"catalogue": {"categories": [
        {"name": "code", "order": -1, "match": ["git::*", "jira::*"]}]}}"#;
    let mut host = host(policy);
    assert_eq!(
        host.text(META[2], json!({})),
        "code: 3 tools, 2 servers (jira__search, git__commit)\n\
         weather: 2 tools, 1 server (weather__get_forecast, weather__set_alert)\n\
         shown 2 of 2 categories; list tools with category= or server="
    );
    assert_eq!(
        host.text(META[2], json!({"category": "code", "server": "git"})),
        "git__commit() // Record changes\ngit__search() // Search commits\nshown 2 of 2 tools"
    );
    let mut host = host.with_many(200);
    host.stored.clear();
    let text = host.text(META[2], json!({"server": "store1", "page": 2}));
    assert!(text.ends_with("shown 9 of 29 tools"), "{text}");
    assert_eq!(
        host.text(META[2], json!({"server": "store1", "page": 3})),
        "page 3 does not exist; pages: 1 to 2"
    );
    assert_eq!(
        host.text(META[2], json!({"server": "store1", "page": 0})),
        "page 0 does not exist; pages: 1 to 2"
    );
}

#[test]
fn calls_are_forwarded_as_direct_calls() {
    let mut host = host("");
    for _ in 0..2 {
        let arguments = json!({"name": "weather::get_forecast", "arguments": {"city": "Rome"}});
        let reaction = host.call(META[3], arguments);
        let Reaction::Call(call) = reaction else { panic!("{reaction:?}") };
        assert_eq!(
            call,
            json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params":
                {"name": "weather__get_forecast", "arguments": {"city": "Rome"}}})
        );
    }
    let text = json!({"name": "set_alert", "arguments": "{\"city\":\"Rome\",\"_guard\":\"{}\"}"});
    assert!(matches!(host.call(META[4], text), Reaction::Call(_)));
    assert_eq!(
        host.text(META[3], json!({"name": "set_alert", "arguments": {"city": "Rome"}})),
        "weather__set_alert is not marked read-only: use context_guard_call"
    );
    assert_eq!(
        host.text(META[4], json!({"name": "set_alert", "arguments": {"days": "three"}})),
        "arguments.city: required, but missing\n\
         arguments.days: expected int, got \"three\"\n\
         weather__set_alert(city:string, days?:int) // Set a storm alert"
    );
    assert_eq!(
        host.text(META[4], json!({"name": "search"})),
        "\"search\" is on 2 servers: git__search, jira__search"
    );
}

#[test]
fn hidden_tools_look_unknown() {
    let mut host = host(r#"{"catalogue": {"hide": ["git::*"], "mode": "tiered"}}"#);
    let everything = json!(host.list()).to_string();
    assert!(!everything.contains("git"), "{everything}");
    let (hidden, unknown) = ("git__commit", "gix__commit");
    let one = host.text(META[4], json!({"name": hidden}));
    let other = host.text(META[4], json!({"name": unknown}));
    assert_eq!(one, other.replace(unknown, hidden));
    assert!(!one.contains("similar: git"));
    let Reaction::Response(direct) = host.call(hidden, json!({})) else { panic!("a call") };
    assert_eq!(direct["error"]["code"], -32_602);
    let text = host.text(META[0], json!({"queries": "record changes commit"}));
    assert!(!text.contains("git"), "{text}");
}

#[test]
fn taken_names_have_a_suffix() {
    let mut host = host(r#"{"catalogue": {"mode": "tiered"}}"#);
    let schema = json!({"type": "object"});
    host.tools.push((String::new(), META[4].into(), tool(META[4], "Calls a friend", schema)));
    assert_eq!(host.names()[4], "context_guard_call_2");
    // The name itself is that of the upstream's tool.
    assert!(matches!(host.call(META[4], json!({"friend": "Ann"})), Reaction::Call(_)));
    let text = host.text("context_guard_call_2", json!({"name": "nothing"}));
    assert_eq!(text, "no tool \"nothing\"");
}

#[test]
fn invalid_settings_are_refused() {
    let issues = compile(
        r#"{"catalogue": {"hot": 16, "recomputeSeconds": 60, "synonyms": ["one"], "mode": "tierd"},
            "endpoints": [{"match": "a", "catalogue": {}}]}"#,
    )
    .unwrap_err();
    let paths: Vec<&str> = issues.iter().map(|issue| issue.path.as_str()).collect();
    assert_eq!(paths, ["catalogue", "endpoints[0].catalogue"]);
    let issues = compile(
        r#"{"catalogue": {"hot": 16, "recomputeSeconds": 60, "synonyms": ["one"], "categories":
            [{"name": "a", "match": []}]}}"#,
    )
    .unwrap_err();
    let paths: Vec<&str> = issues.iter().map(|issue| issue.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "catalogue.hot",
            "catalogue.recomputeSeconds",
            "catalogue.synonyms[0]",
            "catalogue.categories[0].match"
        ]
    );
}
