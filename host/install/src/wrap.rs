//! Inserts the guard before the commands of servers.

use std::ops::Range;

use context_guard_config::guard_command;

use crate::differences;
use crate::document::Document;
use crate::edit::{Edit, apply, leading_space, line_break, line_end, line_start, quote, slice};
use crate::record::ServerRecord;
use crate::server::{Server, ServerState, StdioServer};
use crate::tree::{Node, Syntax, Value};
use crate::{Error, Result};

/// The command that starts the guard.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The path of the program.
    pub program: String,
    /// The options of `wrap`, such as `--policy` and a path.
    pub options: Vec<String>,
    /// True if `npx` and similar launchers are scripts that only `cmd` can start, as on Windows.
    pub uses_scripts: bool,
}

/// Launchers that are scripts on Windows. Clients start them by searching for `.cmd` files.
const SCRIPTS: [&str; 6] = ["npx", "npm", "pnpm", "pnpx", "yarn", "corepack"];

impl Guard {
    /// Returns the guard with the command `PROGRAM wrap --`.
    #[must_use]
    pub fn new(program: impl Into<String>) -> Self {
        Self { program: program.into(), options: Vec::new(), uses_scripts: false }
    }

    /// Returns the arguments of the guard that precede the command of a server with this program.
    fn arguments(&self, program: &str) -> Vec<String> {
        let mut arguments = vec!["wrap".to_owned()];
        arguments.extend(self.options.iter().cloned());
        arguments.push("--".to_owned());
        let name = program.rsplit(['/', '\\']).next().unwrap_or(program).to_ascii_lowercase();
        let name = name.strip_suffix(".cmd").unwrap_or(&name);
        if self.uses_scripts && SCRIPTS.contains(&name) {
            arguments.extend(["cmd".to_owned(), "/c".to_owned()]);
        }
        arguments
    }
}

/// The change that an edit makes to one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The path of the member that contains the server.
    pub container: Vec<String>,
    /// The name of the server.
    pub name: String,
    /// The line of the server in its file, counted from 1.
    pub line: usize,
    /// The command line before the edit. Empty if the edit adds the server, or the server is not a
    /// command.
    pub before: Vec<String>,
    /// The command line after the edit, or the URL of an endpoint. Empty if the edit removes the
    /// server.
    pub after: Vec<String>,
}

/// The result of an edit that is not written yet.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The new contents of the file.
    pub bytes: Vec<u8>,
    /// The changes of servers. Empty if there is nothing to do.
    pub changes: Vec<Change>,
    /// The records that [`crate::undo`] needs.
    pub servers: Vec<ServerRecord>,
    /// The servers that an endpoint replaced.
    pub removed: Vec<crate::RemovedServer>,
    /// The container and name of the endpoint that the edit adds. `None` if it adds none.
    pub added: Option<(Vec<String>, String)>,
}

/// Inserts `guard` before the command of each stdio server whose name `is_selected` accepts.
///
/// # Errors
/// [`Error::Unsupported`] if the guard's program has another name than `context-guard`.
/// [`Error::Verify`] if the result is not the intended one.
pub fn wrap(
    document: &Document,
    guard: &Guard,
    is_selected: &dyn Fn(&str) -> bool,
) -> Result<Plan> {
    if guard_command(std::slice::from_ref(&guard.program)).is_none() {
        return Err(Error::Unsupported(format!(
            "{}: name the program `context-guard`, because commands with other names are not \
             recognized as guarded",
            guard.program
        )));
    }
    let servers = document.servers();
    let selected: Vec<(&Server<'_>, &StdioServer<'_>)> = servers
        .iter()
        .filter(|server| is_selected(&server.name))
        .filter_map(|server| match &server.state {
            ServerState::Stdio(stdio) => Some((server, stdio)),
            _ => None,
        })
        .collect();
    let mut edits = Vec::new();
    let mut insertions = Vec::new();
    for (_, stdio) in &selected {
        let (own, inserted) = edits_of(document, stdio, guard);
        edits.extend(own);
        insertions.push(inserted);
    }
    let text = apply(&document.text, &edits).ok_or_else(|| Error::Verify {
        server: selected.first().map_or_else(String::new, |(server, _)| server.name.clone()),
        reason: "its members overlap".to_owned(),
    })?;
    let bytes = document.bytes(&text);
    let edited = Document::parse(document.client, &bytes)
        .map_err(|error| Error::Verify { server: "any".to_owned(), reason: error.to_string() })?;
    let after = edited.servers();
    verify_rest(document, &edited, &selected)?;
    let mut changes = Vec::new();
    let mut records = Vec::new();
    for ((server, stdio), inserted) in selected.iter().zip(insertions) {
        let verify =
            |reason: &str| Error::Verify { server: server.name.clone(), reason: reason.to_owned() };
        let found = find(&after, server).ok_or_else(|| verify("it is missing in the result"))?;
        let ServerState::Guarded(guarded) = &found.state else {
            return Err(verify("it is not guarded in the result"));
        };
        let expected: Vec<String> = [guard.program.clone()]
            .into_iter()
            .chain(guard.arguments(program_of(stdio)))
            .chain(stdio.command_line.iter().cloned())
            .collect();
        if guarded.command_line != expected {
            return Err(verify("its arguments differ in the result"));
        }
        let raw =
            |document: &Document, node: &Node| slice(&document.text, node.span.clone()).to_owned();
        records.push(ServerRecord {
            container: server.container.clone(),
            name: server.name.clone(),
            command: raw(document, &stdio.command.node),
            wrapped_command: raw(&edited, &guarded.command.node),
            args: stdio.args.map(|args| raw(document, &args.node)),
            wrapped_args: guarded.args.map_or_else(String::new, |args| raw(&edited, &args.node)),
            inserted,
        });
        changes.push(Change {
            container: server.container.clone(),
            name: server.name.clone(),
            line: server.line,
            before: stdio.command_line.clone(),
            after: guarded.command_line.clone(),
        });
    }
    Ok(Plan { bytes, changes, servers: records, removed: Vec::new(), added: None })
}

