//! Records that match as a whole, because a pattern may span several members.

use super::Pattern;
use super::readings::{may_span_member, members_condition};
use crate::json::outline::NodeId;
use crate::json::scan::Kind;
use crate::query::records::RecordSet;

impl Pattern {
    /// Returns the records of `ids` whose JSON matches as a whole, with or without white space
    /// between its tokens. Empty if the pattern cannot span several members. `None` if the records
    /// exceed the byte limit.
    pub(super) fn whole_records(
        &self,
        records: &RecordSet<'_>,
        ids: &[NodeId],
    ) -> Option<Vec<NodeId>> {
        let pattern = self.regex.as_str();
        // Members that are next to each other in one record may be apart in another one.
        if !may_span_member(pattern) || members_condition(pattern).is_some() {
            return Some(Vec::new());
        }
        let has_space = pattern.contains([' ', '\\']);
        let is_object =
            |id: &NodeId| records.outline.node(*id).is_some_and(|node| node.kind == Kind::Object);
        let (mut found, mut budget) = (Vec::new(), self.max_bytes());
        for id in ids.iter().copied().filter(is_object) {
            let compact = String::from_utf8_lossy(&records.raw(id)).into_owned();
            let spaced = if has_space { spaced(&compact) } else { String::new() };
            budget = budget.checked_sub(compact.len() + spaced.len())?;
            if self.regex.is_match(&compact) || (has_space && self.regex.is_match(&spaced)) {
                found.push(id);
            }
        }
        Some(found)
    }
}

/// Returns compact JSON with a space after each comma and colon, which many programs write.
fn spaced(json: &str) -> String {
    let (mut out, mut is_text, mut is_escaped) = (String::new(), false, false);
    for sign in json.chars() {
        out.push(sign);
        match sign {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_text,
            '"' => is_text = !is_text,
            ',' | ':' if !is_text => out.push(' '),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::spaced;

    #[test]
    fn tokens_are_spaced() {
        let json = r#"{"a":"x:\",y","b":[1,2]}"#;
        assert_eq!(spaced(json), r#"{"a": "x:\",y", "b": [1, 2]}"#);
    }
}
