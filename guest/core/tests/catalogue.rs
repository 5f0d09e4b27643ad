//! The tool catalogue: lists, search, describe, browse and calls, as a host uses them.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

use context_guard_core::policy::compile;
use context_guard_core::snapshot::Keys;
use context_guard_core::snapshot::stored::Loaded;
use context_guard_core::{Context, Guard, Plan};
use serde_json::{Value, json};

/// A host with one catalogue.
struct Host {
    guard: Guard,
    stored: Loaded,
    tools: Vec<(String, String, Value)>,
    client: String,
    protocol: String,
    /// The number of merged lists that the guard asked for.
    lists: usize,
}

/// The reaction to a request: a response, or a call to make instead.
#[derive(Debug)]
enum Reaction {
    Response(Value),
    Call(Value),
}

impl Reaction {
    fn text(self) -> String {
        match self {
            Self::Response(response) => {
                response["result"]["content"][0]["text"].as_str().unwrap().to_owned()
            }
            Self::Call(call) => panic!("a call: {call}"),
        }
    }
}

fn tool(name: &str, description: &str, schema: Value) -> Value {
    json!({"name": name, "description": description, "inputSchema": schema})
}

fn host(policy: &str) -> Host {
    let city = json!({"type": "object", "properties": {"city": {"type": "string"}, "days":
        {"type": "integer"}}, "required": ["city"]});
    let mut tools = vec![
        ("weather", tool("get_forecast", "Get the weather forecast for a city", city.clone())),
        ("weather", tool("set_alert", "Set a storm alert", city)),
        ("git", tool("commit", "Record changes", json!({"type": "object"}))),
        ("git", tool("search", "Search commits", json!({"type": "object"}))),
        ("jira", tool("search", "Search tickets", json!({"type": "object"}))),
    ];
    tools[0].1["annotations"] = json!({"readOnlyHint": true});
    let own = tools.into_iter().map(|(server, tool)| {
        let name = tool["name"].as_str().unwrap().to_owned();
        (server.to_owned(), name, tool)
    });
    Host {
        guard: Guard::new(
            compile(policy).unwrap_or_else(|issues| panic!("{issues:?}")).policy,
            Keys::new([b"0123456789abcdef".as_slice()]).unwrap(),
        ),
        stored: Loaded::new(),
        tools: own.collect(),
        client: String::new(),
        protocol: "2025-11-25".to_owned(),
        lists: 0,
    }
}

impl Host {
    /// Adds tools, so that the full list is long.
    fn with_many(mut self, count: usize) -> Self {
        for at in 0..count {
            let schema = json!({"type": "object", "properties": {"value": {"type": "string",
                "description": "A long enough description of a value, to make the list long"}}});
            let name = format!("tool_{at}");
            let tool = tool(&name, &format!("Processes widget number {at} of the store"), schema);
            self.tools.push((format!("store{}", at % 7), name, tool));
        }
        self.tools.sort_by(|left, right| left.0.cmp(&right.0));
        self
    }

