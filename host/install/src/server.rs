//! The servers in a client's configuration.

use context_guard_config::{guard_command, guarded_command};

use crate::client::Client;
use crate::document::Document;
use crate::tree::{Member, Node, Value};

/// A server in a client's configuration.
#[derive(Debug)]
pub struct Server<'a> {
    /// The path of the member that contains the server.
    pub container: Vec<String>,
    /// The name of the server.
    pub name: String,
    /// The line of the server in its file, counted from 1.
    pub line: usize,
    /// True if the client does not start the server.
    pub is_disabled: bool,
    /// The URL of the server, as it is in the file. `None` if it has none.
    pub url: Option<String>,
    /// The kind of the server, which shows if the guard already runs it.
    pub state: ServerState<'a>,
    pub(crate) member: &'a Member,
}

/// The kind of a server.
#[derive(Debug)]
pub enum ServerState<'a> {
    /// A command that the client starts without the guard.
    Stdio(StdioServer<'a>),
    /// A command that starts the server behind the guard.
    Guarded(StdioServer<'a>),
    /// The guard itself, as an endpoint for many servers that the client starts. An endpoint with a
    /// URL is [`Self::Remote`].
    Gateway(StdioServer<'a>),
    /// A server that the client reaches by a URL.
    Remote,
    /// A server that cannot be wrapped. Contains the reason.
    Unsupported(String),
}

/// A server that the client starts with a command.
#[derive(Debug)]
pub struct StdioServer<'a> {
    pub(crate) command: &'a Member,
    pub(crate) args: Option<&'a Member>,
    /// The program and its arguments. An argument that is a list or an object appears as `…`.
    pub command_line: Vec<String>,
    /// The environment variables that the client sets, as they are in the file. Only those whose
    /// values are texts.
    pub environment: Vec<(String, String)>,
    /// The folder in which the client starts the server. `None` if the file sets none.
    pub folder: Option<String>,
}

impl StdioServer<'_> {
    /// Returns the server's own command line if it is guarded, directly or by a launcher such as
    /// npx. `None` if there is no guard, or another program such as a shell starts it.
    #[must_use]
    pub fn guarded_command(&self) -> Option<&[String]> {
        guarded_command(&self.command_line)
    }
}

impl Document {
    /// Returns the servers scope by scope, each scope in file order. If a scope has a name twice,
    /// returns the last one only. Skips servers that are not objects.
    #[must_use]
    pub fn servers(&self) -> Vec<Server<'_>> {
        let mut servers = Vec::new();
        for container in self.client.containers(&self.root) {
            let Some(holder) = self.root.descendant(&container) else { continue };
            let members = holder.members();
            for (at, member) in members.iter().enumerate() {
                let is_last = members.iter().skip(at + 1).all(|later| later.name != member.name);
                if !is_last || !matches!(member.node.value, Value::Table(_)) {
                    continue;
                }
                servers.push(Server {
                    container: container.clone(),
                    name: member.name.clone(),
                    line: self.line(member.key.start),
                    is_disabled: is_disabled(self, holder, &container, member),
                    url: url(&member.node).and_then(Node::text).map(str::to_owned),
                    state: state(&member.node),
                    member,
                });
            }
        }
        servers
    }
}

/// Returns true if the server, or a list next to the servers, declares that the server is disabled.
fn is_disabled(document: &Document, holder: &Node, container: &[String], member: &Member) -> bool {
    let is = |name: &str, expected: &str| {
        member
            .node
            .get(name)
            .is_some_and(|node| matches!(&node.value, Value::Word(word) if word == expected))
    };
    // `disabledMcpServers` of Claude Code is beside `mcpServers`.
    let beside = container.split_last().and_then(|(_, parent)| document.root.descendant(parent));
    let beside = beside.unwrap_or(holder);
    is("disabled", "true")
        || is("enabled", "false")
        || ["disabledMcpServers", "disabledMcpjsonServers"]
            .iter()
            .any(|name| lists(beside.get(name), &member.name) == Some(true))
        || excluding_setting(document, &member.name).is_some()
}

