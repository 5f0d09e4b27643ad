//! The treatment of bodies from Envoy. Those that arrive in parts are collected, in memory whose
//! size is limited for all of them.

use std::sync::Arc;

use super::body_memory::{BodyShare, EnvoyBodyMemory};

/// The treatment of a body.
pub(super) enum BodyState {
    /// The body passes unchanged.
    Pass,
    /// Envoy sends the whole body in one message.
    Whole,
    /// The bytes are collected until the body ends.
    Collect(CollectedBody),
    /// The events of a stream are shaped one by one. The share counts the incomplete event.
    Events(BodyShare),
    /// The body was already replaced. Its remaining chunks are dropped.
    Drop,
}

impl BodyState {
    /// Returns the collected bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        if let Self::Collect(body) = self { body.into_bytes() } else { Vec::new() }
    }

    /// Returns the share of the memory for bodies. `None` if this body uses none.
    pub(super) fn share(&self) -> Option<&BodyShare> {
        match self {
            Self::Collect(body) => Some(&body.share),
            Self::Events(share) => Some(share),
            Self::Pass | Self::Whole | Self::Drop => None,
        }
    }
}

/// The reason why a body is not collected to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyExcess {
    /// The body is too long.
    TooLong,
    /// The body was given up, because the bodies of all exchanges exceed their memory.
    NoMemory,
}

/// The parts of a body that have arrived.
pub(super) struct CollectedBody {
    bytes: Vec<u8>,
    max_bytes: usize,
    share: BodyShare,
}

impl CollectedBody {
    /// Creates an empty body of at most `max_bytes` bytes, in the share of a principal.
    pub(super) fn new(max_bytes: usize, memory: &Arc<EnvoyBodyMemory>, principal: &str) -> Self {
        Self { bytes: Vec::new(), max_bytes, share: BodyShare::new(memory, principal) }
    }

    /// Appends a part.
    ///
    /// # Errors
    /// The reason why the body is not collected further. Its bytes include the part.
    pub(super) fn push(&mut self, part: &[u8]) -> Result<(), BodyExcess> {
        self.bytes.extend_from_slice(part);
        if self.bytes.len() > self.max_bytes {
            return Err(BodyExcess::TooLong);
        }
        self.share.resize(self.bytes.len()).then_some(()).ok_or(BodyExcess::NoMemory)
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes, which no longer count.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_all_exchanges_share_memory() {
        let memory = EnvoyBodyMemory::new(1_000, 500);
        let body = |principal: &str| CollectedBody::new(400, &memory, principal);
        let (mut first, mut second, mut other) = (body("ann"), body("ann"), body("bob"));
        for (body, bytes) in [(&mut first, 400), (&mut second, 100), (&mut other, 400)] {
            assert_eq!(body.push(&vec![0; bytes]), Ok(()));
        }
        // The principal has two bodies.
        assert_eq!(second.push(&[0; 200]), Ok(()));
        assert_eq!(first.push(b""), Err(BodyExcess::NoMemory));
        assert_eq!(other.push(&[0; 1]), Err(BodyExcess::TooLong));
        assert_eq!(second.into_bytes().len(), 300);
        assert_eq!(body("ann").push(&[0; 400]), Ok(()));
    }
}
