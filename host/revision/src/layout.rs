//! The locations of a gateway's sources: policy, component and signing keys.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{BundleLabel, VerificationPolicy, keys};
use crate::config::Secret;
use crate::engine::SigningKey;
use crate::policy::Source;
use crate::{Error, Result, config};

/// The locations of the sources, from the gateway file or the command line. Each source is read
/// separately.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// The gateway file from which the layout was read. `None` for a layout from the command line.
    pub file: Option<PathBuf>,
    /// The location of the policy.
    pub policy: PolicyPlace,
    /// The path of the component file, and the proof that it needs. `None` for the embedded
    /// component.
    pub component: Option<(PathBuf, VerificationPolicy)>,
    /// The signing keys of the gateway file. Empty to use those of the environment. `None` if a
    /// reload must not replace the keys in use.
    pub keys: Option<Vec<Secret>>,
    /// The folder to which relative paths in `keys` refer.
    pub folder: PathBuf,
    /// True if removed signing keys verify until their cursors have expired. False if they become
    /// invalid at once.
    pub keep_dropped_keys: bool,
    /// The parts of a bundle, which replace those of the files. `None` without a bundle.
    pub bundle: Option<Arc<BundleParts>>,
}

/// The parts of a bundle. The files provide those that are `None`.
pub struct BundleParts {
    /// The location from which the bundle was read, for reports.
    pub place: String,
    /// The number and the salt of the bundle.
    pub label: BundleLabel,
    /// The policy.
    pub policy: Option<Source>,
    /// The bytes of the component.
    pub component: Option<Vec<u8>>,
    /// The signing keys.
    pub keys: Option<Vec<SigningKey>>,
}

impl BundleParts {
    /// Returns the name of the bundle in reports.
    #[must_use]
    pub fn name(&self) -> String {
        format!("bundle {} of {}", self.label.number, self.place)
    }
}

// Reports must not contain the keys.
impl std::fmt::Debug for BundleParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

/// The location of a policy.
#[derive(Clone, Debug)]
pub enum PolicyPlace {
    /// A separate policy file.
    File(PathBuf),
    /// The policy in the gateway file, or the default policy.
    Inline(Source),
}

impl Default for PolicyPlace {
    fn default() -> Self {
        Self::Inline(Source::inline(None))
    }
}

impl Layout {
    /// Reads the policy.
    ///
    /// # Errors
    /// [`Error::Config`] if the file cannot be read or parsed.
    pub fn policy(&self) -> Result<Source> {
        if let Some(policy) = self.bundle.as_ref().and_then(|bundle| bundle.policy.as_ref()) {
            return Ok(policy.clone());
        }
        match &self.policy {
            PolicyPlace::File(path) => Ok(Source::read(path)?),
            PolicyPlace::Inline(policy) => Ok(policy.clone()),
        }
    }

    /// Returns the component of the bundle. Otherwise reads and verifies the component file.
    /// Returns `None` for the embedded component.
    ///
    /// # Errors
    /// As [`read_component`].
    pub fn component(&self) -> Result<Option<Vec<u8>>> {
        if let Some(bytes) = self.bundle.as_ref().and_then(|bundle| bundle.component.as_ref()) {
            return Ok(Some(bytes.clone()));
        }
        let Some((path, trust)) = &self.component else { return Ok(None) };
        read_component(path, trust).map(Some)
    }

    /// Reads the signing keys: those of the bundle, otherwise those of the layout, otherwise those
    /// of the environment. Returns `None` if there are none, or a reload must not replace the keys
    /// in use.
    ///
    /// # Errors
    /// [`Error::Refused`] if a reference cannot be resolved.
    pub fn keys(&self) -> Result<Option<Vec<SigningKey>>> {
        if let Some(keys) = self.bundle.as_ref().and_then(|bundle| bundle.keys.as_ref()) {
            return Ok(Some(keys.clone()));
        }
        let Some(configured) = &self.keys else { return Ok(None) };
        let mut keys = Vec::new();
        for (at, key) in configured.iter().enumerate() {
            let key = key
                .resolved_again(&self.folder)
                .map_err(|reason| Error::Refused(format!("signingKeys[{at}]: {reason}")))?;
            keys.push(SigningKey { id: at.to_string(), secret: key.expose().into() });
        }
        Ok(if keys.is_empty() { keys::from_environment() } else { Some(keys) })
    }

    /// Returns the paths of all files of the layout, for the file watcher.
    #[must_use]
    pub fn files(&self) -> BTreeSet<PathBuf> {
        let mut files: BTreeSet<PathBuf> = self.file.iter().cloned().collect();
        files.extend(self.policy_file().map(Path::to_owned));
        if let Some((path, trust)) = &self.component {
            files.insert(path.clone());
            files.extend(trust.sidecar(path));
        }
        files.extend(self.key_files().cloned());
        files
    }

    pub(super) fn policy_file(&self) -> Option<&Path> {
        match &self.policy {
            PolicyPlace::File(path) => Some(path),
            PolicyPlace::Inline(_) => self.file.as_deref(),
        }
    }

    pub(super) fn key_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.keys.iter().flatten().flat_map(|key| key.files())
    }
}

/// Reads a component file and verifies it as `trust` requires.
///
/// # Errors
/// [`Error::Config`] if a file cannot be read, [`Error::Refused`] if the proof does not match.
pub fn read_component(path: &Path, trust: &VerificationPolicy) -> Result<Vec<u8>> {
    let file = |path: &Path| {
        let path = path.to_owned();
        |source| config::Error::File { path, source }
    };
    let bytes = std::fs::read(path).map_err(file(path))?;
    if let Some(beside) = trust.sidecar(path) {
        trust.verify(&bytes, &std::fs::read_to_string(&beside).map_err(file(&beside))?)?;
    }
    Ok(bytes)
}
