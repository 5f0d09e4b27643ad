//! Locates the lists and the longest text of a document in one pass.

use super::Span;
use super::scan::{Kind, Scan, Scanner};
use super::text::Form;

/// The maximum depth of objects in which lists and texts are located. The list in
/// `{"data":{"page":{"items":[…]}}}` has depth three.
const MAX_DEPTH: usize = 4;

/// The number of leading elements of a list whose syntax is validated. Later elements are skipped
/// unchecked.
const VALIDATED_ITEMS: usize = 3;

/// An array that is the root of a document, or a member of objects nested in the root.
#[derive(Clone, Debug)]
pub struct List {
    /// The decoded keys from the root to the list; empty for the root.
    pub path: Vec<String>,
    /// The span of the list, including the brackets.
    pub span: Span,
    /// The spans of the list's elements.
    pub items: Vec<Span>,
}

/// A string that is the root of a document, or a member of objects nested in the root.
#[derive(Clone, Debug)]
pub struct Text {
    /// The span of the string's content, without the quotes.
    pub span: Span,
}

/// The lists and the longest text of a document.
#[derive(Clone, Debug)]
pub struct DocumentInfo {
    /// The span of the document.
    pub root: Span,
    /// The kind of the document's root value.
    pub kind: Kind,
    /// The lists, in document order, without those inside other lists or more than four objects
    /// deep.
    pub lists: Vec<List>,
    /// The string with the most bytes, outside of lists and at most four objects deep. `None` if
    /// there is none.
    pub text: Option<Text>,
    /// True if the root is not a JSON value but JSON Lines. Each line is then an element of the
    /// only list.
    pub is_lines: bool,
}

impl DocumentInfo {
    /// Locates the lists and the longest text in the value at the scanner's position, and skips the
    /// value.
    ///
    /// # Errors
    /// Fails on a syntax error, except in the parts of the value that are skipped unchecked.
    pub fn read(scanner: &mut Scanner<'_>) -> Scan<Self> {
        let kind = scanner.kind()?;
        let start = scanner.position();
        let (lists, text) = (Vec::new(), None);
        let mut info = Self { root: start..start, kind, lists, text, is_lines: false };
        info.value(scanner, &mut Vec::new())?;
        info.root = start..scanner.position();
        Ok(info)
    }

    /// Locates the lists and the longest text in a whole buffer. Returns `None` if the buffer is
    /// not one JSON value. Parts that are skipped unchecked may be invalid.
    #[must_use]
    pub fn parse(bytes: &[u8], form: Form) -> Option<Self> {
        let mut scanner = Scanner::new(bytes, form);
        let info = Self::read(&mut scanner).ok()?;
        scanner.end().ok()?;
        Some(info)
    }

    /// Describes JSON Lines as a list of the values at `lines`. Returns `None` if `lines` is empty.
    #[must_use]
    pub fn of_lines(lines: Vec<Span>) -> Option<Self> {
        let root = lines.first()?.start..lines.last()?.end;
        let list = List { path: Vec::new(), span: root.clone(), items: lines };
        Some(Self { root, kind: Kind::Array, lists: vec![list], text: None, is_lines: true })
    }

    /// Adds the lists and the longest text in the scanner's next value to `self`. `path` has the
    /// spans of the keys from the root to that value.
    fn value(&mut self, scanner: &mut Scanner<'_>, path: &mut Vec<Span>) -> Scan<()> {
        match scanner.kind()? {
            Kind::Object if path.len() < MAX_DEPTH => scanner.object(|scanner, key| {
                path.push(key);
                let read = self.value(scanner, path);
                path.pop();
                read
            }),
            Kind::Array => {
                let start = scanner.position();
                let mut items = Vec::new();
                scanner.array(|scanner| {
                    // Validating the first elements rejects texts that only have brackets, such as
                    // Python literals.
                    let read = items.len() < VALIDATED_ITEMS;
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

    /// Subtracts `base` from all spans, so that they are relative to that offset of the scanned
    /// buffer.
    #[must_use]
    pub fn relative_to(mut self, base: usize) -> Self {
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

    /// Returns the list with the largest span in bytes. `None` if the document has no list.
    #[must_use]
    pub fn longest(&self) -> Option<&List> {
        self.lists.iter().max_by_key(|list| list.span.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_lists_are_found() {
        let document = br#"{"page":1,"data":{"bookings":[{"id":1,"tags":[1,2]},{"id":2}]},"other":[],"note":"short"}"#;
        let info = DocumentInfo::parse(document, Form::Raw).unwrap();
        let paths: Vec<_> =
            info.lists.iter().map(|list| (list.path.join("."), list.items.len())).collect();
        assert_eq!(paths, [("data.bookings".to_owned(), 2), ("other".to_owned(), 0)]);
        assert_eq!(info.longest().unwrap().path, ["data", "bookings"]);
        assert_eq!(&document[info.text.unwrap().span], b"short");
    }

    #[test]
    fn python_literals_are_rejected() {
        assert!(DocumentInfo::parse(b"[{'id': 1}, {'id': 2}]", Form::Raw).is_none());
        assert!(DocumentInfo::parse(b"{\"items\": [{1}, {2}]}", Form::Raw).is_none());
    }

    #[test]
    fn bare_array_is_a_list() {
        let info = DocumentInfo::parse(br"[1,[2],{}]", Form::Raw).unwrap();
        assert_eq!((info.lists.len(), info.lists[0].items.len()), (1, 3));
        assert!(info.lists[0].path.is_empty());
    }
}
