//! The HTTP routes of the tool catalogue.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

mod catalogue_host;

use catalogue_host::{Host, Reaction, host};
use serde_json::{Value, json};

/// Returns status and body of an HTTP route.
fn route(host: &mut Host, path: &str, query: &[(&str, &str)]) -> (u64, Value) {
    let segments: Vec<&str> = path.split('/').collect();
    let params = json!({"prefix": "/api/v1/tools", "segments": segments, "query": query});
    let request =
        json!({"jsonrpc": "2.0", "id": 1, "method": "context-guard/catalogue", "params": params});
    match host.send(&request) {
        Reaction::Response(response) => {
            let result = &response["result"];
            (result["status"].as_u64().unwrap(), result["body"].clone())
        }
        Reaction::Call(call) => panic!("a call: {call}"),
    }
}

#[test]
fn routes_return_tiers() {
    let mut host = host("");
    let (status, hot) = route(&mut host, "hot", &[]);
    assert_eq!((status, hot["tier"].as_str()), (200, Some("hot")));
    assert_eq!(
        hot["tools"][0],
        json!({"tool": "jira::search", "server": "jira", "description": "Search tickets",
            "params": [], "avg_latency": "120ms", "success_rate": "97.5%"})
    );
    assert_eq!(hot["tools"].as_array().unwrap().len(), 5);
    let (_, categories) = route(&mut host, "categories", &[]);
    assert_eq!(
        categories["categories"][1],
        json!({"category": "jira", "display_name": "jira", "tool_count": 1, "server_count": 1,
            "popular_tools": ["jira::search"]})
    );
    let (_, page) = route(&mut host, "category/weather", &[("page_size", "1")]);
    assert_eq!(
        page,
        json!({"tier": "tool_summaries", "filter": "category=weather", "tools": [
            {"tool": "weather::get_forecast", "server": "weather",
            "description": "Get the weather forecast for a city",
            "params": {"city": "string (required)", "days": "integer (optional)"}}],
            "pagination": {"page": 1, "page_size": 1, "total_count": 2, "total_pages": 2}})
    );
    let (_, full) = route(&mut host, "jira/search", &[]);
    assert_eq!(full["performance"]["total_invocations"], 400);
    assert_eq!(full["parameters"], json!({"type": "object"}));
    assert_eq!(route(&mut host, "servers/jira/search", &[]).1, full);
    let (_, found) = route(&mut host, "search", &[("q", "storm alert"), ("limit", "1")]);
    assert_eq!(found["tools"][0]["tool"], "weather::set_alert");
    assert!(found["tools"][0]["score"].as_f64().unwrap() > 0.5);
    let (_, servers) = route(&mut host, "servers", &[]);
    assert_eq!(servers["servers"][1], json!({"server": "git", "tool_count": 2}));
}

#[test]
fn routes_report_errors() {
    let mut host = host("");
    for (path, query, status, code, detail) in [
        (
            "git/comit",
            ("", ""),
            404,
            "tool_not_found",
            "no tool \"git::comit\"; similar: git__commit",
        ),
        (
            "category/x",
            ("", ""),
            404,
            "category_not_found",
            "no category \"x\"; categories: git, jira, weather",
        ),
        ("hot", ("max_tokens", "9000"), 400, "bad_request", "max_tokens must be from 100 to 6000"),
        (
            "category/git",
            ("page_size", "51"),
            400,
            "bad_request",
            "page_size exceeds maximum of 50",
        ),
        (
            "search",
            ("detail", "all"),
            400,
            "bad_request",
            "detail is names, summary, signature or full",
        ),
        (
            "search",
            ("min_score", "0.5"),
            400,
            "bad_request",
            "min_score needs q: tools have scores of a search only",
        ),
        ("search", ("min_score", "-1"), 400, "bad_request", "min_score is a number from 0 on"),
        ("overview", ("x", "1"), 400, "bad_request", "unknown parameter \"x\"; known: none"),
        (
            "search",
            ("server", "nope"),
            404,
            "server_not_found",
            "no server \"nope\"; servers: git, jira, weather",
        ),
        (
            "search",
            ("category", "nope"),
            404,
            "category_not_found",
            "no category \"nope\"; categories: git, jira, weather",
        ),
        ("search", ("page", "0"), 400, "bad_request", "page is a number from 1 on"),
        ("search", ("page_size", "0"), 400, "bad_request", "page_size must be from 1 to 50"),
        ("search", ("limit", "0"), 400, "bad_request", "limit is a number from 1 on"),
        (
            "search",
            ("max_latency_ms", "NaN"),
            400,
            "bad_request",
            "max_latency_ms is a number from 0 on",
        ),
        (
            "search",
            ("max_latency_ms", "-5"),
            400,
            "bad_request",
            "max_latency_ms is a number from 0 on",
        ),
    ] {
        let query = [query];
        let query = if query[0].0.is_empty() { &[][..] } else { &query };
        let (found, body) = route(&mut host, path, query);
        assert_eq!((found, &body["code"], &body["detail"]), (status, &json!(code), &json!(detail)));
    }
}

