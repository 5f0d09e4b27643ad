//! The owners of tasks, which upstreams create for calls of clients.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use serde_json::value::RawValue;

use crate::message::{Head, member, members};

/// The maximum number of tasks whose owners are known.
const MAX_TASKS: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// The principals that own tasks, with the index of the upstream that runs each task.
pub(crate) struct TaskOwners(Mutex<LruCache<(Arc<str>, String), usize>>);

impl TaskOwners {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(MAX_TASKS)))
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<(Arc<str>, String), usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the tasks that a response to a principal's request reports as created by the
    /// upstream at index `server`.
    pub(crate) fn learn(&self, principal: &str, answer: &[u8], server: usize) {
        // Most answers have none, and a search is cheaper than parsing a large answer.
        if memchr::memmem::find(answer, b"\"taskId\"").is_none() {
            return;
        }
        let Some(result) = Head::read(answer).and_then(|head| head.result) else { return };
        for (name, value) in members(result) {
            let id = match name.as_str() {
                "taskId" => Some(value.get()),
                "task" => member(value.get(), "taskId").map(RawValue::get),
                _ => None,
            };
            if let Some(id) = id.and_then(|id| serde_json::from_str::<String>(id).ok()) {
                self.lock().put((principal.into(), id), server);
            }
        }
    }

    /// Returns the index of the upstream that runs a principal's task. `None` if the principal has
    /// no such task.
    pub(crate) fn find(&self, principal: &str, task: &str) -> Option<usize> {
        self.lock().get(&(principal.into(), task.to_owned())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_belong_to_principals() {
        let owners = TaskOwners::new();
        let (alice, bob) = ("alice", "bob");
        owners.learn(alice, br#"{"id":1,"result":{"task":{"taskId":"t","status":"working"}}}"#, 1);
        owners.learn(bob, br#"{"id":1,"result":{"taskId":"u"}}"#, 0);
        owners.learn(bob, br#"{"id":1,"result":{"content":[{"taskId":"t"}]}}"#, 0);
        assert_eq!((owners.find(alice, "t"), owners.find(bob, "t")), (Some(1), None));
        assert_eq!((owners.find(alice, "u"), owners.find(bob, "u")), (None, Some(0)));
    }
}
