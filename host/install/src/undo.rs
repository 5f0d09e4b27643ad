//! Restores a configuration.
//!
//! A file that did not change since the edit becomes its backup, byte for byte. In another file,
//! only the edited literals change, so that the work of other programs remains.

use crate::client::Client;
use crate::differences;
use crate::document::Document;
use crate::edit::{Edit, apply, comma_after, quote, slice};
use crate::members;
use crate::record::{RemovedServer, ServerRecord, Step, digest};
use crate::server::{Server, ServerState, StdioServer};
use crate::tables;
use crate::tree::{self, Node, Syntax, Value};
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
/// [`Error::Format`] if the file can no longer be parsed. [`Error::Unsupported`] if the endpoint
/// cannot be removed without damage.
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
        let selected = record.servers.iter().filter(|server| is_selected(&server.name));
        result.restore(client, &selected.collect::<Vec<_>>())?;
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
            result.is_exact = false;
            if !result.restore(client, &[&server])? {
                break;
            }
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
    /// Restores guarded servers. Adds those that differ from the result of the edit to `left`, with
    /// the reasons. Returns true if all are restored.
    fn restore(&mut self, client: Client, records: &[&ServerRecord]) -> Result<bool> {
        let document = Document::parse(client, &self.bytes)?;
        let servers = document.servers();
        let (mut edits, mut restored, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        let left_before = self.left.len();
        for record in records {
            match edits_of(&document, &servers, record) {
                Ok(own) => {
                    edits.extend(own);
                    restored.push(record.name.clone());
                    skipped.extend(["command", "args"].map(|member| {
                        let own = [record.name.clone(), member.to_owned()];
                        record.container.iter().cloned().chain(own).collect::<Vec<String>>()
                    }));
                }
                Err(reason) => self.left.push((record.name.clone(), reason.to_owned())),
            }
        }
        // All at once, because parsing a large file takes a while.
        let bytes = apply(&document.text, &edits).map(|text| document.bytes(&text));
        let is_valid = |bytes: &Vec<u8>| {
            let result = Document::parse(client, bytes);
            result.is_ok_and(|result| differences::has_same_rest(&document, &result, &skipped))
        };
        match bytes.filter(is_valid) {
            Some(bytes) => {
                self.bytes = bytes;
                self.restored.extend(restored);
            }
            None if records.len() > 1 => {
                self.left.truncate(left_before);
                for record in records {
                    self.restore(client, &[record])?;
                }
            }
            None => {
                let reason = "another part of the file would change";
                self.left.extend(restored.into_iter().map(|name| (name, reason.to_owned())));
            }
        }
        Ok(self.left.len() == left_before)
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

/// Returns the edits that restore one server, or the reason if the server differs from the result
/// of the edit.
fn edits_of(
    document: &Document,
    servers: &[Server<'_>],
    record: &ServerRecord,
) -> std::result::Result<Vec<Edit>, &'static str> {
    let is_same =
        |server: &&Server<'_>| server.container == record.container && server.name == record.name;
    let server = servers.iter().find(is_same).ok_or("it is not in the file any more")?;
    let ServerState::Guarded(guarded) = &server.state else {
        return Err("it is not guarded any more");
    };
    restored_literals(document, guarded, record)
        .or_else(|| unwrapped(document, guarded, record))
        .ok_or("its command has another form now: remove the guard from it by hand")
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
    let inner = guarded.guarded_command()?;
    // `install` on Windows adds `cmd /c`.
    let added = match inner {
        [shell, flag, program, ..] if shell == "cmd" && flag == "/c" => {
            let is_own = record.command.contains(&quote(program)) && program != "cmd";
            if is_own { 2 } else { 0 }
        }
        _ => 0,
    };
    // The list lacks the first word of the command line.
    let program_at = guarded.command_line.len().checked_sub(inner.len() + 1)? + added;
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
            let is_same = |node: Node| differences::are_equal(&node, &existing.member.node);
            if removed_node(client, server).is_some_and(is_same) {
                continue;
            }
            let reason = "another server has its name now".to_owned();
            left.push((server.name.clone(), reason));
            continue;
        }
        match restored_document(&document, server) {
            Some(restored) => bytes = restored,
            None => {
                let reason = "its place in the file is gone: copy it from the backup";
                left.push((server.name.clone(), reason.to_owned()));
            }
        }
    }
    if let Some((container, name)) = added {
        let document = Document::parse(client, &bytes)?;
        let path: Vec<String> = container.iter().chain([name]).cloned().collect();
        if document.root.descendant(&path).is_some() {
            bytes = without_endpoint(&document, path).ok_or_else(|| {
                Error::Unsupported(format!(
                    "the server \"{name}\" cannot be removed alone: remove it by hand, and run the \
                     command again"
                ))
            })?;
        }
    }
    Ok((bytes, left))
}

/// Returns a server that an endpoint replaced. `None` if its text is not a server.
fn removed_node(client: Client, server: &RemovedServer) -> Option<Node> {
    match client.syntax() {
        Syntax::Toml => tables::parsed(&server.container, &server.name, &server.text),
        Syntax::Json => tree::parse(Syntax::Json, &server.text).ok(),
    }
}

/// Returns the bytes of the document with a server that an endpoint replaced. `None` if the result
/// would not have the server as it was, or would differ in another part.
fn restored_document(document: &Document, server: &RemovedServer) -> Option<Vec<u8>> {
    let RemovedServer { container, name, text } = server;
    let expected = removed_node(document.client, server)?;
    let text = match document.syntax() {
        Syntax::Toml => tables::restored(document, container, text),
        Syntax::Json => members::insert(document, container, name, text)?,
    };
    let bytes = document.bytes(&text);
    let result = Document::parse(document.client, &bytes).ok()?;
    let path: Vec<String> = container.iter().chain([name]).cloned().collect();
    let is_restored = differences::are_equal(result.root.descendant(&path)?, &expected)
        && differences::has_same_rest(document, &result, &[path]);
    is_restored.then_some(bytes)
}

/// Returns the bytes of the document without the endpoint at `path`. `None` if another part of the
/// document would change.
fn without_endpoint(document: &Document, path: Vec<String>) -> Option<Vec<u8>> {
    let paths = [path];
    let bytes = document.bytes(&members::without(document, &paths)?);
    let result = Document::parse(document.client, &bytes).ok()?;
    differences::has_same_rest(document, &result, &paths).then_some(bytes)
}
