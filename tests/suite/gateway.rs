//! Eight real servers behind one gateway, used by real clients of both protocol modes.

use std::collections::BTreeSet;

use context_guard_test_support::faulty_server::faulty_script;
use context_guard_test_support::gateway::{
    ConformanceServer, Gateway, HttpClient, StreamedResponse, get, post, signal,
};
use context_guard_test_support::peers::{self, Server};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};

/// Returns the servers as upstreams, and the folder that they serve.
fn servers() -> Result<(Value, std::path::PathBuf)> {
    let folder = peers::folder(
        &format!("gateway-{:?}", std::thread::current().id()).replace(['(', ')'], ""),
    )?;
    let files = folder.join("files");
    std::fs::create_dir_all(&files)?;
    let log: String = (0..20_000)
        .map(|at| format!("2026-03-01T00:00:{:02}Z INFO booking {at} synchronised\n", at % 60))
        .collect();
    std::fs::write(files.join("server.log"), log)?;
    let repository = folder.join("repository");
    std::fs::create_dir_all(&repository)?;
    peers::git(&repository, &["init", "-q", "-b", "main"])?;
    std::fs::write(repository.join("a.txt"), "one\n")?;
    peers::git(&repository, &["add", "."])?;
    peers::git(&repository, &["commit", "-q", "-m", "The first"])?;
    let path = |path: &std::path::Path| path.display().to_string();
    let upstream = |name: &str, server: Server| json!({"name": name, "command": server.0});
    let mut memory = upstream("memory", Server::npm("server-memory", &[])?);
    memory["env"] = json!({"MEMORY_FILE_PATH": path(&folder.join("memory.jsonl"))});
    let upstreams = json!([
        upstream("files", Server::npm("server-filesystem", &[&path(&files)])?),
        memory,
        upstream("everything", Server::npm("server-everything", &["stdio"])?),
        upstream("thinking", Server::npm("server-sequential-thinking", &[])?),
        upstream(
            "git",
            Server::python("py", "mcp-server-git", &["--repository", &path(&repository)])?
        ),
        upstream("time", Server::python("py", "mcp-server-time", &["--local-timezone", "UTC"])?),
        upstream("fetch", Server::python("py", "mcp-server-fetch", &[])?),
        upstream(
            "db",
            Server::python(
                "py-sqlite",
                "mcp-server-sqlite",
                &["--db-path", &path(&folder.join("db.sqlite"))]
            )?
        ),
    ]);
    Ok((upstreams, folder))
}

const NAMES: [&str; 8] =
    ["files", "memory", "everything", "thinking", "git", "time", "fetch", "db"];

