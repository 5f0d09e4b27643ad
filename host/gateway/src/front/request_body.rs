//! Reads request bodies within limits of size, time and memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use crate::config::{Limits, Timeouts};

/// The size of the buffers that hold a body until it is complete. There are as many as the bytes
/// that have arrived need, so that a client cannot reserve memory by announcing a length.
const PART_BYTES: usize = 64 << 10;
/// The size of the first buffer of a body that announces no length.
const FIRST_PART_BYTES: usize = 4 << 10;

/// The reason why a request body was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// The body is longer than `limits.requestBytes`.
    TooLarge,
    /// The body did not arrive within the time limits.
    TooSlow,
    /// All bodies together are longer than `limits.bufferedBytes`.
    NoMemory,
    /// The client disconnected or violated the protocol.
    Broken,
}

/// The memory for the request bodies of all clients.
pub(crate) struct BodyMemory {
    free: AtomicUsize,
}

/// A part of the memory for request bodies. It is released when dropped.
pub(crate) struct Reservation {
    memory: Arc<BodyMemory>,
    bytes: usize,
}

impl BodyMemory {
    /// Returns the memory for bodies of `bytes` bytes in total.
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { free: AtomicUsize::new(bytes) })
    }

    fn take(&self, bytes: usize) -> bool {
        let less = |free: usize| free.checked_sub(bytes);
        self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
    }
}

impl Reservation {
    fn none(memory: &Arc<BodyMemory>) -> Self {
        Self { memory: Arc::clone(memory), bytes: 0 }
    }

    /// Changes the size to `bytes`. Returns false if too little memory is free.
    fn resize(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes && !self.memory.take(bytes - self.bytes) {
            return false;
        }
        self.memory.free.fetch_add(self.bytes.saturating_sub(bytes), Ordering::AcqRel);
        self.bytes = bytes;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.free.fetch_add(self.bytes, Ordering::AcqRel);
    }
}

/// Reads a request body to its end. The reservation counts its bytes while it is in memory.
pub(crate) async fn read(
    mut body: Body,
    limits: &Limits,
    timeouts: &Timeouts,
    memory: &Arc<BodyMemory>,
) -> Result<(Bytes, Reservation), BodyError> {
    let end = Instant::now() + timeouts.body();
    let announced = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    if body.size_hint().lower() > limits.request_bytes as u64 {
        return Err(BodyError::TooLarge);
    }
    let mut parts = Parts {
        parts: Vec::new(),
        length: 0,
        next: announced.unwrap_or(FIRST_PART_BYTES).clamp(1, PART_BYTES),
        reserved: Reservation::none(memory),
    };
    loop {
        let part_end = end.min(Instant::now() + timeouts.body_part());
        let frame = match timeout_at(part_end, body.frame()).await {
            Err(_) => return Err(BodyError::TooSlow),
            Ok(None) => return parts.join(),
            Ok(Some(Err(_))) => return Err(BodyError::Broken),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(part) = frame.into_data() else { continue };
        if parts.length + part.len() > limits.request_bytes {
            return Err(BodyError::TooLarge);
        }
        parts.push(&part)?;
    }
}

/// The part of a body that has arrived.
struct Parts {
    parts: Vec<Vec<u8>>,
    length: usize,
    /// The capacity of the next buffer.
    next: usize,
    reserved: Reservation,
}

impl Parts {
    /// Copies bytes, because a short part may be a slice of a long read buffer.
    fn push(&mut self, mut bytes: &[u8]) -> Result<(), BodyError> {
        while !bytes.is_empty() {
            let free = self.parts.last().map_or(0, |part| part.capacity() - part.len());
            let (fitting, rest) = bytes.split_at(free.min(bytes.len()));
            if let Some(part) = self.parts.last_mut() {
                part.extend_from_slice(fitting);
            }
            self.length += fitting.len();
            bytes = rest;
            if !bytes.is_empty() {
                if !self.reserved.resize(self.reserved.bytes + self.next) {
                    return Err(BodyError::NoMemory);
                }
                self.parts.push(Vec::with_capacity(self.next));
                self.next = PART_BYTES;
            }
        }
        Ok(())
    }

    fn join(mut self) -> Result<(Bytes, Reservation), BodyError> {
        if self.parts.len() <= 1 {
            return Ok((self.parts.pop().unwrap_or_default().into(), self.reserved));
        }
        // Both the parts and the whole are in memory for a moment.
        if !self.reserved.resize(self.reserved.bytes + self.length) {
            return Err(BodyError::NoMemory);
        }
        let whole = self.parts.concat();
        drop(self.parts);
        self.reserved.resize(whole.len());
        Ok((whole.into(), self.reserved))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{StreamExt, stream};
    use std::time::Duration;

    fn limits(request_bytes: usize) -> Limits {
        Limits { request_bytes, ..Limits::default() }
    }

    fn chunked(parts: usize, bytes: usize) -> Body {
        let parts = (0..parts).map(move |_| Ok::<_, std::io::Error>(vec![b'x'; bytes]));
        Body::from_stream(stream::iter(parts))
    }

    #[tokio::test]
    async fn body_counts_while_it_is_in_memory() {
        let memory = BodyMemory::new(1_000_000);
        let (limits, timeouts) = (limits(400_000), Timeouts::default());
        let read = |body| read(body, &limits, &timeouts, &memory);
        let (body, first) = read(chunked(40, 10_000)).await.unwrap();
        assert_eq!(body.len(), 400_000);
        assert_eq!(memory.free.load(Ordering::Acquire), 600_000);
        let (_, second) = read(chunked(24, 10_000)).await.unwrap();
        assert_eq!(read(chunked(40, 10_000)).await.err(), Some(BodyError::NoMemory));
        assert_eq!(memory.free.load(Ordering::Acquire), 360_000);
        drop((first, second));
        assert_eq!(read(chunked(41, 10_000)).await.err(), Some(BodyError::TooLarge));
        assert_eq!(read(Body::from(vec![0; 400_001])).await.err(), Some(BodyError::TooLarge));
        let (body, exact) = read(Body::from(vec![0; 5])).await.unwrap();
        assert_eq!((body.len(), exact.bytes), (5, 5));
        let (body, empty) = read(Body::empty()).await.unwrap();
        assert_eq!((body.len(), empty.bytes), (0, 0));
        drop(exact);
        assert_eq!(memory.free.load(Ordering::Acquire), 1_000_000);
    }

    #[tokio::test]
    async fn slow_bodies_are_given_up() {
        let memory = BodyMemory::new(100_000);
        let limits = limits(60_000);
        let part = || Ok::<_, std::io::Error>(vec![b'x'; 10]);
        let silent = Body::from_stream(stream::iter([part()]).chain(stream::pending()));
        let timeouts = Timeouts { body_part_seconds: 1, ..Timeouts::default() };
        let result = read(silent, &limits, &timeouts, &memory).await;
        assert_eq!(result.err(), Some(BodyError::TooSlow));
        let endless = Body::from_stream(stream::unfold((), move |()| async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Some((part(), ()))
        }));
        let timeouts = Timeouts { body_seconds: 1, ..Timeouts::default() };
        let result = read(endless, &limits, &timeouts, &memory).await;
        assert_eq!(result.err(), Some(BodyError::TooSlow));
        assert_eq!(memory.free.load(Ordering::Acquire), 100_000);
    }
}
