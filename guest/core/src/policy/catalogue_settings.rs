//! Settings of the tool catalogue.

use context_guard_protocol::glob;
use serde::{Deserialize, Deserializer, Serialize};

use super::tool_override::{self, HoldReason, ToolOverride};

/// Settings of the tool catalogue, for all endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct CatalogueSettings {
    /// The list that clients get: all tools (`full`), or the tools to search and call the others,
    /// with pinned and hot tools (`tiered`). Default `auto`: `tiered` if the full list costs more
    /// than `threshold`.
    pub mode: Option<CatalogueMode>,
    /// Tokens of the full list above which `auto` means `tiered`. Default 6000.
    pub threshold: Option<u64>,
    /// Globs over the names of clients that load tools on demand themselves. `auto` sends them up
    /// to 500 tools in full. Default `claude-code*` and `codex*`.
    pub deferring_clients: Option<Vec<String>>,
    /// Globs over `server::tool`: these tools are always listed. A glob without `::` also matches
    /// the names of tools on all servers.
    pub pins: Option<Vec<String>>,
    /// Globs over `server::tool`: these tools are neither found nor callable. A glob without `::`
    /// also matches the names of tools on all servers.
    pub hide: Option<Vec<String>>,
    /// The number of hot tools in a tiered list. Default 12, at most 15.
    pub hot: Option<u64>,
    /// Seconds between updates of the scores of tools. Default 86400, from 3600 to 604800.
    pub recompute_seconds: Option<u64>,
    /// Categories of tools. The first match wins. Default: each server is a category.
    pub categories: Option<Vec<CategoryRule>>,
    /// Groups of words that stand for each other, in addition to the built-in ones: a list of
    /// words, or a text of words between spaces.
    #[serde(deserialize_with = "word_groups")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<WordGroupForms>>"))]
    pub synonyms: Option<Vec<Vec<String>>>,
    /// Detail of the tools that a search returns: `names`, `summary`, `signature` (default) or
    /// `full`.
    pub detail: Option<ToolDetail>,
    /// Separate call tools for read-only and other tools (`split`, default), or one (`one`).
    pub call_tools: Option<CallTools>,
    /// The base path of the catalogue's HTTP API at a gateway; null for none. Default
    /// `/api/v1/tools`. It and a JSON API of the gateway must not cover each other.
    // Empty for none. Only the gateway applies it, which reads the document.
    #[serde(deserialize_with = "http_prefix")]
    pub http_prefix: Option<String>,
    /// Changes of the names, titles, descriptions and annotations of tools. The guard itself
    /// rewrites none. They apply in every form of the guard.
    pub overrides: Option<Vec<ToolOverride>>,
    /// The definitions that are withheld until an operator approves them: those that an upstream
    /// changed while the gateway runs (`changed`), and those with hidden characters or
    /// instructions (`suspicious`). Default: none; the gateway logs and counts them.
    pub hold: Option<Vec<HoldReason>>,
    /// Globs over `server::tool`: definitions of these tools are neither withheld nor reported as
    /// suspicious. A glob without `::` also matches the names of tools on all servers.
    pub trust: Option<Vec<String>>,
}

/// The tools of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CatalogueMode {
    /// Depends on the cost of the full list, and on the client.
    #[default]
    Auto,
    /// All visible tools.
    Full,
    /// Search and call tools, pinned tools and hot tools.
    Tiered,
}

/// The detail of a tool in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ToolDetail {
    /// The name.
    Names,
    /// The name and the first sentence of the description.
    Summary,
    /// The signature.
    #[default]
    Signature,
    /// The definition.
    Full,
}

/// The tools that call other tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CallTools {
    /// One for read-only tools, and one for all.
    #[default]
    Split,
    /// One for all.
    One,
}

/// A category of tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CategoryRule {
    /// The name.
    pub name: String,
    /// The name for people. Default: the name.
    #[serde(default)]
    pub display_name: Option<String>,
    /// A sentence about its tools.
    #[serde(default)]
    pub description: Option<String>,
    /// The position among categories; lower comes first. Default 0.
    #[serde(default)]
    pub order: i64,
    /// Globs over `server::tool`. A glob without `::` also matches the names of tools on all
    /// servers.
    #[serde(rename = "match")]
    pub patterns: Vec<String>,
}

/// A group of words.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum WordGroupForms {
    /// Words between spaces.
    Text(String),
    /// A list of words.
    Words(Vec<String>),
}

fn word_groups<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<Vec<String>>>, D::Error> {
    // The compiled format of a policy does not describe itself: it has lists alone.
    if !deserializer.is_human_readable() {
        return Option::deserialize(deserializer);
    }
    let groups = Option::<Vec<WordGroupForms>>::deserialize(deserializer)?;
    let words = |group| match group {
        WordGroupForms::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
        WordGroupForms::Words(words) => words,
    };
    Ok(groups.map(|groups| groups.into_iter().map(words).collect()))
}

fn http_prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let is_document = deserializer.is_human_readable();
    let prefix = Option::<String>::deserialize(deserializer)?;
    // A missing member is not deserialized at all, so that none is null.
    Ok(if is_document { Some(prefix.unwrap_or_default()) } else { prefix })
}

/// Returns true if a path begins with a slash and has segments of letters, digits and `-._~`. No
/// segment may be empty, `.` or `..`, so that no slash is at its end.
fn is_plain_path(path: &str) -> bool {
    let is_plain = |segment: &str| {
        let mut letters = segment.chars();
        !matches!(segment, "" | "." | "..")
            && letters.all(|letter| letter.is_ascii_alphanumeric() || "-._~".contains(letter))
    };
    path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_plain))
}

