//! The other build of the core that a host of a build without jq may have.

/// The state of the host's other build of the core, which has jq. The core keeps no state, so a
/// message that one build cannot process can be repeated with another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JqBuild<'a> {
    /// The host has no other build: the guard refuses programs of jq.
    #[default]
    Absent,
    /// The host can load the other build: messages that need it fail with
    /// [`Fault::NeedsJq`](super::Fault::NeedsJq).
    Loadable,
    /// The other build could not be loaded: the guard refuses programs of jq for this reason, which
    /// states what to do.
    Failed(&'a str),
}
