//! The cache of compiled guard components on disk. Compiling takes most of the time of a start.

use std::path::{Path, PathBuf};

use tracing::warn;
use wasmtime::{Cache, CacheConfig};

/// Returns the folder in which compiled components are cached for this user:
/// `context-guard/compiled` in `XDG_CACHE_HOME`, or else in `.cache` of `HOME`. `None` if that path
/// is not absolute.
#[must_use]
pub fn compiled_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    variable("XDG_CACHE_HOME")
        .or_else(|| Some(variable("HOME")?.join(".cache")))
        .map(|folder| folder.join("context-guard/compiled"))
        .filter(|folder| folder.is_absolute())
}

/// Opens the cache of compiled components in a folder. Returns `None` if other users can write to
/// the folder, because its contents are executed.
pub(super) fn cache(folder: &Path) -> Option<Cache> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).ok()?;
    if !is_own(folder) {
        warn!(
            "the cache of compiled components is disabled: others can write to {}; restrict its permissions or set XDG_CACHE_HOME",
            folder.display()
        );
        return None;
    }
    let mut config = CacheConfig::new();
    config.with_directory(folder);
    Cache::new(config).ok()
}

#[cfg(unix)]
fn is_own(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(folder).is_ok_and(|about| {
        about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o022 == 0
    })
}

#[cfg(not(unix))]
fn is_own(_: &Path) -> bool {
    true
}
