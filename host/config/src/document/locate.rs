//! Finds the lines of errors in a file.

use std::path::Path;

use marked_yaml::Node;

use super::Issues;

/// Adds line numbers to the errors of a file. `path` is its path, and `text` its contents. Supports
/// YAML and JSON. Errors in TOML remain without lines.
pub fn with_lines(mut issues: Issues, path: &Path, text: &str) -> Issues {
    let Some(lines) = Lines::parse(path, text) else { return issues };
    for issue in &mut issues.0 {
        issue.line = lines.line(&issue.steps);
    }
    issues.0.sort_by_key(|issue| issue.line);
    issues
}

/// Returns the line of the value at the path `steps` in a file with the contents `text`, counted
/// from 1. If there is no such value, returns the line of its innermost existing parent. `None` if
/// the file is TOML or cannot be parsed.
pub fn line_of(path: &Path, text: &str, steps: &[String]) -> Option<usize> {
    Lines::parse(path, text)?.line(steps)
}

/// A parsed file with the line of each value.
struct Lines {
    root: Node,
    /// The number of lines of the file.
    count: usize,
}

impl Lines {
    /// Parses the file at `path` with the contents `text`. `None` if the file is TOML or invalid.
    fn parse(path: &Path, text: &str) -> Option<Self> {
        if path.extension().is_some_and(|ending| ending == "toml") {
            return None;
        }
        let root = marked_yaml::parse_yaml(0, text).ok()?;
        Some(Self { root, count: text.split(['\n', '\r']).count() })
    }

    /// Returns the line of the value at the path `steps`, see [`line_in`].
    fn line(&self, steps: &[String]) -> Option<usize> {
        // The parser puts an empty document behind the last line.
        Some(line_in(&self.root, steps)?.min(self.count))
    }
}

/// Returns the line of the value at the path `steps`. If there is no such value, returns the line
/// of its innermost existing parent. The line of a member is that of its name.
fn line_in(root: &Node, steps: &[String]) -> Option<usize> {
    let mut at = root;
    let mut line = at.span().start().map(|mark| mark.line());
    for step in steps {
        let next = match at {
            Node::Mapping(members) => {
                let found = members.iter().find(|(name, _)| name.as_str() == step);
                found.map(|(name, value)| (name.span(), value))
            }
            Node::Sequence(entries) => step
                .parse()
                .ok()
                .and_then(|at: usize| entries.get(at))
                .map(|entry| (entry.span(), entry)),
            Node::Scalar(_) => None,
        };
        let Some((span, node)) = next else { break };
        line = span.start().map(|mark| mark.line()).or(line);
        at = node;
    }
    line
}
