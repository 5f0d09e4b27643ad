//! The running processes of all upstreams of a gateway. Their number is limited in total, and for
//! each upstream and owner.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

use super::inbox::Inbox;

/// The maximum time that a new process waits for another one to end. It exceeds the time that a
/// process has to exit.
const MAX_WAIT: Duration = Duration::from_secs(6);
/// The pause between two searches for an idle process while all processes are busy.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);
/// The time without requests after which a process counts as idle. A client that has just received
/// the connection has not sent its request yet.
const MIN_IDLE: Duration = Duration::from_millis(500);

/// The reason why no process starts after the gateway has begun to stop.
const STOPPING: &str = "the gateway stops";

/// The number of processes per processor that may start at one time. More would delay each other
/// beyond the time limit of their handshakes.
const STARTING_PER_PROCESSOR: usize = 4;
/// The number of processes per processor that may start in addition, after they have not finished
/// their handshake within a turn. Servers that never finish must not delay all others, but a loaded
/// machine makes all of them slow.
const SLOW_PER_PROCESSOR: usize = 12;

/// The running upstream processes of a gateway. All of them end before the gateway does.
pub(crate) struct Processes {
    max: usize,
    /// The maximum number of processes of one upstream for one owner.
    max_per_owner: usize,
    tasks: TaskTracker,
    stop: CancellationToken,
    running: Mutex<RunningProcesses>,
    /// Notified when a process has exited.
    exited: Notify,
    /// The permits of starting processes.
    starting: Semaphore,
    /// The permits of processes that start for a call. They do not wait behind those for lists.
    starting_for_calls: Semaphore,
    /// The permits of processes that start slowly.
    starting_slowly: Semaphore,
    /// The program that starts commands in a sandbox. Unset if there is none.
    launcher: OnceLock<PathBuf>,
}

#[derive(Default)]
struct RunningProcesses {
    last_id: u64,
    entries: BTreeMap<u64, RunningProcess>,
}

struct RunningProcess {
    upstream: String,
    /// The owner in whose share the process counts: see [`super::CallerHeaders`].
    owner: Arc<str>,
    inbox: Arc<Inbox>,
    end: CancellationToken,
}

impl RunningProcess {
    /// Returns the time since which the process has no requests. `None` while it has requests or is
    /// ending, before its first request, and until it was idle for [`MIN_IDLE`].
    fn idle_since(&self) -> Option<Instant> {
        let since = self.inbox.requests.idle_since()?;
        (!self.end.is_cancelled() && since.elapsed() >= MIN_IDLE).then_some(since)
    }
}

/// The permit of a running process. It is returned when this value is dropped.
pub(super) struct ProcessPlace {
    processes: Arc<Processes>,
    id: u64,
    /// A token that is cancelled when the process must end.
    pub(super) end: CancellationToken,
}

impl Drop for ProcessPlace {
    fn drop(&mut self) {
        self.processes.running().entries.remove(&self.id);
        self.processes.exited.notify_waiters();
    }
}

