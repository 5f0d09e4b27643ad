//! Everything that is handed out. Composing and binding are another program's, which the front door does not wait for.

use std::path::PathBuf;

use anyhow::Result;

use crate::build::{self, cargo, target};

/// Makes it: the folder.
pub(crate) fn run() -> Result<PathBuf> {
    build::targets()?;
    let program = ["--package", "context-guard-xtask", "--features", "dist", "--bin", "dist"];
    build::run(cargo().args(["run", "--quiet"]).args(program))?;
    Ok(target().join("dist"))
}
