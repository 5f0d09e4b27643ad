//! `context-guard tools`: checks the definitions of tools.

mod input;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use context_guard::clock::SystemClock;
use context_guard::engine::CallContext;
use context_guard::filter::Request;
use context_guard::{answer, keys};
use serde::Deserialize;
use serde_json::{Value, json};

use self::input::ListedServer;
use self::report::{DefinitionReport, Level};
use super::{GuardOptions, UsageError};

const AFTER_HELP: &str = "\
Examples:
  context-guard tools lint -- npx -y my-mcp-server          start a server and check its list
  context-guard tools lint tools.json                       check a saved result of tools/list
  context-guard tools lint others/*.json -- node server.js  compare a server with others, too
  context-guard tools lint --strict --allow refused-name tools.json

Each FILE is one server, named like the file: a result of tools/list, with or without its JSON-RPC
envelope, or a list of tools. A .jsonl file has a tool in each line; its member `server` names the
server of the tool.

Rules and levels:
  error    invalid-definition, invalid-name, duplicate-name, missing-description, missing-schema,
           invalid-schema, long-definition (above 4000 tokens), hidden-characters,
           overrides-instructions, hides-from-user, pseudo-tag
  warning  refused-name, name-as-description, duplicate-description, long-definition (above 1000
           tokens), near-twin (80 % of the words of a tool of another server), names-secret-file,
           prefers-itself
  note     undescribed-parameters, unannotated-tools, long-list, no-tools

In the CI of a server:
  - run: context-guard tools lint -- node dist/index.js

Exit codes: 0 without errors; 1 with an error, with --strict also with a warning, and if a server
cannot be started; 2 for an invalid command line; 3 for an invalid file.";

/// Check the definitions of tools.
#[derive(Args)]
pub(crate) struct Tools {
    #[command(subcommand)]
    command: ToolsCommand,
}

#[derive(Subcommand)]
enum ToolsCommand {
    /// Report what clients refuse, models misread or tokens are wasted on in the list of a server's
    /// tools.
    Lint(Lint),
}

#[derive(Args)]
#[command(after_help = AFTER_HELP)]
struct Lint {
    #[command(flatten)]
    guard: GuardOptions,
    /// Results of tools/list. `-` reads one from standard input.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The command line of a server, which is started and asked for its tools.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// The name of the server that COMMAND starts.
    #[arg(long, value_name = "NAME", default_value = "server", requires = "command")]
    name: String,
    /// The time that the server has to list its tools, in seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(1..=600),
        requires = "command"
    )]
    timeout: u64,
    /// Ignore the findings of a rule. Can be repeated.
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// Report notes, too.
    #[arg(long)]
    notes: bool,
    /// Exit with 1 if there is a warning, too.
    #[arg(long)]
    strict: bool,
    /// Print JSON: {"errors", "warnings", "notes", "servers": [{"server", "tools", "tokens"}],
    /// "findings": [{"level", "rule", "server", "tool", "message"}]}. It has all notes.
    #[arg(long)]
    json: bool,
}

/// The guard's answer to a request to check definitions.
#[derive(Deserialize)]
struct LintAnswer {
    result: Checked,
}

#[derive(Deserialize)]
struct Checked {
    #[serde(flatten)]
    report: DefinitionReport,
    rules: Vec<String>,
}

impl Tools {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let ToolsCommand::Lint(lint) = self.command;
        lint.run()
    }
}

impl Lint {
    fn run(self) -> Result<ExitCode> {
        if self.files.is_empty() && self.command.is_empty() {
            let reason = "nothing to check: name a FILE with a result of tools/list, or a server's command after `--`";
            return Err(UsageError(reason.to_owned()).into());
        }
        let mut servers = Vec::new();
        for file in &self.files {
            servers.extend(input::read(file)?);
        }
        if !self.command.is_empty() {
            let timeout = Duration::from_secs(self.timeout);
            servers.push(input::start(&self.name, self.command.clone(), timeout)?);
        }
        let Checked { mut report, rules } = self.check(&servers)?;
        if let Some(unknown) = self.allow.iter().find(|rule| !rules.contains(rule)) {
            let reason =
                format!("--allow {unknown}: no such rule; the rules are {}", rules.join(", "));
            return Err(UsageError(reason).into());
        }
        report.findings.retain(|finding| !self.allow.contains(&finding.rule));
        if self.json {
            report.print_json();
        } else {
            report.print_text(self.notes);
        }
        let least = if self.strict { Level::Warning } else { Level::Error };
        let fails = report.findings.iter().any(|finding| finding.level >= least);
        Ok(ExitCode::from(u8::from(fails)))
    }

    /// Checks the lists with the guard, which also estimates their tokens as for clients.
    fn check(&self, servers: &[ListedServer]) -> Result<Checked> {
        let filter = self.guard.build(vec![keys::random()?], Arc::new(SystemClock))?;
        let servers: Vec<Value> = servers
            .iter()
            .map(|server| json!({"name": server.name, "tools": server.tools}))
            .collect();
        let request = json!({
            "jsonrpc": "2.0", "id": 1, "method": "context-guard/lint",
            "params": {"servers": servers},
        });
        let cx = CallContext {
            principal: "local".to_owned(),
            request_id: "1".to_owned(),
            // Only requests of hosts have a version.
            catalog_version: Some("lint".to_owned()),
            ..CallContext::default()
        };
        match filter.request_uncached(&cx, request.to_string().as_bytes()) {
            Request::Answer(message, ..) => match serde_json::from_slice(&message) {
                Ok(LintAnswer { result }) => Ok(result),
                Err(_) => anyhow::bail!(
                    "the guard cannot check these definitions: {}",
                    answer::content(&message).concat()
                ),
            },
            Request::Forward(..) => {
                anyhow::bail!("the guard component is too old to check definitions of tools")
            }
        }
    }
}
