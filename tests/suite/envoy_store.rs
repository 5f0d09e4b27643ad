//! Several Envoys whose filters share the store of a gateway, as real processes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use context_guard_protocol::store_message::{
    READ_PATH, ReadRequest, WRITE_PATH, WriteRequest, WrittenEntry, decode_values,
};
use context_guard_test_support::answer::Answer;
use context_guard_test_support::certificates::Authority;
use context_guard_test_support::envoy::{Envoy, Listener};
use context_guard_test_support::gateway::{Gateway, agent, get, post, signal};
use context_guard_test_support::redis::{Redis, free_port};
use context_guard_test_support::scripted::{ScriptedResponse, ScriptedServer};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, ensure, peers};
use serde_json::{Value, json};

use crate::envoy::{lists, request};

const SECRET: &str = "a secret for the filters of the tests";
const CLUSTER: &str = "guards";

/// Starts a gateway whose store filters use. Returns the address of the endpoint for them.
fn store_gateway(listen: &str, more: &Value) -> Result<(Gateway, SocketAddr)> {
    let secrets = ["another secret for filters", SECRET];
    let mut settings = json!({"filterStore": {"listen": listen, "secrets": secrets}});
    for (name, value) in more.as_object().into_iter().flatten() {
        settings[name] = value.clone();
    }
    // Its upstream is never called.
    let gateway = Gateway::start(json!([{"name": "none", "url": "http://127.0.0.1:9"}]), settings)?;
    let printed = gateway.process.wait_for_output(&["serving the entries of filters at"])?;
    let address = printed.split_once("entries of filters at ").context("no address")?.1;
    let address = address.split_whitespace().next().context("no address")?.parse()?;
    Ok((gateway, address))
}

/// An Envoy whose filter uses the store of a gateway.
struct Filter {
    envoy: Envoy,
    url: String,
}

impl Filter {
    fn start(server: &ScriptedServer, gateway: SocketAddr) -> Result<Self> {
        let clusters = vec![Envoy::cluster(CLUSTER, gateway)];
        Self::start_workers(2, server, clusters, json!({}), json!({}))
    }

    /// Starts an Envoy of one worker. `store` overrides members of the store's settings, and `more`
    /// those of the filter.
    fn start_with(
        server: &ScriptedServer,
        clusters: Vec<Value>,
        store: Value,
        more: Value,
    ) -> Result<Self> {
        Self::start_workers(1, server, clusters, store, more)
    }

    fn start_workers(
        workers: usize,
        server: &ScriptedServer,
        clusters: Vec<Value>,
        store: Value,
        more: Value,
    ) -> Result<Self> {
        // Tests run beside each other: a slow answer is no failure unless a test is about that.
        let mut gateway = json!({"cluster": CLUSTER, "secret": SECRET, "timeoutMs": 30_000});
        let mut config = json!({"apis": [{"path": "/v1/*"}]});
        for (into, from) in [(&mut gateway, store), (&mut config, more)] {
            for (name, value) in from.as_object().into_iter().flatten() {
                into[name] = value.clone();
            }
        }
        config["store"] = json!({"gateway": gateway});
        let listener = Listener::before(server.address, config)?;
        let envoy = Envoy::start_beside(&[listener], clusters, workers)?;
        let url = envoy.url(0)?;
        Ok(Self { envoy, url })
    }

    /// Sends a call as a user.
    fn call_as(&self, user: &str, arguments: &Value) -> Result<Answer> {
        let headers = [("authorization", user)];
        let reply = post(&format!("{}/mcp", self.url), &headers, &request(1, arguments))?;
        ensure!(reply.status == 200, "{}: {}", reply.status, reply.body);
        reply.answer()
    }

    fn call(&self, arguments: &Value) -> Result<Answer> {
        self.call_as("ada", arguments)
    }

    fn read(&self, cursor: &str) -> Result<Answer> {
        self.call(&json!({"_guard": {"cursor": cursor}}))
    }

    /// Returns the first page of a new answer, and its cursor.
    fn first_page(&self) -> Result<(Answer, String)> {
        let answer = self.call(&json!({"count": 1_000, "mark": 1}))?;
        let cursor = answer.next_cursor().with_context(|| answer.0.to_string())?;
        Ok((answer, cursor))
    }

