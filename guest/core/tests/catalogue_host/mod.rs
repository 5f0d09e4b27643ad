//! A host with one tool catalogue, for tests.
#![allow(dead_code, reason = "no test uses all of it")]

use context_guard_core::policy::compile;
use context_guard_core::snapshot::Keys;
use context_guard_core::snapshot::stored::Loaded;
use context_guard_core::{Context, Guard, Plan};
use serde_json::{Value, json};

/// A host with one catalogue.
pub(crate) struct Host {
    pub(crate) guard: Guard,
    pub(crate) stored: Loaded,
    pub(crate) tools: Vec<(String, String, Value)>,
    pub(crate) client: String,
    pub(crate) protocol: String,
    /// The number of merged lists that the guard asked for.
    pub(crate) lists: usize,
    /// Facts about definitions, which the host adds to the merged list.
    pub(crate) definition_facts: Value,
}

/// The reaction to a request: a response, or a call to make instead.
#[derive(Debug)]
pub(crate) enum Reaction {
    Response(Value),
    Call(Value),
}

impl Reaction {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Response(response) => {
                response["result"]["content"][0]["text"].as_str().unwrap().to_owned()
            }
            Self::Call(call) => panic!("a call: {call}"),
        }
    }
}

pub(crate) fn tool(name: &str, description: &str, schema: Value) -> Value {
    json!({"name": name, "description": description, "inputSchema": schema})
}

pub(crate) fn host(policy: &str) -> Host {
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
        definition_facts: json!({}),
    }
}

impl Host {
    /// Adds tools, so that the full list is long.
    pub(crate) fn with_many(mut self, count: usize) -> Self {
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

    pub(crate) fn context(&self) -> Context<'_> {
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
        let mut facts = json!({"servers": servers, "pageSize": 1000, "usage": {
            "jira::search": {"total": 400, "success": 390, "average_ms": 120.0, "uses_7d": 90,
            "uses_30d": 400}}});
        for (name, value) in self.definition_facts.as_object().unwrap() {
            facts[name] = value.clone();
        }
        json!({"jsonrpc": "2.0", "id": id, "result": {"tools": listed,
            "_meta": {"dev.context-guard/catalogue": facts}}})
        .to_string()
        .into_bytes()
    }

    pub(crate) fn send(&mut self, request: &Value) -> Reaction {
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
                Plan::Forward { message: Some(call), ticket, .. } if ticket.is_empty() => {
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

    pub(crate) fn list(&mut self) -> Vec<Value> {
        match self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})) {
            Reaction::Response(response) => response["result"]["tools"].as_array().unwrap().clone(),
            Reaction::Call(call) => panic!("a call: {call}"),
        }
    }

    pub(crate) fn names(&mut self) -> Vec<String> {
        self.list().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn call(&mut self, name: &str, arguments: Value) -> Reaction {
        self.send(&json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call",
            "params": {"name": name, "arguments": arguments}}))
    }

    pub(crate) fn text(&mut self, name: &str, arguments: Value) -> String {
        self.call(name, arguments).text()
    }
}

pub(crate) const META: [&str; 5] = [
    "context_guard_search_tools",
    "context_guard_describe_tools",
    "context_guard_browse_tools",
    "context_guard_call_read",
    "context_guard_call",
];
