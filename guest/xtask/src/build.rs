//! Builds the guard component, the other guests, and the binary that embeds the component.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

/// The environment variable with the time since the task runner started, in milliseconds, for the
/// programs that it starts.
pub(crate) const ELAPSED: &str = "CONTEXT_GUARD_ELAPSED_MS";

/// Returns the time since the task runner started.
pub(crate) fn elapsed() -> Duration {
    static START: LazyLock<(Instant, Duration)> = LazyLock::new(|| {
        let before = std::env::var(ELAPSED).ok().and_then(|text| text.parse().ok());
        (Instant::now(), Duration::from_millis(before.unwrap_or_default()))
    });
    START.0.elapsed() + START.1
}

/// Prints what the task runner does next, after the minutes and seconds since its start.
macro_rules! step {
    ($($text:tt)*) => {{
        let seconds = $crate::build::elapsed().as_secs();
        eprintln!("[{:2}:{:02}] {}", seconds / 60, seconds % 60, format_args!($($text)*));
    }};
}
#[allow(unused_imports, reason = "this file is part of several programs")]
pub(crate) use step;

/// The paths of the guard component and the program `context-guard` that a build created.
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

/// Returns the root folder of the workspace. Cargo names the package that it runs, because
/// checkouts that share a target folder share the compiled program, too.
pub(crate) fn root() -> PathBuf {
    let named = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = named.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    let root = here.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    root.unwrap_or(&here).to_owned()
}

/// Returns the target folder of cargo, which contains all builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns a command that runs cargo in the root folder of the workspace.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// Runs a command and shows its output. Fails if the command fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = format!("{command:?}").replace('"', "");
    let status = command.status().with_context(|| format!("cannot be started: {name}"))?;
    if !status.success() {
        bail!("failed ({status}): {name}");
    }
    Ok(())
}

/// Installs the wasm targets that are missing. rustup installs the targets of rust-toolchain.toml
/// together with a new toolchain, but not if the toolchain was there before.
pub(crate) fn install_targets() -> Result<()> {
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
    step!("Installing the Rust targets {}.", missing.join(", "));
    let add =
        || run(Command::new("rustup").current_dir(root()).args(["target", "add"]).args(&missing));
    // Downloads fail at times; a second attempt often succeeds.
    add()
        .or_else(|_| add())
        .context("the wasm targets cannot be installed: check that rustup is installed and online")
}

/// The steps that were skipped since the start of the task runner.
pub(crate) static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Records and prints that the step `what` was skipped because of `reason`.
pub(crate) fn skipped(what: &str, reason: &str) {
    let note = format!("{what}: {reason}");
    eprintln!("skipped: {note}");
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).push(note);
}

/// The crates that are built for wasm only: the package, its target, and the features to check it
/// with. Native linkers cannot resolve their imports and exports.
pub(crate) const GUESTS: [(&str, &str, &str); 8] = [
    ("context-guard-code-sandbox", "wasm32-unknown-unknown", ""),
    ("context-guard-component", "wasm32-unknown-unknown", ""),
    ("context-guard-browser", "wasm32-unknown-unknown", ""),
    ("context-guard-envoy", "wasm32-wasip1", ""),
    ("context-guard-http-forward", "wasm32-wasip2", ""),
    ("context-guard-http-p2", "wasm32-wasip2", ""),
    ("context-guard-http-p3", "wasm32-wasip2", ""),
    ("context-guard-store", "wasm32-wasip2", "draft"),
];

/// Builds a wasm-only crate for its target, and returns the path of the wasm file.
pub(crate) fn guest(
    package: &str,
    profile: &str,
    triple: &str,
    options: &[&str],
) -> Result<PathBuf> {
    run(cargo()
        .arg("--config")
        .arg(format!("target.{triple}.rustflags = {:?}", remapped_paths()))
        .args(["rustc", "--quiet", "--profile", profile])
        .args(["--package", package, "--target", triple])
        .args(options))?;
    let file = format!("{}.wasm", package.replace('-', "_"));
    Ok(target().join(triple).join(profile).join(file))
}

/// Returns flags of rustc that replace the folders of this machine in messages of panics, so that
/// equal sources give equal artifacts in every folder.
pub(crate) fn remapped_paths() -> Vec<String> {
    let folders = machine_folders().into_iter();
    folders.map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect()
}

/// Returns the folders whose names depend on the machine, and the names that artifacts contain
/// instead.
pub(crate) fn machine_folders() -> Vec<(PathBuf, &'static str)> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
        let user = std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"))?;
        Some(PathBuf::from(user).join(".cargo"))
    });
    let cargo_home = home.map(|home| (home, "/cargo"));
    cargo_home.into_iter().chain([(root(), "/context-guard"), (target(), "/target")]).collect()
}

/// Linker arguments that produce a component instead of a core module. The linker, which the
/// toolchain has for wasm32-wasip2, encodes the world that wit-bindgen embeds. The WASI adapter is
/// left out, because it would change the versions of the imports.
const LINK_COMPONENT: [&str; 5] =
    ["--", "-C", "linker=wasm-component-ld", "-C", "link-arg=--wasi-adapter=none"];

/// Builds the guard component in its release form, and returns its path.
pub(crate) fn component() -> Result<PathBuf> {
    install_targets()?;
    step!("Building the guard component.");
    let built =
        guest("context-guard-component", "guest", "wasm32-unknown-unknown", &LINK_COMPONENT)?;
    copy_changed(&built, "context-guard.wasm")
}

