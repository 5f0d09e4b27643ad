//! The stack of objects and arrays whose closing bracket has not been read.

use super::{MAX_DEPTH, Scan, ScanError};

/// A stack of open objects and arrays, with one bit for each: 1 for an object. It allocates only
/// beyond 64 levels.
#[derive(Default)]
pub(super) struct OpenContainers {
    depth: usize,
    /// The innermost 64 open containers. Bit 0 is the innermost.
    bits: u64,
    outer: Vec<u64>,
}

impl OpenContainers {
    #[inline]
    pub(super) fn push(&mut self, object: bool) -> Scan<()> {
        if self.depth >= MAX_DEPTH {
            return Err(ScanError::TooDeep);
        }
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(std::mem::take(&mut self.bits));
        }
        self.bits = self.bits << 1 | u64::from(object);
        self.depth += 1;
        Ok(())
    }

    #[inline]
    pub(super) fn last(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.bits & 1 == 1)
    }

    #[inline]
    pub(super) fn pop(&mut self) {
        self.bits >>= 1;
        self.depth -= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.bits = self.outer.pop().unwrap_or_default();
        }
    }
}
