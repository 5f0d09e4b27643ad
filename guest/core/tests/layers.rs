//! The layer order of `ARCHITECTURE.md`: the crate graph, the layers inside the core, and the
//! absence of cycles between modules.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use imports::{Import, Module, cycles, imports, modules};

/// The folders of all released crates, without the prefix `context-guard-`, each with the crates
/// that it may use. Tests, benches and the task runner may use all.
const CRATES: &[(&str, &[&str])] = &[
    // Shared by guests and hosts. None of them performs I/O.
    ("json", &[]),
    ("text", &["json"]),
    ("tokens", &["json"]),
    ("protocol", &["json"]),
    ("catalogue", &[]),
    ("core", &["catalogue", "json", "text", "tokens", "protocol"]),
    // Guests.
    ("code-sandbox", &["json"]),
    ("component", &["core", "protocol"]),
    ("browser", &["core", "protocol"]),
    ("envoy", &["core", "protocol"]),
    ("http", &["protocol"]),
    ("http-forward", &[]),
    ("http-p2", &["http"]),
    ("http-p3", &["http"]),
    ("store", &[]),
    // The example server of `context-guard demo`.
    ("property-server", &[]),
    // Hosts.
    ("history", &["protocol"]),
    ("grpc", &[]),
    ("sealing", &[]),
    ("cursor-store", &["sealing"]),
    ("config", &["protocol"]),
    ("install", &["config"]),
    ("access", &["config", "protocol"]),
    ("oauth", &["access", "config", "sealing"]),
    ("bundle", &["access", "config", "cursor-store", "sealing"]),
    ("engine", &["cursor-store"]),
    ("code", &["engine"]),
    ("revision", &["config", "cursor-store", "engine", "protocol"]),
    ("telemetry", &["config", "cursor-store", "engine", "history", "protocol", "revision"]),
    ("filter", &["config", "cursor-store", "engine", "protocol", "revision", "telemetry"]),
    (
        "gateway",
        &[
            "access",
            "code",
            "config",
            "cursor-store",
            "engine",
            "filter",
            "grpc",
            "history",
            "oauth",
            "protocol",
            "revision",
            "sealing",
            "telemetry",
        ],
    ),
    (
        "",
        &[
            "access",
            "bundle",
            "code",
            "config",
            "cursor-store",
            "engine",
            "filter",
            "gateway",
            "history",
            "install",
            "oauth",
            "property-server",
            "protocol",
            "revision",
            "telemetry",
        ],
    ),
];

/// Crates that are not released, such as tests, and may depend on any other.
const TOOLS: &[&str] = &[
    "bench-answers",
    "fuzz",
    "suite",
    "test-kit",
    "test-serve",
    "test-stub",
    "test-support",
    "xtask",
];

/// The layers of the core from low to high. A module imports only lower layers.
const CORE_LAYERS: &[&[&str]] = &[
    &["blocks", "decimal", "json", "text", "tokens"],
    &["encoding"],
    &["fields"],
    &["policy", "snapshot"],
    &["query"],
    &["record"],
    &["shape"],
    &["protocol", "mcp"],
    &["catalogue"],
    &["guard"],
];

/// Imports against the order of layers that still exist, as importing and imported module. Remove
/// an entry with its import.
const CORE_EXCEPTIONS: &[(&str, &str)] = &[];

/// Folders whose modules still import each other in cycles. Remove an entry with its cycle.
const CYCLES: &[&str] = &[];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns, for each crate, its folder and the workspace crates that it uses. Names are without the
/// prefix `context-guard-`.
fn crates() -> BTreeMap<String, (PathBuf, Vec<String>)> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .unwrap_or_else(|error| panic!("cargo metadata: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let short = |name: &serde_json::Value| {
        let rest = name.as_str()?.strip_prefix("context-guard")?;
        Some(rest.trim_start_matches('-').to_owned())
    };
    let packages = metadata["packages"].as_array().unwrap();
    packages
        .iter()
        .map(|package| {
            let name = short(&package["name"]).unwrap();
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            let dependencies = package["dependencies"].as_array().unwrap();
            // Dev-dependencies ship nothing and may point upward.
            let used = dependencies.iter().filter(|dependency| dependency["kind"] != "dev");
            let used = used.filter_map(|dependency| short(&dependency["name"])).collect();
            (name, (manifest.parent().unwrap().to_owned(), used))
        })
        .collect()
}

