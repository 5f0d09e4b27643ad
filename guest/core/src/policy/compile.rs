//! Compiles a policy document to a [`Policy`]. Reports all issues of the document at once. No other
//! code checks the ranges of the settings.

use context_guard_protocol::client::check_name;
use context_guard_protocol::glob;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::catalogue_settings::CatalogueSettings;
use super::document::{Document, OnFault, Rule, Settings};
use super::endpoint_settings::EndpointSettings;
use crate::encoding::Stored;
use crate::fields::Mask;

/// The name, minimum and maximum of each policy setting whose whole numbers have a fixed range, in
/// the order in which they are checked.
pub const RANGES: [(&str, u64, u64); 10] = [
    ("summaryThreshold", 500, 1_000_000),
    ("previewChars", 20, 10_000),
    ("defaultPageSize", 1, 1_000),
    ("maxPageSize", 1, 1_000),
    ("tokenBudgetThreshold", 200, 1_000_000),
    ("chunkSize", 1, 100_000),
    ("chunkThreshold", 1_000, 1_000_000),
    ("cursorTtl", 600, 7 * 24 * 3_600),
    ("hardByteLimit", 1_024, 100_000_000),
    ("maxReferenceBytes", 1_024, 32 << 20),
];

/// An error or warning about a policy document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Dotted path of the setting that has the issue. Empty if the issue concerns the whole
    /// document.
    pub path: String,
    /// The problem and, if known, its solution.
    pub reason: String,
    /// True for a warning, despite which the policy is accepted. False for an error.
    pub warning: bool,
}

/// A valid policy: the settings of all endpoints, and the rules that override them for some
/// endpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    settings: Settings,
    rules: Vec<(String, Settings)>,
}

/// A valid policy, and the warnings about its document.
#[derive(Clone, Debug, PartialEq)]
pub struct CompiledPolicy {
    /// The policy that results from the document.
    pub policy: Policy,
    /// Issues that do not make the document invalid.
    pub warnings: Vec<Issue>,
}

/// Compiles a policy document, given as JSON. An empty text gives the default policy.
///
/// # Errors
/// Returns all issues of the document, not only the first.
pub fn compile(json: &str) -> Result<CompiledPolicy, Vec<Issue>> {
    let mut issues = Vec::new();
    let document = if json.trim().is_empty() {
        Ok(Value::Object(Map::new()))
    } else {
        serde_json::from_str(json)
    };
    let mut document = match document {
        Ok(Value::Object(document)) => document,
        Ok(_) => {
            return Err(vec![fault(
                "",
                "expected an object, such as {\"tokenBudgetThreshold\": 4000}",
            )]);
        }
        Err(error) => return Err(vec![fault("", &format!("invalid JSON: {error}"))]),
    };
    let rules = document.remove("endpoints");
    let settings = settings(document, "", &mut issues);
    check(&settings, &Settings::default(), "", &mut issues);
    let rules = self::rules(rules, &settings, &mut issues);
    if issues.iter().any(|issue| !issue.warning) {
        return Err(issues);
    }
    let policy = Policy {
        settings,
        rules: rules.into_iter().map(|rule| (rule.pattern, rule.settings)).collect(),
    };
    Ok(CompiledPolicy { policy, warnings: issues })
}

