//! Several replicas of a gateway behind a load balancer without stickiness, as real processes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use context_guard_test_support::balancer::Balancer;
use context_guard_test_support::gateway::{
    ConformanceServer, Gateway, HttpClient, StreamedResponse, post,
};
use context_guard_test_support::peers;
use context_guard_test_support::redis::Redis;
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Error, Result, artifacts, bail, ensure};
use serde_json::{Value, json};

/// The number of replicas.
pub(super) const REPLICAS: usize = 3;

/// The replicas of a gateway with one configuration.
pub(super) struct Replicas {
    pub(super) upstreams: Value,
    pub(super) settings: Value,
    pub(super) running: Vec<Gateway>,
    pub(super) balancer: Balancer,
}

impl Replicas {
    pub(super) fn start(upstreams: Value, redis: &Redis, more: &Value) -> Result<Self> {
        let mut settings = json!({
            "fleet": {"listen": "127.0.0.1:0", "replicas": REPLICAS},
            "store": {"url": redis.url()},
            "limits": {
                "processesPerPrincipal": 256,
                "sessionsPerPrincipal": 10_000,
                "perPrincipal": 256,
                "drainSeconds": 5,
            },
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            settings[name] = value.clone();
        }
        let mut replicas =
            Self { upstreams, settings, running: Vec::new(), balancer: Balancer::start()? };
        for _ in 0..REPLICAS {
            let replica = replicas.launch()?;
            replicas.running.push(replica);
        }
        replicas.balance();
        Ok(replicas)
    }

    fn launch(&self) -> Result<Gateway> {
        Gateway::start(self.upstreams.clone(), self.settings.clone())
    }

    fn balance(&self) {
        self.balancer.set_servers(self.running.iter().map(|replica| replica.base.as_str()));
    }

    /// Kills the first replica without a warning (`kill -9`), and starts another one.
    fn kill_one(&mut self) -> Result<()> {
        drop(self.running.remove(0));
        let replica = self.launch()?;
        self.running.push(replica);
        self.balance();
        Ok(())
    }

    /// Restarts all replicas, one after the other.
    fn restart_all(&mut self) -> Result<()> {
        for _ in 0..self.running.len() {
            let restarted = self.running.remove(0).restart()?;
            self.running.push(restarted);
            self.balance();
        }
        Ok(())
    }
}

/// The outcome of the requests of many clients.
#[derive(Default)]
struct Outcome {
    answered: AtomicUsize,
    /// For each client, by its number, how often it opened a new session after a failure.
    restarts: Mutex<HashMap<usize, usize>>,
    errors: Mutex<Vec<String>>,
    /// The number of answers whose stream had begun, and ended without them.
    cut: AtomicUsize,
}

impl Outcome {
    fn fail(&self, error: String) {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).push(error);
    }

    /// Reports answers that were lost although their replica was not killed. `broken` is the number
    /// of responses that a killed replica had begun.
    fn check_cut(&self, broken: usize) {
        let cut = self.cut.load(Ordering::Relaxed);
        if cut > broken {
            self.fail(format!("{cut} answers were cut, {broken} of them by a killed replica"));
        }
    }

    /// Returns the first errors, and the largest number of restarts of a client.
    fn report(&self) -> (Vec<String>, usize) {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let restarts = self.restarts.lock().unwrap_or_else(PoisonError::into_inner);
        (errors.iter().take(3).cloned().collect(), restarts.values().copied().max().unwrap_or(0))
    }
}

/// Sends a call in a session, and returns the status and the answer.
fn send(url: &str, session: &HttpClient, call: &Value, id: usize) -> Result<(u16, Value)> {
    let headers = [
        ("accept", "application/json, text/event-stream"),
        ("mcp-session-id", session.session.as_str()),
        ("mcp-protocol-version", session.version.as_str()),
    ];
    let base = url.trim_end_matches("/mcp");
    StreamedResponse::send(base, "POST", &headers, &call.to_string())?.read_answer(id)
}

