//! `context-guard config`: checks, imports and describes gateway files.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use context_guard::config::document::Issues;
use context_guard::config::{self, OwnPaths, References, Upstream};

use super::escape_controls;
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
    /// Warns of programs that are not on PATH, and of upstreams whose tools need other names.
    Check {
        /// The gateway file: .yaml, .json or .toml.
        file: PathBuf,
        /// Accept variables and files of secrets that do not exist here, as in CI.
        #[arg(long)]
        no_secrets: bool,
    },
    /// Convert the servers of a client's configuration to a gateway file on standard output.
    ///
    /// Reads the files of Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Cline, Gemini
    /// CLI, Zed, opencode, LM Studio, Codex and Goose. Secrets become references to environment
    /// variables. Standard error lists these variables and everything that is left out.
    Import {
        /// The client's file, such as claude_desktop_config.json, .mcp.json or config.toml.
        file: PathBuf,
    },
    /// Print the JSON Schema of gateway files.
    Schema,
}

impl Config {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.command {
            ConfigCommand::Check { file, no_secrets } => check(&file, no_secrets)?,
            ConfigCommand::Import { file } => import(&file)?,
            ConfigCommand::Schema => say!("{:#}", config::schema()),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn check(file: &Path, no_secrets: bool) -> Result<()> {
    let references = if no_secrets { References::Keep } else { References::Resolve };
    let config = config::read_with(file, references)?;
    let files = GatewayFiles { config: Some(file.to_owned()), component: None, bundle: None };
    let layout = files.layout_of(&config)?;
    runtime::check(&layout)?;
    let policy = layout.policy()?;
    if let Some(issue) = OwnPaths::from(&config).issue(policy.document()) {
        return Err(policy.located(Issues(vec![issue])).into());
    }
    for upstream in &config.upstreams {
        if let Some(reason) = missing_program(upstream, &config.folder) {
            eprintln!("context-guard: warning: {}: {}: {reason}", file.display(), upstream.name);
        }
    }
    for warning in config.name_warnings() {
        eprintln!("context-guard: warning: {}: {warning}", file.display());
    }
    let names: Vec<&str> = config.upstreams.iter().map(|one| one.name.as_str()).collect();
    let disabled = match config.disabled.join(", ") {
        names if names.is_empty() => names,
        names => format!("; disabled: {names}"),
    };
    say!("{}: valid; upstreams: {}{disabled}", file.display(), names.join(", "));
    Ok(())
}

/// Returns an error message if the program of the upstream does not exist on this machine,
/// otherwise `None`.
pub(crate) fn missing_program(upstream: &Upstream, folder: &Path) -> Option<String> {
    let program = upstream.command.first().filter(|program| !program.contains("${"))?;
    let path = match upstream.env.get("PATH") {
        Some(path) => Some(path.expose().into()),
        None => std::env::var_os("PATH"),
    };
    let cwd = match &upstream.cwd {
        Some(cwd) => folder.join(cwd),
        None => std::env::current_dir().ok()?,
    };
    which::which_in(program, path, cwd).err()?;
    Some(format!("the program `{program}` is not on PATH: install it, or write its absolute path"))
}

fn import(file: &Path) -> Result<()> {
    let text = std::fs::read_to_string(file)
        .map_err(|source| config::Error::File { path: file.to_owned(), source })?;
    let imported = config::import(file, &text)?;
    for skipped in imported.skipped {
        eprintln!("context-guard: skipped: {}", escape_controls(&skipped));
    }
    for note in imported.notes {
        eprintln!("context-guard: note: {}", escape_controls(&note));
    }
    if !imported.variables.is_empty() {
        eprintln!("context-guard: set these variables before `context-guard serve`:");
        for (name, fields) in imported.variables {
            eprintln!("  {name}  ({})", fields.join(", "));
        }
    }
    say!("{}", imported.yaml.trim_end());
    Ok(())
}
