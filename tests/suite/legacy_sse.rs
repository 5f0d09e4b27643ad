//! HTTP+SSE of MCP 2024-11-05: for clients of the gateway, and for its upstreams.

use std::net::TcpListener;
use std::process::Command;

use context_guard_test_support::answer::Answer;
use context_guard_test_support::gateway::{
    ArchiveServer, Gateway, HttpClient, Process, StreamedResponse, get, post,
};
use context_guard_test_support::peers::{self, Server, call};
use context_guard_test_support::scripted::{ScriptedResponse, ScriptedServer};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};

use crate::access::with_two_keys;
use crate::floods::{BLOCKS, MAX_GROWTH, flood, memory, number, stdio};

/// The clients with a transport for HTTP+SSE.
const SSE_CLIENTS: [&str; 2] = ["sdk_v1.mjs", "python_mcp.py"];

/// A request that needs no upstream.
const PING: &str = r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#;

/// The example server of the TypeScript SDK over HTTP+SSE.
struct SseServer {
    _process: Process,
    port: u16,
}

impl SseServer {
    fn start(port: u16) -> Result<Self> {
        let server = Server::npm("server-everything", &["sse"])?;
        let (program, arguments) = server.0.split_first().context("no command")?;
        let mut command = Command::new(program);
        command.args(arguments).env("PORT", port.to_string());
        let process = Process::start(command, false, "running on port")?;
        Ok(Self { _process: process, port })
    }

