//! Helpers of the tests that compare queries with a reference program.

use std::process::{Command, Stdio};

use context_guard_core::json::text::Form;
use context_guard_core::policy::EndpointSettings;
use context_guard_core::query::{Query, QueryInput, QueryResult};
use context_guard_test_kit::skips::skip;

/// A generator of pseudo-random numbers (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }

    pub(crate) fn pick<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[usize::try_from(self.below(list.len() as u64)).unwrap()]
    }
}

/// Returns the result of a query on a document.
pub(crate) fn run(document: &str, query: &Query) -> Result<QueryResult, String> {
    let settings = EndpointSettings::default();
    query.validate()?;
    let input = QueryInput {
        bytes: document.as_bytes(),
        form: Form::Raw,
        survey: None,
        limits: &settings,
        from_line: 0,
        until_line: 0,
        limit: 0,
    };
    query.run(&input, &mut |_| false)
}

/// Returns true if a reference program can be run. Without it, a test does nothing and says so,
/// except in CI, where it fails.
pub(crate) fn is_installed(program: &str) -> bool {
    let status = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    if status.is_ok() {
        return true;
    }
    skip(&format!("{program} cannot be run"));
    false
}
