//! Parses a client's configuration and finds its servers.

use std::path::Path;

use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde_norway::{Mapping, Value};

/// The names of members that contain servers in the configuration of some client.
const CONTAINERS: [&str; 5] =
    ["mcpServers", "mcp_servers", "context_servers", "contextServers", "mcp-servers"];
/// The names of members that may contain servers or other values.
const POSSIBLE_CONTAINERS: [&str; 3] = ["servers", "mcp", "extensions"];
/// The names of members of which each server has at least one.
const SERVER_MEMBERS: [&str; 7] = ["command", "cmd", "url", "uri", "httpUrl", "serverUrl", "args"];
/// The names of members in projects and settings that list disabled servers.
const DISABLED_LISTS: [&str; 3] = ["disabledMcpServers", "disabledMcpjsonServers", "excluded"];
/// The maximum depth at which containers are searched. In known files, `mcpServers` is at depth 4
/// at most.
const MAX_DEPTH: usize = 6;

/// The servers of a client, and properties that apply to all of them.
pub(super) struct Client {
    pub(super) servers: Vec<FoundServer>,
    /// The definitions of `${input:ID}` in VS Code.
    pub(super) inputs: Vec<Mapping>,
    /// True if the client expands `$NAME`, and uses `url` for HTTP+SSE: Gemini CLI and its forks.
    pub(super) is_gemini: bool,
    /// True if the client uses HTTP+SSE for a `url` without a type: Cline and its forks.
    pub(super) is_cline: bool,
}

/// A server in the configuration of a client.
pub(super) struct FoundServer {
    /// The path of the member that contains the server.
    pub(super) container: String,
    pub(super) name: String,
    pub(super) server: Mapping,
    /// The folder of the project to which the server belongs. `None` for a server of the user.
    pub(super) project: Option<String>,
    /// True if a list outside of the server's own members disables it.
    pub(super) disabled: bool,
}

/// Parses the text and finds all servers, in the order of the file.
///
/// # Errors
/// The reason why the text cannot be parsed.
pub(super) fn read(path: &Path, text: &str) -> Result<Client, String> {
    let document = parse(text.trim_start_matches('\u{feff}'))?;
    let mut servers = Vec::new();
    if let Value::Mapping(root) = &document {
        find(root, &mut Vec::new(), &mut servers);
        // A plugin of Claude Code has the servers at the root.
        if servers.is_empty() {
            add(Value::Mapping(root.clone()), &[], root, false, &mut servers);
        }
        apply_allow_list(root, &mut servers);
    }
    let has_member = |name: &str| servers.iter().any(|found| found.server.contains_key(name));
    let in_folder = |names: &[&str]| {
        path.iter().any(|part| part.to_str().is_some_and(|part| names.contains(&part)))
    };
    let root_has = |names: &[&str]| names.iter().any(|name| document.get(name).is_some());
    let is_gemini = has_member("httpUrl")
        || in_folder(&[".gemini", ".qwen"])
        || root_has(&["selectedAuthType", "contextFileName", "security"])
        || document
            .get("mcp")
            .is_some_and(|mcp| mcp.get("allowed").or(mcp.get("excluded")).is_some());
    let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_cline = file == "cline_mcp_settings.json";
    let inputs = document.get("inputs").or_else(|| document.get("mcp")?.get("inputs"));
    let inputs = inputs.and_then(Value::as_sequence).into_iter().flatten();
    let inputs = inputs.filter_map(|input| input.as_mapping().cloned()).collect();
    Ok(Client { servers, inputs, is_gemini, is_cline })
}

