//! Streamable HTTP: the stdio server behind gateways, and an HTTP server directly and behind our
//! gateway.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use context_guard_test_support::answer::Answer;
use context_guard_test_support::artifacts;
use context_guard_test_support::gateway::{Gateway, Process, Reply, agent};
use serde_json::{Value, json};

use crate::proxies::{self, Proxy, reading, server};
use crate::{peak, quantiles};

/// The amount of calls.
struct Amount {
    /// The rounds of calls in sequence, and the rounds of concurrent calls.
    turns: usize,
    /// The calls in sequence per round.
    calls: usize,
    /// The concurrent calls per round.
    concurrent_calls: u64,
}

/// The numbers of concurrent clients.
const CLIENTS: [usize; 3] = [1, 16, 64];

/// A session on one persistent connection.
struct Session {
    agent: ureq::Agent,
    url: String,
    id: String,
}

impl Session {
    fn open(url: &str) -> Result<Self> {
        let mut session = Self { agent: agent(), url: url.to_owned(), id: String::new() };
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}});
        let opened = session.post(&hello)?;
        ensure!(opened.status == 200, "{url}: {} {}", opened.status, opened.body);
        session.id = opened.header("mcp-session-id").to_owned();
        session.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(session)
    }

    fn post(&self, message: &Value) -> Result<Reply> {
        let mut request = self
            .agent
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-06-18");
        if !self.id.is_empty() {
            request = request.header("mcp-session-id", &self.id);
        }
        Reply::read(request.send(message.to_string())?)
    }

    fn call(&self, params: &Value) -> Result<Reply> {
        static LAST: AtomicU64 = AtomicU64::new(1);
        let id = LAST.fetch_add(1, Ordering::Relaxed);
        let reply = self
            .post(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))?;
        ensure!(reply.status == 200, "{}: {}", reply.status, reply.body);
        Ok(reply)
    }
}

/// A process that is killed when dropped.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct HttpMeasurement {
    name: &'static str,
    call: Value,
    session: Session,
    /// The most calls per second, by number of clients.
    sessions: Vec<Session>,
    pid: Option<u32>,
    times: Vec<Duration>,
    tokens: u64,
    calls_per_second: [f64; CLIENTS.len()],
}

impl HttpMeasurement {
    fn new(
        name: &'static str,
        url: &str,
        call: Value,
        pid: Option<u32>,
        expected: &str,
    ) -> Result<Self> {
        let session = Session::open(url).with_context(|| name)?;
        let answer: Answer = session.call(&call)?.answer()?;
        ensure!(answer.0.to_string().contains(expected), "{name}: {}", answer.0);
        let tokens = answer.tokens();
        Ok(Self {
            name,
            call,
            session,
            sessions: Vec::new(),
            pid,
            times: Vec::new(),
            tokens,
            calls_per_second: [0.0; CLIENTS.len()],
        })
    }

    fn round(&mut self, calls: usize) -> Result<()> {
        for _ in 0..calls {
            let begin = Instant::now();
            self.session.call(&self.call)?;
            self.times.push(begin.elapsed());
        }
        Ok(())
    }

    /// Measures calls per second of concurrent clients with one session each, and keeps the best
    /// round.
    fn measure_throughput(&mut self, calls: u64) -> Result<()> {
        for (at, clients) in CLIENTS.into_iter().enumerate() {
            let now = self.calls_per_second(clients, calls)?;
            if let Some(rate) = self.calls_per_second.get_mut(at) {
                *rate = rate.max(now);
            }
        }
        Ok(())
    }

    fn calls_per_second(&mut self, clients: usize, calls: u64) -> Result<f64> {
        while self.sessions.len() < clients {
            self.sessions.push(Session::open(&self.session.url)?);
        }
        let left = AtomicU64::new(calls);
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let call = &self.call;
            let working: Vec<_> = self
                .sessions
                .iter()
                .take(clients)
                .map(|session| {
                    let left = &left;
                    scope.spawn(move || -> Result<()> {
                        let take = |left: u64| left.checked_sub(1);
                        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
                        {
                            session.call(call)?;
                        }
                        Ok(())
                    })
                })
                .collect();
            working.into_iter().try_for_each(|working| {
                working.join().map_err(|_| anyhow::anyhow!("a client panicked"))?
            })
        })?;
        Ok(calls as f64 / begin.elapsed().as_secs_f64())
    }
}