#[test]
fn search_returns_the_asked_detail() {
    let mut host = host("");
    let mut found = |detail: &str| {
        let query = [("q", "storm alert"), ("limit", "1"), ("detail", detail)];
        let (status, body) = route(&mut host, "search", &query);
        assert_eq!((status, body["filter"].as_str().is_some()), (200, true), "{body}");
        body["tools"][0].clone()
    };
    let names = found("names");
    let mut members: Vec<&str> = names.as_object().unwrap().keys().map(String::as_str).collect();
    members.sort_unstable();
    assert_eq!(members, ["score", "server", "tool"]);
    assert_eq!(names["tool"], "weather::set_alert");
    assert!(found("summary")["params"].is_object());
    let signature = found("signature");
    let text = signature["signature"].as_str().unwrap();
    assert!(text.starts_with("weather__set_alert("), "{text}");
    let full = found("full");
    assert_eq!(full["definition"]["name"], "weather__set_alert");
    assert!(full["definition"]["inputSchema"].is_object());
    assert_eq!(full["score"], names["score"]);
}

#[test]
fn search_has_a_minimum_score() {
    let mut host = host("").with_many(20);
    let mut scores = |min_score: &str| -> Vec<f64> {
        let query = [("q", "widget number 3"), ("min_score", min_score)];
        let (_, body) = route(&mut host, "search", &query);
        let tools = body["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["score"].as_f64().unwrap()).collect()
    };
    let all = scores("0");
    let least = all[0] - 0.001;
    let best = scores(&least.to_string());
    assert!(!best.is_empty() && best.len() < all.len(), "{all:?}, {best:?}");
    assert!(best.iter().all(|score| *score >= least - 0.001), "{best:?}");
    assert!(scores("9").is_empty());
}

/// Follows the links of a route from an offset of 0, each body within `tokens`. Returns the items
/// of all bodies, named by their member `name`.
fn follow(host: &mut Host, path: &str, list: &str, name: &str, size: &str) -> Vec<String> {
    const TOKENS: u64 = 600;
    let (mut offset, mut seen) = ("0".to_owned(), Vec::new());
    for _ in 0..100 {
        let tokens = TOKENS.to_string();
        let mut query = vec![("max_tokens", tokens.as_str()), ("offset", offset.as_str())];
        query.extend((!size.is_empty()).then_some(("page_size", size)));
        let (_, body) = route(host, path, &query);
        let items = body[list].as_array().unwrap();
        seen.extend(items.iter().map(|item| item[name].as_str().unwrap().to_owned()));
        let cost = context_guard_core::tokens::Estimator::default();
        assert!(cost.price(body.to_string().as_bytes()) <= TOKENS, "{body}");
        let Some(next) = body["budget"]["next"].as_str() else { break };
        offset = next.rsplit_once("offset=").unwrap().1.to_owned();
    }
    seen
}

#[test]
fn cut_pages_lead_to_every_tool() {
    // With small pages, only some bodies are cut by their budget.
    for size in ["50", "3"] {
        let mut seen = follow(&mut host("").with_many(140), "search", "tools", "tool", size);
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 145);
    }
}

#[test]
fn cut_hot_tools_and_servers_have_a_next_part() {
    let mut host = host(r#"{"catalogue": {"pins": ["git::*"], "hot": 12}}"#).with_many(140);
    let (_, whole) = route(&mut host, "hot", &[("max_tokens", "6000")]);
    assert_eq!((whole["tools"].as_array().unwrap().len(), whole.get("budget")), (14, None));
    assert_eq!(follow(&mut host, "hot", "tools", "tool", "").len(), 14);
    let (_, cut) = route(&mut host, "hot", &[("max_tokens", "200")]);
    assert!(cut["budget"]["next"].as_str().unwrap().contains("offset="), "{cut}");
    let (_, servers) = route(&mut host, "servers", &[]);
    assert_eq!((servers["servers"].as_array().unwrap().len(), servers.get("budget")), (10, None));
    assert_eq!(follow(&mut host, "servers", "servers", "server", "").len(), 10);
}

#[test]
fn large_tools_are_shortened() {
    let mut host = host("");
    let named = |at: usize| (format!("parameter_{at}"), json!({"type": "integer"}));
    let properties: serde_json::Map<String, Value> = (0..3_000).map(named).collect();
    let schema = json!({"type": "object", "properties": properties});
    let huge = catalogue_host::tool("huge", "Does all", schema);
    host.tools.push(("wide".into(), "huge".into(), huge));
    let cost = context_guard_core::tokens::Estimator::default();
    for detail in ["summary", "signature", "full"] {
        let query = [("q", "wide::huge"), ("limit", "1"), ("detail", detail)];
        let (_, body) = route(&mut host, "search", &query);
        assert!(cost.price(body.to_string().as_bytes()) <= 4_000, "{detail}");
        let tool = body["tools"][0].to_string();
        assert!(tool.contains("parameter_1") && tool.contains('…'), "{tool}");
    }
    let (_, hot) = route(&mut host, "hot", &[]);
    assert!(cost.price(hot.to_string().as_bytes()) <= 2_000);
    let (status, problem) = route(&mut host, "wide/huge", &[]);
    assert_eq!((status, &problem["code"]), (422, &json!("definition_too_large")));
    assert!(problem["detail"].as_str().unwrap().contains("hardCap, which is 12000"), "{problem}");
}
