//! The guard as a service for other gateways: in a real Envoy by `ext_proc`, and for a client of
//! agentgateway's `ext_mcp`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use context_guard_test_support::answer::Answer;
use context_guard_test_support::certificates::{Authority, Certificate};
use context_guard_test_support::envoy::Envoy;
use context_guard_test_support::external::{
    Bodies, ExternalGuard, McpPolicyClient, ProcessedListener, envoy_with,
};
use context_guard_test_support::gateway::{ArchiveServer, StreamedResponse, get, post, signal};
use context_guard_test_support::grpc::ext_mcp::{
    McpHeader, McpRequest, McpResponse, mcp_request_result, mcp_response_result,
};
use context_guard_test_support::grpc::{Struct, Value as ProtoValue, value};
use context_guard_test_support::peers::{CLIENTS, call, folder, run_at};
use context_guard_test_support::scripted::{ReceivedRequest, ScriptedResponse, ScriptedServer};
use context_guard_test_support::wait::{wait_for, wait_until};
use context_guard_test_support::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::envoy::{ask, lists, request};

const ALL_BODIES: [Bodies; 2] = [Bodies::FullDuplex, Bodies::OnDemand];

/// Starts Envoy before an upstream, with a guard.
fn before(
    upstream: SocketAddr,
    bodies: Bodies,
    config: Value,
) -> Result<(ExternalGuard, Envoy, String)> {
    let guard = ExternalGuard::start("ext-proc", config)?;
    let envoy = envoy_with(&[ProcessedListener::new(upstream, guard.address, bodies)])?;
    let url = envoy.url(0)?;
    Ok((guard, envoy, url))
}

fn ids(answer: &Answer) -> Result<Vec<u64>> {
    let json = answer.json()?;
    let list = if json.is_array() { &json } else { &json["items"] };
    Ok(list.as_array().context("no list")?.iter().filter_map(|item| item["id"].as_u64()).collect())
}

/// Calls the guard's own tool.
fn read(url: &str, cursor: &str, headers: &[(&str, &str)]) -> Result<Answer> {
    let params = json!({"name": "context_guard_read", "arguments": {"cursor": cursor}});
    let read = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params});
    post(&format!("{url}/mcp"), headers, &read.to_string())?.answer()
}

#[test]
fn pages_of_any_answer_lead_to_its_end() -> Result<()> {
    let server = lists()?;
    for bodies in ALL_BODIES {
        let (_guard, envoy, url) = before(server.address, bodies, json!({}))?;
        for way in ["whole", "chunks", "events"] {
            for count in [2_000_u64, 130_000] {
                let mut page = ask(&url, 1, &json!({"count": count, "mark": way, "as": way}))?;
                ensure!(page.metadata()["meta"]["totalCount"] == count, "{bodies:?} {way}");
                server.requests().clear();
                let mut shown = ids(&page)?;
                // All pages of the longer list would take minutes.
                while let Some(cursor) = page.next_cursor().filter(|_| shown.len() < 2_000) {
                    page = read(&url, &cursor, &[])?;
                    ensure!(page.tokens() <= 4_000, "{bodies:?} {way}: {}", page.0);
                    shown.extend(ids(&page)?);
                }
                let expected: Vec<u64> = (0..shown.len() as u64).collect();
                ensure!(shown == expected && shown.len() >= 2_000, "{bodies:?} {way}: {shown:?}");
                ensure!(server.requests().is_empty(), "the upstream received a read");
            }
            let answer = ask(&url, 2, &json!({"count": 300_000, "mark": way, "as": way}))?;
            ensure!(answer.is_error() && answer.0.to_string().contains("maxBody"), "{}", answer.0);
        }
        envoy.is_alive()?;
    }
    Ok(())
}

