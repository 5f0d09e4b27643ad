//! Hostile clients and upstreams beside well-behaved clients, one kind after the other, as a
//! Markdown table. The quiet run without an attacker comes first.
//!
//! Each client and the attacker have an API key of their own. `cargo xtask soak` builds what this
//! needs, and runs it.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints")]

mod attacks;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use context_guard_test_support::faulty_server::faulty_script;
use context_guard_test_support::gateway::Gateway;
use context_guard_test_support::load::{Clients, LoadTarget, number, resident};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure, peers};
use serde_json::json;

use self::attacks::{Attack, KINDS, Kind};

/// The time between two samples of memory.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
/// The maximum memory beside an attacker, in percent of that of the quiet run, and the size in KiB
/// that may be added to it: buffers within their limits are large beside an idle gateway.
const MAX_MEMORY_PERCENT: u64 = 150;
const ALLOWED_BUFFERS_KIB: u64 = 64 << 10;
/// The file descriptors that may remain: connections that the test program has not closed yet.
const ALLOWED_DESCRIPTORS: usize = 8;

/// The figures of one run.
struct Run {
    kind: &'static str,
    requests: u64,
    errors: u64,
    last_error: String,
    median_ms: f64,
    p99_ms: f64,
    /// The largest resident memory of the gateway, in KiB.
    memory_kib: u64,
    hostile: u64,
}

/// The settings of all runs.
struct Settings {
    clients: u32,
    pause: Duration,
    time: Duration,
    /// The requests of each client and of the attacker that the gateway admits in a minute; 0 for
    /// all.
    per_minute: u32,
}

