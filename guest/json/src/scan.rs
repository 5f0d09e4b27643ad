//! The span scanner: a validating pull parser that returns spans of the original buffer.
//!
//! The scanner also reads JSON that is escaped inside a JSON string, where a quote is `\"` and a
//! line break is `\n`. It skips strings without decoding them.

mod open_containers;
mod scalar;
mod skip_unchecked;
mod string;

use thiserror::Error;

use open_containers::OpenContainers;

use super::Span;
use super::text::{self, Form};
use crate::blocks;

/// The maximum depth of nested objects and arrays; deeper documents are rejected.
pub const MAX_DEPTH: usize = 10_000;

/// An error of the scanner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ScanError {
    /// A syntax error at this byte offset of the buffer.
    #[error("not JSON at byte {0}")]
    Syntax(usize),
    /// Nesting deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// The kind of a value, determined by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An object, `{}`.
    Object,
    /// An array, `[]`.
    Array,
    /// A string, `""`.
    String,
    /// A number, `true`, `false` or `null`. `NaN`, `Infinity` and `-Infinity` are numbers.
    Scalar,
}

/// A reader at a position in a JSON document. Most methods read the next value and advance past it.
#[derive(Clone)]
pub struct Scanner<'a> {
    bytes: &'a [u8],
    form: Form,
    at: usize,
}

/// The result of a method of [`Scanner`].
pub type Scan<T> = Result<T, ScanError>;

