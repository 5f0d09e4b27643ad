//! Content blocks of a tool result and contents of a resource.

use crate::json::Span;
use crate::json::locate_lists::DocumentInfo;
use crate::json::scan::{Kind, Scan, Scanner};
use crate::json::text::{Form, boundary, visible};
use crate::shape::content_block::BlockKind;
use crate::text::embedded::{locate_document, locate_records};
use crate::text::line_index::LineIndex;

/// The minimum size, in bytes, of a message whose first text is searched for lists or line ends
/// while the message is parsed. Larger answers are likely to be reduced, which needs those
/// positions.
const MIN_INSPECTED_MESSAGE_BYTES: usize = 16 << 10;

/// A content block of a tool result, or one of the contents of a resource.
#[derive(Clone, Debug, Default)]
pub struct ContentBlock {
    /// The span of the block's JSON object in the message.
    pub span: Span,
    /// The kind of the block, which determines what a model reads of it.
    pub kind: BlockKind,
    /// The span of the text, without its quotes: the block's own `text`, or that of its `resource`.
    /// `None` for links and user interfaces, and for blocks without text. The data of an image or
    /// audio if the client shows it as text.
    pub text: Option<Span>,
    /// The span of the data of an image or audio, without its quotes.
    pub data: Option<Span>,
    /// The positions of lists in the text, relative to its start. `None` if the text is not JSON,
    /// or was not inspected.
    pub survey: Option<DocumentInfo>,
    /// The positions of line ends in the text. `None` if the text is JSON, or was not inspected.
    pub ends: Option<LineIndex>,
}

/// Reads the array of blocks at the scanner's position. `length` is the size of the whole message
/// in bytes.
///
/// # Errors
/// Returns an error if there is no valid array at that position.
pub fn read_blocks(scanner: &mut Scanner<'_>, length: usize) -> Scan<Vec<ContentBlock>> {
    let mut blocks: Vec<ContentBlock> = Vec::new();
    scanner.array(|scanner| {
        scanner.skip_whitespace();
        let start = scanner.position();
        let mut block = ContentBlock::default();
        if scanner.kind()? == Kind::Object {
            let inspect = blocks.is_empty() && length >= MIN_INSPECTED_MESSAGE_BYTES;
            read_members(scanner, inspect, &mut block)?;
        } else {
            scanner.skip_unchecked()?;
        }
        if block.kind != BlockKind::Plain {
            (block.text, block.survey, block.ends) = (None, None, None);
        }
        block.span = start..scanner.position();
        blocks.push(block);
        Ok(())
    })?;
    Ok(blocks)
}

impl ContentBlock {
    /// Reads the block's text. If `inspect` is true, also locates the lists or line ends in the
    /// text.
    fn read_text(&mut self, scanner: &mut Scanner<'_>, inspect: bool) -> Scan<()> {
        (self.survey, self.ends) = (None, None);
        if !inspect {
            self.text = Some(scanner.string()?);
            return Ok(());
        }
        let json = begins_as_json(scanner.after_quote());
        self.text = match json.then(|| scanner.embedded_document(DocumentInfo::read)).flatten() {
            Some((text, survey)) => {
                self.survey = Some(survey.relative_to(text.start));
                Some(text)
            }
            None => {
                let (text, ends) = scanner.string_with(LineIndex::build_to_quote)?;
                self.ends = Some(ends);
                Some(text)
            }
        };
        Ok(())
    }
}

/// Reads the members of a block, or of the `resource` object in it, into `block`. `inspect` is as
/// for [`ContentBlock::read_text`].
fn read_members(scanner: &mut Scanner<'_>, inspect: bool, block: &mut ContentBlock) -> Scan<()> {
    scanner.object(|scanner, key| {
        let kind = scanner.kind()?;
        if kind == Kind::String && scanner.is_key(&key, "text") {
            block.read_text(scanner, inspect)?;
        } else if kind == Kind::String && scanner.is_key(&key, "data") {
            block.data = Some(scanner.string()?);
        } else if kind == Kind::Object && scanner.is_key(&key, "resource") {
            read_members(scanner, inspect, block)?;
        } else {
            block.kind.read_member(scanner, &key)?;
        }
        Ok(())
    })
}

/// Returns true if a JSON-escaped text begins with `{` or `[`, so that the text itself may be JSON.
/// O(1).
#[must_use]
pub fn begins_as_json(escaped: &[u8]) -> bool {
    let head = visible(
        escaped.get(..boundary(escaped, 64, Form::Escaped)).unwrap_or(escaped),
        Form::Escaped,
    );
    matches!(head.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Returns the positions of lists in a JSON-escaped text. `None` if neither the text nor most of it
/// is JSON or JSON Lines.
#[must_use]
pub fn locate_json_lists(escaped: &[u8]) -> Option<DocumentInfo> {
    let whole = begins_as_json(escaped).then(|| DocumentInfo::parse(escaped, Form::Escaped));
    whole
        .flatten()
        .or_else(|| locate_document(escaped, Form::Escaped))
        .or_else(|| locate_records(escaped, Form::Escaped))
}
