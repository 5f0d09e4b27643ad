//! `context-guard config`: checks, imports and describes gateway files.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand};
use context_guard::config;

use super::runtime::{self, GatewayFiles};

/// Check, import and describe gateway files.
#[derive(Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// List all errors of a gateway file and its policy, each with line and path. Starts nothing.
    Check {
        /// The gateway file: .yaml, .json or .toml.
        file: PathBuf,
    },
    /// Convert the mcpServers of a client's JSON file to a gateway file on standard output.
    Import {
        /// The client's file, such as claude_desktop_config.json or .mcp.json.
        file: PathBuf,
    },
    /// Print the JSON Schema of gateway files.
    Schema,
}

impl Config {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.command {
            ConfigCommand::Check { file } => {
                let config = config::read(&file)?;
                let files = GatewayFiles { config: file.clone(), component: None };
                let layout = files.layout_of(&config)?;
                runtime::check(&layout)?;
                let names: Vec<&str> =
                    config.upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
                say!("{}: valid; upstreams: {}", file.display(), names.join(", "));
            }
            ConfigCommand::Import { file } => {
                let text = std::fs::read_to_string(&file)
                    .with_context(|| format!("cannot read {}", file.display()))?;
                let (yaml, left) = config::import(&text)
                    .map_err(|reason| anyhow!("{}: {reason}", file.display()))?;
                for left in left {
                    eprintln!("context-guard: skipped: {left}");
                }
                super::say(format_args!("{}", yaml.trim_end()));
            }
            ConfigCommand::Schema => say!("{:#}", config::schema()),
        }
        Ok(ExitCode::SUCCESS)
    }
}
