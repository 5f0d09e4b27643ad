//! The native core against the golden vectors, without wasmtime. With `CONTEXT_GUARD_BLESS=1` the
//! expected outcomes are written first.

use context_guard_test_kit::vectors;

#[test]
fn native_core_matches_every_vector() -> anyhow::Result<()> {
    if std::env::var_os("CONTEXT_GUARD_BLESS").is_some() {
        vectors::write_expected()?;
    }
    vectors::check_native()
}
