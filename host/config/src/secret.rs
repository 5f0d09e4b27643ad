//! Texts with secrets, which are never printed.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

/// A text with secrets. `${env:NAME}` and `${file:PATH}` are replaced by their values.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Secret(
    String,
    /// The files that were read for it.
    #[serde(skip)]
    #[schemars(skip)]
    Vec<PathBuf>,
    /// The text with its references, from which it is resolved again.
    #[serde(skip)]
    #[schemars(skip)]
    String,
);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

impl Secret {
    /// Returns a secret with this value, in which no references are replaced.
    #[must_use]
    pub fn new(value: &str) -> Self {
        Self(value.to_owned(), Vec::new(), String::new())
    }

    /// Returns the text of the secret, for use but not for printing.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the paths of the files that `${file:PATH}` references read.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.1
    }

    /// Returns the secret with its references resolved again, because files may have changed.
    /// Relative paths start from `folder`.
    ///
    /// # Errors
    /// A message with the reference that cannot be resolved, without resolved values.
    pub fn resolved_again(&self, folder: &Path) -> Result<Self, String> {
        let mut again = Self(self.2.clone(), Vec::new(), String::new());
        again.resolve(folder)?;
        Ok(again)
    }

    /// Returns the names of the variables that `${env:NAME}` references name, if the secret was not
    /// resolved yet.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        let references = self.0.split("${env:").skip(1);
        references.filter_map(|rest| Some(rest.split_once('}')?.0))
    }

    /// Replaces `${env:NAME}` and `${file:PATH}` by their values. Relative paths start from
    /// `folder`. A line break at the end of a file is dropped.
    ///
    /// # Errors
    /// A message with the reference that cannot be resolved, without resolved values.
    pub(super) fn resolve(&mut self, folder: &Path) -> Result<(), String> {
        let mut resolved = String::new();
        let text = std::mem::take(&mut self.0);
        self.2.clone_from(&text);
        let mut rest = text.as_str();
        while let Some((before, reference)) = rest.split_once("${") {
            let Some((reference, after)) = reference.split_once('}') else {
                return Err("`${` is never closed by `}`".to_owned());
            };
            resolved.push_str(before);
            resolved.push_str(&look_up(reference, folder)?);
            self.1.extend(reference.strip_prefix("file:").map(|path| folder.join(path)));
            rest = after;
        }
        resolved.push_str(rest);
        self.0 = resolved;
        Ok(())
    }
}

fn look_up(reference: &str, folder: &Path) -> Result<String, String> {
    match reference.split_once(':') {
        Some(("env", name)) => {
            std::env::var(name).map_err(|_| format!("the environment variable {name} is not set"))
        }
        Some(("file", path)) => {
            let path = folder.join(path);
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
            Ok(text.trim_end_matches(['\r', '\n']).to_owned())
        }
        _ => Err(format!("`${{{reference}}}` is neither ${{env:NAME}} nor ${{file:PATH}}")),
    }
}
