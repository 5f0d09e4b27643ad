//! The reasons why the guard fails.

use thiserror::Error;

use crate::json::scan::ScanError;

/// The reason why the guard failed to process a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The message is not JSON or not UTF-8. Holds the byte offset of the error.
    #[error("invalid JSON or UTF-8 at byte {0}")]
    Malformed(u64),
    /// The message is nested deeper than the guard supports.
    #[error("the message is nested too deeply")]
    TooDeep,
    /// The message is too large. Holds the size limit in bytes.
    #[error("the message exceeds {0} bytes, the limit of the guard: request less data")]
    TooLarge(u64),
    /// A string of the message has an invalid escape, or a control character that is not escaped.
    #[error("a string has an invalid escape or an unescaped control character")]
    InvalidString,
    /// The message needs jq, which this build of the core lacks. The host repeats the call with its
    /// other build ([`JqBuild::Loadable`](super::JqBuild::Loadable)).
    #[error("this build has no jq")]
    NeedsJq,
    /// Any other failure.
    #[error("{0}")]
    Other(String),
}

impl From<ScanError> for Fault {
    fn from(error: ScanError) -> Self {
        match error {
            ScanError::Syntax(at) => Fault::Malformed(at as u64),
            ScanError::TooDeep => Fault::TooDeep,
        }
    }
}
