//! Converts XPath expressions to JSONPath.

use crate::query::code::{end_of_group, outside_quotes, parts};

/// The operators of XPath, each with the JSONPath operator. Longer ones come first, because the
/// first match wins.
const OPERATORS: [(&str, &str); 6] =
    [("!=", "!="), ("<=", "<="), (">=", ">="), ("=", "=="), ("<", "<"), (">", ">")];

/// Converts an XPath such as `//item[@id='5']/name` to a JSONPath. `None` for a JSON Pointer, and
/// for an expression with unsupported parts.
pub(super) fn to_json_path(path: &str) -> Option<String> {
    let rest = path.strip_prefix('/')?;
    if !path.contains(['[', '@', '*']) && !path.contains("//") {
        return None;
    }
    let mut written = "$".to_owned();
    let mut is_deep = false;
    for step in parts(rest, "/") {
        if step.is_empty() {
            is_deep = true;
            continue;
        }
        let (name, mut predicates) = split_step(step);
        if name == "text()" {
            continue;
        }
        let is_plain = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let dots = if is_deep { ".." } else { "." };
        // Elements with one name are a list in JSON, so that `*` selects the list.
        let is_any = name == "*" && !predicates.is_empty();
        if is_any && !is_deep {
            return None;
        }
        match name {
            "*" if is_any => written.push_str(".."),
            "*" => written.push_str(&format!("{dots}*")),
            _ if is_plain && !name.is_empty() => written.push_str(&format!("{dots}{name}")),
            _ => written.push_str(&format!("{}['{name}']", if is_deep { ".." } else { "" })),
        }
        is_deep = false;
        // Conditions one after the other must all hold.
        let mut conditions: Vec<String> = Vec::new();
        while let Some(inner) = predicates.strip_prefix('[') {
            let end = end_of_group(inner)?;
            let selector = to_selector(inner.get(..end)?)?;
            predicates = inner.get(end + 1..)?;
            match selector.strip_prefix("[?").and_then(|rest| rest.strip_suffix(']')) {
                Some(condition) => conditions.push(condition.to_owned()),
                None if conditions.is_empty() && !is_any => written.push_str(&selector),
                // A number counts the chosen elements.
                None => return None,
            }
        }
        if is_any {
            // Attributes are members in JSON. They meet conditions on a value itself, and
            // negations.
            let is_of_members = |condition: &String| {
                !["!(", "(@)", "(@,"].iter().any(|part| condition.contains(part))
            };
            if !conditions.iter().all(is_of_members) {
                return None;
            }
            // A list, which has a first element, meets the conditions that its elements meet.
            conditions.insert(0, "!@[0]".to_owned());
        }
        if !conditions.is_empty() {
            written.push_str(&format!("[?{}]", conditions.join(" && ")));
        }
        if !predicates.is_empty() {
            return None;
        }
    }
    Some(written)
}

/// Splits a step into its name and its predicates.
fn split_step(step: &str) -> (&str, &str) {
    step.split_at(step.find('[').unwrap_or(step.len()))
}

/// Returns a jq program for an XPath such as `/a/*[2]`, which selects one of the children of an
/// element. `None` for other paths.
pub(super) fn to_jq(path: &str) -> Option<String> {
    let (parent, step) = path.strip_prefix('/')?.rsplit_once('/')?;
    let (name, predicate) = split_step(step);
    let index = to_selector(predicate.strip_prefix('[')?.strip_suffix(']')?)?;
    let is_name = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if name != "*" || index.starts_with("[?") || !parent.split('/').all(is_name) {
        return None;
    }
    let parent = parent.replace('/', ".");
    Some(format!(
        "[.{parent} | to_entries[] | select(.key | test(\"^[@#]\") | not) | .value | if type == \"array\" then .[] else . end]{index}"
    ))
}

/// Converts a predicate such as `2`, `last()` or `scope='test'` to a selector. `None` if it is
/// unsupported.
fn to_selector(predicate: &str) -> Option<String> {
    let predicate = predicate.trim();
    if predicate == "last()" {
        return Some("[-1]".to_owned());
    }
    if let Ok(position) = predicate.parse::<u64>() {
        // XPath counts from 1.
        return Some(format!("[{}]", position.checked_sub(1)?));
    }
    Some(format!("[?{}]", condition(predicate)?))
}

