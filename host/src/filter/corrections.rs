//! Estimates that are corrected by what was counted.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The policy with a scale for each endpoint whose estimates are off; none where nothing would change. Where an operator has set a scale, it stays.
pub(super) fn corrected(policy: &str, corrections: &BTreeMap<String, f64>) -> Option<String> {
    let mut document: Value =
        if policy.trim().is_empty() { json!({}) } else { serde_json::from_str(policy).ok()? };
    let has_scale = |settings: &Value| settings.pointer("/estimator/scale").is_some();
    let rules = document.get("endpoints").and_then(Value::as_array).cloned().unwrap_or_default();
    if has_scale(&document) || rules.iter().any(has_scale) {
        return None;
    }
    let learnt = corrections
        .iter()
        .filter(|(name, _)| !name.contains(['*', '?']))
        .map(|(name, scale)| json!({"match": name, "estimator": {"scale": scale}}));
    let rules: Vec<Value> = rules.into_iter().chain(learnt).collect();
    document.as_object_mut()?.insert("endpoints".to_owned(), rules.into());
    Some(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrections_are_rules_and_leave_an_operators_scale_alone() {
        let learnt: BTreeMap<String, f64> = [("files::read".to_owned(), 1.2)].into();
        let policy =
            corrected(r#"{"endpoints":[{"match":"files::*","hardCap":9000}]}"#, &learnt).unwrap();
        let policy: Value = serde_json::from_str(&policy).unwrap();
        assert_eq!(
            policy["endpoints"][1],
            json!({"match": "files::read", "estimator": {"scale": 1.2}})
        );
        assert_eq!(corrected(r#"{"estimator":{"scale":1.3}}"#, &learnt), None);
        assert_eq!(
            corrected(r#"{"endpoints":[{"match":"*","estimator":{"scale":1.3}}]}"#, &learnt),
            None
        );
    }
}
