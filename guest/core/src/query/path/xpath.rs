//! XPath expressions, rewritten as JSONPath for errors.

/// Returns the JSONPath for an XPath such as `//item[@id='5']/name`. None for a JSON Pointer, and
/// for an expression with other parts.
pub(super) fn to_json_path(path: &str) -> Option<String> {
    let rest = path.strip_prefix('/')?;
    if !path.contains(['[', '@', '*']) && !path.contains("//") {
        return None;
    }
    let mut written = "$".to_owned();
    let mut is_deep = false;
    for step in rest.split('/') {
        if step.is_empty() {
            is_deep = true;
            continue;
        }
        let (name, predicates) = step.split_at(step.find('[').unwrap_or(step.len()));
        if name == "text()" {
            continue;
        }
        let is_plain = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let dots = if is_deep { ".." } else { "." };
        match name {
            "*" => written.push_str(&format!("{dots}*")),
            _ if is_plain && !name.is_empty() => written.push_str(&format!("{dots}{name}")),
            _ => written.push_str(&format!("{}['{name}']", if is_deep { ".." } else { "" })),
        }
        is_deep = false;
        for predicate in predicates.split('[').skip(1) {
            written.push_str(&to_selector(predicate.strip_suffix(']')?)?);
        }
    }
    Some(written)
}

/// Returns the selector for a predicate such as `2`, `last()` or `scope='test'`.
fn to_selector(predicate: &str) -> Option<String> {
    let predicate = predicate.trim();
    if predicate == "last()" {
        return Some("[-1]".to_owned());
    }
    if let Ok(position) = predicate.parse::<u64>() {
        // XPath counts from 1.
        return Some(format!("[{}]", position.checked_sub(1)?));
    }
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-@.:".contains(c))
    };
    let Some((name, value)) = predicate.split_once('=') else {
        return is_name(predicate).then(|| format!("[?@['{predicate}']]"));
    };
    let (name, value) = (name.trim_end_matches('!').trim(), value.trim());
    let operator = if predicate.contains("!=") { "!=" } else { "==" };
    (is_name(name) && !value.contains([']', '=']))
        .then(|| format!("[?@['{name}']{operator}{value}]"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::path::Path;

    #[test]
    fn expressions_are_rewritten() {
        for (xpath, expected) in [
            ("//name", "$..name"),
            ("/a/b[1]/c", "$.a.b[0].c"),
            ("/a/b[last()]", "$.a.b[-1]"),
            ("/a/b[c='x']/d/text()", "$.a.b[?@['c']=='x'].d"),
            ("//b[@id!=5]/@name", "$..b[?@['@id']!=5]['@name']"),
            ("/a/*/c", "$.a.*.c"),
        ] {
            assert_eq!(to_json_path(xpath).as_deref(), Some(expected), "{xpath}");
            assert!(Path::parse(expected).is_ok(), "{expected}");
        }
        assert_eq!(to_json_path("/a/b"), None);
        assert_eq!(to_json_path("/a[position()<3]"), None);
    }
}
