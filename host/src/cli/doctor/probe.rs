//! Starts each server once, and asks for its tools within a time limit.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Check;
use super::clients::FoundServer;

/// The number of servers that run at the same time.
const PARALLEL: usize = 4;
/// The maximum length of a line of a server.
const MAX_LINE_BYTES: u64 = 64 << 20;
/// The part of the error output that is shown.
const MAX_ERROR_BYTES: u64 = 4096;
/// The time that a server has to end after its input is closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts all servers, and returns one check for each in their order.
pub(super) fn all(servers: &[FoundServer], timeout: Duration) -> Vec<Check> {
    let mut checks = Vec::new();
    for chunk in servers.chunks(PARALLEL) {
        thread::scope(|scope| {
            let running: Vec<_> =
                chunk.iter().map(|server| scope.spawn(|| one(server, timeout))).collect();
            for (server, thread) in chunk.iter().zip(running) {
                checks.push(thread.join().unwrap_or_else(|_| {
                    Check::failed("start", server.subject.as_str(), "the check itself failed")
                }));
            }
        });
    }
    checks
}

fn one(server: &FoundServer, timeout: Duration) -> Check {
    let started = Instant::now();
    let subject = server.subject.as_str();
    let mut process = match Process::start(server) {
        Ok(process) => process,
        Err(error) => {
            return Check::failed("start", subject, format!("cannot be started: {error}"))
                .advise("run its command in a terminal");
        }
    };
    let answer = process.list_tools(started + timeout);
    let errors = process.end();
    match answer {
        Ok(tools) => {
            let message =
                format!("{} in {} ms", super::count(tools, "tool"), started.elapsed().as_millis());
            Check::ok("start", subject, message)
        }
        Err(reason) => {
            let last = errors.lines().rev().find(|line| !line.trim().is_empty());
            let message = match last {
                Some(line) => format!("{reason}; its last line of errors: {}", line.trim()),
                None => reason,
            };
            Check::failed("start", subject, message).advise(format!(
                "run `{}` in a terminal",
                crate::cli::install::command_line(&server.command_line)
            ))
        }
    }
}

/// A server process and its output.
struct Process {
    child: Child,
    lines: Receiver<std::io::Result<Vec<u8>>>,
    errors: Receiver<String>,
}

impl Process {
    fn start(server: &FoundServer) -> std::io::Result<Self> {
        let (program, arguments) = server
            .command_line
            .split_first()
            .ok_or_else(|| std::io::Error::other("the command is empty"))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(server.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(folder) = &server.folder {
            command.current_dir(folder);
        }
        // Launchers such as npx start the server as a child, which must end with them.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let (send_line, lines) = sync_channel(16);
        let (send_errors, errors) = sync_channel(1);
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                let mut output = BufReader::new(output);
                loop {
                    let mut line = Vec::new();
                    let read = (&mut output).take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
                    let is_end = !matches!(read, Ok(1..));
                    if is_end || send_line.send(read.map(|_| line)).is_err() {
                        return;
                    }
                }
            });
        }
        if let Some(output) = child.stderr.take() {
            thread::spawn(move || {
                let mut last = Vec::new();
                let mut buffer = [0; 4096];
                let mut output = output;
                while let Ok(read @ 1..) = output.read(&mut buffer) {
                    last.extend_from_slice(buffer.get(..read).unwrap_or_default());
                    let excess = last.len().saturating_sub(MAX_ERROR_BYTES as usize);
                    last.drain(..excess);
                }
                let _ = send_errors.send(String::from_utf8_lossy(&last).into_owned());
            });
        }
        Ok(Self { child, lines, errors })
    }

    /// Returns the number of tools. Fails with the reason.
    fn list_tools(&mut self, deadline: Instant) -> Result<usize, String> {
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "context-guard doctor", "version": env!("CARGO_PKG_VERSION")},
        });
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello});
        let answer = self.request(&hello, deadline)?;
        let has_tools = answer.pointer("/capabilities/tools").is_some();
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        if !has_tools {
            return Ok(0);
        }
        let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}});
        let answer = self.request(&list, deadline)?;
        Ok(answer.get("tools").and_then(Value::as_array).map_or(0, Vec::len))
    }

    fn send(&mut self, message: &Value) -> Result<(), String> {
        let input = self.child.stdin.as_mut().ok_or("its input is closed")?;
        let written = writeln!(input, "{message}").and_then(|()| input.flush());
        written.map_err(|error| format!("it does not read: {error}"))
    }

    /// Sends a request, and returns the result of the answer with its id.
    fn request(&mut self, message: &Value, deadline: Instant) -> Result<Value, String> {
        let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
        self.send(message)?;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            let line = match self.lines.recv_timeout(rest) {
                Ok(Ok(line)) => line,
                Ok(Err(error)) => return Err(format!("its output cannot be read: {error}")),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("no answer to {method} in time (--timeout)"));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("it ended before it answered {method}"));
                }
            };
            let Ok(answer) = serde_json::from_slice::<Value>(&line) else { continue };
            if answer.get("id") != message.get("id") || answer.get("method").is_some() {
                continue;
            }
            if let Some(error) = answer.get("error") {
                let text = error.get("message").and_then(Value::as_str).unwrap_or_default();
                return Err(format!("it answers {method} with an error: {text}"));
            }
            return Ok(answer.get("result").cloned().unwrap_or_default());
        }
    }

    /// Ends the process and its children. Returns the end of its error output.
    fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + EXIT_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        #[cfg(unix)]
        if let Some(group) =
            i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.errors.recv_timeout(EXIT_TIMEOUT).unwrap_or_default()
    }
}
