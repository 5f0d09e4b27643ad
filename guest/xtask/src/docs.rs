//! Files that are generated: the schemas and settings of policy and gateway, the golden vectors.

use anyhow::Result;

use crate::{build, test};

pub(crate) fn write() -> Result<()> {
    // The schema is part of the component, so it comes first.
    test::cargo_test(
        None,
        &[("CONTEXT_GUARD_BLESS", "1".as_ref())],
        &["--package", "context-guard-core", "--features", "schema", "--test", "schema"],
    )?;
    let built = build::for_tests()?;
    test::cargo_test(
        Some(&built),
        &[("CONTEXT_GUARD_BLESS", "1".as_ref())],
        &[build::native().as_slice(), &["--test", "suite", "--", "vectors::native_core"]].concat(),
    )?;
    test::cargo_test(
        Some(&built),
        &[("CONTEXT_GUARD_BLESS", "1".as_ref())],
        &[build::native().as_slice(), &["--test", "suite", "--", "config_docs"]].concat(),
    )?;
    eprintln!(
        "Written: guest/core/policy.schema.json, docs/reference/*, tests/vectors/*.expected.json. Read the difference before you commit it."
    );
    Ok(())
}
