//! The operator's changes to the definitions of tools.

use std::collections::BTreeSet;

use context_guard_protocol::glob;
use serde::{Deserialize, Serialize};

use super::endpoint_name;

/// The maximum length of a tool name that all model APIs accept, in characters.
const MAX_NAME_LENGTH: usize = 64;
/// The prefix of the names of the guard's own tools and of those of its host.
pub const GUARD_PREFIX: &str = "context_guard_";

/// The operator's change of the definitions of some tools. Members that are not set remain as the
/// upstream defines them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolOverride {
    /// The tools: `server::tool`, the name of a tool, or a glob. A later entry wins, an exact name
    /// over a glob.
    #[serde(rename = "match")]
    pub pattern: String,
    /// The name that clients see, without that of the server. Only for an exact `match`, and
    /// without effect if the upstream has a tool of that name.
    #[serde(default)]
    pub name: Option<String>,
    /// The name for people.
    #[serde(default)]
    pub title: Option<String>,
    /// The description.
    #[serde(default)]
    pub description: Option<String>,
    /// The hints about the effects of the tool.
    #[serde(default)]
    pub annotations: Option<AnnotationOverride>,
}

/// The operator's change of the hints about the effects of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AnnotationOverride {
    /// The tool changes nothing.
    pub read_only_hint: Option<bool>,
    /// The tool may delete or overwrite something.
    pub destructive_hint: Option<bool>,
    /// Repeated calls with the same arguments have no further effect.
    pub idempotent_hint: Option<bool>,
    /// The tool reaches systems beyond its server.
    pub open_world_hint: Option<bool>,
}

/// The reason why definitions of tools are withheld until the operator approves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum HoldReason {
    /// The upstream changed a definition after the gateway first saw it.
    Changed,
    /// A definition has hidden characters, or instructs the model.
    Suspicious,
}

impl AnnotationOverride {
    /// Returns the hints that are set, each with its MCP name.
    #[must_use]
    pub fn hints(&self) -> Vec<(&'static str, bool)> {
        [
            ("readOnlyHint", self.read_only_hint),
            ("destructiveHint", self.destructive_hint),
            ("idempotentHint", self.idempotent_hint),
            ("openWorldHint", self.open_world_hint),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    fn apply(&mut self, other: &Self) {
        self.read_only_hint = other.read_only_hint.or(self.read_only_hint);
        self.destructive_hint = other.destructive_hint.or(self.destructive_hint);
        self.idempotent_hint = other.idempotent_hint.or(self.idempotent_hint);
        self.open_world_hint = other.open_world_hint.or(self.open_world_hint);
    }
}

impl ToolOverride {
    fn matches(&self, endpoint: &str, name: &str) -> bool {
        if glob::is_pattern(&self.pattern) {
            glob::matches(&self.pattern, endpoint) || glob::matches(&self.pattern, name)
        } else {
            self.pattern == endpoint || self.pattern == name
        }
    }

    fn is_empty(&self) -> bool {
        let Self { pattern: _, name, title, description, annotations } = self;
        name.is_none()
            && title.is_none()
            && description.is_none()
            && annotations.is_none_or(|annotations| annotations.hints().is_empty())
    }

    fn apply(&mut self, other: &Self) {
        fn set(target: &mut Option<String>, value: Option<&String>) {
            if value.is_some() {
                *target = value.cloned();
            }
        }
        set(&mut self.name, other.name.as_ref());
        set(&mut self.title, other.title.as_ref());
        set(&mut self.description, other.description.as_ref());
        if let Some(annotations) = &other.annotations {
            self.annotations.get_or_insert_default().apply(annotations);
        }
    }
}

/// Returns the changes to the tool `name` of a server. `None` if no entry matches.
pub(super) fn find(overrides: &[ToolOverride], server: &str, name: &str) -> Option<ToolOverride> {
    let endpoint = endpoint_name(server, name);
    let matching = overrides.iter().filter(|entry| entry.matches(&endpoint, name));
    let (globs, exact): (Vec<_>, Vec<_>) =
        matching.partition(|entry| glob::is_pattern(&entry.pattern));
    let mut merged: Option<ToolOverride> = None;
    for entry in globs.into_iter().chain(exact) {
        merged.get_or_insert_default().apply(entry);
    }
    merged
}

/// Returns the upstream's own name of a tool that clients see as `name`. `None` if no entry changes
/// a name to this.
pub(super) fn own_name<'o>(
    overrides: &'o [ToolOverride],
    server: &str,
    name: &str,
) -> Option<&'o str> {
    let renamed = overrides.iter().filter(|entry| entry.name.as_deref() == Some(name));
    renamed.rev().find_map(|entry| match entry.pattern.split_once("::") {
        Some((owner, own)) => (owner == server).then_some(own),
        None => Some(entry.pattern.as_str()),
    })
}

