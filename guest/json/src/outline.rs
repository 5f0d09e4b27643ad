//! An index of a document: all values with their spans and keys, in document order, in one flat
//! table.
//!
//! Condensing, projections and queries use it. Values are not decoded. Containers beyond the limits
//! of depth and size are leaves.

use std::borrow::Cow;

use super::Span;
use super::scan::{Kind, Scan, Scanner};
use super::text::{Form, convert, is_plain, string, visible};

/// The maximum depth of nodes. The members of deeper containers are not indexed.
const MAX_DEPTH: u16 = 64;

/// The maximum number of nodes. The members of further containers are not indexed, and no element
/// of an array after twice this number is.
const MAX_NODES: usize = 1 << 20;

/// The index of a node in its outline.
pub type NodeId = usize;

/// A value of an indexed JSON document.
#[derive(Clone, Debug)]
pub struct Node {
    /// The kind of the value.
    pub kind: Kind,
    /// The span of the value in the buffer; that of a string excludes the quotes.
    pub span: Span,
    /// The span of the member's key without quotes; empty for elements and for the root.
    pub key: Span,
    /// The id of the next node that is not a descendant of this one.
    pub end: NodeId,
    /// The number of members or elements of the value.
    pub children: u32,
    /// True for a container beyond the maximum depth or number of nodes, whose members are not
    /// indexed.
    pub closed: bool,
    /// The path of the value in the document, as a number that the [`PathFilter`] assigned.
    pub path: u32,
}

/// Selects and numbers values of a document by their paths while an outline is built. All other
/// values are skipped.
pub trait PathFilter {
    /// Returns the path number of a container's child, or `None` to skip the child. `path` is the
    /// path number of the container. `key` is the verbatim key of a member, or `None` for an
    /// element.
    fn child(&mut self, path: u32, key: Option<&[u8]>) -> Option<u32>;

    /// Returns the number of distinct path numbers that [`PathFilter::child`] returns for members
    /// of the root object. `None` if unknown. After one member for each number, further members are
    /// not read.
    fn expected_count(&self) -> Option<u32> {
        None
    }
}

/// Selects all values of a document.
struct Everything;

impl PathFilter for Everything {
    #[inline]
    fn child(&mut self, _: u32, _: Option<&[u8]>) -> Option<u32> {
        Some(0)
    }
}

/// Returns the span of a node's value. The span of a string includes the quotes.
#[inline]
fn whole(node: &Node, form: Form) -> Span {
    match node.kind {
        Kind::String => node.span.start.saturating_sub(form.quote())..node.span.end + form.quote(),
        _ => node.span.clone(),
    }
}

/// Builds the nodes of an outline for the selected values of a document.
struct Lister<'l, L> {
    nodes: &'l mut Vec<Node>,
    filter: &'l mut L,
    /// The depth of the next value to read, 0 for the root.
    level: u16,
    /// The offset in the buffer at which the document ends.
    end: usize,
}

