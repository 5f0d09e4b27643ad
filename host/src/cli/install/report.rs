//! The reports of `install`, for the terminal and as JSON. They contain no values of `env` and
//! `headers`.

use std::path::{Path, PathBuf};

use context_guard::config::redact_arguments;
use context_guard_install::{Change, Environment, Location};
use serde_json::{Value, json};

use super::edits::{Action, FileEdit, Outcome};
use super::gateway::GatewayPlan;
use super::program;

/// Prints the edited files that are gone, with their backups.
pub(super) fn print_missing(files: &[(PathBuf, PathBuf)], environment: &Environment) {
    for (file, backup) in files {
        let (file, backup) = (short(file, environment), short(backup, environment));
        say!("{file}: the file is gone; the file before `install` is in {backup}");
    }
}

/// Prints each file with its result, and the changes of each server.
pub(super) fn print(
    edits: &[FileEdit],
    projects: &[Location],
    action: &Action,
    environment: &Environment,
) {
    if edits.is_empty() && matches!(action, Action::Undo) {
        say!("Nothing to undo.");
    } else if edits.is_empty() && projects.is_empty() {
        say!(
            "No configuration of a client was found. Install looks for Claude Code, Claude \
             Desktop, Cursor, VS Code, Codex, Gemini CLI, Windsurf and Zed.\n\
             Give a file with --client CLIENT --file FILE."
        );
    }
    for edit in edits {
        let path = short(&edit.location.path, environment);
        say!("{}: {path}", edit.location.client.title());
        match &edit.outcome {
            Outcome::Failed(reason) => {
                say!("  failed: {}", without_path(reason, &edit.location.path));
            }
            Outcome::Plan(plan) => plan.changes.iter().for_each(print_change),
            Outcome::Undo(undone) => {
                if !undone.restored.is_empty() {
                    let how = match edit.undone_names {
                        _ if undone.is_exact => "byte for byte",
                        Some(_) => "server by server",
                        None => "server by server, because the file changed since",
                    };
                    say!("  restore {how}: {}", undone.restored.join(", "));
                }
                for (name, reason) in &undone.left {
                    say!("  not restored: {name}: {reason}");
                }
            }
        }
        for unchanged in &edit.unchanged {
            say!("  unchanged: {}: {}", unchanged.name, unchanged.reason);
        }
        let is_empty = edit.unchanged.is_empty() && !edit.is_change();
        if is_empty && !matches!(edit.outcome, Outcome::Failed(_)) {
            let is_undo = matches!(action, Action::Undo);
            say!("  {}", if is_undo { "nothing to undo" } else { "no servers to guard" });
        }
        say!("");
    }
    for location in projects {
        let path = short(&location.path, environment);
        say!(
            "{}: {path}\n  unchanged: the file of a project: add --project\n",
            location.client.title()
        );
    }
    if edits.iter().any(FileEdit::is_change)
        && let Some(warning) = warning(action)
    {
        eprintln!("context-guard: warning: {warning}");
    }
    if let Action::Gateway(gateway) = action
        && let Some(import) = gateway.import()
    {
        say!("New gateway file: {}", short(&gateway.path, environment));
        for skipped in &import.skipped {
            say!("  skipped: {skipped}");
        }
        for note in &import.notes {
            say!("  note: {note}");
        }
        say!("");
    }
}

/// Returns the warning that clients will start a program that may be removed. `None` if they do
/// not.
fn warning(action: &Action) -> Option<String> {
    let program = match action {
        Action::Wrap(guard) => Some(guard.program.as_str()),
        Action::Gateway(gateway) => gateway.own_program(),
        Action::Undo => None,
    };
    let program = program.filter(|program| program::is_temporary(program))?;
    Some(format!(
        "{program} is in a cache, which its launcher may empty: install the program, and run \
         `install` with it"
    ))
}

/// Prints the variables that the user has to set for a gateway.
fn print_variables(gateway: &GatewayPlan) {
    for (at, (name, is_in_backup)) in gateway.unset_variables().enumerate() {
        if at == 0 {
            say!("Set these variables for the gateway:");
        }
        say!("  {name}{}", if is_in_backup { ": its value is in the backup" } else { "" });
    }
}

fn print_change(change: &Change) {
    let line = |sign: char, command: &[String]| {
        if !command.is_empty() {
            say!("    {sign} {}", command_line(command));
        }
    };
    let place = match change.container.as_slice() {
        [projects, folder, _] if projects == "projects" => format!(" ({folder})"),
        _ => String::new(),
    };
    say!("  line {}: {}{place}", change.line, change.name);
    if change.before.is_empty() && change.after.is_empty() {
        say!("    - a remote server");
    }
    line('-', &change.before);
    line('+', &change.after);
}

/// Returns a command line without its secrets. Arguments with spaces are quoted.
pub(crate) fn command_line(command: &[String]) -> String {
    let quoted = redact_arguments(command).into_iter().map(|argument| {
        if argument.is_empty() || argument.contains(char::is_whitespace) {
            format!("{argument:?}")
        } else {
            argument
        }
    });
    Vec::from_iter(quoted).join(" ")
}

/// Returns a path with `~` in place of the home folder.
fn short(path: &Path, environment: &Environment) -> String {
    match path.strip_prefix(&environment.home) {
        Ok(rest) => Path::new("~").join(rest).display().to_string(),
        Err(_) => path.display().to_string(),
    }
}

/// Returns the reason of a failure without the path of the file, with which errors of files begin.
fn without_path<'r>(reason: &'r str, path: &Path) -> &'r str {
    reason.strip_prefix(&format!("{}: ", path.display())).unwrap_or(reason)
}

