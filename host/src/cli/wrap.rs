//! `context-guard wrap`: an MCP proxy over stdio for the configuration of a client.

use std::pin::{Pin, pin};
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;
use context_guard::Filter;
use context_guard::clock::SystemClock;
use context_guard::config::OtlpSettings;
use context_guard::engine::SigningKey;
use context_guard::filter::FilterOptions;
use context_guard::gateway::{OtlpExport, PendingFilter, Session, stdio};
use context_guard::sampler::Sampler;
use context_guard::telemetry::Recorder;
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::log::LogFormat;
use super::wrap_programs::{self, WrappedServer};
use super::{GuardOptions, HistoryOption, ProfileOption, UsageError, runtime};

const AFTER_HELP: &str = "\
In a client's configuration, put `context-guard wrap --` before the command:

  {\"mcpServers\": {\"files\": {
    \"command\": \"context-guard\",
    \"args\": [\"wrap\", \"--\", \"npx\", \"-y\", \"@modelcontextprotocol/server-filesystem\", \"/data\"]}}}";

/// Run an MCP server over stdio behind the guard.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Wrap {
    #[command(flatten)]
    guard: GuardOptions,
    /// The name of the upstream in policy rules: NAME::tool.
    #[arg(long, default_value = "", hide_default_value = true)]
    name: String,
    /// The share of answers whose tokens are counted exactly (o200k) to check the estimates, from 0
    /// to 1: every n-th answer, where n is 1 divided by the share, rounded. Errors above 30 % are
    /// logged. The tokenizer needs 45 MB of memory. Not with `--code`.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    sample: f64,
    /// Offer the tool context_guard_run: programs over the tools and answers of the server. The
    /// exit code is then not that of the server.
    #[arg(long, conflicts_with_all = ["sample", "learn", "inherit_env"])]
    code: bool,
    /// Correct the estimates of each tool by exact counts, from 0.8 to 1.5. Answers then depend on
    /// earlier ones. Not with `--code`.
    #[arg(long)]
    learn: bool,
    #[command(flatten)]
    history: HistoryOption,
    #[command(flatten)]
    profile: ProfileOption,
    /// The format of the log on standard error: `text`, or `json` for one object per line.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, hide_possible_values = true)]
    pub(crate) log_format: LogFormat,
    /// A variable whose name begins with CONTEXT_GUARD_ that the server inherits. It inherits all
    /// others anyway. Not with --code.
    #[arg(long, value_name = "NAME")]
    inherit_env: Vec<String>,
    /// The command line of the server.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<String>,
}

impl Wrap {
    pub(crate) fn run(self) -> Result<ExitCode> {
        check_program(&self.command)?;
        if self.code {
            return wrap_programs::run(WrappedServer {
                guard: self.guard,
                name: self.name,
                history: self.history,
                profile: self.profile,
                command: self.command,
            });
        }
        let keys = runtime::user_keys()?;
        let sampler = Sampler::start(self.sample)?;
        let options = FilterOptions {
            sampler: sampler.clone(),
            learn: self.learn,
            ..FilterOptions::default()
        };
        let filter = PendingFilter::default();
        let loaded = load(self.guard, keys, options, filter.clone())?;
        let history = self.history.open();
        let recorder = Recorder::new(0, None, Arc::new(SystemClock)).with_history(history.clone());
        let recorder = Arc::new(recorder.with_process_session());
        if let Some(sampler) = &sampler {
            let recorder = Arc::clone(&recorder);
            sampler.observe(move |counted| recorder.sampled(counted));
        }
        recorder.set_uses_pipe();
        let session = Session::new(filter, "local", &self.name);
        let session = session.with_recorder(Arc::clone(&recorder));
        session.override_client(self.profile.client_profile);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let status = runtime.block_on(async {
            let export = OtlpExport::start(&OtlpSettings::default(), &recorder);
            // The variables may be for other programs of the client.
            let export = export.unwrap_or_else(|error| {
                warn!("nothing is exported: {error}");
                None
            });
            let server = pin!(stdio::run(session, &self.command, &self.inherit_env));
            let status = until_loaded(server, loaded).await?;
            if let Some(export) = export {
                export.finish().await;
            }
            anyhow::Ok(status)
        })?;
        if let Some(history) = history {
            history.flush();
        }
        for (endpoint, known) in sampler.map(|sampler| sampler.report()).unwrap_or_default() {
            info!(
                endpoint,
                samples = known.samples,
                actual = known.actual,
                estimated = known.estimated,
                "estimates compared with the tokenizer"
            );
        }
        // A thread may still wait for input that never arrives.
        runtime.shutdown_background();
        Ok(code(status))
    }
}