#[test]
fn eight_servers_appear_as_one() -> Result<()> {
    let (upstreams, folder) = servers()?;
    let full = json!({"policy": {"catalogue": {"mode": "full"}}});
    let gateway = Gateway::start(upstreams, full)?;
    // Eight servers may take longer to start than a client waits for a first list.
    let mut first = HttpClient::open(&gateway.url(), &[], json!({}))?;
    wait_until("lists of all servers", || {
        Ok(first.request("tools/list", json!({}))?.result()["_meta"].is_null())
    })?;
    let log = folder.join("files/server.log").display().to_string();
    let repository = folder.join("repository").display().to_string();
    let steps = [
        json!({"op": "call", "name": "files__read_text_file", "arguments": {"path": log}, "walk": true}),
        json!({"op": "call", "name": "git__git_log", "arguments": {"repo_path": repository}}),
        json!({"op": "call", "name": "time__get_current_time", "arguments": {"timezone": "Europe/Paris"}}),
        json!({"op": "call", "name": "memory__read_graph", "arguments": {}}),
        json!({"op": "call", "name": "everything__echo", "arguments": {"message": "hello"}}),
        json!({"op": "call", "name": "db__list_tables", "arguments": {}}),
        json!({"op": "call", "name": "thinking__sequentialthinking", "arguments": {"thought": "x", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1}}),
        json!({"op": "resources"}),
        json!({"op": "prompts"}),
        json!({"op": "prompt", "name": "everything__simple-prompt"}),
    ];
    let drivers = [
        ("sdk_v1.mjs", "legacy"),
        ("client_v2.mjs", "legacy"),
        ("client_v2.mjs", "auto"),
        ("python_mcp.py", "legacy"),
        ("python_mcp.py", "auto"),
        ("python_mcp.py", "2026-07-28"),
    ];
    for (client, mode) in drivers {
        let outcomes = peers::run_at(client, &gateway.url(), mode, &steps)
            .with_context(|| format!("{client}, {mode}"))?;
        let (list, answers) = outcomes.split_first().context("no list of tools")?;
        let tools: Vec<String> = list
            .iter()
            .flat_map(|list| list.result()["tools"].as_array().cloned().unwrap_or_default())
            .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
            .collect();
        for name in NAMES {
            ensure!(
                tools.iter().any(|tool| tool.starts_with(&format!("{name}__"))),
                "{client}, {mode}: {name} is missing in {tools:?}"
            );
        }
        let order: Vec<&str> = tools
            .iter()
            .filter_map(|tool| tool.split_once("__"))
            .map(|(server, _)| server)
            .collect();
        let mut distinct = order.clone();
        distinct.dedup();
        ensure!(distinct == NAMES, "{client}, {mode}: {distinct:?}");
        ensure!(tools.last().is_some_and(|tool| tool == "context_guard_read"), "{tools:?}");
        for answer in answers.iter().take(7).flatten() {
            ensure!(!answer.is_error(), "{client}, {mode}: {:?}", answer.all_texts());
            ensure!(answer.tokens() <= 4_000, "{client}, {mode}: {} tokens", answer.tokens());
        }
        let walk = answers.first().context("no walk")?;
        let read: String =
            walk.iter().flat_map(context_guard_test_support::answer::Answer::texts).collect();
        ensure!(
            walk.len() > 5 && read == std::fs::read_to_string(&log)?,
            "{client}, {mode}: {} parts",
            walk.len()
        );
        let resources = answers.get(7).and_then(|found| found.first()).context("no resources")?;
        let uris = resources.result()["resources"].as_array().map_or(0, Vec::len);
        ensure!(uris >= 5, "{client}, {mode}: {}", resources.0);
        let prompts = answers.get(8).and_then(|found| found.first()).context("no prompts")?;
        ensure!(prompts.0.to_string().contains("everything__simple-prompt"), "{}", prompts.0);
    }
    Ok(())
}

#[test]
fn mcporter_and_inspector_work() -> Result<()> {
    let upstreams = json!([
        {"name": "houses", "command": [artifacts::property_server()?]},
        {"name": "time", "command": Server::python("py", "mcp-server-time", &["--local-timezone", "UTC"])?.0},
    ]);
    let gateway = Gateway::start(upstreams, json!({}))?;
    let printed = peers::mcporter(&gateway.url(), "time__get_current_time", &["timezone=UTC"])?;
    ensure!(printed.contains("UTC"), "{printed}");
    let listed = peers::inspect_at(&gateway.url(), "tools/list", &[])?;
    ensure!(listed.contains("houses__") && listed.contains("context_guard_read"), "{listed}");
    Ok(())
}

/// Returns the names of the tools on all pages of the list of two equal servers, `b` and `a`, and
/// the client that read them. `settings` are those of the gateway.
fn merged_names(settings: Value) -> Result<(Vec<String>, HttpClient, Gateway)> {
    let houses = |name: &str| -> Result<Value> {
        Ok(json!({"name": name, "command": [artifacts::property_server()?]}))
    };
    let gateway = Gateway::start(json!([houses("b")?, houses("a")?]), settings)?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let (mut names, mut params) = (Vec::new(), json!({}));
    loop {
        let page = client.request("tools/list", params)?;
        let tools = page.result()["tools"].as_array().cloned().unwrap_or_default();
        names.extend(tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)));
        match page.result()["nextCursor"].as_str() {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    let guard = names.iter().filter(|name| *name == "context_guard_read").count();
    ensure!(guard == 1, "{names:?}");
    names.retain(|name| name != "context_guard_read");
    Ok((names, client, gateway))
}

