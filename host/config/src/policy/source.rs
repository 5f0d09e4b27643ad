//! The source of a policy: a policy file or the gateway file, with overrides by environment
//! variables.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::document::{self, Issues, OVERRIDE, POLICY_OVERRIDE, override_with};
use crate::{Error, Result};

/// The maximum length of a policy file, in bytes.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// Reads a regular file of at most [`MAX_FILE_BYTES`].
fn read_text(path: &Path) -> std::io::Result<String> {
    let fault = |reason| Err(std::io::Error::other(reason));
    // Opening a pipe would already wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return fault("it is not a regular file");
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return fault("a policy file has at most 8 MB");
    }
    Ok(text)
}

/// A policy document with its source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// The path of the policy file. `None` if the policy is part of another file.
    pub path: Option<PathBuf>,
    /// The text of the policy file. Empty without a policy file.
    pub text: String,
    /// The names of the environment variables that override members of the policy.
    pub overridden: Vec<String>,
    document: Value,
}

impl Source {
    /// Reads a policy from a .yaml, .json or .toml file, and applies overrides by environment
    /// variables. An empty file is an empty policy.
    ///
    /// A file of another kind, such as a pipe, is rejected, because reading it might never end.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Format`] with line and column if the format reports them.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            read_text(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
        Self::parse(path, text)
    }

    /// Parses `text` as the contents of the policy file at `path` and applies overrides by the
    /// environment.
    ///
    /// # Errors
    /// [`Error::Format`] if the text is not valid in the format of the file.
    pub fn parse(path: &Path, text: String) -> Result<Self> {
        let document = document::parse(path, &text)?;
        Ok(Self { path: Some(path.to_owned()), text, ..Self::default() }.with(document))
    }

    /// Parses `text` as a policy, and applies overrides by environment variables. The format is
    /// JSON if the text is a JSON object, or begins with a brace and a quote and is no YAML.
    /// Otherwise it is TOML if the text is valid TOML with at least one member, and YAML if not.
    ///
    /// # Errors
    /// [`Error::Format`] if the text is not valid in that format.
    pub fn detect(text: String) -> Result<Self> {
        let trimmed = text.trim_start_matches('\u{feff}').trim_start();
        // A JSON policy is also valid YAML, but the JSON parser reports errors better. A YAML flow
        // mapping such as `{hardCap: 9000}` begins like JSON.
        let is_json = trimmed.starts_with('{') && serde_json::from_str::<Value>(trimmed).is_ok();
        let is_quoted = trimmed.strip_prefix('{').is_some_and(|rest| {
            let rest = rest.trim_start();
            rest.starts_with('"') && serde_norway::from_str::<Value>(trimmed).is_err()
        });
        let is_toml = document::parse(Path::new("policy.toml"), &text)
            .is_ok_and(|document| document.as_object().is_some_and(|members| !members.is_empty()));
        let name = match (is_json || is_quoted, is_toml) {
            (true, _) => "policy.json",
            (false, true) => "policy.toml",
            (false, false) => "policy.yaml",
        };
        Self::parse(Path::new(name), text)
    }

    /// Returns a policy that is part of another file, with overrides by environment variables.
    /// `None` selects the default policy.
    #[must_use]
    pub fn inline(policy: Option<Map<String, Value>>) -> Self {
        Self::default().with(policy.map(Value::Object).unwrap_or_default())
    }

    fn with(mut self, mut document: Value) -> Self {
        let set = std::env::vars().filter_map(|(name, value)| {
            Some((name.strip_prefix(POLICY_OVERRIDE)?.to_owned(), value))
        });
        for (name, value) in set {
            override_with(&mut document, &name, &value);
            self.overridden.push(format!("{OVERRIDE}POLICY__{name}"));
        }
        self.document = document;
        self
    }

    /// Returns the policy document after overrides.
    #[must_use]
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// Returns the policy as JSON, in the form that the guard component needs. Empty for the
    /// default policy.
    #[must_use]
    pub fn json(&self) -> String {
        if self.document.is_null() { String::new() } else { self.document.to_string() }
    }

    /// Returns the line of the value at the path `steps` in the policy file. `None` if it is
    /// unknown.
    pub(super) fn line(&self, steps: &[String]) -> Option<usize> {
        document::line_of(self.path.as_ref()?, &self.text, steps)
    }

    /// Returns `issues` of this policy as one error. If the policy has a file, adds the path of the
    /// file to the error, and lines to the issues.
    #[must_use]
    pub fn located(&self, issues: Issues) -> Error {
        match &self.path {
            Some(path) => Error::Config {
                path: path.clone(),
                issues: document::with_lines(issues, path, &self.text),
            },
            None => Error::Policy(issues),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_equivalent() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            Source::read(&path).map(|source| source.json())
        };
        let json = r#"{"hardCap":9000}"#;
        assert_eq!(read("p.json", json).unwrap(), json);
        assert_eq!(read("p.yaml", "hardCap: 9000\n").unwrap(), json);
        assert_eq!(read("p.toml", "hardCap = 9000\n").unwrap(), json);
        assert_eq!(read("empty.yaml", "").unwrap(), "");
        assert!(read("p.yaml", "a: [1\n").unwrap_err().to_string().contains("line"));
        assert!(read("p.txt", json).unwrap_err().to_string().contains(".yaml"));
    }

    #[test]
    fn only_short_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("long.yaml");
        std::fs::write(&long, "#".repeat(9 << 20)).unwrap();
        let pipe = folder.path().join("pipe.yaml");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for (path, expected) in [
            (long.as_path(), "at most 8 MB"),
            (&pipe, "not a regular file"),
            (Path::new("/dev/zero"), "not a regular file"),
            (folder.path(), "not a regular file"),
        ] {
            let error = Source::read(path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn format_is_detected() {
        let name = |text: &str| {
            let source = Source::detect(text.to_owned()).unwrap();
            assert_eq!(source.document()["hardCap"], 9000, "{text}");
            source.path.unwrap().display().to_string()
        };
        for (text, expected) in [
            ("hardCap: 9000\n", "policy.yaml"),
            ("# a comment\nhardCap: 9000 # = 9\nendpoints:\n  - match: 'a=b'\n", "policy.yaml"),
            ("---\nhardCap: 9000\n", "policy.yaml"),
            ("{hardCap: 9000}", "policy.yaml"),
            ("{\"hardCap\": 9000,}", "policy.yaml"),
            (" \n{\"hardCap\": 9000}", "policy.json"),
            ("hardCap = 9000\n", "policy.toml"),
            ("# a: comment\nhardCap = 9000\n[[endpoints]]\nmatch = \"a: b\"\n", "policy.toml"),
        ] {
            assert_eq!(name(text), expected, "{text}");
        }
        let fault = |text: &str| Source::detect(text.to_owned()).unwrap_err().to_string();
        assert!(fault("{\"hardCap\": 9000").starts_with("policy.json"), "{}", fault("{\"a\": 1"));
        assert!(fault("hardCap: [9000\n").starts_with("policy.yaml"));
        assert_eq!(Source::detect(String::new()).unwrap().json(), "");
    }

    #[test]
    fn errors_have_lines() {
        let text = "hardCap: 9000\nendpoints:\n  - match: a\n    chunkSize: 0\n".to_owned();
        let source = Source::parse(Path::new("p.yaml"), text).unwrap();
        let fault = crate::document::Issue::at_path("endpoints[0].chunkSize", "0 is out of range");
        let message = source.located(Issues(vec![fault])).to_string();
        assert_eq!(
            message,
            "p.yaml is invalid:\n  line 4: endpoints[0].chunkSize: 0 is out of range"
        );
    }
}