/// Returns the invalid entries, each with its path and the reason.
pub(super) fn issues(overrides: &[ToolOverride]) -> Vec<(String, String)> {
    let mut issues = Vec::new();
    let mut names = BTreeSet::new();
    for (at, entry) in overrides.iter().enumerate() {
        let path = |member: &str| format!("overrides[{at}]{member}");
        if entry.pattern.trim().is_empty() {
            issues.push((path(".match"), "empty: set it to server::tool".to_owned()));
        }
        if entry.is_empty() {
            let reason = "changes nothing: set name, title, description or annotations";
            issues.push((path(""), reason.to_owned()));
        }
        let Some(name) = &entry.name else { continue };
        let server = entry.pattern.split_once("::").map(|(server, _)| server);
        let is_accepted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let reason = if glob::is_pattern(&entry.pattern) {
            "several tools cannot have one name: set match to server::tool".to_owned()
        } else if name.is_empty() || !name.chars().all(is_accepted) {
            format!("{name:?} is not accepted by models: use letters, digits, _ and -")
        } else if name.len() > MAX_NAME_LENGTH {
            format!("longer than {MAX_NAME_LENGTH} characters, which models refuse")
        } else if name.starts_with(GUARD_PREFIX) {
            format!("names that begin with {GUARD_PREFIX} are for the guard's own tools")
        } else if !names.insert((server, name)) {
            format!("an earlier entry gives the name {name} to another tool")
        } else {
            continue;
        };
        issues.push((path(".name"), reason));
    }
    issues
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(json: &str) -> Vec<ToolOverride> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn exact_entries_win() {
        let all = entries(
            r#"[{"match": "git::commit", "description": "Exact.", "name": "save"},
                {"match": "git::*", "description": "Glob.", "title": "Git",
                 "annotations": {"readOnlyHint": true}},
                {"match": "commit", "annotations": {"destructiveHint": true}}]"#,
        );
        let found = find(&all, "git", "commit").unwrap();
        assert_eq!(found.description.as_deref(), Some("Exact."));
        assert_eq!(found.title.as_deref(), Some("Git"));
        let hints = found.annotations.unwrap().hints();
        assert_eq!(hints, [("readOnlyHint", true), ("destructiveHint", true)]);
        assert_eq!(find(&all, "jira", "search"), None);
        assert_eq!(own_name(&all, "git", "save"), Some("commit"));
        assert_eq!((own_name(&all, "jira", "save"), own_name(&all, "git", "commit")), (None, None));
    }

    #[test]
    fn invalid_entries_are_reported() {
        let all = entries(
            r#"[{"match": "a::b"}, {"match": "a::*", "name": "c"}, {"match": "a::b", "name": "x y"},
                {"match": "a::b", "name": "context_guard_read"}, {"match": "a::b", "name": "d"},
                {"match": "a::c", "name": "d"}, {"match": "", "title": "x"}]"#,
        );
        let paths: Vec<String> = issues(&all).into_iter().map(|(path, _)| path).collect();
        assert_eq!(
            paths,
            [
                "overrides[0]",
                "overrides[1].name",
                "overrides[2].name",
                "overrides[3].name",
                "overrides[5].name",
                "overrides[6].match"
            ]
        );
    }
}
