//! The lists of tools that are checked.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use context_guard::{Error, config};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::cli::install::command_line;
use crate::cli::server_process::{ServerCommand, ServerProcess};

/// A server with its tools.
#[derive(Debug)]
pub(super) struct ListedServer {
    pub(super) name: String,
    /// The definitions of the tools, verbatim.
    pub(super) tools: Vec<Box<RawValue>>,
}

/// The tools of a file, verbatim.
#[derive(Deserialize)]
struct RawList {
    result: Option<Box<RawValue>>,
    tools: Option<Vec<Box<RawValue>>>,
}

/// Reads the servers in a file. The file has one server, or a tool in each line with the name of
/// its server.
pub(super) fn read(path: &Path) -> Result<Vec<ListedServer>> {
    let failed = |source| config::Error::File { path: path.to_owned(), source };
    let is_input = path == Path::new("-");
    let text = if is_input {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(failed)?;
        text
    } else {
        std::fs::read_to_string(path).map_err(failed)?
    };
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = stem.filter(|_| !is_input).unwrap_or_else(|| "server".to_owned());
    let invalid = |reason: String| config::Error::Format { path: path.to_owned(), reason };
    if path.extension().is_some_and(|extension| extension == "jsonl") {
        return Ok(lines(&name, &text).map_err(invalid)?);
    }
    let tools = list(&text).map_err(invalid)?;
    Ok(vec![ListedServer { name, tools }])
}

fn list(text: &str) -> Result<Vec<Box<RawValue>>, String> {
    let text = text.trim();
    if text.starts_with('[') {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    let raw: RawList = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match raw {
        RawList { tools: Some(tools), .. } => Ok(tools),
        RawList { result: Some(result), .. } => list(result.get()),
        RawList { .. } => {
            Err("no list of tools: expected a result of tools/list, such as {\"tools\": []}"
                .to_owned())
        }
    }
}

/// Parses a file with a tool in each line. Ignores members that are not part of a definition.
fn lines(name: &str, text: &str) -> Result<Vec<ListedServer>, String> {
    const OTHER_MEMBERS: [&str; 4] = ["id", "server", "serverDescription", "category"];
    let mut servers: Vec<ListedServer> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |error: serde_json::Error| format!("line {}: {error}", at + 1);
        let mut members: Map<String, Value> = serde_json::from_str(line).map_err(wrong)?;
        let server = members.get("server").and_then(Value::as_str).unwrap_or(name).to_owned();
        members.retain(|name, _| !OTHER_MEMBERS.contains(&name.as_str()));
        let definition = to_raw_value(&members).map_err(wrong)?;
        let place = *places.entry(server.clone()).or_insert(servers.len());
        match servers.get_mut(place) {
            Some(known) => known.tools.push(definition),
            None => servers.push(ListedServer { name: server, tools: vec![definition] }),
        }
    }
    Ok(servers)
}

/// Starts a server, and returns its list of tools. `timeout` limits the time.
pub(super) fn start(name: &str, command: Vec<String>, timeout: Duration) -> Result<ListedServer> {
    let server = ServerCommand { command_line: command, ..ServerCommand::default() };
    let deadline = Instant::now() + timeout;
    let started = Command::try_from(&server).and_then(ServerProcess::start);
    let mut process = started.map_err(|source| Error::Spawn {
        command: server.command_line.first().cloned().unwrap_or_default(),
        source,
    })?;
    let listed = process.list_tools("context-guard tools lint", deadline);
    let errors = process.end();
    match listed {
        Ok(tools) => Ok(ListedServer { name: name.to_owned(), tools }),
        Err(reason) => {
            let last = errors.lines().rev().find(|line| !line.trim().is_empty());
            let last = last.map(|line| format!("; its last line of errors: {}", line.trim()));
            bail!(
                "the tools of `{}` cannot be listed: {reason}{}",
                command_line(&server.command_line),
                last.unwrap_or_default()
            )
        }
    }
}