/// Converts a condition. `None` if it is unsupported.
fn condition(text: &str) -> Option<String> {
    for (word, operator) in [(" or ", " || "), (" and ", " && ")] {
        let parts = parts(text, word);
        if parts.len() > 1 {
            let parts: Option<Vec<String>> = parts.into_iter().map(condition).collect();
            return Some(format!("({})", parts?.join(operator)));
        }
    }
    let text = text.trim();
    if let Some((function, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let arguments = parts(inner, ",");
        return match (function, arguments.as_slice()) {
            ("not", [inner]) => Some(format!("!({})", condition(inner)?)),
            ("contains", [name, value]) => {
                Some(format!("contains-text({}, '{}')", member(name)?, unquoted(value.trim())?))
            }
            ("starts-with", [name, value]) => {
                Some(format!("starts-with({}, '{}')", member(name)?, unquoted(value.trim())?))
            }
            _ => None,
        };
    }
    let comparison = outside_quotes(text).find_map(|(at, _)| {
        let rest = text.get(at..)?;
        let (sign, operator) = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign))?;
        Some((text.get(..at)?, operator, rest.get(sign.len()..)?))
    });
    let Some((name, operator, value)) = comparison else {
        return member(text).map(|name| format!("each({name})"));
    };
    let (name, value) = (left(name.trim())?, value.trim());
    let plain = unquoted(value);
    let is_number = |text: &str| serde_json::from_str::<serde_json::Number>(text).is_ok();
    match plain {
        // A text with a number is a number in JSON.
        Some(number) if is_number(number) && matches!(*operator, "==" | "!=") => {
            let join = if *operator == "==" { "||" } else { "&&" };
            Some(format!("({name}{operator}{value} {join} {name}{operator}{number})"))
        }
        Some(number) if is_number(number) => Some(format!("{name}{operator}{number}")),
        Some(_) => Some(format!("{name}{operator}{value}")),
        None => is_number(value).then(|| format!("{name}{operator}{value}")),
    }
}

/// Converts the left side of a comparison, which holds if one of the selected elements meets it.
/// `None` for other texts.
fn left(text: &str) -> Option<String> {
    for (function, converted) in [("number(", "to_number"), ("string-length(", "string-length")] {
        let inner = text.strip_prefix(function).and_then(|inner| inner.strip_suffix(')'));
        if let Some(inner) = inner {
            return Some(format!("{converted}({})", member(inner)?));
        }
    }
    Some(format!("each({})", member(text)?))
}

/// Converts an attribute, an element or `.` to a query. `None` for other names.
fn member(name: &str) -> Option<String> {
    let name = name.trim();
    if matches!(name, "." | "text()") {
        return Some("@".to_owned());
    }
    let mut query = "@".to_owned();
    for step in name.split('/').filter(|step| *step != "text()") {
        let is_part = |c: char| c.is_alphanumeric() || "_-@.:".contains(c);
        if step.is_empty() || !step.chars().all(is_part) {
            return None;
        }
        query.push_str(&format!("['{step}']"));
    }
    Some(query)
}

fn unquoted(text: &str) -> Option<&str> {
    let inner = |mark| text.strip_prefix(mark)?.strip_suffix(mark);
    inner('\'').or_else(|| inner('"')).filter(|inner| !inner.contains(['\'', '"', '\\']))
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
            ("/a/b[c='x']/d/text()", "$.a.b[?each(@['c'])=='x'].d"),
            ("//b[@id!=5]/@name", "$..b[?each(@['@id'])!=5]['@name']"),
            ("//b[c='3']", "$..b[?(each(@['c'])=='3' || each(@['c'])==3)]"),
            ("//b[@t < 0.9]/@n", "$..b[?each(@['@t'])<0.9]['@n']"),
            (
                "/a/b[@c='x' and not(d/e='y/z')]",
                "$.a.b[?(each(@['@c'])=='x' && !(each(@['d']['e'])=='y/z'))]",
            ),
            ("//b[c][@d>1]", "$..b[?each(@['c']) && each(@['@d'])>1]"),
            ("//b[contains(@c, 'x.y')]", "$..b[?contains-text(@['@c'], 'x.y')]"),
            ("//b[starts-with(c,'x') or d]", "$..b[?(starts-with(@['c'], 'x') || each(@['d']))]"),
            ("//b[number(c) > 5]", "$..b[?to_number(@['c'])>5]"),
            ("//b[string-length(c) >= 5]", "$..b[?string-length(@['c'])>=5]"),
            ("/a/*/c", "$.a.*.c"),
            ("//*[@id]", "$..[?!@[0] && each(@['@id'])]"),
            ("/a//*[c='x']/d", "$.a..[?!@[0] && each(@['c'])=='x'].d"),
        ] {
            assert_eq!(to_json_path(xpath).as_deref(), Some(expected), "{xpath}");
            assert!(Path::parse(expected).is_ok(), "{expected}");
        }
        for xpath in ["/a/b", "/a/*[1]", "/a/*[@id]", "//*[1]", "//*[not(@id)]", "//*[.='x']"] {
            assert_eq!(to_json_path(xpath), None, "{xpath}");
        }
        assert!(to_jq("/a/b/*[2]").is_some_and(|program| program.starts_with("[.a.b | to_")));
        assert_eq!(to_jq("/a/*[@id]"), None);
        assert_eq!(to_json_path("/a/b[c='x'][1]"), None);
        assert_eq!(to_json_path("/a[position()<3]"), None);
    }
}
