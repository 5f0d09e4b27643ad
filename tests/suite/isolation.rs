//! Attempts of one principal to read the data of another, counted by kind. None may succeed.
//!
//! `CONTEXT_GUARD_ISOLATION_ATTEMPTS` sets their number. They are made at three levels:
//!
//! | level | share | kinds |
//! |---|---|---|
//! | functions | 80 % | verification of cursors, keys of the store in memory |
//! | filter with the release component and a real store | 16 % | cursors, cached answers |
//! | HTTP, with a real gateway and servers | 4 % | all others, and cursors |
//!
//! The others are sessions, resumption (`Last-Event-ID`), subscriptions, tasks and request state.
//! Each kind begins with an attempt of the owner, which succeeds. Otherwise an attempt of another
//! principal would fail for the wrong reason.

use std::sync::Arc;
use std::time::Duration;

use context_guard::cache::Cache;
use context_guard::clock::{Clock, SystemClock};
use context_guard::config::CacheOptions;
use context_guard::engine::{CallContext, HostServices, SigningKey};
use context_guard::filter::{Filter, FilterOptions, Request};
use context_guard::revision::{Revisions, RolloutOptions};
use context_guard::store::{CursorStore, MemoryLimits, MemoryStore};
use context_guard_core::encoding::CursorFormat;
use context_guard_core::snapshot::{Cursor, Keys};
use context_guard_test_support::answer::Answer;
use context_guard_test_support::gateway::{ConformanceServer, Gateway, HttpClient, agent};
use context_guard_test_support::guards::{self, SIGNING_KEY};
use context_guard_test_support::peers::Server;
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure, walk};
use serde_json::{Value, json};

use crate::access::with_two_keys;

/// The default number of attempts, which takes a few seconds.
const DEFAULT_ATTEMPTS: u64 = 25_000;
/// A text in the data of alice only.
const MARK: &str = "the secret of alice";
const STATELESS: &str = "2026-07-28";

/// The attempts of one kind.
struct Tally {
    kind: &'static str,
    made: u64,
    succeeded: u64,
}

/// Makes attempts of one kind. `attempt` returns true if it reads data of another principal.
fn attempts(
    kind: &'static str,
    made: u64,
    mut attempt: impl FnMut(&mut Variants) -> Result<bool>,
) -> Result<Tally> {
    let mut variants = Variants(0x9e37_79b9_7f4a_7c15 ^ made);
    let mut succeeded = 0;
    for _ in 0..made {
        succeeded += u64::from(attempt(&mut variants).with_context(|| kind.to_owned())?);
    }
    Ok(Tally { kind, made, succeeded })
}

/// A deterministic source of variants of a secret (xorshift64).
struct Variants(u64);

impl Variants {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below.max(1) as u64).unwrap_or_default()
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.next(items.len())]
    }

    /// Returns a secret verbatim, with a changed character, cut, extended, or in another case.
    fn vary(&mut self, secret: &str) -> String {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let at = self.next(secret.len());
        let letter = char::from(*self.pick(LETTERS));
        match self.next(5) {
            0 => secret.to_owned(),
            1 => {
                let letters = secret.chars().enumerate();
                letters.map(|(position, own)| if position == at { letter } else { own }).collect()
            }
            // A session without an id is none, so that a character remains.
            2 => secret.chars().take(at.max(1)).collect(),
            3 => format!("{secret}{letter}"),
            _ => secret.to_ascii_uppercase(),
        }
    }
}

/// Returns two parts of two cursors as one cursor: the payload of one, and the signature of the
/// other.
fn swapped(payload: &str, signature: &str) -> String {
    // The MAC of a short cursor is its last eight characters.
    let halves = |cursor: &str| match cursor.split_once('.') {
        Some((payload, mac)) => (format!("{payload}."), mac.to_owned()),
        None => {
            let end = cursor.len().saturating_sub(8);
            (cursor.chars().take(end).collect(), cursor.chars().skip(end).collect())
        }
    };
    format!("{}{}", halves(payload).0, halves(signature).1)
}

