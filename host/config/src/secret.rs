//! Texts with secrets, which are never printed.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

/// A text with secrets. `${env:NAME}`, `${env:NAME:-default}` and `${file:PATH}` are replaced by
/// their values.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Secret(
    String,
    /// The files that were read for it.
    #[serde(skip)]
    #[schemars(skip)]
    Vec<PathBuf>,
    /// The text with its references, from which it is resolved again. `None` if it was never
    /// resolved.
    #[serde(skip)]
    #[schemars(skip)]
    Option<String>,
);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

impl Secret {
    /// Returns a secret with this value. References in it are not replaced.
    #[must_use]
    pub fn new(value: &str) -> Self {
        Self(value.to_owned(), Vec::new(), None)
    }

    /// Returns the text of the secret, for use but not for printing.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the paths of the files whose contents replaced `${file:PATH}` references.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.1
    }

    /// Returns the secret with its references resolved again, because files may have changed. A
    /// secret that was not read from a resolved gateway file remains the same. Relative paths refer
    /// to `folder`.
    ///
    /// # Errors
    /// A message with the reference that cannot be resolved, without resolved values.
    pub fn resolved_again(&self, folder: &Path) -> Result<Self, String> {
        let Some(text) = &self.2 else { return Ok(self.clone()) };
        let mut again = Self::new(text);
        again.resolve(folder)?;
        Ok(again)
    }

    /// Returns the names in `${env:NAME}` references. Empty if the secret is already resolved.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        environment_references(&self.0).filter_map(|reference| reference.split(":-").next())
    }

    /// Replaces `${env:NAME}`, `${env:NAME:-default}` and `${file:PATH}` with their values.
    /// Relative paths refer to `folder`. Line breaks at the end of a file are removed.
    ///
    /// # Errors
    /// A message with the reference that cannot be resolved, without resolved values.
    pub(super) fn resolve(&mut self, folder: &Path) -> Result<(), String> {
        self.2 = Some(self.0.clone());
        let (resolved, files) = replace_references(&self.0, folder, true)?;
        self.0 = resolved;
        self.1.extend(files);
        Ok(())
    }
}

/// Returns the texts between `${env:` and `}` in a text: the names of variables, with their
/// defaults after `:-`.
pub(super) fn environment_references(text: &str) -> impl Iterator<Item = &str> {
    text.split("${env:").skip(1).filter_map(|rest| Some(rest.split_once('}')?.0))
}

/// Replaces the references in `text` as [`Secret::resolve`] does. Leaves other texts in `${…}`
/// unchanged, because a program may expand them itself.
pub(super) fn resolve_text(text: &str, folder: &Path) -> Result<String, String> {
    replace_references(text, folder, false).map(|(resolved, _)| resolved)
}

/// Returns `text` with its references replaced, and the paths of the files that were read. If
/// `strict` is true, other texts in `${…}` are errors. Otherwise they remain.
fn replace_references(
    text: &str,
    folder: &Path,
    strict: bool,
) -> Result<(String, Vec<PathBuf>), String> {
    let (mut resolved, mut files) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((reference, after)) = after.split_once('}') else {
            if strict {
                return Err("`${` is never closed by `}`".to_owned());
            }
            break;
        };
        resolved.push_str(before);
        match reference.split_once(':') {
            Some(("env", name)) => resolved.push_str(&variable(name)?),
            Some(("file", path)) => {
                let path = folder.join(path);
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
                files.push(path);
                resolved.push_str(text.trim_end_matches(['\r', '\n']));
            }
            _ if strict => {
                return Err(format!(
                    "`${{{reference}}}` is neither ${{env:NAME}} nor ${{file:PATH}}"
                ));
            }
            _ => resolved.push_str(&format!("${{{reference}}}")),
        }
        rest = after;
    }
    resolved.push_str(rest);
    Ok((resolved, files))
}

/// Returns the value of an environment variable. In `NAME:-default`, the default applies if the
/// variable is empty or unset, as in shells.
fn variable(reference: &str) -> Result<String, String> {
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    match (std::env::var(name), default) {
        (Ok(value), None) => Ok(value),
        (Ok(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (Err(_), None) => Err(format!("the environment variable {name} is not set")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "old\n").unwrap();
        let mut secret = Secret::new("${file:key}");
        secret.resolve(folder.path()).unwrap();
        assert_eq!(secret.expose(), "old");
        std::fs::write(&file, "new\n").unwrap();
        assert_eq!(secret.resolved_again(folder.path()).unwrap().expose(), "new");
    }

    #[test]
    fn plain_secret_remains() {
        let secret = Secret::new("${env:NONE}");
        assert_eq!(secret.resolved_again(Path::new("/")).unwrap(), secret);
    }
}