#[test]
fn merged_list_is_in_the_order_of_the_servers() -> Result<()> {
    let settings = json!({"policy": {"catalogue": {"mode": "full"}}});
    let (names, _client, _gateway) = merged_names(settings)?;
    let of_b = names.iter().take_while(|name| name.starts_with("b__")).count();
    let (first, rest) = names.split_at(of_b);
    let as_a: Vec<String> = first.iter().map(|name| name.replacen("b__", "a__", 1)).collect();
    ensure!(of_b > 0 && as_a == rest, "{names:?}");
    Ok(())
}

#[test]
fn merged_list_is_paged() -> Result<()> {
    let settings = json!({"listPage": 3, "policy": {"catalogue": {"mode": "full"}}});
    let (mut names, mut client, gateway) = merged_names(settings)?;
    // A client that is known to read page 1 alone gets all tools on it.
    let headers = [("X-Context-Guard-Client", "cline")];
    let mut other = HttpClient::open(&gateway.url(), &headers, json!({}))?;
    let page = other.request("tools/list", json!({}))?;
    let listed = page.result()["tools"].as_array().map_or(0, Vec::len);
    ensure!(page.result()["nextCursor"].is_null() && listed == names.len() + 1, "{}", page.0);
    // For others, it starts with the tools to find the rest.
    ensure!(names.iter().take(5).all(|name| name.starts_with("context_guard_")), "{names:?}");
    names.drain(..5);
    let (of_b, of_a): (Vec<_>, Vec<_>) = names.iter().partition(|name| name.starts_with("b__"));
    let tools = |names: Vec<&String>| -> BTreeSet<String> {
        names.into_iter().filter_map(|name| Some(name.split_once("__")?.1.to_owned())).collect()
    };
    let (of_b, of_a) = (tools(of_b), tools(of_a));
    ensure!(!of_a.is_empty() && of_a == of_b && of_a.len() * 2 == names.len(), "{names:?}");
    let wrong = client.request("tools/list", json!({"cursor": "nonsense"}))?;
    ensure!(wrong.0["error"]["code"] == -32602, "{}", wrong.0);
    Ok(())
}

