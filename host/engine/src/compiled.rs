//! Where compiled components are kept between starts: compiling takes longer than all else that a start does.

use std::path::{Path, PathBuf};

use tracing::warn;
use wasmtime::{Cache, CacheConfig};

/// The folder of this user: `context-guard/compiled` in `XDG_CACHE_HOME`, else in `.cache` of `HOME`; none where neither is an absolute path.
#[must_use]
pub fn compiled_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    variable("XDG_CACHE_HOME")
        .or_else(|| Some(variable("HOME")?.join(".cache")))
        .map(|folder| folder.join("context-guard/compiled"))
        .filter(|folder| folder.is_absolute())
}

/// A cache in a folder that nobody else may write to: what is in it is run. None where that cannot be had, and all is compiled anew.
pub(super) fn cache(folder: &Path) -> Option<Cache> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).ok()?;
    if !is_own(folder) {
        warn!(
            "Compiled components are not kept, and every start compiles: {} may be written by others. Make it yours alone, or set XDG_CACHE_HOME.",
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
