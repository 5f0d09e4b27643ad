//! The span scanner: a pull parser over the original buffer, strict about structure, that copies nothing.
//!
//! The same code reads JSON that stands escaped inside a JSON string, where a quote is `\"` and a line break `\n`: nothing is unescaped
//! to be skipped. Strings are not looked into beyond finding their end.

mod open_containers;
mod scalar;
mod skip_unchecked;
mod string;

use thiserror::Error;

use open_containers::OpenContainers;

use super::Span;
use super::text::{self, Form};
use crate::blocks;

/// Levels of nesting that are followed.
pub const MAX_DEPTH: usize = 10_000;

/// Why a scan stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ScanError {
    /// Not JSON.
    #[error("not JSON at byte {0}")]
    Syntax(usize),
    /// Nested beyond [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// The kind of a value, from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{}`
    Object,
    /// `[]`
    Array,
    /// `""`
    String,
    /// A number, `true`, `false` or `null`.
    Scalar,
}

/// A cursor into a JSON document.
#[derive(Clone)]
pub struct Scanner<'a> {
    bytes: &'a [u8],
    form: Form,
    at: usize,
}

/// The result of a step of a scan.
pub type Scan<T> = Result<T, ScanError>;

impl<'a> Scanner<'a> {
    /// A scanner at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8], form: Form) -> Self {
        Self::starting_at(bytes, form, 0)
    }

    /// A scanner in the middle of `bytes`, at a place where a value or separator stands.
    #[must_use]
    pub fn starting_at(bytes: &'a [u8], form: Form, at: usize) -> Self {
        Self { bytes, form, at }
    }

    /// Where the scanner stands.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next byte of the document, decoded, and its length in the buffer; `(0, 0)` at the end.
    #[inline]
    fn peek(&self) -> (u8, usize) {
        match self.bytes.get(self.at) {
            Some(b'\\') if self.form == Form::Escaped => {
                match text::simple(self.bytes.get(self.at + 1)) {
                    // What is no white space and no mark of JSON has no place between values.
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

    /// Passes white space.
    #[inline]
    pub fn skip_whitespace(&mut self) {
        // Most of the time there is none.
        if matches!(self.bytes.get(self.at), Some(byte) if *byte > b' ' && *byte != b'\\') {
            return;
        }
        while let (b' ' | b'\n' | b'\t' | b'\r', length) = self.peek() {
            self.at += length;
        }
    }

    /// The kind of the value that comes next.
    ///
    /// # Errors
    /// Where no value comes.
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

    /// The kind of the value that begins right here; none where none does.
    #[inline]
    fn kind_here(&self) -> Option<Kind> {
        match *self.bytes.get(self.at)? {
            b'\\' if self.form == Form::Escaped => self.is_quote().then_some(Kind::String),
            byte => *KINDS.get(usize::from(byte))?,
        }
    }

    /// Passes `byte`, if it comes next: one of those that stand for themselves in either form.
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

    /// Reads one value to its end and gives its span: every bracket, separator and number of it. Where that does not matter, [`Scanner::skip_unchecked`] is faster.
    ///
    /// # Errors
    /// Where none, or a broken one, comes.
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

    /// Passes an object or array, however deep, without recursion: a message cannot exhaust the stack.
    fn container(&mut self) -> Scan<()> {
        let mut open = OpenContainers::default();
        loop {
            // A value begins.
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
            // A value has ended, and perhaps what it stands in.
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

    /// Passes a key and its colon: the span of the key, without quotes.
    ///
    /// # Errors
    /// Where none comes.
    #[inline]
    pub fn key(&mut self) -> Scan<Span> {
        self.skip_whitespace();
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    /// Passes an object. `member` gets the span of each key, without quotes, and must pass the value.
    ///
    /// # Errors
    /// Where no object comes, or what `member` says.
    pub fn object(&mut self, mut member: impl FnMut(&mut Self, Span) -> Scan<()>) -> Scan<()> {
        self.members(|scanner| {
            let key = scanner.key()?;
            member(scanner, key)
        })
    }

    /// Passes an object. `member` must pass each member, from its key on.
    ///
    /// # Errors
    /// Where no object comes, or what `member` says.
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

    /// Passes an array. `element` must pass each element.
    ///
    /// # Errors
    /// Where no array comes, or what `element` says.
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

    /// Passes one element of an array whose opening bracket was passed before; none at the end of the buffer's elements.
    /// For reading on in the middle of a list.
    ///
    /// # Errors
    /// Where the element is broken off.
    pub fn next_element(&mut self) -> Scan<Option<Span>> {
        self.consume(b',');
        self.skip_whitespace();
        match self.peek() {
            (b']', _) | (_, 0) => Ok(None),
            _ => self.skip_unchecked().map(Some),
        }
    }

    /// Makes sure that nothing but white space follows.
    ///
    /// # Errors
    /// Where something does.
    pub fn end(&mut self) -> Scan<()> {
        self.skip_whitespace();
        if self.at == self.bytes.len() { Ok(()) } else { self.error() }
    }

    /// The next byte that is no white space, decoded; 0 at the end.
    #[inline]
    pub(super) fn next_byte(&mut self) -> u8 {
        self.skip_whitespace();
        self.peek().0
    }

    /// Passes these bytes, if they stand right here.
    #[inline]
    pub fn consume_bytes(&mut self, bytes: &[u8]) -> bool {
        let here = self.bytes.get(self.at..self.at + bytes.len());
        let meets = here.is_some_and(|here| blocks::equal_bytes(here, bytes));
        self.at += if meets { bytes.len() } else { 0 };
        meets
    }

    /// Moves on to `at`, which is known to be the end of the value that comes next.
    pub fn advance_to(&mut self, at: usize) {
        self.at = at.max(self.at);
    }

    /// Passes one byte, whatever it is.
    #[inline]
    pub(super) fn step(&mut self) {
        self.at += self.peek().1;
    }

    /// What stands between the quotes of a string, as it stands in JSON that is not escaped.
    pub(super) fn inner(&self, span: &Span) -> std::borrow::Cow<'a, [u8]> {
        text::visible(self.bytes(span), self.form)
    }

    /// The bytes of a span.
    #[must_use]
    pub fn bytes(&self, span: &Span) -> &'a [u8] {
        self.bytes.get(span.clone()).unwrap_or_default()
    }

    /// Whether the key at `span` is `name`, however it is spelt.
    #[inline(always)]
    #[must_use]
    pub fn is_key(&self, span: &Span, name: &str) -> bool {
        if text::is_plain(self.bytes, span) {
            blocks::equal_bytes(self.bytes(span), name.as_bytes())
        } else {
            self.is_spelt(span, name)
        }
    }

    #[inline(never)]
    fn is_spelt(&self, span: &Span, name: &str) -> bool {
        *text::string(self.bytes(span), self.form) == *name.as_bytes()
    }

    /// The string at `span` (without quotes), decoded.
    #[must_use]
    pub fn decode(&self, span: &Span) -> String {
        String::from_utf8_lossy(&text::string(self.bytes(span), self.form)).into_owned()
    }
}

/// What each byte begins: no value, where it has none.
static KINDS: [Option<Kind>; 256] = {
    let mut kinds = [None; 256];
    let mut byte = 0;
    #[allow(clippy::indexing_slicing, reason = "evaluated at compile time, bounded by the loop")]
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'{' => Some(Kind::Object),
            b'[' => Some(Kind::Array),
            b'"' => Some(Kind::String),
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => Some(Kind::Scalar),
            _ => None,
        };
        byte += 1;
    }
    kinds
};

/// Whether all of `bytes` is one JSON value.
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

    fn escape(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        text::escape(&mut out, text.as_bytes());
        out
    }

    #[test]
    fn structure_is_judged_as_serde_json_does() {
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
    fn every_level_is_remembered() {
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
    fn quotes_spelt_in_digits_are_left_alone() {
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
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
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
                .map(|span| serde_json::from_slice(&text::visible(&text[span.clone()], Form::Escaped)).unwrap())
                .collect();
            prop_assert_eq!(read, values);
        }

        #[test]
        fn passing_ends_where_reading_does(value in json(), pretty: bool, more in "[\\[\\]{}\",\\\\ ]{0,6}") {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            // A quote in digits inside a string: it ends none.
            let text = format!("[{text},\"\\u0022 [\"]");
            for (bytes, form) in [((text.clone() + &more).into_bytes(), Form::Raw), (escape(&(text.clone() + &more)), Form::Escaped)] {
                let read = Scanner::new(&bytes, form).skip_value();
                prop_assert!(read.is_ok());
                prop_assert_eq!(Scanner::new(&bytes, form).skip_unchecked(), read);
            }
        }

        #[test]
        fn a_document_in_a_string_ends_where_the_string_does(
            value in json(), cut in 0usize..200, whole: bool, more in "[\\[\\]{}\",\\\\n ]{0,4}", after in "[\\[\\]{}\",\\\\n ]{0,70}"
        ) {
            // A document, or one that is broken off, and after its string anything that it might be taken to go on with.
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
                prop_assert_eq!(format!("{:?}", found.relative_to(span.start)), format!("{alone:?}"));
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
