//! `context-guard policy`: checks, explains and compares policies.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use context_guard::config;
use context_guard::policy::{self, Source};
use serde_json::{Value, json};

use super::{GuardOptions, table};

const AFTER_HELP: &str = "\
Examples:
  context-guard policy check policy.yaml                            list all errors with their lines
  context-guard policy explain policy.yaml --endpoint crm::list_users   the settings of a tool and their origin
  context-guard policy explain policy.yaml --endpoint 'GET /bookings'   the settings of a path of a JSON API
  context-guard policy diff old.yaml new.yaml                       the differences; exits with 1 if there are any

Every setting can be overridden by the environment: CONTEXT_GUARD__POLICY__TOKEN_BUDGET_THRESHOLD=8000 sets tokenBudgetThreshold.";

/// Check, explain and compare policies.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Policy {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Subcommand)]
enum PolicyCommand {
    /// List all errors of a policy, each with line, path and reason, and a suggestion for
    /// misspelled names.
    Check {
        /// The policy: a .yaml, .json or .toml file.
        file: PathBuf,
        /// The guard component that compiles it, instead of the embedded one.
        #[arg(long, value_name = "FILE", env = "CONTEXT_GUARD_COMPONENT")]
        component: Option<PathBuf>,
        /// Print JSON: {"file", "valid", "issues": [{"line", "path", "reason", "severity"}]}.
        #[arg(long)]
        json: bool,
    },
    /// Show the settings of an endpoint and their origin.
    Explain {
        /// The policy; the default policy if it is not given.
        file: Option<PathBuf>,
        /// `upstream::tool`, the name of a tool, the URI of a resource, or `METHOD /path`.
        #[arg(long, default_value = "")]
        endpoint: String,
        /// Show only settings that differ from the default.
        #[arg(long)]
        set: bool,
        /// Print JSON: {"setting": {"value", "from"}}.
        #[arg(long)]
        json: bool,
    },
    /// Show the differences between two policies. Exits with 1 if there are any.
    Diff {
        /// The old policy.
        old: PathBuf,
        /// The new policy.
        new: PathBuf,
        /// Compare the effective settings of this endpoint instead of the files.
        #[arg(long)]
        endpoint: Option<String>,
        /// Print JSON: [{"path", "old", "new"}].
        #[arg(long)]
        json: bool,
    },
}

impl Policy {
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.command {
            PolicyCommand::Check { file, component, json } => check(file, component, json),
            PolicyCommand::Explain { file, endpoint, set, json } => {
                let source = file.map(|file| Source::read(&file)).transpose()?.unwrap_or_default();
                explain(&source, &endpoint, set, json);
                Ok(ExitCode::SUCCESS)
            }
            PolicyCommand::Diff { old, new, endpoint, json } => {
                let (old, new) = (Source::read(&old)?, Source::read(&new)?);
                Ok(diff(&old, &new, endpoint.as_deref(), json))
            }
        }
    }
}

fn check(file: PathBuf, component: Option<PathBuf>, json: bool) -> Result<ExitCode> {
    let checked = GuardOptions { policy: Some(file.clone()), component }.check();
    if !json {
        let warnings = checked?;
        for warning in &warnings.0 {
            say!("{}: warning: {}: {}", file.display(), warning.path(), warning.reason);
        }
        say!("{}: valid", file.display());
        return Ok(ExitCode::SUCCESS);
    }
    let (issues, severity) = match checked {
        Ok(warnings) => (warnings, "warning"),
        Err(error) => match super::config_error(&error) {
            Some(config::Error::Config { issues, .. } | config::Error::Policy(issues)) => {
                (issues.clone(), "error")
            }
            _ => return Err(error),
        },
    };
    let valid = severity == "warning";
    let issues: Vec<Value> = issues
        .0
        .iter()
        .map(|issue| json!({"line": issue.line, "path": issue.path(), "reason": issue.reason, "severity": severity}))
        .collect();
    say!("{}", json!({"file": file, "valid": valid, "issues": issues}));
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn explain(source: &Source, endpoint: &str, set: bool, json: bool) {
    let explained = policy::explain(source, endpoint);
    let shown = explained.iter().filter(|one| !set || one.origin != policy::Origin::Default);
    if json {
        let all = shown.map(|one| {
            (one.setting.clone(), json!({"value": one.value, "from": one.origin.to_string()}))
        });
        say!("{:#}", Value::Object(all.collect()));
        return;
    }
    let mut report = table::texts(&["setting", "value", "from"]);
    for one in shown {
        let value = if one.value.is_null() {
            "(depends on the answer)".to_owned()
        } else {
            one.value.to_string()
        };
        report.add_row([one.setting.clone(), value, one.origin.to_string()]);
    }
    say!("{report}");
}

fn diff(old: &Source, new: &Source, endpoint: Option<&str>, json: bool) -> ExitCode {
    let differences = match endpoint {
        None => policy::diff(old.document(), new.document()),
        Some(endpoint) => {
            let applied = |source: &Source| {
                let all = policy::explain(source, endpoint);
                Value::Object(all.into_iter().map(|one| (one.setting, one.value)).collect())
            };
            policy::diff(&applied(old), &applied(new))
        }
    };
    if json {
        say!("{:#}", json!(differences));
    } else if differences.is_empty() {
        say!("no differences");
    } else {
        let shown =
            |value: &Value| if value.is_null() { "-".to_owned() } else { value.to_string() };
        let mut report = table::texts(&["setting", "old", "new"]);
        for one in &differences {
            report.add_row([one.path.clone(), shown(&one.old), shown(&one.new)]);
        }
        say!("{report}");
    }
    ExitCode::from(u8::from(!differences.is_empty()))
}
