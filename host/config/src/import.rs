//! Converts the MCP servers of a client's configuration to upstreams of a gateway file.
//!
//! The format is detected by content: JSON with comments, TOML or YAML, and the member that holds
//! the servers. `docs/how-to/configure-clients.md` lists the clients.

mod document;
mod matching;
mod server;
mod unwrap;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_norway::{Mapping, Value};

pub use self::matching::{VariablePair, same_server};
pub use self::unwrap::{guard_command, guarded_command};
pub use self::values::redact_arguments;

use self::document::{Client, FoundServer};
use self::values::Values;
use crate::{Error, References, Result, Secret};

/// A gateway file that was created from the configurations of clients.
#[derive(Debug)]
pub struct Import {
    /// The gateway file, in YAML.
    pub yaml: String,
    /// The environment variables to set before the gateway starts, with the fields that use them.
    pub variables: BTreeMap<String, Vec<String>>,
    /// The servers that cannot be converted, each with its reason.
    pub skipped: Vec<String>,
    /// Messages about renamed servers and about omitted members.
    pub notes: Vec<String>,
    /// The secrets that the variables replace, as far as they are in the clients' files.
    pub secrets: BTreeMap<String, Secret>,
    /// The servers in the gateway file.
    pub servers: Vec<ImportedServer>,
}

/// A server of a client that was converted to an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedServer {
    /// The file of the client.
    pub file: PathBuf,
    /// The path of the member that contains the server, with dots.
    pub container: String,
    /// The name of the server.
    pub name: String,
    /// The name of the upstream.
    pub upstream: String,
}

/// Converts the client configuration `text`, the contents of the file at `path`. The result is a
/// valid gateway file. It omits servers that cannot be converted.
///
/// # Errors
/// [`Error::Format`] if the text cannot be parsed, or contains no server that can be converted.
pub fn import(path: &Path, text: &str) -> Result<Import> {
    import_all(&[(path, text)], &|_| None)
}

/// Converts the configurations of several clients to one gateway file. A server that occurs in
/// several files becomes one upstream. Skips the servers for which `rejection` returns a reason.
///
/// # Errors
/// [`Error::Format`] if a text cannot be parsed, or if no text contains a server that can be
/// converted.
pub fn import_all(
    files: &[(&Path, &str)],
    rejection: &dyn Fn(&ImportedServer) -> Option<String>,
) -> Result<Import> {
    let mut import = Importer::default();
    let clients = files.iter().map(|(path, text)| {
        let format = |reason: String| Error::Format { path: path.to_path_buf(), reason };
        Ok((*path, document::read(path, text).map_err(format)?))
    });
    let clients = clients.collect::<Result<Vec<(&Path, Client)>>>()?;
    for (path, client) in &clients {
        import.add(path, client, rejection);
    }
    let path = files.first().map_or(Path::new(""), |(path, _)| path);
    import.finish(path)
}

type ServerIdentity<'a> = (&'a String, &'a Mapping, Option<&'a String>);

/// The upstreams that were converted from several files.
#[derive(Default)]
struct Importer<'a> {
    skipped: Vec<String>,
    notes: Vec<String>,
    names: BTreeSet<String>,
    entries: Vec<Value>,
    /// The name, members and project of each server, with the name of its upstream.
    known: Vec<(ServerIdentity<'a>, Option<String>)>,
    variables: BTreeMap<String, Vec<String>>,
    secrets: BTreeMap<String, String>,
    servers: Vec<ImportedServer>,
}

impl<'a> Importer<'a> {
    fn add(
        &mut self,
        path: &Path,
        client: &'a Client,
        rejection: &dyn Fn(&ImportedServer) -> Option<String>,
    ) {
        let secrets = std::mem::take(&mut self.secrets);
        let mut values = Values::new(client, path).with_secrets(secrets);
        for found in &client.servers {
            let mut server = ImportedServer {
                file: path.to_owned(),
                container: found.container.clone(),
                name: found.name.clone(),
                upstream: upstream_name(&found.name),
            };
            match rejection(&server) {
                Some(reason) => self.skip(path, found, &reason),
                None => {
                    if let Some(upstream) = self.add_server(path, found, client, &mut values) {
                        server.upstream = upstream;
                        self.servers.push(server);
                    }
                }
            }
        }
        let (variables, secrets) = values.into_parts();
        for (name, fields) in variables {
            self.variables.entry(name).or_default().extend(fields);
        }
        self.secrets = secrets;
    }

    fn skip(&mut self, path: &Path, found: &FoundServer, reason: &str) {
        self.skipped.push(format!("{}: {}: {reason}", path.display(), found.place()));
    }

