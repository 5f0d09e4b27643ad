//! The differences between two policies or other documents.

use serde::Serialize;
use serde_json::Value;

/// A value that differs between two documents.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The path of the value, such as `endpoints[crm::list_*].hardCap`. Rules are identified by
    /// their pattern.
    pub path: String,
    /// The value in the old document. Null if it has none.
    pub old: Value,
    /// The value in the new document. Null if it has none.
    pub new: Value,
}

/// Returns all differences between two documents in the order of their paths.
///
/// Endpoint rules with the same pattern are compared with each other. A changed order of rules is
/// reported because later rules override earlier ones.
#[must_use]
pub fn diff(old: &Value, new: &Value) -> Vec<Difference> {
    let mut differences = Vec::new();
    walk("", old, new, &mut differences);
    differences
}

fn walk(path: &str, old: &Value, new: &Value, into: &mut Vec<Difference>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(_) | Value::Null, Value::Object(_)) | (Value::Object(_), Value::Null) => {
            let empty = serde_json::Map::new();
            let (old, new) = (old.as_object().unwrap_or(&empty), new.as_object().unwrap_or(&empty));
            let gone = old.keys().filter(|name| !new.contains_key(*name));
            let mut names: Vec<&String> = new.keys().chain(gone).collect();
            names.sort();
            for name in names {
                let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let (old, new) = (old.get(name), new.get(name));
                walk(&at, old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null), into);
            }
        }
        _ if path == "endpoints" => rules(&list(old), &list(new), into),
        (old, new) => {
            into.push(Difference { path: path.to_owned(), old: old.clone(), new: new.clone() });
        }
    }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn rules(old: &[Value], new: &[Value], into: &mut Vec<Difference>) {
    let (old_names, new_names) = (names(old), names(new));
    let find = |names: &[String], rules: &[Value], name: &str| {
        let at = names.iter().position(|own| own == name)?;
        rules.get(at).cloned()
    };
    for (name, rule) in new_names.iter().zip(new) {
        let before = find(&old_names, old, name).unwrap_or_default();
        walk(&format!("endpoints[{name}]"), &before, rule, into);
    }
    for (name, rule) in old_names.iter().zip(old) {
        if !new_names.contains(name) {
            let path = format!("endpoints[{name}]");
            into.push(Difference { path, old: rule.clone(), new: Value::Null });
        }
    }
    let kept = |names: &[String], others: &[String]| -> Vec<String> {
        names.iter().filter(|name| others.contains(name)).cloned().collect()
    };
    let (before, after) = (kept(&old_names, &new_names), kept(&new_names, &old_names));
    if before != after {
        let path = "endpoints (their order)".to_owned();
        into.push(Difference { path, old: before.into(), new: after.into() });
    }
}

/// Returns a name for each endpoint rule: its pattern. If rules have the same pattern, all but the
/// first get a number.
fn names(rules: &[Value]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for rule in rules {
        let pattern = rule.get("match").and_then(Value::as_str).unwrap_or("?");
        let twin =
            |name: &&String| name.as_str() == pattern || name.starts_with(&format!("{pattern} #"));
        let name = match names.iter().filter(twin).count() {
            0 => pattern.to_owned(),
            before => format!("{pattern} #{}", before + 1),
        };
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reported(old: &Value, new: &Value) -> Vec<(String, Value, Value)> {
        diff(old, new).into_iter().map(|one| (one.path, one.old, one.new)).collect()
    }

    #[test]
    fn each_change_is_reported_once() {
        let chunks = json!({"match": "b", "chunkSize": 5});
        let old = json!({
            "hardCap": 9000,
            "estimator": {"scale": 1.0},
            "endpoints": [{"match": "a", "shape": true}, chunks],
        });
        let new = json!({
            "hardCap": 8000,
            "estimator": {"scale": 1.2},
            "endpoints": [chunks, {"match": "a", "shape": false}, {"match": "c"}],
        });
        assert_eq!(
            reported(&old, &new),
            [
                ("endpoints[a].shape".into(), json!(true), json!(false)),
                ("endpoints[c].match".into(), Value::Null, json!("c")),
                ("endpoints (their order)".into(), json!(["a", "b"]), json!(["b", "a"])),
                ("estimator.scale".into(), json!(1.0), json!(1.2)),
                ("hardCap".into(), json!(9000), json!(8000)),
            ]
        );
        assert!(reported(&old, &old).is_empty());
        assert_eq!(reported(&Value::Null, &json!({"a": 1})), [("a".into(), Value::Null, json!(1))]);
    }
}
