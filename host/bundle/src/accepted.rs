//! The number of the last bundle that a gateway accepted. It persists across restarts, so that an
//! older bundle is always refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use context_guard_cursor_store::{CursorStore, FLEET_PRINCIPAL};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::layout::{read_file, write};
use crate::{Bundle, Error, Result, with_path};

/// The name of the entry for the number in the shared store.
const ENTRY: &str = "bundle-number";
/// The lifetime of the number in the shared store. Each bundle and each start writes the number
/// again.
const LIFETIME: Duration = Duration::from_secs(400 * 86_400);

/// The number and the digest of an accepted bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Accepted {
    number: u64,
    digest: String,
}

/// The number of the last accepted bundle. It is in a file, and in the store if the store is
/// shared.
pub struct AcceptedNumber {
    /// The file with the number. The last deployed bundle is next to it.
    file: PathBuf,
    last: Option<Accepted>,
    store: Arc<dyn CursorStore>,
    is_warned: bool,
}

impl AcceptedNumber {
    /// Reads the number in `file`. A missing file has no number.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the file is damaged, because an old bundle would be accepted without
    /// its number. [`Error::File`] if it cannot be read.
    pub fn open(file: PathBuf, store: Arc<dyn CursorStore>) -> Result<Self> {
        let last = match std::fs::read(&file) {
            Ok(text) => Some(serde_json::from_slice(&text).map_err(|error| {
                Error::Invalid(format!(
                    "{} is damaged: {error}; delete it to accept any bundle",
                    file.display()
                ))
            })?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(with_path(&file)(error)),
        };
        Ok(Self { file, last, store, is_warned: false })
    }

    /// Returns the number of the last accepted bundle. `None` before the first.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.last.as_ref().map(|last| last.number)
    }

    /// Accepts an authentic bundle. Stores its number. A failure to store the number is only
    /// logged.
    ///
    /// # Errors
    /// [`Error::Refused`] if the bundle is older than the last one, or is another one with the same
    /// number.
    pub fn accept(&mut self, bundle: &Bundle) -> Result<()> {
        compare(bundle, self.last.as_ref())?;
        let own = Accepted { number: bundle.number, digest: bundle.digest.clone() };
        if self.last.as_ref() != Some(&own) {
            self.last = Some(own);
            self.save();
        }
        Ok(())
    }

    /// Compares a bundle with the number that other replicas have accepted. Accepts the bundle if
    /// the store is not shared or is unreachable.
    ///
    /// # Errors
    /// [`Error::Refused`] if other replicas have accepted a newer bundle, or another one with the
    /// same number.
    pub fn compare_with_fleet(&mut self, bundle: &Bundle) -> Result<()> {
        if !self.store.may_block() {
            return Ok(());
        }
        let found = self.store.get(FLEET_PRINCIPAL, &[ENTRY.to_owned()]).ok();
        let found = found.and_then(|found| found.into_iter().next().flatten());
        let other = found.and_then(|bytes| serde_json::from_slice::<Accepted>(&bytes).ok());
        compare(bundle, other.as_ref())
    }

    /// Stores a deployed bundle, which the next start uses if the source of bundles is unreachable.
    /// Writes its number to the shared store for the other replicas. Failures are not returned: one
    /// of the disk is logged once.
    pub fn deployed(&mut self, bytes: &[u8]) {
        let stored = write(&self.bundle_file(), bytes);
        self.warn_once(stored);
        self.tell_fleet();
    }

    fn tell_fleet(&self) {
        if let Some(last) = self.last.as_ref().filter(|_| self.store.may_block()) {
            let entry = (ENTRY.to_owned(), serde_json::to_vec(last).unwrap_or_default());
            // Without the store, the file of each replica has the number.
            let _ = self.store.put(FLEET_PRINCIPAL, vec![entry], LIFETIME);
        }
    }

    /// Returns the bundle that was deployed last.
    ///
    /// # Errors
    /// [`Error::File`] if there is none, or it cannot be read. [`Error::Invalid`] if it is too
    /// large.
    pub fn last_deployed(&self) -> Result<Vec<u8>> {
        read_file(&self.bundle_file())
    }

    fn bundle_file(&self) -> PathBuf {
        self.file.with_extension("bundle")
    }

    fn save(&mut self) {
        let text = serde_json::to_vec(&self.last).unwrap_or_default();
        let written = create_folder(&self.file).and_then(|()| write(&self.file, &text));
        self.warn_once(written);
    }

    fn warn_once(&mut self, written: Result<()>) {
        if let Err(error) = written
            && !std::mem::replace(&mut self.is_warned, true)
        {
            warn!(
                "the number of the bundle cannot be stored: {error}; after a restart, an older bundle is accepted unless the shared store has its number. Set bundle.state to a folder that can be written"
            );
        }
    }
}

fn compare(bundle: &Bundle, last: Option<&Accepted>) -> Result<()> {
    match last {
        Some(last) if bundle.number < last.number => Err(Error::Refused(format!(
            "the bundle has number {}, and number {} was accepted before: an older bundle is never deployed again. Create one with a larger number",
            bundle.number, last.number
        ))),
        Some(last) if bundle.number == last.number && bundle.digest != last.digest => {
            Err(Error::Refused(format!(
                "the bundle has number {}, which another bundle had: create one with a larger number",
                bundle.number
            )))
        }
        _ => Ok(()),
    }
}

/// Creates the folder of a file, which only the user can read.
fn create_folder(file: &Path) -> Result<()> {
    let Some(parent) = file.parent() else { return Ok(()) };
    let mut folder = std::fs::DirBuilder::new();
    folder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder.create(parent).map_err(with_path(parent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Contents;
    use context_guard_cursor_store::NoStore;

    fn opened(file: &Path) -> AcceptedNumber {
        AcceptedNumber::open(file.to_owned(), Arc::new(NoStore)).unwrap()
    }

    fn bundle(number: u64) -> Bundle {
        Bundle::new(number, Contents::default()).unwrap()
    }

    #[test]
    fn older_number_is_refused_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bundles/one.json");
        let (new, old) = (bundle(8), bundle(7));
        let mut accepted = opened(&file);
        accepted.accept(&old).unwrap();
        accepted.accept(&new).unwrap();
        assert!(matches!(accepted.accept(&old), Err(Error::Refused(_))));
        let mut again = opened(&file);
        assert!(matches!(again.accept(&old), Err(Error::Refused(_))));
        again.accept(&new).unwrap();
        assert_eq!(again.number(), Some(8));
        // The same number with other contents.
        assert!(matches!(again.accept(&bundle(8)), Err(Error::Refused(_))));
    }

    #[test]
    fn damaged_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("one.json");
        std::fs::write(&file, "{").unwrap();
        assert!(AcceptedNumber::open(file, Arc::new(NoStore)).is_err());
    }
}
