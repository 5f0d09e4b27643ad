//! Content blocks of a tool result, and contents of a resource.

use crate::json::Span;
use crate::json::scan::{Kind, Scan, Scanner};
use crate::json::text::Form;

/// A content block, or one of the contents of a resource.
#[derive(Clone, Debug)]
pub struct Block {
    /// The object.
    pub span: Span,
    /// What stands between the quotes of its text, if it has one: its own, or that of the resource in it.
    pub text: Option<Span>,
}

/// Passes an array of blocks.
///
/// # Errors
/// Where there is none.
pub fn read(scanner: &mut Scanner<'_>) -> Scan<Vec<Block>> {
    let mut blocks = Vec::new();
    scanner.array(|scanner| {
        scanner.space();
        let start = scanner.position();
        let text = if scanner.kind()? == Kind::Object {
            text(scanner)?
        } else {
            scanner.pass().map(|_| None)?
        };
        blocks.push(Block { span: start..scanner.position(), text });
        Ok(())
    })?;
    Ok(blocks)
}

fn text(scanner: &mut Scanner<'_>) -> Scan<Option<Span>> {
    let mut found = None;
    scanner.object(|scanner, key| {
        let kind = scanner.kind()?;
        if kind == Kind::String && scanner.is(&key, "text") {
            found = Some(scanner.string()?);
        } else if kind == Kind::Object && scanner.is(&key, "resource") {
            found = text(scanner)?.or(found.take());
        } else {
            scanner.pass()?;
        }
        Ok(())
    })?;
    Ok(found)
}

/// The text of a single block.
#[must_use]
pub fn text_of(block: &[u8]) -> Option<Span> {
    text(&mut Scanner::new(block, Form::Raw)).ok().flatten()
}