fn crate_violation(table: &[(&str, &[&str])], user: &str, used: &str) -> Option<String> {
    match table.iter().find(|(name, _)| *name == user) {
        None => {
            Some(format!("context-guard-{user} is not in CRATES of guest/core/tests/layers.rs"))
        }
        Some((_, allowed)) if allowed.contains(&used) => None,
        Some(_) => Some(format!("context-guard-{user} must not use context-guard-{used}")),
    }
}

#[test]
fn crates_use_only_lower_crates() {
    let mut violations = Vec::new();
    for (user, (_, used)) in crates() {
        if !TOOLS.contains(&user.as_str()) {
            // A crate without dependencies must be in the table, too.
            let used = used.iter().filter(|used| !used.is_empty() || !user.is_empty());
            violations.extend(used.filter_map(|used| crate_violation(CRATES, &user, used)));
            if !CRATES.iter().any(|(name, _)| *name == user) {
                violations.extend(crate_violation(CRATES, &user, ""));
            }
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

/// Returns the imports in the core that point to the same or a higher layer.
fn layer_violations(layers: &[&[&str]], modules: &[Module], imports: &[Import]) -> Vec<String> {
    let layer = |name: &str| layers.iter().position(|layer| layer.contains(&name));
    let mut violations = BTreeSet::new();
    for import in imports {
        let (Some(user), Some(used)) =
            (import.from.first().map(String::as_str), import.to.first().map(String::as_str))
        else {
            continue;
        };
        let is_module =
            modules.iter().any(|module| module.path.first().is_some_and(|top| top == used));
        if user == used || !is_module || CORE_EXCEPTIONS.contains(&(user, used)) {
            continue;
        }
        match (layer(user), layer(used)) {
            (Some(from), Some(to)) if from > to => {}
            (Some(_), Some(_)) => {
                violations.insert(format!("{user} must not import {used}: {}", import.file));
            }
            _ => {
                violations.insert(format!("{user} or {used} is not in CORE_LAYERS"));
            }
        }
    }
    violations.into_iter().collect()
}

#[test]
fn core_modules_import_only_lower_layers() {
    let modules = modules(&root().join("guest/core/src"));
    let imports: Vec<_> = modules.iter().flat_map(|module| imports(module, &modules)).collect();
    assert!(imports.len() > 100, "only {} imports were found", imports.len());
    let violations = layer_violations(CORE_LAYERS, &modules, &imports);
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn modules_have_no_cycles() {
    let mut found = Vec::new();
    for (name, (folder, _)) in crates() {
        if TOOLS.contains(&name.as_str()) || !folder.join("src").is_dir() {
            continue;
        }
        let modules = modules(&folder.join("src"));
        let imports: Vec<_> = modules.iter().flat_map(|module| imports(module, &modules)).collect();
        // `core_modules_import_only_lower_layers` checks the core's top level.
        let cycles = cycles(&imports)
            .into_iter()
            .filter(|(parent, _)| !(name == "core" && parent.is_empty()));
        for (parent, cycle) in cycles {
            let name = if name.is_empty() { "host" } else { &name };
            let place = format!("{name}::{parent}");
            if !CYCLES.contains(&place.as_str()) {
                found.push(format!("{place}: {}", cycle.join(", ")));
            }
        }
    }
    assert!(found.is_empty(), "modules import each other in cycles:\n{}", found.join("\n"));
}

#[test]
fn forbidden_crate_is_reported() {
    assert_eq!(
        crate_violation(CRATES, "json", "core"),
        Some("context-guard-json must not use context-guard-core".to_owned())
    );
    assert!(crate_violation(CRATES, "unknown", "core").is_some());
    assert_eq!(crate_violation(CRATES, "core", "json"), None);
}

#[test]
fn forbidden_import_is_reported() {
    let module = |path: &[&str], text: &str| Module {
        path: path.iter().map(|name| (*name).to_owned()).collect(),
        file: path.join("/"),
        text: text.to_owned(),
    };
    let modules = [
        module(&["policy", "compile"], "use super::super::shape::{plan, view::{self, View}};"),
        module(&["shape"], "use crate::{json::Span, policy::Limits};"),
        module(&["shape", "view"], "//! crate::guard\nfn f() { crate::query::run() }"),
        module(&["query"], "#[cfg(test)]\nmod tests { use crate::shape; }"),
    ];
    let imports: Vec<_> = modules.iter().flat_map(|module| imports(module, &modules)).collect();
    assert_eq!(
        layer_violations(&[&["policy"], &["query"], &["shape"]], &modules, &imports),
        ["policy must not import shape: policy/compile"]
    );
    assert_eq!(cycles(&imports), [("".to_owned(), vec!["policy".to_owned(), "shape".to_owned()])]);
}