    /// Starts a server of the Python SDK.
    fn python(port: u16) -> Result<Process> {
        let script = format!(
            "from mcp.server import MCPServer\nserver = MCPServer('python')\n\
             @server.tool()\ndef add(a: int, b: int) -> int:\n    return a + b\n\
             server.run('sse', port={port})\n"
        );
        let mut command = Command::new(artifacts::peers()?.join("py/bin/python"));
        command.args(["-c", &script]);
        Process::start(command, false, "Uvicorn running")
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/sse", self.port)
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn is_echo(answer: &Answer, text: &str) -> bool {
    answer.all_texts().iter().any(|found| found.contains(&format!("Echo: {text}")))
}

#[test]
fn sse_upstream_serves_all_clients() -> Result<()> {
    let server = SseServer::start(free_port()?)?;
    let steps = [
        json!({"op": "call", "name": "echo", "arguments": {"message": "hello"}}),
        json!({"op": "resources"}),
        json!({"op": "prompt", "name": "simple-prompt"}),
    ];
    for transport in ["auto", "sse"] {
        let upstream = json!([{"name": "old", "url": server.url(), "transport": transport}]);
        let gateway = Gateway::start(upstream, json!({}))?;
        let drivers = [
            ("sdk_v1.mjs", "legacy"),
            ("client_v2.mjs", "auto"),
            ("python_mcp.py", "legacy"),
            ("python_mcp.py", "auto"),
        ];
        for (client, mode) in drivers {
            let name = || format!("{client}, {mode}, transport: {transport}");
            let outcomes =
                peers::run_at(client, &gateway.url(), mode, &steps).with_context(name)?;
            let tools = outcomes[0][0].0.to_string();
            ensure!(tools.contains("context_guard_read"), "{}: {tools}", name());
            ensure!(is_echo(&outcomes[1][0], "hello"), "{}: {}", name(), outcomes[1][0].0);
        }
        for client in SSE_CLIENTS {
            let stream = format!("{}/sse", gateway.base);
            let outcomes = peers::run_over_sse(client, &stream, &steps)?;
            ensure!(is_echo(&outcomes[1][0], "hello"), "{client}: {}", outcomes[1][0].0);
        }
    }
    Ok(())
}

#[test]
fn sse_upstreams_are_aggregated_and_reconnected() -> Result<()> {
    let server = SseServer::start(free_port()?)?;
    let port = free_port()?;
    let _python = SseServer::python(port)?;
    let upstreams = json!([
        {"name": "old", "url": server.url()},
        {"name": "python", "url": format!("http://127.0.0.1:{port}/sse")},
        {"name": "houses", "command": [artifacts::property_server()?]},
    ]);
    let gateway = Gateway::start(upstreams, json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    wait_until("the lists of all upstreams", || {
        Ok(client.request("tools/list", json!({}))?.result()["_meta"].is_null())
    })?;
    ensure!(is_echo(&client.call("old__echo", json!({"message": "a"}))?, "a"));
    let sum = client.call("python__add", json!({"a": 40, "b": 2}))?;
    ensure!(sum.all_texts() == ["42"], "{}", sum.0);
    // A request that is in flight when the stream ends fails at once.
    let port = server.port;
    let mut waiting = StreamedResponse::send(
        &gateway.base,
        "POST",
        &[("accept", "application/json, text/event-stream"), ("mcp-session-id", &client.session)],
        r#"{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":{"name":"old__trigger-long-running-operation","arguments":{"duration":100,"steps":1000},"_meta":{"progressToken":1}}}"#,
    )?;
    waiting.read_until("notifications/progress")?;
    drop(server);
    waiting.read_until("The upstream `old` ")?;
    let failed = client.call("old__echo", json!({"message": "b"}))?;
    ensure!(failed.0.to_string().contains("cannot be reached"), "{}", failed.0);
    let _again = SseServer::start(port)?;
    wait_until("the upstream", || {
        Ok(is_echo(&client.call("old__echo", json!({"message": "c"}))?, "c"))
    })?;
    Ok(())
}

/// Returns a server whose event stream begins with `endpoint`, and has the answer to the first
/// request. Then it ends.
fn scripted(endpoint: String) -> Result<ScriptedServer> {
    ScriptedServer::from_fn(move |request| {
        if !request.line.starts_with("GET") {
            return ScriptedResponse::empty(404);
        }
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {
            "protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "1"},
        }});
        let stream = format!("event: endpoint\ndata: {endpoint}\n\ndata: {answer}\n\n");
        ScriptedResponse::with_type("text/event-stream", stream)
    })
}

#[test]
fn messages_are_sent_to_the_origin_of_the_stream_only() -> Result<()> {
    let other = ScriptedServer::start()?;
    let endpoint = format!("http://{}/messages", other.address);
    let server = scripted(endpoint)?;
    let upstream = json!({"name": "old", "url": format!("http://{}/sse", server.address),
        "headers": {"Authorization": "Bearer secret"}, "transport": "sse"});
    let gateway = Gateway::start(json!([upstream]), json!({}))?;
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let opening =
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let opened = post(&gateway.url(), &[], &opening)?;
    ensure!(opened.body.contains("invalid or of another origin"), "{}", opened.body);
    ensure!(other.requests().is_empty(), "{:?}", other.requests());
    Ok(())
}

/// Returns a response with an event stream that begins with `events` and remains open.
fn open_stream(events: String) -> ScriptedResponse {
    let response = ScriptedResponse::with_type("text/event-stream", events);
    ScriptedResponse { sized: false, pause_ms: 600_000, ..response }
}

#[test]
fn sse_upstream_receives_the_headers_of_each_client() -> Result<()> {
    // The URL for messages names the client that opened the stream.
    let server = ScriptedServer::from_fn(|request| {
        if !request.line.starts_with("GET") {
            let is_message = request.line.starts_with("POST /messages");
            return ScriptedResponse::empty(if is_message { 202 } else { 405 });
        }
        let client = request.header("authorization").replace("Bearer ", "");
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {
            "protocolVersion": "2024-11-05", "capabilities": {},
            "serverInfo": {"name": "old", "version": "1"},
        }});
        open_stream(format!("event: endpoint\ndata: /messages?of={client}\n\ndata: {answer}\n\n"))
    })?;
    let url = format!("http://{}/sse", server.address);
    for (treatment, transport) in [("forward", "auto"), ("forward", "sse"), ("drop", "sse")] {
        let before = server.requests().len();
        let upstream = json!({"name": "old", "url": url, "authorization": treatment,
            "transport": transport, "headers": {"x-team": "blue"}});
        let gateway = Gateway::start(json!([upstream]), json!({}))?;
        for client in ["ann", "bob"] {
            let authorization = format!("Bearer {client}");
            let headers = [("authorization", authorization.as_str()), ("x-trace", client)];
            HttpClient::open(&gateway.url(), &headers, json!({}))?;
        }
        let requests = server.requests().split_off(before);
        for client in ["ann", "bob"] {
            let client = if treatment == "forward" { client } else { "" };
            let is_sent = |start: &str| {
                requests.iter().any(|request| {
                    let is_own =
                        request.header("authorization").trim_start_matches("Bearer ") == client;
                    is_own && request.line.starts_with(start) && request.header("x-team") == "blue"
                })
            };
            let message = format!("POST /messages?of={client} ");
            ensure!(is_sent("GET /sse ") && is_sent(&message), "{treatment}: {requests:?}");
        }
        for request in &requests {
            let client = request.header("authorization").trim_start_matches("Bearer ");
            let other = ["ann", "bob"].into_iter().find(|other| *other != client).unwrap_or("ann");
            ensure!(!request.line.contains(&format!("of={other}")), "{request:?}");
        }
    }
    Ok(())
}