    /// Converts a server. Returns the name of its upstream, or `None` if it cannot be converted.
    fn add_server(
        &mut self,
        path: &Path,
        found: &'a FoundServer,
        client: &Client,
        values: &mut Values,
    ) -> Option<String> {
        // Projects often repeat a server. The folder of a project matters to a command only.
        let project = found.project.as_ref().filter(|_| found.server.contains_key("command"));
        let identity = (&found.name, &found.server, project);
        if let Some((_, upstream)) = self.known.iter().find(|(known, _)| *known == identity) {
            return upstream.clone();
        }
        let place = found.place();
        let name = unique(upstream_name(&found.name), &mut self.names);
        values.start(&name, &found.server);
        let converted = server::convert(found, client, values)
            .and_then(|(entry, left)| Ok((valid(&name, entry)?, left)));
        let (entry, left) = match converted {
            Ok(converted) => converted,
            Err(reason) => {
                self.names.remove(&name);
                self.known.push((identity, None));
                self.skip(path, found, &reason);
                return None;
            }
        };
        values.accept(entry.get("enabled").is_none());
        if name != found.name {
            self.notes.push(format!("{}: {place}: the upstream is named `{name}`", path.display()));
        }
        self.notes.extend(left.iter().map(|note| format!("{}: {place}: {note}", path.display())));
        self.entries.push(entry);
        self.known.push((identity, Some(name.clone())));
        Some(name)
    }

    /// Returns the gateway file. `path` is the path of the first file, for errors.
    fn finish(self, path: &Path) -> Result<Import> {
        let format = |reason: String| Error::Format { path: path.to_owned(), reason };
        if self.entries.is_empty() {
            let reasons: String = self.skipped.iter().map(|one| format!("\n  {one}")).collect();
            return Err(format(match reasons.as_str() {
                "" => "the file contains no MCP servers: expected `mcpServers`, `servers`, \
                       `context_servers`, `mcp`, `mcp_servers` or `extensions` with at least one \
                       server"
                    .to_owned(),
                reasons => format!("no server can be imported:{reasons}"),
            }));
        }
        let yaml = document(self.entries).map_err(|error| format(error.to_string()))?;
        Ok(Import {
            yaml,
            variables: self.variables,
            skipped: self.skipped,
            notes: self.notes,
            secrets: self
                .secrets
                .into_iter()
                .map(|(name, one)| (name, Secret::new(&one)))
                .collect(),
            servers: self.servers,
        })
    }
}

/// Returns the text of a gateway file with these upstreams, in YAML.
fn document(upstreams: Vec<Value>) -> serde_norway::Result<String> {
    let mut file = Mapping::new();
    file.insert("listen".into(), "127.0.0.1:8808".into());
    file.insert("upstreams".into(), Value::Sequence(upstreams));
    serde_norway::to_string(&file)
}

/// Adds the name to an upstream, and validates a gateway file with it.
///
/// # Errors
/// The reason why the gateway file is invalid.
fn valid(name: &str, entry: Mapping) -> std::result::Result<Value, String> {
    let mut named = Mapping::new();
    named.insert("name".into(), name.into());
    named.extend(entry);
    let entry = Value::Mapping(named);
    let text = document(vec![entry.clone()]).map_err(|error| error.to_string())?;
    match crate::parse(Path::new("gateway.yaml"), &text, [], References::Keep) {
        Ok(_) => Ok(entry),
        Err(Error::Config { issues, .. }) => {
            let reasons = issues.0.iter().map(|issue| match issue.steps.get(2..) {
                Some([]) | None => issue.reason.clone(),
                Some(steps) => format!("{}: {}", steps.join("."), issue.reason),
            });
            Err(Vec::from_iter(reasons).join("; "))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Converts a server's name to a valid upstream name. Invalid characters become `-`, and the length
/// is at most 32.
#[must_use]
pub fn upstream_name(name: &str) -> String {
    let valid =
        |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let mut result: String = name.chars().map(valid).collect();
    // `__` separates the upstream from the tool in tool names.
    while result.contains("__") {
        result = result.replace("__", "_");
    }
    result.truncate(32);
    let result = result.trim_matches(['-', '_']);
    if result.is_empty() { "server".to_owned() } else { result.to_owned() }
}

/// Returns `name`, with a number appended if it is in `names`. Adds the result to `names`.
fn unique(name: String, names: &mut BTreeSet<String>) -> String {
    let mut result = name.clone();
    let mut number = 2;
    while !names.insert(result.clone()) {
        let suffix = format!("-{number}");
        let start: String = name.chars().take(32 - suffix.len()).collect();
        result = start + &suffix;
        number += 1;
    }
    result
}

impl FoundServer {
    /// Returns the path of the server in its file, for messages.
    fn place(&self) -> String {
        format!("{}.{}", self.container, self.name)
    }
}
