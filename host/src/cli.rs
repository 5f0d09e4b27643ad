//! The command line: one file a subcommand.

/// Prints a line. Whoever reads may have seen enough: that is no fault.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::cli::say(format_args!($($text)*))
    };
}

mod config_files;
mod demo;
mod key;
mod payload;
mod policy;
mod replay;
mod revisions;
mod runtime;
mod serve;
mod shape;
mod table;
mod tokens;
mod wrap;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use context_guard::{Error, access, config, revision, telemetry};
use tracing_subscriber::EnvFilter;

const AFTER_HELP: &str = "\
Examples:
  context-guard demo                                        see what it does, with numbers
  context-guard wrap -- npx -y @modelcontextprotocol/server-filesystem /data
                                                            put it before a server, in a client's mcpServers
  context-guard serve --config gateway.yaml                 put it before many servers, for many clients
  curl -s localhost:8080/bookings | context-guard shape -   shape one answer
  context-guard tokens *.json --exact                       what files cost a model

Environment:
  CONTEXT_GUARD_SIGNING_KEYS   secrets that sign cursors, separated by commas; the first signs, all verify
  CONTEXT_GUARD_LOG            what is logged on standard error, such as info or context_guard=debug

Exit codes:
  0  done         1  something failed     2  the command line is wrong
  3  the policy, or another file, has faults                     4  a cursor or limit was refused
  5  a dry run went past a limit
  wrap ends with the exit code of the server; 128 + n where signal n ended it.";

/// Stands between an MCP client and its server and makes every answer fit the context window. Nothing is lost: what is held back can be fetched through it.
#[derive(Parser)]
#[command(version, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Log every decision, as CONTEXT_GUARD_LOG=info does.
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one")]
enum Command {
    /// Run an MCP server over stdio behind the guard.
    Wrap(wrap::Wrap),
    /// Run the gateway: many MCP servers and JSON APIs behind one guarded endpoint.
    Serve(serve::Serve),
    /// Check, import and describe gateway configurations.
    Config(config_files::Config),
    /// Check, explain and compare policies.
    Policy(policy::Policy),
    /// Run recorded traffic under another policy or component, and compare.
    Replay(replay::Replay),
    /// Show what serves a running gateway, and change it: reload, promote, roll back.
    #[command(alias = "generations")]
    Revisions(revisions::Revisions),
    /// Make API keys for the gateway.
    Key(key::Key),
    /// Shape one payload: the answer on standard output, a short table on standard error.
    Shape(shape::Shape),
    /// Count the tokens of files.
    Tokens(tokens::Tokens),
    /// Start an example server, call its tools with and without the guard, and compare.
    Demo(demo::Demo),
}

/// What every command that runs the guard takes.
#[derive(Clone, Args)]
pub(crate) struct GuardOptions {
    /// The policy: a .yaml, .json or .toml file. Without one, the defaults: 4000 tokens an answer, 50 items a page.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Another guard component than the one inside this program.
    #[arg(long, value_name = "FILE", env = "CONTEXT_GUARD_COMPONENT")]
    component: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.command {
            Command::Wrap(wrap) => wrap.run(),
            Command::Serve(serve) => serve.run(),
            Command::Config(config) => config.run(),
            Command::Policy(policy) => policy.run(),
            Command::Replay(replay) => replay.run(),
            Command::Revisions(revisions) => revisions.run(),
            Command::Key(key) => key.run(),
            Command::Shape(shape) => shape.run(),
            Command::Tokens(tokens) => tokens.run(),
            Command::Demo(demo) => demo.run(),
        }
    }
}

/// See the macro of the same name.
pub(crate) fn say(text: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Logs go to standard error: standard output belongs to the protocol.
pub(crate) fn start_log(verbose: bool) {
    let default = if verbose { "info" } else { "warn" };
    let filter =
        EnvFilter::try_from_env("CONTEXT_GUARD_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(false)
        .init();
}

/// A cursor or limit that the guard refused.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) String);

pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    match config_error(error) {
        Some(_) => 3,
        None if error.is::<Refused>() => 4,
        None => 1,
    }
}

/// The error of an operator's file, in whichever part of the program it was found.
pub(crate) fn config_error(error: &anyhow::Error) -> Option<&config::Error> {
    if let Some(error) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(error) = error.downcast_ref::<Error>() {
        return error.config();
    }
    match (error.downcast_ref(), error.downcast_ref(), error.downcast_ref()) {
        (Some(revision::Error::Config(error)), ..)
        | (_, Some(access::Error::Config(error)), _)
        | (_, _, Some(telemetry::Error::Config(error))) => Some(error),
        _ => None,
    }
}
