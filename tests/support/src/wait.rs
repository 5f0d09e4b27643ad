//! Waiting for observable events.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The maximum time until an awaited event. Tests run beside each other on few cores.
const TIMEOUT: Duration = Duration::from_secs(180);
/// The time between two attempts, in milliseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until `is_true` returns true, and returns the time that this took.
///
/// # Errors
/// The first error of `is_true`, or a timeout that names `event`.
pub fn wait_until(event: &str, mut is_true: impl FnMut() -> Result<bool>) -> Result<Duration> {
    let start = Instant::now();
    wait_for(event, || Ok(is_true()?.then(|| start.elapsed())))
}

/// Waits until `attempt` returns a value, and returns that value.
///
/// # Errors
/// The first error of `attempt`, or a timeout that names `event`.
pub fn wait_for<T>(event: &str, mut attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    while start.elapsed() < TIMEOUT {
        if let Some(value) = attempt()? {
            return Ok(value);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    bail!("no {event} within {} s", TIMEOUT.as_secs())
}
