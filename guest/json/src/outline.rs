//! The shape of a document: every value as a span with its key, in the order of the document, in one flat table.
//!
//! It is what a document is condensed, projected and queried by. Values are not decoded; what is nested too deep, or too much, is a leaf.

use std::borrow::Cow;

use super::Span;
use super::scan::{Kind, Scan, Scanner};
use super::text::{Form, convert, is_plain, string, visible};

/// Levels that are followed; what is nested deeper is a leaf.
const LEVELS: u16 = 64;

/// Values that are listed one by one; containers that come later are leaves.
const MOST: usize = 1 << 20;

/// The number of a value in its outline.
pub type NodeId = usize;

/// A value.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Where it stands: a string without its quotes.
    pub span: Span,
    /// Its key in the object that it is a member of, without quotes; empty elsewhere.
    pub key: Span,
    /// The first value after it that is not inside it.
    pub end: NodeId,
    /// Members or elements.
    pub children: u32,
    /// Whether it is a container that was not followed.
    pub closed: bool,
    /// What a [`PathFilter`] calls the place that it stands at.
    pub place: u32,
}

/// What of a document is wanted: everything else is passed, not listed.
pub trait PathFilter {
    /// What the place is called at which a member with this key, not decoded, or an element stands, in a container at a place called `place`; none
    /// where it is not wanted.
    fn child(&mut self, place: u32, key: Option<&[u8]>) -> Option<u32>;

    /// At how many places members of the document are wanted; none where that is not known. Once one has been met at each of them, what follows is not looked at.
    fn expected_count(&self) -> Option<u32> {
        None
    }
}

/// Wants everything.
struct Everything;

impl PathFilter for Everything {
    #[inline]
    fn child(&mut self, _: u32, _: Option<&[u8]>) -> Option<u32> {
        Some(0)
    }
}

/// Where a value stands, with its quotes.
#[inline]
fn whole(node: &Node, form: Form) -> Span {
    match node.kind {
        Kind::String => node.span.start.saturating_sub(form.quote())..node.span.end + form.quote(),
        _ => node.span.clone(),
    }
}

/// Lists values, those that a filter shows.
struct Lister<'l, L> {
    nodes: &'l mut Vec<Node>,
    filter: &'l mut L,
    /// How deep the next value stands.
    level: u16,
    /// Where all of it ends.
    end: usize,
}

impl<L: PathFilter> Lister<'_, L> {
    /// Lists the value at which the scanner stands, whose key is `key`, at a place called `place`, and what is in it.
    #[inline(always)]
    fn value(&mut self, scanner: &mut Scanner<'_>, key: Span, place: u32) -> Scan<()> {
        let kind = scanner.kind()?;
        let id = self.nodes.len();
        let span = match kind {
            Kind::String => scanner.string()?,
            Kind::Scalar => scanner.scalar()?,
            Kind::Object | Kind::Array => scanner.position()..scanner.position(),
        };
        self.nodes.push(Node { kind, span, key, end: id + 1, children: 0, closed: false, place });
        match kind {
            Kind::String | Kind::Scalar => Ok(()),
            Kind::Object | Kind::Array if self.level < LEVELS && id < MOST => {
                self.level += 1;
                let read = self.container(scanner, id);
                self.level -= 1;
                read
            }
            Kind::Object | Kind::Array => {
                let span = scanner.skip_value()?;
                if let Some(node) = self.nodes.get_mut(id) {
                    (node.span, node.closed) = (span, true);
                }
                Ok(())
            }
        }
    }

    /// Lists what is in a container that was listed.
    fn container(&mut self, scanner: &mut Scanner<'_>, id: NodeId) -> Scan<()> {
        let Some(&Node { kind, place, .. }) = self.nodes.get(id) else { return Ok(()) };
        let start = scanner.position();
        let mut children = 0u32;
        if kind == Kind::Object {
            let enough = self.filter.expected_count().filter(|_| id == 0);
            // The places that were met: those beyond the 64th may share a bit, and never make enough then.
            let mut met = 0u64;
            scanner.object(|scanner, key| {
                children += 1;
                match self.filter.child(place, Some(scanner.bytes(&key))) {
                    Some(place) => {
                        self.value(scanner, key, place)?;
                        met |= 1 << (place % u64::BITS);
                        if enough.is_some_and(|enough| met.count_ones() >= enough) {
                            // The bracket that closes it all.
                            scanner.advance_to(self.end.saturating_sub(1));
                        }
                        Ok(())
                    }
                    None => scanner.skip_unchecked().map(drop),
                }
            })?;
        } else {
            scanner.array(|scanner| {
                children += 1;
                match self.filter.child(place, None) {
                    Some(place) if self.nodes.len() <= 2 * MOST => self.value(scanner, 0..0, place),
                    _ => scanner.skip_unchecked().map(drop),
                }
            })?;
        }
        let end = self.nodes.len();
        if let Some(node) = self.nodes.get_mut(id) {
            (node.span, node.end, node.children) = (start..scanner.position(), end, children);
        }
        Ok(())
    }
}

