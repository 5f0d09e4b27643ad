//! The stdio transport: an upstream that is a child process, one message per line.

use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Weak};
use std::time::Duration;

use context_guard_protocol::answer::{resembles_answer, trim_padding};
use tokio::io::BufReader;
use tokio::process::{ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::error_output::LastLines;
use super::inbox::Inbox;
use super::line_writer::{LineWriter, PongSender, WriteError};
use super::processes::ProcessPlace;
use super::server::UpstreamServer;
use super::{Failure, error_output, process_command};
use crate::config::Isolation;
use crate::lines::{Lines, Piece};
use crate::message::{Head, replace_invalid_utf8, split_batch};
use crate::process_tree::ProcessTree;

/// The delay between the end of an upstream's output and the report of its end. Meanwhile the
/// process exits and its last errors arrive.
const REPORT_DELAY: Duration = Duration::from_millis(300);
/// The number of leading bytes of an oversized message that are searched for its id.
const ID_SEARCH_BYTES: usize = 200;

/// Sends messages to an upstream process. Dropping it ends the process.
pub(super) struct ChildProcess {
    name: String,
    input: LineWriter,
    /// The maximum time until the process has read a message.
    send_limit: Duration,
    /// A token that is cancelled to end the process.
    end: CancellationToken,
}

impl Drop for ChildProcess {
    /// Ends the process before `input` is dropped. A process that exits because its input was
    /// closed must not be reported as a failed upstream.
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl ChildProcess {
    /// Starts the process of an upstream in `place`, and the tasks that read its output into
    /// `inbox`. `owner` is the caller for whom the process runs.
    pub(super) fn start(
        server: &Arc<UpstreamServer>,
        owner: &Arc<str>,
        place: ProcessPlace,
        inbox: &Arc<Inbox>,
    ) -> Result<Self, Failure> {
        let name = &server.name;
        let failed = |reason| Failure::Unreachable(not_started(name, reason));
        let mut command = command(server).map_err(failed)?;
        let mut tree = ProcessTree::spawn(&mut command).map_err(|error| {
            failed(format!("`{}`: {error}", command.as_std().get_program().display()))
        })?;
        let child = tree.child();
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(failed("it has no standard input or output".to_owned()));
        };
        server.started();
        let (input, pongs, writer) = LineWriter::start(input);
        let reader = OutputReader { inbox: Arc::clone(inbox), pongs, server: Arc::clone(server) };
        let (upstream, level) = (name.clone(), server.config.stderr_level);
        let last_lines = Arc::new(LastLines::default());
        let supervisor = Supervisor {
            tree,
            end: place.end.clone(),
            _place: place,
            inbox: Arc::clone(inbox),
            writer,
            server: Arc::downgrade(server),
            name: name.clone(),
            owner: Arc::clone(owner),
            last_lines: Arc::clone(&last_lines),
            errors: tokio::spawn(async move {
                error_output::read(&upstream, level, errors, &last_lines).await;
            }),
        };
        let end = supervisor.end.clone();
        server.processes.spawn(supervisor.run(tokio::spawn(reader.run(output))));
        Ok(Self { name: name.clone(), input, send_limit: server.timeout(), end })
    }

    /// Sends a message to the standard input of the process. Waits until the process has read it,
    /// or its pipe contains it.
    pub(super) async fn send(&self, message: Vec<u8>) -> Result<(), Failure> {
        let (name, limit) = (&self.name, self.send_limit);
        self.input.send(message, limit).await.map_err(|error| match error {
            WriteError::Slow => Failure::Timeout(format!(
                "The upstream `{name}` did not read a message within {} s.",
                limit.as_secs()
            )),
            error => {
                Failure::Unavailable(format!("The upstream `{name}` no longer reads: {error}."))
            }
        })
    }
}

/// Returns the error text for an upstream whose process cannot be started.
pub(super) fn not_started(upstream: &str, reason: String) -> String {
    format!("The upstream `{upstream}` cannot be started: {reason}.")
}

/// Returns the command of an upstream, with pipes.
///
/// # Errors
/// The reason why the upstream has no command.
fn command(server: &UpstreamServer) -> Result<Command, String> {
    let launcher = server.processes.launcher();
    let command = process_command::upstream_command(&server.config, &server.folder, launcher)?;
    let mut command = Command::from(command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Waits for the end of an upstream process, or ends the process.
struct Supervisor {
    tree: ProcessTree,
    /// Cancelled when the connection is dropped, another process needs the permit, or the gateway
    /// stops.
    end: CancellationToken,
    _place: ProcessPlace,
    inbox: Arc<Inbox>,
    /// The task that writes to the standard input of the process.
    writer: JoinHandle<()>,
    server: Weak<UpstreamServer>,
    name: String,
    /// The caller for whom the process runs.
    owner: Arc<str>,
    last_lines: Arc<LastLines>,
    /// The task that reads the standard error of the process.
    errors: JoinHandle<()>,
}

impl Supervisor {
    /// Runs until the process has exited. `output` is the task that reads the standard output of
    /// the process.
    async fn run(mut self, mut output: JoinHandle<()>) {
        let is_unexpected = tokio::select! {
            _ = &mut output => !self.end.is_cancelled(),
            // The process has closed its input: it can answer no further request.
            _ = &mut self.writer => !self.end.is_cancelled(),
            () = self.end.cancelled() => false,
        };
        // Pending requests fail now rather than after the process has exited.
        let ended = Failure::Unavailable(format!("The upstream `{}` ended.", self.name));
        self.inbox.requests.end(&ended);
        // This closes the input, at which most servers exit.
        self.writer.abort();
        if is_unexpected && let Some(server) = self.server.upgrade() {
            // Descendants may hold the standard error open after the process has exited.
            let ended = async { tokio::join!(self.tree.child().wait(), &mut self.errors).0 };
            let status = match timeout(REPORT_DELAY, ended).await {
                Ok(status) => status.ok(),
                Err(_) => self.tree.child().try_wait().ok().flatten(),
            };
            let reason = describe_exit(status, &self.last_lines.take());
            server.connection_failed(&Failure::Unavailable(reason), &self.owner);
        }
        let status = self.tree.end().await;
        output.abort();
        self.errors.abort();
        debug!(upstream = self.name, ?status, "process exited");
    }
}

/// Describes the exit of a process for the log, with the last lines of its standard error.
fn describe_exit(status: Option<ExitStatus>, lines: &str) -> String {
    let status = status
        .map_or_else(|| "it closed its standard output".to_owned(), |status| status.to_string());
    if lines.is_empty() {
        format!("its process ended ({status}) and wrote nothing to standard error")
    } else {
        format!("its process ended ({status}); last lines of its standard error: {lines}")
    }
}

/// Reads the standard output of an upstream process into the inbox of its connection.
struct OutputReader {
    inbox: Arc<Inbox>,
    pongs: PongSender,
    server: Arc<UpstreamServer>,
}

impl OutputReader {
    async fn run(self, output: ChildStdout) {
        let max_bytes = self.server.max_bytes;
        let mut lines = Lines::with_max_bytes(BufReader::with_capacity(1 << 16, output), max_bytes);
        let mut in_oversized_line = false;
        loop {
            match lines.next().await {
                Ok(Piece::Line) => self.receive(lines.split().0).await,
                Ok(Piece::Part) => {
                    if !std::mem::replace(&mut in_oversized_line, true) {
                        warn!(
                            upstream = self.server.name,
                            "dropped a message of more than {max_bytes} bytes (limits.responseBytes)"
                        );
                        self.fail_oversized(lines.bytes());
                    }
                    in_oversized_line = !lines.bytes().ends_with(b"\n");
                }
                Ok(Piece::End) | Err(_) => return,
            }
        }
    }

    async fn receive(&self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let line = replace_invalid_utf8(line);
        let messages = split_batch(trim_padding(&line));
        let is_message = |message: &[u8]| match Head::read(message) {
            Some(head) => head.kind().is_some(),
            None => resembles_answer(message),
        };
        if !messages.iter().all(|message| is_message(message)) {
            self.server.invalid_output.report(&self.server.name, &line, "are dropped");
            return;
        }
        for message in messages {
            self.receive_message(message).await;
        }
    }

    async fn receive_message(&self, message: &[u8]) {
        // The process of one session may wait until its client reads. Others serve clients that
        // must not wait for a slow one.
        let can_wait = self.server.isolation == Isolation::Session;
        let reply = self.inbox.receive(message.to_vec(), None, can_wait).await;
        if let Some(reply) = reply {
            self.pongs.send(reply);
        }
    }

    /// Fails the request whose response is too large. `start` is the beginning of the response.
    fn fail_oversized(&self, start: &[u8]) {
        let text = String::from_utf8_lossy(start.get(..ID_SEARCH_BYTES).unwrap_or(start));
        let id = text.split_once("\"id\":").and_then(|(_, rest)| {
            rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        });
        let failure = Failure::TooLarge(format!(
            "The upstream `{}` answered with more than {} bytes (limits.responseBytes). Ask for less.",
            self.server.name, self.server.max_bytes
        ));
        match id {
            Some(id) => self.inbox.requests.fail(id, failure),
            // The id is at the end of the message, which is not read. Failing the latest request
            // may hit the wrong one, but leaves none waiting for an answer that never comes.
            None => self.inbox.requests.fail_last(failure),
        }
    }
}
