//! Errors of files that operators write.

use std::path::PathBuf;

use thiserror::Error;

use crate::document::Issues;

/// The result of reading a file that operators write.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why an operator's file cannot be used.
#[derive(Debug, Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{} cannot be read: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// No environment variable has the home folder of the user, which contains the state folder.
    #[error(
        "the home folder is unknown: set {}",
        if cfg!(windows) { "USERPROFILE" } else { "HOME or XDG_STATE_HOME to an absolute path" }
    )]
    NoStateFolder,
    /// A file cannot be parsed in its format.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The path of the file.
        path: PathBuf,
        /// The first error, with its position if the format reports it.
        reason: String,
    },
    /// A policy outside of a policy file is invalid. Contains all errors of the policy.
    #[error("invalid policy:\n{0}")]
    Policy(Issues),
    /// A configuration or policy file is invalid.
    #[error("{} is invalid:\n{issues}", path.display())]
    Config {
        /// The path of the file.
        path: PathBuf,
        /// All errors of the file.
        issues: Issues,
    },
    /// This build of the program does not support a setting.
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
}