/// A document, or several values of one buffer.
#[derive(Clone, Debug)]
pub struct Outline<'a> {
    bytes: &'a [u8],
    form: Form,
    nodes: Vec<Node>,
}

impl<'a> Outline<'a> {
    /// The outline of the value at `span`. O(n).
    ///
    /// # Errors
    /// Where it is broken.
    pub fn parse(bytes: &'a [u8], form: Form, span: &Span) -> Scan<Self> {
        Self::parse_filtered(bytes, form, span, 0, &mut Everything)
    }

    /// The outline of what a filter shows of the value at `span`, whose place is called `place`. O(n), and what is not wanted is passed fast. Children are counted with
    /// those that are not listed.
    ///
    /// # Errors
    /// Where what is wanted is broken.
    pub fn parse_filtered(
        bytes: &'a [u8],
        form: Form,
        span: &Span,
        place: u32,
        filter: &mut impl PathFilter,
    ) -> Scan<Self> {
        // Enough for a record, most of which are small; and for much of what is wanted of a list.
        let mut nodes = Vec::with_capacity((span.len() / 128).clamp(16, 1 << 14));
        let scanner = &mut Scanner::starting_at(bytes, form, span.start);
        Lister { nodes: &mut nodes, filter, level: 0, end: span.end }.value(
            scanner,
            0..0,
            place,
        )?;
        Ok(Self { bytes, form, nodes })
    }

    /// An outline whose root is an array of the values at `spans`, wherever they stand.
    ///
    /// # Errors
    /// Where one is broken.
    pub fn parse_all(bytes: &'a [u8], form: Form, spans: &[Span]) -> Scan<Self> {
        let children = u32::try_from(spans.len()).unwrap_or(u32::MAX);
        let mut nodes = vec![Node {
            kind: Kind::Array,
            span: 0..0,
            key: 0..0,
            end: 0,
            children,
            closed: false,
            place: 0,
        }];
        let mut lister =
            Lister { nodes: &mut nodes, filter: &mut Everything, level: 1, end: bytes.len() };
        for span in spans {
            lister.value(&mut Scanner::starting_at(bytes, form, span.start), 0..0, 0)?;
        }
        let end = nodes.len();
        if let Some(root) = nodes.first_mut() {
            root.end = end;
        }
        Ok(Self { bytes, form, nodes })
    }

    /// What it is an outline of.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How that stands.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// Where a value begins: a string with its quote.
    #[must_use]
    pub fn start(&self, node: &Node) -> usize {
        whole(node, self.form).start
    }

