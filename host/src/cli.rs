//! The command line: one file per subcommand.

/// Prints a line to standard output. Ends the program without an error if the line cannot be
/// written, for example to a pipe that `head` has closed.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::cli::say(format_args!($($text)*))
    };
}

mod bundle;
mod bundle_follower;
mod completions;
mod config_files;
mod dashboard;
mod demo;
mod doctor;
#[cfg(feature = "grpc")]
mod external;
mod install;
mod key;
mod log;
mod login;
mod manual;
mod payload;
mod policy;
mod replay;
mod revisions;
#[cfg(target_os = "linux")]
mod run_sandboxed;
mod runtime;
mod serve;
mod server_process;
mod shape;
mod stats;
mod stdio;
mod table;
mod tokens;
mod tools;
mod wrap;
mod wrap_programs;

use std::borrow::Cow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use context_guard::bundle::Error as BundleError;
use context_guard::history::{History, HistoryOptions};
use context_guard::{Error, access, config, oauth, revision, telemetry};
use context_guard_protocol::client::check_name;
use tracing::warn;
use tracing_subscriber::EnvFilter;

use log::LogFormat;

const AFTER_HELP: &str = "\
Examples:
  context-guard demo                                        compare answers with and without the guard
  context-guard install                                     guard the servers of your clients, and undo it with --undo
  context-guard wrap -- npx -y @modelcontextprotocol/server-filesystem /data
                                                            guard one server, as a command in a client's mcpServers
  context-guard serve --config gateway.yaml                 guard many servers for many clients
  curl -s localhost:8080/bookings | context-guard shape -   shape one answer
  context-guard tokens *.json --exact                       count the tokens of files
  context-guard tools lint -- npx -y my-mcp-server          check a server's tools

Environment:
  CONTEXT_GUARD_SIGNING_KEYS   signing keys of cursors, separated by commas; the first signs, all verify
  CONTEXT_GUARD_TOKEN_KEY      the key that encrypts the tokens of `login`, at least 32 characters
  CONTEXT_GUARD_NO_HISTORY     1 records no calls for `stats`
  CONTEXT_GUARD_LOG            the log filter of standard error, such as info or context_guard=debug

Exit codes:
  0  success      1  failure              2  invalid command line
  3  invalid policy or file                 4  a cursor, limit or bundle was refused
  5  a limit of replay was exceeded
  wrap returns the exit code of the server, or 128 + n if signal n ended it;
  126 or 127 if its program cannot be executed or does not exist.";

/// The output without a subcommand: the three commands that most users need.
const FIRST_RUN: &str = concat!(
    "context-guard ",
    env!("CARGO_PKG_VERSION"),
    " makes every answer of an MCP server fit the context window.\n\n",
    "  context-guard demo        see what it does, with an example server\n",
    "  context-guard install     guard the servers of your MCP clients; --undo takes it back\n",
    "  context-guard doctor      check clients, servers and settings\n\n",
    "`context-guard --help` lists all commands."
);

