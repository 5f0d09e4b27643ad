//! `cargo xtask lint`: the rules of the project's language that a program can check, one file each.

mod columns;
mod commits;
mod doc_start;
mod files;
mod idioms;
mod source;
mod type_names;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::build::root;
use source::Source;

/// A violation of a rule for the wording of code, documents and commits.
struct Finding {
    rule: &'static str,
    /// The file and line, or the commit, of the violation.
    place: String,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: [{}] {}", self.place, self.rule, self.message)
    }
}

/// Checks the language rules in the files at or below `paths`. Without paths, checks all files and
/// the commits. Fails if a rule is violated.
pub(crate) fn run(paths: &[PathBuf]) -> Result<()> {
    let sources = sources(paths)?;
    let mut findings = Vec::new();
    for source in &sources {
        doc_start::check(source, &mut findings);
        columns::check(source, &mut findings);
        idioms::check(source, &mut findings);
        files::check(source, &mut findings);
    }
    type_names::check(&sources, &mut findings);
    if paths.is_empty() {
        commits::check(&mut findings)?;
    }
    report(&findings)
}

fn report(findings: &[Finding]) -> Result<()> {
    let mut by_rule = BTreeMap::<_, usize>::new();
    for finding in findings {
        eprintln!("{finding}");
        *by_rule.entry(finding.rule).or_default() += 1;
    }
    if findings.is_empty() {
        return Ok(());
    }
    let counts: Vec<_> = by_rule.iter().map(|(rule, count)| format!("{rule}: {count}")).collect();
    bail!("{} violations ({})", findings.len(), counts.join(", "))
}

/// Reads the files at or below `paths`: tracked ones, and new ones that git does not ignore. Leaves
/// out files that a program generated.
fn sources(paths: &[PathBuf]) -> Result<Vec<Source>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "--full-name", "--"]);
    if paths.is_empty() {
        git.current_dir(root()).args(["*.rs", "*.md", "*.wit"]);
    } else {
        git.args(paths);
    }
    let output = git.output().context("git cannot be started")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8(output.stdout)?;
    let read = |name: &str| {
        let text = std::fs::read_to_string(root().join(name)).ok()?;
        let is_generated = text.lines().next().is_some_and(|line| line.contains("@generated"));
        if is_generated { None } else { Source::parse(name, &text) }
    };
    Ok(names.lines().filter_map(read).collect())
}

/// Returns the names of the rules that `text` in a file called `name` violates, according to
/// `check`.
#[cfg(test)]
fn rules(name: &str, text: &str, check: fn(&Source, &mut Vec<Finding>)) -> Vec<String> {
    let mut findings = Vec::new();
    let source = Source::parse(name, text);
    check(&source.unwrap_or_else(|| panic!("{name} is not checked")), &mut findings);
    findings.iter().map(ToString::to_string).collect()
}
