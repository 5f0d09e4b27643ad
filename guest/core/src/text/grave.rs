//! Which lines of a text may say that something is wrong: a quick look at all of them, so that only a few have to be read.

use crate::blocks::{BLOCK, Block, places};

/// For each line of a text, given by their ends, whether [`super::level::level`] may find anything in it. O(n), 62 bytes a step.
#[must_use]
pub fn candidates(text: &[u8], ends: &[usize]) -> Vec<bool> {
    // Some trouble is told by the first letter of a line: `E   assert`, `E0102 15:04:05`.
    let begins = |start: usize| matches!(text.get(start), Some(b'E' | b'F' | b'W'));
    let starts = std::iter::once(&0).chain(ends);
    let mut candidates: Vec<bool> =
        ends.iter().zip(starts).map(|(_, start)| begins(*start)).collect();
    let mut line = 0;
    // A beginning is found where its three letters stand in one block: blocks overlap by two.
    for base in (0..text.len()).step_by(BLOCK - 2) {
        for place in places(beginnings(Block::at(text, base))) {
            let at = base + place;
            while ends.get(line).is_some_and(|end| *end <= at) {
                line += 1;
            }
            if let Some(candidate) = candidates.get_mut(line) {
                *candidate = true;
            }
        }
    }
    candidates
}

/// Where a word for trouble begins, told by its first three letters, small or capital.
#[inline]
fn beginnings(block: Block) -> u64 {
    let [e, r, w, a, f, t, i, c, s, v, p, n, m, l, x] =
        (*b"erwafticsvpnmlx").map(|letter| block.letter(letter));
    let word = |first: u64, second: u64, third: u64| first & second >> 1 & third >> 2;
    word(e, r, r)
        | word(w, a, r)
        | word(f, a, t | i)
        | word(c, r, i)
        | word(s | l, e, v)
        | word(p, a, n)
        | word(e, m, e)
        | word(a, l, e)
        | word(l, v, l)
        | word(t, r, a)
        | word(e, x, c)
        // `thread`: its second letter is taken for granted.
        | word(t, u64::MAX, r)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::text::Form;
    use crate::text::level::{Level, level};
    use crate::text::lines::ends;

    #[test]
    fn no_line_that_matters_is_passed_over() {
        let grave = [
            "ERROR x",
            "a WARN b",
            "[error] x",
            "level=error",
            "\"severity\": \"WARNING\"",
            "lvl=err",
            "FATAL",
            "x CRITICAL y",
            "SEVERE: z",
            "PANIC",
            "EMERG",
            "ALERT",
            "CRIT",
            "FAILED a",
            "FAILURE",
            "error[E0308]",
            "Traceback (most recent",
            "Exception in thread",
            "npm ERR! x",
            "##[error]x",
            "thread 'main' panicked",
            "E   assert 1 == 2",
            "E0102 15:04:05 x",
            "W0102 15:04:05 x",
            "{\"level\":50}",
            "fatal: not a repository",
            "warning: unused",
        ];
        for grave in grave {
            assert_ne!(level(grave.as_bytes()), Level::Other, "{grave}");
            for before in 0..70 {
                let text = format!("{}\n{grave}\r\nall is well\n", "i".repeat(before));
                let found = candidates(text.as_bytes(), &ends(text.as_bytes(), Form::Raw));
                assert!(found[1], "{before} bytes before {grave}");
                assert!(!found[2], "{before} bytes before {grave}");
            }
        }
    }
}
