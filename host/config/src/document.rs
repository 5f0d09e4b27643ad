//! Documents that operators write: formats, overrides by the environment, and the lines of errors.

mod format;
mod issues;
mod locate;
mod overrides;

pub use format::parse;
pub use issues::{Issue, Issues};
pub use locate::{line_of, with_lines};
pub use overrides::override_with;
pub use overrides::{OVERRIDE, POLICY_OVERRIDE};
