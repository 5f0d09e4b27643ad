//! Checks of the clients' configurations and of the commands in them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use context_guard_install::{
    Client, Document, Environment, Scope, ServerState, StdioServer, find_files, read_file,
};

use super::expand::expand;
use super::probe::FoundServer;
use super::{Check, gateway, machine};
use crate::cli::server_process::ServerCommand;

/// The place of a server's definition.
struct Place<'a> {
    client: Client,
    file: &'a Path,
    /// The folder of the project in which Claude Code starts the server.
    project: Option<&'a Path>,
}

/// Checks the files of clients. Adds the results to `checks`. Returns the enabled servers whose
/// commands exist.
pub(super) fn checks(
    environment: &Environment,
    clients: &[Client],
    checks: &mut Vec<Check>,
) -> Vec<FoundServer> {
    let clients = if clients.is_empty() { &Client::ALL } else { clients };
    let locations = find_files(environment, clients);
    if locations.is_empty() {
        let message = "no configuration of a client was found";
        checks.push(Check::skipped("client", "clients", message));
    }
    let mut found = Vec::new();
    let roots = [environment.home.as_path(), environment.project.as_path()];
    for location in locations {
        let client = location.client;
        let subject = format!("{}: {}", client.id(), location.path.display());
        let is_settings = location.path.ends_with("settings.json");
        let state = match read_file(&location.path, &roots) {
            Ok(state) => state,
            Err(error) => {
                checks.push(
                    Check::failed("file", subject, without_path(&error, &location.path))
                        .advise("make the file readable for this user, and put the file itself in the home folder"),
                );
                continue;
            }
        };
        let document = match Document::parse(client, &state.bytes) {
            Ok(document) => document,
            Err(_) if is_settings && !Document::may_have_servers(client, &state.bytes) => continue,
            Err(error) => {
                checks.push(
                    Check::failed("file", subject, error.to_string())
                        .advise("correct the file: the client cannot read it either"),
                );
                continue;
            }
        };
        let servers = document.servers();
        if servers.is_empty() && is_settings {
            continue;
        }
        checks.push(file(&location.path, &subject, location.scope, servers.len(), &document));
        for server in &servers {
            let project = match server.container.as_slice() {
                [projects, folder, _] if projects == "projects" => Some(Path::new(folder)),
                _ => None,
            };
            let subject = match project {
                Some(folder) => {
                    format!("{}: {}: {}", client.id(), folder.display(), server.name)
                }
                None => format!("{}: {}", client.id(), server.name),
            };
            let place = Place { client, file: &location.path, project };
            match &server.state {
                _ if server.is_disabled => {
                    checks.push(Check::skipped("server", subject, "disabled"));
                }
                ServerState::Stdio(stdio) => {
                    checks.push(
                        Check::warning("guard", subject.as_str(), "not guarded")
                            .advise("context-guard install"),
                    );
                    found.extend(command(subject, stdio, &place, checks));
                }
                ServerState::Guarded(stdio) | ServerState::Gateway(stdio) => {
                    found.extend(command(subject, stdio, &place, checks));
                }
                ServerState::Remote => {
                    let url = server.url.as_deref().filter(|_| server.name == "context-guard");
                    checks.push(
                        url.and_then(|url| gateway::endpoint(&subject, url)).unwrap_or_else(|| {
                            Check::skipped("server", subject, "remote: not started")
                        }),
                    );
                }
                ServerState::Unsupported(reason) => {
                    checks.push(Check::warning("server", subject, reason.as_str()));
                }
            }
        }
    }
    found
}

/// Checks that only the owner can read a file with the environment of servers.
fn file(path: &Path, subject: &str, scope: Scope, servers: usize, document: &Document) -> Check {
    let has_environment = document.servers().iter().any(|server| match &server.state {
        ServerState::Stdio(stdio) | ServerState::Guarded(stdio) => !stdio.environment.is_empty(),
        _ => false,
    });
    match machine::others_may(path).filter(|_| scope == Scope::User && has_environment) {
        Some(mode) => {
            let message = format!("others can read the `env` of its servers (mode {mode:o})");
            Check::warning("file", subject, message).advise(format!("chmod 600 {}", path.display()))
        }
        None => Check::ok("file", subject, super::count(servers, "server")),
    }
}

/// Checks that the programs of a server exist. Returns the server if it can be started, otherwise
/// `None`.
fn command(
    subject: String,
    stdio: &StdioServer<'_>,
    place: &Place<'_>,
    checks: &mut Vec<Check>,
) -> Option<FoundServer> {
    let Place { client, file, project } = *place;
    let expand = |text: &str| expand(client, text, file);
    let mut expanded = Vec::new();
    for (_, value) in &stdio.environment {
        expanded.push(value.clone());
    }
    let texts = stdio.command_line.iter().chain(&expanded).chain(&stdio.folder);
    let unknown: Vec<String> = texts.filter_map(|text| expand(text).err()).collect();
    if let Some(reference) = unknown.first() {
        let message = format!("not started: only the client knows the value of `{reference}`");
        checks.push(Check::skipped("server", subject, message));
        return None;
    }
    let value = |text: &String| expand(text).unwrap_or_default();
    let command_line: Vec<String> = stdio.command_line.iter().map(value).collect();
    let environment: Vec<(String, String)> =
        stdio.environment.iter().map(|(name, text)| (name.clone(), value(text))).collect();
    let folder = stdio.folder.as_ref().map(|text| PathBuf::from(value(text)));
    let folder = folder.or_else(|| project.map(Path::to_owned));
    if let Some(folder) = folder.as_ref().filter(|folder| !folder.is_dir()) {
        let message = format!("its folder {} does not exist", folder.display());
        let advice = format!("create the folder, or change it in {}", file.display());
        checks.push(Check::failed("command", subject, message).advise(advice));
        return None;
    }
    let path = environment.iter().find(|(name, _)| name == "PATH");
    let path = path.map(|(_, path)| OsString::from(path)).or_else(|| std::env::var_os("PATH"));
    let base = folder.clone().or_else(|| std::env::current_dir().ok())?;
    let exists = |program: &str| which::which_in(program, path.as_ref(), &base).is_ok();
    let program = command_line.first()?;
    let inner = context_guard::config::guarded_command(&command_line);
    let inner = inner.and_then(<[String]>::first).map(String::as_str);
    let is_guard_missing = inner.is_some() && !exists(program);
    let missing = [Some(program.as_str()), inner];
    let missing = missing.into_iter().flatten().find(|program| !exists(program));
    if let Some(missing) = missing {
        let message = format!("the program `{missing}` does not exist or is not on PATH");
        checks.push(Check::failed("command", subject, message).advise(if is_guard_missing {
            "run `context-guard install --undo`, and `context-guard install` again".to_owned()
        } else if missing.starts_with("~/") {
            format!("write the whole path in {}: clients do not replace `~`", file.display())
        } else {
            format!("install {missing}, or write its absolute path in {}", file.display())
        }));
        return None;
    }
    let server = ServerCommand { command_line, environment, folder };
    let command = Command::try_from(&server).ok()?;
    Some(FoundServer { subject, command_line: server.command_line, command })
}

/// Returns the text of an error without the path of the file, which the subject has.
fn without_path(error: &context_guard_install::Error, path: &Path) -> String {
    let text = error.to_string();
    text.strip_prefix(&format!("{}: ", path.display())).map_or(text.clone(), str::to_owned)
}
