//! The severities of lines and log entries.

/// The severity of a line or log entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Neither a warning nor an error, or no severity found.
    Other,
    /// A warning.
    Warn,
    /// An error, or something more severe.
    Error,
}
