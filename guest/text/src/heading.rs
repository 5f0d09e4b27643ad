//! Detects the headings and the fences of Markdown.

/// Returns true if the line is a Markdown heading: one to six `#` and a space.
pub(super) fn is_heading(line: &[u8]) -> bool {
    let marks = line.iter().take_while(|byte| **byte == b'#').count();
    (1..=6).contains(&marks) && line.get(marks) == Some(&b' ')
}

/// Returns true if lines have several headings of Markdown, or a code block between fences.
pub(super) fn is_document<'l>(lines: impl Iterator<Item = &'l [u8]> + Clone) -> bool {
    lines.clone().filter(|line| is_heading(line)).count() >= 2
        || lines.filter(|line| line.starts_with(b"```")).count() >= 2
}