fn fault(path: &str, reason: &str) -> Issue {
    Issue { path: path.to_owned(), reason: reason.to_owned(), warning: false }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Parses the members of the settings object at `path` one by one. Reports each invalid member in
/// `issues`, and omits it.
fn settings(members: Map<String, Value>, path: &str, issues: &mut Vec<Issue>) -> Settings {
    let mut good = Map::new();
    for (name, value) in members {
        let one: Map<_, _> = [(name.clone(), value.clone())].into_iter().collect();
        match serde_json::from_value::<Settings>(Value::Object(one)) {
            Ok(_) => drop(good.insert(name, value)),
            Err(error) => {
                issues.push(fault(&join(path, &name), &explain_error(&error.to_string())))
            }
        }
    }
    serde_json::from_value(Value::Object(good)).unwrap_or_default()
}

/// Converts an error message of serde to one for users. For an unknown name, suggests the nearest
/// known one.
fn explain_error(reason: &str) -> String {
    let mut quoted = reason.split('`').skip(1).step_by(2);
    let unknown =
        ["unknown field", "unknown variant"].iter().find(|kind| reason.starts_with(*kind));
    let (Some(unknown), Some(given)) = (unknown, quoted.next()) else { return reason.to_owned() };
    let nearest = quoted
        .map(|known| {
            (strsim::damerau_levenshtein(&given.to_lowercase(), &known.to_lowercase()), known)
        })
        .min();
    let what = if *unknown == "unknown field" { "setting" } else { "value" };
    match nearest {
        // A larger distance means another word, not a typing error.
        Some((distance, known)) if distance * 2 < given.len().max(3) => {
            format!("unknown {what} `{given}` (did you mean `{known}`?)")
        }
        _ if what == "setting" => format!("unknown setting `{given}`"),
        _ => reason.to_owned(),
    }
}

fn rules(rules: Option<Value>, base: &Settings, issues: &mut Vec<Issue>) -> Vec<Rule> {
    let rules = match rules {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(rules)) => rules,
        Some(_) => {
            issues.push(fault(
                "endpoints",
                "expected a list of rules, such as [{\"match\": \"list_*\", \"defaultPageSize\": 20}]",
            ));
            return Vec::new();
        }
    };
    let mut read = Vec::new();
    for (at, rule) in rules.into_iter().enumerate() {
        let path = format!("endpoints[{at}]");
        let Value::Object(mut members) = rule else {
            issues.push(fault(&path, "expected an object with a `match`"));
            continue;
        };
        let Some(Value::String(pattern)) = members.remove("match") else {
            issues.push(fault(
                &join(&path, "match"),
                "missing: set it to the name or glob of the endpoints",
            ));
            continue;
        };
        for name in ["onFault", "hardByteLimit", "cursorTtl", "catalogue"] {
            if members.remove(name).is_some() {
                issues.push(fault(
                    &join(&path, name),
                    "applies to all endpoints: set it at the top of the policy",
                ));
            }
        }
        let settings = settings(members, &path, issues);
        check(&settings, base, &path, issues);
        read.push(Rule { pattern, settings });
    }
    read
}

fn check(settings: &Settings, base: &Settings, path: &str, issues: &mut Vec<Issue>) {
    let values = [
        settings.summary_threshold,
        settings.preview_chars,
        settings.default_page_size,
        settings.max_page_size,
        settings.token_budget_threshold,
        settings.chunk_size,
        settings.chunk_threshold,
        settings.cursor_ttl,
        settings.hard_byte_limit,
        settings.max_reference_bytes,
    ];
    for ((name, least, most), value) in RANGES.into_iter().zip(values) {
        if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
            issues.push(fault(
                &join(path, name),
                &format!("{value} is out of range: from {least} to {most}"),
            ));
        }
    }
    if let Some(name) = &settings.client_profile
        && let Err(reason) = check_name(name)
    {
        issues.push(fault(&join(path, "clientProfile"), &reason));
    }
    let scale = settings.estimator.and_then(|estimator| estimator.scale);
    if let Some(scale) = scale.filter(|scale| !(0.5..=4.0).contains(scale)) {
        issues.push(fault(
            &join(path, "estimator.scale"),
            &format!("{scale} is out of range: from 0.5 to 4"),
        ));
    }
    for (name, reason) in settings.catalogue.iter().flat_map(CatalogueSettings::issues) {
        issues.push(fault(&join(path, &format!("catalogue.{name}")), &reason));
    }
    let profile = settings.estimator.and_then(|estimator| estimator.profile);
    if profile.is_some_and(|profile| !profile.is_built_in()) {
        let reason = "this build has no tables of this tokenizer: use o200k";
        issues.push(fault(&join(path, "estimator.profile"), reason));
    }
    for (at, field) in settings.fields.iter().flatten().enumerate() {
        if field.contains(',') || Mask::parse(field).is_err() {
            issues.push(fault(
                &join(path, &format!("fields[{at}]")),
                &format!(
                    "{field:?} is not a path: write names separated by dots, such as price.total"
                ),
            ));
        }
    }
    let mut merged = EndpointSettings::default();
    merged.apply_overrides(base);
    merged.apply_overrides(settings);
    if merged.default_page_size > merged.max_page_size {
        let reason =
            format!("{} exceeds maxPageSize, {}", merged.default_page_size, merged.max_page_size);
        issues.push(fault(&join(path, "defaultPageSize"), &reason));
    }
    if merged.hard_cap < merged.threshold {
        let reason =
            format!("{} is below tokenBudgetThreshold, {}", merged.hard_cap, merged.threshold);
        issues.push(fault(&join(path, "hardCap"), &reason));
    }
}

