//! Over Streamable HTTP: the stdio server behind gateways, and an HTTP server directly and behind ours.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use context_guard_test_support::answer::Answer;
use context_guard_test_support::artifacts;
use context_guard_test_support::gateway::{Gateway, Process, Reply, agent};
use serde_json::{Value, json};

use crate::fronts::{self, Front, server};
use crate::{peak, quantiles};

const ROUNDS: usize = 6;
const CALLS: usize = 10;
const MANY: u64 = 96;

/// A session on one connection, which is kept.
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
        Reply::of(request.send(message.to_string())?)
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

/// A process that ends with this.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Measured {
    name: &'static str,
    call: Value,
    session: Session,
    pid: Option<u32>,
    times: Vec<Duration>,
    tokens: u64,
    a_second: [f64; 3],
}

impl Measured {
    fn new(
        name: &'static str,
        url: &str,
        call: Value,
        pid: Option<u32>,
        says: &str,
    ) -> Result<Self> {
        let session = Session::open(url).with_context(|| name)?;
        let answer: Answer = session.call(&call)?.answer()?;
        ensure!(answer.0.to_string().contains(says), "{name}: {}", answer.0);
        let tokens = answer.tokens();
        Ok(Self { name, call, session, pid, times: Vec::new(), tokens, a_second: [0.0; 3] })
    }

    fn round(&mut self) -> Result<()> {
        for _ in 0..CALLS {
            let begin = Instant::now();
            self.session.call(&self.call)?;
            self.times.push(begin.elapsed());
        }
        Ok(())
    }

    /// Calls a second by so many clients, each with a session of its own.
    fn many(&self, clients: u64) -> Result<f64> {
        let sessions: Result<Vec<Session>> =
            (0..clients).map(|_| Session::open(&self.session.url)).collect();
        let sessions = sessions?;
        let left = AtomicU64::new(MANY);
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let working: Vec<_> = sessions
                .iter()
                .map(|session| {
                    let left = &left;
                    scope.spawn(move || -> Result<()> {
                        let take = |left: u64| left.checked_sub(1);
                        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
                        {
                            session.call(&self.call)?;
                        }
                        Ok(())
                    })
                })
                .collect();
            working.into_iter().try_for_each(|working| {
                working.join().map_err(|_| anyhow::anyhow!("a client panicked"))?
            })
        })?;
        Ok(MANY as f64 / begin.elapsed().as_secs_f64())
    }
}

fn start(front: &Front) -> Result<Running> {
    let (program, arguments) = front.command.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running(command.spawn().with_context(|| front.name)?);
    let url = front.url.as_deref().context("no address")?;
    let begin = Instant::now();
    while Session::open(url).is_err() {
        ensure!(begin.elapsed() < Duration::from_secs(90), "{} does not answer", front.name);
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(running)
}

pub(crate) fn run(folder: &Path, file: &Path) -> Result<()> {
    let stdio = json!([{"name": "files", "command": server(folder)?, "isolation": "shared"}]);
    let ours = Gateway::start(stdio, json!({}))?;
    let call = json!({"name": "read_text_file", "arguments": {"path": file}});
    let mut all = vec![Measured::new(
        "context-guard serve",
        &ours.url(),
        call,
        Some(ours.process.pid()),
        "bk_00001",
    )?];
    let fronts = fronts::http(folder)?;
    let mut running = Vec::new();
    for front in &fronts {
        eprintln!("Starting {}.", front.name);
        let process = start(front)?;
        let url = front.url.as_deref().context("no address")?;
        all.push(Measured::new(
            front.name,
            url,
            front.call(file),
            Some(process.0.id()),
            "bk_00001",
        )?);
        running.push(process);
    }
    measure(&mut all)?;
    println!("\nThe same server behind gateways, over Streamable HTTP.\n");
    table(&mut all);
    drop((all, running, ours));

    let mut command = Command::new("node");
    command.arg(artifacts::root().join("examples/archive_server/server.mjs"));
    command.env("PEERS", artifacts::bench_peers()?).env("PORT", "0").env("JSON", "1");
    let archive = Process::start(command, true, "http://")?;
    let url = archive.said().trim().to_owned();
    let ours = Gateway::start(json!([{"name": "archive", "url": url}]), json!({}))?;
    let call = json!({"name": "records", "arguments": {"count": 650}});
    let mut all = vec![
        Measured::new("directly", &url, call.clone(), None, "\"text\"")?,
        Measured::new(
            "context-guard serve",
            &ours.url(),
            call,
            Some(ours.process.pid()),
            "nextCursor",
        )?,
    ];
    let bytes = all
        .first()
        .map(|direct| direct.session.call(&direct.call))
        .transpose()?
        .map_or(0, |reply| reply.body.len());
    measure(&mut all)?;
    println!(
        "\nA server on the npm package @modelcontextprotocol/server over Streamable HTTP, {} kB of JSON a call, directly and behind the gateway.\n",
        bytes / 1_000
    );
    table(&mut all);
    Ok(())
}

fn measure(all: &mut [Measured]) -> Result<()> {
    for round in 0..ROUNDS {
        eprintln!("Round {} of {ROUNDS}.", round + 1);
        all.iter_mut().try_for_each(Measured::round)?;
    }
    for one in all.iter_mut() {
        eprintln!("{}: many at once.", one.name);
        one.a_second = [one.many(1)?, one.many(16)?, one.many(64)?];
    }
    Ok(())
}

fn table(all: &mut [Measured]) {
    println!(
        "| | median | p95 | calls a second, 1 at once | 16 | 64 | peak memory | tokens to the model |\n|---|--:|--:|--:|--:|--:|--:|--:|"
    );
    for one in all {
        let (median, p95) = quantiles(&mut one.times);
        println!(
            "| {} | {median:.1} ms | {p95:.1} ms | {:.0} | {:.0} | {:.0} | {} | {} |",
            one.name,
            one.a_second[0],
            one.a_second[1],
            one.a_second[2],
            one.pid.and_then(peak).map_or_else(String::new, |mib| format!("{mib:.0} MiB")),
            one.tokens
        );
    }
}
