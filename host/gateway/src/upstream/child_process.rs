//! The stdio transport: an upstream that is a child process, one message per line.

use std::process::Stdio;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;
use tracing::{debug, info, warn};

use super::Failure;
use super::inbox::Inbox;
use super::server::UpstreamServer;
use crate::lines::{Lines, Piece};
use crate::message::{Head, replace_invalid_utf8};

/// The maximum time that an upstream process may take to exit after its standard input was closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);
/// The maximum number of characters that are logged of an output line that is not a JSON-RPC
/// message.
const MAX_LOGGED_CHARS: usize = 200;
/// The number of leading bytes of an oversized message that are searched for its id.
const ID_SEARCH_BYTES: usize = 200;

/// A running upstream process, to which messages can be sent. Dropping it closes the standard input
/// of the process.
pub(super) struct ChildProcess {
    name: String,
    input: Arc<Mutex<ChildStdin>>,
}

impl ChildProcess {
    /// Starts the process of an upstream, and the tasks that read its output into `inbox`.
    pub(super) fn start(server: &Arc<UpstreamServer>, inbox: &Arc<Inbox>) -> Result<Self, Failure> {
        let config = &server.config;
        let failed = |reason: String| {
            Failure::Unavailable(format!(
                "The upstream `{}` cannot be started: {reason}.",
                config.name
            ))
        };
        let (program, arguments) =
            config.command.split_first().ok_or_else(|| failed("no command".to_owned()))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(config.env.iter().map(|(name, value)| (name, value.expose())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(cwd) = &config.cwd {
            command.current_dir(server.folder.join(cwd));
        }
        let mut child = command.spawn().map_err(|error| failed(format!("`{program}`: {error}")))?;
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(failed("it has no standard input or output".to_owned()));
        };
        server.started();
        let input = Arc::new(Mutex::new(input));
        let reader = OutputReader {
            name: config.name.clone(),
            inbox: Arc::clone(inbox),
            input: Arc::downgrade(&input),
            server: Arc::downgrade(server),
            max_bytes: server.max_bytes,
        };
        tokio::spawn(log_errors(config.name.clone(), errors));
        tokio::spawn(reader.run(child, output));
        Ok(Self { name: config.name.clone(), input })
    }

    /// Sends a message to the standard input of the process.
    pub(super) async fn send(&self, message: &[u8]) -> Result<(), Failure> {
        let mut input = self.input.lock().await;
        write_line(&mut input, message).await.map_err(|error| {
            Failure::Unavailable(format!("The upstream `{}` no longer reads: {error}.", self.name))
        })
    }
}

/// Writes a message as one line. Line breaks between its JSON tokens become spaces, because they
/// would end the line too early.
async fn write_line(to: &mut ChildStdin, message: &[u8]) -> std::io::Result<()> {
    let is_line_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
    if message.iter().any(is_line_break) {
        let line: Vec<u8> =
            message.iter().map(|byte| if is_line_break(byte) { b' ' } else { *byte }).collect();
        to.write_all(&line).await?;
    } else {
        to.write_all(message).await?;
    }
    to.write_all(b"\n").await?;
    to.flush().await
}

/// Reads the standard output of an upstream process into the inbox of its connection.
struct OutputReader {
    name: String,
    inbox: Arc<Inbox>,
    /// The standard input of the process, for answers to pings. Weak, so that it closes when the
    /// connection is dropped.
    input: Weak<Mutex<ChildStdin>>,
    server: Weak<UpstreamServer>,
    max_bytes: usize,
}

impl OutputReader {
    async fn run(self, mut child: Child, output: ChildStdout) {
        let mut lines =
            Lines::with_max_bytes(BufReader::with_capacity(1 << 16, output), self.max_bytes);
        let mut in_oversized_line = false;
        loop {
            match lines.next().await {
                Ok(Piece::Line) => self.receive(lines.split().0).await,
                Ok(Piece::Part) => {
                    if !std::mem::replace(&mut in_oversized_line, true) {
                        warn!(
                            upstream = self.name,
                            "dropped a message of more than {} bytes (limits.responseBytes)",
                            self.max_bytes
                        );
                        self.fail_oversized(lines.bytes());
                    }
                    in_oversized_line = !lines.bytes().ends_with(b"\n");
                }
                Ok(Piece::End) | Err(_) => break,
            }
        }
        // Checked before requests fail: failed requests may drop the connection.
        let in_use = self.input.strong_count() > 0;
        // Pending requests fail now rather than after the process has exited.
        let ended = Failure::Unavailable(format!("The upstream `{}` ended.", self.name));
        self.inbox.requests.end(&ended);
        let status = match tokio::time::timeout(EXIT_TIMEOUT, child.wait()).await {
            Ok(status) => status.ok(),
            Err(_) => {
                let _ = child.kill().await;
                None
            }
        };
        if !in_use {
            debug!(upstream = self.name, ?status, "process exited");
            return;
        }
        warn!(upstream = self.name, ?status, "process exited unexpectedly");
        if let Some(server) = self.server.upgrade() {
            server.failed(&ended);
        }
    }

    async fn receive(&self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let line = replace_invalid_utf8(line);
        if Head::read(&line).is_none() {
            let start: String =
                String::from_utf8_lossy(&line).chars().take(MAX_LOGGED_CHARS).collect();
            info!(upstream = self.name, "not a JSON-RPC message: {start}");
            return;
        }
        let reply = self.inbox.receive(line.into_owned(), None);
        if let (Some(reply), Some(input)) = (reply, self.input.upgrade()) {
            let _ = write_line(&mut *input.lock().await, &reply).await;
        }
    }

    /// Fails the request whose response is too large. `start` is the beginning of that response.
    fn fail_oversized(&self, start: &[u8]) {
        let text = String::from_utf8_lossy(start.get(..ID_SEARCH_BYTES).unwrap_or(start));
        let id = text.split_once("\"id\":").and_then(|(_, rest)| {
            rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        });
        let failure = Failure::TooLarge(format!(
            "The upstream `{}` answered with more than {} bytes (limits.responseBytes). Ask for less.",
            self.name, self.max_bytes
        ));
        match id {
            Some(id) => self.inbox.requests.fail(id, failure),
            // The id is at the end of the message, which is not read. Failing the latest request
            // may hit the wrong one, but leaves none waiting for an answer that never comes.
            None => self.inbox.requests.fail_last(failure),
        }
    }
}

/// Logs each line that the upstream with this name writes to its standard error.
async fn log_errors(name: String, errors: ChildStderr) {
    let mut lines = BufReader::new(errors).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        info!(upstream = name, "{line}");
    }
}