/// Fails if the server's command begins with an option: a misspelled option of `wrap`.
fn check_program(command: &[String]) -> Result<()> {
    if let Some(option) = command.first().filter(|program| program.starts_with('-')) {
        bail!(UsageError(format!(
            "unexpected argument `{option}` before the command of the server: see \
             `context-guard wrap --help`"
        )));
    }
    Ok(())
}

/// Loads the guard in a thread while the server starts, and sets `pending`. Returns the receiver of
/// the result.
fn load(
    guard: GuardOptions,
    keys: Vec<SigningKey>,
    options: FilterOptions,
    pending: PendingFilter,
) -> Result<oneshot::Receiver<Result<()>>> {
    let (result, loaded) = oneshot::channel();
    let load = move || {
        let filter = Filter::with_options(guard.revisions(keys, Arc::new(SystemClock))?, options);
        guard.watch(&filter)?;
        pending.set(Arc::new(filter));
        Ok(())
    };
    std::thread::Builder::new().name("load".to_owned()).spawn(move || result.send(load()))?;
    Ok(loaded)
}

/// Waits for the exit of the server.
///
/// # Errors
/// The guard cannot be loaded, or the server cannot be run.
async fn until_loaded<E: Into<anyhow::Error>>(
    mut server: Pin<&mut impl Future<Output = Result<ExitStatus, E>>>,
    loaded: oneshot::Receiver<Result<()>>,
) -> Result<ExitStatus> {
    let mut loaded =
        pin!(async { loaded.await.unwrap_or_else(|_| bail!("the guard cannot be loaded")) });
    tokio::select! {
        status = &mut server => {
            // A server may end early because of the same mistake, such as a wrong folder.
            loaded.await?;
            status.map_err(Into::into)
        }
        loaded = &mut loaded => {
            loaded?;
            server.await.map_err(Into::into)
        }
    }
}

/// Returns the exit code for the server's exit status, as shells compute it. If a signal ended the
/// server, that is 128 plus the number of the signal.
fn code(status: ExitStatus) -> ExitCode {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return ExitCode::from(u8::try_from(128 + signal).unwrap_or(1));
    }
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        wrap: Wrap,
    }

    #[test]
    fn misspelled_options_are_no_server() {
        let line = ["wrap", "--polcy", "p.yaml", "--", "npx"];
        let command = CommandLine::try_parse_from(line).ok().unwrap().wrap.command;
        let error = check_program(&command).unwrap_err().to_string();
        assert!(error.contains("unexpected argument `--polcy`"), "{error}");
        assert!(check_program(&["npx".to_owned(), "-y".to_owned()]).is_ok());
    }

    #[test]
    fn options_without_effect_are_refused() {
        let parse = |line: &[&str]| {
            let line = [&["wrap"], line, &["--", "server"]].concat();
            CommandLine::try_parse_from(line).map(|line| line.wrap.inherit_env)
        };
        let variable = ["--inherit-env", "CONTEXT_GUARD_LOG"];
        assert_eq!(parse(&variable).ok().unwrap(), ["CONTEXT_GUARD_LOG"]);
        for option in ["--sample=1", "--learn", "--inherit-env=CONTEXT_GUARD_LOG"] {
            assert!(parse(&["--code", option]).is_err(), "{option}");
        }
    }
}
