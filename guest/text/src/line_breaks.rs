//! Escapes line breaks in text that becomes a part of a line.

/// Escapes the control characters of a text, except for tabs, so that the text is one line.
///
/// # Example
///
/// ```
/// use context_guard_text::line_breaks::without_line_breaks;
///
/// assert_eq!(without_line_breaks("a\nb\tc".to_owned()), "a\\nb\tc");
/// ```
#[must_use]
pub fn without_line_breaks(text: String) -> String {
    let is_break =
        |sign: char| sign.is_control() && sign != '\t' || matches!(sign, '\u{2028}' | '\u{2029}');
    if !text.contains(is_break) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 8);
    for sign in text.chars() {
        match sign {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            sign if is_break(sign) => out.push_str(&format!("\\u{:04x}", u32::from(sign))),
            sign => out.push(sign),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let escape = |text: &str| without_line_breaks(text.to_owned());
        assert_eq!(escape("a\n[b]\r\u{1b}\u{2028}\tc"), "a\\n[b]\\r\\u001b\\u2028\tc");
        assert_eq!(escape("é \t ok"), "é \t ok");
    }
}
