//! A scanner for HTML and XML that accepts any input. It finds tags, texts and their positions, and
//! builds no tree.

/// The maximum length, in bytes, of the name of a decoded character reference, such as `#x1F600`.
const MAX_REFERENCE_BYTES: usize = 8;

/// A part of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'t> {
    /// A start tag, with the text of its attributes. `closed` is true for `<br/>`.
    Open {
        /// The name of the element, as written.
        name: &'t str,
        /// The text between name and end of the tag.
        attributes: &'t str,
        /// True if the tag also ends the element.
        closed: bool,
    },
    /// An end tag.
    Close {
        /// The name of the element, as written.
        name: &'t str,
    },
    /// Text between tags, or in a CDATA section. Character references are not decoded.
    Text(&'t str),
}

/// An iterator over the parts of a document, each with the byte offset at which it begins. Skips
/// comments, declarations, processing instructions, and the content of scripts and styles. In a
/// document with an XML declaration whose root is not `html`, elements of these names are like any
/// other. O(n) in total.
pub struct Pieces<'t> {
    text: &'t str,
    at: usize,
    /// True if no element has content without tags, as in XML.
    is_xml: bool,
    /// The name of an open element whose content has no tags, such as `script`. `None` outside of
    /// such elements.
    raw: Option<&'t str>,
}

impl<'t> Pieces<'t> {
    /// Creates an iterator over the parts of `text`.
    #[must_use]
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0, is_xml: is_xml(text), raw: None }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Moves to the position after the next `end`, or to the end of the text. Returns the offset
    /// before `end`.
    fn skip_past(&mut self, end: &str) -> usize {
        let found = memchr::memmem::find(self.rest().as_bytes(), end.as_bytes());
        let before = found.map_or(self.text.len(), |found| self.at + found);
        self.at = found.map_or(self.text.len(), |found| self.at + found + end.len());
        before
    }

    fn tag(&mut self, start: usize) -> Option<Piece<'t>> {
        let body = self.at + 1;
        let end = tag_end(self.rest()).map_or(self.text.len(), |end| self.at + end);
        self.at = (end + 1).min(self.text.len());
        let inside = self.text.get(body..end)?;
        if let Some(name) = inside.strip_prefix('/') {
            return Some(Piece::Close { name: name.trim() });
        }
        let closed = inside.ends_with('/');
        let inside = inside.strip_suffix('/').unwrap_or(inside);
        let name_end = inside.find(|c: char| c.is_ascii_whitespace()).unwrap_or(inside.len());
        let (name, attributes) = inside.split_at_checked(name_end)?;
        let is_raw = ["script", "style"].iter().any(|raw| name.eq_ignore_ascii_case(raw));
        self.is_xml &= !name.eq_ignore_ascii_case("html");
        self.raw = (is_raw && !self.is_xml && !closed && start < self.at).then_some(name);
        Some(Piece::Open { name, attributes: attributes.trim(), closed })
    }
}

impl<'t> Iterator for Pieces<'t> {
    type Item = (usize, Piece<'t>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let start = self.at;
            if let Some(name) = self.raw.take() {
                // The content of scripts and styles is no text for readers.
                while self.skip_past("</") < self.text.len() {
                    let is_end = self.rest().get(..name.len());
                    if is_end.is_some_and(|found| found.eq_ignore_ascii_case(name)) {
                        self.at -= 2;
                        break;
                    }
                }
                continue;
            }
            let rest = self.rest();
            if rest.is_empty() {
                return None;
            }
            if rest.starts_with("<!--") {
                self.skip_past("-->");
            } else if rest.starts_with("<![CDATA[") {
                let end = self.skip_past("]]>");
                return Some((start, Piece::Text(self.text.get(start + 9..end)?)));
            } else if rest.starts_with("<!") || rest.starts_with("<?") {
                self.skip_past(">");
            } else if is_tag(rest) {
                if let Some(piece) = self.tag(start) {
                    return Some((start, piece));
                }
            } else {
                // A lone `<` is text.
                let from = usize::from(rest.starts_with('<'));
                let next = memchr::memchr(b'<', rest.as_bytes().get(from..)?);
                self.at = next.map_or(self.text.len(), |next| start + from + next);
                return Some((start, Piece::Text(self.text.get(start..self.at)?)));
            }
        }
    }
}

/// Returns true if a text begins with an XML declaration.
#[must_use]
pub fn is_xml(text: &str) -> bool {
    let start = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    start.starts_with("<?xml ")
}

/// Returns true if a text begins with a tag.
fn is_tag(text: &str) -> bool {
    let mut bytes = text.bytes().skip(1);
    let is_name = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80;
    text.starts_with('<')
        && match bytes.next() {
            Some(b'/') => bytes.next().is_some_and(is_name),
            first => first.is_some_and(is_name),
        }
}

/// Returns the byte offset of the `>` that ends the tag at the start of a text. Ignores quoted
/// ones. `None` if the tag is incomplete.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (byte, quote) {
            (b'>', None) => return Some(at),
            (b'"' | b'\'', None) => quote = Some(byte),
            (byte, Some(open)) if byte == open => quote = None,
            _ => {}
        }
    }
    // A quote that nothing closes.
    quote.and_then(|_| memchr::memchr(b'>', text.as_bytes()))
}