/// Makes every answer of an MCP server fit the context window. Nothing is lost: omitted parts can
/// be fetched.
#[derive(Parser)]
#[command(version, after_help = AFTER_HELP)]
#[command(arg_required_else_help = false, subcommand_required = false)]
pub(crate) struct Arguments {
    /// Log every answer. Gateways also log what their upstreams write to standard error.
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one")]
enum Command {
    /// Guard the MCP servers of your clients, and undo it.
    Install(install::Install),
    /// Check the clients' configurations, their servers and the gateway, and say what to do.
    Doctor(doctor::Doctor),
    /// Run an MCP server over stdio behind the guard.
    Wrap(wrap::Wrap),
    /// Run the gateway: many MCP servers and JSON APIs behind one endpoint.
    Serve(serve::Serve),
    /// Run the gateway for one client over stdio: many MCP servers as one.
    Stdio(stdio::Stdio),
    /// Guard the MCP traffic of an Envoy, as its external processor.
    #[cfg(feature = "grpc")]
    ExtProc(external::ExtProc),
    /// Guard the MCP traffic of an agentgateway, as its policy server.
    #[cfg(feature = "grpc")]
    ExtMcp(external::ExtMcp),
    /// Check, import and describe gateway files.
    Config(config_files::Config),
    /// Check, explain and compare policies.
    Policy(policy::Policy),
    /// Replay recorded traffic under another policy or component, and compare.
    Replay(replay::Replay),
    /// Show and change the revisions of a running gateway: reload, promote, roll back.
    #[command(alias = "generations")]
    Revisions(revisions::Revisions),
    /// Create and verify signed bundles of policy, component and signing keys for a fleet.
    Bundle(bundle::Bundle),
    /// Create API keys for the gateway.
    Key(key::Key),
    /// Log in at an upstream that needs OAuth, and store the token for the gateway.
    Login(login::Login),
    /// Remove the stored token of an upstream.
    Logout(login::Logout),
    /// Show what tools cost and what the guard saved, from the history of calls.
    Stats(stats::Stats),
    /// Show in a browser what tools cost, from the history of calls.
    Dashboard(dashboard::Dashboard),
    /// Shape one payload: the answer on standard output, a report on standard error.
    Shape(shape::Shape),
    /// Count the tokens of files.
    Tokens(tokens::Tokens),
    /// Check the definitions of tools.
    Tools(tools::Tools),
    /// Call the tools of an example server with and without the guard, and compare.
    Demo(demo::Demo),
    /// Print a completion script for a shell.
    Completions(completions::Completions),
    /// Write the manual pages into a folder, for packages.
    #[command(hide = true)]
    Manual(manual::Manual),
    /// Run the example server of `demo`: MCP over stdio, with long answers.
    #[command(hide = true)]
    ExampleServer,
    /// Run a command in a sandbox, for upstreams with `sandbox`.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    RunSandboxed(run_sandboxed::RunSandboxed),
}

impl Command {
    /// Returns true for commands that serve many clients until they are stopped.
    fn is_gateway(&self) -> bool {
        match self {
            Self::Serve(_) => true,
            #[cfg(feature = "grpc")]
            Self::ExtProc(_) | Self::ExtMcp(_) => true,
            _ => false,
        }
    }
}

/// Options of all commands that run the guard.
#[derive(Clone, Args)]
pub(crate) struct GuardOptions {
    /// The policy: a .yaml, .json or .toml file. The default policy allows 4000 tokens per answer.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The guard component, instead of the embedded one.
    #[arg(long, value_name = "FILE", env = "CONTEXT_GUARD_COMPONENT")]
    component: Option<PathBuf>,
}

/// The option that chooses the profile of a client.
#[derive(Clone, Args)]
pub(crate) struct ProfileOption {
    /// The client whose profile applies, whatever client connects: the beginning of its name in
    /// clientInfo, or `unknown`. The policy setting `clientProfile` precedes it.
    #[arg(long, value_name = "NAME", value_parser = profile_name)]
    client_profile: Option<String>,
}

fn profile_name(name: &str) -> Result<String, String> {
    check_name(name).map(|()| name.to_owned())
}

/// The option that disables the history of calls.
#[derive(Clone, Args)]
pub(crate) struct HistoryOption {
    /// Record no calls for `context-guard stats`.
    #[arg(
        long,
        env = "CONTEXT_GUARD_NO_HISTORY",
        hide_env_values = true,
        value_parser = clap::builder::FalseyValueParser::new()
    )]
    no_history: bool,
}

impl HistoryOption {
    /// Opens the user's history. `None` if the option disables the history or it cannot be opened,
    /// because commands run without it.
    fn open(&self) -> Option<Arc<History>> {
        if self.no_history {
            return None;
        }
        let open = || {
            let file = config::history_file()?;
            anyhow::Ok(History::open(&file, &HistoryOptions::default())?)
        };
        open().inspect_err(|error| warn!("calls are not recorded for `stats`: {error}")).ok()
    }
}

impl Arguments {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let Some(command) = self.command else {
            say!("{FIRST_RUN}");
            return Ok(ExitCode::SUCCESS);
        };
        match command {
            Command::Install(install) => install.run(),
            Command::Doctor(doctor) => doctor.run(),
            Command::Wrap(wrap) => wrap.run(),
            Command::Serve(serve) => serve.run(),
            Command::Stdio(stdio) => stdio.run(),
            #[cfg(feature = "grpc")]
            Command::ExtProc(external) => external.run(),
            #[cfg(feature = "grpc")]
            Command::ExtMcp(external) => external.run(),
            Command::Config(config) => config.run(),
            Command::Policy(policy) => policy.run(),
            Command::Replay(replay) => replay.run(),
            Command::Revisions(revisions) => revisions.run(),
            Command::Bundle(bundle) => bundle.run(),
            Command::Key(key) => key.run(),
            Command::Login(login) => login.run(),
            Command::Logout(logout) => logout.run(),
            Command::Stats(stats) => stats.run(),
            Command::Dashboard(dashboard) => dashboard.run(),
            Command::Shape(shape) => shape.run(),
            Command::Tokens(tokens) => tokens.run(),
            Command::Tools(tools) => tools.run(),
            Command::Demo(demo) => demo.run(),
            Command::Completions(completions) => completions.run(),
            Command::Manual(manual) => manual.run(),
            Command::ExampleServer => {
                context_guard_property_server::serve(std::io::stdin().lock(), std::io::stdout())?;
                Ok(ExitCode::SUCCESS)
            }
            #[cfg(target_os = "linux")]
            Command::RunSandboxed(run) => Ok(run.run()),
        }
    }
}

