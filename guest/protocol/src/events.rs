//! Event streams, by event and never by chunk.

use std::borrow::Cow;

/// Cuts a stream of bytes into events.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    buffer: Vec<u8>,
    /// Bytes of the buffer in which no event ends.
    seen: usize,
}

impl Framer {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes of an event that is not whole yet.
    pub(crate) fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// What is left.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.seen = 0;
        std::mem::take(&mut self.buffer)
    }

    /// Forgets all but the last bytes, in which an end of event may begin.
    pub(crate) fn forget(&mut self) {
        let kept = self.buffer.len().saturating_sub(3);
        self.buffer.drain(..kept);
        self.seen = 0;
    }

    /// The next whole event, with the empty line that ends it. A line ends with `\n`, `\r\n` or `\r`.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        let end = self.end()?;
        let rest = self.buffer.split_off(end);
        self.seen = 0;
        Some(std::mem::replace(&mut self.buffer, rest))
    }

    fn end(&mut self) -> Option<usize> {
        let mut from = self.seen;
        loop {
            let rest = self.buffer.get(from..)?;
            let Some(found) = memchr::memchr2(b'\n', b'\r', rest) else {
                self.seen = self.buffer.len();
                return None;
            };
            let line = from + found;
            // Until more is there, a carriage return may be half of an end of line: it is looked at again.
            self.seen = line;
            let next = self.line_end(line)?;
            match self.buffer.get(next)? {
                b'\n' | b'\r' => return self.line_end(next),
                _ => from = next,
            }
        }
    }

    fn line_end(&self, at: usize) -> Option<usize> {
        match (self.buffer.get(at)?, self.buffer.get(at + 1)) {
            (b'\n', _) => Some(at + 1),
            (_, Some(b'\n')) => Some(at + 2),
            (_, Some(_)) => Some(at + 1),
            (_, None) => None,
        }
    }
}

fn fields(event: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = event.split(|byte| matches!(byte, b'\n' | b'\r')).filter(|line| !line.is_empty());
    lines.map(|line| {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let (name, value) = line.split_at_checked(colon).unwrap_or((line, b""));
        let value = value.strip_prefix(b":").unwrap_or(value);
        (name, value.strip_prefix(b" ").unwrap_or(value))
    })
}

/// The data of an event; empty where it has none.
pub(crate) fn data(event: &[u8]) -> Cow<'_, [u8]> {
    let mut lines = fields(event).filter(|(name, _)| *name == b"data").map(|(_, value)| value);
    let first = lines.next().unwrap_or_default();
    let mut more = lines.peekable();
    if more.peek().is_none() {
        return Cow::Borrowed(first);
    }
    let mut all = first.to_vec();
    for line in more {
        all.push(b'\n');
        all.extend_from_slice(line);
    }
    Cow::Owned(all)
}

/// The same event with other data, a message on one line: its id, name and comments stay.
pub(crate) fn with_data(event: &[u8], message: &[u8]) -> Vec<u8> {
    let mut changed = Vec::with_capacity(message.len() + 64);
    for (name, value) in fields(event).filter(|(name, _)| *name != b"data") {
        changed.extend([name, b": ", value, b"\n"].concat());
    }
    changed.extend([b"data: ", message, b"\n\n"].concat());
    changed
}

/// An event of a message.
pub(crate) fn message(message: &[u8]) -> Vec<u8> {
    with_data(b"event: message\n", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_framed_however_they_are_cut() {
        let stream: &[u8] = b": hi\n\ndata: a\r\ndata: b\r\n\r\nid: 1\rdata:c\r\rdata: late";
        for size in 1..stream.len() {
            let (mut framer, mut events) = (Framer::default(), Vec::new());
            for chunk in stream.chunks(size) {
                framer.push(chunk);
                while let Some(event) = framer.next() {
                    events.push(event);
                }
            }
            assert_eq!(events.len(), 3, "chunks of {size}: {events:?}");
            assert_eq!(data(&events[1]).as_ref(), b"a\nb");
            assert_eq!(data(&events[2]).as_ref(), b"c");
            assert_eq!([events.concat(), framer.rest()].concat(), stream);
        }
    }

    #[test]
    fn other_data_leaves_the_rest_of_an_event() {
        assert_eq!(
            with_data(b": c\nid: 7\ndata: x\ndata: y\n\n", b"{}"),
            b": c\nid: 7\ndata: {}\n\n"
        );
        assert_eq!(message(b"{}"), b"event: message\ndata: {}\n\n");
    }
}
