//! stdio: a client on our own standard input and output, an upstream that is a child process.
//!
//! A message is a line. Lines that are not JSON pass as they are, the upstream's standard error is ours, and its end is our end, exit code included.

use std::borrow::Cow;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tracing::{debug, warn};

use super::Session;
use crate::{Error, Result};

/// Runs a command as the upstream of a session until it ends, and tells how it ended.
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
    // The answers end when the upstream closes its output, which it does when it ends.
    let mut stopped = false;
    loop {
        tokio::select! {
            ended = &mut answers => {
                ended.map_err(|error| Error::Io(std::io::Error::other(error)))??;
                break;
            }
            signal = stop_signal(), if !stopped => {
                debug!("Passing {signal} on to the server.");
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

/// One line with its end, or nothing at the end of the input.
async fn line(from: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    from.read_until(b'\n', line).await.map(|read| read > 0)
}

/// The line without its end, and the end.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let end = line.iter().rev().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
    line.split_at_checked(line.len() - end).unwrap_or((line, &[]))
}

async fn send(
    to: &mut (impl AsyncWrite + Unpin),
    message: &[u8],
    end: &[u8],
) -> std::io::Result<()> {
    to.write_all(message).await?;
    to.write_all(if end.is_empty() { b"\n" } else { end }).await?;
    to.flush().await
}

async fn requests<C: AsyncWrite + Unpin>(
    session: Arc<Session>,
    mut from: impl AsyncBufRead + Unpin,
    mut upstream: impl AsyncWrite + Unpin,
    client: Arc<Mutex<C>>,
) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    while line(&mut from, &mut buffer).await? {
        let (message, end) = split(&buffer);
        let verdict = tokio::task::block_in_place(|| session.from_client(message));
        if let Some(answer) = verdict.client {
            send(&mut *client.lock().await, &answer, end).await?;
        }
        if let Some(message) = verdict.upstream
            && let Err(error) = send(&mut upstream, &message, end).await
        {
            // The server went; what it still has to say is read to its end by the other half.
            warn!("The server no longer reads: {error}.");
            return Ok(());
        }
    }
    // The client has no more to say: the server sees the end of its input, as it would without us.
    upstream.shutdown().await
}

async fn answers<C: AsyncWrite + Unpin>(
    session: Arc<Session>,
    mut from: impl AsyncBufRead + Unpin,
    client: Arc<Mutex<C>>,
) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    while line(&mut from, &mut buffer).await? {
        let (message, end) = split(&buffer);
        let shaped = tokio::task::block_in_place(|| session.from_upstream(message));
        let mut client = client.lock().await;
        let sent = match shaped {
            Cow::Borrowed(_) => {
                async {
                    client.write_all(&buffer).await?;
                    client.flush().await
                }
                .await
            }
            Cow::Owned(message) => send(&mut *client, &message, end).await,
        };
        if let Err(error) = sent {
            // The client went. The server is told by the end of its input, and read on so that it can end in order.
            debug!("The client no longer reads: {error}.");
        }
    }
    Ok(())
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
        debug!("The server is gone already: {error}.");
    }
}

#[cfg(not(unix))]
async fn stop_signal() -> i32 {
    let _ = tokio::signal::ctrl_c().await;
    0
}

#[cfg(not(unix))]
fn stop(_: &Child, _: i32) {}
