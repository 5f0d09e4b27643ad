//! One pass over a document that finds the lists and texts in it that are worth cutting.

use super::Span;
use super::scan::{Kind, Scan, Scanner};
use super::text::Form;

/// Levels of objects in which lists and texts are looked for: `{"data":{"page":{"items":[…]}}}` is found.
const LEVELS: usize = 4;

/// Elements of a list that are read strictly; those after them are passed.
const STRICT: usize = 3;

/// A list: an array that stands in the root, or in objects of the root.
#[derive(Clone, Debug)]
pub struct List {
    /// The keys that lead to it, decoded; empty for the root.
    pub path: Vec<String>,
    /// From bracket to bracket.
    pub span: Span,
    /// Its elements.
    pub items: Vec<Span>,
}

/// A string that stands in the root, or in objects of the root.
#[derive(Clone, Debug)]
pub struct Text {
    /// What stands between its quotes.
    pub span: Span,
}

/// What a document holds.
#[derive(Clone, Debug)]
pub struct DocumentInfo {
    /// The whole value.
    pub root: Span,
    /// Its kind.
    pub kind: Kind,
    /// Its lists, in their order.
    pub lists: Vec<List>,
    /// Its longest string.
    pub text: Option<Text>,
}

impl DocumentInfo {
    /// Surveys the value at which `scanner` stands, and passes it.
    ///
    /// # Errors
    /// Where it is broken.
    pub fn read(scanner: &mut Scanner<'_>) -> Scan<Self> {
        let kind = scanner.kind()?;
        let start = scanner.position();
        let mut survey = Self { root: start..start, kind, lists: Vec::new(), text: None };
        survey.value(scanner, &mut Vec::new())?;
        survey.root = start..scanner.position();
        Ok(survey)
    }

    /// Surveys all of `bytes`; none where they are not one JSON value.
    #[must_use]
    pub fn parse(bytes: &[u8], form: Form) -> Option<Self> {
        let mut scanner = Scanner::new(bytes, form);
        let survey = Self::read(&mut scanner).ok()?;
        scanner.end().ok()?;
        Some(survey)
    }

    /// `path`: the keys that lead here.
    fn value(&mut self, scanner: &mut Scanner<'_>, path: &mut Vec<Span>) -> Scan<()> {
        match scanner.kind()? {
            Kind::Object if path.len() < LEVELS => scanner.object(|scanner, key| {
                path.push(key);
                let read = self.value(scanner, path);
                path.pop();
                read
            }),
            Kind::Array => {
                let start = scanner.position();
                let mut items = Vec::new();
                scanner.array(|scanner| {
                    // The first elements tell whether this is JSON, or something that merely has its brackets.
                    let read = items.len() < STRICT;
                    items.push(if read {
                        scanner.skip_value()?
                    } else {
                        scanner.skip_unchecked()?
                    });
                    Ok(())
                })?;
                self.lists.push(List {
                    path: path.iter().map(|key| scanner.decode(key)).collect(),
                    span: start..scanner.position(),
                    items,
                });
                Ok(())
            }
            Kind::String => {
                let span = scanner.string()?;
                if self.text.as_ref().is_none_or(|longest| longest.span.len() < span.len()) {
                    self.text = Some(Text { span });
                }
                Ok(())
            }
            _ => scanner.skip_unchecked().map(drop),
        }
    }

    /// The same survey, with spans counted from `base`: for a buffer that begins there.
    #[must_use]
    pub fn from(mut self, base: usize) -> Self {
        let shift = |span: &mut Span| *span = span.start - base..span.end - base;
        shift(&mut self.root);
        for list in &mut self.lists {
            shift(&mut list.span);
            list.items.iter_mut().for_each(shift);
        }
        if let Some(text) = &mut self.text {
            shift(&mut text.span);
        }
        self
    }

    /// The list that holds most of the document's bytes.
    #[must_use]
    pub fn longest(&self) -> Option<&List> {
        self.lists.iter().max_by_key(|list| list.span.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_found_where_they_sit() {
        let document = br#"{"page":1,"data":{"bookings":[{"id":1,"tags":[1,2]},{"id":2}]},"other":[],"note":"short"}"#;
        let survey = DocumentInfo::parse(document, Form::Raw).unwrap();
        let paths: Vec<_> =
            survey.lists.iter().map(|list| (list.path.join("."), list.items.len())).collect();
        assert_eq!(paths, [("data.bookings".to_owned(), 2), ("other".to_owned(), 0)]);
        assert_eq!(survey.longest().unwrap().path, ["data", "bookings"]);
        assert_eq!(&document[survey.text.unwrap().span], b"short");
    }

    #[test]
    fn what_merely_has_brackets_is_no_json() {
        assert!(DocumentInfo::parse(b"[{'id': 1}, {'id': 2}]", Form::Raw).is_none());
        assert!(DocumentInfo::parse(b"{\"items\": [{1}, {2}]}", Form::Raw).is_none());
    }

    #[test]
    fn a_bare_array_is_a_list() {
        let survey = DocumentInfo::parse(br"[1,[2],{}]", Form::Raw).unwrap();
        assert_eq!((survey.lists.len(), survey.lists[0].items.len()), (1, 3));
        assert!(survey.lists[0].path.is_empty());
    }
}
