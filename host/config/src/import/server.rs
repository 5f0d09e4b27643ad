//! Converts one server of a client to an upstream.

use serde_norway::{Mapping, Value};

use super::document::{Client, FoundServer};
use super::unwrap::unwrap_command;
use super::values::{Values, scalar};

/// The names of members that the gateway does not need.
const IGNORED: [&str; 7] =
    ["name", "source", "display_name", "$schema", "enabled", "disabled", "isActive"];
/// The values of `type` for servers that are built into the client.
const BUILT_IN: [&str; 5] = ["builtin", "platform", "frontend", "inlinepython", "extension"];
/// The minimum value of a timeout without a unit that is in milliseconds. Smaller values are in
/// seconds.
const MILLISECONDS_FROM: f64 = 1_000.0;

/// Converts a server. Returns the members of the upstream without its name, and messages about
/// omitted members.
///
/// # Errors
/// The reason why the server cannot be converted.
pub(super) fn convert(
    found: &FoundServer,
    client: &Client,
    values: &mut Values,
) -> Result<(Mapping, Vec<String>), String> {
    let mut server = Server { members: flatten(&found.server), notes: Vec::new() };
    let mut entry = Mapping::new();
    let enabled = server.is_enabled() && !found.disabled;
    if !enabled {
        entry.insert("enabled".into(), false.into());
    }
    let transport = server.transport()?;
    let mut command = server.command()?;
    let removed = unwrap_command(&mut command);
    if !removed.is_empty() {
        server.notes.push(format!(
            "the options of `context-guard wrap` are dropped: {}; set `policy` in the gateway file",
            removed.join(" ")
        ));
    }
    if !command.is_empty() {
        if transport.as_deref() == Some("sse") {
            return Err("type: `sse` needs a `url`, not a `command`".to_owned());
        }
        entry.insert("command".into(), values.arguments(&command)?.into());
    } else if let Some((url, is_sse)) = server.url(transport.as_deref(), client)? {
        entry.insert("url".into(), values.url(&url)?.into());
        if is_sse {
            entry.insert("transport".into(), "sse".into());
        }
    } else {
        return Err("the server has neither `command` nor `url`".to_owned());
    }
    for (name, map) in [("env", server.env(values)?), ("headers", server.headers(values)?)] {
        if !map.is_empty() {
            entry.insert(name.into(), map.into());
        }
    }
    // Codex forwards these variables, if they are set.
    let inherited = server.list("env_vars");
    if !inherited.is_empty() {
        entry.insert("inheritEnv".into(), inherited.into());
    }
    let cwd = server.text(&["cwd", "workingDirectory", "working_directory"]);
    if let Some(cwd) = cwd.or_else(|| found.project.clone().filter(|_| !command.is_empty())) {
        entry.insert("cwd".into(), values.translate("cwd", &cwd)?.into());
    }
    let limits = server.limits();
    if !limits.is_empty() {
        entry.insert("limits".into(), limits.into());
    }
    server.report_rest();
    Ok((entry, server.notes))
}

/// A server whose members are removed when they are converted. The remaining members are reported.
struct Server {
    members: Mapping,
    notes: Vec<String>,
}

/// Returns the members, merged with those of `config` and `transport`.
fn flatten(server: &Mapping) -> Mapping {
    let mut members = Mapping::new();
    for (name, value) in server {
        match (name.as_str(), value) {
            (
                Some("config" | "transport" | "requestOptions" | "requestInit"),
                Value::Mapping(inner),
            ) => {
                members.extend(inner.clone());
            }
            // Earlier versions of Zed: `command: {path, args, env}`.
            (Some("command"), Value::Mapping(inner)) => {
                for (name, value) in inner {
                    let name = if name == "path" { "command".into() } else { name.clone() };
                    members.insert(name, value.clone());
                }
            }
            _ => {
                members.insert(name.clone(), value.clone());
            }
        }
    }
    members
}