impl<'a> Scanner<'a> {
    /// Creates a scanner at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8], form: Form) -> Self {
        Self::starting_at(bytes, form, 0)
    }

    /// Creates a scanner at a value or separator inside `bytes`.
    #[must_use]
    pub fn starting_at(bytes: &'a [u8], form: Form, at: usize) -> Self {
        Self { bytes, form, at }
    }

    /// Returns the offset in the buffer of the next byte to read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the next decoded byte and the number of bytes that it has in the buffer, or `(0, 0)`
    /// at the end.
    #[inline]
    fn peek(&self) -> (u8, usize) {
        match self.bytes.get(self.at) {
            Some(b'\\') if self.form == Form::Escaped => {
                match text::simple(self.bytes.get(self.at + 1)) {
                    // Not white space or punctuation of JSON: no such byte may occur between
                    // values.
                    0 | 8 | 12 => (0, 1),
                    byte => (byte, 2),
                }
            }
            Some(byte) => (*byte, 1),
            None => (0, 0),
        }
    }

    fn error<T>(&self) -> Scan<T> {
        Err(ScanError::Syntax(self.at))
    }

    /// Skips white space.
    #[inline]
    pub fn skip_whitespace(&mut self) {
        // Compact JSON has none, so this check decides nearly always.
        if matches!(self.bytes.get(self.at), Some(byte) if *byte > b' ' && *byte != b'\\') {
            return;
        }
        while let (b' ' | b'\n' | b'\t' | b'\r', length) = self.peek() {
            self.at += length;
        }
    }

    /// Skips white space, and returns the kind of the next value.
    ///
    /// # Errors
    /// Fails if no value follows.
    #[inline]
    pub fn kind(&mut self) -> Scan<Kind> {
        match self.kind_here().or_else(|| self.kind_after_space()) {
            Some(kind) => Ok(kind),
            None => self.error(),
        }
    }

    #[inline(never)]
    fn kind_after_space(&mut self) -> Option<Kind> {
        self.skip_whitespace();
        self.kind_here()
    }

    /// Returns the kind of the value at the current position, or `None` if no value begins there.
    #[inline]
    fn kind_here(&self) -> Option<Kind> {
        match *self.bytes.get(self.at)? {
            b'\\' if self.form == Form::Escaped => self.is_quote().then_some(Kind::String),
            byte => *KINDS.get(usize::from(byte))?,
        }
    }

    /// Skips white space and the byte `byte`. Returns false if another byte follows. `byte` must be
    /// written alike in raw and escaped JSON.
    #[inline]
    fn consume(&mut self, byte: u8) -> bool {
        if self.bytes.get(self.at) != Some(&byte) {
            self.skip_whitespace();
            if self.bytes.get(self.at) != Some(&byte) {
                return false;
            }
        }
        self.at += 1;
        true
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Scan<()> {
        if self.consume(byte) { Ok(()) } else { self.error() }
    }

    /// Skips a value and returns its span. Validates the whole value; [`Scanner::skip_unchecked`]
    /// is faster.
    ///
    /// # Errors
    /// Fails if no valid value follows.
    pub fn skip_value(&mut self) -> Scan<Span> {
        let kind = self.kind()?;
        let start = self.at;
        match kind {
            Kind::Object | Kind::Array => self.container()?,
            Kind::String => self.string().map(drop)?,
            Kind::Scalar => self.scalar().map(drop)?,
        }
        Ok(start..self.at)
    }

    /// Skips and validates an object or array. Uses an explicit stack instead of recursion, so that
    /// deep nesting cannot exhaust the call stack.
    fn container(&mut self) -> Scan<()> {
        let mut open = OpenContainers::default();
        loop {
            // A value begins here.
            match self.kind()? {
                kind @ (Kind::Object | Kind::Array) => {
                    let object = kind == Kind::Object;
                    self.consume(if object { b'{' } else { b'[' });
                    if !self.consume(if object { b'}' } else { b']' }) {
                        open.push(object)?;
                        if object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                Kind::String => self.string().map(drop)?,
                Kind::Scalar => self.scalar().map(drop)?,
            }
            // A value ended here, and maybe the containers around it.
            loop {
                let Some(object) = open.last() else { return Ok(()) };
                if self.consume(b',') {
                    if object {
                        self.key()?;
                    }
                    break;
                }
                self.expect(if object { b'}' } else { b']' })?;
                open.pop();
            }
        }
    }

    /// Skips a key and its colon, and returns the key's span without quotes.
    ///
    /// # Errors
    /// Fails if no key follows.
    #[inline]
    pub fn key(&mut self) -> Scan<Span> {
        self.skip_whitespace();
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    /// Skips an object. Calls `member` with the span of each key, without quotes. `member` must
    /// skip the value.
    ///
    /// # Errors
    /// Fails if no object follows or `member` fails.
    pub fn object(&mut self, mut member: impl FnMut(&mut Self, Span) -> Scan<()>) -> Scan<()> {
        self.members(|scanner| {
            let key = scanner.key()?;
            member(scanner, key)
        })
    }

    /// Skips an object. Calls `member` at the start of each member. `member` must skip the key and
    /// the value.
    ///
    /// # Errors
    /// Fails if no object follows or `member` fails.
    #[inline]
    pub fn members(&mut self, mut member: impl FnMut(&mut Self) -> Scan<()>) -> Scan<()> {
        self.expect(b'{')?;
        if !self.consume(b'}') {
            loop {
                member(self)?;
                if self.consume(b'}') {
                    break;
                }
                self.expect(b',')?;
            }
        }
        Ok(())
    }

    /// Skips an array. Calls `element` at the start of each element. `element` must skip the
    /// element.
    ///
    /// # Errors
    /// Fails if no array follows or `element` fails.
    pub fn array(&mut self, mut element: impl FnMut(&mut Self) -> Scan<()>) -> Scan<()> {
        self.expect(b'[')?;
        if !self.consume(b']') {
            loop {
                element(self)?;
                if self.consume(b']') {
                    break;
                }
                self.expect(b',')?;
            }
        }
        Ok(())
    }

    /// Skips the next element of an array, and returns its span. `None` at the end of the array or
    /// of the buffer. The scanner must be after the opening bracket or an element, so that reading
    /// can begin inside a list.
    ///
    /// # Errors
    /// Fails if the element is incomplete.
    pub fn next_element(&mut self) -> Scan<Option<Span>> {
        self.consume(b',');
        self.skip_whitespace();
        match self.peek() {
            (b']', _) | (_, 0) => Ok(None),
            _ => self.skip_unchecked().map(Some),
        }
    }

    /// Checks that nothing but white space follows in the buffer.
    ///
    /// # Errors
    /// Fails if anything else follows.
    pub fn end(&mut self) -> Scan<()> {
        self.skip_whitespace();
        if self.at == self.bytes.len() { Ok(()) } else { self.error() }
    }

    /// Skips white space, and returns the next decoded byte, or 0 at the end.
    #[inline]
    pub(super) fn next_byte(&mut self) -> u8 {
        self.skip_whitespace();
        self.peek().0
    }

    /// Skips `bytes` if the buffer continues with exactly these. Returns false otherwise.
    #[inline]
    pub fn consume_bytes(&mut self, bytes: &[u8]) -> bool {
        let here = self.bytes.get(self.at..self.at + bytes.len());
        let meets = here.is_some_and(|here| blocks::equal_bytes(here, bytes));
        self.at += if meets { bytes.len() } else { 0 };
        meets
    }

    /// Advances to the offset `at`, which must be the end of a value. Does nothing if `at` is
    /// before the current position.
    pub fn advance_to(&mut self, at: usize) {
        self.at = at.max(self.at);
    }

    /// Skips one decoded byte, which may be an escape of several bytes in the buffer.
    #[inline]
    pub(super) fn step(&mut self) {
        self.at += self.peek().1;
    }

    /// Returns the content of the string at `span` as raw JSON: without quotes, but with its
    /// escapes.
    pub(super) fn inner(&self, span: &Span) -> std::borrow::Cow<'a, [u8]> {
        text::visible(self.bytes(span), self.form)
    }

    /// Returns the bytes of the buffer at `span`, or an empty slice if it is out of bounds.
    #[must_use]
    pub fn bytes(&self, span: &Span) -> &'a [u8] {
        self.bytes.get(span.clone()).unwrap_or_default()
    }

    /// Returns true if the key at `span` decodes to `name`.
    #[inline(always)]
    #[must_use]
    pub fn is_key(&self, span: &Span, name: &str) -> bool {
        if text::is_plain(self.bytes, span) {
            blocks::equal_bytes(self.bytes(span), name.as_bytes())
        } else {
            self.is_escaped_key(span, name)
        }
    }

    #[inline(never)]
    fn is_escaped_key(&self, span: &Span, name: &str) -> bool {
        *text::string(self.bytes(span), self.form) == *name.as_bytes()
    }

    /// Decodes the string at `span`, which excludes the quotes; invalid UTF-8 becomes U+FFFD.
    #[must_use]
    pub fn decode(&self, span: &Span) -> String {
        String::from_utf8_lossy(&text::string(self.bytes(span), self.form)).into_owned()
    }
}

/// For each byte, the kind of value that begins with it, or `None` if no value does.
static KINDS: [Option<Kind>; 256] = {
    let mut kinds = [None; 256];
    let mut byte = 0;
    #[allow(clippy::indexing_slicing, reason = "evaluated at compile time, bounded by the loop")]
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'{' => Some(Kind::Object),
            b'[' => Some(Kind::Array),
            b'"' => Some(Kind::String),
            // `NaN` and `Infinity` are accepted as numbers.
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' | b'N' | b'I' => Some(Kind::Scalar),
            _ => None,
        };
        byte += 1;
    }
    kinds
};

