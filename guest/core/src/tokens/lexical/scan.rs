//! Text to events: words, digit runs, ids, punctuation, white space, escapes and characters beyond ASCII.
//!
//! Every byte belongs to exactly one event, so sums over events are additive. The keys are those that the tables were measured with:
//! a change here makes the tables wrong.

use super::classes::{Class, class};

/// Prefixes of a word: none, space, quote, `_`, `/`, `.`, `-`, other punctuation, camel hump, after a digit, after non-ASCII.
pub(super) const WORD_PREFIXES: usize = 11;
/// Prefix and case (lower, Capitalised, UPPER) of a word.
pub(super) const WORD_SHAPES: usize = WORD_PREFIXES * 3;
/// Word shape and length, to 16.
pub(super) const WORD_KEYS: usize = WORD_SHAPES * 17;
pub(super) const DIGIT_KEYS: usize = 4 * 16 + 4;
pub(super) const ESCAPE_KEYS: usize = 16;
pub(super) const PUNCTUATION_KEYS: usize = 4096;
pub(super) const SPACE_KEYS: usize = 2 * 3 * 4 * 8 * 4;

const GOLDEN: u32 = 0x9E37_79B1;

/// What receives the events.
pub(super) trait Sink {
    /// The event that comes next ends at this byte; it begins where the one before ended.
    #[inline]
    fn ends_at(&mut self, _end: usize) {}

    /// A piece of letters; `key` holds prefix, case and length, `shape` prefix and case.
    fn word(&mut self, key: usize, shape: usize, letters: &[u8]);
    /// A run of up to six punctuation characters, or a rule line.
    fn punctuation(&mut self, key: usize);
    fn space(&mut self, key: usize);
    /// A run of up to 15 digits, or with `key >= 64` a rate for each of `length`.
    fn digits(&mut self, key: usize, length: usize);
    /// An id-like run of letters and digits.
    fn id(&mut self, run: &[u8]);
    /// `\uXXXX`, keyed by its first digit.
    fn unicode_escape(&mut self, key: usize);
    /// One character beyond ASCII; `first` of its run or not.
    fn wide(&mut self, first: bool, character: &[u8]);
    /// After the events of a run of this many punctuation characters, most of them alike or not.
    fn long_punctuation(&mut self, length: usize, alike: bool);
    /// The fixed cost of the tail of an overlong run, in 1/256 token.
    fn tail(&mut self, cost: usize);
}

/// What stands right before an event and belongs to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pending {
    Nothing,
    Space,
    /// A single punctuation character before a letter, by word prefix.
    Mark(usize),
}

impl Pending {
    fn prefix(self) -> usize {
        match self {
            Pending::Nothing => 0,
            Pending::Space => 1,
            Pending::Mark(prefix) => prefix,
        }
    }
}

/// Feeds the events of `text` to `sink`, in order. O(n), any bytes.
pub(super) fn scan<S: Sink>(text: &[u8], sink: &mut S) {
    let mut scan = Scan { text, at: 0, pending: Pending::Nothing, after_two_bytes: false, sink };
    while scan.at < text.len() {
        let after_two_bytes = std::mem::take(&mut scan.after_two_bytes);
        match class(scan.byte(scan.at)) {
            Class::Lower | Class::Upper | Class::Digit => scan.alphanumeric(after_two_bytes),
            Class::Space | Class::Newline | Class::Tab => scan.space(),
            Class::Punctuation => scan.punctuation(),
            Class::NonAscii => scan.wide(),
        }
    }
    if scan.pending != Pending::Nothing {
        scan.sink.ends_at(text.len());
        scan.sink.space(0);
    }
}

struct Scan<'a, S> {
    text: &'a [u8],
    at: usize,
    pending: Pending,
    after_two_bytes: bool,
    sink: &'a mut S,
}

