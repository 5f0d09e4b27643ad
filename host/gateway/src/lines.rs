//! Lines of a stream, one at a time: a message each, unless one is longer than anybody's message.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// The longest line that is held as a whole, in bytes. What is longer passes in pieces, as it comes.
const MAX_BYTES: u64 = 256 << 20;
/// The memory that is kept between lines, in bytes.
const KEPT: usize = 1 << 20;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A whole line.
    Line,
    /// A part of one that is too long, or its end.
    Part,
    /// Nothing: the stream has ended.
    End,
}

/// Reads lines from a stream.
pub(super) struct Lines<R> {
    from: R,
    max_bytes: u64,
    buffer: Vec<u8>,
    in_part: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, max_bytes: MAX_BYTES, buffer: Vec::new(), in_part: false }
    }

    /// The same with another maximum length.
    pub(super) fn up_to(from: R, max_bytes: usize) -> Self {
        Self { max_bytes: max_bytes as u64, ..Self::new(from) }
    }

    /// Reads on. What was read is in [`Lines::bytes`] then.
    pub(super) async fn next(&mut self) -> std::io::Result<Piece> {
        if self.buffer.capacity() > KEPT {
            self.buffer = Vec::new();
        }
        self.buffer.clear();
        let read =
            (&mut self.from).take(self.max_bytes).read_until(b'\n', &mut self.buffer).await?;
        if read == 0 {
            return Ok(Piece::End);
        }
        let broken_off = read as u64 == self.max_bytes && !self.buffer.ends_with(b"\n");
        let part = std::mem::replace(&mut self.in_part, broken_off) || broken_off;
        Ok(if part { Piece::Part } else { Piece::Line })
    }

    /// What was read last, with its end.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// The line that was read last without its end, and the end.
    pub(super) fn split(&self) -> (&[u8], &[u8]) {
        let end = self.buffer.iter().rev().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        self.buffer.split_at_checked(self.buffer.len() - end).unwrap_or((&self.buffer, &[]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_too_long_passes_in_pieces_and_the_next_line_is_whole_again() {
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
    async fn ends_are_told_apart() {
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