#[test]
fn answers_that_fit_are_byte_identical() -> Result<()> {
    let server = ScriptedServer::start()?;
    let json = "{ \"jsonrpc\": \"2.0\",\"id\":1 , \"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\\u0041 1.0e1\"}]}}\n";
    let events = format!(": hello\r\nid: 7\r\n\r\nevent: message\r\ndata: {}\r\n\r\n", json.trim());
    for bodies in ALL_BODIES {
        let (_guard, envoy, url) = before(server.address, bodies, json!({}))?;
        for (kind, body) in [("application/json", json), ("text/event-stream", &*events)] {
            for response in [
                ScriptedResponse::with_type(kind, body),
                ScriptedResponse::with_type(kind, body).chunked(20),
            ] {
                server.push(response.with("mcp-session-id", "s1"));
                let sent = self::request(1, &json!({"text": "ü"}));
                server.requests().clear();
                let reply = post(&format!("{url}/mcp"), &[("accept-encoding", "gzip")], &sent)?;
                ensure!(reply.body == body, "{bodies:?} {kind}: {:?}", reply.body);
                ensure!(reply.header("content-type") == kind);
                ensure!(reply.header("mcp-session-id") == "s1");
                let received = server.requests()[0].clone();
                ensure!(received.body == sent.as_bytes() && received.line.contains("POST /mcp "));
                ensure!(received.header("accept-encoding").is_empty());
            }
        }
        // Other traffic passes, in both directions and of any kind.
        let long = "x".repeat(3_000_000);
        server.push(ScriptedResponse::with_type("text/plain", long.clone()).chunked(90_000));
        let reply = get(&format!("{url}/other"), &[])?;
        ensure!(reply.status == 200 && reply.body == long, "{bodies:?}: {}", reply.body.len());
        server.push(ScriptedResponse::empty(202));
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let reply = post(&format!("{url}/mcp"), &[], note)?;
        ensure!(reply.status == 202 && reply.body.is_empty(), "{}", reply.body);
        envoy.is_alive()?;
    }
    Ok(())
}

#[test]
fn sdk_clients_list_call_and_page() -> Result<()> {
    for bodies in ALL_BODIES {
        let server = ArchiveServer::start(false)?;
        let (guard, _envoy, url) = before(server.address()?, bodies, json!({}))?;
        let url = format!("{url}/mcp");
        let steps = [
            call("list_bookings", json!({"limit": 200})),
            call("read_log", json!({})),
            json!({"op": "call", "name": "get_booking", "arguments": {"id": "BK-0007"}}),
        ];
        for client in CLIENTS {
            let outcomes = run_at(client, &url, "legacy", &steps)
                .and_then(|_| run_at(client, &url, "auto", &steps))
                .with_context(|| format!("{bodies:?}: {}", guard.process.output()))?;
            let tools = outcomes[0][0].0.to_string();
            ensure!(tools.contains("context_guard_read"), "{client}: {tools}");
            for answer in outcomes[1..].iter().flatten() {
                ensure!(!answer.is_error() && answer.tokens() <= 4_000, "{client}: {}", answer.0);
            }
            let bookings: usize = outcomes[1]
                .iter()
                .filter_map(|page| page.json().ok()?["bookings"].as_array().map(Vec::len))
                .sum();
            ensure!(bookings == 500 && outcomes[1].len() > 2, "{client}: {bookings} bookings");
            let log: String = outcomes[2].iter().flat_map(Answer::texts).collect();
            ensure!(log.lines().count() == 10_000, "{client}: {} lines", log.lines().count());
        }
    }
    Ok(())
}

#[test]
fn cursors_belong_to_their_caller() -> Result<()> {
    let server = lists()?;
    for bodies in ALL_BODIES {
        let (_guard, _envoy, url) = before(server.address, bodies, json!({}))?;
        let sent = self::request(1, &json!({"count": 900, "mark": 1}));
        let first =
            post(&format!("{url}/mcp"), &[("authorization", "Bearer a")], &sent)?.answer()?;
        let cursor = first.next_cursor().context("no cursor")?;
        let other = read(&url, &cursor, &[("authorization", "Bearer b")])?;
        ensure!(other.is_error() && !other.0.to_string().contains("record"), "{}", other.0);
        let own = read(&url, &cursor, &[("authorization", "Bearer a")])?;
        ensure!(ids(&own)?.first() == Some(&(ids(&first)?.len() as u64)), "{}", own.0);
    }
    Ok(())
}