#[test]
fn cursor_of_an_inner_guard_is_read() -> Result<()> {
    let houses = artifacts::property_server()?;
    let program = artifacts::program()?;
    // The inner guard cuts answers to less than the outer one.
    let folder = peers::folder("inner-guard")?;
    let policy = folder.join("policy.yaml");
    std::fs::write(&policy, "tokenBudgetThreshold: 1500\n")?;
    let wrapped = json!([program, "wrap", "--policy", policy, "--", houses]);
    let upstreams = json!([
        {"name": "inner", "command": wrapped},
        {"name": "plain", "command": [houses]},
    ]);
    // Both guards compile their component at the start, so that the list of tools arrives late.
    let cache = folder.display().to_string();
    let gateway = Gateway::start_with(upstreams, json!({}), &[("XDG_CACHE_HOME", &cache)])?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let mut answer = client.call("inner__list_bookings", json!({"limit": 50}))?;
    let mut found = Vec::new();
    loop {
        let page: Value = serde_json::from_str(&answer.texts().concat())?;
        found.extend(page["bookings"].as_array().cloned().context("no bookings")?);
        let Some(cursor) = answer.next_cursor() else { break };
        answer = client.call("context_guard_read", json!({"cursor": cursor}))?;
        ensure!(answer.0["result"]["isError"] != true, "{}", answer.0);
    }
    ensure!(found.len() == 500 && found[499]["id"] == "BK-0499", "{}", found.len());
    let wrong = client.call("context_guard_read", json!({"cursor": "e30.e30"}))?;
    ensure!(wrong.0.to_string().contains("cursor_invalid"), "{}", wrong.0);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

#[test]
fn same_tool_name_on_two_servers() -> Result<()> {
    let houses = json!([artifacts::property_server()?]);
    let upstreams = json!([{"name": "one", "command": houses}, {"name": "two", "command": houses}]);
    let gateway = Gateway::start(upstreams, json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let first = client.call("one__list_bookings", json!({"limit": 5}))?;
    let cursor = first.next_cursor().with_context(|| first.0.to_string())?;
    let next = client.call("context_guard_read", json!({"cursor": cursor}))?;
    ensure!(!next.is_error() && next.next_cursor().is_some(), "{}", next.0);
    // A cursor is valid only for the tool that issued it.
    let other = client.call("two__list_bookings", json!({"cursor": cursor}))?;
    ensure!(
        other.is_error() && other.all_texts().join("").contains("cursor_invalid"),
        "{}",
        other.0
    );
    let records = gateway.get_admin("/admin/telemetry?endpoint=one::*")?.1;
    let records: Value = serde_json::from_str(&records)?;
    ensure!(records["records"][0]["endpoint"] == "one::list_bookings", "{records}");
    ensure!(records["records"][0]["paginationUsed"] == true, "{records}");
    ensure!(gateway.get_admin("/admin/telemetry?outcome=fault")?.1 == r#"{"records":[]}"#);
    ensure!(gateway.get_admin("/admin/telemetry?colour=red")?.0 == 400);
    Ok(())
}

#[test]
fn streams_resume_and_sessions_end() -> Result<()> {
    let gateway = Gateway::start(
        json!([context_guard_test_support::gateway::ConformanceServer::stdio(
            "fixture",
            json!({})
        )?]),
        json!({}),
    )?;
    let client = HttpClient::open(&gateway.url(), &[], json!({"sampling": {}}))?;
    let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": "p"}}});
    let reply = client.send(&call)?;
    let ids: Vec<&str> = reply.body.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    ensure!(ids.len() == 5, "{}", reply.body);
    // The connection broke after the first progress event. The server resends the later events
    // once.
    let session = client.session.as_str();
    let headers =
        [("mcp-session-id", session), ("accept", "text/event-stream"), ("last-event-id", ids[1])];
    let again = get(&gateway.url(), &headers)?;
    let messages = again.messages()?;
    ensure!(messages.len() == 3 && messages[2]["id"] == 5, "{}", again.body);
    ensure!(messages[0]["params"]["progressToken"] == "p", "{}", again.body);
    let mut request = context_guard_test_support::gateway::agent().delete(gateway.url());
    request = request.header("mcp-session-id", session);
    ensure!(request.call()?.status() == 200);
    ensure!(client.send(&call)?.status == 404);
    Ok(())
}

#[test]
fn shutdown_waits_for_requests() -> Result<()> {
    let gateway = Gateway::start(
        json!([{"name": "faulty", "command": ["node", faulty_script(), "--stdio"]}]),
        json!({}),
    )?;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "slow", "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 1,
    }}});
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "slow"),
        ("accept", "application/json, text/event-stream"),
    ];
    let mut response = StreamedResponse::send(&gateway.base, "POST", &headers, &call.to_string())?;
    response.read_until("notifications/progress")?;
    signal(gateway.process.pid(), "TERM")?;
    let whole = response.read_to_end()?;
    ensure!(whole.contains("at last"), "{whole}");
    Ok(())
}

#[test]
fn tasks_work_through_the_gateway() -> Result<()> {
    let upstreams = json!([
        {"name": "houses", "command": [artifacts::property_server()?]},
        {"name": "everything", "command": Server::npm("server-everything", &["stdio"])?.0},
    ]);
    let gateway = Gateway::start(upstreams, json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({"tasks": {}}))?;
    let params = json!({"name": "everything__simulate-research-query", "arguments": {"topic": "rivers"}, "task": {"ttl": 60_000}});
    let created = client.request("tools/call", params)?;
    let task = created.result()["task"]["taskId"]
        .as_str()
        .with_context(|| created.0.to_string())?
        .to_owned();
    wait_until("a completed task", || {
        let state = client.request("tasks/get", json!({"taskId": task}))?;
        Ok(state.result()["status"] == "completed")
    })?;
    let result = client.request("tasks/result", json!({"taskId": task}))?;
    ensure!(!result.is_error() && result.all_texts().join("").contains("rivers"), "{}", result.0);
    let unknown = client.request("tasks/get", json!({"taskId": "somebody-elses"}))?;
    ensure!(unknown.0["error"]["code"] == -32602, "{}", unknown.0);
    Ok(())
}

