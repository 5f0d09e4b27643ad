//! The stdio proxy: the client is on standard input and output, the upstream is a child process.
//!
//! Each message is a line. Lines that are not JSON pass unchanged. The upstream inherits standard
//! error, and the proxy exits with the upstream's exit code.

use std::borrow::Cow;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tracing::{debug, warn};

use super::Session;
use super::lines::{Lines, Piece};
use super::session::FromClient;
use crate::{Error, Result};

/// Runs a command as the upstream of a session until it exits. Returns the command's exit status.
///
/// # Errors
/// [`Error::Spawn`], [`Error::Io`].
pub async fn run(session: Session, command: &[String]) -> Result<ExitStatus> {
    let mut child = spawn(command)?;
    let (Some(to_upstream), Some(from_upstream)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::Io(std::io::Error::other("the server has no standard input or output")));
    };
    let session = Arc::new(session);
    let client = Arc::new(Mutex::new(tokio::io::stdout()));
    let requests = tokio::spawn(requests(
        Arc::clone(&session),
        BufReader::with_capacity(1 << 16, tokio::io::stdin()),
        to_upstream,
        Arc::clone(&client),
    ));
    let mut answers =
        tokio::spawn(answers(session, BufReader::with_capacity(1 << 16, from_upstream), client));
    // The upstream closes its output when it exits.
    let mut stopped = false;
    loop {
        tokio::select! {
            ended = &mut answers => {
                ended.map_err(|error| Error::Io(std::io::Error::other(error)))??;
                break;
            }
            signal = stop_signal(), if !stopped => {
                debug!("sending signal {signal} to the server");
                stopped = true;
                stop(&child, signal);
            }
        }
    }
    requests.abort();
    Ok(child.wait().await?)
}

fn spawn(command: &[String]) -> Result<Child> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| Error::Io(std::io::Error::other("no command given")))?;
    let mut child = Command::new(program);
    child
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    child.spawn().map_err(|source| Error::Spawn { command: command.join(" "), source })
}

/// Sends a message to a stdio peer. If the filter did not change it, sends `read`, the original
/// line. Otherwise sends the new message with `end`, the original line ending.
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
) -> std::io::Result<()> {
    let mut lines = Lines::new(from);
    loop {
        let piece = lines.next().await?;
        if piece == Piece::End {
            return Ok(());
        }
        let (message, end) = lines.split();
        let shaped = match piece {
            Piece::Line => tokio::task::block_in_place(|| session.from_upstream(message)),
            _ => Cow::Borrowed(message),
        };
        if let Err(error) = send(&mut *client.lock().await, shaped, lines.bytes(), end).await {
            // The server sees the end of its input. Its output is read on, because a full pipe
            // would keep it from exiting.
            debug!("the client no longer reads: {error}");
        }
    }
}

#[cfg(unix)]
async fn stop_signal() -> i32 {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => SignalKind::terminate().as_raw_value(),
        _ = interrupt.recv() => SignalKind::interrupt().as_raw_value(),
    }
}

#[cfg(unix)]
fn stop(child: &Child, signal: i32) {
    let pid =
        child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    let signal = rustix::process::Signal::from_named_raw(signal);
    if let (Some(pid), Some(signal)) = (pid, signal)
        && let Err(error) = rustix::process::kill_process(pid, signal)
    {
        debug!("the server has exited already: {error}");
    }
}

#[cfg(not(unix))]
async fn stop_signal() -> i32 {
    let _ = tokio::signal::ctrl_c().await;
    0
}

#[cfg(not(unix))]
fn stop(_: &Child, _: i32) {}
