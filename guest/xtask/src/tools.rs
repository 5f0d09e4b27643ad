//! Programs that the tasks need, and the list of what was skipped without them.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::PoisonError;

use anyhow::{Result, bail};

pub(crate) use crate::build::skipped;
use crate::build::{self, SKIPPED, cargo, step, target};

/// Returns the path of a program in `PATH`, or none if it is not installed.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let name = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(&name)).find(|path| path.is_file())
}

/// Returns the path of a tool from crates.io. Installs it below the target folder first, unless it
/// is there.
pub(crate) fn install(name: &str, version: &str, options: &[&str]) -> Result<PathBuf> {
    let folder = target().join("tools");
    let program = folder.join("bin").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let mark = folder.join(format!("{name}-{version}"));
    if !program.is_file() || !mark.is_file() {
        step!("Installing {name} {version}. This takes some minutes, once.");
        build::run(
            cargo()
                // Compiling with optimization takes longer than the tool ever runs.
                .args(["install", "--quiet", "--locked", "--force", "--debug"])
                .args(["--version", version, "--root"])
                .arg(&folder)
                .arg(name)
                .args(options),
        )?;
        std::fs::write(mark, "")?;
    }
    Ok(program)
}

/// Asks a yes-or-no question on the terminal. Returns false without a terminal.
pub(crate) fn confirm(question: &str) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        eprintln!("{question} Nobody can answer: pass --yes, or set CI.");
        return Ok(false);
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Returns true on a CI server. There, no step may be skipped.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// Prints all skipped steps. On a CI server, fails if there are any.
pub(crate) fn report_skipped() -> Result<()> {
    let skipped = SKIPPED.lock().unwrap_or_else(PoisonError::into_inner);
    if skipped.is_empty() {
        return Ok(());
    }
    let list = skipped.join("\n  ");
    if is_ci() {
        bail!("skipped, which is an error where CI is set:\n  {list}");
    }
    eprintln!("Skipped:\n  {list}");
    Ok(())
}
