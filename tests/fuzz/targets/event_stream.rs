//! Event streams: the same events however the bytes arrive, and replaced data is read back.
#![no_main]
#![allow(missing_docs, unsafe_code, reason = "the macro of libfuzzer-sys")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a panic is what is looked for")]

use context_guard_protocol::sse::{Event, Framer};
use libfuzzer_sys::fuzz_target;

fn events(stream: &[u8], chunk: usize) -> Vec<Event> {
    let (mut framer, mut events) = (Framer::default(), Vec::new());
    for chunk in stream.chunks(chunk.max(1)) {
        framer.push(chunk);
        events.extend(std::iter::from_fn(|| framer.next_event()));
    }
    events.extend(framer.finish());
    assert_eq!(framer.pending_bytes(), 0);
    events
}

/// Returns text as a client of an event stream reads it: each line break is a line feed.
fn with_line_feeds(data: &[u8]) -> Vec<u8> {
    let mut read = Vec::new();
    for (at, byte) in data.iter().enumerate() {
        match byte {
            b'\r' => read.push(b'\n'),
            b'\n' if at > 0 && data[at - 1] == b'\r' => {}
            other => read.push(*other),
        }
    }
    read
}

fuzz_target!(|stream: &[u8]| {
    let whole = events(stream, stream.len());
    let verbatim: Vec<u8> = whole.iter().flat_map(|event| event.0.clone()).collect();
    assert_eq!(verbatim, stream, "bytes are lost");
    let first = stream.first().map_or(1, |byte| usize::from(*byte));
    for chunk in [1, 2, 3, first] {
        assert_eq!(events(stream, chunk), whole, "other events in chunks of {chunk} bytes");
    }
    for event in whole.iter().take(20) {
        let changed = event.with_data(stream);
        let read = events(&changed.0, 7);
        assert_eq!(read.len(), 1, "a replaced event is {} events", read.len());
        assert_eq!(read[0].data().as_deref(), Some(with_line_feeds(stream).as_slice()));
        assert_eq!((read[0].id(), read[0].retry()), (event.id(), event.retry()));
    }
    let message = events(&Event::message(Some("3-1"), stream).0, first);
    assert_eq!(message.len(), 1);
    assert_eq!(message[0].id(), Some(&b"3-1"[..]));
    assert_eq!(message[0].data().as_deref(), Some(with_line_feeds(stream).as_slice()));
});
