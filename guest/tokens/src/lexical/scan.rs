//! Divides text into events: words, digit runs, ids, punctuation, white space, escapes and
//! characters beyond ASCII.
//!
//! Every byte belongs to exactly one event, so sums over events are additive. The tables were
//! trained with the keys of these events: any change here makes the tables wrong.

mod punctuation;

use punctuation::{LETTER, follows, is_escape};

use super::classes::{Class, class};
use super::window::{Run, Window};

/// The number of word prefixes: none, space, quote, `_`, `/`, `.`, `-`, other punctuation, camel
/// case, after a digit, after a character beyond ASCII.
pub(super) const WORD_PREFIXES: usize = 11;
/// The number of word shapes: combinations of a prefix and a case (lower, Capitalized, UPPER).
pub(super) const WORD_SHAPES: usize = WORD_PREFIXES * 3;
/// The number of word lengths in keys: 0 to 16, where 16 includes all longer words.
pub(super) const LENGTHS: usize = 17;
/// The number of word keys: combinations of a shape and a length.
pub(super) const WORD_KEYS: usize = WORD_SHAPES * LENGTHS;
pub(super) const DIGIT_KEYS: usize = 4 * 16 + 4;
pub(super) const ESCAPE_KEYS: usize = 16;
pub(super) const PUNCTUATION_KEYS: usize = 4096;
pub(super) const SPACE_KEYS: usize = 2 * 3 * 4 * 8 * 4;

/// A receiver of the lexical events of a text. In its methods, `key` is the index of an event in
/// the table for its kind.
pub(super) trait Sink {
    /// Announces that the next event ends at the offset `end`, which is excluded. It begins at the
    /// end of the previous event.
    #[inline]
    fn ends_at(&mut self, _end: usize) {}

    /// Receives a word or a part of one, `text[from..to]`. The key combines its prefix, case and
    /// length.
    fn word(&mut self, key: usize, text: &[u8], from: usize, to: usize);
    /// Receives a run of up to six punctuation characters, or a line drawn with them, such as
    /// `--------`.
    fn punctuation(&mut self, key: usize);
    fn space(&mut self, key: usize);
    /// Receives a run of `length` digits. If `key >= 64`, it has more than 15 digits, and each has
    /// a cost.
    fn digits(&mut self, key: usize, length: usize);
    /// Receives a run of letters and digits that looks like an id, such as a hash.
    fn id(&mut self, run: &[u8]);
    /// Receives a `\uXXXX` escape, keyed by its first digit.
    fn unicode_escape(&mut self, key: usize);
    /// Receives one character beyond ASCII. For the first in a run of such characters, `ascii` has
    /// the two characters before it, with a space for each non-letter.
    fn wide(&mut self, ascii: Option<[u8; 2]>, character: &[u8]);
    /// Receives a run of more than 12 punctuation characters, or of more than 6 similar ones,
    /// before the events of that run. `alike` is true if at least half of the characters equal the
    /// one before.
    fn long_punctuation(&mut self, run: &[u8], alike: bool);
    /// Receives a run of three or more punctuation characters after a space, before its event.
    fn spaced_punctuation(&mut self, key: usize, run: &[u8]);
    /// Receives an escape after a space, before its event.
    fn spaced_escape(&mut self);
    /// Receives an escape of CSS, such as `\f468`, before its event, which reads it as one of JSON.
    fn css_escape(&mut self);
    /// Receives, before the event of a run of white space, the number of positions at which its
    /// character changes.
    fn mixed_space(&mut self, changes: usize);
    /// Receives the cost of the rest of a very long event, in 1/256 token.
    fn tail(&mut self, cost: usize);
}

/// The word prefix, as counted in [`WORD_PREFIXES`], that the bytes right before the next event
/// form.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pending(usize);

