//! `context-guard doctor`: checks what clients, servers and gateways need, and says what to do.

mod clients;
mod expand;
mod gateway;
mod machine;
mod probe;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use context_guard_install::{Client, Environment};
use serde::Serialize;

const AFTER_HELP: &str = "\
Examples:
  context-guard doctor                            check clients, commands and servers
  context-guard doctor --client cursor --no-start
  context-guard doctor --config gateway.yaml      check a gateway file, too: upstreams, ports, store

The check starts every enabled stdio server once, asks for its tools, and ends it. It starts the
upstreams of a gateway file as the gateway does, with their environment, limits and sandbox.
The exit code is 1 if a check failed. Warnings do not change it.";

/// Check the clients' configurations, their servers and the gateway, and say what to do.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Doctor {
    /// Check the configuration of this client only. Can be repeated.
    #[arg(long, value_name = "CLIENT", value_parser = super::install::client)]
    client: Vec<Client>,
    /// Check this gateway file, too.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Start no servers.
    #[arg(long)]
    no_start: bool,
    /// The time that a server has to list its tools, in seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(1..=600),
        conflicts_with = "no_start"
    )]
    timeout: u64,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Ok,
    Skipped,
    Warning,
    Failed,
}

/// The result of one check.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    status: Status,
    /// The name of the kind of check, such as `command`.
    check: &'static str,
    /// The thing that was checked, such as `cursor: files`.
    subject: String,
    message: String,
    /// The next step for the user. `None` if there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Check {
    fn new(
        status: Status,
        check: &'static str,
        subject: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { status, check, subject: subject.into(), message: message.into(), advice: None }
    }

    fn ok(check: &'static str, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Status::Ok, check, subject, message)
    }

    fn skipped(
        check: &'static str,
        subject: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self::new(Status::Skipped, check, subject, message)
    }

    fn warning(
        check: &'static str,
        subject: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self::new(Status::Warning, check, subject, message)
    }

    fn failed(check: &'static str, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Status::Failed, check, subject, message)
    }

    fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

impl Doctor {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let project = std::env::current_dir().context("the current folder cannot be read")?;
        let environment = Environment::current(project)
            .context("the home folder is unknown: set the variable HOME")?;
        let mut checks = machine::checks();
        let mut found = clients::checks(&environment, &self.client, &mut checks);
        if let Some(file) = &self.config {
            found.extend(gateway::checks(file, &mut checks));
        }
        checks.extend(machine::runtimes(found.iter().map(|server| server.command_line.as_slice())));
        if !self.no_start {
            let timeout = Duration::from_secs(self.timeout);
            if !self.json && !found.is_empty() {
                eprintln!("context-guard: starting {} once", count(found.len(), "server"));
            }
            checks.extend(probe::all(found, timeout));
        }
        if self.json {
            let counts = |status| checks.iter().filter(|check| check.status == status).count();
            let report = serde_json::json!({
                "failed": counts(Status::Failed),
                "warnings": counts(Status::Warning),
                "checks": checks,
            });
            say!("{report:#}");
        } else {
            print(&checks);
        }
        let has_failed = checks.iter().any(|check| check.status == Status::Failed);
        Ok(ExitCode::from(u8::from(has_failed)))
    }
}

fn print(checks: &[Check]) {
    for check in checks {
        let mark = match check.status {
            Status::Ok => "ok     ",
            Status::Skipped => "skipped",
            Status::Warning => "WARNING",
            Status::Failed => "FAILED ",
        };
        say!("{mark}  {}: {}", check.subject, check.message);
        if let Some(advice) = &check.advice {
            say!("         -> {advice}");
        }
    }
    let number = |status| checks.iter().filter(|check| check.status == status).count();
    let (failed, warnings) = (number(Status::Failed), number(Status::Warning));
    say!("\n{}, {}.", count(failed, "failure"), count(warnings, "warning"));
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
