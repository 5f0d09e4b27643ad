//! Files that operators write: their formats, what the environment changes in them, and where in them a fault stands.

mod format;
mod issues;
mod locate;
mod overrides;

pub(crate) use format::parse;
pub use issues::{Issue, Issues};
pub(crate) use locate::{line_of, with_lines};
pub(crate) use overrides::override_with;
pub use overrides::{OVERRIDE, POLICY_OVERRIDE};
