//! Paths into a document: JSON Pointer (`/items/0/name`) and a subset of JSONPath
//! (`$.items[0].name`, `$.items[*].id`, `$..email`).

use crate::json::outline::{NodeId, Outline};
use crate::json::scan::Kind;

/// Maximum number of values that a path may select. Further values are ignored.
const MAX_REACHED_VALUES: usize = 100_000;

/// A step of a path, from a value of a document to values inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// The member of an object, or the element of a list if the name is a number.
    Name(String),
    /// The element of a list at this index. A negative index counts from the end.
    Index(i64),
    /// All members of an object, or all elements of a list.
    All,
    /// All members of this name, at any depth.
    Deep(String),
}

/// A parsed path from a value of a document to values inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    steps: Vec<Step>,
    many: bool,
}

impl Path {
    /// Parses a JSON Pointer or a JSONPath.
    ///
    /// # Errors
    /// Returns a message for the caller that shows the syntax.
    pub fn parse(path: &str) -> Result<Self, String> {
        let steps = if path.is_empty() || path == "$" {
            Vec::new()
        } else if let Some(pointer) = path.strip_prefix('/') {
            pointer
                .split('/')
                // RFC 6901, section 4: `~1` before `~0`, so that `~01` becomes `~1`.
                .map(|step| Step::Name(step.replace("~1", "/").replace("~0", "~")))
                .collect()
        } else {
            parse_json_path(path).ok_or_else(|| {
                format!("path {path:?} cannot be read: write a JSON Pointer such as /items/0/name, or a JSONPath such as $.items[*].name")
            })?
        };
        let many = steps.iter().any(|step| matches!(step, Step::All | Step::Deep(_)));
        Ok(Self { steps, many })
    }

    /// Returns true if the path may select several values.
    #[must_use]
    pub fn is_many(&self) -> bool {
        self.many
    }

    /// Returns the values that the path selects from `root`.
    ///
    /// An answer shows a list as its member `items`, and a condensed document as `summary`. A path
    /// that begins with such a name is followed without it, if `root` has no member of that name.
    #[must_use]
    pub fn follow(&self, outline: &Outline<'_>, root: NodeId) -> Vec<NodeId> {
        let steps = match self.steps.split_first() {
            Some((Step::Name(name), rest)) if is_alias(outline, root, name) => rest,
            _ => &self.steps,
        };
        let mut at = vec![root];
        for step in steps {
            let mut next = Vec::new();
            for id in at {
                step.follow(outline, id, &mut next);
                next.truncate(MAX_REACHED_VALUES);
            }
            at = next;
        }
        at
    }
}

/// Returns true if `name` stands for the value `root` itself in answers, and for no member of it.
fn is_alias(outline: &Outline<'_>, root: NodeId, name: &str) -> bool {
    outline.node(root).is_some_and(|node| match node.kind {
        Kind::Array => name == "items",
        _ => name == "summary" && outline.member(root, name).is_none(),
    })
}

impl Step {
    fn follow(&self, outline: &Outline<'_>, id: NodeId, out: &mut Vec<NodeId>) {
        let Some(node) = outline.node(id) else { return };
        match self {
            Step::All => out.extend(outline.children(id).map(|(child, _)| child)),
            Step::Name(name) if node.kind == Kind::Object => {
                out.extend(outline.member(id, name).map(|(child, _)| child));
            }
            Step::Name(name) => {
                let index = name.parse::<usize>().ok().filter(|_| node.kind == Kind::Array);
                out.extend(
                    index.and_then(|index| outline.children(id).nth(index)).map(|(child, _)| child),
                );
            }
            Step::Index(index) if node.kind == Kind::Array => {
                let count = i64::from(node.children);
                let index = if *index < 0 { count + index } else { *index };
                let index = usize::try_from(index).ok();
                out.extend(
                    index.and_then(|index| outline.children(id).nth(index)).map(|(child, _)| child),
                );
            }
            Step::Index(_) => {}
            Step::Deep(name) => {
                // Nodes are in document order: the descendants of a node follow it.
                let inside = (id + 1)..node.end;
                out.extend(inside.filter(|id| {
                    outline.node(*id).is_some_and(|node| {
                        !node.key.is_empty() && outline.decoded(&node.key) == *name
                    })
                }));
            }
        }
    }
}

fn parse_json_path(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    if !rest.starts_with(['.', '[']) {
        // `items[0].name`, without the leading `$`.
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        steps.push(name_step(rest.get(..end)?)?);
        rest = rest.get(end..)?;
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("..") {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let deep = after.get(..end).filter(|name| !name.is_empty() && *name != "*")?;
            steps.push(Step::Deep(deep.to_owned()));
            rest = after.get(end..)?;
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            steps.push(name_step(after.get(..end)?)?);
            rest = after.get(end..)?;
        } else {
            let inside = rest.strip_prefix('[')?;
            let quote = inside.chars().next().filter(|first| matches!(first, '\'' | '"'));
            let (step, after) = match quote {
                Some(quote) => {
                    let (key, after) = inside.get(1..)?.split_once(quote)?;
                    (Step::Name(key.to_owned()), after.strip_prefix(']')?)
                }
                None => {
                    let (index, after) = inside.split_once(']')?;
                    let step = if index.trim() == "*" {
                        Step::All
                    } else {
                        Step::Index(index.trim().parse().ok()?)
                    };
                    (step, after)
                }
            };
            steps.push(step);
            rest = after;
        }
    }
    Some(steps)
}

fn name_step(name: &str) -> Option<Step> {
    match name {
        "" => None,
        "*" => Some(Step::All),
        name => Some(Step::Name(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::text::Form;

    fn reach(path: &str) -> Vec<String> {
        let json = br#"{"items":[{"id":1,"a/b":"x"},{"id":2,"user":{"id":9}}],"0":"zero"}"#;
        let outline = Outline::parse(json, Form::Raw, &(0..json.len())).unwrap();
        let ids = Path::parse(path).unwrap().follow(&outline, 0);
        ids.into_iter()
            .map(|id| {
                String::from_utf8(outline.raw(outline.node(id).unwrap()).into_owned()).unwrap()
            })
            .collect()
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
            Path::parse(path).unwrap().follow(&outline, 0).len()
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
        for path in ["$.", "$[", "$.items[?(@.id>1)]", "$..", "$.a..[0]"] {
            assert!(Path::parse(path).unwrap_err().contains("JSON Pointer such as"), "{path}");
        }
    }
}
