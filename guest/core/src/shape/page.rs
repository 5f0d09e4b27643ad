//! The body of a page: the payload's document around its lists, with some of their items.

use serde_json::Value;

use super::Coverage;
use super::render::CursorLink;
use crate::blocks::equal_bytes;
use crate::json::text::{Form, convert, quoted};
use crate::snapshot::index::ListIndex;

/// The JSON of a page, in two pieces that meet after its main list, the longest one. Paging fields
/// are inserted between them; they differ between text and structured content.
#[derive(Clone, Debug)]
pub struct Pieces {
    /// The form of `head` and `tail`: raw, or escaped as in a JSON string.
    pub form: Form,
    /// The document up to and including the closing bracket of the main list.
    pub head: Vec<u8>,
    /// The document after the closing bracket of the main list.
    pub tail: Vec<u8>,
    /// True if the document may have members named like paging fields, `nextCursor` or `meta`.
    pub clash: bool,
}

impl PartialEq for Pieces {
    fn eq(&self, other: &Self) -> bool {
        let Self { form, head, tail, clash } = self;
        (*form, *clash) == (other.form, other.clash)
            && equal_bytes(head, &other.head)
            && equal_bytes(tail, &other.tail)
    }
}

impl Pieces {
    /// Creates the JSON of a page: the document of `list` with only `items`. A bare list becomes an
    /// object with the member `items`. Each item is the index of its list, and its bytes in `form`.
    #[must_use]
    pub fn new<'i>(
        list: &ListIndex,
        form: Form,
        items: impl Iterator<Item = (usize, &'i [u8])>,
    ) -> Self {
        let mut windows: Vec<Vec<u8>> = vec![Vec::new(); list.lists.len()];
        for (at, item) in items {
            if let Some(window) = windows.get_mut(at) {
                if !window.is_empty() {
                    window.push(b',');
                }
                window.extend_from_slice(item);
            }
        }
        let (mut head, mut tail) = (Vec::new(), Vec::new());
        let main = usize::try_from(list.main).unwrap_or(0);
        if list.bare {
            convert(&mut head, b"{\"items\":[", Form::Raw, form);
            head.extend(windows.pop().unwrap_or_default());
            head.push(b']');
            tail.push(b'}');
            return Self { form, head, tail, clash: false };
        }
        for (at, piece) in list.skeleton.iter().enumerate() {
            let out = if at <= main { &mut head } else { &mut tail };
            out.extend_from_slice(piece);
            if let Some(window) = windows.get(at) {
                out.extend_from_slice(window);
            }
        }
        // The skeleton after the main list begins with the bracket of that list.
        if !tail.is_empty() {
            head.push(tail.remove(0));
        }
        let clash = list
            .skeleton
            .iter()
            .any(|piece| has_key(piece, form, "nextCursor") || has_key(piece, form, "meta"));
        Self { form, head, tail, clash }
    }

    /// Returns the JSON of the page. If `coverage` is that of a page, inserts paging fields after
    /// the main list: `meta` and, if the cursor leads to the rest, `nextCursor`.
    #[must_use]
    pub fn beside(&self, coverage: Option<(&Coverage, CursorLink<'_>)>) -> Vec<u8> {
        let mut out = self.head.clone();
        // Only a page can be continued, so only a page has paging fields.
        if let Some((coverage, link)) =
            coverage.filter(|(coverage, _)| matches!(coverage, Coverage::Page { .. }))
        {
            convert(&mut out, &fields(coverage, link, self.clash), Form::Raw, self.form);
        }
        out.extend_from_slice(&self.tail);
        out
    }
}

/// Returns the paging fields, `,"nextCursor":…,"meta":{…}`. If `clash`, puts them into a member
/// `_guard`, because the document may have members with these names (FR-033).
fn fields(coverage: &Coverage, link: CursorLink<'_>, clash: bool) -> Vec<u8> {
    let json = coverage.json(None, link.more, link.read_tool);
    let mut fields = Vec::new();
    if let Some(cursor) = link.cursor.filter(|_| link.more) {
        fields.extend_from_slice(b"\"nextCursor\":");
        fields.extend(quoted(cursor));
        fields.push(b',');
    }
    let meta = json.get("meta").unwrap_or(&Value::Null);
    fields.extend_from_slice(b"\"meta\":");
    fields.extend_from_slice(meta.to_string().as_bytes());
    if clash {
        [b",\"_guard\":{".as_slice(), &fields, b"}"].concat()
    } else {
        [b",".as_slice(), &fields].concat()
    }
}

/// Returns true if a piece of a document may have the member `key`. Also returns true for a string
/// value that looks like it; then paging fields are needlessly put into `_guard`.
fn has_key(piece: &[u8], form: Form, key: &str) -> bool {
    let mut needle = Vec::new();
    convert(&mut needle, &quoted(key), Form::Raw, form);
    memchr::memmem::find(piece, &needle).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::index::ListMark;

    fn list(skeleton: &[&str], main: u64) -> ListIndex {
        let lists = (1..skeleton.len())
            .map(|_| ListMark { path: String::new(), start: 0, count: 9 })
            .collect();
        ListIndex {
            skeleton: skeleton.iter().map(|piece| piece.as_bytes().to_vec()).collect(),
            main,
            lists,
            ..ListIndex::default()
        }
    }

    #[test]
    fn paging_fields_follow_the_list() {
        let list = list(&[r#"{"bookings":["#, r#"],"page":1}"#], 0);
        let pieces = Pieces::new(&list, Form::Raw, [(0, b"1".as_slice()), (0, b"2")].into_iter());
        let coverage = Coverage::Page {
            first: 0,
            shown: 2,
            total: 9,
            page_size: 50,
            lists: Vec::new(),
            condensed: None,
        };
        let page = String::from_utf8(pieces.beside(Some((
            &coverage,
            CursorLink { cursor: Some("C"), more: true, read_tool: "r" },
        ))))
        .unwrap();
        assert_eq!(
            page,
            r#"{"bookings":[1,2],"nextCursor":"C","meta":{"hasMore":true,"pageSize":50,"totalCount":9},"page":1}"#
        );
        assert_eq!(pieces.beside(None), br#"{"bookings":[1,2],"page":1}"#);
    }

    #[test]
    fn taken_names_move_to_guard() {
        let list = list(&[r#"{"meta":{},"rows":["#, "]}"], 0);
        let pieces = Pieces::new(&list, Form::Raw, std::iter::empty());
        let coverage = Coverage::Page {
            first: 0,
            shown: 0,
            total: 9,
            page_size: 50,
            lists: Vec::new(),
            condensed: None,
        };
        let page: Value =
            serde_json::from_slice(&pieces.beside(Some((
                &coverage,
                CursorLink { cursor: None, more: false, read_tool: "r" },
            ))))
            .unwrap();
        assert_eq!(page["_guard"]["meta"]["totalCount"], 9);
    }

    #[test]
    fn several_lists_share_one_window() {
        let list = list(&[r#"{"a":["#, r#"],"b":["#, "]}"], 1);
        let pieces = Pieces::new(&list, Form::Raw, [(0, b"1".as_slice()), (1, b"2")].into_iter());
        assert_eq!(pieces.beside(None), br#"{"a":[1],"b":[2]}"#);
    }
}