/// Sends requests as one client, which begins again if its session is gone.
fn run_client(url: &str, client: usize, requests: usize, tool: &str, outcome: &Outcome) {
    let open = || HttpClient::open(url, &[], json!({}));
    let mut session = match open() {
        Ok(session) => session,
        Err(error) => return outcome.fail(format!("initialize: {error}")),
    };
    for id in 1..=requests {
        let call = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": tool, "arguments": {}},
        });
        let mut reply = send(url, &session, &call, id);
        if matches!(reply, Ok((404, _))) {
            *outcome
                .restarts
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(client)
                .or_default() += 1;
            session = match open() {
                Ok(session) => session,
                Err(error) => return outcome.fail(format!("initialize again: {error}")),
            };
            reply = send(url, &session, &call, id);
        }
        let checked = reply.and_then(|(status, answer)| {
            ensure!(status == 200, "status {status}");
            ensure!(
                answer.get("result").is_some_and(|result| result["isError"] != true),
                "{answer}"
            );
            Ok(())
        });
        match checked {
            Err(error) if error.to_string().starts_with("no answer") => {
                outcome.cut.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => outcome.fail(format!("client {client}, request {id}: {error:#}")),
            Ok(()) => {}
        }
        outcome.answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs clients against the replicas, while one is killed and all are restarted. Only streams that
/// the killed replica had begun may end without an answer: no other replica can continue them.
fn run(replicas: &mut Replicas, clients: usize, requests: usize, tool: &str) -> Result<Outcome> {
    let (outcome, url) = (Outcome::default(), replicas.balancer.url());
    let (next, mut broken_by_kill) = (AtomicUsize::new(0), 0);
    std::thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(|| {
                    let client = next.fetch_add(1, Ordering::Relaxed);
                    run_client(&url, client, requests, tool, &outcome);
                })
            })
            .collect();
        // All clients end, so that this does too, however slow the machine is.
        let reach = |share: usize| {
            while outcome.answered.load(Ordering::Relaxed) < clients * requests * share / 100
                && threads.iter().any(|thread| !thread.is_finished())
            {
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        reach(20);
        replicas.kill_one()?;
        reach(50);
        broken_by_kill = replicas.balancer.broken();
        replicas.restart_all()?;
        for thread in threads {
            thread.join().map_err(|_| Error::msg("a client panicked"))?;
        }
        Ok(())
    })?;
    outcome.check_cut(broken_by_kill);
    Ok(outcome)
}

#[test]
fn http_sessions_survive_their_replica() -> Result<()> {
    let (redis, server) = (Redis::start("fleet-http", &[])?, ConformanceServer::start()?);
    let upstreams = json!([{"name": "conf", "url": server.url, "era": "legacy"}]);
    let mut replicas = Replicas::start(upstreams, &redis, &json!({}))?;
    let outcome = run(&mut replicas, 100, 100, "test_simple_text")?;
    let (errors, restarts) = outcome.report();
    ensure!(errors.is_empty(), "{errors:#?}");
    ensure!(restarts == 0, "a client had to begin again");
    ensure!(outcome.answered.load(Ordering::Relaxed) == 10_000);
    ensure!(replicas.balancer.retries() > 0, "no replica was ever away");
    Ok(())
}

#[test]
fn sessions_with_several_upstreams_survive_their_replica() -> Result<()> {
    let redis = Redis::start("fleet-several", &[])?;
    let (one, two) = (ConformanceServer::start()?, ConformanceServer::start()?);
    let upstreams = json!([
        {"name": "one", "url": one.url, "era": "legacy"},
        {"name": "two", "url": two.url, "era": "legacy"},
    ]);
    let mut replicas = Replicas::start(upstreams, &redis, &json!({}))?;
    let outcome = run(&mut replicas, 50, 40, "two__test_simple_text")?;
    let (errors, restarts) = outcome.report();
    ensure!(errors.is_empty(), "{errors:#?}");
    ensure!(restarts == 0, "a client had to begin again");
    Ok(())
}

#[test]
fn sessions_with_processes_begin_again_once() -> Result<()> {
    let redis = Redis::start("fleet-processes", &[])?;
    let upstreams = json!([{"name": "houses", "command": [artifacts::property_server()?]}]);
    let mut replicas = Replicas::start(upstreams, &redis, &json!({}))?;
    // Each replica is replaced once, so that each process ends at most once.
    let (outcome, url) = (Outcome::default(), replicas.balancer.url());
    std::thread::scope(|scope| -> Result<()> {
        let outcome = &outcome;
        let clients: Vec<_> = (0..30)
            .map(|client| {
                let url = &url;
                scope.spawn(move || run_client(url, client, 60, "list_bookings", outcome))
            })
            .collect();
        wait_until("requests", || Ok(outcome.answered.load(Ordering::Relaxed) >= 600))?;
        replicas.kill_one()?;
        for client in clients {
            client.join().map_err(|_| Error::msg("a client panicked"))?;
        }
        Ok(())
    })?;
    outcome.check_cut(replicas.balancer.broken());
    let (errors, restarts) = outcome.report();
    ensure!(errors.is_empty(), "{errors:#?}");
    ensure!(restarts == 1, "a client began again {restarts} times");
    let begun = outcome.restarts.lock().map_err(|_| Error::msg("poisoned"))?.len();
    ensure!(begun < 30, "the processes of other replicas have ended too");
    Ok(())
}

