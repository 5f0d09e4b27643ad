//! The event streams (SSE) of a stateful client. Sent events are retained for a while, so that a
//! client can resume a stream after its connection broke.

use std::collections::{BTreeMap, VecDeque};

use tokio::sync::mpsc;

/// The maximum total size of a session's retained events, in bytes.
const MAX_RETAINED_BYTES: usize = 4 << 20;
/// The maximum number of ended streams whose events are retained.
const MAX_ENDED_STREAMS: usize = 64;
/// The id of the stream for messages that belong to no request.
pub(super) const COMMON_STREAM: u64 = 0;

/// An event: its id (stream and number, as in `3-17`) and its message.
pub(super) type StreamEvent = (String, Vec<u8>);

#[derive(Default)]
struct EventStream {
    /// The number of the next event in the stream.
    next: u64,
    events: VecDeque<(u64, Vec<u8>)>,
    /// The channel to the client that receives the stream. `None` if no client is connected.
    live: Option<mpsc::UnboundedSender<StreamEvent>>,
    ended: bool,
}

/// All event streams of a session.
#[derive(Default)]
pub(super) struct EventStreams {
    last_id: u64,
    /// The total size of the retained events of all streams, in bytes.
    bytes: usize,
    streams: BTreeMap<u64, EventStream>,
}

impl EventStreams {
    /// Opens a stream for the answer to one client request. Returns the stream's id and the
    /// receiver of its events.
    pub(super) fn open(&mut self) -> (u64, mpsc::UnboundedReceiver<StreamEvent>) {
        self.last_id += 1;
        let (live, receiver) = mpsc::unbounded_channel();
        // Number 0 is the priming event, which contains no message.
        let stream = EventStream { next: 1, live: Some(live), ..EventStream::default() };
        self.streams.insert(self.last_id, stream);
        self.evict();
        (self.last_id, receiver)
    }

    /// Connects the client to the common stream, beginning with the events retained for it. Returns
    /// `None` if a client is connected already.
    pub(super) fn listen(&mut self) -> Option<mpsc::UnboundedReceiver<StreamEvent>> {
        let stream = self.streams.entry(COMMON_STREAM).or_default();
        if stream.live.as_ref().is_some_and(|live| !live.is_closed()) {
            return None;
        }
        let (live, receiver) = mpsc::unbounded_channel();
        for (number, message) in std::mem::take(&mut stream.events) {
            self.bytes -= message.len();
            let _ = live.send((format!("{COMMON_STREAM}-{number}"), message));
        }
        stream.live = Some(live);
        Some(receiver)
    }

    /// Returns a receiver of the events after the one with the id `last`, and of later ones in its
    /// stream. `None` if the stream is not retained.
    pub(super) fn resume(&mut self, last: &str) -> Option<mpsc::UnboundedReceiver<StreamEvent>> {
        let (id, number) = last.split_once('-')?;
        let (id, number): (u64, u64) = (id.parse().ok()?, number.parse().ok()?);
        let stream = self.streams.get_mut(&id)?;
        let (live, receiver) = mpsc::unbounded_channel();
        for (later, message) in stream.events.iter().filter(|(later, _)| *later > number) {
            let _ = live.send((format!("{id}-{later}"), message.clone()));
        }
        stream.live = (!stream.ended).then_some(live);
        Some(receiver)
    }

    /// Sends a message as the next event of the stream `id`, and retains the event.
    pub(super) fn send(&mut self, id: u64, message: Vec<u8>) {
        let stream = match self.streams.get_mut(&id) {
            Some(stream) => stream,
            None if id == COMMON_STREAM => self.streams.entry(COMMON_STREAM).or_default(),
            None => return,
        };
        let number = stream.next;
        stream.next += 1;
        let event = (format!("{id}-{number}"), message.clone());
        let is_connected = stream.live.as_ref().is_some_and(|live| live.send(event).is_ok());
        if !is_connected {
            stream.live = None;
        }
        self.bytes += message.len();
        stream.events.push_back((number, message));
        self.evict();
    }

    /// Ends the stream with this id. Its events are retained.
    pub(super) fn end(&mut self, id: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.ended = true;
            stream.live = None;
        }
    }

    /// Removes the stream with this id and its events.
    pub(super) fn forget(&mut self, id: u64) {
        if let Some(stream) = self.streams.remove(&id) {
            self.bytes -= stream.events.iter().map(|(_, message)| message.len()).sum::<usize>();
        }
    }

    /// Removes the oldest ended streams, then the oldest events, until streams and bytes are within
    /// their maximum.
    fn evict(&mut self) {
        let ended: Vec<u64> =
            self.streams.iter().filter(|(_, stream)| stream.ended).map(|(id, _)| *id).collect();
        for id in ended.iter().take(ended.len().saturating_sub(MAX_ENDED_STREAMS)) {
            self.forget(*id);
        }
        while self.bytes > MAX_RETAINED_BYTES {
            let oldest = self.streams.values_mut().find(|stream| !stream.events.is_empty());
            let Some((_, message)) = oldest.and_then(|stream| stream.events.pop_front()) else {
                return;
            };
            self.bytes -= message.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(receiver: &mut mpsc::UnboundedReceiver<StreamEvent>) -> Vec<String> {
        std::iter::from_fn(|| receiver.try_recv().ok())
            .map(|(id, message)| format!("{id}:{}", String::from_utf8(message).unwrap()))
            .collect()
    }

    #[test]
    fn broken_stream_is_resumed() {
        let mut streams = EventStreams::default();
        let (id, mut first) = streams.open();
        streams.send(id, b"a".to_vec());
        assert_eq!(all(&mut first), ["1-1:a"]);
        drop(first);
        streams.send(id, b"b".to_vec());
        let mut second = streams.resume("1-1").unwrap();
        streams.send(id, b"c".to_vec());
        assert_eq!(all(&mut second), ["1-2:b", "1-3:c"]);
        streams.end(id);
        let mut third = streams.resume("1-0").unwrap();
        assert_eq!(all(&mut third), ["1-1:a", "1-2:b", "1-3:c"]);
        assert!(third.is_closed() || third.try_recv().is_err());
        assert!(streams.resume("9-1").is_none() && streams.resume("x").is_none());
    }

    #[test]
    fn common_stream_retains_events_for_one_client() {
        let mut streams = EventStreams::default();
        streams.send(COMMON_STREAM, b"early".to_vec());
        let mut common = streams.listen().unwrap();
        assert!(streams.listen().is_none());
        streams.send(COMMON_STREAM, b"late".to_vec());
        assert_eq!(all(&mut common), ["0-0:early", "0-1:late"]);
        drop(common);
        assert!(streams.listen().is_some());
        for _ in 0..40 {
            streams.send(COMMON_STREAM, vec![b'x'; 1 << 20]);
        }
        assert!(streams.bytes <= MAX_RETAINED_BYTES);
    }
}
