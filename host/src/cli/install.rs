//! `context-guard install`: puts the guard before the servers of MCP clients, and undoes it.

mod edits;
mod gateway;
pub(crate) mod program;
mod report;

use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use context_guard::config;
use context_guard_install::{Client, Environment, Journal, Location, Scope, find_files};

use self::edits::{Action, FileEdit};
pub(crate) use self::report::command_line;
use super::{GuardOptions, UsageError};

const AFTER_HELP: &str = "\
Examples:
  context-guard install --dry-run                     show what would change
  context-guard install                               guard the servers of all clients, after a question
  context-guard install --client cursor --server files --yes
  context-guard install --client claude-desktop --gateway gateway.yaml --stdio
  context-guard install --undo                        restore all files, also those of projects

Clients: claude-code, claude-desktop, cursor, vscode, codex, gemini-cli, windsurf, zed.

The file of a project is shared with others, so it changes with --project only.
Backups and the records for --undo are in the folder `install` of the state folder,
$XDG_STATE_HOME/context-guard or ~/.local/state/context-guard, on Windows
%LOCALAPPDATA%\\context-guard. A backup remains if --undo cannot restore its bytes.";

/// Guard the MCP servers of your clients: put `context-guard wrap --` before their commands.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Install {
    /// Change the configuration of this client only. Can be repeated.
    #[arg(long, value_name = "CLIENT", value_parser = client)]
    client: Vec<Client>,
    /// Change servers of this name only. Can be repeated.
    #[arg(long, value_name = "NAME")]
    server: Vec<String>,
    /// Change the files of the current project, too: .mcp.json, .vscode/mcp.json and so on.
    #[arg(long, conflicts_with = "file")]
    project: bool,
    /// Change this file of the client that --client names, instead of those that are found.
    #[arg(long, value_name = "FILE", requires = "client")]
    file: Option<PathBuf>,
    /// Guard the servers under this policy: `wrap --policy FILE`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["gateway", "undo"])]
    policy: Option<PathBuf>,
    /// Put the endpoint of this gateway in place of all servers that it has. If the file does not
    /// exist, it is written from the servers of the clients.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["undo", "server"])]
    gateway: Option<PathBuf>,
    /// Let the client start the gateway over stdio, instead of connecting to `serve`.
    #[arg(long, requires = "gateway")]
    stdio: bool,
    /// Restore the files as they were before `install`.
    #[arg(long)]
    undo: bool,
    /// Show the changes, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Write without a question.
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn client(id: &str) -> Result<Client, String> {
    Client::from_id(id).ok_or_else(|| {
        let ids = Client::ALL.map(Client::id).join(", ");
        format!("unknown client: expected one of {ids}")
    })
}

