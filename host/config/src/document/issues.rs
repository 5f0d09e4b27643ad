//! The errors of a file that an operator writes.

use std::fmt;

/// An error of one value in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The line of the value, counted from 1. `None` if it is unknown.
    pub line: Option<usize>,
    /// The path of the value: member names, and list positions counted from 0.
    pub steps: Vec<String>,
    /// The reason why the value is invalid, and the valid values.
    pub reason: String,
}

impl Issue {
    /// Returns an error of the value at the path `steps`, without a line.
    pub fn new(steps: &[&str], reason: impl Into<String>) -> Self {
        let steps = steps.iter().map(|step| (*step).to_owned()).collect();
        Self { line: None, steps, reason: reason.into() }
    }

    /// Returns an error of the value at a path such as `endpoints[2].hardCap`. The line is unknown.
    pub fn at_path(path: &str, reason: &str) -> Self {
        let steps = path.split(['.', '[']).map(|step| step.trim_end_matches(']').to_owned());
        Self {
            line: None,
            steps: steps.filter(|step| !step.is_empty()).collect(),
            reason: reason.to_owned(),
        }
    }

    /// Returns the path of the value as text, such as `upstreams[0].name`.
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

/// All errors of a file, in the order of its lines.
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
