//! Events of punctuation. The key of a run is a hash of its characters, its length, and the class
//! of the next byte.

use super::super::classes::{self, Class};
use super::{PUNCTUATION_KEYS, Reader, Sink};

const GOLDEN: u32 = 0x9E37_79B1;

/// The initial hash of a punctuation run after a space.
const SPACED: u32 = 7;
/// The initial hash of a punctuation run that is not after a space.
const UNSPACED: u32 = 3;

impl<S: Sink> Reader<'_, '_, S> {
    /// Reads the run of punctuation `start..end`. `follows` is the class of the byte after it, and
    /// `spaced` is true if a space precedes it. Returns the offset after the event, which includes
    /// the letter of an escape.
    #[inline(always)]
    pub(super) fn punctuation(
        &mut self,
        start: usize,
        end: usize,
        follows: u32,
        spaced: bool,
    ) -> usize {
        let (text, mut rest) = (self.text, end - start);
        let mut hash = if spaced { SPACED } else { UNSPACED };
        // No loop and no unpredictable branch: most runs have one to three characters.
        if let Some([a, b, c, d, e, f]) = text.get(start..).and_then(|rest| rest.first_chunk())
            && rest <= 6
        {
            let one = mix(hash, *a);
            let two = mix(one, *b);
            let three = mix(two, *c);
            let more = if rest == 2 { two } else { three };
            hash = if rest == 1 { one } else { more };
            if rest > 3 {
                let four = mix(three, *d);
                let five = mix(four, *e);
                let more = if rest == 5 { five } else { mix(five, *f) };
                hash = if rest == 4 { four } else { more };
            }
        } else {
            match self.long(start, end, hash) {
                Some(left) => (hash, rest) = left,
                None => return end,
            }
        }
        if text.get(end.wrapping_sub(1)) == Some(&b'\\') && is_escape(text, end) {
            return self.escape(end, hash, rest);
        }
        let key = punctuation_key(hash, rest, follows);
        if spaced && end - start > 2 {
            self.sink.spaced_punctuation(key, text.get(start..end).unwrap_or_default());
        }
        self.sink.ends_at(end);
        self.sink.punctuation(key);
        end
    }

    /// Reads a punctuation run of more than six characters, or one at the end of the text. Returns
    /// the hash and length of its last characters that do not belong to an event yet. `None` if
    /// there are none.
    ///
    /// A rule line, which mostly repeats one character, is one event. Its cost depends on the
    /// logarithm of its length, plus a token for each 64 characters after the first 64. Other long
    /// runs are divided into events of six characters.
    #[inline(never)]
    fn long(&mut self, start: usize, end: usize, hash: u32) -> Option<(u32, usize)> {
        let run = self.text.get(start..end).unwrap_or_default();
        let length = run.len();
        let folded = |run: &[u8], hash| run.iter().fold(hash, |hash, byte| mix(hash, *byte));
        if length <= 6 {
            return Some((folded(run, hash), length));
        }
        let before = std::iter::once(&0).chain(run);
        let same = run.iter().zip(before).filter(|(byte, before)| byte == before).count();
        let alike = same * 2 >= length;
        if length > 12 || alike {
            self.sink.long_punctuation(run, alike);
        }
        if length >= 8 && alike {
            self.sink.ends_at(end);
            let logarithm = (usize::BITS - length.min(64).leading_zeros()) as usize;
            let spaced = 2 * usize::from(hash == SPACED);
            self.sink.punctuation(PUNCTUATION_KEYS - 64 + logarithm.min(15) * 4 + spaced);
            if length > 64 {
                self.sink.tail(length * 4 - 256);
            }
            return None;
        }
        let (mut at, mut left, mut hash) = (start, run, hash);
        while let Some((six, rest)) = left.split_first_chunk::<6>()
            && !rest.is_empty()
        {
            at += 6;
            self.sink.ends_at(at);
            let place = if at == start + 6 { 6 } else { 7 };
            self.sink.punctuation(punctuation_key(folded(six, hash), 6, place));
            (left, hash) = (rest, 5);
        }
        Some((folded(left, hash), left.len()))
    }

    /// Reads an escape such as `\n`, `\t` or `\uXXXX`, with the punctuation before it. `at` is the
    /// offset of its letter. `hash` and `length` describe the run that ends with the backslash.
    /// Returns the offset after the escape.
    #[inline(never)]
    fn escape(&mut self, at: usize, hash: u32, length: usize) -> usize {
        let letter = self.text.get(at).copied().unwrap_or_default();
        if at.checked_sub(length + 1).and_then(|before| self.text.get(before)) == Some(&b' ') {
            self.sink.spaced_escape();
        }
        let digits = self.text.get(at + 1..at + 5);
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        if let (b'u', Some([first, ..])) = (letter, digits) {
            if length > 1 {
                self.sink.ends_at(at - 1);
                self.sink.punctuation(punctuation_key(hash, length, 5));
            }
            let key = if *first <= b'9' { first - b'0' } else { (first | 32) - b'a' + 10 };
            self.sink.ends_at(at + 5);
            self.sink.unicode_escape(key.into());
            at + 5
        } else {
            // Not the escapes of JSON, in which form feeds and backspaces are rare, but of CSS.
            let next = self.text.get(at + 1);
            if matches!(letter, b'b' | b'f') && next.is_some_and(u8::is_ascii_hexdigit) {
                self.sink.css_escape();
            }
            self.sink.ends_at(at + 1);
            self.sink.punctuation(punctuation_key(mix(hash, letter), length, 0));
            at + 1
        }
    }
}

/// The class, in the key of a punctuation run, of a letter after the run.
pub(super) const LETTER: u32 = 1;
/// The class, in the key of a punctuation run, of a line break or the end of the text after the
/// run.
const LINE_END: u32 = 3;

/// For each byte, its class in the key of a punctuation run that it follows. A table, because
/// branches would be mispredicted.
static FOLLOWERS: [u8; 256] = {
    let mut followers = [0; 256];
    let mut byte = 0;
    #[allow(clippy::indexing_slicing, reason = "evaluated at compile time, bounded by the loop")]
    while byte < 256 {
        followers[byte] = match classes::compute_class(byte as u8) {
            Class::Lower | Class::Upper => LETTER as u8,
            Class::Digit => 2,
            Class::Newline => LINE_END as u8,
            Class::NonAscii => 4,
            Class::Space | Class::Tab | Class::Punctuation => 0,
        };
        byte += 1;
    }
    followers
};

#[inline]
pub(super) fn follows(text: &[u8], at: usize) -> u32 {
    let follower = text.get(at).and_then(|byte| FOLLOWERS.get(usize::from(*byte)));
    follower.map_or(LINE_END, |follower| u32::from(*follower))
}

/// Returns true if the backslash before the offset `at` begins an escape, such as `\n` in JSON
/// within JSON.
#[inline]
pub(super) fn is_escape(text: &[u8], at: usize) -> bool {
    matches!(text.get(at), Some(b'n' | b't' | b'r' | b'u' | b'b' | b'f'))
}

#[inline]
fn mix(hash: u32, byte: u8) -> u32 {
    hash.wrapping_mul(GOLDEN) ^ u32::from(byte)
}

#[inline]
fn punctuation_key(hash: u32, length: usize, next: u32) -> usize {
    let mixed = (hash ^ ((length as u32) << 24) ^ (next << 28)).wrapping_mul(0x85EB_CA6B);
    ((mixed >> 16) as usize) % (PUNCTUATION_KEYS - 64)
}
