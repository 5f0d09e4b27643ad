//! The filter in a real Envoy: real clients and servers, the hazards of that host, and concurrent
//! requests.

use std::fmt::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use context_guard_test_support::answer::Answer;
use context_guard_test_support::envoy::{Envoy, Listener};
use context_guard_test_support::gateway::{ArchiveServer, Process, agent, get, post};
use context_guard_test_support::load::resident;
use context_guard_test_support::peers::{CLIENTS, call, folder, run_at};
use context_guard_test_support::scripted::{ReceivedRequest, ScriptedResponse, ScriptedServer};
use context_guard_test_support::wait::{wait_for, wait_until};
use context_guard_test_support::{Context, Result, artifacts, bail, ensure};
use serde_json::{Value, json};

/// Starts a server that returns lists of the requested length. Each record names its request.
pub(crate) fn lists() -> Result<ScriptedServer> {
    ScriptedServer::from_fn(|request: &ReceivedRequest| {
        let call: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let arguments = &call["params"]["arguments"];
        let (count, mark) = (arguments["count"].as_u64().unwrap_or(10), &arguments["mark"]);
        let mut list = String::from("[");
        for id in 0..count {
            let comma = if id == 0 { "" } else { "," };
            let _ = write!(list, r#"{comma}{{"id":{id},"mark":{mark},"name":"record {id}"}}"#);
        }
        list.push(']');
        if request.line.starts_with("GET") {
            return ScriptedResponse::json(list);
        }
        let result = json!({"content": [{"type": "text", "text": list}]});
        let answer = json!({"jsonrpc": "2.0", "id": call["id"], "result": result}).to_string();
        match arguments["as"].as_str() {
            Some("events") => {
                let events = format!(": hello\n\nevent: message\ndata: {answer}\n\n");
                ScriptedResponse::with_type("text/event-stream", events).chunked(3_000)
            }
            Some("chunks") => ScriptedResponse::json(answer).chunked(70_000),
            _ => ScriptedResponse::json(answer),
        }
    })
}

pub(crate) fn request(id: u64, arguments: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "records", "arguments": arguments}}).to_string()
}

pub(crate) fn ask(url: &str, id: u64, arguments: &Value) -> Result<Answer> {
    let reply = post(&format!("{url}/mcp"), &[], &request(id, arguments))?;
    ensure!(reply.status == 200, "{}: {}", reply.status, reply.body);
    Ok(Answer(reply.messages()?.pop().context("no message")?))
}

/// Starts Envoy before a server, with a configuration of the filter.
fn before(upstream: &ScriptedServer, config: Value) -> Result<(Envoy, String)> {
    let envoy = Envoy::start(&[Listener::before(upstream.address, config)?], 2)?;
    let url = envoy.url(0)?;
    Ok((envoy, url))
}

#[test]
fn sdk_clients_list_call_page_and_chunk() -> Result<()> {
    for plain in [false, true] {
        let server = ArchiveServer::start(plain)?;
        let listener = Listener::before(server.address()?, json!({"upstream": "archive"}))?;
        let envoy = Envoy::start(&[listener], 2)?;
        let url = format!("{}/mcp", envoy.url(0)?);
        let steps = [
            call("list_bookings", json!({"limit": 200})),
            call("read_log", json!({})),
            json!({"op": "call", "name": "get_booking", "arguments": {"id": "BK-0007"}}),
            json!({"op": "call", "name": "picture"}),
            json!({"op": "call", "name": "slow"}),
        ];
        for client in CLIENTS {
            let outcomes = run_at(client, &url, "legacy", &steps)
                .and_then(|_| run_at(client, &url, "auto", &steps))
                .with_context(|| format!("plain: {plain}"))?;
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
            ensure!(outcomes[3][0].metadata()["loss"] == "condensed", "{client}");
            ensure!(outcomes[4][0].result()["content"][0]["mimeType"] == "image/png", "{client}");
        }
        ensure!(envoy.stat("context_guard_answers_paged")? > 6);
        ensure!(envoy.stat("context_guard_faults")? == 0);
        ensure!(envoy.stat("tokens_sent")? < envoy.stat("tokens_original")? / 4);
        envoy.is_alive()?;
    }
    Ok(())
}

