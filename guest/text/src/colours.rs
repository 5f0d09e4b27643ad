//! Removal of ANSI colour codes from lines.

use std::borrow::Cow;

/// Removes ANSI colour codes from a line, including those that lost their escape character. With an
/// escape character, it also removes other codes that end with a letter, such as the movement of
/// the cursor.
#[must_use]
#[inline(never)]
pub fn without_colours(line: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr2_iter(0x1B, b'[', &line)
        .find(|at| line.get(*at..).is_some_and(|rest| colour_length(rest) > 0))
    else {
        return line;
    };
    let mut out = line.get(..first).unwrap_or_default().to_vec();
    let mut rest = line.get(first..).unwrap_or_default();
    while let Some((byte, after)) = rest.split_first() {
        let length = colour_length(rest);
        rest = rest.get(length.max(1)..).unwrap_or_default();
        if length == 0 {
            out.push(*byte);
            let plain = memchr::memchr2(0x1B, b'[', after).unwrap_or(after.len());
            out.extend_from_slice(after.get(..plain).unwrap_or_default());
            rest = after.get(plain..).unwrap_or_default();
        }
    }
    Cow::Owned(out)
}

/// Returns the length, in bytes, of the ANSI colour code at the start of `rest`. 0 if there is
/// none.
fn colour_length(rest: &[u8]) -> usize {
    let is_escaped = rest.first() == Some(&0x1B);
    let from = usize::from(is_escaped);
    if rest.get(from) != Some(&b'[') {
        return 0;
    }
    let code = rest.get(from + 1..).unwrap_or_default();
    let length = code.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    let end = from + 1 + length;
    let is_end = match rest.get(end) {
        Some(last) if is_escaped => last.is_ascii_alphabetic(),
        // `[5m]` is a duration.
        last => last == Some(&b'm') && length > 0 && rest.get(end + 1) != Some(&b']'),
    };
    if is_end { end + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_removed() {
        for (line, expected) in [
            ("\x1b[2mtime\x1b[0m \x1b[1;31mERROR\x1b[0m: x", "time ERROR: x"),
            ("[31mERROR[0m x [1] [m]", "ERROR x [1] [m]"),
            ("rate(x[5m]) [pod/a] [", "rate(x[5m]) [pod/a] ["),
            ("\x1b[Kdone", "done"),
        ] {
            assert_eq!(*without_colours(Cow::Borrowed(line.as_bytes())), *expected.as_bytes());
        }
    }
}
