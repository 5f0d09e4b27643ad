//! Subjects of commits follow Conventional Commits and have at most 72 characters.

use std::process::Command;

use anyhow::{Context, Result};

use super::Finding;
use crate::build::root;

/// The last commit before the commit rule existed. Only later commits are checked.
const LAST_UNCHECKED: &str = "bb2afadfed6fe43fecbfe92be82ab10b518c7abe";
const MAX_CHARACTERS: usize = 72;
const TYPES: [&str; 11] =
    ["build", "chore", "ci", "docs", "feat", "fix", "perf", "refactor", "revert", "style", "test"];

pub(super) fn check(findings: &mut Vec<Finding>) -> Result<()> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(root()).args(arguments).output();
        output.context("git cannot be started")
    };
    // A shallow clone lacks the commit, and a copy of the files without git has none.
    if !git(&["merge-base", "--is-ancestor", LAST_UNCHECKED, "HEAD"])?.status.success() {
        eprintln!(
            "skipped: commit subjects ({LAST_UNCHECKED} is not in the history of this clone)"
        );
        return Ok(());
    }
    let range = format!("{LAST_UNCHECKED}..HEAD");
    let log = git(&["log", "--no-merges", "--format=%h %s", &range])?;
    for line in String::from_utf8_lossy(&log.stdout).lines() {
        let (commit, subject) = line.split_once(' ').unwrap_or((line, ""));
        if let Err(message) = check_subject(subject) {
            let place = format!("commit {commit}");
            findings.push(Finding { rule: "commit", place, message });
        }
    }
    Ok(())
}

fn check_subject(subject: &str) -> Result<(), String> {
    let characters = subject.chars().count();
    if characters > MAX_CHARACTERS {
        return Err(format!("the subject has {characters} characters, more than {MAX_CHARACTERS}"));
    }
    let form = || format!("{subject:?} is not of the form \"type(scope): description\"");
    let (head, description) = subject.split_once(": ").ok_or_else(form)?;
    let head = head.strip_suffix('!').unwrap_or(head);
    let (kind, scope) = match head.split_once('(') {
        None => (head, Some("all")),
        Some((kind, scope)) => (kind, scope.strip_suffix(')')),
    };
    if !TYPES.contains(&kind) || scope.is_none_or(str::is_empty) || description.trim().is_empty() {
        return Err(form());
    }
    if description.ends_with('.') {
        return Err(format!("{subject:?} ends with a full stop"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_subjects_are_found() {
        for subject in [
            "Core: weighing stands in one place",
            "feat:no space",
            "feat(): empty scope",
            "feature(core): no such type",
            "fix(core): ",
            "fix(core): ends with a full stop.",
            &format!("fix: {}", "a".repeat(68)),
        ] {
            assert!(check_subject(subject).is_err(), "{subject}");
        }
    }

    #[test]
    fn conventional_subjects_pass() {
        for subject in ["docs: explain limits", "feat(gateway)!: require a key", "fix(core): a: b"]
        {
            assert_eq!(check_subject(subject), Ok(()));
        }
    }
}