fn functions(made: u64) -> Result<Vec<Tally>> {
    let keys = Keys::new([SIGNING_KEY]).ok().context("the key is refused")?;
    let sign = |principal, at: u64| {
        let format = if at.is_multiple_of(2) { CursorFormat::Short } else { CursorFormat::Signed };
        Cursor::new("TagOfSnapsho", at, 1_000).sign(format, &keys, principal)
    };
    let of_alice: Vec<String> = (0..50).map(|at| sign("alice", at)).collect();
    let of_bob = sign("bob", 1_000);
    let own = Cursor::verify(&of_bob, &keys, "bob", 1_000, u64::MAX).ok();
    ensure!(own.is_some(), "the own cursor is refused");
    let cursors = attempts("cursor, verification", made / 2, |variants| {
        let stolen = variants.pick(&of_alice).clone();
        let text = match variants.next(3) {
            0 => swapped(&stolen, &of_bob),
            _ => variants.vary(&stolen),
        };
        Ok(Cursor::verify(&text, &keys, "bob", 1_000, u64::MAX).is_ok())
    })?;
    let store = MemoryStore::new(Arc::new(SystemClock), MemoryLimits::default());
    let names: Vec<String> = (0..50).map(|at| format!("tag.snapshot-{at}.0")).collect();
    let entries = names.iter().map(|name| (name.clone(), MARK.as_bytes().to_vec()));
    store.put("alice", entries.collect(), Duration::from_secs(3_600))?;
    let own = store.get("alice", &names)?;
    ensure!(own.iter().all(Option::is_some), "the own values are missing");
    let values = attempts("store, key of another", made / 2, |variants| {
        let name = variants.pick(&names).clone();
        let key = variants.vary(&name);
        Ok(store.get("bob", &[key])?.iter().any(Option::is_some))
    })?;
    Ok(vec![cursors, values])
}

fn context(principal: &str) -> CallContext {
    CallContext { principal: principal.to_owned(), ..CallContext::default() }
}

fn is_leak(answer: &[u8]) -> bool {
    String::from_utf8_lossy(answer).contains(MARK)
}

fn filter_level(made: u64) -> Result<Vec<Tally>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = MemoryStore::new(Arc::clone(&clock), MemoryLimits::default());
    let services = HostServices { store: Arc::new(store), clock: Arc::clone(&clock) };
    let keys = vec![SigningKey { id: String::new(), secret: SIGNING_KEY.to_vec() }];
    let policy = r#"{"endpoints": [{"match": "cached_*", "readOnly": true}]}"#;
    let options = RolloutOptions::default();
    let revisions = Revisions::new(guards::component()?, services, policy, keys, options)?;
    let cache = Some(Arc::new(Cache::new(CacheOptions::default(), clock)));
    let options = FilterOptions { cache, ..FilterOptions::default() };
    let filter = Filter::with_options(revisions.into(), options);
    let list = |owner: &str| {
        let rows = (0..800).map(|at| json!({"id": at, "note": format!("{at}: {owner}")}));
        let text = Value::from_iter(rows).to_string();
        let result = json!({"content": [{"type": "text", "text": text}]});
        json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string().into_bytes()
    };
    let fill = |principal: &str, tool: &str, owner: &str| -> Result<Answer> {
        let cx = context(principal);
        let Request::Forward(_, ticket) = filter.request(&cx, &walk::call(tool, &json!({}))) else {
            context_guard_test_support::bail!("{tool} was answered")
        };
        let shaped = filter.response(&cx, &ticket, &list(owner)).context("not shaped")?;
        Answer::read(&shaped)
    };
    let cursor = |principal: &str, tool: &str, owner: &str| -> Result<String> {
        fill(principal, tool, owner)?.next_cursor().context("no cursor")
    };
    let tools: Vec<String> = (0..10).map(|at| format!("tool_{at}")).collect();
    let of_alice =
        tools.iter().map(|tool| cursor("alice", tool, MARK)).collect::<Result<Vec<_>>>()?;
    let of_bob = cursor("bob", "tool_0", "nothing")?;
    let read = |principal: &str, tool: &str, cursor: &str| -> Vec<u8> {
        let arguments = match tool {
            "context_guard_read" => json!({"cursor": cursor}),
            _ => json!({"_guard": {"cursor": cursor}}),
        };
        match filter.request(&context(principal), &walk::call(tool, &arguments)) {
            Request::Answer(answer, ..) => answer,
            Request::Forward(..) => Vec::new(),
        }
    };
    ensure!(is_leak(&read("alice", "context_guard_read", &of_alice[0])), "alice cannot read");
    ensure!(is_leak(&read("alice", &tools[1], &of_alice[1])), "alice cannot read by the tool");
    let cursors = attempts("cursor, component and store", made * 3 / 4, |variants| {
        let stolen = variants.pick(&of_alice).clone();
        let text = match variants.next(3) {
            0 => swapped(&stolen, &of_bob),
            _ => variants.vary(&stolen),
        };
        let tool = match variants.next(2) {
            0 => "context_guard_read",
            _ => variants.pick(&tools).as_str(),
        };
        Ok(is_leak(&read("bob", tool, &text)))
    })?;
    fill("alice", "cached_list", MARK)?;
    let ask = |principal: &str| match filter
        .request(&context(principal), &walk::call("cached_list", &json!({})))
    {
        Request::Answer(answer, ..) => answer,
        Request::Forward(..) => Vec::new(),
    };
    ensure!(is_leak(&ask("alice")), "the answer is not cached");
    let cached = attempts("cache, same call", made / 4, |variants| {
        Ok(is_leak(&ask(["bob", "alic", "alice ", "Alice", ""][variants.next(5)])))
    })?;
    Ok(vec![cursors, cached])
}