#[test]
fn session_of_another_principal_is_rejected() -> Result<()> {
    let redis = Redis::start("fleet-principals", &[])?;
    let server = ConformanceServer::start()?;
    let folder = peers::folder("fleet-keys")?;
    let keys = folder.join("keys.json");
    let new_key = |name: &str| -> Result<String> {
        let output = std::process::Command::new(artifacts::program()?)
            .args(["key", "new", "--name", name, "--file"])
            .arg(&keys)
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let (ann, bob) = (new_key("ann")?, new_key("bob")?);
    let upstreams = json!([{"name": "conf", "url": server.url, "era": "legacy"}]);
    let access = json!({"keys": keys, "rateLimit": {"perMinute": 0}});
    let replicas = Replicas::start(upstreams, &redis, &json!({"access": access}))?;
    let first = format!("{}/mcp", replicas.running[0].base);
    let second = format!("{}/mcp", replicas.running[1].base);
    let mut client = HttpClient::open(&first, &[("x-api-key", &ann)], json!({}))?;
    ensure!(client.session.len() <= 1_500, "{} bytes", client.session.len());
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "test_simple_text", "arguments": {}},
    });
    for url in [&first, &second] {
        client.url.clone_from(url);
        client.headers = vec![("x-api-key".to_owned(), ann.clone())];
        ensure!(client.send(&call)?.status == 200);
        client.headers = vec![("x-api-key".to_owned(), bob.clone())];
        ensure!(client.send(&call)?.status == 404, "bob used the session of ann");
    }
    // A changed id is invalid, too.
    client.headers = vec![("x-api-key".to_owned(), ann)];
    let valid = client.session.clone();
    for (at, found) in valid.char_indices().skip(30).step_by(40) {
        let other = if found == 'A' { "B" } else { "A" };
        client.session.clone_from(&valid);
        client.session.replace_range(at..=at, other);
        ensure!(client.send(&call)?.status == 404, "changed at {at}");
    }
    Ok(())
}

/// Asks for input over the stream of a call: the answer reaches another replica than the question.
#[test]
fn answers_to_questions_reach_their_replica() -> Result<()> {
    let redis = Redis::start("fleet-questions", &[])?;
    let (one, two) = (ConformanceServer::start()?, ConformanceServer::start()?);
    let upstreams = json!([
        {"name": "one", "url": one.url, "era": "legacy"},
        {"name": "two", "url": two.url, "era": "legacy"},
    ]);
    let mut replicas = Replicas::start(upstreams, &redis, &json!({}))?;
    let capabilities = json!({"elicitation": {}});
    let mut client = HttpClient::open(&replicas.balancer.url(), &[], capabilities)?;
    let call = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "two__test_elicitation", "arguments": {"message": "who?"}},
    });
    let headers = |client: &HttpClient| {
        let accept = ("accept".to_owned(), "application/json, text/event-stream".to_owned());
        let session = ("mcp-session-id".to_owned(), client.session.clone());
        vec![accept, session]
    };
    let ask = |client: &HttpClient, base: &str| -> Result<(StreamedResponse, Value)> {
        let headers = headers(client);
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut response = StreamedResponse::send(base, "POST", &headers, &call.to_string())?;
        let question = response.read_data("elicitation/create")?;
        Ok((response, serde_json::from_str(&question)?))
    };
    let answer = |question: &Value| {
        let content = json!({"username": "ann", "email": "ann@example.org", "name": "ann"});
        let result = json!({"action": "accept", "content": content});
        json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
    };
    let base = replicas.running[0].base.clone();
    for other in 1..REPLICAS {
        let (mut response, question) = ask(&client, &base)?;
        client.url = format!("{}/mcp", replicas.running[other].base);
        let accepted = client.send(&answer(&question))?;
        ensure!(accepted.status == 202, "{}: {}", accepted.status, accepted.body);
        let result = response.read_data("\"id\":7")?;
        ensure!(result.contains("accept"), "{result}");
    }
    // The owner is gone: the answer says so, and the session remains usable.
    let (response, question) = ask(&client, &base)?;
    replicas.kill_one()?;
    drop(response);
    client.url = format!("{}/mcp", replicas.running[0].base);
    let refused = client.send(&answer(&question))?;
    ensure!(refused.status == 400 && refused.body.contains("is gone"), "{}", refused.body);
    client.call("one__test_simple_text", json!({}))?;
    Ok(())
}