impl<L: PathFilter> Lister<'_, L> {
    /// Adds nodes for the value at the scanner's position and its selected descendants. `key` is
    /// the span of the value's key, which may be empty, and `path` its path number.
    #[inline(always)]
    fn value(&mut self, scanner: &mut Scanner<'_>, key: Span, path: u32) -> Scan<()> {
        let kind = scanner.kind()?;
        let id = self.nodes.len();
        let span = match kind {
            Kind::String => scanner.string()?,
            Kind::Scalar => scanner.scalar()?,
            Kind::Object | Kind::Array => scanner.position()..scanner.position(),
        };
        self.nodes.push(Node { kind, span, key, end: id + 1, children: 0, closed: false, path });
        match kind {
            Kind::String | Kind::Scalar => Ok(()),
            Kind::Object | Kind::Array if self.level < MAX_DEPTH && id < MAX_NODES => {
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

    /// Adds nodes for the selected descendants of the container `id`, then sets the counts and the
    /// end of the container's node.
    fn container(&mut self, scanner: &mut Scanner<'_>, id: NodeId) -> Scan<()> {
        let Some(&Node { kind, path, .. }) = self.nodes.get(id) else { return Ok(()) };
        let start = scanner.position();
        let mut children = 0u32;
        if kind == Kind::Object {
            let enough = self.filter.expected_count().filter(|_| id == 0);
            // The set of paths that were read. Paths from the 64th on may share a bit; then the
            // count is too low, and the whole object is read.
            let mut met = 0u64;
            scanner.object(|scanner, key| {
                children += 1;
                match self.filter.child(path, Some(scanner.bytes(&key))) {
                    Some(path) => {
                        self.value(scanner, key, path)?;
                        met |= 1 << (path % u64::BITS);
                        if enough.is_some_and(|enough| met.count_ones() >= enough) {
                            // Continue at the closing brace of the document.
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
                match self.filter.child(path, None) {
                    Some(path) if self.nodes.len() <= 2 * MAX_NODES => {
                        self.value(scanner, 0..0, path)
                    }
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

/// An index of the values of a document, or of several documents in one buffer.
#[derive(Clone, Debug)]
pub struct Outline<'a> {
    bytes: &'a [u8],
    form: Form,
    nodes: Vec<Node>,
}

impl<'a> Outline<'a> {
    /// Indexes the value at `span` of `bytes`, with all descendants. O(n).
    ///
    /// # Errors
    /// Fails on a syntax error.
    pub fn parse(bytes: &'a [u8], form: Form, span: &Span) -> Scan<Self> {
        Self::parse_filtered(bytes, form, span, 0, &mut Everything)
    }

    /// Indexes the value at `span` and its descendants, as far as `filter` selects them. `path` is
    /// the path number of the value. O(n). [`Node::children`] also counts skipped children, unless
    /// reading stopped before them.
    ///
    /// # Errors
    /// Fails on a syntax error in a selected part.
    pub fn parse_filtered(
        bytes: &'a [u8],
        form: Form,
        span: &Span,
        path: u32,
        filter: &mut impl PathFilter,
    ) -> Scan<Self> {
        // One node per 128 bytes is enough for most records and filtered lists.
        let mut nodes = Vec::with_capacity((span.len() / 128).clamp(16, 1 << 14));
        let scanner = &mut Scanner::starting_at(bytes, form, span.start);
        Lister { nodes: &mut nodes, filter, level: 0, end: span.end }.value(scanner, 0..0, path)?;
        Ok(Self { bytes, form, nodes })
    }

    /// Indexes the values at `spans` of `bytes` as the elements of an array, which is the root
    /// node.
    ///
    /// # Errors
    /// Fails on a syntax error.
    pub fn parse_all(bytes: &'a [u8], form: Form, spans: &[Span]) -> Scan<Self> {
        let children = u32::try_from(spans.len()).unwrap_or(u32::MAX);
        let mut nodes = vec![Node {
            kind: Kind::Array,
            span: 0..0,
            key: 0..0,
            end: 0,
            children,
            closed: false,
            path: 0,
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

    /// Returns the buffer that contains the indexed values.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the form of the buffer: raw, or escaped inside a JSON string.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// Returns the offset at which a node's value begins. For a string, that is its opening quote.
    #[must_use]
    pub fn start(&self, node: &Node) -> usize {
        whole(node, self.form).start
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns true if there are no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns false if the document has too many values, so that it is cut. Containers after the
    /// first 2^20 nodes are then leaves, and some elements of arrays are missing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.nodes.len() <= MAX_NODES
    }

    /// Returns the node with the index `id`. `None` if there is no such node.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)
    }

    /// Iterates over the members or elements of the node `id`, each with its id.
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

    /// Appends the value of `node` to `out` as raw JSON.
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

    /// Appends the key of the member `node` and a colon to `out` as raw JSON.
    pub fn write_key(&self, out: &mut Vec<u8>, node: &Node) {
        let key = self.bytes.get(node.key.clone()).unwrap_or_default();
        out.reserve(key.len() + 3);
        out.push(b'"');
        convert(out, key, self.form, Form::Raw);
        out.extend_from_slice(b"\":");
    }

    /// Returns the value of `node` as raw JSON, like [`Outline::raw`]. Decodes an escaped value
    /// into `scratch` instead of a new vector.
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

    /// Returns the value of `node` as raw JSON; borrowed from the buffer if nothing is escaped.
    #[must_use]
    pub fn raw(&self, node: &Node) -> Cow<'a, [u8]> {
        let whole = whole(node, self.form);
        visible(self.bytes.get(whole).unwrap_or_default(), self.form)
    }

    /// Returns the content of the string at `span` as raw JSON: without quotes, but with its
    /// escapes.
    #[inline]
    #[must_use]
    pub fn inner(&self, span: &Span) -> Cow<'a, [u8]> {
        let bytes = self.bytes.get(span.clone()).unwrap_or_default();
        if is_plain(self.bytes, span) { Cow::Borrowed(bytes) } else { visible(bytes, self.form) }
    }

    /// Decodes the string or key at `span`, which excludes the quotes, to its bytes.
    #[inline]
    #[must_use]
    pub fn name(&self, span: &Span) -> Cow<'a, [u8]> {
        let bytes = self.bytes.get(span.clone()).unwrap_or_default();
        if is_plain(self.bytes, span) { Cow::Borrowed(bytes) } else { string(bytes, self.form) }
    }

    /// Decodes the string or key at `span` to a `String`; invalid UTF-8 becomes U+FFFD.
    #[must_use]
    pub fn decoded(&self, span: &Span) -> String {
        String::from_utf8_lossy(&self.name(span)).into_owned()
    }

    /// Returns the key at the span `key`, escaped as a segment of a JSON Pointer (RFC 6901).
    #[must_use]
    pub fn step(&self, key: &Span) -> String {
        self.decoded(key).replace('~', "~0").replace('/', "~1")
    }

    /// Returns the member `name` of the object `id`. `None` if there is no such object or member.
    /// Among duplicates, the last one counts, as in most parsers.
    #[must_use]
    pub fn member(&self, id: NodeId, name: &str) -> Option<(NodeId, &Node)> {
        if self.node(id)?.kind != Kind::Object {
            return None;
        }
        self.children(id).filter(|(_, node)| self.is_key(&node.key, name)).last()
    }

    /// Returns true if the key at `span` is `name`.
    #[inline]
    fn is_key(&self, span: &Span, name: &str) -> bool {
        // An escape is longer than the character that it stands for.
        match span.len().cmp(&name.len()) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => {
                self.bytes.get(span.clone()) == Some(name.as_bytes()) && !name.contains('\\')
            }
            std::cmp::Ordering::Greater => {
                !is_plain(self.bytes, span) && self.name(span).as_ref() == name.as_bytes()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_order_with_their_keys() {
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

    /// A filter that selects the members `a` and `c` at any depth.
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
    fn rest_is_skipped_after_all_selected_members() {
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
                // A duplicate key counts once.
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
    fn too_deep_containers_are_leaves() {
        let text = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        let outline = Outline::parse(text.as_bytes(), Form::Raw, &(0..text.len())).unwrap();
        let deepest = outline.nodes.last().unwrap();
        assert!(outline.nodes.len() < 100 && deepest.closed && deepest.kind == Kind::Array);
    }
}
