//! `context-guard completions`: prints a completion script for a shell.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

const AFTER_HELP: &str = "\
Examples:
  context-guard completions bash > ~/.local/share/bash-completion/completions/context-guard
  context-guard completions zsh > \"${fpath[1]}/_context-guard\"
  context-guard completions fish > ~/.config/fish/completions/context-guard.fish";

/// Print a completion script for a shell.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let mut script = Vec::new();
        let mut command = super::Arguments::command();
        clap_complete::generate(self.shell, &mut command, "context-guard", &mut script);
        say!("{}", String::from_utf8_lossy(&script).trim_end());
        Ok(ExitCode::SUCCESS)
    }
}
