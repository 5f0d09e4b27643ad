//! Masks: the fields that a caller or a policy selects.

use std::collections::BTreeMap;

use super::projection::MAX_LEVELS;
use crate::blocks::equal_bytes;
use crate::json::outline::{NodeId, Outline};
use crate::json::scan::Kind;

/// A tree of selected fields, parsed from dotted paths such as `id,price.total,items[].id`. Sibling
/// paths share their parents. Paths apply to each element of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    members: BTreeMap<String, Mask>,
    whole: bool,
}

impl Mask {
    /// Parses dotted paths, separated by commas or semicolons, a JSON list of them, or a GraphQL
    /// selection such as `{ id user { name } }`. Brackets of list elements are optional. A name in
    /// quotes may contain dots and separators.
    ///
    /// # Errors
    /// Returns a message for the caller if a path is empty or has more than 64 names, or if braces
    /// do not match.
    pub fn parse(fields: &str) -> Result<Self, String> {
        if let Ok(paths) = serde_json::from_str::<Vec<String>>(fields) {
            return Self::from_paths(paths.iter().map(String::as_str));
        }
        if fields.contains(['{', '}']) {
            let paths = selection(fields)?;
            return Self::from_paths(paths.iter().map(String::as_str));
        }
        Self::from_paths(outside_quotes(fields, &[',', ';']))
    }

    /// Creates a mask from dotted paths. Of `a` and `a.b`, the whole `a` is selected.
    ///
    /// # Errors
    /// Returns a message for the caller if a path is empty or has more than 64 names.
    pub fn from_paths<'p>(paths: impl IntoIterator<Item = &'p str>) -> Result<Self, String> {
        let mut mask = Self::default();
        for path in paths {
            let mut at = &mut mask;
            let names = names_of(path.trim());
            if names.len() > MAX_LEVELS.into() {
                return Err(format!(
                    "fields has a path of more than {MAX_LEVELS} names: name what is not nested so deep"
                ));
            }
            for name in names {
                let name = name.trim().trim_end_matches("[]").trim_end_matches("[*]");
                if name.is_empty() && !path.trim().starts_with('[') {
                    return Err(format!(
                        "fields has an empty path in {path:?}: give names separated by commas, such as \"id,status,price.total\""
                    ));
                }
                // A selected value includes its members.
                if !name.is_empty() && !at.whole {
                    at = at.members.entry(name.to_owned()).or_default();
                }
            }
            at.whole = true;
            at.members.clear();
        }
        Ok(mask)
    }

    /// Returns true if the mask selects the value at the path `keys`, or a value that contains it.
    #[must_use]
    pub fn holds(&self, keys: &[&str]) -> bool {
        let mut at = self;
        for key in keys {
            if at.whole {
                return true;
            }
            match at.members.get(*key) {
                Some(next) => at = next,
                None => return false,
            }
        }
        at.whole
    }

    /// Returns the part of the mask below the path `keys`, with paths relative to the value there.
    /// `None` if no path of the mask leads through `keys`: the mask selects nothing there, or all
    /// of a value that contains it.
    #[must_use]
    pub fn descend(&self, keys: &[String]) -> Option<&Mask> {
        keys.iter().try_fold(self, |mask, key| mask.member(key))
    }

    /// Returns the part of the mask below the member `name`, with paths relative to its value.
    /// `None` if the mask selects nothing there.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Mask> {
        self.named(name.as_bytes())
    }

    /// Returns the part of the mask below the member `name`, whose bytes need not be UTF-8. `None`
    /// if the mask selects nothing there.
    pub(crate) fn named(&self, name: &[u8]) -> Option<&Mask> {
        // A linear search is faster than a binary search for few names.
        if self.members.len() > 16 {
            return self.members.get(std::str::from_utf8(name).ok()?);
        }
        self.members
            .iter()
            .find(|(known, _)| equal_bytes(known.as_bytes(), name))
            .map(|(_, mask)| mask)
    }

    /// Returns the names of the root object's members from which the mask selects something.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// Returns the names of the root object's members, each with the part of the mask for its
    /// value.
    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &Mask)> {
        self.members.iter().map(|(name, mask)| (name.as_str(), mask))
    }

    /// Returns true if the mask selects the whole value, not single members. The value is then
    /// copied whole.
    pub(crate) fn is_end(&self) -> bool {
        self.members.is_empty()
    }
}