impl<S: Sink> Scan<'_, S> {
    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    #[inline]
    fn class_at(&self, at: usize) -> Option<Class> {
        self.text.get(at).map(|byte| class(*byte))
    }

    #[inline]
    fn slice(&self, from: usize, to: usize) -> &[u8] {
        self.text.get(from..to).unwrap_or_default()
    }

    fn alphanumeric(&mut self, after_two_bytes: bool) {
        let start = self.at;
        let rest = self.text.get(start..).unwrap_or_default();
        let length =
            rest.iter().position(|byte| !class(*byte).is_alphanumeric()).unwrap_or(rest.len());
        self.at += length;
        let run = rest.get(..length).unwrap_or(rest);
        match if length >= 8 { id(run) } else { None } {
            Some(swallows) => self.id(start, swallows),
            None => self.pieces(start, after_two_bytes),
        }
        self.pending = Pending::Nothing;
    }

    /// An id; one of mixed case swallows the rest of a base64 text.
    fn id(&mut self, start: usize, swallow: bool) {
        let continues = |byte: &u8| {
            matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_') || class(*byte).is_alphanumeric()
        };
        if swallow {
            self.at += self.text.iter().skip(self.at).take_while(|byte| continues(byte)).count();
        }
        let run = self.text.get(start..self.at).unwrap_or_default();
        self.sink.ends_at(self.at);
        self.sink.id(run);
    }

    /// Words and digit runs between `start` and the current position.
    fn pieces(&mut self, start: usize, after_two_bytes: bool) {
        const AFTER_HUMP: usize = 8;
        const AFTER_DIGIT: usize = 9;
        const AFTER_WIDE: usize = 10;
        let end = self.at;
        let mut prefix = match self.pending {
            Pending::Nothing if after_two_bytes => AFTER_WIDE,
            pending => pending.prefix(),
        };
        let mut from = start;
        while from < end {
            let mut to = from;
            if class(self.byte(from)) == Class::Digit {
                let mut same = 0usize;
                while to < end && class(self.byte(to)) == Class::Digit {
                    same += usize::from(self.byte(to) == self.byte(from));
                    to += 1;
                }
                let length = to - from;
                self.sink.ends_at(to);
                let before = match prefix {
                    _ if from > start => 3,
                    1 => 1,
                    0 => 0,
                    _ => 2,
                };
                if length > 15 {
                    self.sink.digits(
                        64 + usize::from(same * 4 >= length * 3) + 2 * usize::from(before == 1),
                        length,
                    );
                } else {
                    self.sink.digits(before * 16 + length, length);
                }
                prefix = AFTER_DIGIT;
            } else {
                while to < end && class(self.byte(to)) == Class::Upper {
                    to += 1;
                }
                let upper = to - from;
                while to < end && class(self.byte(to)) == Class::Lower {
                    to += 1;
                }
                let length = to - from;
                let case = match upper {
                    0 => 0,
                    1 if length > 1 => 1,
                    _ => 2,
                };
                let shape = prefix * 3 + case;
                let letters = self.text.get(from..to).unwrap_or_default();
                self.sink.ends_at(to);
                self.sink.word(shape * 17 + length.min(16), shape, letters);
                prefix = AFTER_HUMP;
            }
            from = to;
        }
    }

    /// A run of white space; its last space goes to what follows.
    fn space(&mut self) {
        const LONG: usize = 128;
        let start = self.at;
        // Nearly all white space is one space before a word.
        if self.byte(start) == b' ' && self.class_at(start + 1).is_some_and(|next| !next.is_space())
        {
            self.at += 1;
            self.pending = Pending::Space;
            return;
        }
        let after_punctuation = match start.checked_sub(1).and_then(|before| self.class_at(before))
        {
            Some(class) => class == Class::Punctuation,
            None => true,
        };
        let (mut newlines, mut indent, mut tabs) = (0usize, 0usize, 0usize);
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b' ' => indent += 1,
                b'\n' => (newlines, indent, tabs) = (newlines + 1, 0, 0),
                b'\r' => {}
                byte if class(*byte) == Class::Tab => (indent, tabs) = (indent + 1, tabs + 1),
                _ => break,
            }
            self.at += 1;
        }
        let length = self.at - start;
        if length > LONG {
            self.sink.tail((length - LONG) * if newlines > 16 || tabs > 16 { 16 } else { 2 });
        }
        let key = |indent, next| space_key(after_punctuation, newlines, indent, tabs, next);
        self.pending = Pending::Nothing;
        let Some(next) = self.class_at(self.at) else {
            self.sink.ends_at(self.at);
            return self.sink.space(key(indent, 3));
        };
        let next = match next {
            class if class.is_letter() => 0,
            Class::Digit => 1,
            _ => 2,
        };
        if self.byte(self.at - 1) == b' ' {
            if length > 1 {
                self.sink.ends_at(self.at - 1);
                self.sink.space(key(indent - 1, next));
            }
            self.pending = Pending::Space;
        } else {
            self.sink.ends_at(self.at);
            self.sink.space(key(indent, next));
        }
    }

    fn punctuation(&mut self) {
        let start = self.at;
        let spaced = self.pending == Pending::Space;
        let mut hash: u32 = if spaced { 7 } else { 3 };
        let (mut same, mut last) = (0usize, 0u8);
        while let Some(byte) =
            self.text.get(self.at).filter(|byte| class(**byte) == Class::Punctuation)
        {
            same += usize::from(*byte == last);
            last = *byte;
            if self.at - start < 6 {
                hash = mix(hash, last);
            }
            self.at += 1;
        }
        let length = self.at - start;
        if length > 12 {
            self.sink.long_punctuation(length, same * 2 >= length);
        }
        if length >= 8 && same * 2 >= length {
            self.rule(length, spaced);
            self.pending = Pending::Nothing;
            return;
        }
        let mut rest = length;
        if length > 6 {
            (hash, rest) = self.long(start, length, hash);
            self.pending = Pending::Nothing;
        }
        let next = self.class_at(self.at);
        if last == b'\\'
            && next == Some(Class::Lower)
            && matches!(self.byte(self.at), b'n' | b't' | b'r' | b'u' | b'b' | b'f')
        {
            self.escape(hash, rest);
        } else if length == 1
            && self.pending == Pending::Nothing
            && next.is_some_and(Class::is_letter)
        {
            self.pending = Pending::Mark(word_prefix(last));
            return;
        } else {
            let next = match next {
                Some(class) if class.is_letter() => 1,
                Some(Class::Digit) => 2,
                Some(Class::Newline) | None => 3,
                Some(Class::NonAscii) => 4,
                _ => 0,
            };
            self.sink.ends_at(self.at);
            self.sink.punctuation(punctuation_key(hash, rest, next));
        }
        self.pending = Pending::Nothing;
    }

    /// A rule line such as `----`: by the logarithm of its length, then a token for each 64.
    fn rule(&mut self, length: usize, spaced: bool) {
        self.sink.ends_at(self.at);
        let logarithm = (usize::BITS - length.min(64).leading_zeros()) as usize;
        self.sink
            .punctuation(PUNCTUATION_KEYS - 64 + logarithm.min(15) * 4 + 2 * usize::from(spaced));
        if length > 64 {
            self.sink.tail(length * 4 - 256);
        }
    }

    /// A run of more than six, in chunks of six; what is left is hashed anew.
    fn long(&mut self, start: usize, length: usize, hash: u32) -> (u32, usize) {
        self.sink.ends_at(start + 6);
        self.sink.punctuation(punctuation_key(hash, 6, 6));
        let (mut from, mut rest) = (start + 6, length - 6);
        while rest > 6 {
            self.sink.ends_at(from + 6);
            let hash = self.slice(from, from + 6).iter().fold(5, |hash, byte| mix(hash, *byte));
            self.sink.punctuation(punctuation_key(hash, 6, 7));
            (from, rest) = (from + 6, rest - 6);
        }
        (self.slice(from, from + rest).iter().fold(5, |hash, byte| mix(hash, *byte)), rest)
    }

    /// `\n`, `\t` and the like as they stand in escaped text, `\uXXXX` apart.
    fn escape(&mut self, hash: u32, length: usize) {
        let letter = self.byte(self.at);
        let digits = self.slice(self.at + 1, self.at + 5);
        if letter == b'u' && digits.len() == 4 && digits.iter().all(u8::is_ascii_hexdigit) {
            if length > 1 {
                self.sink.ends_at(self.at - 1);
                self.sink.punctuation(punctuation_key(hash, length, 5));
            }
            let first = self.byte(self.at + 1);
            let key = if first <= b'9' { first - b'0' } else { (first | 32) - b'a' + 10 };
            self.at += 5;
            self.sink.ends_at(self.at);
            self.sink.unicode_escape(key.into());
        } else {
            self.at += 1;
            self.sink.ends_at(self.at);
            self.sink.punctuation(punctuation_key(mix(hash, letter), length, 0));
        }
    }

    fn wide(&mut self) {
        let width = match self.byte(self.at) {
            ..0xC0 => 1,
            0xC0..0xE0 => 2,
            0xE0..0xF0 => 3,
            _ => 4,
        };
        let end = (self.at + width).min(self.text.len());
        let first = self.at.checked_sub(1).and_then(|before| self.class_at(before))
            != Some(Class::NonAscii);
        let character = self.text.get(self.at..end).unwrap_or_default();
        self.sink.ends_at(end);
        self.sink.wide(first, character);
        self.at = end;
        self.pending = Pending::Nothing;
        self.after_two_bytes = width == 2;
    }
}