    fn context(&self) -> Context<'_> {
        Context {
            principal: "ann",
            client_name: &self.client,
            protocol_version: &self.protocol,
            catalogue_version: "v1",
            ..Context::default()
        }
    }

    fn merged(&self, id: &Value) -> Vec<u8> {
        let mut servers: Vec<Value> = Vec::new();
        let mut listed = Vec::new();
        for (server, name, tool) in &self.tools {
            match servers.last_mut().filter(|last| last["name"] == **server) {
                Some(last) => last["tools"].as_array_mut().unwrap().push(json!(name)),
                None => servers.push(json!({"name": server, "tools": [name]})),
            }
            let mut tool = tool.clone();
            // Without a server, a tool keeps its name.
            let wire_name = format!("{server}__{name}");
            tool["name"] = json!(wire_name.strip_prefix("__").unwrap_or(&wire_name));
            listed.push(tool);
        }
        let facts = json!({"servers": servers, "pageSize": 1000, "usage": {
            "jira::search": {"total": 400, "success": 390, "average_ms": 120.0, "uses_7d": 90,
            "uses_30d": 400}}});
        json!({"jsonrpc": "2.0", "id": id, "result": {"tools": listed,
            "_meta": {"dev.context-guard/catalogue": facts}}})
        .to_string()
        .into_bytes()
    }

    fn send(&mut self, request: &Value) -> Reaction {
        let message = request.to_string().into_bytes();
        let mut loaded = Loaded::new();
        let (reply, entries) = loop {
            let plan = self.guard.on_request(&self.context(), &message, &loaded, 0).unwrap();
            match plan {
                Plan::Load(keys) => {
                    for key in keys {
                        let value = self.stored.get(&key).cloned().flatten();
                        assert!(loaded.insert(key, value).is_none(), "a key is loaded once");
                    }
                }
                Plan::Answer { message, entries, .. } => break (message, entries),
                Plan::Forward { message: Some(call), ticket } if ticket.is_empty() => {
                    return Reaction::Call(serde_json::from_slice(&call).unwrap());
                }
                Plan::Forward { ticket, .. } => {
                    self.lists += 1;
                    let merged = self.merged(&request["id"]);
                    let context = self.context();
                    let shaped = self.guard.on_response(&context, &ticket, &merged, 0).unwrap();
                    let entries = shaped.entries.into_iter().map(|entry| entry.into_owned());
                    let entries = entries.collect();
                    break (shaped.message.unwrap(), entries);
                }
            }
        };
        for entry in entries {
            self.stored.insert(entry.key, Some(entry.value.into_owned()));
        }
        let reply: Value = serde_json::from_slice(&reply).unwrap();
        assert_eq!(reply["id"], request["id"]);
        match &reply["result"]["_meta"]["dev.context-guard/catalogue"]["call"] {
            Value::Null => Reaction::Response(reply),
            call => Reaction::Call(json!({"jsonrpc": "2.0", "id": reply["id"],
                "method": "tools/call", "params": call})),
        }
    }

    fn list(&mut self) -> Vec<Value> {
        match self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})) {
            Reaction::Response(response) => response["result"]["tools"].as_array().unwrap().clone(),
            Reaction::Call(call) => panic!("a call: {call}"),
        }
    }

    fn names(&mut self) -> Vec<String> {
        self.list().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    fn call(&mut self, name: &str, arguments: Value) -> Reaction {
        self.send(&json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call",
            "params": {"name": name, "arguments": arguments}}))
    }

    fn text(&mut self, name: &str, arguments: Value) -> String {
        self.call(name, arguments).text()
    }
}

const META: [&str; 5] = [
    "context_guard_search_tools",
    "context_guard_describe_tools",
    "context_guard_browse_tools",
    "context_guard_call_read",
    "context_guard_call",
];

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
    assert_eq!(host.lists, 1);
}

#[test]
fn invalid_searches_are_refused() {
    let mut host = host("");
    for (arguments, reason) in [
        (json!({}), "invalid arguments: missing field `queries`"),
        (json!({"queries": []}), "queries must have 1 to 8 texts"),
        (json!({"queries": "a", "limit": 51}), "limit must be from 1 to 50"),
        (
            json!({"queries": "a", "min_success_rate": 0.9}),
            "min_success_rate is a percentage from 1 to 100",
        ),
        (
            json!({"queries": "a", "server": "gti"}),
            "no server \"gti\"; similar: git, jira, weather",
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
        ("servers", ("x", "1"), 400, "bad_request", "unknown parameter \"x\"; known: "),
    ] {
        let query = [query];
        let query = if query[0].0.is_empty() { &[][..] } else { &query };
        let (found, body) = route(&mut host, path, query);
        assert_eq!((found, &body["code"], &body["detail"]), (status, &json!(code), &json!(detail)));
    }
}

#[test]
fn cut_pages_lead_to_every_tool() {
    let mut host = host("").with_many(140);
    let mut offset = "0".to_owned();
    let mut seen = Vec::new();
    for _ in 0..100 {
        let query = [("page_size", "50"), ("max_tokens", "600"), ("offset", offset.as_str())];
        let (_, body) = route(&mut host, "search", &query);
        let tools = body["tools"].as_array().unwrap();
        seen.extend(tools.iter().map(|tool| tool["tool"].as_str().unwrap().to_owned()));
        let cost = context_guard_core::tokens::Estimator::default();
        assert!(cost.price(body.to_string().as_bytes()) <= 600);
        let Some(next) = body["budget"]["next"].as_str() else { break };
        offset = next.rsplit_once("offset=").unwrap().1.to_owned();
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 145);
}
