//! Conditions of shells and log searches, rewritten: `$_.a -gt 5 -and $_.b -eq 'x'`,
//! `{a="x", b=~"y"}`, `kind:new sort:price-desc`.

use crate::query::code::{end_of_group, outside_quotes};
use crate::query::reader::is_word_character;

/// The operators of PowerShell, and the operators here.
const SHELL: [(&str, &str); 12] = [
    ("-and", "AND"),
    ("-or", "OR"),
    ("-not", "NOT"),
    ("-eq", "="),
    ("-ne", "!="),
    ("-gt", ">"),
    ("-ge", ">="),
    ("-lt", "<"),
    ("-le", "<="),
    ("-match", "=~"),
    ("-like", "GLOB"),
    ("-in", "IN"),
];

/// Returns the condition in the notation of this language. None if the text is of no such dialect.
pub(super) fn condition(text: &str) -> Option<String> {
    let text = text.trim();
    shell(text).or_else(|| matchers(text)).or_else(|| sorted(text))
}

/// Reads `$_.price -gt 5 -and $_.kind -eq 'x'`, also inside `Where-Object { … }`.
fn shell(text: &str) -> Option<String> {
    let inner = text.strip_prefix("Where-Object").map_or(text, str::trim_start);
    let inner = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner);
    let (mut out, mut copied, mut has_comparison) = (String::new(), 0, false);
    for (at, _) in outside_quotes(inner).filter(|(_, c)| *c == '-') {
        let (before, rest) = inner.split_at_checked(at)?;
        let is_start = at >= copied && before.ends_with([' ', ')', '(']) || at == 0;
        let found = SHELL.iter().find(|(word, _)| {
            rest.strip_prefix(word).is_some_and(|after| after.starts_with([' ', '(']))
        });
        let Some((word, operator)) = found.filter(|_| is_start) else { continue };
        has_comparison |= !["-and", "-or", "-not"].contains(word);
        out.push_str(inner.get(copied..at)?);
        out.push_str(operator);
        copied = at + word.len();
    }
    out.push_str(inner.get(copied..)?);
    has_comparison.then_some(out)
}

/// Reads the label matchers of PromQL and LogQL: `{a="x", b=~"y|z"}`.
fn matchers(text: &str) -> Option<String> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?.trim();
    let name = inner.find(|c| !is_word_character(c))?;
    let is_matcher = inner.get(name..)?.trim_start().starts_with(['=', '!']);
    (name > 0 && is_matcher && end_of_group(inner).is_none()).then(|| inner.to_owned())
}

/// Reads the order of a search: `kind:new sort:price-desc`.
fn sorted(text: &str) -> Option<String> {
    let (condition, order) = text.rsplit_once(" sort:")?;
    let (name, direction) = order.rsplit_once('-')?;
    let is_order = ["asc", "desc"].contains(&direction)
        && !name.is_empty()
        && name.chars().all(|c| is_word_character(c) || c == '.');
    is_order.then(|| format!("{condition} order by {name} {direction}"))
}

#[cfg(test)]
mod tests {
    use super::condition;

    #[test]
    fn dialects_are_rewritten() {
        for (text, expected) in [
            (
                "$_.Age -gt 60 -and ($_.Office -eq 'a -or b' -or $_.x -like 'y*')",
                Some("$_.Age > 60 AND ($_.Office = 'a -or b' OR $_.x GLOB 'y*')"),
            ),
            ("Where-Object { $_.a -ne 5 }", Some(" $_.a != 5 ")),
            ("a-eq = 5", None),
            ("kind:new -in:x", None),
            ("{a=\"x\", b=~\"y|z\"}", Some("a=\"x\", b=~\"y|z\"")),
            ("{\"a\": \"x=y\"}", None),
            ("kind:new sort:price.total-desc", Some("kind:new order by price.total desc")),
            ("kind:new sort:5", None),
        ] {
            assert_eq!(condition(text).as_deref(), expected, "{text}");
        }
    }
}
