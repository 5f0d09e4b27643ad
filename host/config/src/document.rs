//! Files that operators write: their formats, what the environment changes in them, and where in them a fault stands.

mod format;
mod issues;
mod locate;
mod overrides;

pub use format::parse;
pub use issues::{Issue, Issues};
pub use locate::{line_of, with_lines};
pub use overrides::override_with;
pub use overrides::{OVERRIDE, POLICY_OVERRIDE};
