//! Wildcard patterns, as policies, REST rules and lists of hosts write them.

/// Returns true if `text` matches `pattern` as a whole. `*` matches any number of characters,
/// `?` exactly one. There is no escape character.
///
/// ```
/// use context_guard_protocol::glob;
///
/// assert!(glob::matches("crm::list_*", "crm::list_rooms"));
/// assert!(glob::matches("v?", "v1") && !glob::matches("v?", "v10"));
/// ```
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // The pattern after the last `*`, and the text that this `*` has not consumed yet. After a
    // mismatch, only the last `*` has to consume more: an earlier one could not match better.
    let mut resume = None;
    loop {
        let (mut next_pattern, mut next_text) = (pattern.clone(), text.clone());
        match (next_pattern.next(), next_text.next()) {
            (Some('*'), _) => {
                pattern = next_pattern;
                resume = Some((pattern.clone(), text.clone()));
                continue;
            }
            (None, None) => return true,
            (Some(expected), Some(found)) if expected == '?' || expected == found => {
                (pattern, text) = (next_pattern, next_text);
                continue;
            }
            _ => {}
        }
        let Some((after_star, unconsumed)) = &mut resume else { return false };
        if unconsumed.next().is_none() {
            return false;
        }
        (pattern, text) = (after_star.clone(), unconsumed.clone());
    }
}

/// Returns true if a pattern has a wildcard and so can match more than one text.
#[must_use]
pub fn is_pattern(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match() {
        for (pattern, text) in [
            ("*", ""),
            ("abc", "abc"),
            ("a*c*e", "abcde"),
            ("a*", "a"),
            ("**b", "aab"),
            ("*ab", "aaab"),
            ("?é?", "aéb"),
            ("*?", "é"),
            ("/v?/*", "/v1/things/2"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("a", ""),
            ("a*c", "abcd"),
            ("abc", "abcd"),
            ("a*bc*c", "abc"),
            ("a?c", "ac"),
            ("?", ""),
            ("v?", "v10"),
            ("A*", "a"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
        assert!(is_pattern("a?") && is_pattern("*") && !is_pattern("abc"));
    }
}