/// Returns the member names of the object at node `id`. For a list, returns those of its first
/// object. Empty for other values.
#[must_use]
pub fn names(outline: &Outline<'_>, id: NodeId) -> Vec<String> {
    let Some(node) = outline.node(id) else { return Vec::new() };
    let object = match node.kind {
        Kind::Object => Some(id),
        Kind::Array => {
            outline.children(id).find(|(_, node)| node.kind == Kind::Object).map(|(id, _)| id)
        }
        _ => None,
    };
    let Some(object) = object else { return Vec::new() };
    outline.children(object).map(|(_, member)| outline.decoded(&member.key)).collect()
}

/// Splits a text at separators outside of quotes. A quotation mark counts at the start of a name
/// alone: `driver's` is a name.
fn outside_quotes<'t>(text: &'t str, separators: &[char]) -> Vec<&'t str> {
    let (mut parts, mut start, mut mark, mut is_start) = (Vec::new(), 0, None, true);
    for (at, sign) in text.char_indices() {
        if let Some(open) = mark {
            mark = Some(open).filter(|open| *open != sign);
        } else if is_start && ['"', '\'', '`'].contains(&sign) {
            // A mark without its end is a part of the name.
            let rest = text.get(at + 1..).unwrap_or_default();
            mark = rest.contains(sign).then_some(sign);
            is_start = false;
        } else if separators.contains(&sign) {
            parts.push(text.get(start..at).unwrap_or_default());
            (start, is_start) = (at + sign.len_utf8(), true);
        } else {
            is_start &= sign.is_whitespace();
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

/// Returns the names of a dotted path, without quotes. The last may end with a dot: `No.`.
fn names_of(path: &str) -> Vec<String> {
    let mut names: Vec<&str> = outside_quotes(path, &['.']);
    let last = match names.as_slice() {
        [.., name, ""] if !name.is_empty() => Some(format!("{name}.")),
        _ => None,
    };
    if last.is_some() {
        names.truncate(names.len() - 2);
    }
    let plain = |name: &str| {
        let name = name.trim();
        let inner = ['"', '\'', '`']
            .iter()
            .find_map(|mark| name.strip_prefix(*mark)?.strip_suffix(*mark))
            .filter(|inner| !inner.is_empty());
        inner.unwrap_or(name).to_owned()
    };
    names.into_iter().map(plain).chain(last).collect()
}

/// Returns the dotted paths of a GraphQL selection, such as `{ id user { name } }`.
fn selection(fields: &str) -> Result<Vec<String>, String> {
    let spaced = fields.replace('{', " { ").replace('}', " } ").replace([',', ';'], " ");
    let (mut paths, mut around, mut last) = (Vec::new(), Vec::new(), None::<&str>);
    for word in spaced.split_whitespace() {
        match word {
            "{" => around.push(last.take().unwrap_or_default()),
            "}" => {
                paths.extend(last.take().map(|name| join(&around, name)));
                if around.pop().is_none() {
                    return Err(format!(
                        "fields has a closing brace too many in {fields:?}: write id,user.name"
                    ));
                }
            }
            name => paths.extend(last.replace(name).map(|name| join(&around, name))),
        }
    }
    paths.extend(last.map(|name| join(&around, name)));
    if !around.is_empty() || paths.is_empty() {
        return Err(format!("fields has no complete selection in {fields:?}: write id,user.name"));
    }
    Ok(paths)
}

fn join(around: &[&str], name: &str) -> String {
    let names = around.iter().copied().filter(|name| !name.is_empty()).chain([name]);
    names.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::super::Projection;
    use super::*;
    use crate::json::text::{Form, escape};

    fn project(json: &str, fields: &str) -> Option<String> {
        let mask = Mask::parse(fields).unwrap();
        let mut escaped = Vec::new();
        escape(&mut escaped, json.as_bytes());
        let [raw, escaped] =
            [(json.as_bytes(), Form::Raw), (&escaped, Form::Escaped)].map(|(bytes, form)| {
                let mut projection = Projection::new(&mask, form);
                let copied = projection.copy(bytes, 0).unwrap();
                assert!(copied || projection.out.is_empty());
                copied.then(|| String::from_utf8(projection.out).unwrap())
            });
        assert_eq!(raw, escaped);
        raw
    }

    #[test]
    fn paths_are_merged_and_lists_looked_through() {
        let json = r#"{"id":1,"price":{"base":90.50,"total":1e2,"tax":3},"items":[{"id":7,"x":1},{"id":8}],"note":"long"}"#;
        assert_eq!(
            project(json, "id, price.total,items[].id,price.base").unwrap(),
            r#"{"id":1,"price":{"base":90.50,"total":1e2},"items":[{"id":7},{"id":8}]}"#
        );
        assert_eq!(
            project(json, "price").unwrap(),
            r#"{"price":{"base":90.50,"total":1e2,"tax":3}}"#
        );
        for both in ["price,price.base", "price.base;price", "price { base } price"] {
            assert_eq!(project(json, both), project(json, "price"), "{both}");
        }
        for list in ["[].id", "[*].id"] {
            assert_eq!(project(r#"[{"id":1,"x":2}]"#, list).unwrap(), r#"[{"id":1}]"#);
        }
        assert_eq!(project(json, "nothing,note.deeper"), None);
    }

    #[test]
    fn names_may_be_in_quotes_and_end_with_a_dot() {
        let json = r#"{"Size (m)":1,"a.b":2,"c":{"d e":3,"x":0},"No.":4,"it's":5,"x":6}"#;
        for (fields, expected) in [
            ("\"Size (m)\", 'a.b'", r#"{"Size (m)":1,"a.b":2}"#),
            ("c.\"d e\",No.", r#"{"c":{"d e":3},"No.":4}"#),
            ("[\"No.\", \"Size (m)\"]", r#"{"Size (m)":1,"No.":4}"#),
            ("`No.`;it's", r#"{"No.":4,"it's":5}"#),
        ] {
            assert_eq!(project(json, fields).as_deref(), Some(expected), "{fields}");
        }
        assert!(Mask::parse("a,,b").is_err());
        assert!(Mask::parse("a..b").is_err());
    }

    #[test]
    fn fields_are_found_in_any_order_however_they_are_spelt() {
        let json = r#"[{"a":1,"b":{"c":2}},{ "b" : {"x":0,"c":3}, "a" :4},{"\u0061":5,"n\"":6},{"b":7,"a":{"a" :[ 8 ]}}]"#;
        assert_eq!(
            project(json, "a,b.c,n\"").unwrap(),
            r#"[{"a":1,"b":{"c":2}},{"b":{"c":3},"a":4},{"\u0061":5,"n\"":6},{"a":{"a":[8]}}]"#
        );
    }

    #[test]
    fn what_is_broken_is_an_error() {
        let mask = Mask::parse("a.b,c").unwrap();
        for json in [r#"{"a":{"b":1"#, r#"{"a":{"b" 1}}"#, r#"{"c":{1}}"#, "{\"c\":01}"] {
            assert!(Projection::new(&mask, Form::Raw).copy(json.as_bytes(), 0).is_err(), "{json}");
        }
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(Projection::new(&mask, Form::Raw).copy(deep.as_bytes(), 0).is_err());
        let deep = "[".repeat(1_000) + &"]".repeat(1_000);
        assert_eq!(Projection::new(&mask, Form::Raw).copy(deep.as_bytes(), 0), Ok(true));
    }

    #[test]
    fn elements_without_the_fields_keep_their_place() {
        assert_eq!(
            project(r#"[{"a":1},{"b":2},{"a":3}]"#, "a").unwrap(),
            r#"[{"a":1},{},{"a":3}]"#
        );
        assert_eq!(
            project(r#"{"tags":["x",7,null,{"name":"y","z":1},["w"]]}"#, "tags.name").unwrap(),
            r#"{"tags":["x",7,null,{"name":"y"},["w"]]}"#
        );
    }

    #[test]
    fn paths_that_are_empty_or_too_long_are_refused() {
        assert!(
            Mask::parse("id,,x").is_err()
                && Mask::parse("a..b").is_err()
                && Mask::parse("").is_err()
        );
        let deep = |names: usize| Mask::parse(&vec!["a"; names].join("."));
        assert!(deep(64).is_ok() && deep(65).is_err() && deep(1_000_000).is_err());
    }

    #[test]
    fn a_mask_holds_what_stands_in_what_it_names() {
        let mask = Mask::parse("price,guest.name").unwrap();
        assert!(mask.holds(&["price", "total"]) && mask.holds(&["guest", "name"]));
        assert!(!mask.holds(&["guest"]) && !mask.holds(&["guest", "email"]) && !mask.holds(&[]));
    }
}
