//! Policies as operators write them: read from files, explained and compared. The guard interprets
//! them.

mod diff;
mod explain;
mod source;

pub use diff::{Difference, diff};
pub use explain::{Explained, Origin, explain};
pub use source::Source;

use std::sync::LazyLock;

use serde_json::Value;

/// The published JSON Schema of policies, with defaults and ranges.
pub const SCHEMA: &str = include_str!("../../../docs/reference/policy.schema.json");

/// The parsed form of [`SCHEMA`].
static PARSED: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(SCHEMA).unwrap_or_default());

/// Returns true if a policy withholds definitions of tools (`catalogue.hold`).
///
/// ```
/// use context_guard_config::policy::holds_definitions;
/// use serde_json::json;
///
/// assert!(holds_definitions(&json!({"catalogue": {"hold": ["changed"]}})));
/// assert!(!holds_definitions(&json!({"catalogue": {"hold": []}})));
/// ```
#[must_use]
pub fn holds_definitions(policy: &Value) -> bool {
    let reasons = policy.pointer("/catalogue/hold").and_then(Value::as_array);
    reasons.is_some_and(|reasons| !reasons.is_empty())
}

/// Returns the names of all settings in the schema with their defaults. A default is null if it
/// depends on the answer.
fn settings() -> impl Iterator<Item = (&'static String, &'static Value)> {
    let properties = PARSED.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != "endpoints")
        .map(|(name, schema)| (name, schema.get("default").unwrap_or(&Value::Null)))
}
