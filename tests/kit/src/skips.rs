//! The rule for tests that need what is not installed or not built: they are skipped, and fail on a
//! CI server.

use std::io::Write;

/// Returns true on a CI server. There, no test may be skipped. The value `false` counts as unset.
#[must_use]
pub fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// Prints that tests are skipped, and why.
///
/// # Panics
/// The variable `CI` is set.
pub fn skip(reason: &str) {
    assert!(!is_ci(), "skipped, which is an error where CI is set: {reason}");
    // Writes to the stream itself, because libtest hides the output of passing tests.
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}
