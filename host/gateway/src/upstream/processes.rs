//! The running processes of all upstreams of a gateway.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The running upstream processes of a gateway, which end before the gateway does.
#[derive(Default)]
pub(crate) struct Processes {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Processes {
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
