//! A child process and its descendants, which end together.
//!
//! On Unix the child leads a process group, so that signals also reach what it has started, such as
//! the server behind `npx`. A watchdog ends the group if this process is killed.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::timeout;

#[cfg(unix)]
use rustix::process::Pid;

/// The time that processes have to exit after their input was closed, and again after SIGTERM. MCP
/// requires a "reasonable time"; its SDKs use the same value.
pub(crate) const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// The time between two checks for remaining processes of a group.
#[cfg(unix)]
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A signal that ends processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndSignal {
    Interrupt,
    Terminate,
    Kill,
}

/// A running child process with its descendants. Dropping it kills them.
pub(crate) struct ProcessTree {
    child: Child,
    /// The process group. `None` if all its processes have ended.
    #[cfg(unix)]
    group: Option<Pid>,
    /// The watchdog, held because its standard input must remain open. `None` if it could not
    /// start.
    #[cfg(unix)]
    _watchdog: Option<Child>,
}

impl ProcessTree {
    /// Starts a command.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        #[cfg(unix)]
        command.process_group(0);
        let child = command.kill_on_drop(true).spawn()?;
        #[cfg(unix)]
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok(Self {
            child,
            #[cfg(unix)]
            group,
            #[cfg(unix)]
            _watchdog: group.and_then(watchdog),
        })
    }

    /// Returns the child process, for its standard streams.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends a signal to all processes. Processes that have ended are ignored.
    #[cfg(unix)]
    pub(crate) fn signal(&mut self, signal: EndSignal) {
        use rustix::process::{Signal, kill_process_group};
        let signal = match signal {
            EndSignal::Interrupt => Signal::INT,
            EndSignal::Terminate => Signal::TERM,
            EndSignal::Kill => Signal::KILL,
        };
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        }
    }

    /// Kills the child process if the signal is [`EndSignal::Kill`], and does nothing otherwise.
    /// Other systems than Unix have no signal that asks it to end.
    #[cfg(not(unix))]
    pub(crate) fn signal(&mut self, signal: EndSignal) {
        if signal == EndSignal::Kill {
            let _ = self.child.start_kill();
        }
    }

    /// Ends the processes as MCP defines it for stdio: waits, sends SIGTERM, waits, and sends
    /// SIGKILL. The caller closes the standard input first. Returns the exit status of the child,
    /// or `None` if it does not exit.
    pub(crate) async fn end(mut self) -> Option<ExitStatus> {
        for signal in [EndSignal::Terminate, EndSignal::Kill] {
            if timeout(EXIT_TIMEOUT, self.exited()).await.is_ok() {
                break;
            }
            self.signal(signal);
        }
        timeout(EXIT_TIMEOUT, self.child.wait()).await.ok()?.ok()
    }

    /// Waits until all processes have exited.
    async fn exited(&mut self) {
        let _ = self.child.wait().await;
        #[cfg(unix)]
        while let Some(group) = self.group {
            use rustix::process::{WaitOptions, test_kill_process_group, waitpgid};
            // Descendants become children of this process if it is the first one of a container.
            // They count as members of the group until they are waited for.
            let _ = waitpgid(group, WaitOptions::NOHANG);
            if test_kill_process_group(group).is_err() {
                // The system may assign the number to others from now on.
                self.group = None;
            } else {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        self.signal(EndSignal::Kill);
    }
}

/// Starts a shell that ends a process group when this process has ended without doing so. Returns
/// `None` if the system has no shell.
///
/// The shell reads from a pipe of which only this process has the other end, so that it notices
/// every kind of end, including SIGKILL. `PR_SET_PDEATHSIG` would reach the child alone, follows
/// the life of a thread, and exists on Linux only.
#[cfg(unix)]
fn watchdog(group: Pid) -> Option<Child> {
    use std::process::Stdio;
    const SCRIPT: &str = r#"
        read -r line
        sleep 1
        kill -s TERM -- "-$0" || exit
        sleep 2
        kill -s KILL -- "-$0"
    "#;
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", SCRIPT, &group.as_raw_nonzero().to_string()])
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A signal to the group of this process must not end the watchdog first.
        .process_group(0)
        .kill_on_drop(true);
    let spawned = command.spawn();
    if let Err(error) = &spawned {
        tracing::debug!("no watchdog for upstream processes: /bin/sh: {error}");
    }
    spawned.ok()
}
