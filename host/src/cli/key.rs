//! `context-guard key`: creates API keys of the gateway.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use context_guard::access::keys;

/// Create API keys for the gateway.
#[derive(Args)]
pub(crate) struct Key {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Subcommand)]
enum KeyCommand {
    /// Create a key, add its digest to the file, and print the key once on standard output.
    New {
        /// The owner. The principal in cursors and the audit log is `key:NAME`.
        #[arg(long)]
        name: String,
        /// The file of `access.keys`. It is created if it is missing.
        #[arg(long, value_name = "FILE", default_value = "keys.json")]
        file: PathBuf,
    },
}

impl Key {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let KeyCommand::New { name, file } = self.command;
        let key = keys::create(&file, &name)?;
        eprintln!(
            "context-guard: added a key for {name} to {}. it is not shown again; clients send it as `Authorization: Bearer KEY`:",
            file.display()
        );
        say!("{}", key.expose());
        Ok(ExitCode::SUCCESS)
    }
}
