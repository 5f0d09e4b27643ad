//! Event streams (`text/event-stream`), split into whole events, independent of their chunks.
//!
//! The bytes of an event remain verbatim unless its data is replaced.

use std::borrow::Cow;
use std::time::Duration;

/// Splits a stream of bytes into events.
///
/// ```
/// use context_guard_protocol::sse::Framer;
///
/// let mut framer = Framer::default();
/// framer.push(b"id: 1\ndata: {\"a\":\nda");
/// assert!(framer.next_event().is_none());
/// framer.push(b"ta: 1}\n\n");
/// let event = framer.next_event().unwrap();
/// assert_eq!(event.data().unwrap().as_ref(), b"{\"a\":\n1}");
/// assert_eq!(event.with_data(b"{}").0, b"id: 1\ndata: {}\n\n");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Framer {
    buffer: Vec<u8>,
    /// The offset in `buffer` of the first byte that no event returned. The bytes before it are
    /// removed with the next chunk: removing them after each event would take the square of the
    /// number of events.
    start: usize,
    /// The offset in `buffer` before which no event ends after `start`.
    scanned: usize,
}

impl Framer {
    /// Appends the next chunk of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the number of buffered bytes of the incomplete event.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Returns true if an event is complete once `bytes` follow.
    #[must_use]
    pub fn completes_event(&self, bytes: &[u8]) -> bool {
        // An end of an event has at most four bytes.
        let tail = self.buffer.len().saturating_sub(3).max(self.start);
        let mut near = Self::default();
        near.push(self.buffer.get(tail..).unwrap_or_default());
        near.push(bytes);
        near.event_end().is_some()
    }

    /// Removes and returns the next complete event, with the empty line that ends it. Returns
    /// `None` if more bytes are needed. O(length of the event).
    pub fn next_event(&mut self) -> Option<Event> {
        let end = self.event_end()?;
        if self.start == 0 && end == self.buffer.len() {
            self.scanned = 0;
            return Some(Event(std::mem::take(&mut self.buffer)));
        }
        let event = self.buffer.get(self.start..end)?.to_vec();
        (self.start, self.scanned) = (end, end);
        Some(Event(event))
    }

    /// Removes and returns the remaining bytes after the end of the stream, if there are any. They
    /// may be an event, because a trailing `\r` ends a line only if no `\n` follows.
    pub fn finish(&mut self) -> Option<Event> {
        self.push(b"");
        self.scanned = 0;
        let rest = std::mem::take(&mut self.buffer);
        (!rest.is_empty()).then_some(Event(rest))
    }

    /// Drops the bytes of the incomplete event, except for the last three, which may begin the end
    /// of the event.
    pub fn discard_partial(&mut self) {
        // The longest end is `\r\n\r\n`. Three of its bytes may be here already.
        let dropped = self.buffer.len().saturating_sub(3).max(self.start);
        self.buffer.drain(..dropped);
        (self.start, self.scanned) = (0, 0);
    }

    /// Returns the offset after the first event in the buffer. An event ends with two line ends,
    /// each `\n`, `\r\n` or `\r`. `None` if the event is incomplete.
    fn event_end(&mut self) -> Option<usize> {
        let mut from = self.scanned;
        loop {
            let rest = self.buffer.get(from..)?;
            let Some(found) = memchr::memchr2(b'\n', b'\r', rest) else {
                self.scanned = self.buffer.len();
                return None;
            };
            let line_end = from + found;
            // A carriage return at the end of the buffer may be half of a line end. The next call
            // scans it again.
            self.scanned = line_end;
            let next_line = self.after_line_end(line_end)?;
            match self.buffer.get(next_line)? {
                b'\n' | b'\r' => return self.after_line_end(next_line),
                _ => from = next_line,
            }
        }
    }

    /// Returns the offset after the line end at `offset`. `None` if there is no line end, or if
    /// later bytes could belong to it.
    fn after_line_end(&self, offset: usize) -> Option<usize> {
        match (self.buffer.get(offset)?, self.buffer.get(offset + 1)) {
            (b'\n', _) => Some(offset + 1),
            (_, Some(b'\n')) => Some(offset + 2),
            (_, Some(_)) => Some(offset + 1),
            (_, None) => None,
        }
    }
}

/// The verbatim bytes of one event of an event stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event(pub Vec<u8>);

impl Event {
    /// Creates an event whose data is `data`, a JSON-RPC message. `id` is the event id, if there is
    /// one.
    #[must_use]
    pub fn message(id: Option<&str>, data: &[u8]) -> Self {
        let mut event = Vec::with_capacity(data.len() + 64);
        if let Some(id) = id {
            event.extend_from_slice(format!("id: {id}\n").as_bytes());
        }
        event.extend_from_slice(b"event: message\n");
        push_data(&mut event, data);
        Self(event)
    }

