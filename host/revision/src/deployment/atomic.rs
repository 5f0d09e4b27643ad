//! The locks and the pointer of the state machine. The model tests replace them with those of loom,
//! which runs every order of their operations.

#[cfg(not(test))]
pub(super) use std::sync::{Mutex, MutexGuard};

#[cfg(test)]
pub(super) use loom::sync::{Mutex, MutexGuard};

/// A shared pointer that readers load without a lock.
#[cfg(not(test))]
pub(super) type AtomicPointer<T> = arc_swap::ArcSwap<T>;

/// A loaded pointer, which is valid until it is dropped.
#[cfg(not(test))]
pub type Loaded<T> = arc_swap::Guard<T>;

/// A loaded pointer.
#[cfg(test)]
pub type Loaded<T> = T;

/// A model of [`arc_swap::ArcSwap`]: each load and each store is one step.
#[cfg(test)]
pub(super) struct AtomicPointer<T>(Mutex<std::sync::Arc<T>>);

#[cfg(test)]
impl<T> AtomicPointer<T> {
    pub(super) fn from_pointee(value: T) -> Self {
        Self(Mutex::new(std::sync::Arc::new(value)))
    }

    pub(super) fn load(&self) -> Loaded<std::sync::Arc<T>> {
        self.load_full()
    }

    pub(super) fn load_full(&self) -> std::sync::Arc<T> {
        std::sync::Arc::clone(&self.0.lock().unwrap())
    }

    pub(super) fn store(&self, value: std::sync::Arc<T>) {
        *self.0.lock().unwrap() = value;
    }
}