impl Processes {
    /// Creates an empty set for at most `max` processes in total, and `max_per_owner` for each
    /// upstream and owner.
    pub(crate) fn new(max: usize, max_per_owner: usize) -> Arc<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Arc::new(Self {
            max,
            max_per_owner,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            running: Mutex::default(),
            exited: Notify::new(),
            starting: Semaphore::new(processors * STARTING_PER_PROCESSOR),
            starting_for_calls: Semaphore::new(processors * STARTING_PER_PROCESSOR),
            starting_slowly: Semaphore::new(processors * SLOW_PER_PROCESSOR),
            launcher: OnceLock::new(),
        })
    }

    /// Sets the program that starts commands in a sandbox. A second call has no effect.
    pub(crate) fn set_launcher(&self, program: PathBuf) {
        let _ = self.launcher.set(program);
    }

    /// Returns the program that starts commands in a sandbox. `None` if there is none.
    pub(super) fn launcher(&self) -> Option<&Path> {
        self.launcher.get().map(PathBuf::as_path)
    }

    /// Waits for a start permit, which is returned when the result is dropped. `None` if the
    /// gateway stops. `is_call` is true if a client's call waits for the process.
    async fn starting(&self, is_call: bool) -> Option<SemaphorePermit<'_>> {
        let permits = if is_call { &self.starting_for_calls } else { &self.starting };
        tokio::select! {
            // The semaphores are never closed.
            permit = permits.acquire() => permit.ok(),
            () = self.stop.cancelled() => None,
        }
    }

    /// Waits for the permit of a process that starts slowly. It is returned when the result is
    /// dropped.
    pub(super) async fn starting_slowly(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.starting_slowly.acquire().await.ok()
    }

    /// Returns true if the gateway stops, so that no process may start.
    pub(super) fn are_ending(&self) -> bool {
        self.stop.is_cancelled()
    }

    fn running(&self) -> MutexGuard<'_, RunningProcesses> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the place of a new process, and for a permit to start it, which is returned when
    /// the second value is dropped. `is_call` is true if a client's call waits for the process.
    ///
    /// If the owner has too many processes of this upstream, ends the owner's process that has been
    /// idle for longest. If too many processes run in total, ends an idle one of the owner, or of
    /// the owner with the most processes.
    ///
    /// # Errors
    /// The reason why no process may start: all have requests, or the gateway stops.
    pub(super) async fn enter(
        self: &Arc<Self>,
        upstream: &str,
        owner: &Arc<str>,
        inbox: &Arc<Inbox>,
        is_call: bool,
    ) -> Result<(ProcessPlace, SemaphorePermit<'_>), String> {
        let mut deadline = None;
        loop {
            let Some(permit) = self.starting(is_call).await else {
                return Err(STOPPING.to_owned());
            };
            // Created before the search, so that no exit in between is missed.
            let exited = self.exited.notified();
            let reason = match self.try_enter(upstream, owner, inbox) {
                Ok(place) => return Ok((place, permit)),
                Err(reason) => reason,
            };
            // A start that waits for one of the two must not hold the other. Without a place, it
            // would delay all other starts. Without a permit, it would use up the places of calls.
            drop(permit);
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + MAX_WAIT);
            if Instant::now() >= deadline || self.are_ending() {
                return Err(reason);
            }
            tokio::select! {
                () = exited => {}
                () = self.stop.cancelled() => {}
                () = tokio::time::sleep(SEARCH_PAUSE) => {}
            }
        }
    }

    fn try_enter(
        self: &Arc<Self>,
        upstream: &str,
        owner: &Arc<str>,
        inbox: &Arc<Inbox>,
    ) -> Result<ProcessPlace, String> {
        let mut running = self.running();
        // `end` takes the lock too: it sees each process that started before it.
        if self.are_ending() {
            return Err(STOPPING.to_owned());
        }
        let is_own = |process: &&RunningProcess| process.owner == *owner;
        let is_same = |process: &&RunningProcess| is_own(process) && process.upstream == upstream;
        let all = || running.entries.values();
        let reason = if all().filter(is_same).count() >= self.max_per_owner {
            make_room(all().filter(is_same).collect());
            format!(
                "the caller has {} processes of this upstream, and all have requests \
                 (limits.processesPerPrincipal). End unused sessions, share processes by \
                 `isolation: principal`, or raise the limit",
                self.max_per_owner
            )
        } else if running.entries.len() >= self.max {
            let own: Vec<_> = all().filter(is_own).collect();
            let own_count = own.len();
            if !make_room(own) {
                make_room(largest_holder(&running, own_count));
            }
            format!(
                "{} upstream processes run already (limits.processes). End unused sessions, share \
                 processes by `isolation: principal`, or raise the limit",
                self.max
            )
        } else {
            running.last_id += 1;
            let (id, end) = (running.last_id, self.stop.child_token());
            let process = RunningProcess {
                upstream: upstream.to_owned(),
                owner: Arc::clone(owner),
                inbox: Arc::clone(inbox),
                end: end.clone(),
            };
            running.entries.insert(id, process);
            return Ok(ProcessPlace { processes: Arc::clone(self), id, end });
        };
        Err(reason)
    }

    /// Runs the task of a process. [`Processes::end`] waits for the task.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Ends all processes and waits until they have exited.
    pub(crate) async fn end(&self) {
        let running = self.running();
        self.stop.cancel();
        drop(running);
        self.tasks.close();
        self.tasks.wait().await;
        // A process that was just starting may have no task yet.
        loop {
            let exited = self.exited.notified();
            if self.running().entries.is_empty() {
                return;
            }
            exited.await;
        }
    }
}

/// Ends the process that has been idle for longest, unless one of these is already ending. Returns
/// false if all have requests.
fn make_room(processes: Vec<&RunningProcess>) -> bool {
    if processes.iter().any(|process| process.end.is_cancelled()) {
        return true;
    }
    let idle = processes.into_iter().filter_map(|one| Some((one.idle_since()?, one)));
    let mut idle: Vec<_> = idle.collect();
    idle.sort_by_key(|(since, _)| *since);
    // A request may begin on an idle process at any time. Only the table of its requests knows.
    let Some((_, longest)) = idle.into_iter().find(|(_, one)| one.inbox.requests.evict(MIN_IDLE))
    else {
        return false;
    };
    info!(
        upstream = longest.upstream,
        "ended an idle process, because its place is needed (limits.processes, \
         limits.processesPerPrincipal)"
    );
    longest.end.cancel();
    true
}