#[test]
fn answers_of_apis_have_links() -> Result<()> {
    let server = ScriptedServer::from_fn(|request: &ReceivedRequest| {
        let all: Vec<Value> = (0..3_000).map(|id| json!({"id": id, "name": "record"})).collect();
        match request.line.contains("/v1/") {
            true => ScriptedResponse::json(Value::Array(all).to_string()).with("etag", "\"1\""),
            false => ScriptedResponse::json("[]"),
        }
    })?;
    for bodies in ALL_BODIES {
        let config = json!({"external": {"listen": "127.0.0.1:0", "apis": [{"path": "/v1/*"}]}});
        let (_guard, envoy, url) = before(server.address, bodies, config)?;
        server.requests().clear();
        let reply = get(&format!("{url}/v1/list?limit=3&own=1"), &[("if-none-match", "\"1\"")])?;
        ensure!(reply.status == 200 && reply.header("link").contains("cursor="), "{bodies:?}");
        ensure!(reply.header("etag").is_empty(), "{}", reply.header("etag"));
        let page: Value = serde_json::from_str(&reply.body)?;
        ensure!(page["items"].as_array().is_some_and(|items| items.len() == 3), "{page}");
        let received = server.requests()[0].clone();
        ensure!(received.line.starts_with("GET /v1/list?own=1 "), "{}", received.line);
        ensure!(received.header("if-none-match").is_empty());
        let next = page["nextCursor"].as_str().context("no cursor")?;
        let reply = get(&format!("{url}/v1/list?cursor={next}"), &[])?;
        let next: Value = serde_json::from_str(&reply.body)?;
        ensure!(next["items"][0]["id"] == 3, "{}", reply.body);
        envoy.is_alive()?;
    }
    Ok(())
}

#[test]
fn failure_mode_decides_what_a_killed_guard_means() -> Result<()> {
    let server = lists()?;
    let slow = ScriptedServer::start()?;
    for bodies in ALL_BODIES {
        let guard = ExternalGuard::start("ext-proc", json!({}))?;
        let closed = ProcessedListener::new(server.address, guard.address, bodies);
        let open = ProcessedListener {
            failure_mode_allow: true,
            ..ProcessedListener::new(server.address, guard.address, bodies)
        };
        let in_flight = ProcessedListener {
            failure_mode_allow: true,
            ..ProcessedListener::new(slow.address, guard.address, bodies)
        };
        let envoy = envoy_with(&[closed, open, in_flight])?;
        let (closed, open) = (envoy.url(0)?, envoy.url(1)?);
        let arguments = json!({"count": 900, "mark": 1});
        for url in [&closed, &open] {
            ensure!(!ask(url, 1, &arguments)?.metadata().is_null());
        }
        // A response whose first half the guard has, when it is killed.
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{}"}}]}}}}"#,
            "word ".repeat(40_000)
        );
        let (first, second) = body.as_bytes().split_at(100_000);
        let chunks = vec![first.to_vec(), second.to_vec()];
        let answer = ScriptedResponse::json(body.clone());
        slow.push(ScriptedResponse { chunks, sized: true, pause_ms: 2_000, ..answer });
        let sent = self::request(1, &json!({}));
        let headers = [("content-type", "application/json"), ("connection", "close")];
        let pending = StreamedResponse::send(&envoy.url(2)?, "POST", &headers, &sent)?;
        wait_until("the request at the upstream", || Ok(!slow.requests().is_empty()))?;
        // The head of the response and, if bodies are streamed, a part of it.
        let messages = if matches!(bodies, Bodies::OnDemand) { 3 } else { 5 };
        wait_until("the response at the guard", || {
            Ok(envoy.stat("listener-2.ext_proc.stream_msgs_sent")? >= messages)
        })?;
        signal(guard.process.pid(), "KILL")?;
        let received = pending.read_to_end();
        let is_whole = received.as_ref().is_ok_and(|received| received.contains("word \"}]}}"));
        // Envoy still has a body that it buffers for the guard, but no head of a stream.
        match bodies {
            Bodies::OnDemand => ensure!(is_whole, "{received:?}"),
            _ => ensure!(received.is_ok_and(|received| received.starts_with("HTTP/1.1 500 "))),
        }
        let refused = post(&format!("{closed}/mcp"), &[], &self::request(1, &arguments))?;
        ensure!(refused.status == 500, "{bodies:?}: {} {}", refused.status, refused.body);
        let unguarded = post(&format!("{open}/mcp"), &[], &self::request(1, &arguments))?;
        match bodies {
            Bodies::OnDemand => {
                let unguarded = unguarded.answer()?;
                ensure!(unguarded.metadata().is_null() && ids(&unguarded)?.len() == 900);
            }
            // Unless Envoy knows that the guard is away, it sends the body to it, and does not have
            // it any more.
            _ if unguarded.status == 500 => {}
            _ => ensure!(ids(&unguarded.answer()?)?.len() == 900),
        }
        // The next process serves the same Envoy.
        let address = guard.address.to_string();
        drop(guard);
        let again = json!({"external": {"listen": address}});
        let _guard = ExternalGuard::start("ext-proc", again)?;
        wait_until("guarded answers", || {
            Ok(ask(&closed, 1, &arguments).is_ok_and(|answer| !answer.metadata().is_null()))
        })?;
        envoy.is_alive()?;
    }
    Ok(())
}

