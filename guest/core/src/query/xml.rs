//! XML documents as JSON: elements become members, and attributes get names with `@`.
//!
//! An element with neither attributes nor child elements becomes its text, converted by the rules
//! of table cells. Any other element becomes an object, with its own text as `#text`. Repeated
//! elements become a list. So do all elements at the same path of names, even single ones.

use std::collections::HashMap;

use super::table::write_cell;
use crate::json::text::quoted;
use crate::text::markup::{Piece, Pieces, attributes, decode_references, is_xml};

/// The maximum depth of elements. Writing is recursive.
const MAX_DEPTH: usize = 60;
/// The maximum number of elements and attributes.
const MAX_VALUES: usize = 1_000_000;
/// The maximum size of the document as JSON, in bytes.
const MAX_JSON_BYTES: usize = 48 * 1024 * 1024;

/// An element of a document.
#[derive(Default)]
struct XmlElement<'t> {
    name: &'t str,
    /// The number of the element's path of names from the root, an index into
    /// [`XmlDocument::repeats`].
    path: usize,
    attributes: Vec<(&'t str, &'t str)>,
    text: String,
    children: Vec<XmlElement<'t>>,
}

/// The paths of a document's elements, collected while it is read.
#[derive(Default)]
struct XmlDocument<'t> {
    /// The number of each path, by the number of the parent's path and the name.
    paths: HashMap<(usize, &'t str), usize>,
    /// For each path, true if an element occurs twice in its parent.
    repeats: Vec<bool>,
    open: Vec<XmlElement<'t>>,
    root: Option<XmlElement<'t>>,
    values: usize,
}

/// Converts an XML document to a JSON object with the root element as its only member. `None` for
/// other texts, for HTML, and for documents that declare entities or exceed a limit. O(text).
pub(super) fn to_json(text: &str) -> Option<Vec<u8>> {
    if !text.trim_start().starts_with('<') {
        return None;
    }
    let is_declared = is_xml(text);
    let mut document = XmlDocument::default();
    for (start, piece) in Pieces::new(text) {
        match piece {
            Piece::Open { name, attributes, closed } => {
                // Without a declaration, the scanner skips the content of these two as HTML does.
                let is_html = name.eq_ignore_ascii_case("html")
                    || !is_declared
                        && ["script", "style"].iter().any(|own| name.eq_ignore_ascii_case(own));
                if is_html {
                    return None;
                }
                document.begin(name, attributes)?;
                if closed {
                    document.end(name)?;
                }
            }
            Piece::Close { name } => document.end(name)?,
            Piece::Text(part) => {
                let is_verbatim =
                    text.get(start..).is_some_and(|rest| rest.starts_with("<![CDATA["));
                document.add_text(part, is_verbatim)?;
            }
        }
    }
    document.into_json()
}

impl<'t> XmlDocument<'t> {
    fn begin(&mut self, name: &'t str, own: &'t str) -> Option<()> {
        if self.root.is_some() || self.open.len() >= MAX_DEPTH {
            return None;
        }
        let parent = self.open.last().map_or(0, |parent| parent.path);
        let next = self.paths.len() + 1;
        let path = *self.paths.entry((parent, name)).or_insert(next);
        let attributes: Vec<_> = attributes(own).collect();
        self.values += 1 + attributes.len();
        self.open.push(XmlElement { name, path, attributes, ..XmlElement::default() });
        (self.values <= MAX_VALUES).then_some(())
    }

    fn end(&mut self, name: &str) -> Option<()> {
        let element = self.open.pop().filter(|element| element.name == name)?;
        match self.open.last_mut() {
            Some(parent) => parent.children.push(element),
            None => self.root = Some(element),
        }
        Some(())
    }

    fn add_text(&mut self, part: &str, is_verbatim: bool) -> Option<()> {
        let Some(element) = self.open.last_mut() else {
            return part.trim_matches(['\u{feff}', ' ', '\t', '\r', '\n']).is_empty().then_some(());
        };
        if is_verbatim {
            element.text.push_str(part);
        } else {
            element.text.push_str(&decode_references(part));
        }
        Some(())
    }

    fn into_json(mut self) -> Option<Vec<u8>> {
        let root = self.root.take().filter(|_| self.open.is_empty())?;
        self.repeats = vec![false; self.paths.len() + 1];
        self.find_repeats(&root);
        let mut out = b"{".to_vec();
        out.extend(quoted(root.name));
        out.push(b':');
        self.write(&root, &mut out);
        out.push(b'}');
        (out.len() <= MAX_JSON_BYTES).then_some(out)
    }

