//! Builds the npm package: the core for browsers, with JavaScript bindings, optimized for size.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use wasm_bindgen_cli_support::Bindgen;

use crate::build;

/// The npm package of the program that optimizes wasm for size.
const OPTIMIZER: &str = "binaryen@132.0.0";
/// The wasm features that all browsers of recent years have, and that the optimizer may use.
const FEATURES: [&str; 7] = [
    "bulk-memory",
    "simd",
    "sign-ext",
    "mutable-globals",
    "nontrapping-float-to-int",
    "reference-types",
    "multivalue",
];

/// The modules of the package: the file, and the features of the core. The second is loaded for the
/// first call that needs it.
const MODULES: [(&str, &str); 2] =
    [("context_guard_bg.wasm", ""), ("context_guard_jq_bg.wasm", "jq")];
/// The generated file with the bindings of both modules.
const BINDINGS: &str = "context_guard.js";

/// Builds the folder `npm/context-guard` below `folder`, and packs it as an npm package.
pub(crate) fn package(folder: &Path) -> Result<()> {
    let package = folder.join("npm/context-guard");
    if package.exists() {
        std::fs::remove_dir_all(&package)?;
    }
    std::fs::create_dir_all(&package)?;
    let source = build::root().join("guest/browser/js");
    for file in std::fs::read_dir(&source)? {
        let file = file?.path();
        std::fs::copy(&file, package.join(file.file_name().context("a file without a name")?))?;
    }
    std::fs::copy(build::root().join("LICENSE"), package.join("LICENSE"))?;
    let mut bindings = Vec::new();
    for (file, features) in MODULES {
        let options = ["--features", features];
        let module =
            build::guest("context-guard-browser", "small", "wasm32-unknown-unknown", &options)?;
        bindings.push(bind(&module, &package.join(file))?);
    }
    bindings.dedup();
    let [generated] = bindings.as_slice() else {
        bail!("the modules of the npm package have different bindings");
    };
    std::fs::write(package.join(BINDINGS), as_function(generated)?)?;
    build::run(
        Command::new("npm")
            .args(["pack", "--silent", "--pack-destination"])
            .arg(folder)
            .current_dir(&package)
            .stdout(std::process::Stdio::null()),
    )
}

/// Writes a module, optimized for size, and returns its generated JavaScript bindings.
fn bind(module: &Path, to: &Path) -> Result<String> {
    let folder = build::target().join("bindings");
    // Both modules import from one name.
    Bindgen::new()
        .input_path(module)
        .out_name("context_guard")
        .web(true)?
        .typescript(false)
        .omit_default_module_path(true)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate(&folder)?;
    let features = FEATURES.map(|feature| format!("--enable-{feature}"));
    build::run(
        Command::new("node")
            .arg(optimizer()?)
            .args(["-Oz", "--converge", "--strip-debug", "--strip-producers"])
            .args(features)
            .arg(folder.join("context_guard_bg.wasm"))
            .arg("-o")
            .arg(to),
    )?;
    Ok(std::fs::read_to_string(folder.join(BINDINGS))?)
}

/// Returns the bindings as a function `bind`, which returns new ones for each module: generated
/// bindings are for one module, and service workers cannot import a second file later.
fn as_function(bindings: &str) -> Result<String> {
    const EXPORT: &str = "export { initSync, __wbg_init as default };";
    const CLASS: &str = "export class ";
    // The package has types of its own.
    let is_comment =
        |line: &&str| ["/**", "* ", "*/"].iter().any(|mark| line.trim_start().starts_with(mark));
    let code: Vec<&str> = bindings.lines().filter(|line| !is_comment(line)).collect();
    let code = code.join("\n");
    let body = code.trim_end().strip_suffix(EXPORT).context("the bindings have new exports")?;
    let classes = body.lines().filter_map(|line| line.strip_prefix(CLASS)?.split(' ').next());
    let classes: Vec<&str> = classes.collect();
    let body = body.replace(CLASS, "class ");
    if classes.is_empty() || body.contains("\nexport ") {
        bail!("the bindings have new exports");
    }
    let names = classes.join(", ");
    Ok(format!(
        "export function bind() {{\n{body}return {{ {names}, initialize: __wbg_init }};\n}}\n"
    ))
}

fn optimizer() -> Result<std::path::PathBuf> {
    let folder = build::target().join("tools").join(OPTIMIZER.replace('@', "-"));
    let program = folder.join("node_modules/binaryen/bin/wasm-opt");
    if !program.exists() {
        std::fs::create_dir_all(&folder)?;
        let install = || {
            build::run(
                Command::new("npm")
                    .args(["install", "--no-fund", "--no-audit", "--loglevel=error", "--prefix"])
                    .arg(&folder)
                    .arg(OPTIMIZER),
            )
        };
        install().or_else(|_| install()).context("the npm package needs node and npm")?;
    }
    Ok(program)
}
