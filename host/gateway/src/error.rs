//! Errors of the gateway.

use thiserror::Error;

use crate::{access, config, engine, revision, telemetry};

/// The result of a gateway operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a gateway cannot start or change.
#[derive(Debug, Error)]
pub enum Error {
    /// A file of the operator cannot be used.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// A revision cannot serve.
    #[error(transparent)]
    Revision(#[from] revision::Error),
    /// Access control cannot start.
    #[error(transparent)]
    Access(#[from] access::Error),
    /// Telemetry cannot start.
    #[error(transparent)]
    Telemetry(#[from] telemetry::Error),
    /// A request was refused, with the reason.
    #[error("{0}")]
    Refused(String),
    /// A setting cannot be used.
    #[error("{0}")]
    Setup(String),
    /// A command cannot be started.
    #[error(
        "the server cannot be started: {command}: {source}. Give the command as you would type it, after `--`."
    )]
    Spawn {
        /// The command line.
        command: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Reading or writing failed.
    #[error("input or output failed: {0}")]
    Io(#[from] std::io::Error),
}

impl Error {
    /// Returns the error of the operator's file that caused this one.
    #[must_use]
    pub fn config(&self) -> Option<&config::Error> {
        match self {
            Self::Config(error)
            | Self::Revision(revision::Error::Config(error))
            | Self::Access(access::Error::Config(error))
            | Self::Telemetry(telemetry::Error::Config(error)) => Some(error),
            _ => None,
        }
    }
}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Self {
        Self::Revision(error.into())
    }
}
