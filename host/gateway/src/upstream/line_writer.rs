//! Writes messages to the standard input of an upstream process, one per line.

use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The maximum number of messages in the queue, in addition to the one that is being written.
/// Further senders wait with their own message, so that the queue needs little memory.
const MAX_QUEUED_LINES: usize = 1;
/// The maximum number of replies to pings in the queue. Beyond it, they are dropped, because the
/// process does not read.
const MAX_QUEUED_PONGS: usize = 16;

/// The reason why a message was not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("its input was closed")]
    Closed,
    #[error("it reads too slowly")]
    Slow,
    #[error("{0}")]
    Failed(#[from] std::io::Error),
}

/// A message in the queue.
struct QueuedLine {
    message: Vec<u8>,
    /// Receives the result of the write.
    written: oneshot::Sender<std::io::Result<()>>,
}

/// Sends messages to the task that writes them. The task writes each message as a whole, even if
/// its sender is dropped meanwhile. It does not begin to write one whose sender was dropped.
/// Dropping the writer closes the input.
pub(super) struct LineWriter(mpsc::Sender<QueuedLine>);

/// Sends replies to pings to the task that writes them. Does not keep the input open.
pub(super) struct PongSender(mpsc::Sender<Vec<u8>>);

impl LineWriter {
    /// Starts the task that writes to `input`. Ending the task closes the input.
    pub(super) fn start(
        input: impl AsyncWrite + Unpin + Send + 'static,
    ) -> (Self, PongSender, JoinHandle<()>) {
        let (lines, queued) = mpsc::channel(MAX_QUEUED_LINES);
        let (pongs, queued_pongs) = mpsc::channel(MAX_QUEUED_PONGS);
        let task = tokio::spawn(write_queued(input, queued, queued_pongs));
        (Self(lines), PongSender(pongs), task)
    }

    /// Writes a message as a line. If the process does not read it within `limit`, fails. The rest
    /// of a line that was begun is still written later.
    pub(super) async fn send(&self, message: Vec<u8>, limit: Duration) -> Result<(), WriteError> {
        let (written, result) = oneshot::channel();
        let sent = async {
            let line = QueuedLine { message, written };
            self.0.send(line).await.map_err(|_| WriteError::Closed)?;
            Ok(result.await.map_err(|_| WriteError::Closed)??)
        };
        timeout(limit, sent).await.unwrap_or(Err(WriteError::Slow))
    }
}

impl PongSender {
    /// Queues a reply to a ping. Drops the reply if the queue is full. Never waits, because the
    /// process may read no input before its own output is read.
    pub(super) fn send(&self, pong: Vec<u8>) {
        let _ = self.0.try_send(pong);
    }
}

/// Writes the queued messages until their senders are dropped, or a write fails.
async fn write_queued(
    mut input: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<QueuedLine>,
    mut pongs: mpsc::Receiver<Vec<u8>>,
) {
    loop {
        tokio::select! {
            biased;
            Some(pong) = pongs.recv() => {
                if write_line(&mut input, &pong).await.is_err() {
                    return;
                }
            }
            line = lines.recv() => {
                let Some(QueuedLine { message, written }) = line else { return };
                // Its sender has given up, and may have reported that.
                if written.is_closed() {
                    continue;
                }
                let result = write_line(&mut input, &message).await;
                let is_failed = result.is_err();
                let _ = written.send(result);
                if is_failed {
                    return;
                }
            }
        }
    }
}

/// Writes a message as one line. Replaces line breaks between its JSON tokens with spaces, because
/// they would end the line.
async fn write_line(to: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> std::io::Result<()> {
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream, duplex};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    async fn line(output: &mut BufReader<DuplexStream>) -> String {
        let mut line = String::new();
        output.read_line(&mut line).await.unwrap();
        line
    }

    #[tokio::test]
    async fn dropped_send_leaves_no_part_of_a_line() {
        let (input, output) = duplex(8);
        let (writer, _, _) = LineWriter::start(input);
        // The pipe is full in the middle of the line when the request is cancelled.
        begin(&writer).await;
        let mut output = BufReader::new(output);
        let (sent, read) = tokio::join!(writer.send(b"b\nc".to_vec(), LIMIT), async {
            (line(&mut output).await, line(&mut output).await)
        });
        sent.unwrap();
        assert_eq!(read, (format!("{}\n", "a".repeat(100)), "b c\n".to_owned()));
    }

    /// Begins to write a line of 100 bytes, and gives up in the middle of it.
    async fn begin(writer: &LineWriter) {
        let first = writer.send(vec![b'a'; 100], LIMIT);
        assert!(
            tokio::select! { biased; _ = first => false, () = tokio::task::yield_now() => true }
        );
    }

    #[tokio::test]
    async fn given_up_messages_are_not_written() {
        let (input, output) = duplex(8);
        let (writer, _, _) = LineWriter::start(input);
        begin(&writer).await;
        let given_up = writer.send(b"b".to_vec(), Duration::ZERO).await;
        assert!(matches!(given_up, Err(WriteError::Slow)));
        let mut output = BufReader::new(output);
        let (sent, read) = tokio::join!(writer.send(b"c".to_vec(), LIMIT), async {
            (line(&mut output).await, line(&mut output).await)
        });
        sent.unwrap();
        assert_eq!(read, (format!("{}\n", "a".repeat(100)), "c\n".to_owned()));
    }

    #[tokio::test]
    async fn full_pipe_limits_sends_and_blocks_no_pong() {
        let (input, output) = duplex(8);
        let (writer, pongs, task) = LineWriter::start(input);
        begin(&writer).await;
        let slow = writer.send(b"slow".to_vec(), Duration::ZERO).await;
        assert!(matches!(slow, Err(WriteError::Slow)));
        (0..100).for_each(|_| pongs.send(b"pong".to_vec()));
        let mut waiting = Box::pin(writer.send(b"b".to_vec(), LIMIT));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(output);
        assert!(matches!(waiting.await, Err(WriteError::Closed)));
        task.await.unwrap();
        assert!(matches!(writer.send(b"c".to_vec(), LIMIT).await, Err(WriteError::Closed)));
    }
}