/// Returns the processes of the owner with the most processes, if it has more than `count`.
fn largest_holder(running: &RunningProcesses, count: usize) -> Vec<&RunningProcess> {
    let mut by_owner: BTreeMap<&str, Vec<&RunningProcess>> = BTreeMap::new();
    for process in running.entries.values() {
        by_owner.entry(&process.owner).or_default().push(process);
    }
    let largest = by_owner.into_values().max_by_key(Vec::len);
    largest.filter(|processes| processes.len() > count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Failure;

    fn inbox(is_busy: bool) -> Arc<Inbox> {
        let inbox = Inbox::new("x", &Arc::default(), 10, false);
        let request = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let started = inbox.requests.begin(request).unwrap();
        if !is_busy {
            inbox.requests.forget(started.id);
        }
        inbox
    }

    async fn enter(
        processes: &Arc<Processes>,
        upstream: &str,
        owner: &str,
        inbox: &Arc<Inbox>,
    ) -> Result<ProcessPlace, String> {
        let entered = processes.enter(upstream, &owner.into(), inbox, false).await;
        entered.map(|(place, _)| place)
    }

    async fn idle() {
        tokio::time::sleep(MIN_IDLE).await;
    }

    /// Starts a process that exits as soon as it must.
    async fn start(processes: &Arc<Processes>, owner: &str, is_busy: bool) -> CancellationToken {
        let place = enter(processes, "files", owner, &inbox(is_busy)).await.unwrap();
        let end = place.end.clone();
        processes.spawn(async move { place.end.cancelled().await });
        end
    }

    #[tokio::test]
    async fn longest_idle_process_of_the_owner_makes_room() {
        let processes = Processes::new(10, 2);
        let other = start(&processes, "other", false).await;
        let busy = start(&processes, "one", true).await;
        let first = start(&processes, "one", false).await;
        idle().await;
        let second = start(&processes, "one", false).await;
        assert!(first.is_cancelled() && !second.is_cancelled());
        assert!(!busy.is_cancelled() && !other.is_cancelled());
        // Another upstream has a limit of its own.
        let place = enter(&processes, "web", "one", &inbox(false)).await.unwrap();
        assert!(!second.is_cancelled());
        drop(place);
        processes.end().await;
        assert!(processes.running().entries.is_empty());
        let refused = enter(&processes, "web", "one", &inbox(false)).await;
        assert!(refused.is_err_and(|reason| reason.contains("stops")));
    }

    #[tokio::test]
    async fn evicted_process_receives_no_request() {
        let processes = Processes::new(1, 1);
        let own = inbox(false);
        let place = enter(&processes, "files", "one", &own).await.unwrap();
        idle().await;
        assert!(processes.try_enter("web", &"one".into(), &inbox(false)).is_err());
        // The process has not ended yet, but a request must not be lost with it.
        assert!(place.end.is_cancelled());
        let request = own.requests.begin(br#"{"id":1,"method":"tools/list"}"#);
        assert!(matches!(request, Err(Failure::Evicted(_))));
    }

    #[tokio::test]
    async fn start_that_waits_for_a_place_delays_no_other() {
        let processes = Processes::new(1, 1);
        let busy = enter(&processes, "files", "one", &inbox(true)).await.unwrap();
        let permits = processes.starting.available_permits();
        let waiting = inbox(false);
        let mut waiting = std::pin::pin!(enter(&processes, "web", "two", &waiting));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert_eq!(processes.starting.available_permits(), permits);
        drop(busy);
        assert!(waiting.await.is_ok());
    }

    #[tokio::test]
    async fn start_that_waits_for_a_permit_has_no_place() {
        let processes = Processes::new(1, 1);
        let all = u32::try_from(processes.starting.available_permits()).unwrap();
        let all = processes.starting.acquire_many(all).await.unwrap();
        let waiting = inbox(false);
        let mut waiting = std::pin::pin!(enter(&processes, "web", "two", &waiting));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        // A call starts its process meanwhile.
        let call = processes.enter("files", &"one".into(), &inbox(true), true).await;
        drop(call.unwrap());
        drop(all);
        assert!(waiting.await.is_ok());
    }

    #[tokio::test]
    async fn end_waits_for_a_process_that_has_no_task_yet() {
        let processes = Processes::new(10, 2);
        let place = enter(&processes, "files", "one", &inbox(true)).await.unwrap();
        let ending = Arc::clone(&processes);
        let mut ended = tokio::spawn(async move { ending.end().await });
        place.end.cancelled().await;
        tokio::task::yield_now().await;
        assert!(!ended.is_finished());
        // All permits are taken: nobody waits for one after the end.
        let all = u32::try_from(processes.starting.available_permits()).unwrap();
        let _all = processes.starting.acquire_many(all).await.unwrap();
        assert!(processes.starting(false).await.is_none());
        drop(place);
        (&mut ended).await.unwrap();
    }

    #[tokio::test]
    async fn largest_holder_makes_room_for_others() {
        let processes = Processes::new(3, 2);
        let small = start(&processes, "small", false).await;
        let first = start(&processes, "large", false).await;
        let second = start(&processes, "large", false).await;
        idle().await;
        let new = start(&processes, "new", true).await;
        assert!(first.is_cancelled() && !second.is_cancelled() && !small.is_cancelled());
        // All have as many as the next one would: it is refused.
        let refused = processes.try_enter("files", &"newest".into(), &inbox(false));
        assert!(refused.is_err_and(|reason| reason.contains("limits.processes)")));
        assert!(!new.is_cancelled());
        processes.end().await;
    }
}
