//! Measures what `wrap` costs: the time to the first message, and the memory of the process.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// The number of starts of each kind. They take turns.
const STARTS: usize = 40;
/// The number of calls whose answers are above the budget.
const CALLS: u32 = 100;

/// A session with a running server over its standard input and output.
struct Session {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Session {
    fn start(command: &[&OsStr]) -> Result<Self> {
        let (program, arguments) = command.split_first().context("the command is empty")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = child.stdin.take().context("no input")?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self { child, input, output })
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<usize> {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(self.input, "{message}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.len())
    }

    fn handshake(&mut self) -> Result<()> {
        let client = json!({"name": "measure", "version": "1"});
        let hello =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        self.request("initialize", &hello)?;
        Ok(())
    }

    /// Returns a value of /proc/PID/status in MB.
    fn memory(&self, name: &str) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().next());
        Ok(kilobytes.with_context(|| format!("no {name}"))?.parse::<f64>()? * 1024.0 / 1e6)
    }

    fn end(self) -> Result<()> {
        let Self { mut child, input, output } = self;
        drop((input, output));
        child.wait()?;
        Ok(())
    }
}

/// Returns the time from the start of a command to its first message.
fn first_message(command: &[&OsStr]) -> Result<Duration> {
    let started = Instant::now();
    let mut session = Session::start(command)?;
    session.handshake()?;
    let elapsed = started.elapsed();
    session.end()?;
    Ok(elapsed)
}

/// Returns the median and the 95th percentile, in milliseconds.
fn percentiles(times: &mut [Duration]) -> (f64, f64) {
    times.sort_unstable();
    let at = |share: usize| {
        let index = (times.len() * share / 100).min(times.len().saturating_sub(1));
        times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    (at(50), at(95))
}

/// Prints a table for a program.
pub(crate) fn print(program: &Path) -> Result<()> {
    let own = program.as_os_str();
    let server = [own, "example-server".as_ref()];
    let guarded = [&[own, "wrap".as_ref(), "--".as_ref()], server.as_slice()].concat();
    let first = first_message(&guarded)?;
    let (mut alone, mut behind) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        alone.push(first_message(&server)?);
        behind.push(first_message(&guarded)?);
    }
    let ((alone, alone_p95), (behind, behind_p95)) =
        (percentiles(&mut alone), percentiles(&mut behind));
    let mut session = Session::start(&guarded)?;
    session.handshake()?;
    // The guard is compiled, and its pool is filled, in the background.
    std::thread::sleep(Duration::from_secs(2));
    let (idle, size) = (session.memory("VmRSS:")?, session.memory("VmSize:")?);
    let call = json!({"name": "list_bookings", "arguments": {}});
    let mut bytes = 0;
    for _ in 0..CALLS {
        bytes += session.request("tools/call", &call)?;
    }
    let (busy, peak) = (session.memory("VmRSS:")?, session.memory("VmHWM:")?);
    let grown = session.memory("VmSize:")?;
    session.end()?;
    eprintln!(
        "| measure | value |\n|---|--:|\n\
         | first start in this environment | {:.0} ms |\n\
         | server alone, to the first message: median, p95 | {alone:.1}, {alone_p95:.1} ms |\n\
         | server behind `wrap`: median, p95 | {behind:.1}, {behind_p95:.1} ms |\n\
         | difference of the medians | {:.1} ms |\n\
         | resident memory of `wrap`, idle | {idle:.1} MB |\n\
         | after {CALLS} large calls ({} bytes each); peak | {busy:.1}; {peak:.1} MB |\n\
         | virtual size, idle; after the calls | {size:.0}; {grown:.0} MB |",
        first.as_secs_f64() * 1e3,
        behind - alone,
        bytes / CALLS as usize,
    );
    Ok(())
}