impl Stored for Policy {
    const FORMAT: &'static [u8; 4] = b"cgp7";
}

impl Policy {
    /// Returns the settings of the endpoint `upstream::name`, with all matching rules applied.
    /// Rules may omit the upstream.
    #[must_use]
    pub fn settings_for(&self, upstream: &str, name: &str) -> EndpointSettings {
        let mut merged = EndpointSettings::default();
        merged.apply_overrides(&self.settings);
        let full = super::endpoint_name(upstream, name);
        // Exact names override globs, whatever their order in the document.
        let (globs, exact): (Vec<_>, Vec<_>) =
            self.rules.iter().partition(|(pattern, _)| glob::is_pattern(pattern));
        for (pattern, settings) in globs {
            if glob::matches(pattern, &full) || glob::matches(pattern, name) {
                merged.apply_overrides(settings);
            }
        }
        for (pattern, settings) in exact {
            if *pattern == full || pattern == name {
                merged.apply_overrides(settings);
            }
        }
        merged
    }

    /// Returns the configured action for answers that the guard fails to process.
    #[must_use]
    pub fn on_fault(&self) -> OnFault {
        self.settings.on_fault.unwrap_or_default()
    }

    /// Returns the settings of the tool catalogue. `None` if the policy has no `catalogue`.
    #[must_use]
    pub fn catalogue(&self) -> Option<&CatalogueSettings> {
        self.settings.catalogue.as_ref()
    }

    /// Returns the maximum size, in bytes, of an answer that the guard fails to process.
    #[must_use]
    pub fn hard_byte_limit(&self) -> u64 {
        self.settings.hard_byte_limit.unwrap_or(10_240)
    }
}

