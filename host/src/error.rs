//! What can go wrong, by what one can do about it.

use std::path::PathBuf;

use thiserror::Error;

use crate::document::Issues;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
#[derive(Debug, Error)]
pub enum Error {
    /// The engine cannot run on this machine.
    #[error("the WebAssembly engine could not be started: {0}")]
    Engine(String),
    /// A component that cannot be used: not one, or one that needs what this host does not offer.
    #[error("the guard component cannot be used: {0}")]
    Load(String),
    /// The guard failed on a call: it trapped, ran out of time or memory.
    #[error("the guard failed: {0}")]
    Trap(String),
    /// The guard says that it cannot work on a message.
    #[error("the guard cannot shape this message: {0}")]
    Fault(String),
    /// The guard could not keep what it holds back, or not read it.
    #[error("the cursor store failed: {0}")]
    Store(crate::store::StoreFault),
    /// A component, policy or key that was not taken over, with why.
    #[error("{0}")]
    Refused(String),
    /// A policy with faults; all of them, a line each.
    #[error("the policy has faults:\n{0}")]
    Policy(Issues),
    /// A file that cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file in which something else stands than should.
    #[error("{}: {reason}", path.display())]
    Format {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A configuration or policy with faults; all of them.
    #[error("{} has faults:\n{issues}", path.display())]
    Config {
        /// Which.
        path: PathBuf,
        /// The faults.
        issues: Issues,
    },
    /// A setting that this build of the program does not support.
    #[error(
        "{setting} is not supported by this build: build context-guard with the cargo feature \
         `{feature}`, or use the released program"
    )]
    Feature {
        /// The setting or option.
        setting: &'static str,
        /// The cargo feature that it needs.
        feature: &'static str,
    },
    /// Something that cannot be set up as it is configured.
    #[error("{0}")]
    Setup(String),
    /// A command that cannot be started.
    #[error(
        "the server cannot be started: {command}: {source}. Give the command as you would type it, after `--`."
    )]
    Spawn {
        /// The command.
        command: String,
        /// Why.
        source: std::io::Error,
    },
    /// Reading or writing failed.
    #[error("input or output failed: {0}")]
    Io(#[from] std::io::Error),
}
