//! Traversal of values: whole values, the members of objects and the elements of arrays.

use super::open_containers::OpenContainers;
use super::{Kind, Scan, Scanner};
use crate::Span;

impl Scanner<'_> {
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
    /// of the buffer. The scanner must be after the opening bracket or after an element, so that
    /// reading can begin inside a list.
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
}
