//! Reads a stream line by line. Each line is a message, unless it exceeds the maximum length.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// The default maximum length of a line, in bytes. A longer line is returned in parts.
const DEFAULT_MAX_BYTES: u64 = 256 << 20;
/// The maximum capacity with which the line buffer is reused, in bytes. A larger buffer is freed.
const MAX_REUSED_CAPACITY: usize = 1 << 20;

/// The result of one read from the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A whole line.
    Line,
    /// A part of a line that exceeds the maximum length, including the last part.
    Part,
    /// The end of the stream.
    End,
}

/// Reads lines of limited length from a stream.
pub(super) struct Lines<R> {
    from: R,
    max_bytes: u64,
    buffer: Vec<u8>,
    in_part: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, max_bytes: DEFAULT_MAX_BYTES, buffer: Vec::new(), in_part: false }
    }

    /// Creates a reader with a maximum line length of `max_bytes` bytes instead of the default.
    pub(super) fn with_max_bytes(from: R, max_bytes: usize) -> Self {
        Self { max_bytes: max_bytes as u64, ..Self::new(from) }
    }

    /// Reads the next line, or the next part of a line that is too long, into [`Lines::bytes`].
    pub(super) async fn next(&mut self) -> std::io::Result<Piece> {
        if self.buffer.capacity() > MAX_REUSED_CAPACITY {
            self.buffer = Vec::new();
        }
        self.buffer.clear();
        let read =
            (&mut self.from).take(self.max_bytes).read_until(b'\n', &mut self.buffer).await?;
        if read == 0 {
            return Ok(Piece::End);
        }
        // The next read continues this line if the limit has cut it.
        let is_cut = read as u64 == self.max_bytes && !self.buffer.ends_with(b"\n");
        let part = std::mem::replace(&mut self.in_part, is_cut) || is_cut;
        Ok(if part { Piece::Part } else { Piece::Line })
    }

    /// Returns the bytes of the latest read, including the line ending.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns the line that was read last, split into its content and its line ending.
    pub(super) fn split(&self) -> (&[u8], &[u8]) {
        let end = self.buffer.iter().rev().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        self.buffer.split_at_checked(self.buffer.len() - end).unwrap_or((&self.buffer, &[]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_line_is_returned_in_parts() {
        let mut lines = Lines { max_bytes: 4, ..Lines::new(&b"abc\r\nabcdefghij\nxy\n\nlast"[..]) };
        let mut read = Vec::new();
        loop {
            match lines.next().await.unwrap() {
                Piece::End => break,
                piece => read.push((piece, String::from_utf8_lossy(lines.bytes()).into_owned())),
            }
        }
        let expected = [
            (Piece::Part, "abc\r"),
            (Piece::Part, "\n"),
            (Piece::Part, "abcd"),
            (Piece::Part, "efgh"),
            (Piece::Part, "ij\n"),
            (Piece::Line, "xy\n"),
            (Piece::Line, "\n"),
            (Piece::Part, "last"),
        ];
        assert_eq!(read, expected.map(|(piece, text)| (piece, text.to_owned())));
    }

    #[tokio::test]
    async fn line_endings_are_preserved() {
        let mut lines = Lines::new(&b"{}\r\nlast"[..]);
        assert_eq!(
            (lines.next().await.unwrap(), lines.split()),
            (Piece::Line, (&b"{}"[..], &b"\r\n"[..]))
        );
        assert_eq!(
            (lines.next().await.unwrap(), lines.split()),
            (Piece::Line, (&b"last"[..], &b""[..]))
        );
        assert_eq!(lines.next().await.unwrap(), Piece::End);
    }
}
