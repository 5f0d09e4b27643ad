//! Builds the program as it is released. It contains the list of its dependencies, and its bytes do
//! not depend on the folder of the build. On Linux it runs with an old C library.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::build::{self, cargo, step, target};
use crate::{packages, tools};

/// Stores the list of dependencies in the program, in the section `.dep-v0`.
const AUDITABLE: &str = "0.7.7";
/// Links with the symbols of a given glibc: a program that is linked on a newer system would not
/// start on an older one.
const ZIG: [&str; 2] = ["cargo-zigbuild==0.24.1", "ziglang==0.17.1"];
/// The oldest glibc that the program supports: that of Debian 10, Ubuntu 18.10 and RHEL 8.
const GLIBC: &str = "2.28";

/// The profile of cargo, optimized for size.
const PROFILE: &str = "dist";

/// The maximum size of the program, in bytes. Find out why it grew before you raise the limit.
const MAX_BYTES: u64 = 25_000_000;
/// The same for a static program, which contains the C library.
const MAX_STATIC_BYTES: u64 = 26_000_000;

/// A program that was built.
pub(crate) struct Program {
    /// The target of rustc.
    pub(crate) triple: String,
    pub(crate) file: PathBuf,
}

/// Builds the program for this machine, and prints its path.
pub(crate) fn run(is_static: bool) -> Result<()> {
    let program = build(is_static)?;
    eprintln!("{}={}", program.triple, program.file.display());
    Ok(())
}

/// Builds the program for this machine. A static program contains its C library, and runs without
/// any file beside it.
pub(crate) fn build(is_static: bool) -> Result<Program> {
    let component = build::component()?;
    build::sandbox()?;
    let triple = host_triple()?;
    let auditable = tools::install("cargo-auditable", AUDITABLE, &[])?;
    let mut folders: Vec<PathBuf> = auditable.parent().map(PathBuf::from).into_iter().collect();
    let is_gnu = triple.ends_with("-linux-gnu");
    if is_static && !is_gnu {
        bail!("a static program is built on Linux with glibc only, not for {triple}");
    }
    let mut flags = build::remapped_paths();
    let mut folder = target();
    if is_static {
        flags.push("-Ctarget-feature=+crt-static".to_owned());
        folder.push("static");
    }
    let (command, linked) = if is_gnu && !is_static {
        folders.push(zig()?);
        ("zigbuild", format!("{triple}.{GLIBC}"))
    } else {
        ("build", triple.clone())
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(folders.into_iter().chain(std::env::split_paths(&path)))?;
    // C sources have the flag under another name.
    let prefixes: Vec<String> = build::machine_folders()
        .into_iter()
        .map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()))
        .collect();
    step!("Building the program for {linked}. The first build takes a quarter of an hour.");
    let mut cargo = build::embed(cargo(), &component);
    if !cfg!(windows) {
        cargo.env("TARGET_CFLAGS", prefixes.join(" "));
    }
    build::run(
        cargo
            .env("PATH", path)
            .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
            .env("CARGO_TARGET_DIR", &folder)
            .args(["auditable", command, "--profile", PROFILE, "--target", linked.as_str()])
            .args(["--package", "context-guard", "--bin", "context-guard"]),
    )?;
    let name = format!("context-guard{}", std::env::consts::EXE_SUFFIX);
    let file = folder.join(&triple).join(PROFILE).join(name);
    if is_static {
        // The symbols of the C library remain in spite of the profile.
        build::run(Command::new("strip").arg(&file))?;
    }
    let bytes = std::fs::metadata(&file)?.len();
    let max = if is_static { MAX_STATIC_BYTES } else { MAX_BYTES };
    if bytes > max {
        bail!("{} has {bytes} bytes, more than {max}", file.display());
    }
    Ok(Program { file, triple })
}

/// Returns the target of rustc for this machine.
pub(crate) fn host_triple() -> Result<String> {
    let output = Command::new("rustc").current_dir(build::root()).arg("-vV").output()?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

/// Installs cargo-zigbuild and zig from PyPI, unless they are there, and returns their folder.
fn zig() -> Result<PathBuf> {
    let folder = target().join("tools/zig");
    let mark = folder.join("installed");
    let wanted = format!("{ZIG:?}");
    if std::fs::read_to_string(&mark).ok().as_deref() != Some(&wanted) {
        step!("Installing {} from PyPI into {}.", ZIG.join(", "), folder.display());
        packages::python(&folder, &ZIG)?;
        std::fs::write(mark, wanted)?;
    }
    Ok(folder.join("bin"))
}