#[test]
fn streams_are_resumed_at_their_replica() -> Result<()> {
    let redis = Redis::start("fleet-streams", &[])?;
    let (one, two) = (ConformanceServer::start()?, ConformanceServer::start()?);
    let upstreams = json!([
        {"name": "one", "url": one.url, "era": "legacy"},
        {"name": "two", "url": two.url, "era": "legacy"},
    ]);
    let mut replicas = Replicas::start(upstreams, &redis, &json!({}))?;
    let client = HttpClient::open(&replicas.balancer.url(), &[], json!({}))?;
    let session = [("mcp-session-id", client.session.as_str())];
    let call = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {
            "name": "one__test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": 1},
        },
    });
    let headers =
        [session[0], ("accept", "application/json, text/event-stream"), ("connection", "close")];
    let base = replicas.running[0].base.clone();
    let mut response = StreamedResponse::send(&base, "POST", &headers, &call.to_string())?;
    response.read_until("\nid: ")?;
    response.read_until("\"id\":7")?;
    let text = response.read_to_end()?;
    let first = text.lines().find_map(|line| line.strip_prefix("id: ")).context("no event id")?;
    ensure!(first.contains('~'), "the id names no replica: {first}");
    let resume = |base: &str, last: &str| {
        let headers = [
            session[0],
            ("accept", "text/event-stream"),
            ("last-event-id", last),
            ("connection", "close"),
        ];
        StreamedResponse::send(base, "GET", &headers, "")
    };
    for replica in &replicas.running {
        let mut resumed = resume(&replica.base, first)?;
        resumed.read_data("\"id\":7")?;
    }
    let forged = resume(&replicas.running[1].base, "AAAA~1-0")?.read_to_end()?;
    ensure!(forged.starts_with("HTTP/1.1 400"), "{forged}");
    replicas.kill_one()?;
    let gone = resume(&replicas.running[0].base, first)?.read_to_end()?;
    ensure!(gone.starts_with("HTTP/1.1 400") && gone.contains("is gone"), "{gone}");
    Ok(())
}

#[test]
fn ended_session_is_not_restored() -> Result<()> {
    let redis = Redis::start("fleet-ended", &[])?;
    let (one, two) = (ConformanceServer::start()?, ConformanceServer::start()?);
    let upstreams = json!([
        {"name": "one", "url": one.url, "era": "legacy"},
        {"name": "two", "url": two.url, "era": "legacy"},
    ]);
    let replicas = Replicas::start(upstreams, &redis, &json!({}))?;
    let at = |index: usize| format!("{}/mcp", replicas.running[index].base);
    let mut client = HttpClient::open(&at(0), &[], json!({}))?;
    client.call("one__test_simple_text", json!({}))?;
    let headers = [("mcp-session-id", client.session.as_str())];
    // Another replica than the one that began it ends the session.
    let response = StreamedResponse::send(&replicas.running[1].base, "DELETE", &headers, "")?;
    let mut response = response;
    response.read_until("\r\n\r\n")?;
    for index in 0..REPLICAS {
        client.url = at(index);
        let call = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"});
        let reply = client.send(&call)?;
        ensure!(reply.status == 404, "replica {index}: {} {}", reply.status, reply.body);
    }
    Ok(())
}

/// Returns how many of `attempts` requests to the replicas in turn are admitted.
fn admitted(replicas: &Replicas, attempts: usize) -> Result<usize> {
    let mut count = 0;
    for attempt in 0..attempts {
        let base = &replicas.running[attempt % REPLICAS].base;
        // An admitted request is refused for its content.
        match post(&format!("{base}/mcp"), &[], "{}")?.status {
            429 => {}
            400 => count += 1,
            status => bail!("status {status}"),
        }
    }
    Ok(count)
}

