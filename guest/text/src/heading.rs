//! Detects the headings and the fences of Markdown.

/// Returns true if the line is a Markdown heading: one to six `#` and a space.
pub(super) fn is_heading(line: &[u8]) -> bool {
    let marks = line.iter().take_while(|byte| **byte == b'#').count();
    // Summaries of tests have several such signs: `# PASS: 5 # FAIL: 0`.
    (1..=6).contains(&marks)
        && line.get(marks) == Some(&b' ')
        && line.get(marks..).is_none_or(|text| memchr::memmem::find(text, b" # ").is_none())
}

/// The number of lines of a text that may consist of headings.
const SHORT_LINES: usize = 16;

/// Returns true if lines have several headings of Markdown, or a code block between fences. More
/// headings than other lines, all of the first level, are comments or the output of a program.
pub(super) fn is_document<'l>(lines: impl Iterator<Item = &'l [u8]> + Clone) -> bool {
    let headings = lines.clone().filter(|line| is_heading(line)).count();
    let is_outline = || {
        headings * 2 <= lines.clone().count().max(SHORT_LINES)
            || lines.clone().any(|line| is_heading(line) && line.starts_with(b"##"))
    };
    headings >= 2 && is_outline() || lines.filter(|line| line.starts_with(b"```")).count() >= 2
}
