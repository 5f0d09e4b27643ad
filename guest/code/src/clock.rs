//! The clock of the engine, which is constant during a run.
#![allow(unsafe_code, reason = "the engine imports a C function")]

use std::sync::atomic::{AtomicU64, Ordering};

/// The time of the engine, in microseconds since 1970.
static NOW: AtomicU64 = AtomicU64::new(0);

/// Sets the time that the engine reads: for `Date`, and as the seed of random numbers when a
/// context is created.
pub(crate) fn set(microseconds: u64) {
    NOW.store(microseconds, Ordering::Relaxed);
}

/// Returns the time for the engine, in microseconds since 1970.
#[unsafe(no_mangle)]
extern "C" fn __rquickjs_host_now_us() -> f64 {
    // The engine's own unit. Exact up to the year 2255.
    NOW.load(Ordering::Relaxed) as f64
}
