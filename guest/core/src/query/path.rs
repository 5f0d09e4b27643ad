//! Paths into a document: JSON Pointer (`/items/0/name`, RFC 6901) and JSONPath
//! (`$.items[?@.price<10].name`, RFC 9535).

mod compare;
mod evaluate;
mod parse;
mod regex;
mod syntax;
mod xpath;

use self::evaluate::Evaluation;
use self::syntax::{PathQuery, PathSelector, Segment, WILDCARD};
use crate::json::outline::{NodeId, Outline};
use crate::json::scan::Kind;

/// A parsed path from a value of a document to values inside it.
#[derive(Debug)]
pub struct Path {
    query: PathQuery,
}

impl Path {
    /// Parses a JSON Pointer or a JSONPath.
    ///
    /// # Errors
    /// Returns a message for the caller that shows the syntax.
    pub fn parse(path: &str) -> Result<Self, String> {
        if path.is_empty() {
            return Ok(Self { query: PathQuery::default() });
        }
        if let Some(pointer) = path.strip_prefix('/') {
            let segments = pointer.split('/').map(|step| {
                // RFC 6901, section 4: `~1` before `~0`, so that `~01` becomes `~1`.
                let step = PathSelector::Token(step.replace("~1", "/").replace("~0", "~"));
                Segment { is_deep: false, selectors: vec![step] }
            });
            return Ok(Self {
                query: PathQuery { is_absolute: true, segments: segments.collect() },
            });
        }
        let query = parse::parse(path).map_err(|reason| {
            let shown: String = path.chars().take(200).collect();
            format!(
                "path {shown:?} cannot be read {reason}. Write a JSON Pointer such as /items/0/name, or a JSONPath such as $.items[?@.price<10].name"
            )
        })?;
        Ok(Self { query })
    }

    /// Returns a suggestion for a path that selects nothing, for an error. Empty if the path is not
    /// an XPath.
    pub(super) fn correction(path: &str) -> String {
        let found = Self::from_xpath(path);
        let found = found.or_else(|| Some(format!("this with jq: {}", xpath::to_jq(path)?)));
        found.map_or_else(String::new, |path| format!("; this is no JSON Pointer: write {path}"))
    }

    /// Converts an XPath to a JSONPath. `None` if it is not an XPath, or has parts that JSONPath
    /// lacks.
    pub(super) fn from_xpath(path: &str) -> Option<String> {
        xpath::to_json_path(path)
    }

    /// Returns true if the path may select several values of a document. A `*` in a JSON Pointer
    /// selects one value if a member has this name.
    #[must_use]
    pub fn is_many(&self, outline: &Outline<'_>, root: NodeId) -> bool {
        if self.query.is_singular() {
            return false;
        }
        let mut at = Some(root);
        !self.query.segments.iter().all(|segment| {
            let [PathSelector::Token(name)] = segment.selectors.as_slice() else { return false };
            if segment.is_deep {
                return false;
            }
            at = at.and_then(|id| {
                let member = outline.member(id, name).map(|(id, _)| id);
                let element = || outline.children(id).nth(name.parse().ok()?).map(|(id, _)| id);
                member.or_else(element)
            });
            name != WILDCARD || at.is_some()
        })
    }

    /// Returns the values that the path selects from `root`.
    ///
    /// Answers show a list as their member `items`, and a condensed document as `summary`. If a
    /// path begins with such a name and `root` has no such member, the name is skipped.
    ///
    /// # Errors
    /// Returns a message for the caller if the path selects too many values, or takes too long.
    pub fn follow(&self, outline: &Outline<'_>, root: NodeId) -> Result<Vec<NodeId>, String> {
        let segments = match self.query.segments.split_first() {
            Some((first, rest)) if first.is_alias(outline, root) => rest,
            _ => &self.query.segments,
        };
        Evaluation::new(outline, root).select(segments, root)
    }

