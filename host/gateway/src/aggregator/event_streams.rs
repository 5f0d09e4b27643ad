//! The event streams (SSE) of a stateful client. Sent events are retained for a while, so that a
//! client can resume a stream after its connection was lost.
//!
//! Each stream has at most one reader, which takes events when its connection accepts them. If a
//! client is slow, the gateway first drops notifications, then ends the client's streams.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::memory_shares::{MemoryShare, MemoryShares};

/// The maximum total size of a session's retained events, in bytes. Events that a connected client
/// has not read yet may exceed this size.
const MAX_RETAINED_BYTES: usize = 4 << 20;
/// The maximum total size of the unsent events of a stream, in bytes. Beyond it, notifications are
/// dropped.
const MAX_UNSENT_STREAM_BYTES: usize = 256 << 10;
/// The maximum total size of the unsent events of a session, in bytes. Beyond it, the oldest stream
/// with unsent events ends.
const MAX_UNSENT_BYTES: usize = 32 << 20;
/// The maximum total size of the retained events of all sessions, in bytes.
const MAX_TOTAL_RETAINED_BYTES: usize = 256 << 20;
/// The maximum total size of the retained events of an owner's sessions, in bytes.
const MAX_OWNER_RETAINED_BYTES: usize = 64 << 20;
/// The maximum total size of the unsent events of all sessions, in bytes.
const MAX_TOTAL_UNSENT_BYTES: usize = 512 << 20;
/// The maximum total size of the unsent events of an owner's sessions, in bytes.
const MAX_OWNER_UNSENT_BYTES: usize = 128 << 20;
/// The memory that a retained event needs in addition to its message, in bytes.
const EVENT_OVERHEAD: usize = 128;
/// The maximum number of ended streams whose events are retained.
const MAX_ENDED_STREAMS: usize = 64;
/// The id of the stream for messages that belong to no request.
pub(super) const COMMON_STREAM: u64 = 0;

/// An event: its id (stream and number, as in `3-17`) and its message.
pub type StreamEvent = (String, Bytes);

struct RetainedEvent {
    number: u64,
    message: Bytes,
}

impl RetainedEvent {
    fn bytes(&self) -> usize {
        self.message.len() + EVENT_OVERHEAD
    }
}

#[derive(Default)]
struct EventStream {
    /// The number of the next event that is added to the stream.
    next: u64,
    /// The number of the first event that no reader has taken.
    unsent: u64,
    /// The total size in bytes of the events that no reader has taken.
    unsent_bytes: usize,
    events: VecDeque<RetainedEvent>,
    /// Wakes the reader of the stream. `None` if no client is connected.
    reader: Option<Arc<Notify>>,
    ended: bool,
}

impl EventStream {
    /// Connects a new reader, and ends an earlier one. Returns the handle that wakes the new
    /// reader.
    fn connect(&mut self) -> Arc<Notify> {
        let wake = Arc::new(Notify::new());
        if let Some(earlier) = self.reader.replace(Arc::clone(&wake)) {
            earlier.notify_one();
        }
        wake
    }

    /// Marks the events before the one with the number `next` as sent. Returns the size of those
    /// that were unsent, in bytes.
    fn set_sent(&mut self, next: u64) -> usize {
        let is_new = |event: &&RetainedEvent| (self.unsent..next).contains(&event.number);
        let sent = self.events.iter().rev().skip_while(|event| event.number >= next);
        let bytes = sent.take_while(is_new).map(RetainedEvent::bytes).sum();
        self.unsent = self.unsent.max(next);
        self.unsent_bytes -= bytes;
        bytes
    }

    fn wake(&self) {
        if let Some(reader) = &self.reader {
            reader.notify_one();
        }
    }
}

/// The memory for the events of all sessions. Each owner of sessions has a share of it.
pub struct EventMemory {
    retained: Arc<MemoryShares>,
    /// Counts unsent events once more. They have limits of their own, because evicting them loses
    /// messages.
    unsent: Arc<MemoryShares>,
}

