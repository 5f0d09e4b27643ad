//! The host's other build of the core, which has jq.

/// The state of the host's other build of the core, which has jq. The core keeps no state, so the
/// host can repeat a message with the other build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JqBuild<'a> {
    /// The host has no other build. The guard rejects jq programs.
    #[default]
    Absent,
    /// The host can load the other build: messages that need it fail with
    /// [`Fault::NeedsJq`](super::Fault::NeedsJq).
    Loadable,
    /// The other build could not be loaded. The guard rejects jq programs with this reason, which
    /// says how to solve the problem.
    Failed(&'a str),
}
