//! Everything that is wrong with a file, all of it at once.

use std::fmt;

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The line of the file, from 1, where it can be told.
    pub line: Option<usize>,
    /// The way to the value: member names and list positions.
    pub steps: Vec<String>,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl Issue {
    /// A fault of the value that these steps lead to.
    pub fn new(steps: &[&str], reason: impl Into<String>) -> Self {
        let steps = steps.iter().map(|step| (*step).to_owned()).collect();
        Self { line: None, steps, reason: reason.into() }
    }

    /// A fault at a path such as `endpoints[2].hardCap`.
    pub fn at(path: &str, reason: &str) -> Self {
        let steps = path.split(['.', '[']).map(|step| step.trim_end_matches(']').to_owned());
        Self {
            line: None,
            steps: steps.filter(|step| !step.is_empty()).collect(),
            reason: reason.to_owned(),
        }
    }

    /// The path as policy issues have it: `upstreams[0].name`.
    #[must_use]
    pub fn path(&self) -> String {
        self.steps.iter().fold(String::new(), |path, step| {
            if step.parse::<usize>().is_ok() {
                format!("{path}[{step}]")
            } else if path.is_empty() {
                step.clone()
            } else {
                format!("{path}.{step}")
            }
        })
    }
}

/// All faults of a file, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issues(pub Vec<Issue>);

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, issue) in self.0.iter().enumerate() {
            let line = issue.line.map(|line| format!("line {line}: ")).unwrap_or_default();
            let end = if at + 1 < self.0.len() { "\n" } else { "" };
            let path = issue.path();
            let path = if path.is_empty() { "the file".to_owned() } else { path };
            write!(f, "  {line}{path}: {}{end}", issue.reason)?;
        }
        Ok(())
    }
}
