//! The depth of nested functions.

/// The maximum number of nested functions. Each is read as a part of several kinds of expressions,
/// so that the time grows exponentially with them.
const MAX_NESTED_CALLS: usize = 6;

/// Returns true if a text opens more parentheses than [`MAX_NESTED_CALLS`] before it closes one.
pub(super) fn is_too_deep(text: &str) -> bool {
    let signs = text.bytes().filter(|byte| matches!(byte, b'(' | b')'));
    let opened = signs.take_while(|byte| *byte == b'(').take(MAX_NESTED_CALLS + 1);
    opened.count() > MAX_NESTED_CALLS
}
