//! `cargo xtask generate`: writes the files that are generated: schemas, settings, golden vectors.

use anyhow::Result;

use crate::{build, command_line, test};

/// The environment variable, and its value, that make a test rewrite its expected file instead of
/// comparing it.
const BLESS: (&str, &str) = ("CONTEXT_GUARD_BLESS", "1");

/// Writes all generated files, such as schemas and golden vectors, and prints their paths.
pub(crate) fn run() -> Result<()> {
    let environment = [(BLESS.0, BLESS.1.as_ref())];
    // The component embeds the schema, so the schema comes first.
    for name in ["schema", "golden"] {
        let core = ["--package", "context-guard-core", "--features", "schema", "--test", name];
        test::cargo_test(None, &environment, &core)?;
    }
    let grpc = ["--package", "context-guard-grpc", "--test", "generated"];
    test::cargo_test(None, &environment, &grpc)?;
    let links = ["--package", "context-guard-install", "--test", "install", "--", "page_has"];
    test::cargo_test(None, &environment, &links)?;
    let built = build::for_tests()?;
    command_line::write(&built.binary)?;
    let only = ["--test", "suite", "--", "config_docs"];
    test::cargo_test(Some(&built), &environment, &[build::native().as_slice(), &only].concat())?;
    eprintln!(
        "Written: guest/core/policy.schema.json, docs/reference/*, host/grpc/src/*, \
         tests/vectors/*.expected.json. Read the difference before you commit it."
    );
    Ok(())
}