#[test]
fn envoy_connects_with_a_certificate() -> Result<()> {
    let server = lists()?;
    let authority = Authority::create(folder("external-tls")?.join("ca"))?;
    let Certificate { cert, key } = authority.issue_server()?;
    let tls = json!({"cert": cert, "key": key, "clientCa": authority.file()});
    let guard = ExternalGuard::start("ext-proc", json!({"tls": tls}))?;
    let own = authority.issue("envoy", "/CN=envoy", "")?;
    let plain = || ProcessedListener::new(server.address, guard.address, Bodies::OnDemand);
    let encrypted = ProcessedListener { tls: Some((authority.file(), own)), ..plain() };
    let envoy = envoy_with(&[encrypted, plain()])?;
    let arguments = json!({"count": 900, "mark": 1});
    ensure!(!ask(&envoy.url(0)?, 1, &arguments)?.metadata().is_null());
    let refused = post(&format!("{}/mcp", envoy.url(1)?), &[], &request(1, &arguments))?;
    ensure!(refused.status == 500, "{}", refused.body);
    Ok(())
}

#[test]
fn missing_body_modes_are_reported() -> Result<()> {
    let server = lists()?;
    let (guard, envoy, url) = before(server.address, Bodies::Never, json!({}))?;
    let reply = post(&format!("{url}/mcp"), &[], &request(1, &json!({"count": 900, "mark": 1})))?;
    ensure!(reply.status == 500 && reply.body.contains("allow_mode_override"), "{}", reply.body);
    guard.process.wait_for_output(&["allow_mode_override"])?;
    let reply = get(&format!("{url}/other"), &[])?;
    ensure!(reply.status == 200, "other traffic passes: {}", reply.status);
    envoy.is_alive()
}

