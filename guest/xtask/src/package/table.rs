//! The one table of names, versions and targets, from which all packages are made.

use anyhow::{Context as _, Result};
use lzma_rust2::FilterType;

/// The version of all packages.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The name in the registry of MCP servers. The npm package and the wheel repeat it.
pub(crate) const REGISTRY_NAME: &str = "io.github.context-guard/context-guard";
/// The image of each release, without its tag.
pub(crate) const IMAGE: &str = "ghcr.io/context-guard/context-guard";
/// The repository of the project, where releases are.
pub(crate) const REPOSITORY: &str = "https://github.com/context-guard/context-guard";
/// The one-line description.
pub(crate) const SUMMARY: &str =
    "Makes every answer of an MCP server fit the context window of the model";
/// The licence, as SPDX identifier.
pub(crate) const LICENSE: &str = "Apache-2.0";

/// A platform for which the program is packaged, with its name in each kind of package.
#[derive(Debug)]
pub(crate) struct Target {
    /// The target of rustc.
    pub(crate) triple: &'static str,
    /// `os`, `cpu` and `libc` of npm. The package is `context-guard-OS-CPU`.
    pub(crate) npm: (&'static str, &'static str, Option<&'static str>),
    /// The platform tag of a wheel. `{glibc}` is the version that the program needs.
    pub(crate) wheel: &'static str,
    /// The architecture of Debian, for Linux.
    pub(crate) debian: Option<&'static str>,
    /// The platform of an `.mcpb` bundle.
    pub(crate) mcpb: &'static str,
}

/// All platforms.
pub(crate) const TARGETS: [Target; 6] = [
    Target {
        triple: "x86_64-unknown-linux-gnu",
        npm: ("linux", "x64", Some("glibc")),
        wheel: "manylinux_{glibc}_x86_64",
        debian: Some("amd64"),
        mcpb: "linux",
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        npm: ("linux", "arm64", Some("glibc")),
        wheel: "manylinux_{glibc}_aarch64",
        debian: Some("arm64"),
        mcpb: "linux",
    },
    Target {
        triple: "x86_64-unknown-linux-musl",
        npm: ("linux", "x64", Some("musl")),
        wheel: "musllinux_1_2_x86_64",
        debian: None,
        mcpb: "linux",
    },
    Target {
        triple: "x86_64-apple-darwin",
        npm: ("darwin", "x64", None),
        wheel: "macosx_11_0_x86_64",
        debian: None,
        mcpb: "darwin",
    },
    Target {
        triple: "aarch64-apple-darwin",
        npm: ("darwin", "arm64", None),
        wheel: "macosx_11_0_arm64",
        debian: None,
        mcpb: "darwin",
    },
    Target {
        triple: "x86_64-pc-windows-msvc",
        npm: ("win32", "x64", None),
        wheel: "win_amd64",
        debian: None,
        mcpb: "win32",
    },
];

impl Target {
    /// Returns the row of the table for a target of rustc.
    pub(crate) fn find(triple: &str) -> Result<&'static Self> {
        let known = TARGETS.map(|target| target.triple).join(", ");
        TARGETS.iter().find(|target| target.triple == triple).with_context(|| {
            format!("no packages for the target {triple}: expected one of {known}")
        })
    }

    /// Returns the filter of xz for the machine code of this target. That for arm64 needs xz 5.4,
    /// which older systems do not have.
    pub(crate) fn xz_filter(&self) -> Option<FilterType> {
        self.triple.starts_with("x86_64").then_some(FilterType::BcjX86)
    }

    /// Returns the name of the npm package with the program.
    pub(crate) fn npm_name(&self) -> String {
        let (os, cpu, libc) = self.npm;
        let suffix = if libc == Some("musl") { "-musl" } else { "" };
        format!("context-guard-{os}-{cpu}{suffix}")
    }

    /// Returns the file name of the program.
    pub(crate) fn program(&self) -> &'static str {
        if self.npm.0 == "win32" { "context-guard.exe" } else { "context-guard" }
    }

    /// Returns the name of the archive of a release, without its ending.
    pub(crate) fn archive(&self) -> String {
        format!("context-guard-{VERSION}-{}", self.triple)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<String> = TARGETS.iter().map(Target::npm_name).collect();
        let wheels: BTreeSet<&str> = TARGETS.iter().map(|target| target.wheel).collect();
        assert_eq!((names.len(), wheels.len()), (TARGETS.len(), TARGETS.len()));
        assert!(Target::find("sparc").unwrap_err().to_string().contains("x86_64-apple-darwin"));
    }
}