#[test]
fn refusal_of_a_streamable_http_server_passes() -> Result<()> {
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
    for events in [format!("data: {notification}\n\n"), ": silence\n\n".to_owned()] {
        let server = ScriptedServer::from_fn(move |request| {
            if request.line.starts_with("GET") {
                return open_stream(events.clone());
            }
            let error = json!({"code": -32602, "message": "the tenant is missing"});
            let answer = json!({"jsonrpc": "2.0", "id": 1, "error": error});
            ScriptedResponse { status: 400, ..ScriptedResponse::json(answer.to_string()) }
        })?;
        let url = format!("http://{}/mcp", server.address);
        let gateway = Gateway::start(json!([{"name": "new", "url": url}]), json!({}))?;
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let opening = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
            .to_string();
        let refused = post(&gateway.url(), &[], &opening)?;
        ensure!(refused.body.contains("the tenant is missing"), "{}", refused.body);
    }
    Ok(())
}

#[test]
fn url_of_no_mcp_server_is_reported() -> Result<()> {
    let server = ScriptedServer::from_fn(|_| ScriptedResponse::empty(404))?;
    let upstreams = json!([
        {"name": "none", "url": format!("http://{}/sse", server.address)},
        {"name": "houses", "command": [artifacts::property_server()?]},
    ]);
    let gateway = Gateway::start(upstreams, json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let failed = client.call("none__echo", json!({}))?;
    let text = failed.0.to_string();
    ensure!(text.contains("neither Streamable HTTP nor HTTP+SSE"), "{text}");
    Ok(())
}

#[test]
fn sse_clients_get_shaped_answers() -> Result<()> {
    let archive = ArchiveServer::start(false)?;
    let one = Gateway::start(json!([{"name": "archive", "url": archive.url}]), json!({}))?;
    let many = Gateway::start(
        json!([{"name": "archive", "url": archive.url}, {"name": "houses", "command": [artifacts::property_server()?]}]),
        json!({}),
    )?;
    for (gateway, tool) in [(&one, "list_bookings"), (&many, "archive__list_bookings")] {
        for client in SSE_CLIENTS {
            let steps = [call(tool, json!({}))];
            let url = format!("{}/sse", gateway.base);
            let outcomes = peers::run_over_sse(client, &url, &steps)?;
            let walk = &outcomes[1];
            let pages: Vec<Value> = walk.iter().map(Answer::json).collect::<Result<_>>()?;
            let items = pages.iter().filter_map(|page| page["bookings"].as_array());
            let count: usize = items.map(Vec::len).sum();
            ensure!(walk.len() > 5 && count == 500, "{client}, {tool}: {count}");
            ensure!(walk.iter().all(|answer| answer.tokens() <= 4_000), "{client}, {tool}");
        }
    }
    Ok(())
}

/// A client of the HTTP+SSE transport without an SDK.
struct SseClient {
    stream: StreamedResponse,
    url: String,
}

impl SseClient {
    fn open(gateway: &Gateway, headers: &[(&str, &str)]) -> Result<Self> {
        let all = [&[("accept", "text/event-stream")], headers].concat();
        let mut stream = StreamedResponse::send_to(&gateway.base, "/sse", "GET", &all, "")?;
        let endpoint = stream.read_data("sessionId=")?;
        ensure!(endpoint.starts_with("/messages?sessionId="), "{endpoint}");
        Ok(Self { stream, url: format!("{}{endpoint}", gateway.base) })
    }

    fn initialize(&mut self, headers: &[(&str, &str)]) -> Result<Value> {
        let params = json!({"protocolVersion": "2024-11-05", "capabilities": {"sampling": {}}, "clientInfo": {"name": "t", "version": "1"}});
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        ensure!(post(&self.url, headers, &message.to_string())?.status == 202);
        let answer = self.stream.read_data("\"id\":0")?;
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        ensure!(post(&self.url, headers, ready)?.status == 202);
        Ok(serde_json::from_str(&answer)?)
    }
}

fn houses() -> Result<Value> {
    Ok(json!([{"name": "houses", "command": [artifacts::property_server()?]}]))
}

#[test]
fn sse_session_belongs_to_its_principal() -> Result<()> {
    let (gateway, [ann, bob]) = with_two_keys("sse-keys", houses()?, json!({}))?;
    let (as_ann, as_bob) = ([("authorization", ann.as_str())], [("authorization", bob.as_str())]);
    ensure!(get(&format!("{}/sse", gateway.base), &[])?.status == 401);
    let mut client = SseClient::open(&gateway, &as_ann)?;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    // A session begins with initialize.
    ensure!(post(&client.url, &as_ann, list)?.status == 400);
    let opened = client.initialize(&as_ann)?;
    ensure!(opened["result"]["protocolVersion"] == "2024-11-05", "{opened}");
    ensure!(post(&client.url, &[], list)?.status == 401);
    ensure!(post(&client.url, &as_bob, list)?.status == 404);
    let unknown = format!("{}/messages?sessionId=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", gateway.base);
    ensure!(post(&unknown, &as_ann, list)?.status == 404);
    ensure!(post(&client.url, &as_ann, "not json")?.status == 400);
    ensure!(post(&client.url, &as_ann, &format!("[{list}]"))?.status == 400);
    for (name, value) in [("origin", "https://evil.example"), ("host", "evil.example")] {
        let headers = [as_ann[0], (name, value)];
        ensure!(post(&client.url, &headers, list)?.status == 403, "{name}");
        ensure!(get(&format!("{}/sse", gateway.base), &headers)?.status == 403, "{name}");
    }
    ensure!(get(&client.url, &as_ann)?.status == 405);
    ensure!(post(&client.url, &as_ann, list)?.status == 202);
    let listed = client.stream.read_data("\"id\":1")?;
    ensure!(listed.contains("context_guard_read"), "{listed}");
    // The session ends with its stream.
    let url = client.url.clone();
    drop(client);
    wait_until("the end of the session", || Ok(post(&url, &as_ann, list)?.status == 404))?;
    Ok(())
}

#[test]
fn sse_streams_of_one_principal_do_not_end_those_of_another() -> Result<()> {
    let limits = json!({"sessions": 8});
    let (gateway, [ann, bob]) = with_two_keys("sse-shares", houses()?, limits)?;
    let (as_ann, as_bob) = ([("authorization", ann.as_str())], [("authorization", bob.as_str())]);
    let mut of_ann = SseClient::open(&gateway, &as_ann)?;
    of_ann.initialize(&as_ann)?;
    let open = |_| SseClient::open(&gateway, &as_bob);
    let of_bob = (0..12).map(open).collect::<Result<Vec<_>>>()?;
    ensure!(post(&of_ann.url, &as_ann, PING)?.status == 202, "the session of ann ended");
    // A message without a session is refused with 400. Bob has a quarter, but at least 4.
    let statuses = of_bob.iter().map(|client| Ok(post(&client.url, &as_bob, PING)?.status));
    let statuses = statuses.collect::<Result<Vec<_>>>()?;
    ensure!(statuses == [[404; 8].as_slice(), &[400; 4]].concat(), "{statuses:?}");
    Ok(())
}

#[test]
fn calls_of_an_sse_session_have_its_share() -> Result<()> {
    let upstream = stdio(json!({"isolation": "shared", "limits": {"timeoutSeconds": 600}}));
    let gateway = Gateway::start(json!([upstream]), json!({"limits": {"concurrency": 8}}))?;
    let mut client = SseClient::open(&gateway, &[])?;
    client.initialize(&[])?;
    let mut other = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let path = client.url.trim_start_matches(&gateway.base).to_owned();
    let mut waiting = Vec::new();
    for id in 1..=6 {
        let params = json!({"name": "hang", "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let call = call.to_string();
        waiting.push(StreamedResponse::send_to(&gateway.base, &path, "POST", &[], &call)?);
    }
    // A session has a quarter of the places, but at least 4.
    wait_until("calls in flight", || Ok(number(&mut other, "hanging")? >= 4))?;
    ensure!(number(&mut other, "hanging")? == 4);
    drop(client);
    wait_until("cancelled calls", || Ok(number(&mut other, "cancelled")? >= 4))?;
    ensure!(number(&mut other, "hanging")? == 4, "a call of an ended session was sent");
    Ok(())
}

#[test]
fn sse_client_that_does_not_read_loses_notifications_only() -> Result<()> {
    let gateway = Gateway::start(json!([stdio(json!({"isolation": "shared"}))]), json!({}))?;
    let mut client = SseClient::open(&gateway, &[])?;
    client.initialize(&[])?;
    let mut other = HttpClient::open(&gateway.url(), &[], json!({}))?;
    ensure!(number(&mut other, "flooded")? == 0);
    let before = memory(&gateway)?;
    ensure!(post(&client.url, &[], &flood(1, json!({})).to_string())?.status == 202);
    wait_until("a flood", || Ok(number(&mut other, "flooded")? >= BLOCKS))?;
    let growth = memory(&gateway)?.saturating_sub(before);
    ensure!(growth < MAX_GROWTH, "memory grew by {growth} kB");
    ensure!(post(&client.url, &[], PING)?.status == 202);
    client.stream.read_data("\"id\":\"ping\"")?;
    Ok(())
}

#[test]
fn sse_client_answers_questions() -> Result<()> {
    let everything = Server::npm("server-everything", &["stdio"])?.0;
    let upstreams = json!([{"name": "everything", "command": everything}]);
    let gateway = Gateway::start(upstreams, json!({"limits": {"concurrency": 2}}))?;
    let mut client = SseClient::open(&gateway, &[])?;
    client.initialize(&[])?;
    let call = |id: u64, name: &str, arguments: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments, "_meta": {"progressToken": id}}}).to_string()
    };
    let sampling = call(1, "trigger-sampling-request", json!({"prompt": "p", "maxTokens": 5}));
    ensure!(post(&client.url, &[], &sampling)?.status == 202);
    let question: Value =
        serde_json::from_str(&client.stream.read_data("sampling/createMessage")?)?;
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "sampled text"}}});
    ensure!(question["id"].is_string(), "{question}");
    ensure!(post(&client.url, &[], &answer.to_string())?.status == 202);
    let answered = client.stream.read_data("sampled text")?;
    ensure!(answered.contains("\"id\":1"), "{answered}");
    Ok(())
}

#[test]
fn api_with_messages_of_its_own_keeps_its_path() -> Result<()> {
    let api = ScriptedServer::from_fn(|request| ScriptedResponse::json(request.line.clone()))?;
    let gateway = Gateway::start(
        json!([
            {"name": "houses", "command": [artifacts::property_server()?]},
            {"name": "api", "rest": {"url": format!("http://{}", api.address)}},
        ]),
        json!({"policy": {"catalogue": {"httpPrefix": null}}}),
    )?;
    let reply = get(&format!("{}/messages?limit=5&box=in", gateway.base), &[])?;
    ensure!(reply.status == 200 && reply.body.contains("GET /messages"), "{}", reply.body);
    Ok(())
}
