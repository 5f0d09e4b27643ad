//! Overrides by environment variables.

use serde_json::Value;

/// The prefix of environment variables that override the gateway file:
/// `CONTEXT_GUARD__LIMITS__CONCURRENCY=64` sets `limits.concurrency`.
pub const OVERRIDE: &str = "CONTEXT_GUARD__";
/// The prefix of environment variables that override the policy:
/// `CONTEXT_GUARD__POLICY__HARD_CAP=9000` sets its `hardCap`.
pub const POLICY_OVERRIDE: &str = "CONTEXT_GUARD__POLICY__";

/// Sets the member of a document that the name of a variable selects: `A__B__C` selects `a.b.c`.
///
/// Case and underscores in names are ignored, and numbers select list entries. A number beyond the
/// end of a list has no effect. A value is parsed as JSON if it is valid JSON. Otherwise it is a
/// string.
pub fn override_with(document: &mut Value, name: &str, value: &str) {
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    let mut at = document;
    for part in name.split("__") {
        let plain = |name: &str| name.replace('_', "").to_lowercase();
        at = match at {
            Value::Array(list) => match part.parse::<usize>().ok().and_then(|i| list.get_mut(i)) {
                Some(entry) => entry,
                None => return,
            },
            other => {
                if !other.is_object() {
                    *other = Value::Object(serde_json::Map::new());
                }
                let Some(members) = other.as_object_mut() else { return };
                let known = members.keys().find(|key| plain(key) == plain(part)).cloned();
                members.entry(known.unwrap_or_else(|| camel(part))).or_insert(Value::Null)
            }
        };
    }
    *at = value;
}

/// Converts a name such as `REQUEST_BYTES` to camel case, `requestBytes`.
fn camel(name: &str) -> String {
    let mut words = name.split('_').filter(|word| !word.is_empty()).map(str::to_lowercase);
    let first = words.next().unwrap_or_default();
    words.fold(first, |name, word| {
        let mut letters = word.chars();
        let initial = letters.next().map(|letter| letter.to_ascii_uppercase());
        name + &initial.into_iter().chain(letters).collect::<String>()
    })
}