#[test]
fn large_bodies_are_shaped_or_refused() -> Result<()> {
    let server = lists()?;
    let (envoy, url) = before(&server, json!({"apis": [{"path": "/v1/*"}]}))?;
    for way in ["whole", "chunks", "events"] {
        for count in [20_000, 60_000, 130_000] {
            let answer = ask(&url, 1, &json!({"count": count, "mark": way, "as": way}))?;
            ensure!(answer.metadata()["meta"]["totalCount"] == count, "{way}: {}", answer.0);
        }
        // An answer above `maxBody` is replaced by an error.
        let answer = ask(&url, 2, &json!({"count": 300_000, "mark": way, "as": way}))?;
        ensure!(answer.is_error() && answer.0.to_string().contains("maxBody"), "{}", answer.0);
    }
    let long = ScriptedServer::from_fn(|request: &ReceivedRequest| {
        let body = format!("[{}\"end\"]", "\"some text\",".repeat(500_000));
        let answer = ScriptedResponse::json(body.clone());
        match request.line.split(['/', ' ']).nth(3) {
            Some("chunked") => answer.chunked(100_000),
            // A small chunk first, then everything else at once.
            Some("burst") => {
                let (some, rest) = body.as_bytes().split_at(400_000);
                let chunks = [some.to_vec(), rest.to_vec()];
                ScriptedResponse { chunks: chunks.into(), sized: false, pause_ms: 100, ..answer }
            }
            _ => answer,
        }
    })?;
    for over in ["refuse", "forward"] {
        let config = json!({"apis": [{"path": "/v1/*"}], "overMaxBody": over});
        let (envoy, url) = before(&long, config)?;
        for path in ["/v1/whole", "/v1/chunked", "/v1/burst"] {
            let reply = get(&format!("{url}{path}"), &[])
                .with_context(|| format!("{over} {path}: {}", envoy.process.output()))?;
            let refused = reply.status == 502 && reply.body.contains("maxBody");
            let whole = reply.status == 200 && reply.body.len() == 6_000_007;
            // Without a content length, one read may exceed what the filter can put back. Then it
            // refuses the answer.
            let may =
                whole && over == "forward" || refused && (over == "refuse" || path != "/v1/whole");
            ensure!(may, "{over} {path}: {} of {} bytes", reply.status, reply.body.len());
        }
        ensure!(envoy.stat("context_guard_over_limit")? == 3);
        envoy.is_alive()?;
    }
    let reply = get(&format!("{url}/v1/list?limit=3"), &[])?;
    ensure!(reply.status == 200 && reply.header("content-type") == "application/json");
    envoy.is_alive()
}

#[test]
fn shortened_request_leaks_nothing() -> Result<()> {
    let server = lists()?;
    let (envoy, url) = before(&server, json!({"policy": {"plainArguments": true}}))?;
    for at in 0..30 {
        let long = "x".repeat(at * 100);
        let arguments = json!({"count": 400, "mark": at, "_guard": {"fields": "id,mark", "limit": 5}, "pad": long});
        let answer = ask(&url, at as u64, &arguments)?;
        let items = answer.json()?;
        let list = if items.is_array() { &items } else { &items["items"] };
        ensure!(list[4]["mark"] == at && list[0]["name"].is_null(), "{items}");
    }
    for request in server.requests().iter() {
        ensure!(request.line == "POST /mcp HTTP/1.1\r\n", "{:?}", request.line);
        ensure!(request.header("content-length") == request.body.len().to_string());
        let body: Value = serde_json::from_slice(&request.body)?;
        ensure!(body["params"]["arguments"]["_guard"].is_null());
        ensure!(request.header("accept-encoding").is_empty(), "what is compressed cannot be read");
    }
    envoy.is_alive()
}

