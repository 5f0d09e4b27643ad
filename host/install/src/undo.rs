//! Restores a configuration.
//!
//! A file that did not change since the edit becomes its backup, byte for byte. In another file,
//! only the edited literals change, so that the work of other programs remains.

use crate::client::Client;
use crate::document::Document;
use crate::edit::{Edit, apply, comma_after, slice};
use crate::members;
use crate::record::{RemovedServer, ServerRecord, Step, digest};
use crate::server::{Server, ServerState, StdioServer};
use crate::tables;
use crate::tree::{Syntax, Value};
use crate::{Error, Result};

/// The result of [`undo`].
#[derive(Clone, Debug)]
pub struct UndoResult {
    /// The new contents of the file.
    pub bytes: Vec<u8>,
    /// True if every edit was undone by restoring its backup. Also true if there was no edit to
    /// undo.
    pub is_exact: bool,
    /// The names of the servers that are restored.
    pub restored: Vec<String>,
    /// The names of the servers that were not restored, with the reasons.
    pub left: Vec<(String, String)>,
    /// The names in `left` that a later undo can still restore. The others are no longer guarded.
    pub unfinished: Vec<String>,
}

/// Undoes the edits in `steps`, the newest first, on `current`, the contents of a file. Restores
/// the servers in `selected`, or all if it is `None`. Also unwraps a selected server without a
/// record.
///
/// # Errors
/// [`Error::Format`] if the file can no longer be parsed. [`Error::Verify`] if the endpoint cannot
/// be removed without damage.
pub fn undo(
    client: Client,
    current: &[u8],
    steps: &[Step],
    selected: Option<&[String]>,
) -> Result<UndoResult> {
    let is_selected = |name: &str| selected.is_none_or(|names| names.iter().any(|one| one == name));
    let mut result = UndoResult {
        bytes: current.to_vec(),
        is_exact: true,
        restored: Vec::new(),
        left: Vec::new(),
        unfinished: Vec::new(),
    };
    for Step { record, backup } in steps {
        let names = record.servers.iter().map(|server| &server.name);
        let names: Vec<String> =
            names.chain(record.removed.iter().map(|server| &server.name)).cloned().collect();
        if names.iter().all(|name| is_selected(name))
            && digest(&result.bytes) == record.after
            && let Some(backup) = backup.as_ref().filter(|bytes| digest(bytes) == record.before)
        {
            result.bytes.clone_from(backup);
            result.restored.extend(names);
            continue;
        }
        result.is_exact = false;
        for server in record.servers.iter().filter(|server| is_selected(&server.name)) {
            let restored = restore_server(client, &result.bytes, server)?;
            result.note(&server.name, restored);
        }
        if record.removed.iter().any(|server| is_selected(&server.name)) {
            let added = record.added.as_ref();
            let (bytes, left) = restore_removed(client, &result.bytes, &record.removed, added)?;
            result.bytes = bytes;
            let is_left = |name: &String| left.iter().any(|(one, _)| one == name);
            let restored = record.removed.iter().map(|server| server.name.clone());
            result.restored.extend(restored.filter(|name| !is_left(name)));
            result.left.extend(left);
        }
    }
    for name in selected.unwrap_or_default() {
        while let Some(server) = recorded(client, &result.bytes, name)? {
            let restored = restore_server(client, &result.bytes, &server)?;
            result.is_exact = false;
            if restored.is_err() {
                result.note(name, restored);
                break;
            }
            result.note(name, restored);
        }
    }
    let mut unique = Vec::new();
    for name in std::mem::take(&mut result.restored) {
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    result.restored = unique;
    result.unfinished = unfinished(client, &result, steps)?;
    Ok(result)
}

/// Returns the names of the servers in `result.left` that are still guarded, or that an endpoint
/// replaced.
fn unfinished(client: Client, result: &UndoResult, steps: &[Step]) -> Result<Vec<String>> {
    if result.left.is_empty() {
        return Ok(Vec::new());
    }
    let document = Document::parse(client, &result.bytes)?;
    let servers = document.servers();
    let is_guarded = |name: &str| {
        let mut own = servers.iter().filter(|server| server.name == name);
        own.any(|server| matches!(server.state, ServerState::Guarded(_)))
    };
    let is_removed = |name: &str| {
        steps.iter().flat_map(|step| &step.record.removed).any(|server| server.name == name)
    };
    let names = result.left.iter().map(|(name, _)| name);
    Ok(names.filter(|name| is_guarded(name) || is_removed(name)).cloned().collect())
}

impl UndoResult {
    fn note(&mut self, name: &str, restored: std::result::Result<Vec<u8>, String>) {
        match restored {
            Ok(bytes) => {
                self.bytes = bytes;
                self.restored.push(name.to_owned());
            }
            Err(reason) => self.left.push((name.to_owned(), reason)),
        }
    }
}

/// Creates a record for a guarded server that has none. `None` if there is no such server.
fn recorded(client: Client, bytes: &[u8], name: &str) -> Result<Option<ServerRecord>> {
    let document = Document::parse(client, bytes)?;
    let servers = document.servers();
    let found = servers
        .iter()
        .find(|server| server.name == name && matches!(server.state, ServerState::Guarded(_)));
    Ok(found.map(|server| ServerRecord {
        container: server.container.clone(),
        name: server.name.clone(),
        command: String::new(),
        wrapped_command: String::new(),
        args: Some(String::new()),
        wrapped_args: String::new(),
        inserted: None,
    }))
}

/// Restores one server. Returns the new contents, or the reason if the server differs from the
/// result of the edit.
fn restore_server(
    client: Client,
    bytes: &[u8],
    record: &ServerRecord,
) -> Result<std::result::Result<Vec<u8>, String>> {
    let document = Document::parse(client, bytes)?;
    let servers = document.servers();
    let is_same =
        |server: &&Server<'_>| server.container == record.container && server.name == record.name;
    let Some(server) = servers.iter().find(is_same) else {
        return Ok(Err("it is not in the file any more".to_owned()));
    };
    let ServerState::Guarded(guarded) = &server.state else {
        return Ok(Err("it is not guarded any more".to_owned()));
    };
    let edits = match restored_literals(&document, guarded, record) {
        Some(edits) => edits,
        None => match unwrapped(&document, guarded, record) {
            Some(edits) => edits,
            None => return Ok(Err("its command has another form now".to_owned())),
        },
    };
    let text = apply(&document.text, &edits);
    let Some(text) = text else { return Ok(Err("its members overlap".to_owned())) };
    let bytes = document.bytes(&text);
    Ok(match Document::parse(client, &bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(format!("the result is invalid: {error}")),
    })
}

/// Returns the edits that restore the original literals. Returns `None` if the literals changed
/// since the edit.
fn restored_literals(
    document: &Document,
    guarded: &StdioServer<'_>,
    record: &ServerRecord,
) -> Option<Vec<Edit>> {
    let text = document.text.as_str();
    let (command, args) = (&guarded.command.node, &guarded.args?.node);
    let is_unchanged = slice(text, command.span.clone()) == record.wrapped_command
        && slice(text, args.span.clone()) == record.wrapped_args;
    if !is_unchanged {
        return None;
    }
    let command = Edit::replace(command.span.clone(), record.command.clone());
    let args = match (&record.args, &record.inserted) {
        (Some(args), _) => Edit::replace(guarded.args?.node.span.clone(), args.clone()),
        (None, Some(inserted)) => {
            let start = args.span.end.checked_sub(inserted.len())?;
            (slice(text, start..args.span.end) == inserted).then_some(())?;
            Edit::replace(start..args.span.end, "")
        }
        (None, None) => return None,
    };
    Some(vec![command, args])
}

/// Returns the edits that remove the guard from a command in any layout.
fn unwrapped(
    document: &Document,
    guarded: &StdioServer<'_>,
    record: &ServerRecord,
) -> Option<Vec<Edit>> {
    let text = document.text.as_str();
    let args = &guarded.args?.node;
    let Value::List(list) = &args.value else { return None };
    // The program is the guard itself, so the server's command follows the first `--`.
    let is_direct = context_guard_config::guard_command(guarded.command_line.get(..1)?).is_some();
    let end = list.iter().position(|argument| argument.text() == Some("--"));
    let program_at = end.filter(|_| is_direct)? + 1;
    let program = list.get(program_at)?;
    let literal = slice(text, program.span.clone()).to_owned();
    program.text()?;
    let mut edits = vec![Edit::replace(guarded.command.node.span.clone(), literal)];
    match list.get(program_at + 1) {
        Some(next) => {
            let first = list.first()?.span.start;
            edits.push(Edit::replace(first..next.span.start, ""));
        }
        None if record.args.is_none() && document.syntax() == Syntax::Json => {
            edits.push(members::remove(document, guarded.args?)?);
        }
        None => {
            let syntax = document.syntax();
            let end = comma_after(syntax, text, program.span.end)
                .map_or(program.span.end, |comma| comma + 1);
            edits.push(Edit::replace(list.first()?.span.start..end, ""));
        }
    }
    Some(edits)
}

/// Returns the text of a server, without white space around it. `None` if it has no text of its
/// own.
fn text_of(document: &Document, server: &Server<'_>) -> Option<String> {
    let text = match document.syntax() {
        Syntax::Json => slice(&document.text, server.member.node.span.clone()).to_owned(),
        Syntax::Toml => {
            let path: Vec<String> =
                server.container.iter().chain([&server.name]).cloned().collect();
            tables::text_of(document, &path)?
        }
    };
    Some(text.trim().to_owned())
}

/// Adds the servers that an endpoint replaced, and removes the endpoint. A server that is in the
/// file as it was counts as restored. Returns the new contents, and the servers that were not
/// restored, with the reasons.
#[allow(clippy::type_complexity, reason = "the bytes, and the servers that are left out")]
fn restore_removed(
    client: Client,
    bytes: &[u8],
    removed: &[RemovedServer],
    added: Option<&(Vec<String>, String)>,
) -> Result<(Vec<u8>, Vec<(String, String)>)> {
    let mut bytes = bytes.to_vec();
    let mut left = Vec::new();
    for server in removed {
        let document = Document::parse(client, &bytes)?;
        let servers = document.servers();
        let existing =
            servers.iter().find(|one| one.container == server.container && one.name == server.name);
        if let Some(existing) = existing {
            // An undo of another server, or the user, has restored it.
            if text_of(&document, existing).as_deref() == Some(server.text.trim()) {
                continue;
            }
            let reason = "another server has its name now".to_owned();
            left.push((server.name.clone(), reason));
            continue;
        }
        let inserted = members::insert(&document, &server.container, &server.name, &server.text);
        match inserted.filter(|text| Document::parse(client, &document.bytes(text)).is_ok()) {
            Some(text) => bytes = document.bytes(&text),
            None => left.push((server.name.clone(), "its place is gone".to_owned())),
        }
    }
    if let Some((container, name)) = added {
        let document = Document::parse(client, &bytes)?;
        let path: Vec<String> = container.iter().chain([name]).cloned().collect();
        if let Some(text) = members::without(&document, &[path]) {
            let edited = document.bytes(&text);
            Document::parse(client, &edited).map_err(|error| Error::Verify {
                server: name.clone(),
                reason: error.to_string(),
            })?;
            bytes = edited;
        }
    }
    Ok((bytes, left))
}
