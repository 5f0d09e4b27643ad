//! Checks tool definitions, for the authors of servers.

mod definition;
mod twins;

use serde::Serialize;

use crate::document::Json;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A possible improvement, which many good servers lack.
    Note,
    /// A problem that reduces quality or costs tokens.
    Warning,
    /// A definition that clients reject, that a model cannot use, or that resembles an attack.
    Error,
}

/// The names of the rules, in the order of the documentation.
pub const RULES: [&str; 21] = [
    "invalid-definition",
    "invalid-name",
    "refused-name",
    "duplicate-name",
    "missing-description",
    "name-as-description",
    "duplicate-description",
    "missing-schema",
    "invalid-schema",
    "undescribed-parameters",
    "long-definition",
    "near-twin",
    "unannotated-tools",
    "long-list",
    "no-tools",
    "hidden-characters",
    "overrides-instructions",
    "hides-from-user",
    "pseudo-tag",
    "names-secret-file",
    "prefers-itself",
];

/// A server with the definitions of its tools, each as JSON text.
#[derive(Clone, Debug)]
pub struct LintedServer<'a> {
    /// The name of the server.
    pub name: &'a str,
    /// The definitions, as `tools/list` returns them.
    pub definitions: Vec<&'a str>,
}

/// A problem of a definition or of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The severity of the finding.
    pub level: Level,
    /// The rule: one of [`RULES`].
    pub rule: &'static str,
    /// The name of the server.
    pub server: String,
    /// The name of the tool. `None` if the finding concerns the whole server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The problem and, if it is not obvious, the solution.
    pub message: String,
}

/// The cost of a server's list of tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerCost {
    /// The name of the server.
    pub server: String,
    /// The number of tools.
    pub tools: usize,
    /// The estimated tokens of all definitions.
    pub tokens: u64,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LintReport {
    /// The servers in the order of the input.
    pub servers: Vec<ServerCost>,
    /// The findings in the order of the input: of each tool, then of the server, then its
    /// near-twins.
    pub findings: Vec<Finding>,
}

/// The number of tokens of a list above which a note advises that clients should not load it as a
/// whole.
const LONG_LIST_TOKENS: u64 = 6_000;

/// A parsed definition, with its server.
struct ParsedTool<'a> {
    server: &'a str,
    name: String,
    document: Json,
}

/// Checks the definitions of all servers. `price` estimates the tokens of a text. Also compares the
/// tools of different servers.
///
/// ```
/// use context_guard_catalogue::lint::{Level, LintedServer, lint};
///
/// let definitions = vec![r#"{"name": "get weather", "inputSchema": {"type": "object"}}"#];
/// let server = LintedServer { name: "weather", definitions };
/// let report = lint(&[server], |text| text.len() as u64 / 4);
/// let rules: Vec<&str> = report.findings.iter().map(|finding| finding.rule).collect();
/// assert_eq!(rules, ["invalid-name", "missing-description", "unannotated-tools"]);
/// assert_eq!(report.findings[0].level, Level::Error);
/// ```
#[must_use]
pub fn lint(servers: &[LintedServer<'_>], price: impl Fn(&str) -> u64) -> LintReport {
    let mut report = LintReport::default();
    let mut tools = Vec::new();
    let mut places = Vec::new();
    for server in servers {
        let own = check_server(server, &price, &mut report);
        tools.extend(own);
        places.push(report.findings.len());
    }
    for finding in twins::find(&tools) {
        // With the other findings of its server.
        let at = servers.iter().position(|server| server.name == finding.server);
        let at = at.and_then(|at| places.get(at).copied()).unwrap_or(report.findings.len());
        report.findings.insert(at, finding);
        for place in places.iter_mut().filter(|place| **place >= at) {
            *place += 1;
        }
    }
    report
}

fn check_server<'a>(
    server: &LintedServer<'a>,
    price: &impl Fn(&str) -> u64,
    report: &mut LintReport,
) -> Vec<ParsedTool<'a>> {
    let mut tools: Vec<ParsedTool<'a>> = Vec::new();
    let mut tokens = 0;
    for (at, definition) in server.definitions.iter().enumerate() {
        tokens += price(definition);
        let document = Json::parse(definition);
        let name = document.as_ref().and_then(|document| document.get("name")?.as_str());
        let (Some(name), Some(document)) = (name, &document) else {
            let message = format!("tool {} of the list is not an object with a name", at + 1);
            report.findings.push(finding(Level::Error, "invalid-definition", server.name, message));
            continue;
        };
        let checked = definition::Checked { definition, document, name, earlier: &tools };
        for (level, rule, message) in checked.findings(price) {
            let tool = Some(name.to_owned());
            let found = finding(level, rule, server.name, message);
            report.findings.push(Finding { tool, ..found });
        }
        let (name, document) = (name.to_owned(), document.clone());
        tools.push(ParsedTool { server: server.name, name, document });
    }
    let note = |rule, message| finding(Level::Note, rule, server.name, message);
    let count = server.definitions.len();
    let unannotated = tools.iter().filter(|tool| !definition::has_read_only_hint(&tool.document));
    let unannotated = unannotated.count();
    if count == 0 {
        report.findings.push(note("no-tools", "the list of tools is empty".to_owned()));
    }
    if unannotated > 0 {
        let message = format!(
            "{unannotated} of {count} tools have no annotations.readOnlyHint: clients treat them as writing"
        );
        report.findings.push(note("unannotated-tools", message));
    }
    if tokens > LONG_LIST_TOKENS {
        let message = format!(
            "the list costs {tokens} tokens: a client that loads all of it has less context for work"
        );
        report.findings.push(note("long-list", message));
    }
    report.servers.push(ServerCost { server: server.name.to_owned(), tools: count, tokens });
    tools
}

fn finding(level: Level, rule: &'static str, server: &str, message: String) -> Finding {
    Finding { level, rule, server: server.to_owned(), tool: None, message }
}

/// Returns a count with its noun, in the plural unless the count is one.
fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
