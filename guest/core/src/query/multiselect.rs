//! Lists of fields at the end of a path, as JMESPath has them: `items[?a > 5].[id, name]` and
//! `items[].{Name: name}`. Also braces around a path, as kubectl has them.

use super::Query;
use super::code::parts;
use super::reader::is_word_character;

impl Query {
    /// Moves the fields at the end of the path to the argument `fields`. The answer shows them with
    /// their own names. Does nothing if the query has fields, or if one of them is computed.
    pub(super) fn separate_multiselect(&mut self) {
        // `{.items[*].name}`, as kubectl writes JSONPath.
        let plain = self.path.as_deref().and_then(|path| {
            let inner = path.trim().strip_prefix('{')?.strip_suffix('}')?;
            let is_one = inner.starts_with(['.', '$']) && !inner.contains(['{', '}']);
            is_one.then(|| inner.to_owned())
        });
        self.path = plain.or(self.path.take());
        if self.fields.is_none()
            && let Some((path, fields)) = self.path.as_deref().and_then(multiselect)
        {
            (self.path, self.fields) = (Some(path), Some(fields));
        }
    }
}

/// Returns the path without the fields at its end, and the fields. `None` for other paths.
fn multiselect(path: &str) -> Option<(String, String)> {
    let path = path.trim();
    let (start, inner, is_named) = match path.strip_suffix('}') {
        Some(rest) => {
            let (start, inner) = rest.rsplit_once(".{")?;
            (start, inner, true)
        }
        None => {
            let (start, inner) = path.strip_suffix(']')?.rsplit_once(".[")?;
            (start, inner, false)
        }
    };
    let field = |part: &str| {
        let name = if is_named { part.split_once(':')?.1.trim() } else { part };
        let is_path = name.chars().all(|c| is_word_character(c) || c == '.');
        (is_path && !name.is_empty()).then(|| name.to_owned())
    };
    let fields: Option<Vec<String>> = parts(inner, ",").into_iter().map(field).collect();
    (!start.is_empty()).then_some((start.to_owned(), fields?.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_at_the_end_of_a_path_are_separated() {
        for (path, expected) in [
            ("a[?b=='x'].[c.d, e]", Some(("a[?b=='x']", "c.d,e"))),
            ("a[].{Name: c.d, Id: e}", Some(("a[]", "c.d,e"))),
            ("a.[b]", Some(("a", "b"))),
            ("a[].{Name: tags[?k=='n'].v}", None),
            ("a[].[length(b)]", None),
            ("a.[]", None),
            ("a[0]", None),
            (".[0]", None),
        ] {
            let expected = expected.map(|(path, fields)| (path.to_owned(), fields.to_owned()));
            assert_eq!(multiselect(path), expected, "{path}");
        }
    }
}
