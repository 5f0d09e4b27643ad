//! Wildcard patterns in policies, REST rules and lists of hosts.

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

/// Returns true if a URI template (RFC 6570) can expand to `uri`: the literals between its
/// expressions occur in order.
#[must_use]
pub fn matches_template(template: &str, uri: &str) -> bool {
    let (mut literals, mut last) = (Vec::new(), template);
    while let Some((literal, expression)) = last.split_once('{') {
        literals.push(literal);
        last = expression.split_once('}').map_or("", |(_, after)| after);
    }
    let Some((first, others)) = literals.split_first() else { return template == uri };
    let after_first = uri.strip_prefix(first);
    let after_others = others.iter().try_fold(after_first, |rest, literal| {
        let (_, after) = rest?.split_once(literal)?;
        Some(Some(after))
    });
    after_others.flatten().is_some_and(|rest| rest.ends_with(last))
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
    fn templates_match() {
        for (template, uri, expected) in [
            ("y://{id}/data{?q}", "y://7/data", true),
            ("y://{id}/data{?q}", "y://7/data?q=1", true),
            ("y://{id}/data", "y://7/other", false),
            ("y://{a}/{b}.txt", "y://1/2.txt", true),
            // A template may hold `?` and `*`, which are no wildcards there.
            ("y://x?id={id}", "y://x?id=1", true),
            ("y://x?id={id}", "y://x/id=1", false),
            ("y://*", "y://1", false),
            ("y://1", "y://1", true),
        ] {
            assert_eq!(matches_template(template, uri), expected, "{template} {uri}");
        }
    }

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