    fn unavailable(&self) -> Result<u64> {
        self.envoy.stat("context_guard_store_unavailable")
    }
}

fn ids(answer: &Answer) -> Result<Vec<u64>> {
    let page = answer.json()?;
    let items = page["items"].as_array().with_context(|| answer.0.to_string())?;
    Ok(items.iter().filter_map(|item| item["id"].as_u64()).collect())
}

/// Asserts that a page follows another one.
fn follows(next: &Answer, first: &Answer) -> Result<()> {
    let (first, next) = (ids(first)?, ids(next)?);
    ensure!(next.first() == first.last().map(|id| id + 1).as_ref(), "{next:?} after {first:?}");
    Ok(())
}

/// Reads the answer to each kind of response by turns through two Envoys.
fn read_by_turns(one: &Filter, two: &Filter) -> Result<()> {
    for way in ["whole", "chunks", "events"] {
        let first = one.call(&json!({"count": 2_000, "mark": way, "as": way}))?;
        let (mut all, mut cursor) = (ids(&first)?, first.next_cursor());
        for filter in [two, one].into_iter().cycle() {
            let Some(next) = cursor else { break };
            let page = filter.read(&next)?;
            ensure!(!page.is_error() && page.tokens() <= 4_000, "{way}: {}", page.0);
            all.extend(ids(&page)?);
            cursor = page.next_cursor();
        }
        ensure!(all == (0..2_000).collect::<Vec<u64>>(), "{way}: {} records", all.len());
    }
    Ok(())
}

