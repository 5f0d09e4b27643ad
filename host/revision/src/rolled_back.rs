//! The record of policies and components that were rolled back. It persists across restarts, so
//! that a new process does not deploy them again.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::{Revision, digest};
use crate::Result;
use crate::policy::Source;

/// The maximum number of recorded policies and components. Beyond it, the oldest is removed.
const MAX_ENTRIES: usize = 16;

/// The policies and components that were rolled back, with their replacements. Without a file, the
/// record is kept in memory only.
#[derive(Debug, Default)]
pub struct RolledBack {
    file: Option<PathBuf>,
    entries: VecDeque<Entry>,
}

/// A policy or component that was rolled back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    /// The SHA-256 digest of the policy or component, in hexadecimal.
    digest: String,
    /// The time of the rollback, in milliseconds since 1970.
    at: u64,
    reason: String,
    replacement: Replacement,
}

/// The policy or component that serves after the rollback.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Replacement {
    /// A policy in JSON. Empty for the default policy.
    Policy(String),
    /// The digest of a component. The component is in a file next to the record.
    Component(String),
}

impl Replacement {
    fn digest(&self) -> String {
        match self {
            Self::Policy(policy) => digest(policy.as_bytes()),
            Self::Component(digest) => digest.clone(),
        }
    }
}

impl RolledBack {
    /// Opens the record in `file`, which the first rollback creates. A damaged or unreadable record
    /// counts as empty.
    #[must_use]
    pub fn open(file: PathBuf) -> Self {
        let entries = match std::fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| {
                warn!("the record of rollbacks {} is ignored: {error}", file.display());
                VecDeque::new()
            }),
            Err(_) => VecDeque::new(),
        };
        Self { file: Some(file), entries }
    }

    fn find(&self, digest: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.digest == digest)
    }

    /// Returns the entry whose replacement currently serves instead of the contents with this
    /// digest. Follows replacements that were later rolled back themselves. `None` if the contents
    /// were not rolled back.
    fn find_last(&self, digest: &str) -> Option<&Entry> {
        let mut last = self.find(digest)?;
        // The number of entries bounds the walk even if a damaged record has a cycle.
        for _ in 0..self.entries.len() {
            let Some(next) = self.find(&last.replacement.digest()) else { break };
            last = next;
        }
        Some(last)
    }

    /// Returns the reason for the rollback of contents with this digest. `None` if they were not
    /// rolled back.
    #[must_use]
    pub fn reason(&self, digest: &str) -> Option<&str> {
        self.find(digest).map(|entry| entry.reason.as_str())
    }

    /// Returns the policy that replaces `policy`, in JSON. `None` if `policy` was not rolled back.
    #[must_use]
    pub fn policy_instead_of(&self, policy: &Source) -> Option<String> {
        let entry = self.find_last(&digest(policy.json().as_bytes()))?;
        let Replacement::Policy(replacement) = &entry.replacement else { return None };
        let name = policy.path.as_deref().map_or("the policy".into(), Path::to_string_lossy);
        warn_at_start(&name, entry);
        Some(replacement.clone())
    }

    /// Returns the component that replaces `bytes`, the component read from `path`. `None` if it
    /// was not rolled back, or its replacement was lost.
    #[must_use]
    pub fn component_instead_of(&self, path: &Path, bytes: &[u8]) -> Option<Vec<u8>> {
        let entry = self.find_last(&digest(bytes))?;
        let Replacement::Component(replacement) = &entry.replacement else { return None };
        let stored = std::fs::read(self.component_file(replacement)?).ok()?;
        // The file may be damaged.
        let stored = Some(stored).filter(|stored| digest(stored) == *replacement)?;
        warn_at_start(&path.to_string_lossy(), entry);
        Some(stored)
    }

    fn component_file(&self, digest: &str) -> Option<PathBuf> {
        Some(self.file.as_ref()?.with_extension(format!("{}.wasm", digest.get(..16)?)))
    }

    /// Records a rollback from `bad` to `target` at `rolled_back_at_ms`, in milliseconds since
    /// 1970. Of policy and component, only those that differ between the two are recorded as bad.
    pub(super) fn add(
        &mut self,
        bad: &Revision,
        target: &Revision,
        reason: &str,
        rolled_back_at_ms: u64,
    ) {
        let mut entry = |digest: &str, replacement| {
            self.entries.retain(|entry| entry.digest != digest);
            let (digest, reason) = (digest.to_owned(), reason.to_owned());
            self.entries.push_back(Entry { digest, at: rolled_back_at_ms, reason, replacement });
        };
        let (old, new) = (&bad.origin, &target.origin);
        if old.policy != new.policy {
            entry(&old.policy, Replacement::Policy(target.policy.clone()));
        }
        if old.component != new.component {
            entry(&old.component, Replacement::Component(new.component.clone()));
        }
        while self.entries.len() > MAX_ENTRIES {
            self.entries.pop_front();
        }
        self.save(Some(target));
    }

    /// Removes the policy and component of a revision from the record, because it serves again.
    pub(super) fn forget(&mut self, revision: &Revision) {
        let Revision { origin, .. } = revision;
        let before = self.entries.len();
        self.entries.retain(|entry| ![&origin.policy, &origin.component].contains(&&entry.digest));
        if self.entries.len() != before {
            self.save(None);
        }
    }

    fn save(&self, target: Option<&Revision>) {
        if let Some(file) = &self.file
            && let Err(error) = self.write(file, target)
        {
            warn!(
                "cannot write {}: after a restart the rolled-back revision is deployed again: {error}",
                file.display()
            );
        }
    }

    fn write(&self, file: &Path, target: Option<&Revision>) -> Result<()> {
        let mut folder = std::fs::DirBuilder::new();
        folder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
        if let Some(parent) = file.parent() {
            folder.create(parent)?;
        }
        if let Some(target) = target
            && let Some(path) = self.component_file(&target.origin.component)
            && self.replaces(&target.origin.component)
        {
            std::fs::write(path, target.component.bytes()?)?;
        }
        // A process that ends while it writes must leave the old record.
        let new = file.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(&self.entries).unwrap_or_default())?;
        std::fs::rename(new, file)?;
        self.remove_unused_components(file);
        Ok(())
    }

    fn replaces(&self, component: &str) -> bool {
        self.entries.iter().any(
            |entry| matches!(&entry.replacement, Replacement::Component(own) if own == component),
        )
    }

    fn remove_unused_components(&self, file: &Path) {
        let (Some(folder), Some(stem)) = (file.parent(), file.file_stem()) else { return };
        let used: Vec<PathBuf> = self
            .entries
            .iter()
            .filter_map(|entry| match &entry.replacement {
                Replacement::Component(digest) => self.component_file(digest),
                Replacement::Policy(_) => None,
            })
            .collect();
        let stored = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for path in stored.map(|stored| stored.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_own = name.starts_with(&*stem.to_string_lossy()) && name.ends_with(".wasm");
            if is_own && !used.contains(&path) {
                let _ = std::fs::remove_file(&path);
            }
        }
    }
}

fn warn_at_start(name: &str, entry: &Entry) {
    warn!(
        "{name} was rolled back before this start and is not deployed: {}; the one before it serves; change the file, or run `context-guard revisions reload` to deploy it",
        entry.reason
    );
}