impl Pending {
    const NOTHING: Self = Self(0);
    const SPACE: Self = Self(1);
    /// The prefix of a word after a character of two bytes, which is an event of its own.
    const TWO_BYTES: Self = Self(10);

    /// Returns the prefix that the punctuation character `mark` forms if a letter follows.
    #[inline]
    fn mark(mark: u8) -> Self {
        Self(MARKS.get(usize::from(mark)).copied().unwrap_or(OTHER_MARK).into())
    }

    /// Returns true if the prefix bytes do not belong to an event yet, so that the next event
    /// includes them.
    #[inline]
    fn is_open(self) -> bool {
        self != Self::NOTHING && self != Self::TWO_BYTES
    }
}

/// The prefix of a word that follows another word in a camel-case run.
const AFTER_HUMP: usize = 8;
/// The prefix of a word that follows a digit in the same run.
const AFTER_DIGIT: usize = 9;

/// The value of the parameter `before` of `Reader::digits` for digits that follow another part of
/// their run.
const INSIDE: usize = 3;

/// Sends the lexical events of `text` to `sink`, in order. `text` may be any bytes. O(n).
#[inline(never)]
pub(super) fn scan<S: Sink>(text: &[u8], sink: &mut S) {
    Reader { text, sink }.read();
}

/// A reader that divides a text into lexical events. Its functions have at most four arguments.
/// Further ones would be passed on the stack, which takes as long as the call itself in WASM.
struct Reader<'t, 's, S> {
    text: &'t [u8],
    sink: &'s mut S,
}

impl<S: Sink> Reader<'_, '_, S> {
    /// Reads the whole text. The most frequent events are read without loops: words, digit runs,
    /// single spaces, a few punctuation characters.
    #[inline]
    fn read(&mut self) {
        let text = self.text;
        let mut window = Window::load(text, 0);
        let (mut at, mut pending) = (0, Pending::NOTHING);
        while at < text.len() {
            window.reach(text, at);
            let start = at;
            if window.has(window.alphanumeric, at) {
                at += window.run(text, at, |window| window.alphanumeric);
                match window.cut(start, at - start) {
                    Some(run) if run.is_word() => {
                        self.word(start, at, pending.0 * 3 + run.case());
                    }
                    Some(run) if run.is_number() => self.digits(start, at, pending.0.min(2)),
                    _ => at = self.mixed(start, at, pending.0),
                }
                pending = Pending::NOTHING;
            } else if window.has(window.punctuation, at) {
                at += window.run(text, at, |window| window.punctuation);
                let follows = follows(text, at);
                if at - start == 1
                    && follows == LETTER
                    && !pending.is_open()
                    && let Some(mark) = text.get(start)
                    && !(*mark == b'\\' && is_escape(text, at))
                {
                    pending = Pending::mark(*mark);
                } else {
                    at = self.punctuation(start, at, follows, pending == Pending::SPACE);
                    pending = Pending::NOTHING;
                }
            } else if window.is_single_blank(at) {
                at += 1;
                pending = Pending::SPACE;
            } else if window.has(window.space, at) {
                at += window.run(text, at, |window| window.space);
                // Most white space is a newline and spaces.
                let blanks = window.run(text, start + 1, |window| window.blank);
                let spaced = self.space(start, at, blanks + 1 == at - start);
                pending = if spaced { Pending::SPACE } else { Pending::NOTHING };
            } else {
                (at, pending) = self.wide(at);
            }
        }
        if pending.is_open() {
            self.sink.ends_at(text.len());
            self.sink.space(0);
        }
    }

    #[inline(always)]
    fn word(&mut self, from: usize, to: usize, shape: usize) {
        self.sink.ends_at(to);
        self.sink.word(shape * LENGTHS + (to - from).min(LENGTHS - 1), self.text, from, to);
    }

