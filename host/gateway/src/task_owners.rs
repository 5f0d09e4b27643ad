//! The owners of MCP tasks, which upstreams create for calls of clients.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::task::block_in_place;

use crate::engine::digest;
use crate::message::{Head, member, members};
use crate::session_table::SessionTable;
use crate::store::CursorStore;

/// The maximum number of tasks whose owners are recorded.
const MAX_TASKS: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();
/// The maximum number of tasks of one principal whose owners are recorded.
const MAX_TASKS_PER_PRINCIPAL: usize = 16_384;

/// The time for which the shared store keeps the owner of a task.
const SHARED_LIFETIME: Duration = Duration::from_secs(86_400);

/// The principals that own tasks, with the index of the upstream that runs each task.
pub(crate) struct TaskOwners {
    known: Mutex<SessionTable<usize>>,
    /// The store of a fleet, from which each replica learns the tasks of the others. Unset without
    /// a fleet.
    shared: OnceLock<Arc<dyn CursorStore>>,
}

impl TaskOwners {
    pub(crate) fn new() -> Self {
        let known = SessionTable::with_shares(MAX_TASKS, MAX_TASKS_PER_PRINCIPAL);
        Self { known: Mutex::new(known), shared: OnceLock::new() }
    }

    /// Shares the owners with the other gateways that use `store`. They must have the same
    /// upstreams.
    pub(crate) fn share(&self, store: Arc<dyn CursorStore>) {
        let _ = self.shared.set(store);
    }

    fn lock(&self) -> MutexGuard<'_, SessionTable<usize>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
                if let Some(store) = self.shared.get() {
                    let entry = vec![(entry_name(&id), server.to_string().into_bytes())];
                    // Without the store, this replica alone knows the task.
                    let _ = block_in_place(|| store.put(principal, entry, SHARED_LIFETIME));
                }
                self.lock().insert(&principal.into(), key(principal, &id), server);
            }
        }
    }

    /// Returns the index of the upstream that runs a principal's task. `None` if the principal has
    /// no such task.
    pub(crate) fn find(&self, principal: &str, task: &str) -> Option<usize> {
        let key = key(principal, task);
        if let Some(server) = self.lock().get(&key) {
            return Some(*server);
        }
        let store = self.shared.get()?;
        let found = block_in_place(|| store.get(principal, &[entry_name(task)])).ok()?;
        let server = std::str::from_utf8(found.first()?.as_ref()?).ok()?.parse().ok()?;
        self.lock().insert(&principal.into(), key, server);
        Some(server)
    }
}

/// Returns the key of a principal's task in the table. It has a fixed length, because upstreams and
/// clients choose ids of any length.
fn key(principal: &str, task: &str) -> String {
    digest(format!("{principal}\0{task}").as_bytes())
}

/// Returns the name of a task's entry in the store. It has a fixed length, because the id of a task
/// may have any length.
fn entry_name(task: &str) -> String {
    format!("task-{}", digest(task.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::clock::SystemClock;
    use crate::store::{MemoryLimits, MemoryStore};

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

    #[test]
    fn principals_have_shares_of_tasks() {
        let owners = TaskOwners::new();
        owners.learn("alice", br#"{"id":1,"result":{"taskId":"t"}}"#, 1);
        let id = "x".repeat(1_000);
        for at in 0..MAX_TASKS.get() {
            let answer = format!(r#"{{"id":1,"result":{{"taskId":"{id}{at}"}}}}"#);
            owners.learn("bob", answer.as_bytes(), 0);
        }
        assert_eq!(owners.find("alice", "t"), Some(1));
        assert_eq!(owners.find("bob", &format!("{id}65535")), Some(0));
        assert_eq!(owners.lock().len(), 1 + MAX_TASKS_PER_PRINCIPAL);
        assert!(owners.lock().iter().all(|(key, _)| key.len() <= 64));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn replicas_learn_tasks_from_the_store() {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock), MemoryLimits::default()));
        let [one, two] = [TaskOwners::new(), TaskOwners::new()];
        one.share(store.clone());
        two.share(store);
        one.learn("alice", br#"{"id":1,"result":{"task":{"taskId":"t"}}}"#, 2);
        assert_eq!((two.find("alice", "t"), two.find("bob", "t")), (Some(2), None));
    }
}