#[test]
fn policy_changes_without_a_restart() -> Result<()> {
    let server = lists()?;
    let policy = folder("external-policy")?.join("policy.json");
    let sized = |size: u64| json!({"endpoints": [{"match": "files::*", "defaultPageSize": size}]});
    std::fs::write(&policy, sized(20).to_string())?;
    let guard = ExternalGuard::start("ext-proc", json!({"policy": policy}))?;
    let named = |bodies| ProcessedListener {
        name: "files".to_owned(),
        ..ProcessedListener::new(server.address, guard.address, bodies)
    };
    let envoy = envoy_with(&[named(Bodies::FullDuplex), named(Bodies::OnDemand)])?;
    let urls = [envoy.url(0)?, envoy.url(1)?];
    let arguments = json!({"count": 900, "mark": 1});
    let mut cursors = Vec::new();
    for url in &urls {
        let page = ask(url, 1, &arguments)?;
        ensure!(ids(&page)?.len() == 20, "{}", page.0);
        cursors.push(page.next_cursor().context("no cursor")?);
    }
    std::fs::write(&policy, sized(30).to_string())?;
    for (url, cursor) in urls.iter().zip(&cursors) {
        wait_for("pages of the new policy", || {
            Ok(ask(url, 1, &arguments)
                .ok()
                .filter(|page| ids(page).is_ok_and(|ids| ids.len() == 30)))
        })?;
        let next = read(url, cursor, &[])?;
        ensure!(ids(&next)?.first() == Some(&20), "a cursor of the old policy: {}", next.0);
    }
    let metrics = get(&format!("{}/metrics", guard.admin), &[])?;
    ensure!(metrics.status == 200, "{}", metrics.body);
    let shaped = |line: &&str| {
        line.starts_with("context_guard_requests_total{upstream=\"files\"")
            && line.contains("shaped")
    };
    ensure!(metrics.body.lines().any(|line| shaped(&line)), "{}", metrics.body);
    ensure!(metrics.body.contains("context_guard_generation 2"), "{}", metrics.body);
    Ok(())
}

#[test]
fn concurrent_requests_get_their_own_answers() -> Result<()> {
    const CLIENTS_AT_ONCE: u64 = 20;
    const REQUESTS: u64 = 400;
    let server = lists()?;
    for bodies in ALL_BODIES {
        let (guard, envoy, url) = before(server.address, bodies, json!({}))?;
        let next = AtomicU64::new(0);
        let one = |at: u64| -> Result<()> {
            let count = [20, 60, 400, 1_500, 6_000, 30_000][usize::try_from(at % 6)?];
            let way = ["whole", "events", "chunks"][usize::try_from(at / 7 % 3)?];
            let answer = ask(&url, at, &json!({"count": count, "mark": at, "as": way}))?;
            ensure!(answer.0["id"] == at, "{} instead of {at}", answer.0["id"]);
            let shown = answer.json()?;
            let list = if shown.is_array() { &shown } else { &shown["items"] };
            ensure!(list[0]["mark"] == at, "the records of another: {shown}");
            ensure!(answer.tokens() <= 4_000);
            Ok(())
        };
        let work = || -> Result<()> {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= REQUESTS {
                    return Ok(());
                }
                one(at).with_context(|| format!("{bodies:?}, request {at}"))?;
            }
        };
        std::thread::scope(|scope| -> Result<()> {
            let clients: Vec<_> = (0..CLIENTS_AT_ONCE).map(|_| scope.spawn(work)).collect();
            for client in clients {
                client.join().expect("a client panicked")?;
            }
            Ok(())
        })
        .with_context(|| guard.process.output())?;
        envoy.is_alive()?;
    }
    Ok(())
}

/// A tool call as agentgateway sends it.
fn mcp_request(params: &Value, principal: &str) -> McpRequest {
    McpRequest {
        service_names: vec!["archive".to_owned()],
        method: "tools/call".to_owned(),
        metadata_context: None,
        mcp_request: Some(params.to_string().into_bytes().into()),
        headers: vec![McpHeader {
            key: "Authorization".to_owned(),
            value: principal.as_bytes().to_vec().into(),
        }],
    }
}

fn mcp_response(method: &str, result: &str, metadata: Option<Struct>) -> McpResponse {
    McpResponse {
        service_names: vec!["archive".to_owned()],
        method: method.to_owned(),
        metadata_context: metadata,
        mcp_response: result.as_bytes().to_vec().into(),
    }
}

/// Returns the result that replaces that of the upstream, or `None` if it passes.
fn replaced(client: &mut McpPolicyClient, response: McpResponse) -> Result<Option<Value>> {
    match client.check_response(response)?.result.context("no result")? {
        mcp_response_result::Result::Pass(_) => Ok(None),
        mcp_response_result::Result::Mutated(result) => Ok(Some(serde_json::from_slice(&result)?)),
        mcp_response_result::Result::Error(error) => Ok(Some(json!({"error": error.reason}))),
    }
}

