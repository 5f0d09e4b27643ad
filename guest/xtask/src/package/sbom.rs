//! The bill of materials in the format CycloneDX: the crates that a program contains, read from the
//! program itself, and those of the component inside it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::Deserialize;
use serde_json::{Value, json};

use super::archive::sha256;
use super::build;
use super::kinds::{Input, Package};
use super::table::{LICENSE, SUMMARY, VERSION};

/// The maximum length of the list of dependencies in a program. `cargo auditable` has the same.
const MAX_LIST_BYTES: u64 = 8 * 1024 * 1024;

/// The list that `cargo auditable` stores in a program.
#[derive(Deserialize)]
struct Contents {
    packages: Vec<Crate>,
}

#[derive(Deserialize)]
struct Crate {
    name: String,
    version: String,
    source: String,
    #[serde(default)]
    kind: Kind,
    /// Indexes into the list.
    #[serde(default)]
    dependencies: Vec<usize>,
    #[serde(default)]
    root: bool,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Runtime,
    Build,
}

/// Returns the list of crates in a program. `None` if it was built without one.
fn contents(program: &[u8]) -> Result<Option<Contents>> {
    let compressed = match auditable_extract::raw_auditable_data(program) {
        Ok(compressed) => compressed,
        Err(auditable_extract::Error::NoAuditData) => return Ok(None),
        Err(error) => bail!("the list of dependencies cannot be read: {error}"),
    };
    let mut text = String::new();
    flate2::read::ZlibDecoder::new(compressed).take(MAX_LIST_BYTES).read_to_string(&mut text)?;
    Ok(Some(serde_json::from_str(&text)?))
}

/// Adds the list that `cargo auditable` would store to a development build of the program, so that
/// it has a bill of materials. Crates of build scripts are left out.
pub(crate) fn add_list(program: &Path, triple: &str) -> Result<()> {
    let crates = dependencies("context-guard", triple)?;
    let ids: Vec<&Id> = crates.keys().collect();
    let lock = locked(&std::fs::read_to_string(build::root().join("Cargo.lock"))?);
    let list = crates.iter().map(|(id, used)| {
        let used = used.iter().filter_map(|id| ids.iter().position(|known| *known == id));
        let is_registry = lock.get(id).is_some_and(|known| known.checksum.is_some());
        json!({
            "name": id.0,
            "version": id.1,
            "source": if is_registry { "crates.io" } else { "local" },
            "dependencies": used.collect::<Vec<_>>(),
            "root": id.0 == "context-guard",
        })
    });
    let list = json!({"packages": list.collect::<Vec<_>>()}).to_string();
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(list.as_bytes())?;
    let file = program.with_extension("dep-v0");
    std::fs::write(&file, encoder.finish()?)?;
    let section = format!(".dep-v0={}", file.display());
    build::run(
        Command::new("objcopy")
            .args(["--remove-section=.dep-v0", "--add-section"])
            .arg(section)
            .arg(program),
    )
}

/// A crate in the resolved versions of the sources.
#[derive(Default)]
struct Known {
    checksum: Option<String>,
    license: Option<String>,
}

type Id = (String, String);

/// Returns the crates of Cargo.lock, with the licences of their manifests.
fn known() -> Result<BTreeMap<Id, Known>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Manifest>,
    }
    #[derive(Deserialize)]
    struct Manifest {
        name: String,
        version: String,
        license: Option<String>,
    }
    let mut crates = locked(&std::fs::read_to_string(build::root().join("Cargo.lock"))?);
    let output = build::cargo().args(["metadata", "--format-version", "1", "--locked"]).output()?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    for manifest in serde_json::from_slice::<Metadata>(&output.stdout)?.packages {
        if let Some(known) = crates.get_mut(&(manifest.name, manifest.version)) {
            known.license = manifest.license;
        }
    }
    Ok(crates)
}

/// Returns the crates of a Cargo.lock, with their checksums.
fn locked(text: &str) -> BTreeMap<Id, Known> {
    let packages = text.split("[[package]]").skip(1).filter_map(|package| {
        let value = |name: &str| {
            let prefix = format!("{name} = \"");
            let line = package.lines().find_map(|line| line.strip_prefix(&prefix))?;
            line.strip_suffix('"').map(str::to_owned)
        };
        let known = Known { checksum: value("checksum"), license: None };
        Some(((value("name")?, value("version")?), known))
    });
    packages.collect()
}

/// Returns the crates of the component with their dependencies. The component is built for another
/// target, so the list of the program does not have them.
fn component() -> Result<BTreeMap<Id, BTreeSet<Id>>> {
    dependencies("context-guard-component", "wasm32-unknown-unknown")
}