impl Default for EventMemory {
    fn default() -> Self {
        Self {
            retained: MemoryShares::new(MAX_TOTAL_RETAINED_BYTES, MAX_OWNER_RETAINED_BYTES),
            unsent: MemoryShares::new(MAX_TOTAL_UNSENT_BYTES, MAX_OWNER_UNSENT_BYTES),
        }
    }
}

impl EventMemory {
    /// Returns the streams of a new session of `owner`.
    #[must_use]
    pub fn streams(&self, owner: &Arc<str>) -> EventStreams {
        EventStreams(Arc::new(Mutex::new(StreamsState {
            last_id: 0,
            bytes: 0,
            unsent_bytes: 0,
            streams: BTreeMap::new(),
            retained: self.retained.holder(owner),
            unsent: self.unsent.holder(owner),
        })))
    }
}

struct StreamsState {
    last_id: u64,
    /// The total size of the retained events of all streams, in bytes.
    bytes: usize,
    /// The total size in bytes of those retained events that no reader has taken.
    unsent_bytes: usize,
    streams: BTreeMap<u64, EventStream>,
    /// Counts `bytes` with those of other sessions.
    retained: MemoryShare,
    /// Counts `unsent_bytes` with those of other sessions.
    unsent: MemoryShare,
}

/// All event streams of a session. Clones refer to the same streams.
#[derive(Clone)]
pub struct EventStreams(Arc<Mutex<StreamsState>>);

/// Takes the events of one stream. Dropping it disconnects the client from the stream.
pub struct EventReader {
    streams: EventStreams,
    id: u64,
    /// The number of the next event to read.
    next: u64,
    wake: Arc<Notify>,
}

impl EventReader {
    /// Waits for the next event. Returns `None` if the stream has ended, or another reader is
    /// connected.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        let streams = self.streams.clone();
        loop {
            let taken = streams.state().take(self)?;
            if taken.is_some() {
                return taken;
            }
            self.wake.notified().await;
        }
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        let mut state = self.streams.state();
        let stream = state.streams.get_mut(&self.id).filter(|stream| self.is_reader_of(stream));
        if let Some(stream) = stream {
            stream.reader = None;
        }
    }
}

impl EventReader {
    fn is_reader_of(&self, stream: &EventStream) -> bool {
        stream.reader.as_ref().is_some_and(|reader| Arc::ptr_eq(reader, &self.wake))
    }
}

