//! The path under which clients start this program.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Parts of the paths of folders in which launchers keep programs only temporarily: npx, uvx, pipx,
/// `pnpm dlx`, bunx and `yarn dlx`.
const CACHES: [&str; 7] = [
    "/_npx/",
    "/archive-v0/",
    "/environments-v2/",
    "/pipx/.cache/",
    "/pnpm/dlx/",
    "/bunx-",
    "/dlx-",
];

/// Returns the absolute path of this program. Prefers a link on `PATH` to its target, because the
/// target moves with each version, for example with Homebrew.
pub(crate) fn own_path() -> Result<String> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let path = on_path(&program).unwrap_or(program);
    let path = path.to_str().context("the path of this program is not UTF-8: move it")?;
    Ok(path.to_owned())
}

fn on_path(program: &Path) -> Option<PathBuf> {
    let found = which::which("context-guard").ok()?;
    let found = std::path::absolute(found).ok()?;
    (found.canonicalize().ok()? == program.canonicalize().ok()?).then_some(found)
}

/// Returns true if a launcher such as npx or uvx may remove the program at `path`.
pub(crate) fn is_temporary(path: &str) -> bool {
    let path = path.replace('\\', "/");
    CACHES.iter().any(|cache| path.contains(cache))
}

#[cfg(test)]
mod tests {
    use super::is_temporary;

    #[test]
    fn caches_of_launchers_are_temporary() {
        assert!(is_temporary("/home/a/.npm/_npx/1f/node_modules/x/bin/context-guard"));
        assert!(is_temporary("/home/a/.cache/uv/archive-v0/ab/bin/context-guard"));
        assert!(is_temporary("/home/a/.cache/pnpm/dlx/1/2/node_modules/x/bin/context-guard"));
        assert!(is_temporary("/tmp/bunx-1000-context-guard@latest/node_modules/context-guard"));
        assert!(is_temporary("/tmp/xfs-1a/dlx-22/node_modules/context-guard"));
        assert!(!is_temporary("/home/a/.local/bin/context-guard"));
    }
}
