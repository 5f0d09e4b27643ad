//! Explains a policy's effective settings for an endpoint and their origin.

use std::fmt;

use context_guard_protocol::glob;
use serde_json::{Map, Value};

use super::{Source, settings};

/// The origin of the effective value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The default of the policy schema.
    Default,
    /// The top level of the policy. Contains the line, or `None` if it is unknown.
    Top(Option<usize>),
    /// An endpoint rule. Contains its index, its pattern, and the line of the setting or `None` if
    /// it is unknown.
    Rule(usize, String, Option<usize>),
    /// An entry of `catalogue.overrides`. Contains its index, its pattern, and the line of the
    /// setting or `None` if it is unknown.
    Override(usize, String, Option<usize>),
    /// An environment variable with this name.
    Environment(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line =
            |line: &Option<usize>| line.map(|line| format!(", line {line}")).unwrap_or_default();
        match self {
            Self::Default => f.write_str("default"),
            Self::Top(at) => write!(f, "top of the policy{}", line(at)),
            Self::Rule(number, pattern, at) => {
                write!(f, "endpoints[{number}] `{pattern}`{}", line(at))
            }
            Self::Override(number, pattern, at) => {
                write!(f, "catalogue.overrides[{number}] `{pattern}`{}", line(at))
            }
            Self::Environment(name) => f.write_str(name),
        }
    }
}

/// A setting with its effective value for an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The name of the setting, such as `hardCap`. A member of an object has a name like
    /// `estimator.scale`.
    pub setting: String,
    /// The effective value. Null if it depends on the answer.
    pub value: Value,
    /// The origin of the value.
    pub origin: Origin,
}

/// Returns all settings of a policy for an endpoint, which is `upstream::tool` or the name of a
/// tool.
///
/// Later values override earlier ones: first the top level, then all matching glob rules in their
/// order, then rules with the exact name.
#[must_use]
pub fn explain(source: &Source, endpoint: &str) -> Vec<Explained> {
    let mut all: Vec<Explained> = settings()
        .flat_map(|(name, default)| members(name, default))
        .map(|(setting, value)| Explained { setting, value, origin: Origin::Default })
        .collect();
    let empty = Map::new();
    let document = source.document().as_object().unwrap_or(&empty);
    apply_overrides(&mut all, source, document, &[], &|line| Origin::Top(line));
    let rules = document.get("endpoints").and_then(Value::as_array).into_iter().flatten();
    let rules = rules.enumerate().filter_map(|(at, rule)| {
        let rule = rule.as_object()?;
        let pattern = rule.get("match")?.as_str()?;
        Some((at, pattern, rule))
    });
    let (globs, exact): (Vec<_>, Vec<_>) =
        rules.partition(|(_, pattern, _)| glob::is_pattern(pattern));
    for (at, pattern, rule) in globs.into_iter().chain(exact) {
        if applies(pattern, endpoint) {
            let steps = ["endpoints".to_owned(), at.to_string()];
            apply_overrides(&mut all, source, rule, &steps, &|line| {
                Origin::Rule(at, pattern.to_owned(), line)
            });
        }
    }
    all.extend(definition_overrides(source, document, endpoint));
    all
}

/// Returns the operator's changes to the definition of a tool, with names like
/// `override.description`.
fn definition_overrides(
    source: &Source,
    document: &Map<String, Value>,
    endpoint: &str,
) -> Vec<Explained> {
    let entries = document.get("catalogue").and_then(|catalogue| catalogue.get("overrides"));
    let entries = entries.and_then(Value::as_array).into_iter().flatten().enumerate();
    let entries = entries.filter_map(|(at, entry)| {
        let entry = entry.as_object()?;
        let pattern = entry.get("match")?.as_str()?;
        applies(pattern, endpoint).then_some((at, pattern, entry))
    });
    // An exact name overrides globs.
    let (globs, exact): (Vec<_>, Vec<_>) =
        entries.partition(|(_, pattern, _)| glob::is_pattern(pattern));
    let mut all: Vec<Explained> = Vec::new();
    for (at, pattern, entry) in globs.into_iter().chain(exact) {
        for (member, value) in entry.iter().filter(|(member, _)| *member != "match") {
            let steps = ["catalogue", "overrides", &at.to_string(), member].map(str::to_owned);
            let origin = Origin::Override(at, pattern.to_owned(), source.line(&steps));
            let hints = value.as_object().filter(|_| member == "annotations");
            let values = match hints {
                Some(hints) => hints
                    .iter()
                    .map(|(hint, value)| (format!("override.annotations.{hint}"), value.clone()))
                    .collect(),
                None => vec![(format!("override.{member}"), value.clone())],
            };
            for (setting, value) in values {
                all.retain(|one| one.setting != setting);
                all.push(Explained { setting, value, origin: origin.clone() });
            }
        }
    }
    all
}

