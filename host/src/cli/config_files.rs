//! `context-guard config`: checks, imports and describes gateway configurations.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand};
use context_guard::config;

use super::runtime::{self, GatewayFiles};

/// Check, import and describe gateway configurations.
#[derive(Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List every fault of a configuration and its policy, each with line and path. Nothing is started.
    Check {
        /// The configuration: a .yaml, .json or .toml file.
        file: PathBuf,
    },
    /// Make a configuration from the mcpServers of a client's JSON file, on standard output.
    Import {
        /// The client's file, such as claude_desktop_config.json or .mcp.json.
        file: PathBuf,
    },
    /// Print the JSON Schema of configurations.
    Schema,
}

impl Config {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.command {
            Command::Check { file } => {
                let config = config::read(&file)?;
                let files = GatewayFiles { config: file.clone(), component: None };
                let content = files.of(&config)?;
                runtime::check(&content)?;
                let names: Vec<&str> =
                    config.upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
                say!("{}: no faults. Upstreams: {}.", file.display(), names.join(", "));
            }
            Command::Import { file } => {
                let text = std::fs::read_to_string(&file)
                    .with_context(|| format!("{} cannot be read", file.display()))?;
                let (yaml, left) = config::import(&text)
                    .map_err(|reason| anyhow!("{}: {reason}", file.display()))?;
                for left in left {
                    eprintln!("context-guard: not taken over: {left}");
                }
                super::say(format_args!("{}", yaml.trim_end()));
            }
            Command::Schema => say!("{:#}", config::schema()),
        }
        Ok(ExitCode::SUCCESS)
    }
}