/// Returns the setting of Gemini CLI that excludes servers of this name: a list without the name,
/// or with it. `None` if there is none.
pub(crate) fn excluding_setting(document: &Document, name: &str) -> Option<&'static str> {
    /// The paths of the lists, and the names in them that are excluded. The settings at the root
    /// are those of earlier versions.
    const SETTINGS: [(&[&str], &str, bool); 4] = [
        (&["mcp", "allowed"], "mcp.allowed", false),
        (&["allowMCPServers"], "allowMCPServers", false),
        (&["mcp", "excluded"], "mcp.excluded", true),
        (&["excludeMCPServers"], "excludeMCPServers", true),
    ];
    if document.client() != Client::GeminiCli {
        return None;
    }
    let excludes = |(path, _, excluding): &(&[&str], &str, bool)| {
        let list = path.iter().try_fold(&document.root, |node, name| node.get(name));
        lists(list, name) == Some(*excluding)
    };
    SETTINGS.iter().find(|setting| excludes(setting)).map(|(_, title, _)| *title)
}

/// Returns true if a list contains the name, false if it does not. `None` if it is no list.
fn lists(list: Option<&Node>, name: &str) -> Option<bool> {
    match &list?.value {
        Value::List(list) => Some(list.iter().any(|one| one.text() == Some(name))),
        _ => None,
    }
}

/// Returns the URL of a server. `None` if it has none.
fn url(server: &Node) -> Option<&Node> {
    let names = ["httpUrl", "url", "serverUrl"];
    names
        .iter()
        .find_map(|name| server.get(name).filter(|value| !matches!(value.value, Value::Null)))
}

fn state(server: &Node) -> ServerState<'_> {
    let unsupported = |reason: &str| ServerState::Unsupported(reason.to_owned());
    // Gemini CLI prefers a URL to a command. Others refuse both.
    if url(server).is_some() {
        return ServerState::Remote;
    }
    match server.get("type").and_then(Node::text) {
        None | Some("stdio" | "local" | "") => {}
        Some("http" | "sse" | "ws" | "streamable-http" | "streamableHttp") => {
            return ServerState::Remote;
        }
        Some(other) => return unsupported(&format!("the type `{other}` is not a command")),
    }
    let Some(mut command) = server.member("command") else {
        return unsupported(match server.get("source").and_then(Node::text) {
            Some("extension") => "an extension of the client starts it",
            _ => "it has no command",
        });
    };
    let mut holder = server;
    // Earlier versions of Zed: `command: {path, args, env}`.
    if matches!(command.node.value, Value::Table(_)) {
        holder = &command.node;
        match holder.member("path") {
            Some(path) => command = path,
            None => return unsupported("its command has no `path`"),
        }
    }
    let program = match command.node.text() {
        Some(program) if !program.trim().is_empty() => program.to_owned(),
        Some(_) => return unsupported("its command is empty"),
        None => return unsupported("its command is not a text"),
    };
    let args = holder.member("args");
    let mut command_line = vec![program];
    match args.map(|args| &args.node.value) {
        None | Some(Value::Null) => {}
        Some(Value::List(list)) => {
            for argument in list {
                command_line.push(match &argument.value {
                    Value::Text(text) => text.clone(),
                    // Some clients convert numbers and booleans to texts.
                    Value::Word(word) => word.clone(),
                    _ => "…".to_owned(),
                });
            }
        }
        Some(_) => return unsupported("its args are not a list"),
    }
    let environment = holder.get("env").or_else(|| server.get("env"));
    let environment = environment.map(Node::members).unwrap_or_default().iter();
    let environment = environment
        .filter_map(|member| Some((member.name.clone(), member.node.text()?.to_owned())))
        .collect();
    let folder = server.get("cwd").and_then(Node::text).map(str::to_owned);
    let stdio = |command_line| StdioServer { command, args, command_line, environment, folder };
    match guard_command(&command_line) {
        Some(subcommand) if subcommand == "wrap" => ServerState::Guarded(stdio(command_line)),
        Some(subcommand) if matches!(subcommand.as_str(), "stdio" | "serve") => {
            ServerState::Gateway(stdio(command_line))
        }
        _ if is_command_line(&command_line) => {
            unsupported("its command contains arguments: move them to `args`")
        }
        _ => ServerState::Stdio(stdio(command_line)),
    }
}

/// Returns true if the command contains a whole command line, such as `npx -y server`. A client
/// that uses a shell could start it, but the guard cannot.
fn is_command_line(command_line: &[String]) -> bool {
    let [program] = command_line else { return false };
    let Some((first, rest)) = program.split_once(' ') else { return false };
    // A path with spaces is one program: `C:\Program Files\server.exe`, `/opt/my server/run`.
    !first.contains(['/', '\\'])
        && !rest.trim().is_empty()
        && !std::path::Path::new(program).exists()
}
