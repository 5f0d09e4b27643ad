//! Answers: where their payloads sit.

use super::block::{self, ContentBlock};
use crate::json::Span;
use crate::json::scan::{Kind, Scan, ScanError, Scanner};
use crate::json::survey::Survey;
use crate::json::text::Form;

/// The result of a tool call or of a resource, as far as the guard looks into it.
#[derive(Debug, Default)]
pub struct Answer {
    /// The `result` object; none in an error, or in anything else.
    pub result: Option<Span>,
    /// `content`, or the `contents` of a resource.
    pub content: Option<Span>,
    /// Their blocks.
    pub blocks: Vec<ContentBlock>,
    /// Whether they are the contents of a resource.
    pub resource: bool,
    /// `structuredContent`.
    pub structured: Option<Survey>,
    /// `isError`.
    pub is_error: bool,
    /// `_meta` of the result.
    pub meta: Option<Span>,
    /// The value of `ttlMs`.
    pub ttl: Option<Span>,
    /// Whether the result is of a type that is shaped: `complete`, or without one.
    pub complete: bool,
}

impl Answer {
    /// Reads an answer in one pass.
    ///
    /// # Errors
    /// Where it is not JSON, or has a member twice that the guard would have to change: clients differ in which they take.
    pub fn read(message: &[u8]) -> Scan<Self> {
        let mut answer = Self { complete: true, ..Self::default() };
        let mut scanner = Scanner::new(message, Form::Raw);
        if scanner.kind()? != Kind::Object {
            scanner.pass()?;
            scanner.end()?;
            return Ok(answer);
        }
        scanner.object(|scanner, key| {
            if scanner.is(&key, "result") && scanner.kind()? == Kind::Object {
                once(answer.result.is_none(), scanner)?;
                scanner.space();
                let start = scanner.position();
                answer.members(scanner, message.len())?;
                answer.result = Some(start..scanner.position());
            } else {
                scanner.pass()?;
            }
            Ok(())
        })?;
        scanner.end()?;
        Ok(answer)
    }

    fn members(&mut self, scanner: &mut Scanner<'_>, length: usize) -> Scan<()> {
        scanner.object(|scanner, key| {
            let kind = scanner.kind()?;
            let is = |name| scanner.is(&key, name);
            if kind == Kind::Array && (is("content") || is("contents")) {
                once(self.content.is_none(), scanner)?;
                self.resource = is("contents");
                let start = scanner.position();
                self.blocks = block::read_blocks(scanner, length)?;
                self.content = Some(start..scanner.position());
            } else if is("structuredContent") {
                once(self.structured.is_none(), scanner)?;
                self.structured = Some(Survey::read(scanner)?);
            } else if is("isError") {
                let value = scanner.pass()?;
                self.is_error = scanner.bytes(&value) == b"true";
            } else if kind == Kind::Object && is("_meta") {
                self.meta = Some(scanner.pass()?);
            } else if is("ttlMs") {
                self.ttl = Some(scanner.pass()?);
            } else if kind == Kind::String && is("resultType") {
                let value = scanner.string()?;
                self.complete = scanner.is(&value, "complete");
            } else {
                scanner.pass()?;
            }
            Ok(())
        })
    }
}

fn once(first: bool, scanner: &Scanner<'_>) -> Scan<()> {
    if first { Ok(()) } else { Err(ScanError::Syntax(scanner.position())) }
}