    /// Reads the run of digits `from..to`. `before` encodes what precedes it: nothing, a space,
    /// punctuation, or another part of the run. It becomes a part of the event's key.
    #[inline]
    fn digits(&mut self, from: usize, to: usize, before: usize) {
        self.sink.ends_at(to);
        let length = to - from;
        if length <= 15 {
            self.sink.digits(before * 16 + length, length);
        } else {
            self.many_digits(from, to, before);
        }
    }

    #[inline(never)]
    fn many_digits(&mut self, from: usize, to: usize, before: usize) {
        let length = to - from;
        let run = self.text.get(from..to).unwrap_or_default();
        let same = run.iter().filter(|byte| run.first() == Some(byte)).count();
        let alike = usize::from(same * 4 >= length * 3);
        self.sink.digits(64 + alike + 2 * usize::from(before == 1), length);
    }

    /// Reads a run of letters and digits that is not a single word or number: an id, or several
    /// parts. `prefix` is the word prefix of its first part. Returns the offset after the event.
    #[inline(never)]
    fn mixed(&mut self, start: usize, end: usize, prefix: usize) -> usize {
        let window = Window::load(self.text, start);
        let run = window.cut(start, end - start);
        match if end - start >= 8 { is_id(self.text, start, end, run) } else { None } {
            Some(swallows) => self.id(start, end, swallows),
            None => {
                self.pieces(window, start, end, prefix);
                end
            }
        }
    }

    /// Reads the id `start..end`. If `swallows`, extends the id by the rest of a base64 text.
    /// Returns the offset after the id.
    fn id(&mut self, start: usize, end: usize, swallows: bool) -> usize {
        let continues = |byte: &u8| {
            matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_') || class(*byte).is_alphanumeric()
        };
        let rest = self.text.iter().skip(end);
        let more = if swallows { rest.take_while(|byte| continues(byte)).count() } else { 0 };
        self.sink.ends_at(end + more);
        self.sink.id(self.text.get(start..end + more).unwrap_or_default());
        end + more
    }

    /// Reads the mixed run `start..end` as separate words and digit runs. `prefix` is the word
    /// prefix of the first one.
    #[inline]
    fn pieces(&mut self, mut window: Window, start: usize, end: usize, mut prefix: usize) {
        let text = self.text;
        let mut from = start;
        while from < end {
            window.reach(text, from);
            let to;
            if window.has(window.digit, from) {
                to = from + window.run(text, from, |window| window.digit);
                self.digits(from, to, if from > start { INSIDE } else { prefix.min(2) });
                prefix = AFTER_DIGIT;
            } else {
                let upper = window.run(text, from, |window| window.upper);
                to = from + upper + window.run(text, from + upper, |window| window.lower);
                let case = match upper {
                    0 => 0,
                    1 if to - from > 1 => 1,
                    _ => 2,
                };
                self.word(from, to, prefix * 3 + case);
                prefix = AFTER_HUMP;
            }
            from = to;
        }
    }

    /// Reads a run of white space. A last space belongs to the next event instead. `rest_is_blank`
    /// is true if only spaces follow the first byte. Returns true if there is such a last space.
    #[inline(never)]
    fn space(&mut self, start: usize, end: usize, rest_is_blank: bool) -> bool {
        const MAX_MEASURED_SPACES: usize = 128;
        let (text, length) = (self.text, end - start);
        let run = text.get(start..end).unwrap_or_default();
        let after_punctuation = match start.checked_sub(1).and_then(|before| class_at(text, before))
        {
            Some(class) => class == Class::Punctuation,
            None => true,
        };
        let (mut newlines, mut indent, mut tabs) = (1usize, length - 1, 0usize);
        if run.first() != Some(&b'\n') || !rest_is_blank {
            (newlines, indent) = (0, 0);
            let same = |a: u8, b: u8| a == b || (a == b'\r' && b == b'\n');
            let changes = run.iter().zip(run.iter().skip(1)).filter(|(a, b)| !same(**a, **b));
            self.sink.mixed_space(changes.count());
            for byte in run {
                match byte {
                    b' ' => indent += 1,
                    b'\n' => (newlines, indent, tabs) = (newlines + 1, 0, 0),
                    b'\r' => {}
                    _ => (indent, tabs) = (indent + 1, tabs + 1),
                }
            }
        }
        if length > MAX_MEASURED_SPACES {
            self.sink.tail(
                (length - MAX_MEASURED_SPACES) * if newlines > 16 || tabs > 16 { 16 } else { 2 },
            );
        }
        let next = match class_at(text, end) {
            None => 3,
            Some(class) if class.is_letter() => 0,
            Some(Class::Digit) => 1,
            Some(_) => 2,
        };
        let mut event = |end, indent| {
            self.sink.ends_at(end);
            self.sink.space(space_key(after_punctuation, newlines, indent, tabs, next));
        };
        if next == 3 || run.last() != Some(&b' ') {
            event(end, indent);
            return false;
        }
        if length > 1 {
            event(end - 1, indent - 1);
        }
        true
    }

