//! Converts the `mcpServers` of an MCP client's configuration to upstreams of a gateway file.

use serde::Deserialize;
use serde_json::{Map, Value};

/// The configuration file of an MCP client, in the format common to Claude Desktop, Claude Code,
/// Cursor and VS Code.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Client {
    #[serde(alias = "servers", alias = "mcp_servers")]
    mcp_servers: Map<String, Value>,
}

#[derive(Deserialize)]
struct Server {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Map<String, Value>,
    cwd: Option<String>,
    #[serde(alias = "serverUrl")]
    url: Option<String>,
    #[serde(default)]
    headers: Map<String, Value>,
}

/// Returns a gateway file in YAML with the servers of a client configuration. Also returns one
/// message for each server that is left out.
///
/// # Errors
/// The reason why the text is not a client configuration.
pub fn import(text: &str) -> Result<(String, Vec<String>), String> {
    let client: Client = serde_json::from_str(text)
        .map_err(|error| format!("not a client configuration with `mcpServers`: {error}"))?;
    let mut left = Vec::new();
    let mut yaml = String::from("listen: 127.0.0.1:8808\nupstreams:\n");
    for (name, server) in client.mcp_servers {
        let server: Server = match serde_json::from_value(server) {
            Ok(server) => server,
            Err(error) => {
                left.push(format!("{name}: {error}"));
                continue;
            }
        };
        let command: Vec<&str> =
            server.command.iter().chain(&server.args).map(String::as_str).collect();
        // JSON on one line is valid YAML and needs no quoting rules.
        let line = |value: &Value| value.to_string();
        let mut entry = format!("  - name: {}\n", line(&plain(&name).into()));
        if !command.is_empty() {
            entry.push_str(&format!("    command: {}\n", line(&command.into())));
        } else if let Some(url) = server.url {
            entry.push_str(&format!("    url: {}\n", line(&url.into())));
        } else {
            left.push(format!("{name}: it has neither `command` nor `url`"));
            continue;
        }
        for (member, map) in [("env", server.env), ("headers", server.headers)] {
            if !map.is_empty() {
                entry.push_str(&format!("    {member}: {}\n", line(&map.into())));
            }
        }
        if let Some(cwd) = server.cwd {
            entry.push_str(&format!("    cwd: {}\n", line(&cwd.into())));
        }
        yaml.push_str(&entry);
    }
    Ok((yaml, left))
}

/// Returns a valid upstream name for a server's name: invalid characters become `-`, and the length
/// is at most 32.
fn plain(name: &str) -> String {
    let mut plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') { c } else { '-' })
        .take(32)
        .collect();
    if plain.is_empty() {
        plain.push('x');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imported_servers_are_valid() {
        let (yaml, left) = import(
            r#"{"mcpServers": {"my files": {"command": "npx", "args": ["-y", "x: y"], "env": {"TOKEN": "${env:HOME}"}},
                "web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${env:HOME}"}}, "odd": {}}}"#,
        )
        .unwrap();
        assert_eq!(left, ["odd: it has neither `command` nor `url`"]);
        let config = super::super::parse("g.yaml".as_ref(), &yaml, []).unwrap();
        assert_eq!(config.upstreams[0].command, ["npx", "-y", "x: y"]);
        assert_eq!(config.upstreams[0].name, "my-files");
        assert_eq!(config.upstreams[1].url.as_deref(), Some("https://example.com/mcp"));
        assert!(import("{}").is_err());
    }
}
