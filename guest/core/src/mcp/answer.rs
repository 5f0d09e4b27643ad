//! Locates the payloads in an upstream's responses.

use super::block::{self, ContentBlock};
use crate::json::Span;
use crate::json::locate_lists::DocumentInfo;
use crate::json::scan::{Kind, Scan, ScanError, Scanner};
use crate::json::text::Form;
use crate::shape::content_block::BlockKind;

/// The parts of an upstream's response that the guard may change. The response has a tool result or
/// the contents of a resource.
#[derive(Debug, Default)]
pub struct Answer {
    /// The span of the `result` object. `None` in an error response or any other message.
    pub result: Option<Span>,
    /// The span of the array `content` of a tool result, or of the array `contents` of a resource.
    /// `None` if it is absent.
    pub content: Option<Span>,
    /// The blocks in the array at `content`.
    pub blocks: Vec<ContentBlock>,
    /// True if `content` is the array `contents` of a resource.
    pub resource: bool,
    /// The positions of lists in `structuredContent`. `None` if the result has no structured
    /// content.
    pub structured: Option<DocumentInfo>,
    /// True if the result has `isError: true`.
    pub is_error: bool,
    /// The span of the result's `_meta` object, if it has one.
    pub meta: Option<Span>,
    /// The span of the value of `ttlMs`, the time in milliseconds for which clients may cache the
    /// result. `None` if it is absent.
    pub ttl: Option<Span>,
    /// True if `resultType` is `complete` or absent. Results of other types, such as
    /// `input_required`, are not shaped.
    pub complete: bool,
}

impl Answer {
    /// Parses an upstream's response in one pass.
    ///
    /// # Errors
    /// Returns an error if the brackets or separators of the message are invalid. Also if it has
    /// the result, its content or its structured content twice. Clients differ in which of the two
    /// they use.
    pub fn read(message: &[u8]) -> Scan<Self> {
        let mut answer = Self { complete: true, ..Self::default() };
        let mut scanner = Scanner::new(message, Form::Raw);
        if scanner.kind()? != Kind::Object {
            scanner.skip_unchecked()?;
            scanner.end()?;
            return Ok(answer);
        }
        scanner.object(|scanner, key| {
            if scanner.is_key(&key, "result") && scanner.kind()? == Kind::Object {
                once(answer.result.is_none(), scanner)?;
                scanner.skip_whitespace();
                let start = scanner.position();
                answer.members(scanner, message.len())?;
                answer.result = Some(start..scanner.position());
            } else {
                scanner.skip_unchecked()?;
            }
            Ok(())
        })?;
        scanner.end()?;
        Ok(answer)
    }

    /// Makes the data of images and audio the texts of their blocks, for a client that shows them
    /// so.
    #[must_use]
    pub fn with_data_as_text(mut self) -> Self {
        for block in self.blocks.iter_mut().filter(|block| block.kind == BlockKind::Data) {
            block.text = block.data.take();
        }
        self
    }

    fn members(&mut self, scanner: &mut Scanner<'_>, length: usize) -> Scan<()> {
        scanner.object(|scanner, key| {
            let kind = scanner.kind()?;
            let is = |name| scanner.is_key(&key, name);
            if kind == Kind::Array && (is("content") || is("contents")) {
                once(self.content.is_none(), scanner)?;
                self.resource = is("contents");
                let start = scanner.position();
                self.blocks = block::read_blocks(scanner, length)?;
                self.content = Some(start..scanner.position());
            } else if is("structuredContent") {
                once(self.structured.is_none(), scanner)?;
                self.structured = Some(DocumentInfo::read(scanner)?);
            } else if is("isError") {
                let value = scanner.skip_unchecked()?;
                self.is_error = scanner.bytes(&value) == b"true";
            } else if kind == Kind::Object && is("_meta") {
                self.meta = Some(scanner.skip_unchecked()?);
            } else if is("ttlMs") {
                self.ttl = Some(scanner.skip_unchecked()?);
            } else if kind == Kind::String && is("resultType") {
                let value = scanner.string()?;
                self.complete = scanner.is_key(&value, "complete");
            } else {
                scanner.skip_unchecked()?;
            }
            Ok(())
        })
    }
}

/// Returns a syntax error if `first` is false: the object then has the member at the scanner's
/// position twice.
fn once(first: bool, scanner: &Scanner<'_>) -> Scan<()> {
    if first { Ok(()) } else { Err(ScanError::Syntax(scanner.position())) }
}