    /// How many values are listed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A value; none beyond the last.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// The members or elements of a value.
    pub fn children(&self, id: NodeId) -> impl Iterator<Item = (NodeId, &Node)> {
        let end = self.nodes.get(id).map_or(0, |node| node.end);
        let mut at = id + 1;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let child = (at, self.nodes.get(at)?);
            at = child.1.end;
            Some(child)
        })
    }

    /// Appends the value whole, as it stands in JSON that is not escaped.
    pub fn write(&self, out: &mut Vec<u8>, node: &Node) {
        let bytes = self.bytes.get(node.span.clone()).unwrap_or_default();
        if node.kind == Kind::String {
            out.push(b'"');
            convert(out, bytes, self.form, Form::Raw);
            out.push(b'"');
        } else {
            convert(out, bytes, self.form, Form::Raw);
        }
    }

    /// Appends the key of a member, and its colon, as they stand in JSON that is not escaped.
    pub fn write_key(&self, out: &mut Vec<u8>, node: &Node) {
        let key = self.bytes.get(node.key.clone()).unwrap_or_default();
        out.reserve(key.len() + 3);
        out.push(b'"');
        convert(out, key, self.form, Form::Raw);
        out.extend_from_slice(b"\":");
    }

    /// The same as [`Outline::raw`], in `scratch` where it does not stand in the document like that.
    pub fn raw_in<'s>(&'s self, scratch: &'s mut Vec<u8>, node: &Node) -> &'s [u8] {
        match (self.form, node.kind) {
            (Form::Raw, _) | (_, Kind::Scalar) => {
                self.bytes.get(whole(node, self.form)).unwrap_or_default()
            }
            _ => {
                scratch.clear();
                self.write(scratch, node);
                scratch
            }
        }
    }

    /// The value whole, as it stands in JSON that is not escaped.
    #[must_use]
    pub fn raw(&self, node: &Node) -> Cow<'a, [u8]> {
        let whole = whole(node, self.form);
        visible(self.bytes.get(whole).unwrap_or_default(), self.form)
    }

    /// What stands between the quotes of a string, as it stands in JSON that is not escaped.
    #[inline]
    #[must_use]
    pub fn inner(&self, span: &Span) -> Cow<'a, [u8]> {
        let bytes = self.bytes.get(span.clone()).unwrap_or_default();
        if is_plain(self.bytes, span) { Cow::Borrowed(bytes) } else { visible(bytes, self.form) }
    }

    /// The string at a span, or the key, decoded, as bytes.
    #[inline]
    #[must_use]
    pub fn name(&self, span: &Span) -> Cow<'a, [u8]> {
        let bytes = self.bytes.get(span.clone()).unwrap_or_default();
        if is_plain(self.bytes, span) { Cow::Borrowed(bytes) } else { string(bytes, self.form) }
    }

    /// The string at a span, or the key, decoded.
    #[must_use]
    pub fn decoded(&self, span: &Span) -> String {
        String::from_utf8_lossy(&self.name(span)).into_owned()
    }

    /// A key as a step of a JSON Pointer.
    #[must_use]
    pub fn step(&self, key: &Span) -> String {
        self.decoded(key).replace('~', "~0").replace('/', "~1")
    }

    /// The member of an object by its key: of two, the last, as parsers have it.
    #[must_use]
    pub fn member(&self, id: NodeId, name: &str) -> Option<(NodeId, &Node)> {
        if self.node(id)?.kind != Kind::Object {
            return None;
        }
        self.children(id).filter(|(_, node)| self.decoded(&node.key) == name).last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_in_order_with_their_keys() {
        let text = br#"{"a": [1, {"b\"": "x\n"}], "c": {}}"#;
        let outline = Outline::parse(text, Form::Raw, &(0..text.len())).unwrap();
        let keys: Vec<_> =
            outline.children(0).map(|(_, node)| outline.decoded(&node.key)).collect();
        assert_eq!(keys, ["a", "c"]);
        let (list, node) = outline.member(0, "a").unwrap();
        assert_eq!((node.children, outline.children(list).count()), (2, 2));
        let (object, _) = outline.children(list).last().unwrap();
        let (_, string) = outline.member(object, "b\"").unwrap();
        assert_eq!(outline.raw(string).as_ref(), br#""x\n""#);
        assert_eq!(outline.decoded(&string.span), "x\n");
    }

    #[test]
    fn escaped_documents_read_the_same() {
        let text = br#"[{\"a\":\"x\\ny\"}]"#;
        let outline = Outline::parse(text, Form::Escaped, &(0..text.len())).unwrap();
        let (_, string) = outline.member(1, "a").unwrap();
        assert_eq!(outline.raw(string).as_ref(), br#""x\ny""#);
        assert_eq!(outline.decoded(&string.span), "x\ny");
    }

    /// Wants `a` and `c`, wherever they stand.
    struct Two;

    impl PathFilter for Two {
        fn child(&mut self, _: u32, key: Option<&[u8]>) -> Option<u32> {
            let key = key.and_then(|key| key.first().copied());
            matches!(key, Some(b'a' | b'c')).then(|| u32::from(key == Some(b'c')))
        }

        fn expected_count(&self) -> Option<u32> {
            Some(2)
        }
    }

    #[test]
    fn what_follows_all_that_is_wanted_is_not_looked_at() {
        let read = |text: &str, form: Form| {
            let mut bytes = Vec::new();
            convert(&mut bytes, text.as_bytes(), Form::Raw, form);
            let span = 0..bytes.len();
            let outline = Outline::parse_filtered(&bytes, form, &span, 0, &mut Two).ok()?;
            let keys = outline.children(0).map(|(_, node)| outline.decoded(&node.key));
            (outline.node(0)?.span == span).then(|| keys.collect::<Vec<_>>().join(" "))
        };
        for form in [Form::Raw, Form::Escaped] {
            for (text, expected) in [
                (r#"{"a":1,"b":"}","c":{"a":2,"c":3,"b":[4]},"d":"]","c":5}"#, "a c"),
                // A key that comes twice is not two of them.
                (r#"{"a":1,"a":2,"b":3,"c":4,"a":5}"#, "a a c"),
                (r#"{"b":1, "c":2, "d":3 }"#, "c"),
                (r#"{"b":1}"#, ""),
            ] {
                assert_eq!(read(text, form).as_deref(), Some(expected), "{text}");
            }
            assert_eq!(read(r#"{"b":1,"c":2"#, form), None);
        }
    }

    #[test]
    fn what_is_too_deep_is_a_leaf() {
        let text = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        let outline = Outline::parse(text.as_bytes(), Form::Raw, &(0..text.len())).unwrap();
        let deepest = outline.nodes.last().unwrap();
        assert!(outline.nodes.len() < 100 && deepest.closed && deepest.kind == Kind::Array);
    }
}
