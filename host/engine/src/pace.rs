//! The time that a call in the sandbox uses: its deadline, and the permits of a long call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use context_guard_cursor_store::scope_principal;
use wasmtime::{Result, Trap, UpdateDeadline};

use super::long_calls::{LongCalls, Turn};
use super::{EPOCH_TICK, Engine};

/// The time that a call has used, and its time limit.
pub struct Pace {
    deadline: Duration,
    /// The time at which the call must end, including the time for which it waits. `None` for guard
    /// calls, whose deadline excludes waiting.
    end: Option<Instant>,
    /// True if the host ends the call.
    cancelled: Arc<AtomicBool>,
    block: fn(&mut dyn FnMut()),
    long_calls: Arc<LongCalls>,
    principal: Arc<str>,
    began: Instant,
    /// The processor time of the thread at the start of the call.
    processor_began: Duration,
    /// The time for which the call waited for permits.
    waited: Duration,
    /// The permit of a long call. `None` for a call that is still short.
    turn: Option<Turn>,
}

impl Pace {
    pub(super) fn new(engine: &Engine, principal: &str) -> Self {
        Self {
            deadline: engine.options.deadline,
            end: None,
            cancelled: Arc::default(),
            block: engine.options.block,
            long_calls: Arc::clone(&engine.long_calls),
            principal: scope_principal(principal).into(),
            began: Instant::now(),
            processor_began: processor_time(),
            waited: Duration::ZERO,
            turn: None,
        }
    }

    /// Creates the time limit of a call of `principal`. The call must end at `end`, which includes
    /// the time for which it waits, or when `cancelled` is set. A wait for a permit is not
    /// interrupted.
    #[must_use]
    pub fn until(
        engine: &Engine,
        principal: &str,
        end: Instant,
        cancelled: Arc<AtomicBool>,
    ) -> Self {
        Self { end: Some(end), cancelled, ..Self::new(engine, principal) }
    }

    /// Starts to measure the time of a call.
    pub(super) fn begin(&mut self) {
        self.began = Instant::now();
        self.processor_began = processor_time();
        self.waited = Duration::ZERO;
    }

    /// Returns the permit of a call that has ended, or that waits for another operation.
    pub fn end(&mut self) {
        self.turn = None;
    }

    /// Ends a call at its deadline or if it is cancelled, and lets a long call wait for a permit.
    /// Called at each epoch.
    ///
    /// # Errors
    /// [`Trap::Interrupt`] at the deadline, or if the call is cancelled.
    pub fn tick(&mut self) -> Result<UpdateDeadline> {
        let is_over = match self.end {
            Some(end) => Instant::now() >= end,
            None => self.began.elapsed().saturating_sub(self.waited) > self.deadline,
        };
        if is_over || self.cancelled.load(Ordering::Relaxed) {
            return Err(Trap::Interrupt.into());
        }
        let Self { turn, long_calls, principal, .. } = self;
        // The time for which the call waited for the store or for a processor does not count.
        let is_long = processor_time().saturating_sub(self.processor_began) >= EPOCH_TICK;
        if turn.is_some() || is_long {
            let since = Instant::now();
            (self.block)(&mut || match turn {
                Some(turn) => turn.rotate(),
                None => *turn = Some(Turn::take(long_calls, Arc::clone(principal))),
            });
            self.waited += since.elapsed();
        }
        Ok(UpdateDeadline::Continue(1))
    }
}

/// Returns the processor time that this thread has used.
#[cfg(unix)]
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Returns the time since the first call, on systems that do not report the processor time of a
/// thread.
#[cfg(not(unix))]
fn processor_time() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
