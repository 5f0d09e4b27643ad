//! Failures that build tools report in several lines.

use super::lines::IndexedText;

/// The number of lines in which TeX states the position of an error.
const TEX_LINES: usize = 8;
/// The number of lines in which Gradle states the reason of a failure.
const GRADLE_LINES: usize = 4;

/// Returns true if a line is an error of TeX, whose position follows: `! Missing $ inserted.` and
/// `l.74 text`.
pub(super) fn is_tex_error(text: &IndexedText<'_>, line: usize, says: &[u8]) -> bool {
    let is_position = |line: usize| {
        let start = text.start(line);
        let number = start.strip_prefix(b"l.").and_then(<[u8]>::first);
        number.is_some_and(u8::is_ascii_digit)
    };
    says.strip_prefix(b"! ").is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_uppercase))
        && (line + 1..text.len()).take(TEX_LINES).any(is_position)
}

/// Returns the number of the line with the reason of the failure in `line`, as Gradle writes it
/// after `* What went wrong:`. `None` for other lines.
pub(super) fn reason_below(text: &IndexedText<'_>, line: usize, says: &[u8]) -> Option<usize> {
    if !says.starts_with(b"FAILURE: ") {
        return None;
    }
    let mut below = (line + 1..text.len()).take(GRADLE_LINES);
    let heading = below.find(|line| text.start(*line).starts_with(b"* What went wrong:"))?;
    (heading + 1 < text.len()).then_some(heading + 1)
}