impl EventStreams {
    fn state(&self) -> MutexGuard<'_, StreamsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reader(&self, id: u64, next: u64, stream: &mut EventStream) -> EventReader {
        EventReader { streams: self.clone(), id, next, wake: stream.connect() }
    }

    /// Opens a stream for the answer to one client request. Returns the stream's id and the reader
    /// of its events.
    #[must_use]
    pub fn open(&self) -> (u64, EventReader) {
        let mut state = self.state();
        state.last_id += 1;
        let id = state.last_id;
        // Number 0 is the priming event, which contains no message.
        let mut stream = EventStream { next: 1, unsent: 1, ..EventStream::default() };
        let reader = self.reader(id, 1, &mut stream);
        state.streams.insert(id, stream);
        state.evict();
        (id, reader)
    }

    /// Connects the client to the common stream, beginning with the first unsent event. Returns
    /// `None` if a client is already connected.
    #[must_use]
    pub fn listen(&self) -> Option<EventReader> {
        let mut state = self.state();
        let stream = state.streams.entry(COMMON_STREAM).or_default();
        if stream.reader.is_some() {
            return None;
        }
        let next = stream.unsent;
        Some(self.reader(COMMON_STREAM, next, stream))
    }

    /// Returns a reader of the events after the one with the id `last` in the same stream. An
    /// earlier reader of the stream ends. `None` if the stream is no longer retained, or `last` is
    /// invalid.
    #[must_use]
    pub fn resume(&self, last: &str) -> Option<EventReader> {
        let (id, number) = last.split_once('-')?;
        let (id, number): (u64, u64) = (id.parse().ok()?, number.parse().ok()?);
        let mut state = self.state();
        let stream = state.streams.get_mut(&id)?;
        Some(self.reader(id, number.checked_add(1)?, stream))
    }

    /// Sends a message as the next event of the stream `id`, and retains the event. Drops the
    /// message if the stream no longer exists. A notification (`is_notification`) is dropped if the
    /// stream has too many unsent bytes.
    pub fn send(&self, id: u64, message: impl Into<Bytes>, is_notification: bool) {
        let mut state = self.state();
        let message: Bytes = message.into();
        let bytes = message.len() + EVENT_OVERHEAD;
        let stream = match state.streams.get_mut(&id) {
            Some(stream) => stream,
            None if id == COMMON_STREAM => state.streams.entry(COMMON_STREAM).or_default(),
            None => return,
        };
        if is_notification && stream.unsent_bytes + bytes > MAX_UNSENT_STREAM_BYTES {
            return;
        }
        let number = stream.next;
        stream.next += 1;
        stream.unsent_bytes += bytes;
        stream.events.push_back(RetainedEvent { number, message });
        stream.wake();
        state.bytes += bytes;
        state.unsent_bytes += bytes;
        state.evict();
    }

    /// Returns true if a notification of `bytes` bytes fits into the unsent events of the stream
    /// `id`. Also returns true if no client is connected, because waiting would not help.
    pub(super) fn has_room(&self, id: u64, bytes: usize) -> bool {
        self.state().streams.get(&id).is_none_or(|stream| {
            stream.reader.is_none()
                || stream.unsent_bytes + bytes + EVENT_OVERHEAD <= MAX_UNSENT_STREAM_BYTES
        })
    }

    /// Ends the stream with this id. Its events are retained.
    pub fn end(&self, id: u64) {
        if let Some(stream) = self.state().streams.get_mut(&id) {
            stream.ended = true;
            stream.wake();
        }
    }

    /// Removes the stream with this id and its events. Returns false if it was already removed,
    /// because its client was too slow.
    pub fn forget(&self, id: u64) -> bool {
        let mut state = self.state();
        let is_removed = state.forget(id);
        state.count();
        is_removed
    }

    /// Removes retained events that exceed the session's part of a shared limit. Other sessions
    /// may have exceeded the limit since the last event.
    pub(super) fn trim(&self) {
        self.state().evict();
    }
}

impl StreamsState {
    /// Takes the next event for a reader. Returns `None` if the stream has ended for this reader,
    /// and `Some(None)` if the reader must wait.
    fn take(&mut self, reader: &mut EventReader) -> Option<Option<StreamEvent>> {
        let stream = self.streams.get_mut(&reader.id)?;
        if !reader.is_reader_of(stream) {
            return None;
        }
        // Numbers ascend, and evicted events are missing.
        let at = stream.events.partition_point(|event| event.number < reader.next);
        let Some(event) = stream.events.get(at) else {
            return if stream.ended { None } else { Some(None) };
        };
        reader.next = event.number + 1;
        let taken = (format!("{}-{}", reader.id, event.number), event.message.clone());
        self.unsent_bytes -= stream.set_sent(reader.next);
        self.evict();
        Some(Some(taken))
    }

    fn forget(&mut self, id: u64) -> bool {
        let Some(stream) = self.streams.remove(&id) else { return false };
        self.bytes -= stream.events.iter().map(RetainedEvent::bytes).sum::<usize>();
        self.unsent_bytes -= stream.unsent_bytes;
        stream.wake();
        true
    }