/// A client of the gateway that reuses its connections.
struct Caller<'g> {
    agent: ureq::Agent,
    gateway: &'g Gateway,
    key: &'g str,
}

impl Caller<'_> {
    /// Sends a request with these headers, and returns status and body.
    fn post(&self, headers: &[(&str, &str)], body: &Value) -> Result<(u16, String)> {
        let mut request = self.agent.post(self.gateway.url()).header("authorization", self.key);
        request = request.header("accept", "application/json, text/event-stream");
        request = request.header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send(body.to_string())?;
        Ok((response.status().as_u16(), response.into_body().read_to_string()?))
    }

    /// Asks for the events of a session.
    fn get(&self, headers: &[(&str, &str)]) -> Result<(u16, String)> {
        let mut request = self.agent.get(self.gateway.url()).header("authorization", self.key);
        request = request.header("accept", "text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.call()?;
        let status = response.status().as_u16();
        // The stream of an open session would not end.
        if status == 200 {
            return Ok((status, String::new()));
        }
        Ok((status, response.into_body().read_to_string()?))
    }

    /// Sends a request in a session.
    fn call(&self, session: &str, method: &str, params: Value) -> Result<(u16, String)> {
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")];
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.post(&headers, &body)
    }

    /// Calls the tool that asks the user, without a session.
    fn ask_user(&self, more: Value) -> Result<String> {
        let name = "conf__test_elicitation";
        let mut params = json!({"name": name, "arguments": {}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        }});
        if let (Some(params), Value::Object(more)) = (params.as_object_mut(), more) {
            params.extend(more);
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let headers =
            [("mcp-protocol-version", STATELESS), ("mcp-method", "tools/call"), ("mcp-name", name)];
        Ok(self.post(&headers, &body)?.1)
    }
}

/// Returns the JSON message in a body, which is JSON or an event stream.
fn message(body: &str) -> Result<Value> {
    let mut data = body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let last = data.rfind(|data| !data.is_empty()).unwrap_or(body);
    serde_json::from_str(last).with_context(|| body.to_owned())
}

/// Returns true if a response has a result that is no error.
fn has_result(body: &str) -> Result<bool> {
    let message = message(body)?;
    Ok(message.get("error").is_none() && message["result"]["isError"] != true)
}

