//! `context-guard run-sandboxed`: enters a sandbox, and replaces itself with a command.
//!
//! The gateway starts it for upstreams with `sandbox`. It refuses to start the command if the
//! kernel cannot enforce a part of the sandbox.

mod access;
mod system_calls;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

pub(crate) use access::{check, may_read};

/// The exit code if the sandbox or the command fails, as shells use it for a command that cannot be
/// executed.
const CANNOT_EXECUTE: u8 = 126;

/// Run a command in a sandbox.
#[derive(Args)]
pub(crate) struct RunSandboxed {
    /// A folder or file that the command may read and execute.
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// A folder or file that the command may read, execute and change.
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// Allow no connection but those of `--connect`.
    #[arg(long)]
    restrict_network: bool,
    /// A TCP port to which the command may connect.
    #[arg(long, value_name = "PORT", requires = "restrict_network")]
    connect: Vec<u16>,
    /// Refuse system calls that no server needs.
    #[arg(long)]
    restrict_system_calls: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl RunSandboxed {
    /// Returns only if the sandbox or the command fails.
    pub(crate) fn run(self) -> ExitCode {
        let reason = self.execute();
        eprintln!("context-guard: {reason}");
        ExitCode::from(CANNOT_EXECUTE)
    }

    /// Executes the command in the sandbox. Returns the reason of a failure.
    fn execute(&self) -> String {
        let Some((program, arguments)) = self.command.split_first() else {
            return "a command is needed".to_owned();
        };
        let entered = access::enter(self, program)
            .and_then(|()| drop_capabilities())
            .and_then(|()| system_calls::restrict(self));
        if let Err(reason) = entered {
            return format!("the sandbox cannot be entered: {reason}");
        }
        let error = Command::new(program).args(arguments).exec();
        let program = program.display();
        format!("`{program}` cannot be executed in the sandbox: {error}")
    }
}

/// Drops the capabilities of a privileged account, except for those that concern files, accounts
/// and low ports. With others, such as CAP_PERFMON, a command could read the memory and the
/// environment of processes outside the sandbox.
///
/// The program cannot regain them: Landlock needs `no_new_privs`, with which the execution of a
/// program by root adds none (`execve(2)`).
///
/// # Errors
/// The kernel refuses.
fn drop_capabilities() -> Result<(), String> {
    let kept = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::SETGID
        | CapabilitySet::SETUID
        | CapabilitySet::NET_BIND_SERVICE;
    let dropped = capabilities(None).and_then(|sets| {
        let sets = CapabilitySets {
            effective: sets.effective & kept,
            permitted: sets.permitted & kept,
            inheritable: sets.inheritable & kept,
        };
        set_capabilities(None, sets)
    });
    dropped.map_err(|error| format!("capabilities cannot be dropped: {error}"))
}