/// Returns a crate of the workspace and all that it needs on a target, with their dependencies.
fn dependencies(package: &str, triple: &str) -> Result<BTreeMap<Id, BTreeSet<Id>>> {
    let output = build::cargo()
        .args(["tree", "--locked", "--package", package, "--edges", "normal"])
        .args(["--target", triple, "--prefix", "depth", "--format", " {p}"])
        .output()?;
    if !output.status.success() {
        bail!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(tree(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads lines such as `2 name v1.0.0 (*)`, whose number is the depth.
fn tree(text: &str) -> BTreeMap<Id, BTreeSet<Id>> {
    let mut crates: BTreeMap<Id, BTreeSet<Id>> = BTreeMap::new();
    let mut above: Vec<Id> = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let depth = words.next().and_then(|depth| depth.parse::<usize>().ok());
        let (Some(depth), Some(name), Some(version)) = (depth, words.next(), words.next()) else {
            continue;
        };
        let id = (name.to_owned(), version.trim_start_matches('v').to_owned());
        above.truncate(depth);
        if let Some(user) = above.last() {
            crates.entry(user.clone()).or_default().insert(id.clone());
        }
        crates.entry(id.clone()).or_default();
        above.push(id);
    }
    crates
}

/// The programs' bills of materials.
pub(crate) struct Bills {
    known: BTreeMap<Id, Known>,
    component: BTreeMap<Id, BTreeSet<Id>>,
}

impl Bills {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { known: known()?, component: component()? })
    }

    /// Returns the bill of materials of a program. `None` if the program has no list of crates.
    pub(crate) fn bill(&self, input: &Input) -> Result<Option<Package>> {
        let Some(contents) = contents(&input.program)? else { return Ok(None) };
        let (mut components, mut dependencies) = (BTreeMap::new(), BTreeMap::new());
        let ids: Vec<Id> =
            contents.packages.iter().map(|one| (one.name.clone(), one.version.clone())).collect();
        for (id, one) in ids.iter().zip(&contents.packages) {
            if one.root {
                continue;
            }
            let known = self.known.get(id).with_context(|| {
                let (name, version) = id;
                format!("the program contains {name} {version}, which Cargo.lock does not have")
            })?;
            let is_registry = one.source == "crates.io";
            if is_registry && known.checksum.is_none() {
                bail!("{} {} has no checksum in Cargo.lock", one.name, one.version);
            }
            let scope = if one.kind == Kind::Build { "excluded" } else { "required" };
            components.insert(id.clone(), library(id, known, scope));
            let used = one.dependencies.iter().filter_map(|index| ids.get(*index));
            dependencies.insert(reference(id), used.map(reference).collect::<BTreeSet<_>>());
        }
        for (id, used) in &self.component {
            let unknown = Known::default();
            let known = self.known.get(id).unwrap_or(&unknown);
            components.entry(id.clone()).or_insert_with(|| library(id, known, "required"));
            let used = used.iter().map(reference);
            dependencies.entry(reference(id)).or_default().extend(used);
        }
        let root = contents.packages.iter().position(|one| one.root);
        let root = root.context("the list of crates has no root")?;
        let id = ids.get(root).cloned().unwrap_or_default();
        let used = contents.packages.get(root).map_or(&[][..], |root| &root.dependencies);
        let used = used.iter().filter_map(|index| ids.get(*index)).map(reference);
        let guard = ("context-guard-component".to_owned(), VERSION.to_owned());
        dependencies.insert(reference(&id), used.chain([reference(&guard)]).collect());
        let bill = json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "component": {
                    "type": "application",
                    "bom-ref": reference(&id),
                    "name": id.0,
                    "version": id.1,
                    "description": SUMMARY,
                    "purl": reference(&id),
                    "licenses": [{"expression": LICENSE}],
                    "hashes": [{"alg": "SHA-256", "content": sha256(&input.program)}],
                    "properties": [{"name": "cargo:target", "value": input.target.triple}],
                },
            },
            "components": components.into_values().collect::<Vec<_>>(),
            "dependencies": dependencies
                .into_iter()
                .map(|(user, used)| json!({"ref": user, "dependsOn": used}))
                .collect::<Vec<_>>(),
        });
        let name = format!("{}.cdx.json", input.target.archive());
        Ok(Some((name, format!("{bill:#}\n").into_bytes())))
    }
}

/// Returns the package URL of a crate, which is also its name in the bill.
fn reference((name, version): &Id) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

fn library(id: &Id, known: &Known, scope: &str) -> Value {
    let mut library = json!({
        "type": "library",
        "bom-ref": reference(id),
        "name": id.0,
        "version": id.1,
        "scope": scope,
        "purl": reference(id),
    });
    if let Some(members) = library.as_object_mut() {
        if let Some(checksum) = &known.checksum {
            let hashes = json!([{"alg": "SHA-256", "content": checksum}]);
            members.insert("hashes".to_owned(), hashes);
        }
        if let Some(license) = &known.license {
            // Older manifests separate alternatives by a slash.
            let expression = license.replace('/', " OR ");
            members.insert("licenses".to_owned(), json!([{"expression": expression}]));
        }
    }
    library
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_file_has_checksums() {
        let text = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \
                    \"ff\"\ndependencies = [\n \"b\",\n]\n\n[[package]]\nname = \"b\"\nversion = \
                    \"2.0.0+x\"\n";
        let crates = locked(text);
        let checksum = |name: &str, version: &str| {
            crates[&(name.to_owned(), version.to_owned())].checksum.clone()
        };
        assert_eq!(checksum("a", "1.0.0").as_deref(), Some("ff"));
        assert_eq!(checksum("b", "2.0.0+x"), None);
    }

    #[test]
    fn tree_has_dependencies_of_each_crate() {
        let text = "0 a v1.0.0 (/work/a)\n1 b v2.0.0\n2 c v3.0.0\n1 c v3.0.0 (*)\n";
        let crates = tree(text);
        let id = |name: &str, version: &str| (name.to_owned(), version.to_owned());
        let (b, c) = (id("b", "2.0.0"), id("c", "3.0.0"));
        assert_eq!(crates[&id("a", "1.0.0")], BTreeSet::from([b.clone(), c.clone()]));
        assert_eq!(crates[&b], BTreeSet::from([c.clone()]));
        assert!(crates[&c].is_empty());
    }

    #[test]
    fn program_without_a_list_has_no_bill() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(contents(&own).unwrap().is_none());
    }
}
