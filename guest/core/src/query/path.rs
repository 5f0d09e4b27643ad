//! Paths into a document: JSON Pointer (`/items/0/name`), and a small JSONPath (`$.items[0].name`, `$.items[*].id`, `$..email`).

use super::records::RecordSet;
use crate::json::outline::{Id, Outline};
use crate::json::scan::Kind;

/// Values that a path may reach.
const MAX_REACHED_VALUES: usize = 100_000;

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A member; or an element, where it is a number and stands in a list.
    Name(String),
    /// An element, from the end where it is negative.
    Index(i64),
    /// All members or elements.
    All,
    /// This member, at any depth.
    Deep(String),
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    steps: Vec<Step>,
    many: bool,
}

/// What a path leads to.
pub enum PathTarget<'a> {
    /// A string, decoded.
    Text(String),
    /// Anything else.
    Records(RecordSet<'a>),
}

impl Path {
    /// Reads a path.
    ///
    /// # Errors
    /// With a sentence that shows how paths are written.
    pub fn parse(path: &str) -> Result<Self, String> {
        let steps = if path.is_empty() || path == "$" {
            Vec::new()
        } else if let Some(pointer) = path.strip_prefix('/') {
            pointer
                .split('/')
                .map(|step| Step::Name(step.replace("~1", "/").replace("~0", "~")))
                .collect()
        } else {
            json_path(path).ok_or_else(|| {
                format!("path {path:?} cannot be read: write a JSON Pointer such as /items/0/name, or a JSONPath such as $.items[*].name")
            })?
        };
        let many = steps.iter().any(|step| matches!(step, Step::All | Step::Deep(_)));
        Ok(Self { steps, many })
    }

    /// Whether it may lead to several values.
    #[must_use]
    pub fn is_many(&self) -> bool {
        self.many
    }

    /// The values that it leads to from `root`.
    #[must_use]
    pub fn follow(&self, outline: &Outline<'_>, root: Id) -> Vec<Id> {
        let mut at = vec![root];
        for step in &self.steps {
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

impl Step {
    fn follow(&self, outline: &Outline<'_>, id: Id, out: &mut Vec<Id>) {
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

fn json_path(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    if !rest.starts_with(['.', '[']) {
        // `items[0].name` without the dollar.
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        steps.push(name(rest.get(..end)?)?);
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
            steps.push(name(after.get(..end)?)?);
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

fn name(name: &str) -> Option<Step> {
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
        let outline = Outline::of(json, Form::Raw, &(0..json.len())).unwrap();
        let ids = Path::parse(path).unwrap().follow(&outline, 0);
        ids.into_iter()
            .map(|id| {
                String::from_utf8(outline.raw(outline.node(id).unwrap()).into_owned()).unwrap()
            })
            .collect()
    }

    #[test]
    fn pointers_and_paths_lead_to_values() {
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
    fn other_spellings_are_refused_with_an_example() {
        for path in ["$.", "$[", "$.items[?(@.id>1)]", "$..", "$.a..[0]"] {
            assert!(Path::parse(path).unwrap_err().contains("JSON Pointer such as"), "{path}");
        }
    }
}
