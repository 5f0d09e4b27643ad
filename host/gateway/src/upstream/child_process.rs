//! An upstream that is a child process: a message a line.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, broadcast};
use tracing::{debug, info, warn};

use super::Failure;
use super::connection::UpstreamConnection;
use super::request_table::RequestTable;
use super::server::Server;
use crate::config::Upstream;
use crate::gateway::lines::{Lines, Piece};
use crate::message::{Head, as_text};

/// How long a process that was told to end by the end of its input may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The way to a child process. When it is dropped the process sees the end of its input.
pub(crate) struct ChildProcess {
    name: String,
    input: Arc<Mutex<ChildStdin>>,
}

impl ChildProcess {
    /// Starts the process of an upstream, and reads it.
    pub(super) fn start(
        server: &Arc<Server>,
        config: &Upstream,
        folder: &std::path::Path,
        requests: &Arc<RequestTable>,
        unrelated: &broadcast::Sender<Arc<Vec<u8>>>,
        max_bytes: usize,
    ) -> Result<Self, Failure> {
        let name = config.name.clone();
        let cannot = |reason: String| {
            Failure::Unavailable(format!("The upstream `{name}` cannot be started: {reason}."))
        };
        let (program, arguments) =
            config.command.split_first().ok_or_else(|| cannot("no command".to_owned()))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(config.env.iter().map(|(name, value)| (name, value.expose())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(cwd) = &config.cwd {
            command.current_dir(folder.join(cwd));
        }
        let mut child = command.spawn().map_err(|error| cannot(format!("`{program}`: {error}")))?;
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(cannot("it has no standard input or output".to_owned()));
        };
        server.started();
        let input = Arc::new(Mutex::new(input));
        let reader = Reader {
            name: name.clone(),
            requests: Arc::clone(requests),
            unrelated: unrelated.clone(),
            input: Arc::downgrade(&input),
            server: Arc::downgrade(server),
            max_bytes,
        };
        tokio::spawn(log(name.clone(), errors));
        tokio::spawn(reader.read(child, output));
        Ok(Self { name, input })
    }

    /// Sends a message.
    pub(super) async fn send(&self, message: &[u8]) -> Result<(), Failure> {
        let mut input = self.input.lock().await;
        write(&mut input, message).await.map_err(|error| {
            Failure::Unavailable(format!("The upstream `{}` no longer reads: {error}.", self.name))
        })
    }
}

/// Writes a message as a line. Line breaks between its parts would end it too early; in strings there are none.
async fn write(to: &mut ChildStdin, message: &[u8]) -> std::io::Result<()> {
    if message.contains(&b'\n') || message.contains(&b'\r') {
        let line: Vec<u8> = message
            .iter()
            .map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte })
            .collect();
        to.write_all(&line).await?;
    } else {
        to.write_all(message).await?;
    }
    to.write_all(b"\n").await?;
    to.flush().await
}

struct Reader {
    name: String,
    requests: Arc<RequestTable>,
    unrelated: broadcast::Sender<Arc<Vec<u8>>>,
    /// Weak: the process is to see the end of its input when nobody uses it any more.
    input: std::sync::Weak<Mutex<ChildStdin>>,
    server: std::sync::Weak<Server>,
    max_bytes: usize,
}

impl Reader {
    async fn read(self, mut child: tokio::process::Child, output: ChildStdout) {
        let mut lines = Lines::up_to(BufReader::with_capacity(1 << 16, output), self.max_bytes);
        let mut skipped = false;
        loop {
            match lines.next().await {
                Ok(Piece::Line) => self.line(lines.split().0).await,
                Ok(Piece::Part) => {
                    if !std::mem::replace(&mut skipped, true) {
                        warn!(
                            upstream = self.name,
                            "A message of more than {} bytes is passed over (limits.responseBytes).",
                            self.max_bytes
                        );
                        self.too_long(lines.bytes());
                    }
                    skipped = !lines.bytes().ends_with(b"\n");
                }
                Ok(Piece::End) | Err(_) => break,
            }
        }
        // Whoever waits is told now, not when the process has ended.
        let gone = || Failure::Unavailable(format!("The upstream `{}` ended.", self.name));
        let wanted = self.input.strong_count() > 0;
        self.requests.end(&gone());
        let status = match tokio::time::timeout(TIMEOUT, child.wait()).await {
            Ok(status) => status.ok(),
            Err(_) => {
                let _ = child.kill().await;
                None
            }
        };
        if wanted {
            warn!(upstream = self.name, ?status, "The process ended by itself.");
            if let Some(server) = self.server.upgrade() {
                server.failed();
            }
        } else {
            debug!(upstream = self.name, ?status, "The process ended.");
        }
    }

    async fn line(&self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let line = as_text(line);
        if Head::read(&line).is_none() {
            info!(
                upstream = self.name,
                "Not a message: {}",
                String::from_utf8_lossy(&line).chars().take(200).collect::<String>()
            );
            return;
        }
        let answer =
            UpstreamConnection::arrived(&self.requests, &self.unrelated, line.into_owned(), None);
        if let Some(answer) = answer
            && let Some(input) = self.input.upgrade()
        {
            let _ = write(&mut *input.lock().await, &answer).await;
        }
    }

    /// The request that a message answers which is too long, where its id stands at the beginning.
    fn too_long(&self, beginning: &[u8]) {
        let text = String::from_utf8_lossy(beginning.get(..200).unwrap_or(beginning)).into_owned();
        let id = text.split_once("\"id\":").and_then(|(_, rest)| {
            rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        });
        let failure = Failure::TooLarge(format!(
            "The upstream `{}` answered with more than {} bytes (limits.responseBytes). Ask for less.",
            self.name, self.max_bytes
        ));
        match id {
            Some(id) => self.requests.fail(id, failure),
            // Whose it was cannot be told: nobody is left to wait for ever.
            None => self.requests.fail_last(failure),
        }
    }
}

/// What the process says on its standard error goes to the log.
async fn log(name: String, errors: ChildStderr) {
    let mut lines = BufReader::new(errors).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        info!(upstream = name, "{line}");
    }
}