#[test]
fn idle_streams_do_not_delay_shutdown() -> Result<()> {
    let mut gateway = Gateway::start(
        json!([{"name": "houses", "command": [artifacts::property_server()?]}]),
        json!({}),
    )?;
    let client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let headers = [("accept", "text/event-stream"), ("mcp-session-id", client.session.as_str())];
    let mut stream = StreamedResponse::send(&gateway.base, "GET", &headers, "")?;
    stream.read_until("200 OK")?;
    let code = gateway.process.stop()?;
    stream.read_to_end()?;
    // A stream that counts as a request in flight is reported after limits.drainSeconds.
    let log = gateway.process.wait_for_output(&["stopping:"])?;
    ensure!(code == Some(0) && !log.contains("still in flight"), "{code:?}\n{log}");
    Ok(())
}

#[test]
fn unknown_protocol_version_is_refused() -> Result<()> {
    let gateway = Gateway::start(
        json!([{"name": "houses", "command": [artifacts::property_server()?]}]),
        json!({}),
    )?;
    let client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for (version, status) in [("2025-06-18", 200), ("1999-01-01", 400), ("latest", 400)] {
        let headers = [("mcp-session-id", &*client.session), ("mcp-protocol-version", version)];
        let reply = post(&gateway.url(), &headers, list)?;
        ensure!(reply.status == status, "{version}: {} {}", reply.status, reply.body);
    }
    Ok(())
}

#[test]
fn tool_parameters_are_repeated_in_headers() -> Result<()> {
    let server = ConformanceServer::start_in_mode("modern")?;
    let upstreams = json!([
        {"name": "houses", "command": [artifacts::property_server()?]},
        {"name": "fixture", "url": server.url},
    ]);
    let gateway = Gateway::start(upstreams, json!({}))?;
    let arguments = json!({"region": "eu", "query": "q"});
    let mut stateful = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let answer = stateful.call("fixture__test_x_mcp_header", arguments.clone())?;
    ensure!(!answer.is_error() && answer.0.to_string().contains("region"), "{}", answer.0);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "fixture__test_x_mcp_header", "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    // The second client must not inherit the header of the first.
    for (region, status) in [(Some("eu"), 200), (Some("us"), 400), (None, 400), (Some("eu"), 200)] {
        let mut headers = vec![
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "fixture__test_x_mcp_header"),
        ];
        headers.extend(region.map(|region| ("mcp-param-region", region)));
        let reply = post(&gateway.url(), &headers, &call.to_string())?;
        ensure!(reply.status == status, "{region:?}: {} {}", reply.status, reply.body);
        let code = reply.answer()?.0["error"]["code"].as_i64();
        ensure!(code == (status == 400).then_some(-32020), "{region:?}: {}", reply.body);
    }
    Ok(())
}

/// Returns an upstream named `late` that starts when the file `go` exists in the folder, and then
/// adds a line to the file `started`.
fn waiting(folder: &std::path::Path) -> Result<Value> {
    let server = artifacts::property_server()?.display().to_string();
    let script = format!(
        "cd '{}'; until [ -e go ]; do sleep 0.05; done; echo yes >> started; exec '{server}'",
        folder.display()
    );
    Ok(json!({"name": "late", "command": ["sh", "-c", script]}))
}

