//! Translates references to variables, and replaces secrets with references.

mod secrets;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_norway::{Mapping, Value};

use self::secrets::{environment_name, is_secret, split_secret};
use super::document::Client;

/// Variables that only the client can expand.
const CLIENT_VARIABLES: [&str; 18] = [
    "CLAUDE_PLUGIN_ROOT",
    "__dirname",
    "cwd",
    "defaultBuildTask",
    "execPath",
    "extensionPath",
    "file",
    "fileBasename",
    "fileBasenameNoExtension",
    "fileDirname",
    "fileExtname",
    "fileWorkspaceFolder",
    "lineNumber",
    "relativeFile",
    "relativeFileDirname",
    "selectedText",
    "workspacePath",
    "workspaceRootPath",
];

/// Translates the values of servers, and collects the variables that these values need.
pub(super) struct Values {
    /// The folder that replaces `${workspaceFolder}`. `None` if it is unknown.
    workspace: Option<PathBuf>,
    /// The defaults of `${input:ID}`. `None` if the value cannot be set in advance.
    inputs: BTreeMap<String, Option<String>>,
    expands_bare_names: bool,
    /// The upstream whose values are translated.
    upstream: String,
    /// The texts in the `env` of the upstream, to which references in its other members may refer.
    environment: BTreeMap<String, String>,
    /// The names of variables, with the fields that use them.
    variables: BTreeMap<String, Vec<String>>,
    /// The secrets by the name of their variable. Different secrets must have different names.
    secrets: BTreeMap<String, String>,
    /// The variables of the current upstream, which are discarded if it cannot be converted.
    pending_variables: Vec<(String, String)>,
    /// The secrets of the current upstream, by the name of their variable.
    pending_secrets: Vec<(String, String)>,
}

impl Values {
    pub(super) fn new(client: &Client, path: &Path) -> Self {
        let text = |input: &Mapping, name: &str| input.get(name)?.as_str().map(str::to_owned);
        let inputs = client.inputs.iter().filter_map(|input| {
            let can_be_set = text(input, "type").is_none_or(|kind| kind != "command");
            let default = text(input, "default").unwrap_or_default();
            Some((text(input, "id")?, can_be_set.then_some(default)))
        });
        Self {
            workspace: workspace_folder(path),
            inputs: inputs.collect(),
            expands_bare_names: client.is_gemini,
            upstream: String::new(),
            environment: BTreeMap::new(),
            variables: BTreeMap::new(),
            secrets: BTreeMap::new(),
            pending_variables: Vec::new(),
            pending_secrets: Vec::new(),
        }
    }

    /// Begins the translation of another upstream.
    pub(super) fn start(&mut self, upstream: &str, server: &Mapping) {
        upstream.clone_into(&mut self.upstream);
        self.pending_variables.clear();
        self.pending_secrets.clear();
        self.environment = ["env", "envs", "environment"]
            .iter()
            .filter_map(|member| server.get(*member)?.as_mapping())
            .flatten()
            .filter_map(|(name, value)| Some((name.as_str()?.to_owned(), scalar(value)?)))
            .collect();
    }

