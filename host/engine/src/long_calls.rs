//! Divides processor time among long guard calls. A few run at a time, and alternate among
//! principals. Short calls never wait. One processor is reserved for them, if there are several.

use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The long guard calls of an engine.
pub(crate) struct LongCalls {
    /// The maximum number of long calls that run at a time.
    slots: usize,
    state: Mutex<Slots>,
}

/// The number of long calls that run, and the calls that wait.
#[derive(Default)]
struct Slots {
    running: usize,
    /// The waiting calls of each principal, in the order in which principals may run. No list is
    /// empty.
    waiting: VecDeque<(Arc<str>, VecDeque<Sender<()>>)>,
}

impl Slots {
    /// Lets the next waiting call run instead of one that stopped. Returns false if none waits.
    fn pass_on(&mut self) -> bool {
        while let Some((principal, mut calls)) = self.waiting.pop_front() {
            let next = calls.pop_front();
            if !calls.is_empty() {
                self.waiting.push_back((principal, calls));
            }
            if next.is_some_and(|call| call.send(()).is_ok()) {
                return true;
            }
        }
        false
    }

    fn wait(&mut self, principal: &Arc<str>, call: Sender<()>) {
        match self.waiting.iter_mut().find(|(waiting, _)| waiting == principal) {
            Some((_, calls)) => calls.push_back(call),
            None => self.waiting.push_back((Arc::clone(principal), VecDeque::from([call]))),
        }
    }
}

impl LongCalls {
    /// Creates the permits for long calls on a machine with `processors` processors. One processor
    /// remains for short calls and other work, if there are several.
    pub(crate) fn new(processors: usize) -> Arc<Self> {
        Arc::new(Self { slots: processors.saturating_sub(1).max(1), state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, Slots> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permit of a running long call of `principal`. It is returned when this value is dropped.
pub(crate) struct Turn {
    calls: Arc<LongCalls>,
    principal: Arc<str>,
}

impl Turn {
    /// Waits for a permit for a long call of `principal`.
    pub(crate) fn take(calls: &Arc<LongCalls>, principal: Arc<str>) -> Self {
        let granted = {
            let mut state = calls.state();
            if state.running < calls.slots {
                state.running += 1;
                None
            } else {
                let (sender, receiver) = channel();
                state.wait(&principal, sender);
                Some(receiver)
            }
        };
        if let Some(granted) = granted {
            // The sender is dropped only after it has sent.
            let _ = granted.recv();
        }
        Self { calls: Arc::clone(calls), principal }
    }

    /// If other calls wait, returns the permit to one of them and waits for another permit.
    pub(crate) fn rotate(&mut self) {
        let (sender, granted) = channel();
        {
            let mut state = self.calls.state();
            if state.waiting.is_empty() {
                return;
            }
            state.wait(&self.principal, sender);
            state.pass_on();
        }
        let _ = granted.recv();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.calls.state();
        if !state.pass_on() {
            state.running -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    /// Waits until `count` calls wait for permits.
    fn wait_for(calls: &LongCalls, count: usize) {
        while calls.state().waiting.iter().map(|(_, calls)| calls.len()).sum::<usize>() < count {
            thread::yield_now();
        }
    }

    #[test]
    fn one_processor_remains_for_other_work() {
        assert_eq!([1, 2, 8].map(|count| LongCalls::new(count).slots), [1, 1, 7]);
    }

    #[test]
    fn turns_rotate_among_principals() {
        let calls = LongCalls::new(2);
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let first = Turn::take(&calls, "hostile".into());
            for (waiting, principal) in
                ["hostile", "hostile", "hostile", "alice"].iter().enumerate()
            {
                let (calls, order) = (&calls, &order);
                scope.spawn(move || {
                    let _turn = Turn::take(calls, (*principal).into());
                    order.lock().unwrap().push(*principal);
                });
                wait_for(calls, waiting + 1);
            }
            drop(first);
        });
        assert_eq!(*order.lock().unwrap(), ["hostile", "alice", "hostile", "hostile"]);
        assert_eq!(calls.state().running, 0);
    }

    #[test]
    fn running_calls_give_way_at_each_tick() {
        let calls = LongCalls::new(2);
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let steps = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let first = Turn::take(&calls, "x".into());
            for (waiting, principal) in ["alice", "bob"].into_iter().enumerate() {
                let (calls, running, most, steps) = (&calls, &running, &most, &steps);
                scope.spawn(move || {
                    let mut turn = Turn::take(calls, principal.into());
                    for _ in 0..3 {
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                        steps.lock().unwrap().push(principal);
                        running.fetch_sub(1, Ordering::SeqCst);
                        turn.rotate();
                    }
                });
                wait_for(calls, waiting + 1);
            }
            drop(first);
        });
        let steps = steps.lock().unwrap();
        assert!(steps.windows(2).all(|pair| pair[0] != pair[1]), "{steps:?}");
        assert_eq!(most.load(Ordering::SeqCst), 0, "two calls ran at once");
        assert_eq!(calls.state().running, 0);
    }

    #[test]
    fn single_calls_do_not_wait() {
        let calls = LongCalls::new(1);
        let mut turn = Turn::take(&calls, "alice".into());
        turn.rotate();
        drop(turn);
        drop(Turn::take(&calls, "bob".into()));
        assert_eq!(calls.state().running, 0);
    }
}
