//! The running processes of all upstreams of a gateway.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The running upstream processes of a gateway, which end before the gateway does.
pub(crate) struct Processes {
    max: usize,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Processes {
    /// Creates an empty set for at most `max` processes.
    pub(crate) fn new(max: usize) -> Self {
        Self { max, tasks: TaskTracker::new(), stop: CancellationToken::new() }
    }

    /// Returns the reason why no further process may start, if the maximum number run.
    pub(super) fn refusal(&self) -> Option<String> {
        let reason = format!(
            "{} upstream processes run already (limits.processes). End unused sessions, share \
             processes by `isolation: principal`, or raise the limit",
            self.max
        );
        (self.tasks.len() >= self.max).then_some(reason)
    }

    /// Runs the task of a process. [`Processes::end`] waits for it.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Returns a token that is cancelled when its process must end.
    pub(super) fn end_token(&self) -> CancellationToken {
        self.stop.child_token()
    }

    /// Ends all processes and waits until they have exited.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ended_process_makes_room() {
        let processes = Processes::new(1);
        assert_eq!(processes.refusal(), None);
        let end = processes.end_token();
        processes.spawn(async move { end.cancelled().await });
        assert!(processes.refusal().is_some_and(|reason| reason.contains("limits.processes")));
        processes.end().await;
        assert_eq!(processes.refusal(), None);
    }
}