fn list_result(count: u64) -> String {
    let list: Vec<Value> = (0..count).map(|id| json!({"id": id, "name": "record"})).collect();
    let text = Value::Array(list).to_string();
    json!({"content": [{"type": "text", "text": text}]}).to_string()
}

#[test]
fn results_of_agentgateway_are_shaped() -> Result<()> {
    let policy = json!({"endpoints": [{"match": "archive::list", "defaultPageSize": 10}]});
    let guard = ExternalGuard::start("ext-mcp", json!({"policy": policy}))?;
    let mut client = McpPolicyClient::new(guard.address)?;
    // The list of tools gets the guard's own tool.
    let tools = r#"{"tools":[{"name":"list","inputSchema":{"type":"object"}}]}"#;
    let listed = replaced(&mut client, mcp_response("tools/list", tools, None))?;
    ensure!(listed.is_some_and(|list| list.to_string().contains("context_guard_read")));
    // A call without arguments of the guard passes, and the ticket returns with the result.
    let call = json!({"name": "list", "arguments": {"count": 500}});
    let checked = client.check_request(mcp_request(&call, "Bearer a"))?;
    ensure!(matches!(checked.result, Some(mcp_request_result::Result::Pass(_))), "{checked:?}");
    let ticket = checked.metadata.context("no ticket")?;
    let fits = replaced(&mut client, mcp_response("tools/call", &list_result(3), None))?;
    ensure!(fits.is_none(), "a result that fits passes: {fits:?}");
    let shaped =
        replaced(&mut client, mcp_response("tools/call", &list_result(500), Some(ticket)))?;
    let answer = Answer(json!({"result": shaped.context("not shaped")?}));
    ensure!(ids(&answer)?.len() == 10, "the rule of the tool: {}", answer.0);
    let cursor = answer.next_cursor().context("no cursor")?;
    // The guard's own tool is answered without the upstream.
    let read = json!({"name": "context_guard_read", "arguments": {"cursor": cursor}});
    let checked = client.check_request(mcp_request(&read, "Bearer a"))?;
    let Some(mcp_request_result::Result::Error(page)) = checked.result else {
        return Err(context_guard_test_support::Error::msg(format!("{checked:?}")));
    };
    ensure!(page.reason.contains(r#"{"id":10,"#), "{}", page.reason);
    let data: Value = serde_json::from_slice(&page.mcp_error.context("no data")?)?;
    ensure!(ids(&Answer(json!({"result": data})))?.first() == Some(&10));
    // Another caller cannot read it.
    let checked = client.check_request(mcp_request(&read, "Bearer b"))?;
    ensure!(!format!("{checked:?}").contains("record"), "{checked:?}");
    // Without a ticket, the budget holds, and the metadata can name tool and caller.
    let text = |text: &str| ProtoValue { kind: Some(value::Kind::StringValue(text.to_owned())) };
    let named = [("tool", "list"), ("principal", "ada")];
    let named = named.map(|(name, value)| (name.to_owned(), text(value)));
    for (metadata, limit) in [(None, 499), (Some(Struct { fields: named.into() }), 10)] {
        let shaped =
            replaced(&mut client, mcp_response("tools/call", &list_result(500), metadata))?;
        let answer = Answer(json!({"result": shaped.context("not shaped")?}));
        ensure!(answer.tokens() <= 4_000 && ids(&answer)?.len() <= limit, "{}", answer.0);
    }
    // Arguments of the guard do not reach the upstream.
    let call = json!({"name": "list", "arguments": {"count": 5, "_guard": {"limit": 2}}});
    let checked = client.check_request(mcp_request(&call, "Bearer a"))?;
    let Some(mcp_request_result::Result::Mutated(params)) = checked.result else {
        return Err(context_guard_test_support::Error::msg(format!("{checked:?}")));
    };
    let params: Value = serde_json::from_slice(&params)?;
    ensure!(params == json!({"name": "list", "arguments": {"count": 5}}), "{params}");
    let metrics = get(&format!("{}/metrics", guard.admin), &[])?.body;
    ensure!(metrics.contains("context_guard_requests_total{upstream=\"archive\""), "{metrics}");
    Ok(())
}
