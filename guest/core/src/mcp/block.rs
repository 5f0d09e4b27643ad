//! Content blocks of a tool result, and contents of a resource.

use crate::json::Span;
use crate::json::scan::{Kind, Scan, Scanner};
use crate::json::survey::Survey;
use crate::json::text::{Form, boundary, visible};
use crate::text::ends::Ends;

/// Bytes from which on a message is likely to be cut: of its first text it is found out at once what it holds.
const MIN_INSPECTED_MESSAGE_BYTES: usize = 16 << 10;

/// A content block, or one of the contents of a resource.
#[derive(Clone, Debug, Default)]
pub struct ContentBlock {
    /// The object.
    pub span: Span,
    /// What stands between the quotes of its text, if it has one: its own, or that of the resource in it.
    pub text: Option<Span>,
    /// What that holds, counted from its beginning, where it is JSON and was looked into.
    pub survey: Option<Survey>,
    /// Where its lines end, where it was looked into and is no JSON.
    pub ends: Option<Ends>,
}

/// Passes an array of blocks. `length`: bytes of the message.
///
/// # Errors
/// Where there is none.
pub fn read_blocks(scanner: &mut Scanner<'_>, length: usize) -> Scan<Vec<ContentBlock>> {
    let mut blocks: Vec<ContentBlock> = Vec::new();
    scanner.array(|scanner| {
        scanner.space();
        let start = scanner.position();
        let mut block = ContentBlock::default();
        if scanner.kind()? == Kind::Object {
            text(scanner, blocks.is_empty() && length >= MIN_INSPECTED_MESSAGE_BYTES, &mut block)?;
        } else {
            scanner.pass()?;
        }
        block.span = start..scanner.position();
        blocks.push(block);
        Ok(())
    })?;
    Ok(blocks)
}

impl ContentBlock {
    /// Passes its text. `look`: whether to find out at once what that holds.
    fn pass_text(&mut self, scanner: &mut Scanner<'_>, look: bool) -> Scan<()> {
        (self.survey, self.ends) = (None, None);
        if !look {
            self.text = Some(scanner.string()?);
            return Ok(());
        }
        let json = begins_as_json(scanner.inside());
        self.text = match json.then(|| scanner.document(Survey::read)).flatten() {
            Some((text, survey)) => {
                self.survey = Some(survey.from(text.start));
                Some(text)
            }
            None => {
                let (text, ends) = scanner.string_by(Ends::to_quote)?;
                self.ends = Some(ends);
                Some(text)
            }
        };
        Ok(())
    }
}

/// `look`: whether to look into the text.
fn text(scanner: &mut Scanner<'_>, look: bool, found: &mut ContentBlock) -> Scan<()> {
    scanner.object(|scanner, key| {
        let kind = scanner.kind()?;
        if kind == Kind::String && scanner.is(&key, "text") {
            found.pass_text(scanner, look)?;
        } else if kind == Kind::Object && scanner.is(&key, "resource") {
            text(scanner, look, found)?;
        } else {
            scanner.pass()?;
        }
        Ok(())
    })
}

/// The text of a single block.
#[must_use]
pub fn text_of(block: &[u8]) -> Option<Span> {
    let mut found = ContentBlock::default();
    text(&mut Scanner::new(block, Form::Raw), false, &mut found).ok()?;
    found.text
}

/// Whether an escaped text begins as a document does: O(1).
#[must_use]
pub fn begins_as_json(escaped: &[u8]) -> bool {
    let head = visible(
        escaped.get(..boundary(escaped, 64, Form::Escaped)).unwrap_or(escaped),
        Form::Escaped,
    );
    matches!(head.trim_ascii_start().first(), Some(b'{' | b'['))
}