    /// Adds the variables and secrets of the current upstream to the result. `enabled` is false if
    /// the upstream is disabled.
    pub(super) fn accept(&mut self, enabled: bool) {
        for (name, field) in std::mem::take(&mut self.pending_variables) {
            let field = if enabled { field } else { format!("{field} (disabled)") };
            let fields = self.variables.entry(name).or_default();
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        self.secrets.append(&mut BTreeMap::from_iter(self.pending_secrets.drain(..)));
    }

    /// Sets the secrets of other files, whose variable names must not be used for other secrets.
    pub(super) fn with_secrets(mut self, secrets: BTreeMap<String, String>) -> Self {
        self.secrets = secrets;
        self
    }

    /// Returns the variables with their fields, and the secrets.
    pub(super) fn into_parts(self) -> (BTreeMap<String, Vec<String>>, BTreeMap<String, String>) {
        (self.variables, self.secrets)
    }

    /// Returns a reference to an environment variable, and records that `field` uses it.
    pub(super) fn reference(&mut self, name: &str, field: &str) -> String {
        self.pending_variables.push((name.to_owned(), format!("{}.{field}", self.upstream)));
        format!("${{env:{name}}}")
    }

    /// Translates the value of a member of `env` or `headers`. A secret is replaced with a
    /// reference.
    pub(super) fn named(
        &mut self,
        member: &str,
        name: &str,
        value: &str,
    ) -> Result<String, String> {
        let field = format!("{member}.{name}");
        let bare = value.rsplit(' ').next().and_then(|word| word.strip_prefix('$'));
        if let Some(variable) = bare.filter(|variable| is_name(variable)) {
            let start = value.strip_suffix(variable).unwrap_or_default().trim_end_matches('$');
            return Ok(start.to_owned() + &self.reference(variable, &field));
        }
        let translated = self.translate(&field, value)?;
        if translated.contains("${") || !is_secret(name, value) {
            return Ok(translated);
        }
        if member == "env" {
            return Ok(self.hide(name, value, &field));
        }
        let (scheme, secret) = split_secret(value);
        let preferred = self.prefixed(name);
        Ok(scheme.to_owned() + &self.hide(&preferred, secret, &field))
    }

    /// Translates the arguments of a command. Secrets in `--name VALUE`, `--name=VALUE`,
    /// `NAME=VALUE` and `Header: VALUE` are replaced with references.
    pub(super) fn arguments(&mut self, arguments: &[String]) -> Result<Vec<String>, String> {
        let mut translated = Vec::new();
        let mut flag: Option<&str> = None;
        for (at, argument) in arguments.iter().enumerate() {
            let field = format!("args[{at}]");
            let mut text = self.translate(&field, argument)?;
            let (name, value) = name_and_value(flag.unwrap_or_default(), argument);
            if !text.contains("${") && value.len() >= 6 && !value.starts_with('-') && at > 0 {
                let (scheme, secret) = split_secret(value);
                if is_secret(name, value) {
                    let name = self.prefixed(if name.is_empty() { "secret" } else { name });
                    let kept = argument.strip_suffix(value).unwrap_or_default();
                    text = kept.to_owned() + scheme + &self.hide(&name, secret, &field);
                }
            }
            flag = argument.strip_prefix('-');
            translated.push(text);
        }
        Ok(translated)
    }

    /// Translates a URL. Secrets in its query are replaced with references.
    pub(super) fn url(&mut self, url: &str) -> Result<String, String> {
        let translated = self.translate("url", url)?;
        let Some((path, query)) = translated.split_once('?') else { return Ok(translated) };
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, value)) if !value.contains("${") && is_secret(name, value) => {
                let variable = self.prefixed(name);
                format!("{name}={}", self.hide(&variable, value, "url"))
            }
            _ => pair.to_owned(),
        });
        let pairs = Vec::from_iter(pairs);
        Ok(format!("{path}?{}", pairs.join("&")))
    }

    /// Returns the name of a variable for a secret of the upstream, which begins with the
    /// upstream's name.
    fn prefixed(&self, name: &str) -> String {
        environment_name(&format!("{}_{}", self.upstream, name.trim_matches('-')))
    }

    /// Returns a reference to a variable for `secret`. The variable is `preferred`, unless another
    /// secret uses that name. `field` is the field that uses it.
    fn hide(&mut self, preferred: &str, secret: &str, field: &str) -> String {
        let mut name = environment_name(preferred);
        let taken = |name: &String| {
            let pending =
                self.pending_secrets.iter().find(|(one, _)| one == name).map(|(_, one)| one);
            self.secrets.get(name).or(pending).is_some_and(|other| other != secret)
        };
        if taken(&name) {
            name = self.prefixed(preferred);
        }
        let (base, mut number) = (name.clone(), 2);
        while taken(&name) {
            name = format!("{base}_{number}");
            number += 1;
        }
        self.pending_secrets.push((name.clone(), secret.to_owned()));
        self.reference(&name, field)
    }

    /// Replaces the references of clients in `text` with those of gateway files.
    ///
    /// # Errors
    /// The field, the reference, and the reason why it has no equivalent.
    pub(super) fn translate(&mut self, field: &str, text: &str) -> Result<String, String> {
        let mut translated = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['$', '{']) {
            let (before, from) = rest.split_at(at);
            translated.push_str(before);
            if let Some(inner) = from.strip_prefix("${") {
                let Some((reference, after)) = inner.split_once('}') else {
                    return Err(format!("{field}: `${{` is never closed by `}}`"));
                };
                let value = self.resolve(field, reference);
                translated +=
                    &value.map_err(|reason| format!("{field}: `${{{reference}}}` {reason}"))?;
                rest = after;
                continue;
            }
            // opencode writes `{env:NAME}` and `{file:PATH}`.
            let opencode = from.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            if let Some((reference, after)) = opencode
                && (reference.starts_with("env:") || reference.starts_with("file:"))
            {
                let value = self.resolve(field, reference);
                translated +=
                    &value.map_err(|reason| format!("{field}: `{{{reference}}}` {reason}"))?;
                rest = after;
                continue;
            }
            let name = from.get(1..).unwrap_or_default();
            let length = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, after) = name.split_at(length.unwrap_or(name.len()));
            if self.expands_bare_names && from.starts_with('$') && is_name(name) {
                translated += &self.variable(name, field)?;
                rest = after;
            } else {
                let (first, after) = from.split_at(1);
                translated.push_str(first);
                rest = after;
            }
        }
        translated.push_str(rest);
        Ok(translated)
    }

    /// Returns the text that replaces the reference `${reference}`.
    fn resolve(&mut self, field: &str, reference: &str) -> Result<String, String> {
        if reference.contains('$') {
            return Err(
                "contains another reference: write one reference with one default".to_owned()
            );
        }
        if let Some(input) = reference.strip_prefix("input:") {
            return match self.inputs.get(input).cloned() {
                Some(None) => {
                    Err("runs a command of the client: use ${env:NAME} instead".to_owned())
                }
                Some(Some(default)) if !default.is_empty() => {
                    Ok(format!("${{env:{}:-{default}}}", environment_name(input)))
                }
                _ => Ok(self.reference(&environment_name(input), field)),
            };
        }
        if let Some(path) = reference.strip_prefix("file:") {
            return Ok(format!("${{file:{path}}}"));
        }
        let name = reference.strip_prefix("env:").unwrap_or(reference);
        let folder = |part: fn(&Path) -> Option<&std::ffi::OsStr>, this: &Self| {
            let text = this.workspace.as_deref().and_then(part).and_then(|part| part.to_str());
            text.map(str::to_owned).ok_or_else(|| {
                "is the folder that is open in the client: replace it by a path".to_owned()
            })
        };
        match name {
            "workspaceFolder" | "workspaceRoot" => {
                return folder(|path| Some(path.as_os_str()), self);
            }
            "workspaceFolderBasename" => return folder(Path::file_name, self),
            "userHome" => {
                let home = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
                return Ok(format!("${{env:{home}}}"));
            }
            "pathSeparator" | "/" => return Ok(std::path::MAIN_SEPARATOR_STR.to_owned()),
            client if CLIENT_VARIABLES.contains(&client) => {
                return Err("is known to the client alone: replace it by its value".to_owned());
            }
            _ => {}
        }
        match name.split_once(":-") {
            Some((variable, default)) if is_name(variable) => {
                Ok(format!("${{env:{variable}:-{default}}}"))
            }
            None if is_name(name) => self.variable(name, field),
            _ => {
                Err("has no equivalent in a gateway file: use ${env:NAME} or ${file:PATH}"
                    .to_owned())
            }
        }
    }

    /// Returns the replacement for a reference to a variable. It is the value in the server's own
    /// `env`, which programs such as mcp-remote expand, or a reference.
    fn variable(&mut self, name: &str, field: &str) -> Result<String, String> {
        match self.environment.get(name).cloned() {
            Some(value) if !field.starts_with("env.") && !value.contains('$') => {
                self.named("env", name, &value)
            }
            _ => Ok(self.reference(name, field)),
        }
    }
}