fn http_level(made: u64) -> Result<Vec<Tally>> {
    let upstreams = json!([
        {"name": "houses", "command": [artifacts::property_server()?]},
        {"name": "everything", "command": Server::npm("server-everything", &["stdio"])?.0},
        // A stateful upstream, whose questions suspend calls of stateless clients in the gateway.
        ConformanceServer::stdio("conf", json!({"era": "legacy"}))?,
    ]);
    let (gateway, [alice, bob]) = with_two_keys("isolation", upstreams, json!({}))?;
    let caller = |key| Caller { agent: agent(), gateway: &gateway, key };
    let (alice, bob) = (caller(alice.as_str()), caller(bob.as_str()));
    let made = made / 6;

    let asked = alice.ask_user(json!({}))?;
    let asked = &message(&asked)?["result"];
    let state = asked["requestState"].as_str().with_context(|| asked.to_string())?.to_owned();
    let question = asked["inputRequests"].as_object().and_then(|all| all.keys().next().cloned());
    let given = json!({"action": "accept", "content": {"username": MARK, "email": "a@b.example"}});
    let inputs = json!({question.context("no question")?: given});
    let resume = |caller: &Caller<'_>, state: &str| -> Result<bool> {
        let more = json!({"requestState": state, "inputResponses": inputs});
        Ok(caller.ask_user(more)?.contains("Elicitation completed"))
    };
    let states = attempts("request state, HTTP", made, |variants| {
        // A state without the gateway's prefix is one of the upstream, and begins a new call.
        let (prefix, secret) = state.split_at("cg-parked-".len());
        resume(&bob, &format!("{prefix}{}", variants.vary(secret)))
    })?;
    ensure!(resume(&alice, &state)?, "alice cannot resume her request");

    let open = |caller: &Caller<'_>| {
        let headers = [("authorization", caller.key)];
        HttpClient::open(&gateway.url(), &headers, json!({"tasks": {}}))
    };
    let (mut session, own) = (open(&alice)?, open(&bob)?);
    let (id, own) = (session.session.clone(), own.session);
    let params = json!({
        "name": "everything__simulate-research-query",
        "arguments": {"topic": MARK},
        "task": {"ttl": 3_600_000},
    });
    let created = session.request("tools/call", params)?;
    let task = created.result()["task"]["taskId"].as_str().context("no task")?.to_owned();
    wait_until("a completed task", || {
        let state = session.request("tasks/get", json!({"taskId": task}))?;
        Ok(state.result()["status"] == "completed")
    })?;
    let tasks = attempts("task, HTTP", made, |variants| {
        let method = *variants.pick(&["tasks/get", "tasks/result", "tasks/cancel"]);
        let (status, body) = bob.call(&own, method, json!({"taskId": variants.vary(&task)}))?;
        Ok(status == 200 && has_result(&body)?)
    })?;
    ensure!(alice.call(&id, "tasks/result", json!({"taskId": task}))?.1.contains(MARK));

    let page = session.call("houses__list_bookings", json!({"limit": 5}))?;
    let cursor = page.next_cursor().with_context(|| page.0.to_string())?;
    let cursors = attempts("cursor, HTTP", made, |variants| {
        let arguments = json!({"cursor": variants.vary(&cursor)});
        let params = json!({"name": "context_guard_read", "arguments": arguments});
        let (status, body) = bob.call(&own, "tools/call", params)?;
        Ok(status == 200 && has_result(&body)?)
    })?;
    ensure!(!session.call("context_guard_read", json!({"cursor": cursor}))?.is_error());

    let sessions = attempts("session, HTTP", made, |variants| {
        Ok(bob.call(&variants.vary(&id), "tools/list", json!({}))?.0 == 200)
    })?;
    let resumed = attempts("resumption, HTTP", made, |variants| {
        let event = format!("{}-{}", variants.next(9), variants.next(9));
        let session = variants.vary(&id);
        Ok(bob.get(&[("mcp-session-id", &session), ("last-event-id", &event)])?.0 == 200)
    })?;
    let subscribed = attempts("subscription, HTTP", made, |variants| {
        let session = variants.vary(&id);
        Ok(match variants.next(2) {
            0 => bob.get(&[("mcp-session-id", &session)])?.0 == 200,
            _ => bob.call(&session, "resources/subscribe", json!({"uri": "test://x"}))?.0 == 200,
        })
    })?;
    ensure!(alice.call(&id, "tools/list", json!({}))?.0 == 200, "the session has ended");
    Ok(vec![states, tasks, cursors, sessions, resumed, subscribed])
}

#[test]
fn no_principal_reads_data_of_another() -> Result<()> {
    let number = std::env::var("CONTEXT_GUARD_ISOLATION_ATTEMPTS").ok();
    let number = number.map_or(Ok(DEFAULT_ATTEMPTS), |number| number.parse())?;
    let (by_http, by_filter) = (number / 25, number * 4 / 25);
    let mut tallies = http_level(by_http)?;
    tallies.extend(filter_level(by_filter)?);
    let made: u64 = tallies.iter().map(|tally| tally.made).sum();
    tallies.extend(functions(number - made)?);
    let sum = |figure: fn(&Tally) -> u64| tallies.iter().map(figure).sum::<u64>();
    let (made, succeeded) = (sum(|tally| tally.made), sum(|tally| tally.succeeded));
    for tally in &tallies {
        eprintln!("{:<30}{:>10} attempts{:>4} succeeded", tally.kind, tally.made, tally.succeeded);
    }
    eprintln!("{:<30}{made:>10} attempts{succeeded:>4} succeeded", "all");
    ensure!(made + 4 >= number, "{made} of {number} attempts");
    ensure!(succeeded == 0, "{succeeded} attempts succeeded");
    Ok(())
}
