//! Checks a single definition.

use super::{Level, ParsedTool, plural};
use crate::document::Json;
use crate::suspicion::suspicions;
use crate::text::normalized_name;

/// The maximum length of a tool name in MCP 2025-11-25, in characters.
const MAX_NAME_LENGTH: usize = 128;
/// The maximum length, in characters, of a name that all model APIs accept. OpenAI's is the
/// shortest.
const MAX_ACCEPTED_LENGTH: usize = 64;
/// The number of tokens that the definitions of one in a hundred tools of public servers exceed.
const LONG_TOKENS: u64 = 1_000;
/// The number of tokens that the definitions of one in a thousand tools of public servers exceed.
const OVERSIZED_TOKENS: u64 = 4_000;

/// A finding without server and tool: severity, rule and message.
type Problem = (Level, &'static str, String);

/// A definition to check, with the earlier tools of the same server.
pub(super) struct Checked<'a> {
    pub(super) definition: &'a str,
    pub(super) document: &'a Json,
    pub(super) name: &'a str,
    pub(super) earlier: &'a [ParsedTool<'a>],
}

impl Checked<'_> {
    pub(super) fn findings(&self, price: &impl Fn(&str) -> u64) -> Vec<Problem> {
        let mut found: Vec<Problem> = self.name_problem().into_iter().collect();
        if self.earlier.iter().any(|tool| tool.name == self.name) {
            let message = "an earlier tool has the same name: clients call one of them".to_owned();
            found.push((Level::Error, "duplicate-name", message));
        }
        found.extend(self.description_problem());
        self.check_schema(&mut found);
        found.extend(self.length_problem(price));
        found.extend(suspicions(self.document).into_iter().map(|suspicion| {
            let level = if suspicion.kind.is_severe() { Level::Error } else { Level::Warning };
            (level, suspicion.kind.name(), format!("{}: {}", suspicion.path, suspicion.excerpt))
        }));
        found
    }

    fn name_problem(&self) -> Option<Problem> {
        let name = self.name;
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let length = name.chars().count();
        if name.is_empty() {
            return Some((Level::Error, "invalid-name", "the name is empty".to_owned()));
        }
        if let Some(other) = name.chars().find(|c| !is_allowed(*c)) {
            let message = format!("{other:?} in the name: MCP allows letters, digits, _, - and .");
            return Some((Level::Error, "invalid-name", message));
        }
        if length > MAX_NAME_LENGTH {
            let message = format!("the name has {length} characters: MCP allows {MAX_NAME_LENGTH}");
            return Some((Level::Error, "invalid-name", message));
        }
        if length > MAX_ACCEPTED_LENGTH {
            let message = format!(
                "the name has {length} characters: model APIs accept {MAX_ACCEPTED_LENGTH}, with the prefix of the client"
            );
            return Some((Level::Warning, "refused-name", message));
        }
        if name.contains('.') {
            let message = "\".\" in the name: the APIs of Claude and OpenAI refuse it, so that some clients fail".to_owned();
            return Some((Level::Warning, "refused-name", message));
        }
        None
    }

    fn description_problem(&self) -> Option<Problem> {
        let description = description(self.document);
        if description.is_empty() {
            let message = "no description: a model chooses a tool by it".to_owned();
            return Some((Level::Error, "missing-description", message));
        }
        if normalized_name(description) == normalized_name(self.name) {
            let message = "the description repeats the name: say what the tool does".to_owned();
            return Some((Level::Warning, "name-as-description", message));
        }
        let twin =
            self.earlier.iter().find(|tool| self::description(&tool.document) == description);
        let message = format!("the description is that of {}: say how they differ", twin?.name);
        Some((Level::Warning, "duplicate-description", message))
    }

    fn check_schema(&self, found: &mut Vec<Problem>) {
        let Some(schema) = self.document.get("inputSchema") else {
            let message = r#"no inputSchema: without parameters, it is {"type": "object"}"#;
            found.push((Level::Error, "missing-schema", message.to_owned()));
            return;
        };
        for (name, schema) in
            [("inputSchema", Some(schema)), ("outputSchema", self.document.get("outputSchema"))]
        {
            let Some(schema) = schema else { continue };
            if schema.get("type").and_then(Json::as_str) != Some("object") {
                let message = format!(r#"{name}.type is not "object", which MCP requires"#);
                found.push((Level::Error, "invalid-schema", message));
            }
        }
        let parameters = schema.get("properties").map_or(&[][..], Json::members);
        let undescribed: Vec<&str> = parameters
            .iter()
            .filter(|(_, schema)| is_undescribed(schema))
            .map(|(name, _)| name.as_str())
            .collect();
        if !undescribed.is_empty() {
            let message = format!(
                "{} of {} without a description: {}",
                undescribed.len(),
                plural(parameters.len(), "parameter"),
                undescribed.join(", ")
            );
            found.push((Level::Note, "undescribed-parameters", message));
        }
    }

    fn length_problem(&self, price: &impl Fn(&str) -> u64) -> Option<Problem> {
        let tokens = price(self.definition);
        if tokens <= LONG_TOKENS {
            return None;
        }
        let part = |name: &str| {
            let value = self.document.get(name)?;
            Some((price(&value.to_string()), name.to_owned()))
        };
        let parts = ["description", "inputSchema", "outputSchema", "_meta"];
        let (largest, name) = parts.into_iter().filter_map(part).max()?;
        let level = if tokens > OVERSIZED_TOKENS { Level::Error } else { Level::Warning };
        let message = format!("the definition costs {tokens} tokens, {largest} of them for {name}");
        Some((level, "long-definition", message))
    }
}

/// Returns true if a schema has no description. A title, a reference, a constant or an enumeration
/// counts as one.
fn is_undescribed(schema: &Json) -> bool {
    !["description", "$ref", "enum", "const", "title"]
        .iter()
        .any(|member| schema.get(member).is_some())
}

/// Returns the trimmed description. Empty if there is none.
pub(super) fn description(document: &Json) -> &str {
    document.get("description").and_then(Json::as_str).unwrap_or_default().trim()
}

pub(super) fn has_read_only_hint(document: &Json) -> bool {
    let hints = document.get("annotations");
    hints
        .and_then(|hints| hints.get("readOnlyHint"))
        .is_some_and(|hint| matches!(hint, Json::Bool(_)))
}