/// Returns true if a rule with this pattern applies to an endpoint. The pattern may match the name
/// with or without the upstream.
fn applies(pattern: &str, endpoint: &str) -> bool {
    let name = endpoint.split_once("::").map_or(endpoint, |(_, name)| name);
    if glob::is_pattern(pattern) {
        glob::matches(pattern, endpoint) || glob::matches(pattern, name)
    } else {
        pattern == endpoint || pattern == name
    }
}

fn apply_overrides(
    all: &mut [Explained],
    source: &Source,
    from: &Map<String, Value>,
    steps: &[String],
    origin: &dyn Fn(Option<usize>) -> Origin,
) {
    for (name, value) in from.iter().filter(|(_, value)| !value.is_null()) {
        let line = source.line(&[steps, std::slice::from_ref(name)].concat());
        let origin = environment(source, steps, name).unwrap_or_else(|| origin(line));
        for (setting, value) in members(name, value) {
            if let Some(one) = all.iter_mut().find(|one| one.setting == setting) {
                // An empty list of fields removes the selection of a wider rule.
                let taken_back = setting == "fields" && value == Value::Array(Vec::new());
                one.value = if taken_back { Value::Null } else { value };
                one.origin = origin.clone();
            }
        }
    }
}

/// Returns the names and values to list for a setting. If its members can be overridden
/// individually, these are the members. Otherwise it is the setting itself.
fn members(name: &str, value: &Value) -> Vec<(String, Value)> {
    match value {
        Value::Object(members) if name == "estimator" => members
            .iter()
            .map(|(member, value)| (format!("{name}.{member}"), value.clone()))
            .collect(),
        value => vec![(name.to_owned(), value.clone())],
    }
}

/// Returns the environment variable that sets the member `name` of the object at the path `steps`.
/// `None` if no variable does.
fn environment(source: &Source, steps: &[String], name: &str) -> Option<Origin> {
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    let way: Vec<String> = steps.iter().map(String::as_str).chain([name]).map(plain).collect();
    let sets = |variable: &&String| {
        let set = variable.split("__").skip(2).map(plain);
        set.take(way.len()).eq(way.iter().cloned())
    };
    source.overridden.iter().find(sets).cloned().map(Origin::Environment)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_origins() {
        let text = "tokenBudgetThreshold: 6000\nendpoints:\n  - match: 'crm::list_*'\n    defaultPageSize: 20\n  - match: list_users\n    defaultPageSize: 10\n    estimator: {scale: 1.5}\n";
        let source = Source::parse(Path::new("p.yaml"), text.to_owned()).unwrap();
        let explained = |endpoint: &str, setting: &str| {
            let all = explain(&source, endpoint);
            let one = all.into_iter().find(|one| one.setting == setting).unwrap();
            (one.value, one.origin.to_string())
        };
        assert_eq!(explained("crm::get", "defaultPageSize"), (json!(50), "default".into()));
        assert_eq!(
            explained("crm::get", "tokenBudgetThreshold"),
            (json!(6000), "top of the policy, line 1".into())
        );
        let glob = (json!(20), "endpoints[0] `crm::list_*`, line 4".into());
        assert_eq!(explained("crm::list_rooms", "defaultPageSize"), glob);
        let exact = (json!(10), "endpoints[1] `list_users`, line 6".into());
        assert_eq!(explained("crm::list_users", "defaultPageSize"), exact);
        assert_eq!(explained("crm::list_users", "estimator.scale").0, json!(1.5));
        assert_eq!(explained("crm::list_users", "estimator.method").0, json!("lexical"));
    }

    #[test]
    fn definition_overrides_are_shown() {
        let text = "catalogue:\n  overrides:\n    - match: git::commit\n      description: Exact.\n    - match: 'git::*'\n      description: Glob.\n      annotations: {readOnlyHint: true}\n";
        let source = Source::parse(Path::new("p.yaml"), text.to_owned()).unwrap();
        let shown = |endpoint: &str| -> Vec<(String, Value, String)> {
            let all = explain(&source, endpoint).into_iter();
            all.filter(|one| one.setting.starts_with("override."))
                .map(|one| (one.setting, one.value, one.origin.to_string()))
                .collect()
        };
        let hint = (
            "override.annotations.readOnlyHint".to_owned(),
            json!(true),
            "catalogue.overrides[1] `git::*`, line 7".to_owned(),
        );
        let exact = (
            "override.description".to_owned(),
            json!("Exact."),
            "catalogue.overrides[0] `git::commit`, line 4".to_owned(),
        );
        assert_eq!(shown("git::commit"), [hint, exact]);
        assert!(shown("jira::search").is_empty());
    }
}
