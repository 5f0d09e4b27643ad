//! Builds the packages of the program in target/package. Called by `cargo xtask package`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests"))]
#![allow(clippy::print_stderr, reason = "a command line tool")]

#[path = "../package/archive.rs"]
mod archive;
#[allow(dead_code, reason = "shared with the task runner")]
#[path = "../build.rs"]
mod build;
#[path = "../package/inputs.rs"]
mod inputs;
#[path = "../package/kinds.rs"]
mod kinds;
#[path = "../package/measure.rs"]
mod measure;
#[path = "../package/oci.rs"]
mod oci;
#[allow(dead_code, reason = "shared with the task runner")]
#[path = "../packages.rs"]
mod packages;
#[path = "../package/registries.rs"]
mod registries;
#[path = "../package/sbom.rs"]
mod sbom;
#[path = "../package/signature.rs"]
mod signature;
#[path = "../package/table.rs"]
mod table;
#[path = "../package/validators.rs"]
mod validators;
#[path = "../package/verify.rs"]
mod verify;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Parser;

use archive::{BEST, Entry, sha256};
use kinds::{Input, Package};
use oci::Layout;
use sbom::Bills;
use table::{Target, VERSION};
use validators::Tools;

/// The maximum size of the program, and of its archive.
const MAX_BYTES: usize = 25_000_000;
const MAX_COMPRESSED_BYTES: usize = 10_000_000;
/// The file with the digests of all packages.
const SUMS: &str = "SHA256SUMS";

/// Build the packages of the program.
#[derive(Parser)]
struct Arguments {
    /// A program that is built already, as TRIPLE=FILE. Can be repeated. `cargo xtask package`
    /// builds the program for this machine if there is none.
    #[arg(long, value_name = "TRIPLE=FILE", required = true)]
    program: Vec<String>,
    /// A static program for this machine's architecture, as `cargo xtask release --static` builds.
    /// Without it, and without a program for musl, there is no image.
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// The newest glibc that a program may need.
    #[arg(long, value_name = "VERSION", default_value = "2.28")]
    max_glibc: String,
    /// Accept a development build: a program of any size, whose start may take long. It is changed:
    /// the list of its crates is added. The image has the libraries of this machine, unless --image
    /// names a static program.
    #[arg(long)]
    development: bool,
    /// The level of compression, from 0 to 9.
    #[arg(long, default_value_t = BEST, value_parser = clap::value_parser!(u32).range(0..=9))]
    compression: u32,
    /// The folder for the packages, whose former content is removed. The default is target/package.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The folder with the artifacts of `cargo xtask dist`. Without it, there are no wasm artifacts
    /// and no library for browsers.
    #[arg(long, value_name = "DIR")]
    dist: Option<PathBuf>,
    /// The minisign secret key that signs SHA256SUMS. minisign asks for its password.
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
    /// Install each package of this machine's target in an empty folder, and run it.
    #[arg(long)]
    verify: bool,
    /// Check the packages with the validators of their formats, too: lintian, systemd-analyze and
    /// mandoc of the system, and those of npm and PyPI, which are installed below target.
    #[arg(long, requires = "verify")]
    validate: bool,
    /// Measure start and memory of `wrap` with the program for this machine, on Linux.
    #[arg(long)]
    measure: bool,
}

