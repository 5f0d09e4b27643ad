//! The files of a gateway: policy, component, signing keys. They are read again when they change.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Candidate, Revision, Revisions, VerificationPolicy, digest};
use crate::engine::SigningKey;
use crate::policy::Source;
use crate::{Error, Result, config};

/// The contents of the files that determine a gateway's revision and keys, at one point in time.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// The policy.
    pub policy: Source,
    /// The path of the component file, and the proof that it must have. `None` for the embedded
    /// component.
    pub component: Option<(PathBuf, VerificationPolicy)>,
    /// The signing keys. `None` if none are configured, so that those in use remain.
    pub keys: Option<Vec<SigningKey>>,
    /// The paths of all files that were read. The file watcher watches them.
    pub files: Vec<PathBuf>,
}

type Read = dyn Fn() -> Result<Content> + Send + Sync;

/// Reads the files of a gateway, and deploys them if they changed. Contents that were rejected are
/// not tried again until they change.
pub struct Sources {
    read: Box<Read>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    policy: Option<String>,
    component: Option<String>,
    fault: Option<String>,
    files: BTreeSet<PathBuf>,
}

impl Sources {
    /// Creates sources from the function `read`, which reads the files. The contents that it
    /// returns now count as deployed.
    pub fn new(read: impl Fn() -> Result<Content> + Send + Sync + 'static) -> Self {
        let sources = Self { read: Box::new(read), seen: Mutex::default() };
        if let Ok(content) = (sources.read)() {
            let mut seen = sources.seen();
            seen.policy = Some(digest(content.policy.json().as_bytes()));
            seen.component = load(&content).ok().flatten().map(|bytes| digest(&bytes));
            seen.files = content.files.into_iter().collect();
        }
        sources
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the paths of the files that the last read used.
    #[must_use]
    pub fn files(&self) -> BTreeSet<PathBuf> {
        self.seen().files.clone()
    }

    /// Reads all files again, and deploys them if they changed. Returns the new revision, or `None`
    /// if nothing changed.
    ///
    /// If `again` is true, contents that were rejected before are tried again.
    ///
    /// # Errors
    /// Those of [`Revisions::deploy`], or a file that cannot be read. The active revision continues
    /// to serve.
    pub fn reload(&self, revisions: &Revisions, again: bool) -> Result<Option<Arc<Revision>>> {
        let content = (self.read)().and_then(|content| {
            is_written(&content.policy)?;
            let component = load(&content)?;
            Ok((content, component))
        });
        let (content, component) = match content {
            Ok(content) => content,
            Err(error) => {
                // A file that is being written is read several times: the same error is reported
                // once.
                let fault = Some(error.to_string());
                let known = std::mem::replace(&mut self.seen().fault, fault.clone()) == fault;
                if !known || again {
                    revisions.refuse("files", &error);
                }
                return Err(error);
            }
        };
        let policy = content.policy.json();
        let digests = (digest(policy.as_bytes()), component.as_deref().map(digest));
        let (policy_new, component_new) = {
            let mut seen = self.seen();
            seen.fault = None;
            seen.files = content.files.iter().cloned().collect();
            let policy_new = seen.policy.replace(digests.0.clone()).as_ref() != Some(&digests.0);
            let component_new = seen.component != digests.1;
            seen.component = digests.1;
            (policy_new, component_new)
        };
        if let Some(keys) = content.keys.clone()
            && let Err(error) = revisions.rotate(keys)
        {
            revisions.refuse("signing keys", &error);
        }
        if !policy_new && !component_new && !again {
            return Ok(None);
        }
        let named = |path: &Path| path.display().to_string();
        let mut from = Vec::new();
        if let Some((path, _)) = content.component.as_ref().filter(|_| component_new || again) {
            from.push(named(path));
        }
        if policy_new || again {
            from.push(content.policy.path.as_deref().map_or_else(|| "policy".to_owned(), named));
        }
        revisions.deploy(&Candidate {
            source: from.join(", "),
            component: component.filter(|_| component_new || again),
            policy: Some(content.policy),
            mode: None,
        })
    }
}

/// Returns an error for an empty policy file, which is probably still being written.
fn is_written(policy: &Source) -> Result<()> {
    match &policy.path {
        Some(path) if policy.text.trim().is_empty() => Err(Error::Refused(format!(
            "{} is empty: write {{}} for the default policy",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Returns the verified bytes of the component file, or `None` for the embedded component.
fn load(content: &Content) -> Result<Option<Vec<u8>>> {
    let Some((path, trust)) = &content.component else { return Ok(None) };
    read_component(path, trust).map(Some)
}

/// Reads a component file, and verifies it as `trust` requires.
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