/// The numeric settings of the catalogue, each with its minimum and its maximum.
pub const CATALOGUE_RANGES: [(&str, u64, u64); 3] =
    [("threshold", 0, 1_000_000), ("hot", 0, 15), ("recomputeSeconds", 3_600, 604_800)];

impl CatalogueSettings {
    /// Returns an error for each invalid setting: its name and the reason.
    pub(super) fn issues(&self) -> Vec<(String, String)> {
        let mut issues = Vec::new();
        let values = [self.threshold, self.hot, self.recompute_seconds];
        for ((name, least, most), value) in CATALOGUE_RANGES.into_iter().zip(values) {
            if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
                let reason = format!("{value} is out of range: from {least} to {most}");
                issues.push((name.to_owned(), reason));
            }
        }
        let prefix = self.http_prefix.as_deref().filter(|prefix| !prefix.is_empty());
        if prefix.is_some_and(|prefix| !is_plain_path(prefix)) {
            let reason = "not a path: use one such as /api/v1/tools, or null for no HTTP API";
            issues.push(("httpPrefix".to_owned(), reason.to_owned()));
        }
        for (at, group) in self.synonyms.iter().flatten().enumerate() {
            if group.len() < 2 {
                let reason = "a group needs at least two words".to_owned();
                issues.push((format!("synonyms[{at}]"), reason));
            }
        }
        issues.extend(tool_override::issues(self.overrides.as_deref().unwrap_or_default()));
        for (at, rule) in self.categories.iter().flatten().enumerate() {
            if rule.name.trim().is_empty() {
                let reason = "empty: set it to the name of the category".to_owned();
                issues.push((format!("categories[{at}].name"), reason));
            }
            if rule.patterns.is_empty() {
                let reason = "empty: set it to globs such as github::*".to_owned();
                issues.push((format!("categories[{at}].match"), reason));
            }
        }
        issues
    }

    /// Returns true if the tool is always listed.
    #[must_use]
    pub fn is_pinned(&self, endpoint: &str) -> bool {
        self.matches_any(self.pins.as_deref(), endpoint)
    }

    /// Returns true if the tool is neither found nor callable.
    #[must_use]
    pub fn is_hidden(&self, endpoint: &str) -> bool {
        self.matches_any(self.hide.as_deref(), endpoint)
    }

    /// Returns the globs of `pins` and `hide` that match none of these tools, as
    /// `catalogue.hide: glob`. O(globs × tools).
    #[must_use]
    pub fn unmatched_globs(&self, endpoints: &[String]) -> Vec<String> {
        let globs = [("pins", &self.pins), ("hide", &self.hide)];
        let globs = globs
            .iter()
            .flat_map(|(setting, globs)| globs.iter().flatten().map(move |glob| (*setting, glob)));
        let is_unmatched = |glob: &String| {
            !endpoints.iter().any(|tool| self.matches_any(Some(std::slice::from_ref(glob)), tool))
        };
        globs
            .filter(|(_, glob)| is_unmatched(glob))
            .map(|(setting, glob)| format!("catalogue.{setting}: {glob}"))
            .collect()
    }

    /// Returns true if the definition of the tool is not examined.
    #[must_use]
    pub fn is_trusted(&self, endpoint: &str) -> bool {
        self.matches_any(self.trust.as_deref(), endpoint)
    }

    /// Returns true if definitions are withheld for this reason.
    #[must_use]
    pub fn holds(&self, reason: HoldReason) -> bool {
        self.hold.as_ref().is_some_and(|reasons| reasons.contains(&reason))
    }

    /// Returns true if definitions are withheld for any reason.
    #[must_use]
    pub fn holds_any(&self) -> bool {
        self.hold.as_ref().is_some_and(|reasons| !reasons.is_empty())
    }

    /// Returns the operator's changes of the tool `name` of a server; none if there are none.
    #[must_use]
    pub fn override_for(&self, server: &str, name: &str) -> Option<ToolOverride> {
        tool_override::find(self.overrides.as_deref().unwrap_or_default(), server, name)
    }

    /// Returns the upstream's own name of the tool of a server that clients see as `name`; none if
    /// no entry of `overrides` changes a name to this.
    #[must_use]
    pub fn own_name(&self, server: &str, name: &str) -> Option<&str> {
        tool_override::own_name(self.overrides.as_deref().unwrap_or_default(), server, name)
    }

    /// Returns true if a glob matches the name of a tool that clients see, or the upstream's own.
    fn matches_any(&self, patterns: Option<&[String]>, endpoint: &str) -> bool {
        let matches = |endpoint: &str| matches_any(patterns, endpoint);
        let (server, name) = endpoint.split_once("::").unwrap_or(("", endpoint));
        let own = self.own_name(server, name);
        matches(endpoint) || own.is_some_and(|own| matches(&super::endpoint_name(server, own)))
    }

    /// Returns true if the client loads tools on demand itself.
    #[must_use]
    pub fn is_deferring(&self, client: &str) -> bool {
        match &self.deferring_clients {
            Some(patterns) => patterns.iter().any(|pattern| glob::matches(pattern, client)),
            None => ["claude-code*", "codex*"].iter().any(|known| glob::matches(known, client)),
        }
    }

    /// Returns the rule of a tool's category.
    #[must_use]
    pub fn category(&self, endpoint: &str) -> Option<&CategoryRule> {
        let mut rules = self.categories.iter().flatten();
        rules.find(|rule| self.matches_any(Some(&rule.patterns), endpoint))
    }
}

fn matches_any(patterns: Option<&[String]>, endpoint: &str) -> bool {
    let name = endpoint.split_once("::").map_or(endpoint, |(_, name)| name);
    patterns.into_iter().flatten().any(|pattern| {
        glob::matches(pattern, endpoint)
            || (!pattern.contains("::") && glob::matches(pattern, name))
    })
}