    /// Marks the paths at which elements repeat.
    fn find_repeats(&mut self, element: &XmlElement<'t>) {
        let mut seen = std::collections::HashSet::new();
        for child in &element.children {
            if !seen.insert(child.path)
                && let Some(repeats) = self.repeats.get_mut(child.path)
            {
                *repeats = true;
            }
            self.find_repeats(child);
        }
    }

    fn write(&self, element: &XmlElement<'t>, out: &mut Vec<u8>) {
        let text = element.text.trim();
        if element.attributes.is_empty() && element.children.is_empty() {
            return write_cell(text, false, out);
        }
        out.push(b'{');
        let mut is_first = true;
        let mut key = |out: &mut Vec<u8>, name: &str| {
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
            out.extend(quoted(name));
            out.push(b':');
        };
        for (name, value) in &element.attributes {
            key(out, &format!("@{name}"));
            write_cell(&decode_references(value), false, out);
        }
        if !text.is_empty() {
            key(out, "#text");
            write_cell(text, false, out);
        }
        // Members are in the order of the first element of each name.
        let mut order: Vec<usize> = Vec::new();
        let mut groups: HashMap<usize, Vec<&XmlElement<'t>>> = HashMap::new();
        for child in &element.children {
            let group = groups.entry(child.path).or_default();
            if group.is_empty() {
                order.push(child.path);
            }
            group.push(child);
        }
        for path in order {
            let group = groups.get(&path).map_or(&[][..], Vec::as_slice);
            key(out, group.first().map_or("", |child| child.name));
            let is_list = self.repeats.get(path).copied().unwrap_or(false);
            if is_list {
                out.push(b'[');
            }
            for (at, child) in group.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                self.write(child, out);
            }
            if is_list {
                out.push(b']');
            }
        }
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::scan::is_json;
    use crate::json::text::Form;

    fn json(text: &str) -> String {
        to_json(text).map_or("none".to_owned(), |json| String::from_utf8(json).unwrap())
    }

    #[test]
    fn elements_are_members() {
        assert_eq!(
            json(
                "<?xml version=\"1.0\"?>\n<!-- x --><r a='1'>\n <n>A &amp; B</n><n/><k><![CDATA[a &amp; <b>]]></k></r>\n"
            ),
            r#"{"r":{"@a":1,"n":["A & B",null],"k":"a &amp; <b>"}}"#
        );
        assert_eq!(json("<r>t<b>007</b></r>"), r##"{"r":{"#text":"t","b":"007"}}"##);
    }

    #[test]
    fn repeated_elements_are_lists_everywhere() {
        assert_eq!(
            json("<s><t><c>1</c><c>2</c></t><t><c>3</c></t></s>"),
            r#"{"s":{"t":[{"c":[1,2]},{"c":[3]}]}}"#
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_json_or_refused(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "<a>", "</a>", "<b/>", "<b x='1' y>", "</b>", "<![CDATA[", "]]>", "<!--", "-->", "<?x",
                    "?>", "<!DOCTYPE r [", "]>", "&amp;", "&#x0;", "&", "\"", "1", "é", "\u{0}", "=", "<", ">",
                ]),
                0..30,
            ),
        ) {
            let text = format!("<r>{}</r>", parts.concat());
            if let Some(json) = to_json(&text) {
                proptest::prop_assert!(is_json(&json, Form::Raw), "{text:?}");
            }
        }
    }

    #[test]
    fn other_texts_are_not_converted() {
        let nested = format!("{}{}", "<a>".repeat(70), "</a>".repeat(70));
        let bomb = "<!DOCTYPE r [<!ENTITY a \"x\"><!ENTITY b \"&a;&a;\">]><r>&b;</r>";
        for text in [
            "",
            "words",
            "<a>",
            "<a></b>",
            "<a/><b/>",
            "<a/>words",
            "<a><b></a></b>",
            "<html><body/></html>",
            "<r><style>a{}</style></r>",
            nested.as_str(),
            bomb,
        ] {
            assert_eq!(json(text), "none", "{text}");
        }
        assert_eq!(json("<r>&unknown;</r>"), r#"{"r":"&unknown;"}"#);
    }
}