#[test]
fn cursors_of_one_envoy_are_read_through_another() -> Result<()> {
    let server = lists()?;
    let (_gateway, address) = store_gateway("127.0.0.1:0", &json!({}))?;
    let [one, two] = [Filter::start(&server, address)?, Filter::start(&server, address)?];
    read_by_turns(&one, &two)?;
    ensure!(server.requests().len() == 3, "pages come from the store");
    // The cursor of another user leads nowhere, at any Envoy.
    let (_, cursor) = one.first_page()?;
    for filter in [&one, &two] {
        let refused = filter.call_as("bob", &json!({"_guard": {"cursor": cursor}}))?;
        ensure!(refused.is_error() && refused.0.to_string().contains("cursor_invalid"));
    }
    // An API.
    let page: Value =
        serde_json::from_str(&get(&format!("{}/v1/list?limit=3", one.url), &[])?.body)?;
    let cursor = page.to_string();
    let cursor = cursor.split_once(r#""nextCursor":""#).with_context(|| cursor.clone())?.1;
    let cursor = cursor.split('"').next().unwrap_or_default();
    let reply = get(&format!("{}/v1/list?cursor={cursor}", two.url), &[])?;
    ensure!(reply.status == 200 && reply.body.contains(r#""id":3"#), "{}", reply.body);
    for filter in [&one, &two] {
        ensure!(filter.unavailable()? == 0 && filter.envoy.stat("context_guard_faults")? == 0);
        filter.envoy.is_alive()?;
    }
    Ok(())
}

#[test]
fn gateways_with_one_redis_serve_different_envoys() -> Result<()> {
    let (server, redis) = (lists()?, Redis::start("filters", &[])?);
    let store = json!({"store": {"url": redis.url()}});
    let (_first, address) = store_gateway("127.0.0.1:0", &store)?;
    let one = Filter::start(&server, address)?;
    let (_second, address) = store_gateway("127.0.0.1:0", &store)?;
    let two = Filter::start(&server, address)?;
    read_by_turns(&one, &two)?;
    ensure!(server.requests().len() == 3 && one.unavailable()? + two.unavailable()? == 0);
    let values = redis.ask(&["--scan"])?;
    ensure!(values.lines().count() > 3, "{values}");
    for name in values.lines() {
        let value = redis.ask(&["--no-raw", "get", name])?;
        ensure!(!value.contains("record"), "{value}");
    }
    Ok(())
}

#[test]
fn answers_flow_without_the_gateway() -> Result<()> {
    let server = lists()?;
    let listen = format!("127.0.0.1:{}", free_port()?);
    let (gateway, address) = store_gateway(&listen, &json!({}))?;
    let start = || {
        let clusters = vec![Envoy::cluster(CLUSTER, address)];
        Filter::start_with(&server, clusters, json!({}), json!({}))
    };
    let [one, two] = [start()?, start()?];
    let (first, cursor) = one.first_page()?;
    drop(gateway);
    // The first Envoy has copies of its entries, the other one has none.
    follows(&one.read(&cursor)?, &first)?;
    let refused = two.read(&cursor)?;
    ensure!(refused.is_error() && refused.0.to_string().contains("cursor_unavailable"));
    // A new answer is stored at its Envoy.
    let (first, cursor) = one.first_page()?;
    follows(&one.read(&cursor)?, &first)?;
    let refused = two.read(&cursor)?;
    ensure!(refused.is_error() && refused.0.to_string().contains("cursor_unavailable"));
    ensure!(one.unavailable()? > 0 && two.unavailable()? > 0);
    for filter in [&one, &two] {
        let log = filter.envoy.process.wait_for_output(&["cannot be used"])?;
        ensure!(log.matches("cannot be used").count() == 1, "it is reported once: {log}");
    }
    let (_gateway, _) = store_gateway(&listen, &json!({}))?;
    wait_until("a shared answer", || {
        let (first, cursor) = one.first_page()?;
        let next = two.read(&cursor)?;
        Ok(!next.is_error() && follows(&next, &first).is_ok())
    })?;
    one.envoy.process.wait_for_output(&["works again"])?;
    two.envoy.is_alive()
}

#[test]
fn read_only_calls_are_repeated_without_the_gateway() -> Result<()> {
    let server = lists()?;
    let policy = json!({"policy": {"endpoints": [{"match": "records", "readOnly": true}]}});
    // Nothing listens at this address.
    let nobody = format!("127.0.0.1:{}", free_port()?).parse()?;
    let start = || {
        let clusters = vec![Envoy::cluster(CLUSTER, nobody)];
        Filter::start_with(&server, clusters, json!({}), policy.clone())
    };
    let [one, two] = [start()?, start()?];
    let (first, cursor) = one.first_page()?;
    let again = json!({"count": 1_000, "mark": 1, "_guard": {"cursor": cursor}});
    follows(&two.call(&again)?, &first)?;
    ensure!(server.requests().len() == 2);
    Ok(())
}

/// A gateway that stops when the upstream receives a call, so that the answer meets it frozen.
struct FreezingGateway {
    pid: Arc<AtomicU32>,
    _gateway: Gateway,
    address: SocketAddr,
}

impl FreezingGateway {
    fn start(pid: Arc<AtomicU32>) -> Result<Self> {
        let (gateway, address) = store_gateway("127.0.0.1:0", &json!({}))?;
        pid.store(gateway.process.pid(), Ordering::SeqCst);
        Ok(Self { pid, _gateway: gateway, address })
    }

    fn freeze(pid: &AtomicU32) {
        let pid = pid.load(Ordering::SeqCst);
        if pid != 0 {
            signal(pid, "STOP").unwrap();
        }
    }

    fn resume(&self) -> Result<()> {
        signal(self.pid.load(Ordering::SeqCst), "CONT")
    }
}

#[test]
fn answers_wait_for_a_frozen_gateway_until_their_timeout() -> Result<()> {
    let pid = Arc::new(AtomicU32::new(0));
    let frozen = Arc::clone(&pid);
    let server = ScriptedServer::from_fn(move |request| {
        FreezingGateway::freeze(&frozen);
        let call: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let list: Vec<Value> =
            (0..1_000).map(|id| json!({"id": id, "name": format!("record {id}")})).collect();
        let content = json!([{"type": "text", "text": Value::from(list).to_string()}]);
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": content}});
        match call["params"]["arguments"]["as"].as_str() {
            Some("chunks") => ScriptedResponse::json(answer.to_string()).chunked(20_000),
            Some("events") => {
                let event = format!("id: 1\ndata: {answer}\n\n");
                ScriptedResponse::with_type("text/event-stream", event).chunked(20_000)
            }
            _ => ScriptedResponse::json(answer.to_string()),
        }
    })?;
    let gateway = FreezingGateway::start(pid)?;
    let store = json!({"timeoutMs": 700});
    let clusters = || vec![Envoy::cluster(CLUSTER, gateway.address)];
    let one = Filter::start_with(&server, clusters(), store.clone(), json!({}))?;
    let two = Filter::start_with(&server, clusters(), store, json!({}))?;
    for (turn, way) in ["whole", "chunks", "events"].into_iter().enumerate() {
        let since = Instant::now();
        let first = one.call(&json!({"as": way}))?;
        let waited = since.elapsed();
        ensure!(waited >= Duration::from_millis(700), "{way} did not wait: {waited:?}");
        let cursor = first.next_cursor().context("no cursor")?;
        follows(&one.read(&cursor)?, &first)?;
        let refused = two.read(&cursor)?;
        ensure!(refused.is_error() && refused.0.to_string().contains("cursor_unavailable"));
        gateway.resume()?;
        wait_until("a gateway that is used again", || {
            // A copy of an index is used without a call for two seconds.
            let read = [one.read(&cursor)?, two.read(&cursor)?];
            let log = one.envoy.process.output();
            let is_used = log.matches("works again").count() == turn + 1;
            Ok(is_used && read[1].0.to_string().contains("cursor_expired"))
        })?;
    }
    one.envoy.is_alive()
}

#[test]
fn events_keep_their_order_while_one_waits() -> Result<()> {
    let note =
        |at: u64| format!("id: {at}\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"note/{at}\"}}\n\n");
    let list: Vec<Value> =
        (0..2_000).map(|id| json!({"id": id, "name": format!("record {id}")})).collect();
    let content = json!([{"type": "text", "text": Value::from(list).to_string()}]);
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": content}});
    let pid = Arc::new(AtomicU32::new(0));
    let frozen = Arc::clone(&pid);
    let server = ScriptedServer::from_fn(move |_| {
        FreezingGateway::freeze(&frozen);
        let answer = format!("id: 2\ndata: {answer}\n\n");
        let chunks = [note(1), answer, note(3), note(4)].map(String::into_bytes).to_vec();
        let events = ScriptedResponse::with_type("text/event-stream", "");
        ScriptedResponse { chunks, sized: false, pause_ms: 100, ..events }
    })?;
    let gateway = FreezingGateway::start(pid)?;
    let clusters = vec![Envoy::cluster(CLUSTER, gateway.address)];
    let filter = Filter::start_with(&server, clusters, json!({"timeoutMs": 1_000}), json!({}))?;
    let since = Instant::now();
    let reply = post(&format!("{}/mcp", filter.url), &[], &request(1, &json!({})))?;
    ensure!(since.elapsed() >= Duration::from_secs(1), "the answer did not wait");
    let ids: Vec<&str> = reply.body.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    ensure!(ids == ["1", "2", "3", "4"], "{}", reply.body);
    let messages = reply.messages()?;
    ensure!(messages[3]["method"] == "note/4", "{}", reply.body);
    let shaped = Answer(messages[1].clone());
    ensure!(shaped.next_cursor().is_some(), "{}", shaped.0);
    gateway.resume()?;
    filter.envoy.is_alive()
}

#[test]
fn wrong_secret_is_reported() -> Result<()> {
    let server = lists()?;
    let (gateway, address) = store_gateway("127.0.0.1:0", &json!({}))?;
    let filter = Filter::start_with(
        &server,
        vec![Envoy::cluster(CLUSTER, address)],
        json!({"secret": "not one of the secrets"}),
        json!({}),
    )?;
    let (first, cursor) = filter.first_page()?;
    follows(&filter.read(&cursor)?, &first)?;
    filter.envoy.process.wait_for_output(&["status 401: a secret of filterStore.secrets"])?;
    gateway.process.wait_for_output(&["a filter at 127.0.0.1 has none of filterStore.secrets"])?;
    filter.envoy.is_alive()
}

#[test]
fn missing_cluster_or_endpoint_is_reported() -> Result<()> {
    let server = lists()?;
    let mut empty = Envoy::cluster(CLUSTER, server.address);
    empty["load_assignment"]["endpoints"] = json!([]);
    for clusters in [vec![], vec![empty]] {
        let filter = Filter::start_with(&server, clusters, json!({}), json!({}))?;
        let (first, cursor) = filter.first_page()?;
        follows(&filter.read(&cursor)?, &first)?;
        filter.envoy.process.wait_for_output(&["cannot be used"])?;
        filter.envoy.is_alive()?;
    }
    Ok(())
}

#[test]
fn endpoint_refuses_bad_requests() -> Result<()> {
    let endpoint = json!({"listen": "127.0.0.1:0", "secrets": [SECRET], "maxBytes": 500_000});
    let limits = json!({"storeBytes": 1_000_000, "storeBytesPerPrincipal": 300_000});
    let more = json!({"filterStore": endpoint, "limits": limits});
    let (_gateway, address) = store_gateway("127.0.0.1:0", &more)?;
    let send = |path: &str, secret: &str, body: &[u8]| -> Result<(u16, Vec<u8>)> {
        let request = agent().post(format!("http://{address}{path}"));
        let reply = request.header("authorization", format!("Bearer {secret}")).send(body)?;
        Ok((reply.status().as_u16(), reply.into_body().read_to_vec()?))
    };
    let entry = |bytes: usize| {
        vec![WrittenEntry { key: "k".to_owned(), value: Some(vec![7; bytes]), ttl_ms: 60_000 }]
    };
    let write = |principal: &str, bytes: usize| WriteRequest::encode(principal, &entry(bytes));
    let read = |principal: &str| -> Result<Option<usize>> {
        let keys = ["k".to_owned()];
        let (status, body) = send(READ_PATH, SECRET, &ReadRequest::encode(principal, &keys))?;
        ensure!(status == 200, "{status}");
        Ok(decode_values(&body, 1)?.remove(0).map(|value| value.len()))
    };
    ensure!(send(WRITE_PATH, SECRET, &write("ann", 100))?.0 == 204);
    ensure!(read("ann")? == Some(100) && read("bob")?.is_none());
    for (path, secret, body, status, code) in [
        (READ_PATH, "", write("ann", 1), 401, "wrong_secret"),
        (WRITE_PATH, "a secret for the filters of the test", write("ann", 1), 401, "wrong_secret"),
        (READ_PATH, SECRET, b"\xff\xff".to_vec(), 400, "bad_request"),
        (WRITE_PATH, SECRET, b"{}".to_vec(), 400, "bad_request"),
        (WRITE_PATH, SECRET, write("ann", 400_000), 507, "quota_exceeded"),
        (WRITE_PATH, SECRET, vec![0; 500_001], 413, "too_large"),
    ] {
        let (received, body) = send(path, secret, &body)?;
        let body = String::from_utf8_lossy(&body);
        ensure!(received == status && body.contains(code), "{path}: {received} {body}");
    }
    ensure!(read("ann")? == Some(100), "a refused request changes nothing");
    let health = get(&format!("http://{address}/healthz"), &[])?;
    ensure!(health.status == 200 && get(&format!("http://{address}/"), &[])?.status == 404);
    Ok(())
}

#[test]
fn filters_share_entries_over_tls() -> Result<()> {
    let server = lists()?;
    let authority = Authority::create(peers::folder("filter-store-tls")?.join("ca"))?;
    let certificate = authority.issue_server()?;
    let tls = json!({"tls": {"cert": certificate.cert, "key": certificate.key}});
    let (_gateway, address) = store_gateway("127.0.0.1:0", &tls)?;
    let encrypted = |authority: &Authority| {
        let mut cluster = Envoy::cluster(CLUSTER, address);
        let validation = json!({
            "trusted_ca": {"filename": authority.file()},
            "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": "localhost"}}],
        });
        cluster["transport_socket"] = json!({"name": "tls", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "sni": "localhost",
            "common_tls_context": {"validation_context": validation},
        }});
        vec![cluster]
    };
    let start = |clusters| Filter::start_with(&server, clusters, json!({}), json!({}));
    let (one, two) = (start(encrypted(&authority))?, start(encrypted(&authority))?);
    let (first, cursor) = one.first_page()?;
    follows(&two.read(&cursor)?, &first)?;
    ensure!(one.unavailable()? + two.unavailable()? == 0);
    // Neither a gateway with another authority nor a connection without TLS is used.
    let foreign = Authority::create(peers::folder("filter-store-foreign")?.join("ca"))?;
    for clusters in [encrypted(&foreign), vec![Envoy::cluster(CLUSTER, address)]] {
        let other = start(clusters)?;
        let refused = other.read(&cursor)?;
        ensure!(refused.is_error() && refused.0.to_string().contains("cursor_unavailable"));
        ensure!(other.unavailable()? > 0);
    }
    Ok(())
}
