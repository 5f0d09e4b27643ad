//! The limits of a run, and the memory that it may use.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use wasmtime::ResourceLimiter;

/// The limits of one run.
#[derive(Clone, Debug)]
pub struct RunLimits {
    /// The time at which the run must end, even if it waits.
    pub deadline: Instant,
    /// True to end the run before its deadline.
    pub cancelled: Arc<AtomicBool>,
    /// The maximum memory of the program and the engine, in bytes.
    pub memory_bytes: usize,
    /// The maximum size of the returned value as JSON, in bytes.
    pub value_bytes: u32,
    /// The maximum total size of all logged lines, in bytes.
    pub log_bytes: usize,
}

/// Limits the memory of a run, and records if the limit was reached.
pub(crate) struct MemoryLimit {
    max_bytes: usize,
    pub(crate) is_reached: bool,
}

/// The maximum number of elements of a table. The sandbox has only a table of functions.
const MAX_TABLE_ELEMENTS: usize = 20_000;

impl MemoryLimit {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, is_reached: false }
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let fits = desired <= self.max_bytes;
        self.is_reached |= !fits;
        Ok(fits)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= MAX_TABLE_ELEMENTS)
    }
}