fn program_of<'a>(stdio: &'a StdioServer<'_>) -> &'a str {
    stdio.command_line.first().map_or("", String::as_str)
}

/// Returns the server with the same name and container as `wanted`. `None` if there is none.
pub(crate) fn find<'a, 'b>(
    servers: &'a [Server<'b>],
    wanted: &Server<'_>,
) -> Option<&'a Server<'b>> {
    servers.iter().find(|server| server.container == wanted.container && server.name == wanted.name)
}

/// Checks that the edit changed only the commands and arguments of the selected servers.
///
/// # Errors
/// [`Error::Verify`] with the first other difference.
fn verify_rest(
    document: &Document,
    edited: &Document,
    selected: &[(&Server<'_>, &StdioServer<'_>)],
) -> Result<()> {
    let skipped: Vec<Vec<String>> = selected
        .iter()
        .flat_map(|(server, _)| {
            ["command", "args"].map(|member| {
                let own = [server.name.clone(), member.to_owned()];
                server.container.iter().cloned().chain(own).collect()
            })
        })
        .collect();
    if differences::has_same_rest(document, edited, &skipped) {
        return Ok(());
    }
    let reason = "another part of the file changes".to_owned();
    let server = selected.first().map_or_else(String::new, |(server, _)| server.name.clone());
    Err(Error::Verify { server, reason })
}

/// Returns the edits of a server. Also returns the text of the new member `args`, or `None` if the
/// server has arguments.
fn edits_of(
    document: &Document,
    stdio: &StdioServer<'_>,
    guard: &Guard,
) -> (Vec<Edit>, Option<String>) {
    let text = document.text.as_str();
    let command = stdio.command.node.span.clone();
    let mut items: Vec<String> =
        guard.arguments(program_of(stdio)).iter().map(|one| quote(one)).collect();
    // The original literal keeps its escapes and kind of quotes.
    items.push(slice(text, command.clone()).to_owned());
    let mut edits = vec![Edit::replace(command, quote(&guard.program))];
    match stdio.args {
        Some(args) => match &args.node.value {
            Value::List(list) => {
                let at = args.node.span.start + 1;
                edits.push(Edit::insert(at, prepended(text, at, list, &items)));
            }
            // `null` is a missing list.
            _ => {
                edits.push(Edit::replace(args.node.span.clone(), format!("[{}]", items.join(", "))))
            }
        },
        None => {
            let (at, inserted) = new_args(document, stdio, &items);
            edits.push(Edit::insert(at, inserted.clone()));
            return (edits, Some(inserted));
        }
    }
    (edits, None)
}

/// Returns the text that inserts `items` before the elements of a list. `at` is the byte offset
/// after its bracket.
fn prepended(text: &str, at: usize, list: &[Node], items: &[String]) -> String {
    let Some(first) = list.first() else { return items.join(", ") };
    let space = leading_space(slice(text, at..first.span.start));
    if !space.is_empty() {
        // One item a line, or a space after the bracket: each item repeats it.
        return items.iter().map(|item| format!("{space}{item},")).collect();
    }
    let between = list.get(1).map_or(", ", |second| slice(text, first.span.end..second.span.start));
    let separator = if between == "," { "," } else { ", " };
    items.iter().map(|item| format!("{item}{separator}")).collect()
}

/// Returns the byte offset and text of a new member `args` with `items`.
fn new_args(document: &Document, stdio: &StdioServer<'_>, items: &[String]) -> (usize, String) {
    let text = document.text.as_str();
    let list = format!("[{}]", items.join(", "));
    let (key, value) = (stdio.command.key.clone(), stdio.command.node.span.clone());
    let start = line_start(text, key.start);
    let before = slice(text, start..key.start);
    match document.syntax() {
        Syntax::Json => {
            let colon = slice(text, key.end..value.start);
            let colon = if colon.trim() == ":" && !colon.contains('\n') { colon } else { ": " };
            let space = if before.trim().is_empty() && !before.is_empty() {
                format!("{}{before}", line_break(text))
            } else if slice(text, value.end..text.len()).starts_with(",\"") {
                String::new()
            } else {
                " ".to_owned()
            };
            (value.end, format!(",{space}\"args\"{colon}{list}"))
        }
        Syntax::Toml => {
            let equals = slice(text, key.end..value.start);
            let in_braces = is_in_braces(document, &key);
            let from = before.rfind(['{', ',']).filter(|_| in_braces).map_or(0, |at| at + 1);
            // Dotted keys: `files.command = …`, and the indentation of the line.
            let prefix = slice(before, from..before.len());
            if in_braces {
                return (value.end, format!(", {}args{equals}{list}", prefix.trim_start()));
            }
            // A comment may follow the command on its line.
            let at = line_end(text, value.end);
            (at, format!("{}{prefix}args{equals}{list}", line_break(text)))
        }
    }
}

/// Returns true if a key of a TOML document is in an inline table.
fn is_in_braces(document: &Document, key: &Range<usize>) -> bool {
    fn within(node: &Node, text: &str, key: &Range<usize>) -> bool {
        let contains = node.span.start < key.start && key.end <= node.span.end;
        if contains && slice(text, node.span.clone()).starts_with('{') {
            return true;
        }
        node.members().iter().any(|member| within(&member.node, text, key))
    }
    document.root.members().iter().any(|member| within(&member.node, &document.text, key))
}
