//! Replaces the servers of a client with one endpoint.

use crate::client::Client;
use crate::document::Document;
use crate::edit::{line_break, quote, slice};
use crate::record::RemovedServer;
use crate::server::{Server, ServerState, excluding_setting};
use crate::tables;
use crate::tree::Syntax;
use crate::wrap::{Change, Plan};
use crate::{Error, Result, members};

/// The name of the endpoint in a client's configuration.
const NAME: &str = "context-guard";

/// The gateway to which clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The URL of a running gateway.
    Url(String),
    /// A gateway that the client starts.
    Command {
        /// The path of the program.
        program: String,
        /// The arguments of the program.
        arguments: Vec<String>,
        /// The environment variables of the program, as names and values.
        environment: Vec<(String, String)>,
    },
}

impl Endpoint {
    /// Returns the names and literals of the endpoint's members in a client's configuration.
    fn members(&self, client: Client) -> Vec<(&'static str, String)> {
        let kind = |kind: &str| ("type", quote(kind));
        match self {
            Self::Url(url) => {
                let url = quote(url);
                match client {
                    Client::ClaudeCode | Client::VsCode => vec![kind("http"), ("url", url)],
                    Client::GeminiCli => vec![("httpUrl", url)],
                    Client::Windsurf => vec![("serverUrl", url)],
                    _ => vec![("url", url)],
                }
            }
            Self::Command { program, arguments, environment } => {
                let arguments: Vec<String> = arguments.iter().map(|one| quote(one)).collect();
                let mut members = match client {
                    Client::ClaudeCode | Client::VsCode => vec![kind("stdio")],
                    _ => Vec::new(),
                };
                members.push(("command", quote(program)));
                members.push(("args", format!("[{}]", arguments.join(", "))));
                if !environment.is_empty() {
                    let separator = if client.syntax() == Syntax::Toml { " = " } else { ": " };
                    let pair = |(name, value): &(String, String)| {
                        format!("{}{separator}{}", quote(name), quote(value))
                    };
                    let pairs: Vec<String> = environment.iter().map(pair).collect();
                    members.push(("env", format!("{{{}}}", pairs.join(", "))));
                }
                members
            }
        }
    }
}

/// Replaces all servers that `is_replaced` accepts with `endpoint`, but not a command that is the
/// guard itself. Without such servers, the plan has no changes.
///
/// If another server already has the name of the endpoint, that server remains, and no endpoint is
/// added.
///
/// # Errors
/// [`Error::Unsupported`] if the client cannot use the endpoint, or a server cannot be removed.
/// [`Error::Verify`] if the result is not the intended one.
pub fn replace_servers(
    document: &Document,
    endpoint: &Endpoint,
    is_replaced: &dyn Fn(&Server<'_>) -> bool,
) -> Result<Plan> {
    let client = document.client;
    if client == Client::ClaudeDesktop && matches!(endpoint, Endpoint::Url(_)) {
        return Err(Error::Unsupported(
            "Claude Desktop reads no URLs from this file: add `--stdio`".to_owned(),
        ));
    }
    let servers = document.servers();
    let replaced: Vec<&Server<'_>> = servers
        .iter()
        .filter(|server| !matches!(server.state, ServerState::Gateway(_)) && is_replaced(server))
        .collect();
    let mut plan = Plan {
        bytes: document.bytes(&document.text),
        changes: Vec::new(),
        servers: Vec::new(),
        removed: Vec::new(),
        added: None,
    };
    let Some(first) = replaced.first() else { return Ok(plan) };
    if let Some(setting) = excluding_setting(document, NAME) {
        return Err(Error::Unsupported(format!(
            "the client would not start the server \"{NAME}\": change `{setting}` in this file so \
             that it permits it, and run the command again"
        )));
    }
    // One endpoint for all scopes: that of the user if there is one.
    let container = client.containers(&document.root).into_iter().next();
    let container = container.unwrap_or_else(|| first.container.clone());
    let container = match document.root.descendant(&container) {
        Some(_) => container,
        None => first.container.clone(),
    };
    let paths: Vec<Vec<String>> = replaced
        .iter()
        .map(|server| server.container.iter().chain([&server.name]).cloned().collect())
        .collect();
    for (server, path) in replaced.iter().zip(&paths) {
        let text = match document.syntax() {
            Syntax::Json => Some(slice(&document.text, server.member.node.span.clone()).to_owned()),
            Syntax::Toml => tables::text_of(document, path),
        };
        let text = text.ok_or_else(|| unsupported(&server.name))?;
        plan.removed.push(RemovedServer {
            container: server.container.clone(),
            name: server.name.clone(),
            text,
        });
        plan.changes.push(Change {
            container: server.container.clone(),
            name: server.name.clone(),
            line: server.line,
            before: match &server.state {
                ServerState::Stdio(stdio) | ServerState::Guarded(stdio) => {
                    stdio.command_line.clone()
                }
                _ => Vec::new(),
            },
            after: Vec::new(),
        });
    }
    let verify = |reason: String| Error::Verify { server: NAME.to_owned(), reason };
    let reduced = members::without(document, &paths).ok_or_else(|| unsupported(&first.name))?;
    let reduced = Document::parse(client, &document.bytes(&reduced))
        .map_err(|error| verify(error.to_string()))?;
    let exists = reduced.servers().iter().any(|server| server.name == NAME);
    let text = if exists {
        reduced.text.clone()
    } else {
        let value = literal(document, &container, endpoint);
        plan.added = Some((container.clone(), NAME.to_owned()));
        members::insert(&reduced, &container, NAME, &value).ok_or_else(|| unsupported(NAME))?
    };
    plan.bytes = document.bytes(&text);
    let edited = Document::parse(client, &plan.bytes).map_err(|error| verify(error.to_string()))?;
    let after = edited.servers();
    let is_there = after.iter().any(|server| server.name == NAME);
    let expected = servers.len() - replaced.len() + usize::from(!exists);
    if !is_there || after.len() != expected {
        return Err(verify("the result has other servers than expected".to_owned()));
    }
    let line = after.iter().find(|server| server.name == NAME).map_or(0, |server| server.line);
    plan.changes.push(Change {
        container,
        name: NAME.to_owned(),
        line,
        before: Vec::new(),
        after: match endpoint {
            Endpoint::Url(url) => vec![url.clone()],
            Endpoint::Command { program, arguments, .. } => {
                [program].into_iter().chain(arguments).cloned().collect()
            }
        },
    });
    Ok(plan)
}

fn unsupported(name: &str) -> Error {
    Error::Unsupported(format!(
        "server \"{name}\" is written with dotted keys or in a line with others: write it as a \
         table of its own, or use `install` without `--gateway`"
    ))
}

/// Returns the text of the endpoint: a value in JSON, or a table in TOML.
fn literal(document: &Document, container: &[String], endpoint: &Endpoint) -> String {
    let members = endpoint.members(document.client);
    if document.syntax() == Syntax::Toml {
        let line_break = line_break(&document.text);
        let members: String =
            members.iter().map(|(name, value)| format!("{name} = {value}{line_break}")).collect();
        return format!("{line_break}[{}.{NAME}]{line_break}{members}", container.join("."));
    }
    let members: Vec<String> =
        members.iter().map(|(name, value)| format!("{}: {value}", quote(name))).collect();
    format!("{{{}}}", members.join(", "))
}