#[test]
fn resized_answers_end_correctly() -> Result<()> {
    let server = lists()?;
    let (envoy, url) = before(&server, json!({"apis": [{"path": "/v1/*"}]}))?;
    // Reuse one connection: surplus bytes of one answer would precede the next.
    let agent = agent();
    for at in 0..40u64 {
        let count = [1, 400, 3, 2_000][usize::try_from(at % 4)?];
        let arguments = json!({"count": count, "mark": at});
        let request = agent.post(format!("{url}/mcp")).header("content-type", "application/json");
        let text = request.send(self::request(at, &arguments))?.into_body().read_to_string()?;
        let answer: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        ensure!(answer["id"] == at, "{text}");
        let text =
            agent.get(format!("{url}/v1/list?limit=2")).call()?.into_body().read_to_string()?;
        let _: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
    }
    envoy.is_alive()
}

#[test]
fn panicked_filter_is_reloaded() -> Result<()> {
    let server = lists()?;
    let filter = artifacts::faulty_filter()?;
    let listener = Listener { filter, ..Listener::before(server.address, json!({}))? };
    let envoy = Envoy::start(&[listener], 1)?;
    let url = envoy.url(0)?;
    let shaped = |answer: &Answer| !answer.metadata().is_null();
    ensure!(shaped(&ask(&url, 1, &json!({"count": 500, "mark": "before"}))?));
    for _ in 0..3 {
        let broken = ask(&url, 2, &json!({"count": 500, "mark": "inject-fault:panic"}));
        ensure!(broken.is_err(), "the answer was sent although the filter panicked");
        // Envoy starts a new sandbox. Until then it must refuse answers, not forward them unshaped.
        wait_until("a restarted filter", || {
            match ask(&url, 3, &json!({"count": 500, "mark": "after"})) {
                Ok(answer) if shaped(&answer) => Ok(true),
                Ok(answer) => bail!("unshaped answer: {}", answer.0),
                Err(_) => Ok(false),
            }
        })
        .with_context(|| envoy.process.output())?;
    }
    envoy.is_alive()
}