/// Returns true if `bytes` is one valid JSON value.
#[must_use]
pub fn is_json(bytes: &[u8], form: Form) -> bool {
    let mut scanner = Scanner::new(bytes, form);
    scanner.skip_value().and_then(|_| scanner.end()).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::locate_lists::DocumentInfo;

    fn serialized(value: &serde_json::Value, pretty: bool) -> String {
        if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }
            .unwrap()
    }

    fn escape(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        text::escape(&mut out, text.as_bytes());
        out
    }

    #[test]
    fn syntax_errors_match_serde_json() {
        let cases = [
            "",
            " ",
            "{}",
            "[]",
            "[1,2]",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\"}",
            "{a:1}",
            "[1 2]",
            "01",
            "-",
            "1.",
            "1.5e",
            "1.5e-3",
            "nul",
            "true",
            "\"x",
            "\"\\\"\"",
            "[[[[]]]]",
            "{\"a\":{\"b\":[{}]}}",
            "[}",
            "1 1",
            "\"a\"b",
        ];
        for case in cases {
            let expected = serde_json::from_str::<serde_json::Value>(case).is_ok();
            assert_eq!(is_json(case.as_bytes(), Form::Raw), expected, "{case}");
            assert_eq!(is_json(&escape(case), Form::Escaped), expected, "escaped {case}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "[".repeat(100_000);
        assert_eq!(Scanner::new(deep.as_bytes(), Form::Raw).skip_value(), Err(ScanError::TooDeep));
    }

    #[test]
    fn mixed_nesting_is_tracked() {
        for levels in [1, 63, 64, 65, 127, 128, 129, 500] {
            let object = |level: usize| level.is_multiple_of(3);
            let open: String =
                (0..levels).map(|level| if object(level) { "{\"k\":" } else { "[1," }).collect();
            let close: String =
                (0..levels).rev().map(|level| if object(level) { '}' } else { ']' }).collect();
            let document = format!("{open}null{close}");
            assert!(is_json(document.as_bytes(), Form::Raw), "{levels} levels");
            let wrong = document.replacen("null]", "null}", 1).replacen("null}}", "null]}", 1);
            assert!(
                wrong == document || !is_json(wrong.as_bytes(), Form::Raw),
                "{levels} levels, one wrong"
            );
        }
    }

    #[test]
    fn quotes_as_unicode_escapes_are_rejected() {
        assert!(!is_json(br"\u0022x\u0022", Form::Escaped));
        assert!(is_json(br#"\"caf\u00e9\""#, Form::Escaped));
        assert!(is_json(br#"\"\\u0022 \\\" \\\\\""#, Form::Escaped));
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<i32>().prop_map(|number| (f64::from(number) / 4.0).into()),
            "\\PC{0,8}|[\"\\\\\n\t/\u{1}\\[}]{0,9}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::vec(("\\PC{0,5}", inner), 0..6)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_document_is_passed_in_both_forms(value in json(), pretty: bool) {
            let text = serialized(&value, pretty);
            prop_assert!(is_json(text.as_bytes(), Form::Raw));
            prop_assert!(is_json(&escape(&text), Form::Escaped));
        }

        #[test]
        fn elements_are_those_of_serde_json(values in prop::collection::vec(json(), 0..8)) {
            let text = escape(&serde_json::to_string(&values).unwrap());
            let mut spans = Vec::new();
            let mut scanner = Scanner::new(&text, Form::Escaped);
            scanner.array(|scanner| { spans.push(scanner.skip_value()?); Ok(()) }).unwrap();
            let read: Vec<serde_json::Value> = spans
                .iter()
                .map(|span| text::visible(&text[span.clone()], Form::Escaped))
                .map(|element| serde_json::from_slice(&element).unwrap())
                .collect();
            prop_assert_eq!(read, values);
        }

        #[test]
        fn skipping_unchecked_ends_at_the_same_byte(
            value in json(), pretty: bool, more in "[\\[\\]{}\",\\\\ ]{0,6}"
        ) {
            let text = serialized(&value, pretty);
            // A quote as a unicode escape does not end the string.
            let text = format!("[{text},\"\\u0022 [\"]");
            let whole = text.clone() + &more;
            let escaped = escape(&whole);
            for (bytes, form) in [(whole.into_bytes(), Form::Raw), (escaped, Form::Escaped)] {
                let read = Scanner::new(&bytes, form).skip_value();
                prop_assert!(read.is_ok());
                prop_assert_eq!(Scanner::new(&bytes, form).skip_unchecked(), read);
            }
        }

        #[test]
        fn embedded_document_ends_with_its_string(
            value in json(),
            cut in 0usize..200,
            whole: bool,
            more in "[\\[\\]{}\",\\\\n ]{0,4}",
            after in "[\\[\\]{}\",\\\\n ]{0,70}"
        ) {
            // A whole or truncated document, followed by bytes that could be mistaken for its
            // continuation.
            let mut text = serde_json::to_string(&value).unwrap();
            if !whole {
                text = text.chars().take(cut).collect();
            }
            let text = text + &more;
            let message = [b"\"".as_slice(), &escape(&text), b"\"", after.as_bytes()].concat();
            let mut scanner = Scanner::new(&message, Form::Raw);
            let end = scanner.clone().string().unwrap();
            let alone = DocumentInfo::parse(&message[end.clone()], Form::Escaped);
            let found = scanner.embedded_document(DocumentInfo::read);
            prop_assert_eq!(found.is_some(), alone.is_some());
            if let (Some((span, found)), Some(alone)) = (found, alone) {
                prop_assert_eq!(&span, &end);
                prop_assert_eq!(scanner.position(), end.end + 1);
                let found = found.relative_to(span.start);
                prop_assert_eq!(format!("{found:?}"), format!("{alone:?}"));
            }
        }

        #[test]
        fn any_bytes_end_without_a_panic(bytes: Vec<u8>) {
            for form in [Form::Raw, Form::Escaped] {
                let _ = is_json(&bytes, form);
                let _ = Scanner::new(&bytes, form).skip_unchecked();
                let _ = text::visible(&bytes, form);
            }
        }
    }
}