    /// Returns the names and values of the event's fields, in order. A comment is a field with an
    /// empty name.
    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let lines = self.0.split(|byte| matches!(byte, b'\n' | b'\r'));
        lines.filter(|line| !line.is_empty()).map(|line| {
            let colon = memchr::memchr(b':', line).unwrap_or(line.len());
            let (name, value) = line.split_at_checked(colon).unwrap_or((line, b""));
            let value = value.strip_prefix(b":").unwrap_or(value);
            (name, value.strip_prefix(b" ").unwrap_or(value))
        })
    }

    /// Returns the data of the event: the values of all `data` fields, joined by line feeds. `None`
    /// without such a field.
    #[must_use]
    pub fn data(&self) -> Option<Cow<'_, [u8]>> {
        let mut lines = self.fields().filter(|(name, _)| *name == b"data").map(|(_, data)| data);
        let first = lines.next()?;
        let rest: Vec<&[u8]> = lines.collect();
        if rest.is_empty() {
            return Some(Cow::Borrowed(first));
        }
        let all: Vec<&[u8]> = [first].into_iter().chain(rest).collect();
        Some(Cow::Owned(all.join(&b'\n')))
    }

    /// Returns the value of the event's `id` field, if there is one.
    #[must_use]
    pub fn id(&self) -> Option<&[u8]> {
        self.fields().find(|(name, _)| *name == b"id").map(|(_, id)| id)
    }

    /// Returns the value of the event's `retry` field, if there is one: the pause before a client
    /// reconnects.
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        let (_, retry) = self.fields().find(|(name, _)| *name == b"retry")?;
        std::str::from_utf8(retry).ok()?.parse().ok().map(Duration::from_millis)
    }

    /// Returns the event with other data. Its id, name and comments remain.
    #[must_use]
    pub fn with_data(&self, data: &[u8]) -> Self {
        let mut event = Vec::with_capacity(data.len() + 64);
        for (name, value) in self.fields().filter(|(name, _)| *name != b"data") {
            event.extend([name, b": ", value, b"\n"].concat());
        }
        push_data(&mut event, data);
        Self(event)
    }
}

/// Appends `data` to `event`, with the empty line that ends the event. Each line of the data
/// becomes a separate field, because a line break ends a field.
fn push_data(event: &mut Vec<u8>, data: &[u8]) {
    let mut rest = data;
    loop {
        let end = memchr::memchr2(b'\n', b'\r', rest);
        let (line, after) = end.map_or((rest, None), |end| {
            let (line, after) = rest.split_at_checked(end).unwrap_or((rest, b""));
            let after = after.strip_prefix(b"\r\n").or_else(|| after.get(1..));
            (line, after)
        });
        event.extend([b"data: ", line, b"\n"].concat());
        match after {
            Some(after) => rest = after,
            None => break,
        }
    }
    event.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_framed_at_any_chunk_size() {
        for end in ["\n", "\r\n", "\r"] {
            let lines = [": hi", "", "id: 1", "data: {\"a\":", "data: 1}", "", "data:x", ""];
            let stream = lines.map(|line| format!("{line}{end}")).concat();
            for size in 1..stream.len() {
                let (mut framer, mut events) = (Framer::default(), Vec::new());
                for chunk in stream.as_bytes().chunks(size) {
                    let (before, completes) = (events.len(), framer.completes_event(chunk));
                    framer.push(chunk);
                    events.extend(std::iter::from_fn(|| framer.next_event()));
                    assert_eq!(events.len() > before, completes, "{end:?} by {size}");
                }
                events.extend(framer.finish());
                assert_eq!(events.len(), 3, "{end:?} by {size}");
                assert_eq!(events[0].data(), None);
                assert_eq!(events[1].data().unwrap().as_ref(), b"{\"a\":\n1}");
                assert_eq!(events[1].id(), Some(&b"1"[..]));
                assert_eq!(events[2].data().unwrap().as_ref(), b"x");
                let bytes: Vec<u8> = events.into_iter().flat_map(|event| event.0).collect();
                assert_eq!(bytes, stream.as_bytes());
            }
        }
    }

    #[test]
    fn events_of_one_chunk_are_copied_once() {
        // Copying the rest for each event would copy 250 GB.
        let mut framer = Framer::default();
        framer.push(&b"\n".repeat(1 << 20));
        framer.push(b"data: x");
        assert_eq!(std::iter::from_fn(|| framer.next_event()).count(), 1 << 19);
        assert_eq!(framer.pending_bytes(), b"data: x".len());
        assert_eq!(framer.finish(), Some(Event(b"data: x".to_vec())));
    }

    #[test]
    fn replaced_data_has_one_field_per_line() {
        let event = Event(b": hello\nid: 7\nretry: 5\ndata: x\ndata: y\n\n".to_vec());
        assert_eq!(event.retry(), Some(Duration::from_millis(5)));
        assert_eq!(Event(b"retry: soon\n\n".to_vec()).retry(), None);
        for (data, lines) in [
            ("{}", "data: {}\n"),
            ("{\n \"a\": 1\n}", "data: {\ndata:  \"a\": 1\ndata: }\n"),
            ("{\r\n}\r[\n\n", "data: {\ndata: }\ndata: [\ndata: \ndata: \n"),
        ] {
            let changed = event.with_data(data.as_bytes());
            let expected = format!(": hello\nid: 7\nretry: 5\n{lines}\n");
            assert_eq!(String::from_utf8_lossy(&changed.0), expected);
            let mut framer = Framer::default();
            framer.push(&changed.0);
            let read = framer.next_event().unwrap();
            let lf = data.replace("\r\n", "\n").replace('\r', "\n");
            assert_eq!(read.data().unwrap().as_ref(), lf.as_bytes());
            assert!(framer.finish().is_none());
        }
        let message = Event::message(Some("3"), b"{}");
        assert_eq!(message.0, b"id: 3\nevent: message\ndata: {}\n\n".to_vec());
    }
}
