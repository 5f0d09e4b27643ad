//! Event streams, framed by event: what belongs to an event passes as it came, unless its data is changed.

use std::borrow::Cow;

/// Cuts a stream of bytes into events.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    buffer: Vec<u8>,
    /// Bytes of the buffer in which no end of an event begins.
    seen: usize,
}

impl Framer {
    /// Adds bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes that belong to an event which is not whole yet.
    pub(crate) fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// The next whole event, with the empty line that ends it.
    pub(crate) fn event(&mut self) -> Option<Event> {
        let end = self.end()?;
        self.seen = 0;
        let rest = self.buffer.split_off(end);
        Some(Event(std::mem::replace(&mut self.buffer, rest)))
    }

    /// What is left when the stream has ended.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.seen = 0;
        std::mem::take(&mut self.buffer)
    }

    /// Where the first event ends: after two ends of line in a row, each `\n`, `\r\n` or `\r`.
    fn end(&mut self) -> Option<usize> {
        let mut at = self.seen;
        while let Some(found) = self
            .buffer
            .get(at..)
            .and_then(|rest| memchr::memchr2(b'\n', b'\r', rest))
            .map(|found| found + at)
        {
            // A carriage return at the very end may be half of an end of line.
            let Some(first) = line_end(&self.buffer, found) else {
                self.seen = found;
                return None;
            };
            match self.buffer.get(first) {
                None => {
                    self.seen = found;
                    return None;
                }
                Some(b'\n' | b'\r') => match line_end(&self.buffer, first) {
                    Some(end) => return Some(end),
                    None => {
                        self.seen = found;
                        return None;
                    }
                },
                Some(_) => at = first,
            }
        }
        self.seen = self.buffer.len();
        None
    }
}

/// Where the end of line that begins at `at` ends; none where that cannot be told yet.
fn line_end(buffer: &[u8], at: usize) -> Option<usize> {
    match (buffer.get(at), buffer.get(at + 1)) {
        (Some(b'\n'), _) => Some(at + 1),
        (Some(b'\r'), Some(b'\n')) => Some(at + 2),
        (Some(b'\r'), Some(_)) => Some(at + 1),
        _ => None,
    }
}

/// An event as it came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event(pub(crate) Vec<u8>);

impl Event {
    /// An event with a message, under an id if it has one.
    pub(crate) fn message(id: Option<&str>, data: &[u8]) -> Self {
        let mut event = Vec::with_capacity(data.len() + 64);
        if let Some(id) = id {
            event.extend_from_slice(format!("id: {id}\n").as_bytes());
        }
        event.extend_from_slice(b"event: message\n");
        data_lines(&mut event, data);
        event.push(b'\n');
        Self(event)
    }

    fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.split(|byte| *byte == b'\n').flat_map(|line| line.split(|byte| *byte == b'\r')).map(
            |line| {
                let colon = memchr::memchr(b':', line).unwrap_or(line.len());
                let (name, value) = line.split_at_checked(colon).unwrap_or((line, b""));
                let value = value.strip_prefix(b":").unwrap_or(value);
                (name, value.strip_prefix(b" ").unwrap_or(value))
            },
        )
    }

    /// Its data; none where it has none.
    pub(crate) fn data(&self) -> Option<Cow<'_, [u8]>> {
        let mut lines = self.fields().filter(|(name, _)| *name == b"data").map(|(_, data)| data);
        let first = lines.next()?;
        let rest: Vec<&[u8]> = lines.collect();
        if rest.is_empty() {
            return Some(Cow::Borrowed(first));
        }
        let all: Vec<&[u8]> = [first].into_iter().chain(rest).collect();
        Some(Cow::Owned(all.join(&b'\n')))
    }

    /// Its id, if it has one.
    pub(crate) fn id(&self) -> Option<&[u8]> {
        self.fields().find(|(name, _)| *name == b"id").map(|(_, id)| id)
    }

    /// The same event with other data: ids, names and comments stay.
    pub(crate) fn with_data(&self, data: &[u8]) -> Self {
        let mut event = Vec::with_capacity(data.len() + 64);
        for (name, value) in self.fields() {
            if name != b"data" && !(name.is_empty() && value.is_empty()) {
                event.extend_from_slice(name);
                event.extend_from_slice(b": ");
                event.extend_from_slice(value);
                event.push(b'\n');
            }
        }
        data_lines(&mut event, data);
        event.push(b'\n');
        Self(event)
    }
}

fn data_lines(event: &mut Vec<u8>, data: &[u8]) {
    for line in data.split(|byte| *byte == b'\n') {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_framed_however_the_bytes_are_cut_and_lines_end() {
        for end in ["\n", "\r\n", "\r"] {
            let stream = ["id: 1", "data: {\"a\":", "data: 1}", "", ": comment", "", "data:x", ""]
                .map(|line| format!("{line}{end}"))
                .concat();
            for size in 1..stream.len() {
                let mut framer = Framer::default();
                let mut events = Vec::new();
                for chunk in stream.as_bytes().chunks(size) {
                    framer.push(chunk);
                    while let Some(event) = framer.event() {
                        events.push(event);
                    }
                }
                // A carriage return at the end of the stream may still be half of an end of line.
                let rest = framer.rest();
                if !rest.is_empty() {
                    assert_eq!(end, "\r");
                    events.push(Event(rest));
                }
                assert_eq!(events.len(), 3, "{end:?} by {size}");
                assert_eq!(events[0].data().unwrap().as_ref(), b"{\"a\":\n1}");
                assert_eq!(events[0].id(), Some(&b"1"[..]));
                assert_eq!(events[1].data(), None);
                assert_eq!(events[2].data().unwrap().as_ref(), b"x");
            }
        }
    }

    #[test]
    fn other_data_leaves_ids_and_comments() {
        let event = Event(b": hello\nid: 7\nretry: 5\ndata: old\n\n".to_vec());
        assert_eq!(event.with_data(b"new").0, b": hello\nid: 7\nretry: 5\ndata: new\n\n".to_vec());
        assert_eq!(
            Event::message(Some("3"), b"{}").0,
            b"id: 3\nevent: message\ndata: {}\n\n".to_vec()
        );
    }
}