#[test]
fn malformed_bodies_do_not_hang() -> Result<()> {
    let hostile: Vec<(&str, Vec<u8>)> = vec![
        ("deep", [b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":".as_slice(), &b"[".repeat(400_000), &b"]".repeat(400_000), b"}"].concat()),
        ("cut", br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"no end"#.to_vec()),
        ("bytes", (0..=255u8).cycle().take(3_000_000).collect()),
        ("escapes", format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{}"}}]}}}}"#, r"\u0001\\\".repeat(300_000)).into_bytes()),
        ("one line", format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{}"}}]}}}}"#, "a".repeat(4_000_000)).into_bytes()),
        ("empty", Vec::new()),
    ];
    let server = ScriptedServer::start()?;
    let (envoy, url) = before(&server, json!({}))?;
    let agent = agent();
    for (name, body) in &hostile {
        for kind in ["application/json", "text/event-stream"] {
            server.push(ScriptedResponse::with_type(kind, body.clone()).chunked(50_000));
            let arguments = json!({"_guard": {"grep": "(a+)+(b|c)*$", "where": "a>1"}});
            let request =
                agent.post(format!("{url}/mcp")).header("content-type", "application/json");
            let reply = request.send(self::request(1, &arguments))?;
            ensure!(reply.status() == 200, "{name} as {kind}: {}", reply.status());
            reply.into_body().with_config().limit(1 << 24).read_to_vec()?;
        }
    }
    for request in ["", "[", "{}", "[]", "null", "[[[]]]", "\u{0}"] {
        let _ = post(&format!("{url}/mcp"), &[], request)?;
    }
    server.clear();
    server.push(ScriptedResponse::json(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#));
    ensure!(ask(&url, 1, &json!({})).is_ok(), "the filter stopped answering");
    envoy.is_alive()
}

#[test]
fn compressed_body_passes_unchanged() -> Result<()> {
    let server = ScriptedServer::start()?;
    let (envoy, url) = before(&server, json!({}))?;
    let body = vec![0x1f, 0x8b, 8, 0, 1, 2, 3];
    server.push(ScriptedResponse::json(body.clone()).with("content-encoding", "gzip"));
    let request = agent().post(format!("{url}/mcp")).header("content-type", "application/json");
    let reply = request.header("accept-encoding", "gzip").send(self::request(1, &json!({})))?;
    ensure!(reply.headers()["content-encoding"] == "gzip");
    ensure!(reply.into_body().read_to_vec()? == body);
    ensure!(server.requests()[0].header("accept-encoding").is_empty());
    envoy.is_alive()
}

#[test]
fn missing_or_full_store_keeps_budget() -> Result<()> {
    let server = lists()?;
    let policy = json!({"endpoints": [{"match": "records", "readOnly": true}]});
    let (_envoy, url) = before(&server, json!({"store": "none", "policy": policy}))?;
    let first = ask(&url, 1, &json!({"count": 500, "mark": 1}))?;
    let cursor = first.next_cursor().context("no cursor")?;
    let next = ask(&url, 2, &json!({"count": 500, "mark": 1, "_guard": {"cursor": cursor}}))?;
    ensure!(
        next.json()?["items"][0]["id"]
            == first.json()?["items"].as_array().map(Vec::len).unwrap_or_default()
    );
    // The notice must not promise a cursor if the store is too small.
    let (envoy, url) = before(&server, json!({"store": {"shared": {"bytes": 100_000}}}))?;
    let cut = ask(&url, 1, &json!({"count": 5_000, "mark": 1}))?;
    ensure!(cut.0.to_string().contains("PARTIAL") && cut.tokens() < 12_000, "{}", cut.0);
    ensure!(envoy.stat("context_guard_store_full")? > 0);
    Ok(())
}

/// The example, started by its script.
struct Example {
    process: Process,
    settings: Vec<(&'static str, String)>,
}

impl Example {
    fn command(settings: &[(&'static str, String)], what: &str) -> Result<Command> {
        let mut command = Command::new(artifacts::root().join("examples/envoy/envoy.sh"));
        command.arg(what).arg(artifacts::dist("context-guard-envoy.wasm")?);
        command.env("ENVOY", artifacts::envoy()?).env("LOG_LEVEL", "info");
        command.envs(settings.iter().map(|(name, value)| (*name, value.as_str())));
        Ok(command)
    }

    /// Reloads Envoy with another configuration. Returns what the script printed if it failed.
    fn reload(&self, config: &Value) -> Result<Option<String>> {
        let (_, file) =
            self.settings.iter().find(|(name, _)| *name == "CONFIG").context("no CONFIG")?;
        std::fs::write(file, config.to_string())?;
        let done = Self::command(&self.settings, "reload")?.output()?;
        let printed = String::from_utf8_lossy(&done.stderr).into_owned();
        Ok((!done.status.success()).then_some(printed))
    }
}

fn free_port() -> Result<String> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string())
}

#[test]
fn example_reloads_its_configuration() -> Result<()> {
    let server = lists()?;
    let folder = folder("envoy-example")?;
    let (port, config) = (free_port()?, folder.join("filter.json"));
    std::fs::copy(artifacts::root().join("examples/envoy/filter.json"), &config)?;
    let settings = vec![
        ("PORT", port.clone()),
        ("ADMIN_PORT", free_port()?),
        ("UPSTREAM", server.address.to_string()),
        ("RUN", folder.join("run").display().to_string()),
        ("BASE_ID", "dynamic".to_owned()),
        ("CONFIG", config.display().to_string()),
    ];
    let process = Process::start(
        Example::command(&settings, "start")?,
        false,
        "starting main dispatch loop",
    )?;
    let example = Example { process, settings };
    let url = format!("http://127.0.0.1:{port}");
    let size =
        |answer: &Answer| answer.json().map(|page| page["items"].as_array().map_or(0, Vec::len));
    let until = |wanted: std::ops::Range<usize>| -> Result<Answer> {
        wait_for(&format!("page of {wanted:?}"), || {
            let answer = ask(&url, 1, &json!({"count": 500, "mark": 1})).ok();
            Ok(answer.filter(|answer| size(answer).is_ok_and(|size| wanted.contains(&size))))
        })
        .with_context(|| example.process.output())
    };
    let first = until(50..500)?;
    let cursor = first.next_cursor().context("no cursor")?;
    let smaller = json!({"mcp": ["/mcp"], "upstream": "mcp", "policy": {"defaultPageSize": 20}});
    ensure!(example.reload(&smaller)?.is_none());
    until(20..21)?;
    // A cursor issued before the reload remains valid.
    let next = ask(&url, 2, &json!({"count": 500, "mark": 1, "_guard": {"cursor": cursor}}))?;
    ensure!(next.json()?["items"][0]["id"] == size(&first)?, "{}", next.0);
    // An invalid configuration is refused with its reason, and the current one remains active.
    let refused = example.reload(&json!({"policy": {"tokenBudgetTreshold": 5}}))?;
    ensure!(refused.is_some_and(|reason| reason.contains("Envoy refused the change")));
    wait_until("the reason in the log", || {
        Ok(example.process.output().contains("did you mean `tokenBudgetThreshold`"))
    })
    .with_context(|| example.process.output())?;
    until(20..21)?;
    Ok(())
}

/// The number of concurrent requests, and the total unless CONTEXT_GUARD_ENVOY_REQUESTS overrides
/// it.
const CLIENTS_AT_ONCE: u64 = 50;
const REQUESTS: u64 = 1_000;

#[test]
fn concurrent_requests_get_their_own_answers() -> Result<()> {
    let all = std::env::var("CONTEXT_GUARD_ENVOY_REQUESTS").ok();
    let all: u64 = all.and_then(|all| all.parse().ok()).unwrap_or(REQUESTS);
    let server = lists()?;
    let (envoy, url) = before(&server, json!({"apis": [{"path": "/v1/*"}]}))?;
    let (next, pid) = (AtomicU64::new(0), envoy.process.pid());
    // From 1 kB to 5 MB; most are small.
    let sizes = [20, 60, 20, 400, 20, 1_500, 20, 6_000, 20, 30_000];
    let one = |at: u64| -> Result<()> {
        let count = if at % 100 == 99 { 110_000 } else { sizes[usize::try_from(at % 10)?] };
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
            if at >= all {
                return Ok(());
            }
            one(at).with_context(|| format!("request {at}"))?;
        }
    };
    let warm = std::thread::scope(|scope| -> Result<u64> {
        let clients: Vec<_> = (0..CLIENTS_AT_ONCE).map(|_| scope.spawn(work)).collect();
        wait_until("a third of the requests", || {
            let is_done = clients.iter().all(|client| client.is_finished());
            Ok(is_done || next.load(Ordering::Relaxed) >= all / 3)
        })?;
        let warm = resident(pid)?;
        for client in clients {
            client
                .join()
                .map_err(|_| context_guard_test_support::Error::msg("a client panicked"))??;
        }
        Ok(warm)
    })?;
    let end = resident(pid)?;
    println!("{all} requests: {warm} KiB after a third, {end} KiB at the end");
    ensure!(end < warm * 3 / 2, "memory grew from {warm} to {end} KiB");
    ensure!(envoy.stat("context_guard_faults")? == 0);
    envoy.is_alive()
}
