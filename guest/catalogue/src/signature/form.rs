//! Forms of signatures.

/// The form of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// With limits.
    Short,
    /// Without limits, with constraints and `null`.
    Complete,
}