impl Install {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let project = std::env::current_dir().context("the current folder cannot be read")?;
        let environment = Environment::current(project)
            .context("the home folder is unknown: set the variable HOME")?;
        let journal = Journal::new(config::state_folder()?.join("install"));
        let locations = self.locations(&environment, &journal)?;
        let (selected, projects): (Vec<Location>, Vec<Location>) = locations
            .into_iter()
            .partition(|location| self.project || self.undo || location.scope == Scope::User);
        let mut action = self.action(&selected)?;
        let roots = [environment.home.as_path(), environment.project.as_path()];
        let plan = |location: Location, action: &Action| {
            FileEdit::plan(location, action, &self.server, &roots, &journal)
        };
        let mut edits: Vec<FileEdit> = selected
            .into_iter()
            .map(|location| plan(location, &action))
            .filter(|edit| !edit.is_unrelated())
            .collect();
        self.check_server_names(&edits)?;
        let is_changed = edits.iter().any(FileEdit::is_change);
        if is_changed && action.writes_gateway() && edits.iter().any(FileEdit::is_failed) {
            // The servers of the other files remain where they are, and not in the gateway file.
            let usable = edits.iter().filter(|edit| !edit.is_failed());
            let usable: Vec<Location> = usable.map(|edit| edit.location.clone()).collect();
            action = self.action(&usable)?;
            for edit in edits.iter_mut().filter(|edit| !edit.is_failed()) {
                *edit = plan(edit.location.clone(), &action);
            }
        }
        if !self.json {
            if self.undo {
                report::print_missing(&journal.missing_files(), &environment);
            }
            report::print(&edits, &projects, &action, &environment);
        }
        if self.dry_run || !is_changed {
            if self.json {
                report::print_json(&edits, &projects, &action, self.dry_run);
            } else if self.dry_run && is_changed {
                say!("Nothing was written: --dry-run.");
            }
            return Ok(exit_code(&edits));
        }
        if !self.yes && !confirm(&report::question(&edits, &action), self.json)? {
            say!("Nothing was written.");
            return Ok(exit_code(&edits));
        }
        action.write_gateway()?;
        let mut written = Vec::new();
        let mut results = Vec::new();
        for mut edit in edits {
            // Several clients may link to one file.
            if edit.target().is_some_and(|target| written.contains(target)) {
                edit = plan(edit.location, &action);
            }
            written.extend(edit.target().cloned());
            results.push(write(edit, &journal));
        }
        let edits = results;
        if self.json {
            report::print_json(&edits, &projects, &action, false);
        } else {
            report::print_result(&edits, &action, &environment);
        }
        Ok(exit_code(&edits))
    }

    /// Returns the files to change.
    fn locations(&self, environment: &Environment, journal: &Journal) -> Result<Vec<Location>> {
        let clients = match self.client.as_slice() {
            [] => Client::ALL.to_vec(),
            named => named.to_vec(),
        };
        if let Some(file) = &self.file {
            let [client] = clients.as_slice() else {
                bail!(UsageError("--file needs exactly one --client".to_owned()));
            };
            let path = std::path::absolute(file)?;
            return Ok(vec![Location { client: *client, path, scope: Scope::User }]);
        }
        let mut locations = find_files(environment, &clients);
        if self.undo {
            add_edited(&mut locations, &clients, journal);
            return Ok(locations);
        }
        for client in &self.client {
            let is_found = locations.iter().any(|location| {
                location.client == *client && (self.project || location.scope == Scope::User)
            });
            if !is_found {
                bail!(
                    "no user configuration of {} was found: start it once and add a server, or pass \
                     --file",
                    client.title()
                );
            }
        }
        Ok(locations)
    }

    fn action(&self, locations: &[Location]) -> Result<Action> {
        if self.undo {
            return Ok(Action::Undo);
        }
        let program = program::own_path()?;
        if let Some(file) = &self.gateway {
            let plan = gateway::plan(file, self.stdio, program, locations)?;
            return Ok(Action::Gateway(Box::new(plan)));
        }
        let mut guard = context_guard_install::Guard::new(program);
        guard.uses_scripts = cfg!(windows);
        if let Some(policy) = &self.policy {
            let component = std::env::var_os("CONTEXT_GUARD_COMPONENT").map(PathBuf::from);
            let options = GuardOptions { policy: Some(policy.clone()), component };
            options.check()?;
            let path = std::path::absolute(policy)?;
            let path = path.to_str().context("the path of the policy is not UTF-8")?;
            guard.options = vec!["--policy".to_owned(), path.to_owned()];
        }
        Ok(Action::Wrap(guard))
    }

    /// Fails if `--server` names a server that no file has.
    fn check_server_names(&self, edits: &[FileEdit]) -> Result<()> {
        for name in &self.server {
            if !edits.iter().any(|edit| edit.names.contains(name)) {
                let mut known: Vec<&str> =
                    edits.iter().flat_map(|edit| &edit.names).map(String::as_str).collect();
                known.sort_unstable();
                known.dedup();
                bail!(
                    "no client has the server \"{name}\": known servers are {}",
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                );
            }
        }
        Ok(())
    }
}

/// Adds the files that were edited before, including those of other projects. Removes project files
/// that were not edited.
fn add_edited(locations: &mut Vec<Location>, clients: &[Client], journal: &Journal) {
    let edited = journal.files();
    let is_edited = |path: &std::path::Path| {
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        edited.iter().any(|(_, edited)| *edited == target)
    };
    locations.retain(|location| location.scope == Scope::User || is_edited(&location.path));
    for (client, path) in &edited {
        let is_known = locations
            .iter()
            .any(|location| location.path.canonicalize().is_ok_and(|target| target == *path));
        // The backup of a file that is gone remains in the state folder.
        if !is_known && clients.contains(client) && path.is_file() {
            let (client, path) = (*client, path.clone());
            locations.push(Location { client, path, scope: Scope::User });
        }
    }
}

/// Asks the user on the terminal. Returns true if the user agrees.
///
/// # Errors
/// There is no terminal, or the report is JSON.
fn confirm(question: &str, is_json: bool) -> Result<bool> {
    if is_json || !std::io::stdin().is_terminal() {
        bail!(UsageError(
            "nothing was written: there is no terminal to ask on; add --yes to write, or \
             --dry-run to see the changes"
                .to_owned()
        ));
    }
    eprint!("{question} [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Writes an edit: first the record for `--undo`, then the file. Returns the edit with its outcome.
fn write(mut edit: FileEdit, journal: &Journal) -> FileEdit {
    let Some(state) = edit.state.take().filter(|_| edit.is_change()) else { return edit };
    let seconds =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    let written = match &edit.outcome {
        edits::Outcome::Plan(plan) => journal
            .apply(edit.location.client, &state, plan, seconds)
            .map(|backup| edit.backup = Some(backup)),
        edits::Outcome::Undo(undone) => journal
            .restore(&state, undone, edit.undone_names.as_deref())
            .map(|backups| edit.remaining_backups = backups),
        edits::Outcome::Failed(_) => Ok(()),
    };
    if let Err(error) = written {
        edit.outcome = edits::Outcome::Failed(error.to_string());
    }
    edit
}

fn exit_code(edits: &[FileEdit]) -> ExitCode {
    if edits.iter().any(FileEdit::is_failed) { ExitCode::from(3) } else { ExitCode::SUCCESS }
}
