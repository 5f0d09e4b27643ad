//! The guard component, and the binary with it inside.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use wit_component::ComponentEncoder;

/// Where things are.
pub(crate) struct Built {
    pub(crate) component: PathBuf,
    pub(crate) binary: PathBuf,
}

impl Built {
    pub(crate) fn print(&self) {
        for path in [&self.component, &self.binary] {
            let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
            eprintln!("{bytes:>12} bytes  {}", path.display());
        }
    }
}

/// The workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// Runs a command, showing what it prints.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = format!("{command:?}").replace('"', "");
    let status = command.status().with_context(|| format!("could not start: {name}"))?;
    if !status.success() {
        bail!("failed ({status}): {name}");
    }
    Ok(())
}

/// Makes sure that the wasm targets are there: rustup installs those of rust-toolchain.toml with a new toolchain, not with one that was there before.
pub(crate) fn targets() -> Result<()> {
    let installed =
        Command::new("rustup").current_dir(root()).args(["target", "list", "--installed"]).output();
    let installed = installed
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let missing: Vec<_> = ["wasm32-unknown-unknown", "wasm32-wasip1", "wasm32-wasip2"]
        .into_iter()
        .filter(|name| !installed.contains(name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("Installing the Rust targets {}.", missing.join(", "));
    let add =
        || run(Command::new("rustup").current_dir(root()).args(["target", "add"]).args(&missing));
    add()
        .or_else(|_| add())
        .context("the wasm targets could not be installed: is rustup there, and the network?")
}

/// The crates that are built for wasm alone, each with its target and the features that it is looked over with: native linkers know nothing of what they import and export.
pub(crate) const GUESTS: [(&str, &str, &str); 7] = [
    ("context-guard-component", "wasm32-unknown-unknown", ""),
    ("context-guard-browser", "wasm32-unknown-unknown", ""),
    ("context-guard-envoy", "wasm32-wasip1", ""),
    ("context-guard-http-forward", "wasm32-wasip2", ""),
    ("context-guard-http-p2", "wasm32-wasip2", ""),
    ("context-guard-http-p3", "wasm32-wasip2", ""),
    ("context-guard-store", "wasm32-wasip2", "draft"),
];

/// Builds the crate of the component for a target, by plain cargo.
pub(crate) fn guest(triple: &str) -> Result<PathBuf> {
    crate_for("context-guard-component", "guest", triple, &[])
}

/// Builds a crate for a target, by plain cargo.
pub(crate) fn crate_for(
    package: &str,
    profile: &str,
    triple: &str,
    more: &[&str],
) -> Result<PathBuf> {
    crate_in(&target(), package, profile, triple, more)
}

fn crate_in(
    folder: &Path,
    package: &str,
    profile: &str,
    triple: &str,
    more: &[&str],
) -> Result<PathBuf> {
    run(cargo()
        .args(["build", "--quiet", "--profile", profile])
        .args(["--package", package, "--target", triple])
        .arg("--target-dir")
        .arg(folder)
        .args(more))?;
    let file = format!("{}.wasm", package.replace('-', "_"));
    Ok(folder.join(triple).join(profile).join(file))
}

/// Builds the component that ships.
pub(crate) fn component() -> Result<PathBuf> {
    targets()?;
    eprintln!("Building the guard component.");
    encode(&guest("wasm32-unknown-unknown")?, "context-guard.wasm")
}

/// Builds a component that does harm on demand, for the tests of hot swap.
pub(crate) fn sabotaged() -> Result<PathBuf> {
    let module = harmful("context-guard-component", "wasm32-unknown-unknown")?;
    encode(&module, "sabotaged.wasm")
}

/// Builds a filter of Envoy that panics on demand.
pub(crate) fn sabotaged_filter() -> Result<PathBuf> {
    harmful("context-guard-envoy", "wasm32-wasip1")
}

/// Builds a crate that does harm on demand. In a folder of its own, so that neither build undoes the other.
fn harmful(package: &str, triple: &str) -> Result<PathBuf> {
    eprintln!("Building {package} so that it does harm on demand.");
    crate_in(&target().join("sabotage"), package, "guest", triple, &["--features", "sabotage"])
}

/// Makes core wasm without WASI a component, with its world.
fn encode(module: &Path, name: &str) -> Result<PathBuf> {
    let module = std::fs::read(module)?;
    let component = ComponentEncoder::default()
        .module(&module)?
        .validate(true)
        .encode()
        .context("the module could not be made a component")?;
    let path = target().join(name);
    // An unchanged file keeps its time, so that the binary is not linked anew.
    if std::fs::read(&path).ok().as_deref() != Some(&component) {
        std::fs::write(&path, component)?;
    }
    Ok(path)
}

/// Builds the component, then the binary with it inside, and the example upstream beside it.
pub(crate) fn all(release: bool) -> Result<Built> {
    binary(release, &[])
}

/// The same with the programs of the tests, in the selection of packages in which the tests are run: another would have other features, and compile wasmtime again.
pub(crate) fn for_tests() -> Result<Built> {
    binary(false, &native())
}

/// The selection of packages for tests and benches: all but the crates that are built for wasm alone, and the fuzz targets.
pub(crate) fn native() -> Vec<&'static str> {
    let mut packages = without_guests();
    packages.extend(["--exclude", "context-guard-fuzz"]);
    packages
}

/// All packages but the crates that are built for wasm alone.
pub(crate) fn without_guests() -> Vec<&'static str> {
    let guests = GUESTS.iter().flat_map(|(guest, ..)| ["--exclude", *guest]);
    ["--workspace"].into_iter().chain(guests).collect()
}

fn binary(release: bool, packages: &[&str]) -> Result<Built> {
    let component = component()?;
    let profile: &[&str] = if release { &["--release"] } else { &[] };
    eprintln!(
        "Building the binary. The first time this compiles wasmtime, and takes some minutes."
    );
    run(embed(cargo(), &component)
        .args(["build", "--bins", "--examples"])
        .args(packages)
        .args(profile))?;
    let folder = target().join(if release { "release" } else { "debug" });
    Ok(Built { component, binary: folder.join("context-guard") })
}

/// Tells the host's build script which component to take in.
pub(crate) fn embed(mut cargo: Command, component: &Path) -> Command {
    cargo.env("CONTEXT_GUARD_EMBED", component);
    cargo
}
