//! Converts tests of the elements of a list in SQL, CEL and OData: `EXISTS (SELECT 1 FROM lines l
//! WHERE l.price > 5)`, `lines.exists(l, l.price > 5)`, `lines/any(l: l/price gt 5)`.

use super::frame::without_table;
use crate::query::code::{end_of_group, keyword, parts, replaced};
use crate::query::reader::is_word_character;

/// The methods of CEL, each with the method of this language.
const METHODS: [(&str, &str); 2] = [(".exists(", ".some("), (".all(", ".every(")];

/// Converts the tests inside a condition. `None` if there are none.
pub(super) fn condition(text: &str) -> Option<String> {
    replaced(text, |before, rest| {
        method(rest).or_else(|| lambda_of_odata(rest)).or_else(|| subquery(before, rest))
    })
}

/// Converts `/any(l: l/price gt 5)` to `.some(l => l.price gt 5)`.
fn lambda_of_odata(rest: &str) -> Option<(usize, String)> {
    const METHODS: [(&str, &str); 2] = [("/any(", ".some("), ("/all(", ".every(")];
    let (word, converted) = METHODS.iter().find(|(word, _)| rest.starts_with(word))?;
    let inner = rest.get(word.len()..)?;
    let inner = inner.get(..end_of_group(inner)?)?;
    let (name, body) = inner.split_once(':')?;
    let name = name.trim();
    let is_name = name.starts_with(char::is_alphabetic) && name.chars().all(is_word_character);
    let test = replaced(body, |before, rest| {
        let is_path = before.ends_with(is_word_character) && rest.starts_with('/');
        is_path.then(|| (1, ".".to_owned()))
    });
    let test = test.as_deref().unwrap_or(body).trim();
    let length = word.len() + inner.len();
    is_name.then(|| (length, format!("{converted}{name} => {test}")))
}

/// Converts `.exists(l, l.price > 5)` to `.some(l => l.price > 5)`.
fn method(rest: &str) -> Option<(usize, String)> {
    let (word, converted) = METHODS.iter().find(|(word, _)| rest.starts_with(word))?;
    let inner = rest.get(word.len()..)?;
    let inner = inner.get(..end_of_group(inner)?)?;
    let [name, test] = parts(inner, ",").try_into().ok()?;
    let is_name = name.starts_with(char::is_alphabetic) && name.chars().all(is_word_character);
    let length = word.len() + inner.len();
    is_name.then(|| (length, format!("{converted}{name} => {test}")))
}

/// Converts `EXISTS (SELECT 1 FROM lines l WHERE l.price > 5)` to `any(lines; price > 5)`.
fn subquery(before: &str, rest: &str) -> Option<(usize, String)> {
    if before.ends_with(|c| is_word_character(c) || c == '.') {
        return None;
    }
    let after = rest.get(.."exists".len()).filter(|word| word.eq_ignore_ascii_case("exists"))?;
    let inner = rest.get(after.len()..)?.trim_start().strip_prefix('(')?;
    let end = end_of_group(inner)?;
    let length = rest.len() - inner.len() + end + 1;
    let inner = inner.get(..end)?.trim();
    let from = keyword(inner, 0, "from").filter(|_| keyword(inner, 0, "select") == Some(0))?;
    let wanted = keyword(inner, from, "where")?;
    let (list, test) =
        (inner.get(from + "from".len()..wanted)?.trim(), inner.get(wanted + "where".len()..)?);
    let call = ["unnest(", "UNNEST(", "jsonb_array_elements(", "json_each("]
        .iter()
        .find_map(|call| list.strip_prefix(call)?.split_once(')'));
    let (list, alias) = call.or_else(|| list.split_once(char::is_whitespace)).unwrap_or((list, ""));
    let mut words = alias.split_whitespace().filter(|word| !word.eq_ignore_ascii_case("as"));
    let alias = words.next().unwrap_or(list);
    let is_path = |text: &str| text.chars().all(|c| is_word_character(c) || c == '.');
    let is_list = is_path(list) && is_path(alias) && words.next().is_none();
    let test = without_table(test.trim(), alias).unwrap_or_else(|| test.trim().to_owned());
    is_list.then(|| (length, format!("any({list}; {test})")))
}

#[cfg(test)]
mod tests {
    use super::condition;

    #[test]
    fn tests_of_elements_are_rewritten() {
        for (text, expected) in [
            ("a.exists(r, r.b == 'x' && r.c > 1)", Some("a.some(r => r.b == 'x' && r.c > 1)")),
            ("!a.all(r, r > 1) && b", Some("!a.every(r => r > 1) && b")),
            (
                "NOT EXISTS (SELECT 1 FROM a.h x WHERE x.s = 'x.y' AND x.n > 1) AND b = 2",
                Some("NOT any(a.h; s = 'x.y' AND n > 1) AND b = 2"),
            ),
            ("exists (select * from unnest(h) as e where e.s = 1)", Some("any(h; s = 1)")),
            ("EXISTS (SELECT 1 FROM h WHERE h.s = 1)", Some("any(h; s = 1)")),
            ("EXISTS (SELECT 1 FROM h, g WHERE h.s = g.s)", None),
            ("exists(a)", None),
            ("a.all(r => r > 1)", None),
            ("a/any(r: r/b/c eq 'x/y') and d eq 1", Some("a.some(r => r.b.c eq 'x/y') and d eq 1")),
            ("a/any()", None),
            ("a = 'EXISTS (SELECT 1 FROM h WHERE s = 1)'", None),
        ] {
            assert_eq!(condition(text).as_deref(), expected, "{text}");
        }
    }
}