/// Returns the question to the user before the files are written.
pub(super) fn question(edits: &[FileEdit], action: &Action) -> String {
    let files = edits.iter().filter(|edit| edit.is_change()).count();
    let servers: usize = edits
        .iter()
        .map(|edit| match &edit.outcome {
            Outcome::Plan(plan) => {
                plan.changes.iter().filter(|change| change.line > 0).count()
                    - plan.added.iter().count()
            }
            Outcome::Undo(undone) => undone.restored.len(),
            Outcome::Failed(_) => 0,
        })
        .sum();
    let verb = match action {
        Action::Wrap(_) => "Guard",
        Action::Gateway(_) => "Replace",
        Action::Undo => "Restore",
    };
    format!("{verb} {} in {}?", count(servers, "server"), count(files, "file"))
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Prints the result of writing.
pub(super) fn print_result(edits: &[FileEdit], action: &Action, environment: &Environment) {
    let mut is_written = false;
    for edit in edits {
        let path = short(&edit.location.path, environment);
        match (&edit.outcome, &edit.backup) {
            (Outcome::Failed(reason), _) => {
                let reason = without_path(reason, &edit.location.path);
                eprintln!("context-guard: {path}: {reason}");
            }
            (_, Some(backup)) => {
                is_written = true;
                say!("Changed {path}; backup: {}", short(backup, environment));
            }
            (Outcome::Undo(undone), None) if !undone.restored.is_empty() => {
                is_written = true;
                say!("Restored {path}");
                for backup in &edit.remaining_backups {
                    say!("  the file before `install` remains in {}", short(backup, environment));
                }
            }
            _ => {}
        }
    }
    if !is_written {
        return;
    }
    match action {
        Action::Undo => say!("Restart the clients."),
        Action::Wrap(_) => {
            say!("Restart the clients. `context-guard install --undo` restores the files.");
        }
        Action::Gateway(gateway) => {
            let path = short(&gateway.path, environment);
            if gateway.is_new() {
                say!("Wrote {path}.");
            }
            print_variables(gateway);
            if !gateway.is_stdio() {
                say!("Start the gateway: context-guard serve --config {path}");
            }
            say!("Restart the clients. `context-guard install --undo` restores their files.");
        }
    }
}

/// Prints the report as one JSON object.
pub(super) fn print_json(
    edits: &[FileEdit],
    projects: &[Location],
    action: &Action,
    is_dry_run: bool,
) {
    let mut files: Vec<Value> = edits.iter().map(|edit| file_json(edit, action)).collect();
    files.extend(projects.iter().map(|location| {
        json!({
            "client": location.client.id(),
            "path": location.path,
            "status": "skipped",
            "reason": "the file of a project: add --project",
            "servers": [],
        })
    }));
    let mut report = json!({"dryRun": is_dry_run, "files": files});
    if let (Some(warning), Some(members)) = (warning(action), report.as_object_mut()) {
        members.insert("warning".to_owned(), json!(warning));
    }
    if let (Action::Gateway(gateway), Some(members)) = (action, report.as_object_mut()) {
        members.insert(
            "gateway".to_owned(),
            json!({
                "path": gateway.path,
                "isNew": gateway.is_new(),
                "variables": gateway.import().map(|import| &import.variables),
                "unset": gateway.unset_variables().map(|(name, _)| name).collect::<Vec<_>>(),
                "skipped": gateway.import().map(|import| &import.skipped),
            }),
        );
    }
    say!("{report:#}");
}

fn file_json(edit: &FileEdit, action: &Action) -> Value {
    let mut servers: Vec<Value> = Vec::new();
    match &edit.outcome {
        Outcome::Plan(plan) => servers.extend(plan.changes.iter().map(|change| {
            json!({
                "name": change.name,
                "container": change.container,
                "line": change.line,
                "action": match action {
                    Action::Wrap(_) => "guard",
                    _ if change.before.is_empty() && !change.after.is_empty() => "add",
                    _ => "remove",
                },
                "before": redact_arguments(&change.before),
                "after": redact_arguments(&change.after),
            })
        })),
        Outcome::Undo(undone) => {
            servers.extend(
                undone.restored.iter().map(|name| json!({"name": name, "action": "restore"})),
            );
            servers.extend(
                undone.left.iter().map(
                    |(name, reason)| json!({"name": name, "action": "keep", "reason": reason}),
                ),
            );
        }
        Outcome::Failed(_) => {}
    }
    servers.extend(
        edit.unchanged
            .iter()
            .map(|one| json!({"name": one.name, "action": "keep", "reason": one.reason})),
    );
    let status = match &edit.outcome {
        Outcome::Failed(_) => "failed",
        _ if edit.is_change() => "changed",
        _ => "unchanged",
    };
    let mut file = json!({
        "client": edit.location.client.id(),
        "path": edit.location.path,
        "status": status,
        "servers": servers,
    });
    if let Some(members) = file.as_object_mut() {
        if let Outcome::Failed(reason) = &edit.outcome {
            members.insert("reason".to_owned(), json!(reason));
        }
        if let Outcome::Undo(undone) = &edit.outcome {
            members.insert("isExact".to_owned(), json!(undone.is_exact));
        }
        if !edit.remaining_backups.is_empty() {
            members.insert("backups".to_owned(), json!(edit.remaining_backups));
        }
        if let Some(backup) = &edit.backup {
            members.insert("backup".to_owned(), json!(backup));
        }
    }
    file
}
