//! Reads request bodies within limits of size, time and memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use crate::config::{Limits, Timeouts};

/// The size of the buffers for a body until it is complete, in bytes. Buffers are allocated for
/// bytes that have arrived. A client therefore cannot reserve memory by announcing a length.
const PART_BYTES: usize = 64 << 10;
/// The size of the first buffer of a body without an announced length, in bytes.
const FIRST_PART_BYTES: usize = 4 << 10;

/// The reason why a request body was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// The body exceeds `limits.requestBytes`.
    TooLarge,
    /// The body did not arrive within the time limits.
    TooSlow,
    /// All bodies together exceed `limits.bufferedBytes`, or those of one caller exceed its share.
    NoMemory,
    /// The client disconnected or violated the protocol.
    Broken,
}

/// The memory for the request bodies of all clients. Each caller may use only a share of it, so
/// that its bodies do not block those of others.
pub(crate) struct BodyMemory {
    total: usize,
    share: usize,
    used: Mutex<UsedMemory>,
}

#[derive(Default)]
struct UsedMemory {
    bytes: usize,
    by_caller: HashMap<Arc<str>, usize>,
}

/// A part of the memory for request bodies. It is released when this value is dropped.
pub(crate) struct Reservation {
    memory: Arc<BodyMemory>,
    caller: Arc<str>,
    bytes: usize,
}

impl BodyMemory {
    /// Returns the memory for bodies within `limits`. The share of a caller is half of it, but at
    /// least the memory that the longest body needs.
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let total = limits.buffered_bytes;
        let share = (total / 2).max(limits.request_bytes.saturating_mul(2)).min(total);
        Arc::new(Self { total, share, used: Mutex::default() })
    }

    fn used(&self) -> MutexGuard<'_, UsedMemory> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    fn none(memory: &Arc<BodyMemory>, caller: &Arc<str>) -> Self {
        Self { memory: Arc::clone(memory), caller: Arc::clone(caller), bytes: 0 }
    }

    /// Changes the reserved size to `bytes`. Returns false if too little memory is free.
    fn resize(&mut self, bytes: usize) -> bool {
        let mut used = self.memory.used();
        let of_caller = used.by_caller.get(&self.caller).copied().unwrap_or(0);
        let (all, of_caller) = (used.bytes - self.bytes + bytes, of_caller - self.bytes + bytes);
        if bytes > self.bytes && (all > self.memory.total || of_caller > self.memory.share) {
            return false;
        }
        used.bytes = all;
        if of_caller == 0 {
            used.by_caller.remove(&self.caller);
        } else {
            used.by_caller.insert(Arc::clone(&self.caller), of_caller);
        }
        drop(used);
        self.bytes = bytes;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}

/// Reads the request body of a caller completely. Returns it with the reservation, which counts its
/// bytes while it is in memory.
pub(crate) async fn read(
    mut body: Body,
    caller: &Arc<str>,
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
        max: limits.request_bytes,
        next: announced.unwrap_or(FIRST_PART_BYTES).clamp(1, PART_BYTES),
        reserved: Reservation::none(memory, caller),
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

/// The parts of a body that have arrived.
struct Parts {
    parts: Vec<Vec<u8>>,
    length: usize,
    /// The maximum length of the body, in bytes.
    max: usize,
    /// The capacity of the next buffer, in bytes.
    next: usize,
    reserved: Reservation,
}

impl Parts {
    /// Appends bytes. Copies them, because a short part may be a slice of a long read buffer.
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
                let next_length = self.length + self.next;
                self.next = self.max.saturating_sub(next_length).clamp(1, PART_BYTES);
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
        let limits = Limits { buffered_bytes: 1_000_000, ..limits(400_000) };
        let (memory, timeouts) = (BodyMemory::new(&limits), Timeouts::default());
        let (one, other) = (Arc::from("one"), Arc::from("other"));
        let read_of = |caller, body| read(body, caller, &limits, &timeouts, &memory);
        let read = |body| read_of(&one, body);
        let used = || memory.used().bytes;
        let (body, first) = read(chunked(40, 10_000)).await.unwrap();
        assert_eq!((body.len(), used()), (400_000, 400_000));
        // The share of the caller is 800,000 bytes, and a body needs twice its length for a moment.
        assert_eq!(read(chunked(24, 10_000)).await.err(), Some(BodyError::NoMemory));
        let (_, second) = read(chunked(10, 10_000)).await.unwrap();
        let (_, third) = read_of(&other, chunked(20, 10_000)).await.unwrap();
        assert_eq!(used(), 700_000);
        assert_eq!(read_of(&other, chunked(24, 10_000)).await.err(), Some(BodyError::NoMemory));
        drop((first, second, third));
        assert_eq!(read(chunked(41, 10_000)).await.err(), Some(BodyError::TooLarge));
        assert_eq!(read(Body::from(vec![0; 400_001])).await.err(), Some(BodyError::TooLarge));
        let (body, exact) = read(Body::from(vec![0; 5])).await.unwrap();
        assert_eq!((body.len(), exact.bytes), (5, 5));
        let (body, empty) = read(Body::empty()).await.unwrap();
        assert_eq!((body.len(), empty.bytes), (0, 0));
        drop(exact);
        assert_eq!(used(), 0);
        assert!(memory.used().by_caller.is_empty());
    }

    #[tokio::test]
    async fn longest_body_fits_into_the_smallest_memory() {
        let limits = Limits { buffered_bytes: 800_000, ..limits(400_000) };
        let memory = BodyMemory::new(&limits);
        let body = chunked(40, 10_000);
        let read = read(body, &Arc::from("one"), &limits, &Timeouts::default(), &memory).await;
        assert_eq!(read.map(|(body, _)| body.len()).ok(), Some(400_000));
    }

    #[tokio::test]
    async fn slow_bodies_are_given_up() {
        let limits = Limits { buffered_bytes: 200_000, ..limits(60_000) };
        let (memory, caller) = (BodyMemory::new(&limits), Arc::from("one"));
        let part = || Ok::<_, std::io::Error>(vec![b'x'; 10]);
        let silent = Body::from_stream(stream::iter([part()]).chain(stream::pending()));
        let timeouts = Timeouts { body_part_seconds: 1, ..Timeouts::default() };
        let result = read(silent, &caller, &limits, &timeouts, &memory).await;
        assert_eq!(result.err(), Some(BodyError::TooSlow));
        let endless = Body::from_stream(stream::unfold((), move |()| async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Some((part(), ()))
        }));
        let timeouts = Timeouts { body_seconds: 1, ..Timeouts::default() };
        let result = read(endless, &caller, &limits, &timeouts, &memory).await;
        assert_eq!(result.err(), Some(BodyError::TooSlow));
        assert_eq!(memory.used().bytes, 0);
    }
}
