//! A guard component that forwards every message unchanged.

use std::path::PathBuf;
use std::sync::LazyLock;

use context_guard_test_stub::{FORWARD, component_that};

/// Returns the path of the component, which is built once.
pub(crate) fn path() -> PathBuf {
    static FILE: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stub.wasm");
        std::fs::write(&path, component_that(FORWARD).unwrap()).unwrap();
        (folder, path)
    });
    FILE.1.clone()
}
