//! Reads configurations as the clients do.

use std::collections::BTreeMap;

use context_guard_install::{Client, Document, Guard, Plan, Syntax, wrap};
use serde_json::Value;

/// A configuration of a client.
pub(crate) struct Sample {
    pub(crate) client: Client,
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn guard() -> Guard {
    Guard::new("/opt/context-guard")
}

pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for client in Client::ALL {
        let folder = crate::folder().join(client.id());
        let mut paths: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let name = format!("{}/{}", client.id(), path.file_name().unwrap().display());
            samples.push(Sample { client, name, bytes: std::fs::read(path).unwrap() });
        }
    }
    samples
}

pub(crate) fn wrapped(sample: &Sample) -> Plan {
    let document = Document::parse(sample.client, &sample.bytes).unwrap();
    wrap(&document, &guard(), &|_| true).unwrap_or_else(|error| panic!("{}: {error}", sample.name))
}

/// Returns the file as a value, parsed by another library than the one that edits it.
fn value(client: Client, bytes: &[u8]) -> Value {
    let text = std::str::from_utf8(bytes).unwrap().trim_start_matches('\u{feff}');
    match client.syntax() {
        Syntax::Toml => toml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}")),
        Syntax::Json => {
            serde_json::from_str(&strict(text)).unwrap_or_else(|error| panic!("{error}\n{text}"))
        }
    }
}

/// Removes comments and trailing commas, as `strip-json-comments` and Zed's parser do.
fn strict(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let mut end = 1;
            while !rest[end..].starts_with('"') {
                end += if rest[end..].starts_with('\\') { 2 } else { 1 };
                while !rest.is_char_boundary(end) {
                    end += 1;
                }
            }
            out.push_str(&rest[..=end]);
            rest = &rest[end + 1..];
        } else if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if rest.starts_with("/*") {
            rest = &rest[rest.find("*/").unwrap() + 2..];
        } else {
            if matches!(first, '}' | ']') {
                let kept = out.trim_end().trim_end_matches(',').len();
                if out.trim_end().ends_with(',') {
                    out.truncate(kept);
                }
            }
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Returns the containers of servers in a file, by path.
fn containers(client: Client, root: &Value) -> Vec<(Vec<String>, Value)> {
    let mut found = Vec::new();
    let mut add = |path: &[&str]| {
        let value = path.iter().try_fold(root, |value, name| value.get(name));
        if let Some(value) = value {
            found.push((path.iter().map(|&name| name.to_owned()).collect(), value.clone()));
        }
    };
    match client {
        Client::VsCode => {
            add(&["servers"]);
            add(&["mcp", "servers"]);
        }
        Client::Codex => add(&["mcp_servers"]),
        Client::Zed => add(&["context_servers"]),
        _ => {
            add(&["mcpServers"]);
            let projects = root.get("projects").and_then(Value::as_object);
            for project in projects.into_iter().flatten() {
                add(&["projects", project.0, "mcpServers"]);
            }
        }
    }
    found
}

/// Returns the command line of each server, by the path of its container and its name.
pub(crate) fn commands(
    client: Client,
    bytes: &[u8],
) -> BTreeMap<(Vec<String>, String), Vec<String>> {
    let mut commands = BTreeMap::new();
    for (path, servers) in containers(client, &value(client, bytes)) {
        for (name, server) in servers.as_object().unwrap() {
            let mut holder = server;
            let mut program = server.get("command");
            if let Some(command) = program.filter(|command| command.is_object()) {
                holder = command;
                program = command.get("path");
            }
            let Some(program) = program.and_then(Value::as_str) else { continue };
            let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
            let args = holder.get("args").and_then(Value::as_array);
            let line = [program.to_owned()].into_iter();
            let line = line.chain(args.into_iter().flatten().map(text)).collect();
            commands.insert((path.clone(), name.clone()), line);
        }
    }
    commands
}

/// Fails if the client would reject a file, or if a valid JSON file is none any more.
pub(crate) fn accept(sample: &Sample, bytes: &[u8]) {
    let text = |bytes: &[u8]| {
        String::from_utf8(bytes.to_vec()).unwrap().trim_start_matches('\u{feff}').to_owned()
    };
    let is_strict = |bytes: &[u8]| serde_json::from_str::<Value>(&text(bytes)).is_ok();
    if sample.client.syntax() == Syntax::Json && is_strict(&sample.bytes) {
        assert!(is_strict(bytes), "{}: {}", sample.name, text(bytes));
    }
    for (path, servers) in containers(sample.client, &value(sample.client, bytes)) {
        for (name, server) in servers.as_object().unwrap() {
            let place = format!("{}: {path:?}.{name}", sample.name);
            let Some(command) = server.get("command") else { continue };
            let (program, holder) = match command.get("path") {
                Some(path) => (path, command),
                None => (command, server),
            };
            if holder.is_object() && program.is_object() {
                continue;
            }
            assert!(program.is_string(), "{place}");
            let args = holder.get("args").filter(|args| !args.is_null());
            assert!(args.is_none_or(Value::is_array), "{place}");
        }
    }
    // Line ends and the byte-order mark remain.
    assert_eq!(bytes.starts_with(b"\xef\xbb\xbf"), sample.bytes.starts_with(b"\xef\xbb\xbf"));
    let bare = |bytes: &[u8]| text(bytes).replace("\r\n", "").contains('\n');
    let has_returns = |bytes: &[u8]| text(bytes).contains("\r\n");
    assert_eq!(bare(bytes), bare(&sample.bytes), "{}", sample.name);
    assert_eq!(has_returns(bytes), has_returns(&sample.bytes), "{}", sample.name);
}

/// Returns the file as a client writes it that drops comments and layout, with the same line ends.
pub(crate) fn rewrite(sample: &Sample, bytes: &[u8]) -> Option<Vec<u8>> {
    if sample.client.syntax() == Syntax::Toml || !sample.bytes.contains(&b'\n') {
        return None;
    }
    let text = serde_json::to_string_pretty(&value(sample.client, bytes)).unwrap();
    let has_returns = sample.bytes.windows(2).any(|pair| pair == b"\r\n");
    let text = if has_returns { text.replace('\n', "\r\n") } else { text };
    let mark = if sample.bytes.starts_with(b"\xef\xbb\xbf") { "\u{feff}" } else { "" };
    Some([mark, &text].concat().into_bytes())
}