/// The sandbox for programs, which needs a C compiler for wasm32.
pub(crate) const SANDBOX: &str = "context-guard-code-sandbox";
/// The name of the sandbox in the target folder, where builds of the program find it.
const SANDBOX_FILE: &str = "context-guard-code.wasm";

/// Builds the sandbox for programs, and returns its path. None without clang, which compiles the
/// JavaScript engine.
pub(crate) fn sandbox() -> Result<Option<PathBuf>> {
    install_targets()?;
    if !has_clang() {
        skipped(
            "the sandbox for programs, which the setting code.enabled needs",
            "no clang with the target wasm32 is installed",
        );
        return Ok(None);
    }
    step!("Building the sandbox for programs.");
    let built = guest(SANDBOX, "guest", "wasm32-unknown-unknown", &LINK_COMPONENT)?;
    copy_changed(&built, SANDBOX_FILE).map(Some)
}

/// Returns true if a clang is installed that compiles C to WebAssembly. That of Apple does not.
pub(crate) fn has_clang() -> bool {
    let targets = Command::new("clang").arg("--print-targets").output();
    targets.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("wasm32"))
}

/// Builds the guard component with fault injection, for the tests of rollout and rollback.
pub(crate) fn faulty_component() -> Result<PathBuf> {
    let options = [FAULTS.as_slice(), LINK_COMPONENT.as_slice()].concat();
    let built = with_faults("context-guard-component", "wasm32-unknown-unknown", &options)?;
    copy_changed(&built, "faulty.wasm")
}

/// Builds the Envoy filter with fault injection, for the tests of filters that panic.
pub(crate) fn faulty_filter() -> Result<PathBuf> {
    with_faults("context-guard-envoy", "wasm32-wasip1", &FAULTS)
}

const FAULTS: [&str; 2] = ["--features", "fault-injection"];

/// Builds a wasm-only crate with fault injection. The profile is one that compiles quickly, and
/// whose folder keeps the release build.
fn with_faults(package: &str, triple: &str, options: &[&str]) -> Result<PathBuf> {
    step!("Building {package} with fault injection.");
    guest(package, "fault-injection", triple, options)
}

/// Copies a file to the target folder, and returns its new path. An unchanged file keeps its
/// modification time, so that the program is not linked again.
fn copy_changed(from: &Path, name: &str) -> Result<PathBuf> {
    let bytes = std::fs::read(from).with_context(|| from.display().to_string())?;
    let path = target().join(name);
    if std::fs::read(&path).ok().as_deref() != Some(&bytes) {
        std::fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    }
    Ok(path)
}

/// Cargo arguments that select the packages of the program and of the example server.
const PROGRAMS: [&str; 4] =
    ["--package", "context-guard", "--package", "context-guard-property-server"];

/// Builds the component, the binary with all features, and the example server.
pub(crate) fn all(release: bool) -> Result<Built> {
    sandbox()?;
    binary(release, &PROGRAMS)
}

/// Builds the program quickly, without its optional features except `features` and the tokenizer
/// that the demo uses.
pub(crate) fn lean(features: &[String]) -> Result<Built> {
    let mut all = "context-guard/exact-tokens".to_owned();
    for feature in features {
        all.push_str(&format!(",context-guard/{feature}"));
    }
    let lean = ["--no-default-features", "--features", all.as_str()];
    binary(false, &[PROGRAMS.as_slice(), &lean].concat())
}

/// Builds the component, the program and the helpers that the tests start. Selects the same
/// packages as the tests, because other packages would enable other features and compile wasmtime a
/// second time.
pub(crate) fn for_tests() -> Result<Built> {
    sandbox()?;
    binary(false, &[&["--examples"], native().as_slice()].concat())
}

/// Returns cargo arguments that select the packages of tests and benches: all but the wasm-only
/// crates and the fuzz targets.
pub(crate) fn native() -> Vec<&'static str> {
    let mut packages = without_guests();
    packages.extend(["--exclude", "context-guard-fuzz"]);
    packages
}

/// Returns cargo arguments that select all packages but the wasm-only crates.
pub(crate) fn without_guests() -> Vec<&'static str> {
    let guests = GUESTS.iter().flat_map(|(guest, ..)| ["--exclude", *guest]);
    ["--workspace"].into_iter().chain(guests).collect()
}

fn binary(release: bool, selection: &[&str]) -> Result<Built> {
    let profile: &[&str] = if release { &["--release"] } else { &[] };
    let folder = target().join(if release { "release" } else { "debug" });
    let binary = folder.join(format!("context-guard{}", std::env::consts::EXE_SUFFIX));
    // The last steps of the component's build use one processor. A first build of the program
    // compiles its dependencies meanwhile; a later one would compile its library twice.
    let is_first = !binary.is_file();
    let component = std::thread::scope(|scope| {
        let dependencies = is_first.then(|| {
            step!("Building the dependencies of the binary, which takes some minutes.");
            scope.spawn(|| run(cargo().args(["build", "--lib"]).args(selection).args(profile)))
        });
        let component = component();
        if let Some(dependencies) = dependencies {
            dependencies.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        component
    })?;
    step!("Building the binary.");
    run(embed(cargo(), &component).args(["build", "--bins"]).args(selection).args(profile))?;
    Ok(Built { component, binary })
}

/// Sets the environment variables through which the host's build script finds the component to
/// embed in the program, and the sandbox if it was built.
pub(crate) fn embed(mut cargo: Command, component: &Path) -> Command {
    cargo.env("CONTEXT_GUARD_EMBED", component);
    let sandbox = target().join(SANDBOX_FILE);
    if sandbox.is_file() {
        cargo.env("CONTEXT_GUARD_CODE_EMBED", sandbox);
    }
    cargo
}