    /// Removes ended streams, sent events and unsent events, each from the oldest, until the
    /// numbers of streams and bytes are within their limits.
    fn evict(&mut self) {
        let ended: Vec<u64> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.ended && stream.reader.is_none())
            .map(|(id, _)| *id)
            .collect();
        for id in ended.iter().take(ended.len().saturating_sub(MAX_ENDED_STREAMS)) {
            self.forget(*id);
        }
        let (max_bytes, max_unsent_bytes) = self.count();
        while self.bytes > max_bytes && self.evict_event() {}
        while self.unsent_bytes > max_unsent_bytes {
            let oldest = self.streams.iter().find(|(_, stream)| stream.unsent_bytes > 0);
            let Some((id, _)) = oldest else { break };
            self.forget(*id);
        }
        self.count();
    }

    /// Counts the bytes of this session with those of other sessions. Returns the maximum numbers
    /// of retained and of unsent bytes that the session may have now.
    fn count(&mut self) -> (usize, usize) {
        let retained = self.retained.resize(self.bytes);
        let unsent = self.unsent.resize(self.unsent_bytes);
        (retained.min(MAX_RETAINED_BYTES), unsent.min(MAX_UNSENT_BYTES))
    }

    /// Removes the oldest sent event. If there is none, removes the oldest event of a stream
    /// without a connected client. Returns false if there is no such event.
    fn evict_event(&mut self) -> bool {
        let first = |stream: &EventStream| stream.events.front().map(|event| event.number);
        let oldest = |is_evictable: &dyn Fn(&EventStream) -> bool| {
            let found = self.streams.iter().find(|(_, stream)| is_evictable(stream));
            found.map(|(id, _)| *id)
        };
        let sent = oldest(&|stream| first(stream).is_some_and(|number| number < stream.unsent));
        let unread = || oldest(&|stream| first(stream).is_some() && stream.reader.is_none());
        let Some(stream) = sent.or_else(unread).and_then(|id| self.streams.get_mut(&id)) else {
            return false;
        };
        let Some(number) = first(stream) else { return false };
        self.unsent_bytes -= stream.set_sent(number + 1);
        self.bytes -= stream.events.pop_front().map_or(0, |event| event.bytes());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use futures_util::FutureExt;

    /// Returns the events that wait for a reader.
    fn all(reader: &mut EventReader) -> Vec<String> {
        std::iter::from_fn(|| reader.next().now_or_never().flatten())
            .map(|(id, message)| format!("{id}:{}", String::from_utf8_lossy(&message)))
            .collect()
    }

    fn streams() -> EventStreams {
        EventMemory::default().streams(&"p".into())
    }

    fn has_ended(reader: &mut EventReader) -> bool {
        reader.next().now_or_never() == Some(None)
    }

    #[test]
    fn broken_stream_is_resumed() {
        let streams = streams();
        let (id, mut first) = streams.open();
        streams.send(id, "a", false);
        assert_eq!(all(&mut first), ["1-1:a"]);
        drop(first);
        streams.send(id, "b", false);
        let mut second = streams.resume("1-1").unwrap();
        streams.send(id, "c", false);
        assert_eq!(all(&mut second), ["1-2:b", "1-3:c"]);
        streams.end(id);
        let mut third = streams.resume("1-0").unwrap();
        assert!(has_ended(&mut second), "one reader at a time");
        assert_eq!(all(&mut third), ["1-1:a", "1-2:b", "1-3:c"]);
        assert!(has_ended(&mut third));
        assert!(streams.resume("9-1").is_none() && streams.resume("x").is_none());
    }

    #[test]
    fn common_stream_retains_events_for_one_client() {
        let streams = streams();
        streams.send(COMMON_STREAM, "early", true);
        let mut common = streams.listen().unwrap();
        assert!(streams.listen().is_none());
        streams.send(COMMON_STREAM, "late", true);
        assert_eq!(all(&mut common), ["0-0:early", "0-1:late"]);
        drop(common);
        let mut again = streams.listen().unwrap();
        assert!(all(&mut again).is_empty());
        drop(again);
        for _ in 0..40 {
            streams.send(COMMON_STREAM, vec![b'x'; 1 << 20], false);
        }
        assert!(streams.state().bytes <= MAX_RETAINED_BYTES);
    }

    #[test]
    fn unread_notifications_are_dropped_before_answers() {
        let streams = streams();
        let (id, mut reader) = streams.open();
        for _ in 0..100_000 {
            streams.send(id, "progress", true);
        }
        streams.send(id, vec![b'x'; 6 << 20], false);
        streams.end(id);
        assert!(streams.state().bytes <= MAX_UNSENT_STREAM_BYTES + (6 << 20) + EVENT_OVERHEAD);
        let read = all(&mut reader);
        assert!(read.len() > 1_000 && read.last().is_some_and(|last| last.len() > 6 << 20));
        assert_eq!(streams.state().unsent_bytes, 0);
        // The answer was sent, and is larger than what is retained.
        assert!(streams.state().bytes <= MAX_RETAINED_BYTES);
    }

    #[test]
    fn unread_answers_end_the_oldest_stream() {
        let streams = streams();
        let mut readers: Vec<(u64, EventReader)> = (0..12).map(|_| streams.open()).collect();
        for (id, _) in &readers {
            streams.send(*id, vec![b'x'; 5 << 20], false);
        }
        assert!(streams.state().bytes <= MAX_UNSENT_BYTES);
        let ended = readers.iter_mut().map(|(_, reader)| has_ended(reader));
        assert_eq!(ended.filter(|ended| *ended).count(), 6);
        drop(readers);
        assert!(streams.state().bytes <= MAX_UNSENT_BYTES);
        let totals = |state: &StreamsState| {
            let streams = || state.streams.values();
            let events = streams().flat_map(|stream| &stream.events).map(RetainedEvent::bytes);
            (events.sum::<usize>(), streams().map(|stream| stream.unsent_bytes).sum::<usize>())
        };
        let state = streams.state();
        assert_eq!(totals(&state), (state.bytes, state.unsent_bytes));
    }

    #[test]
    fn sessions_of_an_owner_share_the_memory_for_sent_events() {
        let memory = EventMemory::default();
        let retained = |streams: &EventStreams| streams.state().bytes;
        let session = |owner: &str| {
            let streams = memory.streams(&owner.into());
            let (id, mut reader) = streams.open();
            for _ in 0..4 {
                streams.send(id, vec![b'x'; (1 << 20) - EVENT_OVERHEAD], false);
            }
            assert_eq!(all(&mut reader).len(), 4, "a connected client receives all");
            streams
        };
        let ann: Vec<EventStreams> = (0..100).map(|_| session("ann")).collect();
        let bob = session("bob");
        ann.iter().for_each(EventStreams::trim);
        let of_ann: usize = ann.iter().map(retained).sum();
        assert!(of_ann <= MAX_OWNER_RETAINED_BYTES, "{of_ann}");
        assert_eq!(retained(&bob), MAX_RETAINED_BYTES, "others are not affected");
        drop(ann);
        assert_eq!(retained(&session("ann")), MAX_RETAINED_BYTES);
    }

    #[test]
    fn sessions_of_an_owner_share_the_memory_for_unsent_events() {
        let memory = EventMemory::default();
        let session = |_| {
            let streams = memory.streams(&"ann".into());
            let (id, reader) = streams.open();
            streams.send(id, Bytes::from_static(&[b'x'; 5 << 20]), false);
            (streams, reader)
        };
        let sessions: Vec<(EventStreams, EventReader)> = (0..100).map(session).collect();
        let unsent = sessions.iter().map(|(streams, _)| {
            streams.trim();
            streams.state().unsent_bytes
        });
        let unsent: usize = unsent.sum();
        assert!(unsent <= MAX_OWNER_UNSENT_BYTES && unsent > 0, "{unsent}");
    }
}