/// Whether a run of letters and digits is an id, and whether that may be the beginning of base64.
fn id(run: &[u8]) -> Option<bool> {
    let (mut digits, mut lower, mut upper, mut changes) = (0usize, 0usize, 0usize, 0usize);
    let mut last = class(run.first().copied().unwrap_or_default());
    for byte in run {
        let class = class(*byte);
        changes += usize::from(class != last);
        digits += usize::from(class == Class::Digit);
        lower += usize::from(class == Class::Lower);
        upper += usize::from(class == Class::Upper);
        last = class;
    }
    let length = run.len();
    let mixed = digits > 0 && lower + upper > 0 && changes * 5 >= length;
    (mixed || (length >= 20 && changes * 4 >= length))
        .then_some(lower > 0 && upper > 0 && length >= 16)
}

#[inline]
fn mix(hash: u32, byte: u8) -> u32 {
    hash.wrapping_mul(GOLDEN) ^ u32::from(byte)
}

/// The word prefix that a single punctuation character makes.
fn word_prefix(mark: u8) -> usize {
    match mark {
        b'"' | b'\'' | b'`' => 2,
        b'_' => 3,
        b'/' => 4,
        b'.' => 5,
        b'-' => 6,
        _ => 7,
    }
}

#[inline]
fn punctuation_key(hash: u32, length: usize, next: u32) -> usize {
    let mixed = (hash ^ ((length as u32) << 24) ^ (next << 28)).wrapping_mul(0x85EB_CA6B);
    ((mixed >> 16) as usize) % (PUNCTUATION_KEYS - 64)
}

fn space_key(
    after_punctuation: bool,
    newlines: usize,
    indent: usize,
    tabs: usize,
    next: usize,
) -> usize {
    let bucket = match indent {
        0 => 0,
        1 => 1,
        2..4 => 2,
        4..8 => 3,
        8..16 => 4,
        16..32 => 5,
        32..80 => 6,
        _ => 7,
    };
    let kind = match tabs {
        0 => 0,
        tabs if tabs == indent => 1,
        _ => 2,
    };
    ((usize::from(after_punctuation) * 3 + newlines.min(2)) * 4 + kind) * 32 + bucket * 4 + next
}
