//! Quickly selects lines that may be errors or warnings. Only these lines are then checked for
//! their severity.

use wide::u8x16;

use super::lines::IndexedText;
use context_guard_json::blocks::{BLOCK_BYTES, BlockTriple as _, ByteBlock, bit_positions};
use context_guard_json::text::Form;

/// Returns one element per line: true if the line may name an error or warning. O(n), 64 bytes per
/// step.
#[must_use]
pub fn severity_prefilter(text: &IndexedText<'_>) -> Vec<bool> {
    let (bytes, ends) = (text.bytes(), text.ends());
    // Some formats mark errors by the first letter of a line: `E   assert`, `E0102 15:04:05`.
    let begins = |start: usize| match bytes.get(start) {
        Some(b'E' | b'F' | b'W' | b'%') => true,
        Some(b'm' | b'g') => {
            bytes.get(start..).is_some_and(|line| is_make(line.strip_prefix(b"g").unwrap_or(line)))
        }
        Some(b'!') => bytes.get(start + 1) == Some(&b' '),
        Some(b'e' | b'w') => bytes.get(start + 1) == Some(&b':'),
        _ => false,
    };
    let starts = std::iter::once(&0).chain(ends);
    let mut candidates: Vec<bool> =
        ends.iter().zip(starts).map(|(_, start)| begins(*start)).collect();
    let mut line = 0;
    for base in (0..bytes.len()).step_by(BLOCK_BYTES) {
        let found = match text.form() {
            Form::Raw => beginnings::<false>(bytes, base),
            Form::Escaped => beginnings::<true>(bytes, base),
        };
        for at in bit_positions(found).map(|place| base + place) {
            if HAS_BYTE_SHUFFLE && !is_beginning(bytes.get(at..at + 3)) {
                continue;
            }
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

/// Marks the lines of an access log that may have a status from 500 to 599. O(n).
pub(super) fn mark_server_errors(text: &IndexedText<'_>, candidates: &mut [bool]) {
    let mut line = 0;
    for at in memchr::memmem::find_iter(text.bytes(), b"\" 5") {
        while text.ends().get(line).is_some_and(|end| *end <= at) {
            line += 1;
        }
        if let Some(candidate) = candidates.get_mut(line) {
            *candidate = true;
        }
    }
}

/// Returns true if a line begins with the name of Make and a sign, as its own messages do.
fn is_make(line: &[u8]) -> bool {
    line.strip_prefix(b"make").is_some_and(|rest| matches!(rest.first(), Some(b'[' | b':')))
}

/// Returns a bit set of the positions in the block at `base` at which one of [`WORDS`] begins, in
/// upper or lower case. With [`HAS_BYTE_SHUFFLE`], it may have other positions too. If `ESCAPED`,
/// unicode escapes count as well, because they may hide a letter.
#[inline(always)]
fn beginnings<const ESCAPED: bool>(bytes: &[u8], base: usize) -> u64 {
    let blocks = [0, 1, 2].map(|ahead| ByteBlock::load(bytes, base + ahead));
    if HAS_BYTE_SHUFFLE {
        blocks.places(may_begin::<ESCAPED>)
    } else {
        blocks.places(begins::<ESCAPED>)
    }
}

/// Returns true if the three bytes are one of [`WORDS`], or may begin a unicode escape.
fn is_beginning(three: Option<&[u8]>) -> bool {
    let Some(&[first, second, third]) = three else { return false };
    let letters = [first | 0x20, second | 0x20, third | 0x20];
    first == b'\\' && second == b'u'
        || WORDS.iter().any(|set| set.iter().any(|word| **word == letters))
}

#[inline(always)]
fn is(part: u8x16, letter: u8) -> u8x16 {
    part.simd_eq(u8x16::splat(letter))
}

/// Returns a mask of the positions at which one of [`WORDS`] begins. `first` has the byte at each
/// position, `second` the next byte, and `third` the one after that. If `ESCAPED`, unicode escapes
/// count too.
#[inline(always)]
fn begins<const ESCAPED: bool>([first, second, third]: [u8x16; 3]) -> u8x16 {
    let [one, two, three] = [first, second, third].map(|part| part | u8x16::splat(0x20));
    let words = WORDS
        .iter()
        .flat_map(|set| set.iter())
        .fold(u8x16::ZERO, |found, [a, b, c]| found | is(one, *a) & is(two, *b) & is(three, *c));
    if ESCAPED { words | in_digits(first, second) } else { words }
}

/// Returns a mask of the positions at which a unicode escape (`\u`) begins. `first` has the byte at
/// each position, and `second` the next byte.
#[inline(always)]
fn in_digits(first: u8x16, second: u8x16) -> u8x16 {
    is(first, b'\\') & is(second, b'u')
}

/// True if the target can shuffle the bytes of a vector in one instruction, so that table lookups
/// are cheap.
const HAS_BYTE_SHUFFLE: bool =
    cfg!(any(target_feature = "simd128", target_feature = "ssse3", target_feature = "neon"));

/// The three-letter parts of words such as `error` and `warning` that are searched. In other
/// languages, these are `schwerwiegend`, `varning`, `grave`, `fehler`, `advertencia`, `allvarlig`,
/// `avvertenza`, `aviso` and `attention`. Each of the eight sets is one bit in [`NIBBLE_TABLES`].
/// The grouping keeps accidental matches rare.
const WORDS: [&[&[u8; 3]]; 8] = [
    &[b"err", b"thr", b"ero"],
    &[b"war", b"wrn", b"ale"],
    &[b"fat", b"ftl", b"fai", b"fau"],
    &[b"cri", b"hwe", b"rni"],
    &[b"tra", b"rav", b"avi", b"tte"],
    &[b"sev", b"lev", b"feh", b"dve"],
    &[b"pan", b"eme"],
    &[b"lvl", b"exc", b"lva", b"avv"],
];

/// For the first, second and third letter of [`WORDS`]: the sets of words with such a letter, as
/// bits. The inner index is the lower four bits of the letter.
const NIBBLE_TABLES: [[u8; 16]; 3] = {
    let mut sets = [[0; 16]; 3];
    let mut set = 0;
    #[allow(clippy::indexing_slicing, reason = "evaluated at compile time, bounded by the loops")]
    while set < WORDS.len() {
        let mut word = 0;
        while word < WORDS[set].len() {
            let mut place = 0;
            while place < 3 {
                sets[place][(WORDS[set][word][place] & 15) as usize] |= 1 << set;
                place += 1;
            }
            word += 1;
        }
        set += 1;
    }
    sets
};

/// Returns a mask of the positions at which one of [`WORDS`] may begin. It has all positions that
/// [`begins`] finds, and few others.
#[inline(always)]
fn may_begin<const ESCAPED: bool>([first, second, third]: [u8x16; 3]) -> u8x16 {
    let [one, two, three] = NIBBLE_TABLES;
    let sets = |part: u8x16, of: [u8; 16]| u8x16::new(of).shuffle(part & u8x16::splat(15));
    let common = sets(first, one) & sets(second, two) & sets(third, three);
    // The mask is the highest bit of each lane. Any common set moves there, and so does bit 6,
    // which all letters have.
    let letters = first & second & third;
    let found = common.saturating_add(u8x16::splat(0x7F)) & (letters + letters);
    if ESCAPED { found | in_digits(first, second) } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use context_guard_json::text::escape;

    #[test]
    fn lookup_finds_every_word() {
        let letters = (b'A'..=b'Z').chain(b'a'..=b'z').chain(*b" 5\\\n\xE9");
        let letters: Vec<u8> = letters.collect();
        for first in &letters {
            for second in &letters {
                for third in &letters {
                    let three = [*first, *second, *third];
                    let parts = three.map(u8x16::splat);
                    let [finds, may] = [begins::<true>(parts), may_begin::<true>(parts)]
                        .map(|found| found.to_bitmask() != 0);
                    assert_eq!(
                        may && is_beginning(Some(&three)),
                        finds,
                        "{}",
                        three.escape_ascii()
                    );
                }
            }
        }
    }

    #[test]
    fn no_severe_line_is_skipped() {
        let grave = [
            "ERROR x",
            "a WARN b",
            "[error] x",
            "level=error",
            "\"severity\": \"WARNING\"",
            "lvl=err",
            "WRN x",
            "EROR [06-05] x",
            "10:00:00 FTL x",
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
            "Fault 0x1",
            "e: file:///a.kt:1:2 x",
            "SCHWERWIEGEND: x",
            "GRAVE: x",
            "FEHLER:  x",
            "ALLVARLIG: x",
            "ADVERTENCIA: x",
            "AVVERTENZA: x",
            "VARNING: x",
            "[AVISO] x",
            "ATTENTION:  x",
        ];
        for grave in grave {
            for before in 0..70 {
                let text = format!("{}\n{grave}\r\nall is well\n", "i".repeat(before));
                let found = severity_prefilter(&IndexedText::new(text.as_bytes(), Form::Raw));
                assert_eq!(found, [false, true, false], "{before} bytes before {grave}");
                let mut escaped = Vec::new();
                escape(&mut escaped, text.as_bytes());
                assert_eq!(
                    severity_prefilter(&IndexedText::new(&escaped, Form::Escaped)),
                    found,
                    "escaped, {grave}"
                );
            }
        }
    }
}
