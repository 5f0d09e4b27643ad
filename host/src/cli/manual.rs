//! `context-guard manual`: writes the manual pages, for packages.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, CommandFactory as _};

/// Write the manual pages into a folder.
#[derive(Args)]
pub(crate) struct Manual {
    folder: PathBuf,
}

impl Manual {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let place = || self.folder.display().to_string();
        std::fs::create_dir_all(&self.folder).with_context(place)?;
        clap_mangen::generate_to(super::Arguments::command(), &self.folder).with_context(place)?;
        Ok(ExitCode::SUCCESS)
    }
}