/// Returns the attributes of a tag, each with its unquoted value. The value is empty for attributes
/// without one.
pub fn attributes(mut text: &str) -> impl Iterator<Item = (&str, &str)> {
    std::iter::from_fn(move || {
        text = text.trim_start();
        let end = text.find(|c: char| c == '=' || c.is_ascii_whitespace()).unwrap_or(text.len());
        let (name, rest) = text.split_at_checked(end)?;
        if name.is_empty() {
            return None;
        }
        let Some(value) = rest.trim_start().strip_prefix('=') else {
            text = rest;
            return Some((name, ""));
        };
        let value = value.trim_start();
        let (value, rest) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let inside = value.get(1..)?;
                inside.split_once(quote).unwrap_or((inside, ""))
            }
            _ => {
                let end = value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len());
                value.split_at_checked(end)?
            }
        };
        text = rest;
        Some((name, value))
    })
}

/// Returns a text with single spaces, and with character references decoded: those of XML and the
/// most frequent ones of HTML.
#[must_use]
pub fn plain_text(text: &str) -> String {
    decode_references(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Decodes the character references of XML and the most frequent ones of HTML. Other references
/// remain. O(n).
#[must_use]
pub fn decode_references(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        match first_reference(after) {
            Some((character, after)) => {
                out.push(character);
                rest = after;
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Decodes the character reference at the start of `text`, the text after its `&`. Returns the
/// character and the rest of the text. `None` if the reference is unknown.
fn first_reference(text: &str) -> Option<(char, &str)> {
    // A search of the whole text for each `&` would take quadratic time.
    let near = text.as_bytes().get(..=MAX_REFERENCE_BYTES).unwrap_or(text.as_bytes());
    let (name, rest) = text.split_at_checked(memchr::memchr(b';', near)?)?;
    Some((character(name)?, rest.strip_prefix(';')?))
}

/// Returns the character of a reference, such as `amp` or `#x27`. `None` if it is unknown.
fn character(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code);
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "mdash" => '—',
        "ndash" => '–',
        "hellip" => '…',
        "rsquo" | "lsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        "copy" => '©',
        "middot" => '·',
        "bull" => '•',
        "times" => '×',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tags_texts_and_sections_are_found() {
        let text = "<?xml version=\"1.0\"?><!-- no <b> --><a x='1>2' y>one &amp; two<br/><![CDATA[<3]]></a>";
        let found: Vec<Piece<'_>> = Pieces::new(text).map(|(_, piece)| piece).collect();
        assert_eq!(
            found,
            [
                Piece::Open { name: "a", attributes: "x='1>2' y", closed: false },
                Piece::Text("one &amp; two"),
                Piece::Open { name: "br", attributes: "", closed: true },
                Piece::Text("<3"),
                Piece::Close { name: "a" },
            ]
        );
        assert_eq!(
            attributes("x='1>2' y z = w").collect::<Vec<_>>(),
            [("x", "1>2"), ("y", ""), ("z", "w")]
        );
    }

    #[test]
    fn scripts_of_xml_have_tags() {
        let names = |text: &str| {
            let pieces = Pieces::new(text).filter_map(|(_, piece)| match piece {
                Piece::Open { name, .. } => Some(name.to_owned()),
                _ => None,
            });
            pieces.collect::<Vec<_>>()
        };
        let scripts = "<script id='a'><elem/></script>";
        assert_eq!(
            names(&format!("<?xml version='1.0'?><run>{scripts}</run>")),
            ["run", "script", "elem"]
        );
        let page = format!("<?xml version='1.0'?><html>{scripts}</html>");
        assert_eq!(names(&page), ["html", "script"]);
        assert_eq!(names(scripts), ["script"]);
    }

    #[test]
    fn scripts_have_no_tags() {
        let text = "<script>if (a < b) { c('</p>') }</SCRIPT><p>x";
        let names: Vec<Piece<'_>> = Pieces::new(text).map(|(_, piece)| piece).skip(1).collect();
        assert_eq!(
            names,
            [
                Piece::Close { name: "SCRIPT" },
                Piece::Open { name: "p", attributes: "", closed: false },
                Piece::Text("x"),
            ]
        );
    }

    #[test]
    fn references_are_decoded() {
        assert_eq!(
            plain_text("a &lt;b&gt;\n  &#39;c&#x27; &unknown; d & e"),
            "a <b> 'c' &unknown; d & e"
        );
    }

    #[test]
    fn ampersands_without_end_are_read_in_linear_time() {
        // A quadratic scan of this text takes about a minute.
        let text = "&".repeat(1_000_000);
        assert_eq!(decode_references(&text), text);
        assert_eq!(decode_references("&#128512;&#1234567;&é;x;"), "😀&#1234567;&é;x;");
    }

    proptest! {
        #[test]
        fn any_text_ends(text in "[<>/a-c\"'=!\\[\\]\\-& ?CDATAscript]{0,200}|\\PC{0,200}") {
            let mut last = 0;
            for (at, piece) in Pieces::new(&text) {
                prop_assert!(at >= last);
                last = at;
                if let Piece::Open { attributes: found, .. } = piece {
                    prop_assert!(attributes(found).count() <= found.len());
                }
            }
            let _ = plain_text(&text);
        }
    }
}