    /// Returns the values that a path of names selects from `root` through the elements of each
    /// list on the way: `zones.sensors` selects those of `$.zones[*].sensors[*]`. Empty if there
    /// are none, or if the path has other steps. O(values).
    #[must_use]
    pub fn follow_through_lists(&self, outline: &Outline<'_>, root: NodeId) -> Vec<NodeId> {
        let is_list = |id: NodeId| outline.node(id).is_some_and(|node| node.kind == Kind::Array);
        let elements = |ids: Vec<NodeId>| -> Vec<NodeId> {
            let each = |id: NodeId| match is_list(id) {
                true => outline.children(id).map(|(id, _)| id).collect(),
                false => vec![id],
            };
            ids.into_iter().flat_map(each).collect()
        };
        let mut ids = vec![root];
        for segment in &self.query.segments {
            let [PathSelector::Name(name) | PathSelector::Token(name)] =
                segment.selectors.as_slice()
            else {
                return Vec::new();
            };
            if segment.is_deep {
                return Vec::new();
            }
            let member = |id: NodeId| outline.member(id, name).map(|(id, _)| id);
            ids = elements(ids).into_iter().filter_map(member).collect();
        }
        elements(ids)
    }
}

impl Segment {
    /// Returns true if the step is a name that answers use for `root` itself, and `root` has no
    /// such member.
    fn is_alias(&self, outline: &Outline<'_>, root: NodeId) -> bool {
        let [PathSelector::Name(name) | PathSelector::Token(name)] = self.selectors.as_slice()
        else {
            return false;
        };
        let kind = outline.node(root).map(|node| node.kind);
        !self.is_deep
            && match kind {
                None => false,
                Some(Kind::Array) => name == "items",
                Some(_) => name == "summary" && outline.member(root, name).is_none(),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::text::Form;

    fn reach(path: &str) -> Vec<String> {
        let json = br#"{"items":[{"id":1,"a/b":"x"},{"id":2,"user":{"id":9}}],"0":"zero"}"#;
        let outline = Outline::parse(json, Form::Raw, &(0..json.len())).unwrap();
        let ids = Path::parse(path).unwrap().follow(&outline, 0).unwrap();
        ids.into_iter()
            .map(|id| {
                String::from_utf8(outline.raw(outline.node(id).unwrap()).into_owned()).unwrap()
            })
            .collect()
    }

    #[test]
    fn functions_of_jmespath_and_xpath_are_evaluated() {
        let json = br##"{"i":[{"n":1,"t":["a","b"],"s":"Ann","q":[{"v":1},{"v":9}],"d":{"#text":5,"@u":"km"}},
            {"n":23,"t":["ab"],"s":"Bob","q":[{"v":2},{"v":null}],"d":{"#text":7,"@u":"km"}},{"n":3,"q":{"v":4}}]}"##;
        let outline = Outline::parse(json, Form::Raw, &(0..json.len())).unwrap();
        let select = |path: &str| -> Result<Vec<String>, String> {
            let ids = Path::parse(path)?.follow(&outline, 0)?;
            let text = |id| String::from_utf8(outline.raw(outline.node(id)?).into_owned()).ok();
            Ok(ids.into_iter().filter_map(text).collect())
        };
        for (path, expected) in [
            ("i[?contains(t, 'a')].n", ["1"].as_slice()),
            ("i[?!contains(t, 'a')].n", &["23", "3"]),
            ("i[?starts_with(s, 'A') || ends_with(s, 'b')].n", &["1", "23"]),
            ("i[?contains(n, '2')].n", &["23"]),
            ("i[?max(q[].v) > `3`].n", &["1"]),
            ("i[?sum(q[].v) == `2`].n", &["23"]),
            ("i[?avg(q[].v) == `5`].n", &["1"]),
            ("$.i[?min(@.q[*].v) < 2].n", &["1"]),
            ("i[?max(t) == 'ab'].n", &["23"]),
            ("$.i[?each(@.q.v) > 3].n", &["1", "3"]),
            ("$.i[?each(@.d) > 6].n", &["23"]),
            ("$.i[?each(@.d)].n", &["1", "23"]),
            ("$.i[?each(@.d) != 5].n", &["23"]),
            ("$.i[?to_number(@.d) > 6].n", &["23"]),
            ("$.i[?string-length(@.s) == 0].n", &["3"]),
            ("$.i[?string-length(@.n) > 1].n", &["23"]),
        ] {
            let found = select(path);
            assert_eq!(found.as_deref().unwrap(), expected, "{path}");
        }
        for path in
            ["i[?sum(t) > `1`]", "$.i[?string-length(@.t) > 1]", "i[?contains(s, 'a') == `1`]"]
        {
            assert!(select(path).is_err(), "{path}");
        }
    }