/// Parses the text as JSON with comments, TOML or YAML, whichever format it has.
fn parse(text: &str) -> Result<Value, String> {
    let options = ParseOptions {
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        ..ParseOptions::default()
    };
    let json = match parse_to_serde_value::<Value>(text, &options) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if text.trim_start().starts_with(['{', '/']) {
        return Err(format!("invalid JSON: {json}"));
    }
    let toml = match toml::from_str::<Value>(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    match serde_norway::from_str::<Value>(text) {
        // A text in one line is valid YAML.
        Ok(value) if value.is_mapping() => Ok(value),
        Ok(_) => Err("the file is not a configuration in JSON, TOML or YAML".to_owned()),
        Err(_) if text.lines().any(|line| line.starts_with('[')) => {
            Err(format!("invalid TOML: {toml}"))
        }
        Err(error) => Err(format!("invalid YAML: {error}")),
    }
}

/// Adds the servers in all containers below `members` to `servers`. `steps` is the path of
/// `members`.
fn find(members: &Mapping, steps: &mut Vec<String>, servers: &mut Vec<FoundServer>) {
    if steps.len() > MAX_DEPTH {
        return;
    }
    for (name, value) in members {
        let Some(name) = name.as_str() else { continue };
        // Settings of VS Code and Amp join a path with dots: `amp.mcpServers`.
        let last = name.rsplit('.').next().unwrap_or(name);
        steps.push(name.to_owned());
        let certain = CONTAINERS.contains(&last);
        let is_container = certain || (POSSIBLE_CONTAINERS.contains(&last) && holds_servers(value));
        if is_container {
            add(value.clone(), steps, members, certain, servers);
        } else if let Value::Mapping(inner) = value {
            find(inner, steps, servers);
        }
        steps.pop();
    }
}

fn holds_servers(value: &Value) -> bool {
    let entries: Vec<&Value> = match value {
        Value::Mapping(entries) => entries.values().collect(),
        Value::Sequence(entries) => entries.iter().collect(),
        _ => return false,
    };
    let is_server = |entry: &Value| SERVER_MEMBERS.iter().any(|name| entry.get(*name).is_some());
    // Some versions of Goose put all members but `enabled` below `config`.
    entries.into_iter().any(|entry| is_server(entry) || entry.get("config").is_some_and(is_server))
}

/// Adds the servers of a container, which is a mapping by name or a list of servers with a `name`.
/// `certain` is true if the name of the container shows that it contains servers.
fn add(
    container: Value,
    steps: &[String],
    holder: &Mapping,
    certain: bool,
    servers: &mut Vec<FoundServer>,
) {
    if !certain && !holds_servers(&container) {
        return;
    }
    // `projects.FOLDER.mcpServers` of Claude Code.
    let project = match steps {
        [projects, folder, _] if projects == "projects" => Some(folder.clone()),
        _ => None,
    };
    let entries: Vec<(String, Value)> = match container {
        Value::Mapping(entries) => entries
            .into_iter()
            .filter_map(|(name, server)| Some((name.as_str()?.to_owned(), server)))
            .collect(),
        Value::Sequence(entries) => entries
            .into_iter()
            .enumerate()
            .map(|(at, server)| {
                let name = server.get("name").and_then(Value::as_str);
                (name.map_or_else(|| at.to_string(), str::to_owned), server)
            })
            .collect(),
        _ => Vec::new(),
    };
    for (name, server) in entries {
        let Value::Mapping(server) = server else { continue };
        let disabled = DISABLED_LISTS.iter().any(|list| lists(holder.get(*list), &name));
        servers.push(FoundServer {
            container: steps.join("."),
            name,
            server,
            project: project.clone(),
            disabled,
        });
    }
}

/// Disables the servers that `mcp.excluded` lists, or that `mcp.allowed` does not list (Gemini
/// CLI). `excludeMCPServers` and `allowMCPServers` are the names of earlier versions.
fn apply_allow_list(root: &Mapping, servers: &mut [FoundServer]) {
    let mcp = |name: &str| root.get("mcp").and_then(|mcp| mcp.get(name));
    let excluded = [mcp("excluded"), root.get("excludeMCPServers")];
    let allowed = [mcp("allowed"), root.get("allowMCPServers")];
    for found in servers {
        found.disabled |= excluded.iter().any(|list| lists(*list, &found.name));
        found.disabled |= allowed
            .iter()
            .any(|list| list.is_some_and(Value::is_sequence) && !lists(*list, &found.name));
    }
}

fn lists(list: Option<&Value>, name: &str) -> bool {
    let names = list.and_then(Value::as_sequence).into_iter().flatten();
    names.filter_map(Value::as_str).any(|one| one == name)
}