#[test]
fn rate_limits_hold_for_all_replicas() -> Result<()> {
    let (mut redis, server) = (Redis::start("fleet-rates", &[])?, ConformanceServer::start()?);
    let upstreams = json!([{"name": "conf", "url": server.url, "era": "legacy"}]);
    // The rate adds one request every 5 s to the burst, which is next to none during this test.
    let limit = json!({"rateLimit": {"perMinute": 12, "burst": 500}});
    let more = json!({"access": limit});
    let replicas = Replicas::start(upstreams, &redis, &more)?;
    let count = admitted(&replicas, 900)?;
    // Three limits of their own would admit all. Each replica may return a part of its last lease
    // of 16 requests too late for the others.
    ensure!((450..600).contains(&count), "{count} of 500 were admitted");
    let more = admitted(&replicas, 30)?;
    ensure!(count + more < 600, "{count} and {more} of 500 were admitted");
    // Without Redis, each replica has its share of 166, and was not asked for any of it yet.
    redis.down();
    for replica in &replicas.running {
        wait_until("the end of Redis", || {
            // The gateway notices it with the next heartbeat or request. The last refusal of Redis
            // holds for a few seconds.
            let is_admitted = post(&replica.url(), &[], "{}")?.status == 400;
            let (_, metrics) = replica.get_admin("/metrics")?;
            Ok(is_admitted && metrics.contains("context_guard_store_up 0"))
        })?;
    }
    let count = admitted(&replicas, 900)?;
    ensure!((400..600).contains(&count), "{count} were admitted without Redis");
    Ok(())
}

/// Reads pages while Redis is frozen, read-only and full. All answers are right, or say that the
/// data cannot be reached.
#[test]
fn failing_redis_is_reported_and_fails_no_call() -> Result<()> {
    let redis = Redis::start("fleet-frozen", &[])?;
    let upstreams = json!([
        {"name": "houses", "command": [artifacts::property_server()?], "isolation": "shared"},
    ]);
    let replicas = Replicas::start(upstreams, &redis, &json!({}))?;
    let replica = &replicas.running[0];
    let mut client = HttpClient::open(&replica.url(), &[], json!({}))?;
    let mut call = || -> Result<()> {
        let answer = client.call("list_bookings", json!({"limit": 20}))?;
        ensure!(!answer.is_error() && answer.json()?["bookings"].is_array(), "{}", answer.0);
        Ok(())
    };
    call()?;
    let state = |up: bool| {
        let expected = format!("context_guard_store_up {}", u8::from(up));
        Ok(replica.get_admin("/metrics")?.1.contains(&expected))
    };
    redis.freeze(true)?;
    call()?;
    ensure!(state(false)?, "the frozen server counts as up");
    call()?;
    redis.freeze(false)?;
    wait_until("a server that answers", || state(true))?;
    // A server that became a replica refuses writes.
    redis.ask(&["replicaof", "127.0.0.1", "1"])?;
    wait_until("a read-only server", || call().and_then(|_| state(false)))?;
    redis.ask(&["replicaof", "no", "one"])?;
    wait_until("a server that accepts writes", || state(true))?;
    redis.ask(&["config", "set", "maxmemory", "1"])?;
    let has_logged = |change: &str| replica.process.output().contains(change);
    wait_until("a full server", || call().map(|()| has_logged("the cursor store is full")))?;
    for change in [
        "the cursor store cannot be reached: no answer to a ping",
        "read only replica",
        "the cursor store is reachable again",
    ] {
        wait_until(change, || Ok(has_logged(change)))?;
    }
    let alerts = replica.get_admin("/admin/v1/alerts")?.1;
    ensure!(alerts.contains("store-down"), "{alerts}");
    Ok(())
}

/// The files for operators contain gateway files that are valid.
#[test]
fn deployment_files_are_valid() -> Result<()> {
    let packaging = artifacts::root().join("packaging/fleet");
    let manifest = std::fs::read_to_string(packaging.join("kubernetes.yaml"))?;
    let (_, file) = manifest.split_once("gateway.yaml: |\n").context("no gateway file")?;
    let lines = file.lines().take_while(|line| line.starts_with("    "));
    let embedded: String =
        lines.map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect();
    let folder = peers::folder("fleet-files")?;
    let copy = folder.join("gateway.yaml");
    std::fs::write(&copy, embedded)?;
    for file in [packaging.join("gateway.yaml"), copy] {
        let output = std::process::Command::new(artifacts::program()?)
            .args(["config", "check"])
            .arg(&file)
            .env("STORE_URL", "redis://redis:6379/0")
            .env("SIGNING_KEY", "a key of the test")
            .env("ADMIN_TOKEN", "a token")
            .env("CONTEXT_GUARD__FLEET__ADDRESS", "10.0.0.7:8810")
            .output()?;
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{}: {printed}", file.display());
    }
    Ok(())
}