    #[test]
    fn pointers_and_paths_select_values() {
        assert_eq!(reach("/items/1/user/id"), ["9"]);
        assert_eq!(reach("/items/0/a~1b"), ["\"x\""]);
        assert_eq!(reach("/0"), ["\"zero\""]);
        assert_eq!(reach("$.items[-1].id"), ["2"]);
        assert_eq!(reach("items[*].id"), ["1", "2"]);
        assert_eq!(reach("$..id"), ["1", "2", "9"]);
        assert_eq!(reach("$['items'][0]['a/b']"), ["\"x\""]);
        assert_eq!(reach("/items/7"), [""; 0]);
    }

    #[test]
    fn displayed_paths_are_followed() {
        let reach = |json: &str, path: &str| {
            let outline = Outline::parse(json.as_bytes(), Form::Raw, &(0..json.len())).unwrap();
            Path::parse(path).unwrap().follow(&outline, 0).unwrap().len()
        };
        let list = r#"[{"title":"a"},{"title":"b"}]"#;
        assert_eq!(reach(list, "/items/1/title"), 1);
        assert_eq!(reach(list, "$.items[*].title"), 2);
        assert_eq!(reach(list, "items[0]"), 1);
        assert_eq!(reach(list, "/summary/0"), 0);
        assert_eq!(reach(r#"{"stats":{"n":1}}"#, "/summary/stats/n"), 1);
        // Members of the document come first.
        assert_eq!(reach(r#"{"summary":{"n":1},"stats":2}"#, "/summary/stats"), 0);
        assert_eq!(reach(r#"{"rows":[1]}"#, "/items/rows"), 0);
    }

    #[test]
    fn invalid_paths_show_an_example() {
        for path in ["$.", "$[", "$.items[(@.length-1)]", "$..", "$.a..", "$.items[?@.id=1]"] {
            assert!(Path::parse(path).unwrap_err().contains("JSON Pointer such as"), "{path}");
        }
    }

    #[test]
    fn filters_select_records() {
        assert_eq!(reach("$.items[?@.id>1].id"), ["2"]);
        assert_eq!(reach("$.items[?(@.user && @.user.id==9)].id"), ["2"]);
        assert_eq!(reach("items[?match(@['a/b'], 'x')].id"), ["1"]);
        assert_eq!(reach("$.items[0,1].id"), ["1", "2"]);
        assert_eq!(reach("$.items[::-1].id"), ["2", "1"]);
    }

    #[test]
    fn other_dialects_are_corrected() {
        for (path, hint) in [
            ("$.items[?(@.name =~ a)]", "a regular expression such as /^x/i"),
            ("$.items[?(@.id = 1)]", "write =="),
            ("$.items[?(@.id > 1 and @.id < 3)]", "write &&"),
            ("$.items[?(@.name in ['a'])]", "where with IN"),
            ("$.items[(@.length-1)]", "write [-1]"),
            ("$.items.length()", "aggregate or jq"),
            ("$.items[?@.name contains 'a']", "search(@.a, 'x')"),
            ("$.items~", "jq: keys"),
        ] {
            let error = Path::parse(path).unwrap_err();
            assert!(error.contains(hint), "{error}");
        }
    }

    #[test]
    fn work_is_bounded() {
        let json = format!("[{}]", vec![r#"{"a":[1,2,3]}"#; 4_000].join(","));
        let outline = Outline::parse(json.as_bytes(), Form::Raw, &(0..json.len())).unwrap();
        let follow = |path: &str| Path::parse(path).unwrap().follow(&outline, 0);
        assert!(follow("$..[?count($..*)>1]").unwrap_err().contains("too many steps"));
        assert!(follow("$[*,*,*,*,*,*,*].a[*,*,*]").unwrap_err().contains("100000 values"));
        let searches = "$..[?search(@.b, '(x+x+)+y')]";
        assert!(follow(searches).is_ok());
        assert!(Path::parse(&"(".repeat(100)).is_err());
        assert!(Path::parse(&format!("$[?{}@.a{}]", "(".repeat(40), ")".repeat(40))).is_err());
        assert!(Path::parse(&format!("$[?{}@.a]", "!".repeat(4_000))).is_err());
    }
}