#[test]
fn late_server_is_announced() -> Result<()> {
    let folder = peers::folder("late")?;
    let go = folder.join("go");
    let well = json!({"name": "well", "command": [artifacts::property_server()?]});
    let gateway = Gateway::start(json!([well, waiting(&folder)?]), json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let list = client.request("tools/list", json!({}))?;
    ensure!(list.0.to_string().contains("well__list_bookings"), "{}", list.0);
    let missing = &list.result()["_meta"]["dev.context-guard/upstreams"]["unavailable"];
    ensure!(missing[0]["name"] == "late", "{}", list.0);
    let headers = [("accept", "text/event-stream"), ("mcp-session-id", client.session.as_str())];
    let mut stream = StreamedResponse::send(&gateway.base, "GET", &headers, "")?;
    std::fs::write(&go, "")?;
    stream.read_until("notifications/tools/list_changed")?;
    let list = client.request("tools/list", json!({}))?;
    ensure!(list.0.to_string().contains("late__list_bookings"), "{}", list.0);
    wait_until("the gateway's own process and that of the session", || {
        Ok(std::fs::read_to_string(folder.join("started"))?.lines().count() == 2)
    })?;
    // The process of a second session does not start, but the list is known.
    std::fs::remove_file(&go)?;
    let mut second = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let list = second.request("tools/list", json!({}))?;
    ensure!(list.0.to_string().contains("late__list_bookings"), "{}", list.0);
    ensure!(list.result()["_meta"].is_null(), "{}", list.0);
    // A client with other capabilities sees what the gateway itself has read.
    let mut third = HttpClient::open(&gateway.url(), &[], json!({"sampling": {}}))?;
    wait_until("the list that the gateway has read", || {
        let list = third.request("tools/list", json!({}))?;
        Ok(list.0.to_string().contains("late__list_bookings"))
    })?;
    Ok(())
}

#[test]
fn lists_are_known_after_a_restart() -> Result<()> {
    let folder = peers::folder("restart")?;
    let go = folder.join("go");
    std::fs::write(&go, "")?;
    let well = json!({"name": "well", "command": [artifacts::property_server()?]});
    let gateway = Gateway::start(json!([well, waiting(&folder)?]), json!({}))?;
    wait_until("the lists that the gateway reads for itself", || {
        let (_, body) = gateway.get_admin("/admin/v1/catalogue/servers")?;
        Ok(body.matches("tool_count").count() == 2)
    })?;
    // The server does not start again, but its list is known.
    std::fs::remove_file(&go)?;
    let gateway = gateway.restart()?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let list = client.request("tools/list", json!({}))?;
    ensure!(list.0.to_string().contains("late__list_bookings"), "{}", list.0);
    ensure!(list.result()["_meta"].is_null(), "{}", list.0);
    Ok(())
}

#[test]
fn late_server_is_announced_to_stateless_subscribers() -> Result<()> {
    let folder = peers::folder("late-stateless")?;
    let go = folder.join("go");
    let well = json!({"name": "well", "command": [artifacts::property_server()?]});
    let gateway = Gateway::start(json!([well, waiting(&folder)?]), json!({}))?;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let request = |method: &str, mut params: Value| {
        params["_meta"] = meta.clone();
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
    };
    let headers = |method| {
        [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
            ("accept", "application/json, text/event-stream"),
        ]
    };
    let list = || -> Result<String> {
        let body = request("tools/list", json!({}));
        Ok(post(&gateway.url(), &headers("tools/list"), &body)?.body)
    };
    let first = list()?;
    ensure!(first.contains("well__list_bookings") && !first.contains("late__"), "{first}");
    let method = "subscriptions/listen";
    let body = request(method, json!({"notifications": {"toolsListChanged": true}}));
    let mut stream = StreamedResponse::send(&gateway.base, "POST", &headers(method), &body)?;
    stream.read_until("acknowledged")?;
    std::fs::write(&go, "")?;
    stream.read_until("notifications/tools/list_changed")?;
    let second = list()?;
    ensure!(second.contains("late__list_bookings"), "{second}");
    Ok(())
}

#[test]
fn capabilities_of_a_late_server_are_declared() -> Result<()> {
    let folder = peers::folder("capabilities")?;
    let well = json!({"name": "well", "command": [artifacts::property_server()?]});
    let gateway = Gateway::start(json!([well, waiting(&folder)?]), json!({}))?;
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }});
    let answer = post(&gateway.url(), &[], &initialize.to_string())?.answer()?;
    let capabilities = &answer.result()["capabilities"];
    for name in ["tools", "prompts", "resources"] {
        ensure!(capabilities[name]["listChanged"] == true, "{name}: {capabilities}");
    }
    Ok(())
}
