//! The depth of nested functions.

use super::Operand;
use crate::query::reader::Reader;

/// The maximum number of nested functions. Each is read as a part of several kinds of expressions,
/// so that the time grows exponentially with them.
const MAX_NESTED_CALLS: usize = 6;

/// Returns true if a text opens more parentheses than [`MAX_NESTED_CALLS`] before it closes one.
pub(super) fn is_too_deep(text: &str) -> bool {
    let signs = text.bytes().filter(|byte| matches!(byte, b'(' | b')'));
    let opened = signs.take_while(|byte| *byte == b'(').take(MAX_NESTED_CALLS + 1);
    opened.count() > MAX_NESTED_CALLS
}

impl Operand {
    /// Reads the arguments of the function `word`, after the opening parenthesis. `None` if there
    /// is no such function.
    pub(super) fn call(reader: &mut Reader<'_>, word: &str) -> Result<Option<Self>, String> {
        // An error leaves the depth of `reader` as it is, because another reading may follow.
        let mut inner = reader.within_call();
        if inner.calls() > MAX_NESTED_CALLS || is_too_deep(reader.rest()) {
            return Err(reader.error("too many functions are nested"));
        }
        let operand = Self::arguments(&mut inner, word)?;
        reader.after_call(inner);
        Ok(operand)
    }
}