/// Returns the arguments with `…` in place of each secret, for display.
#[must_use]
pub fn redact_arguments(arguments: &[String]) -> Vec<String> {
    let mut flag: Option<&str> = None;
    let mut redacted = Vec::new();
    for argument in arguments {
        let (name, value) = name_and_value(flag.unwrap_or_default(), argument);
        let (scheme, _) = split_secret(value);
        let is_hidden = is_secret(name, value) && !value.starts_with('-');
        redacted.push(match argument.strip_suffix(value) {
            Some(start) if is_hidden => format!("{start}{scheme}…"),
            _ => redact_url(argument),
        });
        flag = argument.strip_prefix('-');
    }
    redacted
}

/// Returns a URL without its password and the values in its query, for display.
fn redact_url(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let rest = match authority.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => {
            let (name, _) = user.split_once(':').unwrap_or_default();
            format!("{name}:…@{host}{}", rest.strip_prefix(authority).unwrap_or_default())
        }
        _ => rest.to_owned(),
    };
    let Some((path, query)) = rest.split_once('?') else { return format!("{scheme}://{rest}") };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) if is_secret(name, value) => format!("{name}=…"),
        _ => pair.to_owned(),
    });
    format!("{scheme}://{path}?{}", Vec::from_iter(pairs).join("&"))
}

/// Splits an argument such as `--header=X-Key: VALUE` into the name and value of a secret. If the
/// argument has no name, `flag` is the name.
fn name_and_value<'a>(flag: &'a str, argument: &'a str) -> (&'a str, &'a str) {
    let (mut name, mut value) = (flag, argument);
    while let Some((first, rest)) = value.split_once(['=', ':']) {
        let is_name = first.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        if !is_name || rest.starts_with("//") || is_secret(name, value) {
            break;
        }
        (name, value) = (first, rest.trim_start());
    }
    (name, value)
}

/// Returns a string, number or boolean as text. `None` for other values.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the folder of the project to which a file such as `.vscode/mcp.json` belongs. `None` for
/// other files.
fn workspace_folder(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let parent = path.parent()?;
    let folder = match parent.file_name()?.to_str()? {
        ".vscode" | ".cursor" | ".gemini" | ".zed" | ".kiro" | ".roo" | ".windsurf" => {
            parent.parent()?
        }
        _ if path.file_name()? == ".mcp.json" => parent,
        _ => return None,
    };
    // The same folders in the home folder hold the settings of all projects.
    let home = std::env::var_os(if cfg!(windows) { "USERPROFILE" } else { "HOME" });
    (home.as_deref() != Some(folder.as_os_str())).then(|| folder.to_owned())
}