fn start(proxy: &Proxy) -> Result<Running> {
    let (program, arguments) = proxy.command.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running(command.spawn().with_context(|| proxy.name)?);
    let url = proxy.url.as_deref().context("no address")?;
    let begin = Instant::now();
    while Session::open(url).is_err() {
        ensure!(begin.elapsed() < Duration::from_secs(90), "{} does not answer", proxy.name);
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(running)
}

pub(crate) fn run(folder: &Path, file: &Path) -> Result<()> {
    before_stdio(folder, file)?;
    before_http()
}

/// Starts the other proxies.
fn start_all(
    proxies: &[Proxy],
    call: &Value,
    expected: &str,
) -> Result<(Vec<HttpMeasurement>, Vec<Running>)> {
    let begin = |proxy: &Proxy| {
        eprintln!("Starting {}.", proxy.name);
        let process = start(proxy)?;
        let url = proxy.url.as_deref().context("no address")?;
        let pid = Some(process.0.id());
        Ok((HttpMeasurement::new(proxy.name, url, proxy.call(call), pid, expected)?, process))
    };
    let all: Result<Vec<_>> = proxies.iter().map(begin).collect();
    Ok(all?.into_iter().unzip())
}

fn ours(gateway: &Gateway, call: Value, expected: &str) -> Result<HttpMeasurement> {
    let pid = Some(gateway.process.pid());
    HttpMeasurement::new("context-guard serve", &gateway.url(), call, pid, expected)
}

fn before_stdio(folder: &Path, file: &Path) -> Result<()> {
    let server = server(folder)?;
    let stdio = json!([{"name": "files", "command": server, "isolation": "shared"}]);
    let gateway = Gateway::start(stdio, json!({}))?;
    let mut all = vec![ours(&gateway, reading(file), "bk_00001")?];
    let (others, _running) = start_all(&proxies::http(&server)?, &reading(file), "bk_00001")?;
    all.extend(others);
    measure(&mut all, &Amount { turns: 6, calls: 10, concurrent_calls: 64 })?;
    println!("\nThe same server behind gateways, over Streamable HTTP.\n");
    table(&mut all);
    Ok(())
}

fn before_http() -> Result<()> {
    let mut command = Command::new("node");
    command.arg(artifacts::root().join("examples/archive_server/server.mjs"));
    command.env("PEERS", artifacts::bench_peers()?).env("PORT", "0").env("JSON", "1");
    let archive = Process::start(command, true, "http://")?;
    let url = archive.output().trim().to_owned();
    let gateway = Gateway::start(json!([{"name": "archive", "url": url}]), json!({}))?;
    let call = json!({"name": "records", "arguments": {"count": 1_350}});
    let direct = HttpMeasurement::new("directly", &url, call.clone(), None, "\"text\"")?;
    let bytes = direct.session.call(&call)?.body.len();
    let mut all = vec![direct, ours(&gateway, call.clone(), "nextCursor")?];
    let (others, _running) = start_all(&proxies::before_http(url)?, &call, "record 1")?;
    all.extend(others);
    measure(&mut all, &Amount { turns: 6, calls: 40, concurrent_calls: 96 })?;
    println!(
        "\nA server on the npm package @modelcontextprotocol/server over Streamable HTTP, {} kB of JSON a call, directly and behind gateways.\n",
        bytes / 1_000
    );
    table(&mut all);
    Ok(())
}

fn measure(all: &mut [HttpMeasurement], amount: &Amount) -> Result<()> {
    for turn in 1..=amount.turns {
        eprintln!("Turn {turn} of {}.", amount.turns);
        all.iter_mut().try_for_each(|one| one.round(amount.calls))?;
        all.iter_mut().try_for_each(|one| one.measure_throughput(amount.concurrent_calls))?;
    }
    Ok(())
}

fn table(all: &mut [HttpMeasurement]) {
    println!(
        "| | median | p95 | calls a second, 1 at once | 16 | 64 | peak memory | tokens to the model |\n|---|--:|--:|--:|--:|--:|--:|--:|"
    );
    for one in all {
        let (median, p95) = quantiles(&mut one.times);
        println!(
            "| {} | {median:.1} ms | {p95:.1} ms | {:.0} | {:.0} | {:.0} | {} | {} |",
            one.name,
            one.calls_per_second[0],
            one.calls_per_second[1],
            one.calls_per_second[2],
            one.pid.and_then(peak).map_or_else(String::new, |mib| format!("{mib:.0} MiB")),
            one.tokens
        );
    }
}
