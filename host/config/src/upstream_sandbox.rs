//! The sandbox of an upstream process.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The sandbox of a command, which Landlock and seccomp enforce. It needs Linux 6.12.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UpstreamSandbox {
    /// The folders and files that the command may read and execute, in addition to the program
    /// itself and the folders of the system. They must exist, and may contain `${env:NAME}`.
    pub read: Vec<PathBuf>,
    /// The folders and files that the command may read, execute and change. They must exist, and
    /// may contain `${env:NAME}`.
    pub write: Vec<PathBuf>,
    /// The TCP ports to which the command may connect. Unix sockets are closed. UDP remains open
    /// to all addresses, because names need it; with an empty list, there is no network at all.
    /// Without a list, the command may connect to everything.
    #[schemars(inner(range(min = 1)))]
    pub connect: Option<Vec<u16>>,
    /// The system calls of the command.
    pub system_calls: SystemCalls,
}

/// The system calls of a command in a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SystemCalls {
    /// Without those that change the system, enter namespaces or inspect other processes.
    #[default]
    Restricted,
    /// All that `connect` does not restrict, for example for a browser with a sandbox of its own.
    All,
}

impl UpstreamSandbox {
    /// Calls `see` with the paths in the sandbox, and with the name of their member and their index
    /// in it.
    pub(crate) fn each_path(&mut self, see: &mut dyn FnMut(&'static str, usize, &mut PathBuf)) {
        for (member, paths) in [("read", &mut self.read), ("write", &mut self.write)] {
            for (index, path) in paths.iter_mut().enumerate() {
                see(member, index, path);
            }
        }
    }
}
