//! The native core against the golden vectors, without wasmtime or environment variables.

use context_guard_test_kit::vectors;

#[test]
fn native_core_matches_every_vector() -> anyhow::Result<()> {
    vectors::check_native()
}