fn main() -> std::process::ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask package: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    if arguments.development {
        for (triple, file) in inputs::pairs(&arguments.program)? {
            sbom::add_list(&file, &triple)?;
        }
    }
    let inputs = inputs::read(&arguments.program, &arguments.max_glibc, arguments.compression)?;
    let max = |bytes: usize| if arguments.development { usize::MAX } else { bytes };
    for input in &inputs {
        let size = input.program.len();
        if size > max(MAX_BYTES) {
            let triple = input.target.triple;
            bail!("the program for {triple} has {size} bytes, more than {MAX_BYTES}");
        }
    }
    let folder = arguments.out.clone().unwrap_or_else(|| build::target().join("package"));
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let dist = arguments.dist.clone().unwrap_or_else(|| build::target().join("dist"));
    let packages = all(&inputs, &dist, max(MAX_COMPRESSED_BYTES))?;
    write(&folder, &packages)?;
    if let Some(key) = &arguments.sign {
        signature::sign(&folder.join(SUMS), key)?;
    }
    let mut image = Layout::new();
    // The image has no libraries: a program with glibc would not start in it.
    let development = arguments.development.then(|| inputs::own(&arguments.program, &inputs));
    let development = development.transpose()?;
    let own = arguments.image.as_deref().map(|file| inputs::static_program(file, &inputs));
    let own = own.transpose()?;
    let musl = inputs.iter().find(|input| input.target.triple.ends_with("-musl"));
    if let Some(input) = own.as_ref().or(musl) {
        image.add_image(input, Vec::new())?;
        write_layout(&folder.join("image"), image)?;
    } else if let Some((input, file)) = &development {
        image.add_image(input, inputs::libraries(file)?)?;
        write_layout(&folder.join("image"), image)?;
    } else {
        eprintln!("left out: the image: no static program (--image)");
    }
    let mut wasm = Layout::new();
    let component = dist.join("context-guard.wasm");
    if component.exists() {
        wasm.add_wasm("component", std::fs::read(&component)?, true);
        wasm.add_wasm("envoy", std::fs::read(dist.join("context-guard-envoy.wasm"))?, false);
        write_layout(&folder.join("wasm"), wasm)?;
    } else {
        eprintln!(
            "left out: wasm artifacts and the library for browsers: {} is missing; run `cargo \
             xtask dist`",
            component.display()
        );
    }
    if arguments.verify {
        let tools = arguments.validate.then(Tools::install).transpose()?;
        verify::all(&folder, &inputs, arguments.development, tools.as_ref())?;
    }
    if arguments.measure {
        measure::print(&inputs::own(&arguments.program, &inputs)?.1)?;
    }
    Ok(())
}

/// Returns all packages that are files.
fn all(inputs: &[Input], dist: &Path, max_archive: usize) -> Result<Vec<Package>> {
    let mut packages = vec![launcher(dist)?];
    let mut tarballs: Vec<(&'static Target, Package)> = Vec::new();
    let bills = Bills::new()?;
    for input in inputs {
        match bills.bill(input)? {
            Some(bill) => packages.push(bill),
            None => eprintln!(
                "left out: the bill of materials for {}: the program was built without `cargo \
                 auditable`",
                input.target.triple
            ),
        }
        packages.push(kinds::npm_program(input)?);
        packages.push(kinds::wheel(input)?);
        if let Some(architecture) = input.target.debian {
            packages.push(kinds::debian(input, architecture)?);
        }
        tarballs.push((input.target, kinds::tarball(input)?));
    }
    for (target, (name, bytes)) in &tarballs {
        if bytes.len() > max_archive {
            let size = bytes.len();
            bail!("{name} has {size} bytes, more than {max_archive} ({})", target.triple);
        }
    }
    let bundle = kinds::mcpb(inputs)?;
    let server = registries::server_json(&bundle);
    packages.push(("server.json".to_owned(), format!("{server:#}\n").into_bytes()));
    packages.push(("context-guard.rb".to_owned(), registries::formula(&tarballs).into_bytes()));
    packages.push(bundle);
    packages.extend(tarballs.into_iter().map(|(_, package)| package));
    Ok(packages)
}

/// Returns the npm package `context-guard`, with the library for browsers if it was built.
fn launcher(dist: &Path) -> Result<Package> {
    let built = dist.join("npm/context-guard");
    let source = if built.exists() { built } else { build::root().join("guest/browser/js") };
    let manifest = std::fs::read(source.join("package.json"))?;
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&source)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    let entry = |path: PathBuf| -> Result<Option<Entry>> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == "package.json" || !path.is_file() {
            return Ok(None);
        }
        Ok(Some(Entry::file(format!("package/{name}"), std::fs::read(&path)?)))
    };
    let files: Vec<Option<Entry>> = files.into_iter().map(entry).collect::<Result<_>>()?;
    let launcher = include_bytes!("../../../../packaging/npm/context-guard.js");
    let files = files.into_iter().flatten().collect();
    kinds::npm_launcher(serde_json::from_slice(&manifest)?, files, launcher)
}

/// Writes the packages with their checksums, and prints sizes and digests.
fn write(folder: &Path, packages: &[Package]) -> Result<()> {
    let mut sums = String::new();
    for (name, bytes) in packages {
        let path = folder.join(name);
        std::fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        let digest = sha256(bytes);
        eprintln!("{:>12} bytes  {digest}  {}", bytes.len(), path.display());
        sums.push_str(&format!("{digest}  {name}\n"));
    }
    std::fs::write(folder.join(SUMS), sums)?;
    Ok(())
}

fn write_layout(folder: &Path, layout: Layout) -> Result<()> {
    for entry in layout.finish() {
        let path = folder.join(&entry.path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&path, &entry.bytes).with_context(|| path.display().to_string())?;
    }
    eprintln!("OCI layout of version {VERSION}: {}", folder.display());
    Ok(())
}