    /// Reads a character beyond ASCII. Returns the offset after it, and the prefix that it forms
    /// for the next word.
    fn wide(&mut self, at: usize) -> (usize, Pending) {
        let text = self.text;
        let width = match text.get(at) {
            Some(..0xC0) | None => 1,
            Some(0xC0..0xE0) => 2,
            Some(0xE0..0xF0) => 3,
            Some(_) => 4,
        };
        let end = (at + width).min(text.len());
        let before = at.checked_sub(1).and_then(|before| class_at(text, before));
        self.sink.ends_at(end);
        let letter = |back: usize| {
            let byte = at.checked_sub(back).and_then(|before| text.get(before)).copied();
            byte.filter(u8::is_ascii_alphabetic).unwrap_or(b' ')
        };
        let first = before != Some(Class::NonAscii);
        let ascii = first.then(|| [letter(2), letter(1)]);
        self.sink.wide(ascii, text.get(at..end).unwrap_or_default());
        (end, if width == 2 { Pending::TWO_BYTES } else { Pending::NOTHING })
    }
}

#[inline]
fn class_at(text: &[u8], at: usize) -> Option<Class> {
    text.get(at).map(|byte| class(*byte))
}

/// Returns `None` if the run of letters and digits `start..end` is not an id, and otherwise true if
/// base64 may begin with it. `run` has the run's bit sets if one window contains all of it.
fn is_id(text: &[u8], start: usize, end: usize, run: Option<Run>) -> Option<bool> {
    let length = end - start;
    let (digits, lower, upper, changes) = match run {
        Some(run) => (run.digit != 0, run.lower != 0, run.upper != 0, run.changes()),
        None => {
            let run = text.get(start..end).unwrap_or_default();
            let classes = || run.iter().map(|byte| class(*byte));
            let any = |of| classes().any(|class| class == of);
            let changes = classes().zip(classes().skip(1)).filter(|(a, b)| a != b).count();
            (any(Class::Digit), any(Class::Lower), any(Class::Upper), changes)
        }
    };
    let mixed = digits && (lower || upper) && changes * 5 >= length;
    (mixed || (length >= 20 && changes * 4 >= length)).then_some(lower && upper && length >= 16)
}

const OTHER_MARK: u8 = 7;

/// For each ASCII character, the word prefix that it forms if a letter follows.
static MARKS: [u8; 128] = {
    let mut marks = [OTHER_MARK; 128];
    let mut mark = 0u8;
    #[allow(clippy::indexing_slicing, reason = "evaluated at compile time, bounded by the loop")]
    while mark < 128 {
        marks[mark as usize] = match mark {
            b'"' | b'\'' | b'`' => 2,
            b'_' => 3,
            b'/' => 4,
            b'.' => 5,
            b'-' => 6,
            _ => OTHER_MARK,
        };
        mark += 1;
    }
    marks
};

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
