//! Errors of the gateway.

use thiserror::Error;

use crate::{access, config, engine, oauth, revision, telemetry};

/// The result of a gateway operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error that prevents the gateway from starting, running or changing.
#[derive(Debug, Error)]
pub enum Error {
    /// A configuration or policy file cannot be read or is invalid.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// A revision of the guard cannot be created or deployed.
    #[error(transparent)]
    Revision(#[from] revision::Error),
    /// Access control (authentication of clients) cannot be set up.
    #[error(transparent)]
    Access(#[from] access::Error),
    /// The store of OAuth tokens cannot be opened.
    #[error(transparent)]
    OAuth(#[from] oauth::Error),
    /// Telemetry cannot be set up.
    #[error(transparent)]
    Telemetry(#[from] telemetry::Error),
    /// The gateway refused an operation. Holds the reason.
    #[error("{0}")]
    Refused(String),
    /// A setting has an invalid value, or an address cannot be bound.
    #[error("{0}")]
    Setup(String),
    /// The command of the stdio upstream cannot be started.
    #[error(
        "the server cannot be started: {command}: {source}. Give the command as you would type it, after `--`."
    )]
    Spawn {
        /// The command line of the upstream.
        command: String,
        /// The operating system's reason for the failure.
        source: std::io::Error,
    },
    /// Reading or writing a message failed.
    #[error("input or output failed: {0}")]
    Io(#[from] std::io::Error),
}

impl Error {
    /// Returns the configuration error that caused this one, or `None` if the cause is another.
    #[must_use]
    pub fn config(&self) -> Option<&config::Error> {
        match self {
            Self::Config(error)
            | Self::Revision(revision::Error::Config(error))
            | Self::Access(access::Error::Config(error))
            | Self::OAuth(oauth::Error::Config(error))
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
