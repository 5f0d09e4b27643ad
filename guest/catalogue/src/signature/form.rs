//! The forms of signatures.

/// The form of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// With length limits.
    Short,
    /// Without length limits, and with constraints and `null`.
    Complete,
}