impl From<Policy> for Document {
    fn from(policy: Policy) -> Self {
        let endpoints = policy
            .rules
            .into_iter()
            .map(|(pattern, settings)| Rule { pattern, settings })
            .collect();
        Self { settings: policy.settings, endpoints }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(json: &str) -> Vec<String> {
        compile(json).unwrap_err().into_iter().map(|issue| issue.path).collect()
    }

    #[test]
    fn compiled_policies_are_read_back() {
        for json in [
            r#"{"orderBy": "created_desc"}"#,
            r#"{"catalogue": {"httpPrefix": null}}"#,
            r#"{"catalogue": {"httpPrefix": "/tools"}}"#,
            r#"{"catalogue": {}}"#,
            r#"{"endpoints": [{"match": "a", "orderBy": {"field": "at", "descending": false}}]}"#,
        ] {
            let policy = compile(json).unwrap().policy;
            assert_eq!(Policy::from_bytes(&policy.to_bytes()), Some(policy), "{json}");
        }
    }

    #[test]
    fn empty_policy_gives_the_defaults() {
        let policy = compile("").unwrap().policy;
        assert_eq!(policy.settings_for("", "anything"), EndpointSettings::default());
        assert_eq!((policy.hard_byte_limit(), policy.on_fault()), (10_240, OnFault::Limit));
        assert_eq!(Policy::from_bytes(&policy.to_bytes()), Some(policy));
    }

    #[test]
    fn order_is_a_text_or_an_object() {
        let order = |json: &str| {
            let policy = compile(&format!(r#"{{"orderBy": {json}}}"#)).unwrap().policy;
            policy.settings_for("", "x").order_by.map(|order| (order.field, order.descending))
        };
        assert_eq!(order(r#""created_desc""#), Some(("created".to_owned(), true)));
        assert_eq!(order(r#""price.total_asc""#), Some(("price.total".to_owned(), false)));
        assert_eq!(order(r#"{"field": "id"}"#), Some(("id".to_owned(), true)));
        for wrong in [r#""created""#, r#""_desc""#, "5"] {
            let issues = compile(&format!(r#"{{"orderBy": {wrong}}}"#)).unwrap_err();
            assert!(issues[0].reason.contains("`FIELD_desc`"), "{}", issues[0].reason);
        }
    }

    #[test]
    fn every_issue_is_reported_with_its_path() {
        let found = paths(
            r#"{"tokenBudgetThreshold": 10, "chunkSize": "x", "pageSize": 5,
                "endpoints": [{"match": "a", "hardCap": 5}, {"shape": true}, {"match": "b", "onFault": "pass"}]}"#,
        );
        for path in [
            "tokenBudgetThreshold",
            "chunkSize",
            "pageSize",
            "endpoints[0].hardCap",
            "endpoints[1].match",
            "endpoints[2].onFault",
        ] {
            assert!(found.contains(&path.to_owned()), "{path} in {found:?}");
        }
        let reasons: Vec<String> =
            compile(r#"{"pageSize": 5, "tokenBudgetTreshold": 5, "advertise": "compct"}"#)
                .unwrap_err()
                .into_iter()
                .map(|issue| issue.reason)
                .collect();
        assert!(reasons[0].contains("did you mean `compact`?"), "{reasons:?}");
        assert!(reasons[2].contains("did you mean `tokenBudgetThreshold`?"), "{reasons:?}");
        assert_eq!(paths("[]"), [""]);
        assert_eq!(paths("{"), [""]);
    }

    #[test]
    fn prefix_of_the_catalogue_is_a_path_or_null() {
        let prefix = |json: &str| {
            let policy = compile(&format!(r#"{{"catalogue": {json}}}"#))?.policy;
            Ok::<_, Vec<Issue>>(policy.catalogue().and_then(|one| one.http_prefix.clone()))
        };
        assert_eq!(prefix("{}"), Ok(None));
        assert_eq!(prefix(r#"{"httpPrefix": null}"#), Ok(Some(String::new())));
        assert_eq!(prefix(r#"{"httpPrefix": "/a/b-c"}"#), Ok(Some("/a/b-c".to_owned())));
        for wrong in [r#""tools""#, r#""/""#, r#""/a/""#, r#""/a//b""#, r#""/a?b""#, r#""/../a""#] {
            let issues = prefix(&format!(r#"{{"httpPrefix": {wrong}}}"#)).unwrap_err();
            assert_eq!(issues[0].path, "catalogue.httpPrefix", "{wrong}");
        }
    }

    #[test]
    fn exact_names_override_globs() {
        let policy = compile(
            r#"{"defaultPageSize": 40, "endpoints": [
                {"match": "crm::list_bookings", "defaultPageSize": 10},
                {"match": "list_*", "defaultPageSize": 20, "maxPageSize": 100},
                {"match": "crm::*", "chunkSize": 50}]}"#,
        )
        .unwrap()
        .policy;
        let settings = policy.settings_for("crm", "list_bookings");
        assert_eq!(
            (settings.default_page_size, settings.max_page_size, settings.chunk_size),
            (10, 100, 50)
        );
        assert_eq!(policy.settings_for("other", "list_bookings").default_page_size, 20);
        assert_eq!(policy.settings_for("other", "get").default_page_size, 40);
    }
}
