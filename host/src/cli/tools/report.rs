//! Prints the findings for the terminal and as JSON.

use std::fmt;

use context_guard::gateway::printable;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cli::table;

/// The importance of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Note,
    Warning,
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) rule: String,
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    message: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct ServerCost {
    server: String,
    tools: u64,
    tokens: u64,
}

impl Finding {
    /// Returns the line of a report. Names and messages come from servers.
    fn line(&self) -> String {
        let place = match &self.tool {
            Some(tool) => format!("{}::{tool}", self.server),
            None => self.server.clone(),
        };
        let text = format!("{}[{}] {place}: {}", self.level, self.rule, self.message);
        printable(text.as_bytes())
    }
}

/// The result of a check.
#[derive(Debug, Deserialize)]
pub(super) struct DefinitionReport {
    servers: Vec<ServerCost>,
    pub(super) findings: Vec<Finding>,
}

impl DefinitionReport {
    fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    pub(super) fn print_json(&self) {
        let report = json!({
            "errors": self.count(Level::Error),
            "warnings": self.count(Level::Warning),
            "notes": self.count(Level::Note),
            "servers": self.servers,
            "findings": self.findings,
        });
        say!("{report:#}");
    }

    /// Prints the findings, the cost of each server and the counts. Notes are printed only if
    /// `notes` is true.
    pub(super) fn print_text(&self, notes: bool) {
        let is_shown = |finding: &&Finding| notes || finding.level > Level::Note;
        let mut has_shown = false;
        for finding in self.findings.iter().filter(is_shown) {
            say!("{}", finding.line());
            has_shown = true;
        }
        if has_shown {
            say!("");
        }
        let mut costs = table::new(&["server", "tools", "tokens"]);
        for cost in &self.servers {
            costs.add_row([
                printable(cost.server.as_bytes()),
                table::number(cost.tools),
                table::number(cost.tokens),
            ]);
        }
        say!("{costs}");
        let counted = |level: Level| {
            let count = self.count(level);
            format!("{count} {level}{}", if count == 1 { "" } else { "s" })
        };
        let hidden =
            if notes || self.count(Level::Note) == 0 { "" } else { " (--notes shows them)" };
        say!(
            "\n{}, {}, {}{hidden}",
            counted(Level::Error),
            counted(Level::Warning),
            counted(Level::Note)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_servers_do_not_control_the_terminal() {
        let finding = Finding {
            level: Level::Error,
            rule: "invalid-name".to_owned(),
            server: "server".to_owned(),
            tool: Some("read\x1b[2J\nnote".to_owned()),
            message: "the name has \u{9b}31m".to_owned(),
        };
        let line = finding.line();
        assert!(!line.contains(char::is_control), "{line:?}");
        assert!(line.starts_with(r"error[invalid-name] server::read\u{1b}[2J\nnote: "), "{line}");
    }
}
