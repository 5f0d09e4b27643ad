//! `context-guard key`: API keys of the gateway.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use context_guard::access::keys;

/// Make API keys for the gateway.
#[derive(Args)]
pub(crate) struct Key {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a key, add its hash to the file, and print the key: once, on standard output.
    New {
        /// Whose it is. Cursors and the audit log go by this name.
        #[arg(long)]
        name: String,
        /// The file that `access.keys` names. It is made if it is not there.
        #[arg(long, value_name = "FILE", default_value = "keys.json")]
        file: PathBuf,
    },
}

impl Key {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Command::New { name, file } = self.command;
        let key = keys::create(&file, &name)?;
        eprintln!(
            "context-guard: added a key for {name} to {}. It is shown this once; clients send it as `Authorization: Bearer KEY`:",
            file.display()
        );
        say!("{}", key.expose());
        Ok(ExitCode::SUCCESS)
    }
}