impl Server {
    fn text(&mut self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| match self.members.shift_remove(*name)? {
            Value::Null => None,
            value => scalar(&value),
        })
    }

    fn is_enabled(&mut self) -> bool {
        let is = |name: &str, value: bool| {
            self.members.get(name).and_then(Value::as_bool).is_some_and(|one| one == value)
        };
        !(is("enabled", false) || is("isActive", false) || is("disabled", true))
    }

    /// Returns `http`, `sse` or `stdio` if the server sets its transport. `None` if it does not.
    fn transport(&mut self) -> Result<Option<String>, String> {
        if self.members.get("source").and_then(Value::as_str) == Some("extension") {
            return Err("source: an extension of the editor starts the server".to_owned());
        }
        let Some(name) = self.text(&["type", "transport", "transportType"]) else {
            return Ok(None);
        };
        let plain = name.to_ascii_lowercase().replace(['-', '_'], "");
        Ok(match plain.as_str() {
            "http" | "streamablehttp" | "streamable" => Some("http".to_owned()),
            "sse" => Some("sse".to_owned()),
            "stdio" | "local" => Some("stdio".to_owned()),
            "remote" | "custom" => None,
            kind if BUILT_IN.contains(&kind) => {
                return Err(format!("type: `{name}` is part of the client, not a server"));
            }
            _ => {
                return Err(format!(
                    "type: the transport `{name}` is not supported: use stdio or Streamable HTTP"
                ));
            }
        })
    }

    /// Returns the program and its arguments. Empty if the server has no command.
    fn command(&mut self) -> Result<Vec<String>, String> {
        let program = ["command", "cmd"].iter().find_map(|name| self.members.shift_remove(*name));
        let arguments = self.members.shift_remove("args");
        let mut command = match program {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(program) => texts("command", &program)?,
        };
        if command.first().is_some_and(|program| program.trim().is_empty()) {
            return Err("command: the program is empty".to_owned());
        }
        if !command.is_empty()
            && let Some(arguments) = arguments.filter(|arguments| !arguments.is_null())
        {
            command.extend(texts("args", &arguments)?);
        }
        Ok(command)
    }

    /// Returns the URL of the server, or `None` if it has none. The flag is true if the client uses
    /// HTTP+SSE for it.
    fn url(
        &mut self,
        transport: Option<&str>,
        client: &Client,
    ) -> Result<Option<(String, bool)>, String> {
        if let Some(url) = self.text(&["httpUrl"]) {
            // Gemini CLI prefers it to `url`.
            self.members.shift_remove("url");
            return Ok(Some((url, false)));
        }
        let Some(url) = self.text(&["url", "serverUrl", "uri"]) else { return Ok(None) };
        let path = url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        let is_sse = match transport {
            Some("sse") => true,
            Some(_) => false,
            None => client.is_gemini || client.is_cline,
        };
        let own = ["127.0.0.1:8808/mcp", "localhost:8808/mcp"];
        if own.iter().any(|own| path.ends_with(own)) {
            return Err("url: this is the address of the gateway itself".to_owned());
        }
        Ok(Some((url, is_sse)))
    }

    fn env(&mut self, values: &mut Values) -> Result<Mapping, String> {
        let mut env = Mapping::new();
        for member in ["env", "envs", "environment"] {
            env.extend(self.named(member, "env", values)?);
        }
        // Goose keeps the values of these names in the keyring.
        for name in self.list("env_keys") {
            let reference = values.reference(&name, &format!("env.{name}"));
            env.insert(name.into(), reference.into());
        }
        if let Some(file) = self.text(&["envFile"]) {
            self.notes.push(format!(
                "envFile: `{file}` is not read: name its variables in `inheritEnv`, and set them \
                 before the gateway starts"
            ));
        }
        Ok(env)
    }

    fn headers(&mut self, values: &mut Values) -> Result<Mapping, String> {
        let mut headers = Mapping::new();
        for member in ["headers", "http_headers"] {
            headers.extend(self.named(member, "headers", values)?);
        }
        if let Some(Value::Mapping(names)) = self.members.shift_remove("env_http_headers") {
            for (header, variable) in names {
                if let (Some(name), Some(variable)) = (header.as_str(), variable.as_str()) {
                    let reference = values.reference(variable, &format!("headers.{name}"));
                    headers.insert(header.clone(), reference.into());
                }
            }
        }
        if let Some(variable) = self.text(&["bearer_token_env_var"]) {
            let reference = values.reference(&variable, "headers.Authorization");
            headers.insert("Authorization".into(), format!("Bearer {reference}").into());
        }
        if let Some(token) = self.text(&["bearer_token"]) {
            let value = values.named("headers", "Authorization", &format!("Bearer {token}"))?;
            headers.insert("Authorization".into(), value.into());
        }
        Ok(headers)
    }

    /// Removes the member `member`, a map of texts, and translates its values as those of `target`.
    fn named(
        &mut self,
        member: &str,
        target: &str,
        values: &mut Values,
    ) -> Result<Mapping, String> {
        let mut result = Mapping::new();
        let Some(Value::Mapping(map)) = self.members.shift_remove(member) else {
            return Ok(result);
        };
        for (name, value) in map {
            let Some(text) = name.as_str() else { continue };
            match scalar(&value) {
                Some(value) => {
                    let value = values.named(target, text, &value)?;
                    result.insert(name.clone(), value.into());
                }
                // VS Code: null removes a variable.
                None if value.is_null() => {}
                None => return Err(format!("{member}.{text}: expected a string")),
            }
        }
        Ok(result)
    }

    fn list(&mut self, member: &str) -> Vec<String> {
        let list = self.members.shift_remove(member);
        let list = list.as_ref().and_then(Value::as_sequence).into_iter().flatten();
        let name = |one: &Value| match one.get("name") {
            Some(name) => scalar(name),
            None => scalar(one),
        };
        list.filter_map(name).collect()
    }

    /// Returns the limits that the timeouts of the client set.
    fn limits(&mut self) -> Mapping {
        let mut limits = Mapping::new();
        let members = [
            ("timeout", "timeoutSeconds", None),
            ("tool_timeout_sec", "timeoutSeconds", Some(1.0)),
            ("startup_timeout_sec", "startSeconds", Some(1.0)),
            ("startup_timeout_ms", "startSeconds", Some(1_000.0)),
        ];
        for (member, limit, divisor) in members {
            let Some(value) = self.members.get(member).and_then(Value::as_f64) else { continue };
            self.members.shift_remove(member);
            let milliseconds = value >= MILLISECONDS_FROM;
            let divisor = divisor.unwrap_or(if milliseconds { 1_000.0 } else { 1.0 });
            let seconds = (value / divisor).ceil();
            if (1.0..1e9).contains(&seconds) {
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "the range is checked"
                )]
                limits.insert(limit.into(), (seconds as u64).into());
            }
        }
        limits
    }

    /// Reports the remaining members. Empty members have no effect, and are not reported.
    fn report_rest(&mut self) {
        for (name, value) in &self.members {
            let Some(name) = name.as_str() else { continue };
            let is_empty = match value {
                Value::Null => true,
                Value::Sequence(list) => {
                    list.is_empty() || matches!(list.as_slice(), [Value::String(all)] if all == "*")
                }
                Value::Mapping(map) => map.is_empty(),
                Value::String(text) => text.is_empty(),
                _ => false,
            };
            if is_empty || IGNORED.contains(&name) {
                continue;
            }
            let advice = match name {
                "oauth" | "auth" | "authProviderType" | "headersHelper" | "oauth_resource" => {
                    "the gateway does not log in; set `headers` to send a token"
                }
                _ => "the gateway has no such setting",
            };
            self.notes.push(format!("`{name}` is dropped: {advice}"));
        }
    }
}

/// Returns the strings in a list of strings, or a single string as a list.
fn texts(member: &str, value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Sequence(list) => list
            .iter()
            .map(|one| scalar(one).ok_or_else(|| format!("{member}: expected a list of strings")))
            .collect(),
        value => {
            scalar(value).map(|one| vec![one]).ok_or_else(|| format!("{member}: expected a string"))
        }
    }
}
