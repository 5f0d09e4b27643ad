//! Policy corrections for the token estimator: scale factors measured by sampling.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Returns the policy with the estimator scales in `corrections`, which were measured for each
/// endpoint. `None` if the operator has set any scale, which takes precedence.
pub(super) fn corrected_policy(
    policy: &str,
    corrections: &BTreeMap<String, f64>,
) -> Option<String> {
    let mut document: Value =
        if policy.trim().is_empty() { json!({}) } else { serde_json::from_str(policy).ok()? };
    let has_scale = |settings: &Value| settings.pointer("/estimator/scale").is_some();
    let rules = document.get("endpoints").and_then(Value::as_array).cloned().unwrap_or_default();
    if has_scale(&document) || rules.iter().any(has_scale) {
        return None;
    }
    let learned = corrections
        .iter()
        .filter(|(name, _)| !name.contains(['*', '?']))
        .map(|(name, scale)| json!({"match": name, "estimator": {"scale": scale}}));
    let rules: Vec<Value> = rules.into_iter().chain(learned).collect();
    document.as_object_mut()?.insert("endpoints".to_owned(), rules.into());
    Some(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_scale_is_not_overridden() {
        let learned: BTreeMap<String, f64> = [("files::read".to_owned(), 1.2)].into();
        let policy =
            corrected_policy(r#"{"endpoints":[{"match":"files::*","hardCap":9000}]}"#, &learned)
                .unwrap();
        let policy: Value = serde_json::from_str(&policy).unwrap();
        assert_eq!(
            policy["endpoints"][1],
            json!({"match": "files::read", "estimator": {"scale": 1.2}})
        );
        assert_eq!(corrected_policy(r#"{"estimator":{"scale":1.3}}"#, &learned), None);
        assert_eq!(
            corrected_policy(
                r#"{"endpoints":[{"match":"*","estimator":{"scale":1.3}}]}"#,
                &learned
            ),
            None
        );
    }
}