/// Replaces control characters other than tabs and line ends, with which a text of a server could
/// change the terminal. The escapes are those of JSON, so that JSON remains valid.
pub(crate) fn escape_controls(text: &str) -> Cow<'_, str> {
    let is_refused = |c: char| c.is_control() && !matches!(c, '\t' | '\n');
    if !text.contains(is_refused) {
        return Cow::Borrowed(text);
    }
    let escaped = text.chars().map(|c| match is_refused(c) {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    });
    Cow::Owned(escaped.collect())
}

/// Prints a line to standard output, without control characters. Implements the macro `say!`.
pub(crate) fn say(text: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let text = text.to_string();
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{}", escape_controls(&text));
    if let Err(error) = written.and_then(|()| out.flush()) {
        // The reader, such as `head`, may have read enough. Any other error loses output.
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        eprintln!("context-guard: cannot write to standard output: {error}");
        std::process::exit(1);
    }
}

/// Starts logging with the format and the filter of a command.
pub(crate) fn start_log(arguments: &Arguments) {
    // A gateway reports changes of state, and requests only with `-v`: one line for each, from the
    // recorder of requests rather than from the filter. `wrap` reports only what the filter did.
    let default = match (&arguments.command, arguments.verbose) {
        (Some(command), false) if command.is_gateway() => {
            "info,context_guard::decisions=warn,context_guard::requests=warn"
        }
        (Some(command), true) if command.is_gateway() => {
            "info,context_guard::decisions=warn,context_guard::stderr=debug"
        }
        (Some(Command::Wrap(_)), true) => "info,context_guard::requests=warn",
        (_, false) => "warn",
        (_, true) => "info",
    };
    let filter =
        EnvFilter::try_from_env("CONTEXT_GUARD_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let format = match &arguments.command {
        Some(Command::Serve(serve)) => serve.log_format,
        Some(Command::Wrap(wrap)) => wrap.log_format,
        #[cfg(feature = "grpc")]
        Some(Command::ExtProc(external::ExtProc { options }))
        | Some(Command::ExtMcp(external::ExtMcp { options })) => options.log_format,
        _ => LogFormat::Text,
    };
    log::start(filter, format);
}

/// The error that the guard refused a cursor, limit or argument, with its message. The program
/// exits with 4.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) String);

/// The error that options are missing or contradict each other. The program exits with 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// Returns the message of an error with those of its causes. Omits a cause whose text the message
/// already contains.
pub(crate) fn message(error: &anyhow::Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(BundleError::Refused(_)) => return 4,
        Some(BundleError::Invalid(_) | BundleError::File { .. }) => return 3,
        _ => {}
    }
    if let Some(Error::Spawn { source, .. }) = error.downcast_ref() {
        // As shells do.
        return if source.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
    }
    match config_error(error) {
        Some(_) => 3,
        None if error.is::<Refused>() => 4,
        None if error.is::<UsageError>() => 2,
        None => 1,
    }
}

/// Returns the configuration error that caused `error`, or `None` if it has another cause.
pub(crate) fn config_error(error: &anyhow::Error) -> Option<&config::Error> {
    if let Some(error) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(error) = error.downcast_ref::<Error>() {
        return error.config();
    }
    if let Some(oauth::Error::Config(error)) = error.downcast_ref() {
        return Some(error);
    }
    match (error.downcast_ref(), error.downcast_ref(), error.downcast_ref()) {
        (Some(revision::Error::Config(error)), ..)
        | (_, Some(access::Error::Config(error)), _)
        | (_, _, Some(telemetry::Error::Config(error))) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_as_in_json() {
        assert!(matches!(escape_controls("a\tb\nä"), Cow::Borrowed(_)));
        let json = format!("{:#}", serde_json::json!({"name": "x\x1b[2J\u{9b}1m\u{7f}"}));
        let printed = escape_controls(&json);
        assert!(!printed.contains(|c: char| c.is_control() && c != '\n'), "{printed:?}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&printed), read(&json));
        assert_eq!(escape_controls("x\x1b[2J\r"), r"x\u001b[2J\u000d");
    }
}
