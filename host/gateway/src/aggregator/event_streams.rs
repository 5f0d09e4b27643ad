//! The event streams of a stateful client: what was sent on each is kept for a while, so that a client whose connection broke can take it up again.

use std::collections::{BTreeMap, VecDeque};

use tokio::sync::mpsc;

/// Bytes of events that are kept for a session.
const MOST: usize = 4 << 20;
/// Streams that have ended and are kept.
const ENDED: usize = 64;
/// The stream of messages that belong to no request.
pub(crate) const COMMON: u64 = 0;

/// An event on its way: its id and its message.
pub(crate) type Sent = (String, Vec<u8>);

#[derive(Default)]
struct Stream {
    /// The number of the next event.
    next: u64,
    events: VecDeque<(u64, Vec<u8>)>,
    live: Option<mpsc::UnboundedSender<Sent>>,
    ended: bool,
}

/// All streams of a session.
#[derive(Default)]
pub(crate) struct Streams {
    last: u64,
    bytes: usize,
    streams: BTreeMap<u64, Stream>,
}

impl Streams {
    /// A new stream, and what comes on it.
    pub(crate) fn open(&mut self) -> (u64, mpsc::UnboundedReceiver<Sent>) {
        self.last += 1;
        let (live, receiver) = mpsc::unbounded_channel();
        self.streams.insert(self.last, Stream { next: 1, live: Some(live), ..Stream::default() });
        self.forget_old();
        (self.last, receiver)
    }

    /// The common stream; none where somebody listens to it already. What waited comes first.
    pub(crate) fn listen(&mut self) -> Option<mpsc::UnboundedReceiver<Sent>> {
        let stream = self.streams.entry(COMMON).or_default();
        if stream.live.as_ref().is_some_and(|live| !live.is_closed()) {
            return None;
        }
        let (live, receiver) = mpsc::unbounded_channel();
        for (number, message) in std::mem::take(&mut stream.events) {
            self.bytes -= message.len();
            let _ = live.send((format!("{COMMON}-{number}"), message));
        }
        stream.live = Some(live);
        Some(receiver)
    }

    /// The stream of an event, from after that event on; none where it is not kept any more.
    pub(crate) fn resume(&mut self, last: &str) -> Option<mpsc::UnboundedReceiver<Sent>> {
        let (id, number) = last.split_once('-')?;
        let (id, number): (u64, u64) = (id.parse().ok()?, number.parse().ok()?);
        let stream = self.streams.get_mut(&id)?;
        let (live, receiver) = mpsc::unbounded_channel();
        for (at, message) in stream.events.iter().filter(|(at, _)| *at > number) {
            let _ = live.send((format!("{id}-{at}"), message.clone()));
        }
        stream.live = (!stream.ended).then_some(live);
        Some(receiver)
    }

    /// Sends a message on a stream.
    pub(crate) fn send(&mut self, id: u64, message: Vec<u8>) {
        let stream = match self.streams.get_mut(&id) {
            Some(stream) => stream,
            None if id == COMMON => self.streams.entry(COMMON).or_default(),
            None => return,
        };
        let number = stream.next;
        stream.next += 1;
        let event = (format!("{id}-{number}"), message.clone());
        let heard = stream.live.as_ref().is_some_and(|live| live.send(event).is_ok());
        if !heard {
            stream.live = None;
        }
        self.bytes += message.len();
        stream.events.push_back((number, message));
        self.forget_old();
    }

    /// No more will come on a stream.
    pub(crate) fn end(&mut self, id: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.ended = true;
            stream.live = None;
        }
    }

    /// A stream is of no use any more.
    pub(crate) fn forget(&mut self, id: u64) {
        if let Some(stream) = self.streams.remove(&id) {
            self.bytes -= stream.events.iter().map(|(_, message)| message.len()).sum::<usize>();
        }
    }

    fn forget_old(&mut self) {
        let ended: Vec<u64> =
            self.streams.iter().filter(|(_, stream)| stream.ended).map(|(id, _)| *id).collect();
        for id in ended.iter().take(ended.len().saturating_sub(ENDED)) {
            self.forget(*id);
        }
        while self.bytes > MOST {
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

    fn all(receiver: &mut mpsc::UnboundedReceiver<Sent>) -> Vec<String> {
        std::iter::from_fn(|| receiver.try_recv().ok())
            .map(|(id, message)| format!("{id}:{}", String::from_utf8(message).unwrap()))
            .collect()
    }

    #[test]
    fn a_broken_stream_is_taken_up_where_it_broke() {
        let mut streams = Streams::default();
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
    fn what_nobody_heard_waits_and_one_listens() {
        let mut streams = Streams::default();
        streams.send(COMMON, b"early".to_vec());
        let mut common = streams.listen().unwrap();
        assert!(streams.listen().is_none());
        streams.send(COMMON, b"late".to_vec());
        assert_eq!(all(&mut common), ["0-0:early", "0-1:late"]);
        drop(common);
        assert!(streams.listen().is_some());
        for _ in 0..40 {
            streams.send(COMMON, vec![b'x'; 1 << 20]);
        }
        assert!(streams.bytes <= MOST);
    }
}
