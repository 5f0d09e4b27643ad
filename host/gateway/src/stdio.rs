//! The stdio proxy: the client is on standard input and output, the upstream is a child process.
//!
//! Each message is a line. Lines that are neither JSON nor resemble an answer pass unchanged. The
//! upstream inherits standard error, and the proxy exits with the upstream's exit code. The
//! upstream ends with the proxy.

use std::borrow::Cow;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use context_guard_protocol::answer::trim_padding;
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::sync::{Mutex, Notify};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::Session;
use super::invalid_output::{InvalidOutput, is_message};
use super::lines::{Lines, Piece};
use super::process_tree::{EXIT_TIMEOUT, EndSignal, ProcessTree};
use super::session::FromClient;
use super::upstream::environment::OWN_PREFIX;
use crate::{Error, Result};

/// The maximum time for requests in flight after the client has closed its output. The SDKs of MCP
/// wait for the same time.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);
/// The time between two checks for requests in flight.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a command as the upstream of a session until it exits. Returns the command's exit status.
///
/// The command inherits the environment of this process, except for variables whose names begin
/// with `CONTEXT_GUARD_` and are not in `inherit_env`.
///
/// # Errors
/// [`Error::Spawn`], [`Error::Io`].
pub async fn run(
    session: Session,
    command: &[String],
    inherit_env: &[String],
) -> Result<ExitStatus> {
    let mut server = spawn(command, inherit_env)?;
    let child = server.child();
    let (Some(to_upstream), Some(from_upstream)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::Io(std::io::Error::other("the server has no standard input or output")));
    };
    let session = Arc::new(session);
    let client = Arc::new(Mutex::new(tokio::io::stdout()));
    let client_gone = Arc::new(Notify::new());
    let mut requests = tokio::spawn(requests(
        Arc::clone(&session),
        BufReader::with_capacity(1 << 16, tokio::io::stdin()),
        to_upstream,
        Arc::clone(&client),
    ));
    let mut answers = tokio::spawn(answers(
        Arc::clone(&session),
        BufReader::with_capacity(1 << 16, from_upstream),
        client,
        Arc::clone(&client_gone),
    ));
    let input_ended = async {
        let _ = (&mut requests).await;
        let drained = async {
            while session.is_waiting() {
                sleep(POLL_INTERVAL).await;
            }
        };
        let _ = timeout(DRAIN_TIMEOUT, drained).await;
    };
    let output_ended = tokio::select! {
        // The upstream closes its output when it exits.
        ended = &mut answers => {
            ended.map_err(|error| Error::Io(std::io::Error::other(error)))??;
            true
        }
        () = input_ended => false,
        // Nobody reads the answers, so no further call is executed.
        () = client_gone.notified() => false,
        signal = stop_signal() => {
            debug!("sending signal {signal:?} to the server");
            server.signal(signal);
            false
        }
    };
    requests.abort();
    let status = server.end().await;
    if !output_ended {
        // Descendants that left the process group may hold the output open.
        let _ = timeout(EXIT_TIMEOUT, answers).await;
    }
    status.ok_or_else(|| Error::Io(std::io::Error::other("the server does not exit")))
}

fn spawn(command: &[String], inherit_env: &[String]) -> Result<ProcessTree> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| Error::Io(std::io::Error::other("no command given")))?;
    let mut child = Command::new(program);
    child.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    for (name, _) in std::env::vars_os() {
        let is_own = name.to_str().is_some_and(|name| name.starts_with(OWN_PREFIX));
        if is_own && !inherit_env.iter().any(|inherited| name == **inherited) {
            child.env_remove(name);
        }
    }
    ProcessTree::spawn(&mut child)
        .map_err(|source| Error::Spawn { command: command.join(" "), source })
}

/// Sends a message to a stdio peer. If the filter did not change the message, sends `read`, the
/// original line. Otherwise sends the new message with `end`, the original line ending.
async fn send(
    to: &mut (impl AsyncWrite + Unpin),
    message: Cow<'_, [u8]>,
    read: &[u8],
    end: &[u8],
) -> std::io::Result<()> {
    match message {
        Cow::Borrowed(_) => to.write_all(read).await?,
        Cow::Owned(message) => {
            to.write_all(&message).await?;
            to.write_all(if end.is_empty() { b"\n" } else { end }).await?;
        }
    }
    to.flush().await
}

async fn requests<C: AsyncWrite + Unpin>(
    session: Arc<Session>,
    from: impl AsyncBufRead + Unpin,
    mut upstream: impl AsyncWrite + Unpin,
    client: Arc<Mutex<C>>,
) -> std::io::Result<()> {
    let mut lines = Lines::new(from);
    loop {
        let piece = lines.next().await?;
        if piece == Piece::End {
            // The server sees the end of its input, as it would without a proxy.
            return upstream.shutdown().await;
        }
        let (message, end) = lines.split();
        let verdict = match piece {
            Piece::Line => tokio::task::block_in_place(|| session.from_client(message)),
            _ => FromClient { upstream: Some(Cow::Borrowed(message)), client: None },
        };
        if let Some(answer) = verdict.client {
            send(&mut *client.lock().await, Cow::Owned(answer), &[], end).await?;
        }
        if let Some(message) = verdict.upstream
            && let Err(error) = send(&mut upstream, message, lines.bytes(), end).await
        {
            // The other task reads the output of the server to its end.
            warn!("the server no longer reads: {error}");
            return Ok(());
        }
    }
}

async fn answers<C: AsyncWrite + Unpin>(
    session: Arc<Session>,
    from: impl AsyncBufRead + Unpin,
    client: Arc<Mutex<C>>,
    client_gone: Arc<Notify>,
) -> std::io::Result<()> {
    let mut lines = Lines::new(from);
    let invalid_output = InvalidOutput::default();
    loop {
        let piece = lines.next().await?;
        if piece == Piece::End {
            return Ok(());
        }
        let (message, end) = lines.split();
        if piece == Piece::Line && !is_message(trim_padding(message)) {
            invalid_output.report(session.upstream(), message, "confuse clients");
        }
        let answers = match piece {
            Piece::Line => tokio::task::block_in_place(|| session.from_upstream(message)),
            _ => vec![Cow::Borrowed(message)],
        };
        for answer in answers {
            if let Err(error) = send(&mut *client.lock().await, answer, lines.bytes(), end).await {
                // The server's output is still read: a full pipe would keep it from exiting.
                debug!("the client no longer reads: {error}");
                client_gone.notify_one();
            }
        }
    }
}

#[cfg(unix)]
async fn stop_signal() -> EndSignal {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => EndSignal::Terminate,
        _ = interrupt.recv() => EndSignal::Interrupt,
    }
}

#[cfg(not(unix))]
async fn stop_signal() -> EndSignal {
    let _ = tokio::signal::ctrl_c().await;
    EndSignal::Interrupt
}