fn main() -> Result<()> {
    let settings = Settings {
        clients: number("--clients", 200),
        pause: Duration::from_millis(number("--pause-ms", 2_000).into()),
        time: Duration::from_secs(number("--seconds", 18).into()),
        per_minute: number("--per-minute", 100),
    };
    let requests = 60_000 / settings.pause.as_millis().max(1);
    ensure!(
        settings.per_minute == 0 || requests <= settings.per_minute.into(),
        "each client sends {requests} requests per minute, more than --per-minute admits: raise \
         --pause-ms or --per-minute"
    );
    let keys = Keys::create(settings.clients)?;
    let quiet = run(None, &settings, &keys)?;
    println!(
        "{} clients, each with a request every {} ms, for {} s. {}.\n",
        settings.clients,
        settings.pause.as_millis(),
        settings.time.as_secs(),
        match settings.per_minute {
            0 => "No rate limit".to_owned(),
            requests => format!("At most {requests} requests per minute and principal"),
        }
    );
    println!("| kind | hostile requests | requests | errors | p50 | p99 | p99 / quiet | memory |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    print_row(&quiet, &quiet);
    let mut failures = check(&quiet, &quiet);
    for kind in KINDS {
        let run = run(Some(kind), &settings, &keys)?;
        print_row(&run, &quiet);
        failures.extend(check(&run, &quiet));
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// Runs well-behaved clients beside an attacker of one kind, and checks that nothing remains.
fn run(kind: Option<&'static Kind>, settings: &Settings, keys: &Keys) -> Result<Run> {
    let name = kind.map_or("quiet run", |kind| kind.name);
    let gateway = start(&keys.file, settings.per_minute)?;
    let pid = gateway.process.pid();
    let before = Remains::count(&gateway)?;
    let (url, tool) = (gateway.url(), attacks::LIST.to_owned());
    let target = LoadTarget { url, keys: keys.clients.clone(), tool };
    let clients = Clients::start_at(&target, settings.clients, settings.pause)?;
    let attack = kind.map(|kind| Attack::start(kind, &gateway, &keys.attacker)).transpose()?;
    let (began, mut memory_kib) = (Instant::now(), 0);
    while began.elapsed() < settings.time {
        std::thread::sleep(SAMPLE_INTERVAL);
        memory_kib = memory_kib.max(resident(pid)?);
    }
    let counts = clients.finish()?;
    let hostile = attack.map_or(Ok(0), Attack::finish)?;
    let [median_ms, p99_ms] = counts.quantiles([0.5, 0.99]);
    let run = Run {
        kind: name,
        requests: counts.requests.load(Ordering::Relaxed),
        errors: counts.errors.load(Ordering::Relaxed),
        last_error: counts.last_error(),
        median_ms,
        p99_ms,
        memory_kib,
        hostile,
    };
    let mut after = Remains::count(&gateway)?;
    let ended = wait_until("an end of all that the clients used", || {
        after = Remains::count(&gateway)?;
        Ok(after.is_within(&before))
    });
    ended.with_context(|| format!("{name}: {before:?} before, {after:?} after"))?;
    Ok(run)
}

/// The API keys, as values of the header `Authorization`.
struct Keys {
    file: PathBuf,
    clients: Vec<String>,
    attacker: String,
}

impl Keys {
    /// Creates a file with a key for each of `clients` clients and one for the attacker.
    fn create(clients: u32) -> Result<Self> {
        let file = peers::folder("soak")?.join("keys.json");
        let _ = std::fs::remove_file(&file);
        let attacker = key(&file, "attacker")?;
        let clients = (0..clients).map(|at| key(&file, &format!("client-{at}")));
        Ok(Self { clients: clients.collect::<Result<_>>()?, attacker, file })
    }
}

/// Creates an API key in `file`, and returns it as a value of the header `Authorization`.
fn key(file: &Path, name: &str) -> Result<String> {
    let mut command = Command::new(artifacts::program()?);
    let output = command.args(["key", "new", "--name", name, "--file"]).arg(file).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(format!("Bearer {}", String::from_utf8(output.stdout)?.trim()))
}

fn start(keys: &Path, per_minute: u32) -> Result<Gateway> {
    let faulty = json!(["node", faulty_script(), "--stdio"]);
    let upstreams = json!([
        {"name": "houses", "command": [artifacts::property_server()?], "isolation": "shared"},
        {"name": "faulty", "command": faulty},
    ]);
    let more = json!({
        "access": {"keys": keys, "rateLimit": {"perMinute": per_minute}},
        // Short, so that the end of idle sessions can be awaited.
        "limits": {"sessionIdleSeconds": 6},
        "timeouts": {"headSeconds": 3, "bodyPartSeconds": 5, "bodySeconds": 8, "idleSeconds": 6},
    });
    Gateway::start(upstreams, more)
}

/// The numbers of things that clients use in a gateway.
#[derive(Debug)]
struct Remains {
    processes: usize,
    descriptors: usize,
    sessions: u64,
}

impl Remains {
    fn count(gateway: &Gateway) -> Result<Self> {
        let pid = gateway.process.pid();
        let children = format!("/proc/{pid}/task/{pid}/children");
        // Other threads may have started processes, too.
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
        let lists = tasks.map(|task| task.path().join("children"));
        let lists = lists.filter_map(|path| std::fs::read_to_string(path).ok());
        let processes = lists.map(|list| list.split_whitespace().count()).sum();
        ensure!(Path::new(&children).exists(), "no {children}");
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"))?.count();
        let metrics = gateway.get_admin("/metrics")?.1;
        let line = metrics.lines().find(|line| line.starts_with("context_guard_sessions "));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        let sessions = value.context("no metric of sessions")?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let sessions = sessions as u64;
        Ok(Self { processes, descriptors, sessions })
    }

    /// Returns true if no more is used than before. The shared upstream, which starts with the
    /// first session, remains.
    fn is_within(&self, before: &Self) -> bool {
        self.processes <= before.processes + 1
            && self.descriptors <= before.descriptors + ALLOWED_DESCRIPTORS
            && self.sessions <= before.sessions
    }
}

#[allow(clippy::cast_precision_loss, reason = "figures of a report")]
fn print_row(run: &Run, quiet: &Run) {
    println!(
        "| {} | {} | {} | {} | {:.1} ms | {:.1} ms | {:.2} | {:.2} |",
        run.kind,
        run.hostile,
        run.requests,
        run.errors,
        run.median_ms,
        run.p99_ms,
        run.p99_ms / quiet.p99_ms.max(0.1),
        run.memory_kib as f64 / quiet.memory_kib.max(1) as f64
    );
}

/// Returns the failures of a run. Times are reported only: they depend on the machine.
fn check(run: &Run, quiet: &Run) -> Vec<String> {
    let mut failures = Vec::new();
    if run.errors > 0 || run.requests == 0 {
        let (errors, requests) = (run.errors, run.requests);
        failures.push(format!("{}: {errors} errors of {requests}: {}", run.kind, run.last_error));
    }
    let max_kib = quiet.memory_kib * MAX_MEMORY_PERCENT / 100 + ALLOWED_BUFFERS_KIB;
    if run.memory_kib > max_kib {
        failures.push(format!("{}: {} KiB of memory, over {max_kib}", run.kind, run.memory_kib));
    }
    failures
}

/// The counter of an attack's requests or connections.
type Hostile = Arc<std::sync::atomic::AtomicU64>;
