//! The measured tables of a tokenizer: mean token starts for each kind of lexical event, counted with the o200k, cl100k and
//! legacy Claude tokenizers over permissively licensed text.
//!
//! A file holds, in this order, little-endian `i16` in 1/256 token: words by key, words by shape, digit runs, ids, unicode escapes;
//! then bytes: punctuation, white space, letter pairs, id pairs, characters of two, three and four bytes.

use super::scan::{
    DIGIT_KEYS, ESCAPE_KEYS, PUNCTUATION_KEYS, SPACE_KEYS, Sink, WORD_KEYS, WORD_SHAPES,
};

pub(super) const LETTER_BITS: u32 = 15;
pub(super) const ID_SYMBOLS: usize = 63;
pub(super) const TWO_BYTES: usize = 2 * 2048;
pub(super) const THREE_BYTES: usize = 2 * 1024;
pub(super) const FOUR_BYTES: usize = 4096;

/// Length of a table file in bytes.
pub(super) const FILE_BYTES: usize = 2 * (WORD_KEYS + WORD_SHAPES + DIGIT_KEYS + 1 + ESCAPE_KEYS)
    + PUNCTUATION_KEYS
    + SPACE_KEYS
    + (1 << LETTER_BITS)
    + ID_SYMBOLS * ID_SYMBOLS
    + TWO_BYTES
    + THREE_BYTES
    + FOUR_BYTES;

/// One token in the unit that sums are kept in.
pub(super) const ONE: i64 = 4096;

/// A table file, split into its parts.
#[derive(Clone, Copy)]
pub(super) struct Tables {
    words: &'static [u8],
    word_letters: &'static [u8],
    digits: &'static [u8],
    ids: &'static [u8],
    escapes: &'static [u8],
    punctuation: &'static [u8],
    space: &'static [u8],
    letter_pairs: &'static [u8; 1 << LETTER_BITS],
    id_pairs: &'static [u8],
    two_bytes: &'static [u8],
    three_bytes: &'static [u8],
    four_bytes: &'static [u8],
}

impl Tables {
    /// Splits a file; only slices, so a fresh sandbox pays nothing for it.
    pub(super) fn new(file: &'static [u8; FILE_BYTES]) -> Self {
        let rest = std::cell::Cell::new(file.as_slice());
        let take = |length: usize| {
            let (part, after) = rest.get().split_at_checked(length).unwrap_or_default();
            rest.set(after);
            part
        };
        Self {
            words: take(2 * WORD_KEYS),
            word_letters: take(2 * WORD_SHAPES),
            digits: take(2 * DIGIT_KEYS),
            ids: take(2),
            escapes: take(2 * ESCAPE_KEYS),
            punctuation: take(PUNCTUATION_KEYS),
            space: take(SPACE_KEYS),
            letter_pairs: take(1 << LETTER_BITS).first_chunk().unwrap_or(&[0; 1 << LETTER_BITS]),
            id_pairs: take(ID_SYMBOLS * ID_SYMBOLS),
            two_bytes: take(TWO_BYTES),
            three_bytes: take(THREE_BYTES),
            four_bytes: take(FOUR_BYTES),
        }
    }
}

#[inline]
fn word_at(table: &[u8], at: usize) -> i64 {
    match table.get(2 * at..2 * at + 2) {
        Some(&[low, high]) => i64::from(i16::from_le_bytes([low, high])) * 16,
        _ => 0,
    }
}

#[inline]
fn byte_at(table: &[u8], at: usize) -> i64 {
    table.get(at).copied().unwrap_or(0).into()
}

/// What a short word came to: texts say the same words again and again, JSON above all.
#[derive(Clone, Copy, Default)]
pub(super) struct Word {
    /// Its letters, the first one lowest.
    letters: u64,
    key: u32,
    cost: i32,
}

/// How many words are remembered.
pub(super) const WORDS: usize = 256;

/// Adds up the cost of events.
pub(super) struct Sum<'a> {
    tables: Tables,
    /// The words that were there, each at one place; empty where the text is too short for it to pay.
    words: &'a mut [Word],
    /// In 1/4096 token.
    pub(super) total: i64,
    /// What runs that no natural text has may cost beyond that, in 1/4096 token: by their most, not by the mean of what was measured.
    pub(super) caution: i64,
}

/// Goes through bytes four a turn, and without a turn for the rest: the component has its deadline checked at each.
#[inline]
fn in_fours(bytes: &[u8], mut step: impl FnMut(u8)) {
    let (fours, rest) = bytes.as_chunks::<4>();
    for [a, b, c, d] in fours {
        step(*a);
        step(*b);
        step(*c);
        step(*d);
    }
    match *rest {
        [a] => step(a),
        [a, b] => {
            step(a);
            step(b);
        }
        [a, b, c] => {
            step(a);
            step(b);
            step(c);
        }
        _ => {}
    }
}

/// The bucket of each place between two letters: the chance of a token boundary there depends on the two letters before it, the one after, and the next.
#[inline]
pub(super) fn for_each_boundary(letters: &[u8], mut bucket: impl FnMut(usize)) {
    if let [first, second, rest @ ..] = letters {
        let mut window = (u32::from(first & 31) << 5) | u32::from(second & 31);
        let mut step = |next: u8| {
            window = ((window << 5) | u32::from(next & 31)) & 0xF_FFFF;
            bucket((window.wrapping_mul(0x9E37_79B1) >> (32 - LETTER_BITS)) as usize);
        };
        in_fours(rest, &mut step);
        step(0);
    }
}

/// The place of a character in the tables of wide ones: its width in bytes, and its row.
#[inline]
pub(super) fn wide_key(first: bool, character: &[u8]) -> (usize, usize) {
    let first = usize::from(first);
    match *character {
        [a, b] => (2, first * 2048 + usize::from(a & 31) * 64 + usize::from(b & 63)),
        [a, b, _] => (3, first * 1024 + usize::from(a & 15) * 64 + usize::from(b & 63)),
        [_, b, c, _] => (4, usize::from(b & 63) * 64 + usize::from(c & 63)),
        _ => (1, 0),
    }
}

/// Letters from which a word is no word.
const LONG_WORD: usize = 32;

impl<'a> Sum<'a> {
    pub(super) fn new(tables: Tables, words: &'a mut [Word]) -> Self {
        Self { tables, words, total: 0, caution: 0 }
    }

    fn cost(&self, key: usize, shape: usize, letters: &[u8]) -> i64 {
        let mut boundaries = 0i64;
        for_each_boundary(letters, |bucket| {
            boundaries += byte_at(self.tables.letter_pairs, bucket)
        });
        word_at(self.tables.words, key)
            + ((word_at(self.tables.word_letters, shape) * boundaries) >> 8)
    }
}

impl Sink for Sum<'_> {
    #[inline]
    fn word(&mut self, key: usize, shape: usize, text: &[u8], from: usize, to: usize) {
        let letters = text.get(from..to).unwrap_or_default();
        if let Some(eight) = text.get(from..).and_then(|rest| rest.first_chunk())
            && letters.len() <= 8
        {
            let eight =
                u64::from_le_bytes(*eight) & u64::MAX.unbounded_shr(64 - 8 * letters.len() as u32);
            let place = (eight ^ (key as u64) << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56;
            if let Some(word) = self.words.get(place as usize) {
                if word.letters == eight && word.key == key as u32 {
                    self.total += i64::from(word.cost);
                    return;
                }
                let cost = self.cost(key, shape, letters);
                self.total += cost;
                let cost = cost as i32;
                if let Some(word) = self.words.get_mut(place as usize) {
                    *word = Word { letters: eight, key: key as u32, cost };
                }
                return;
            }
        }
        let cost = self.cost(key, shape, letters);
        self.total += cost;
        if letters.len() > LONG_WORD {
            self.caution += (letters.len() as i64 * ONE / 2 - cost).max(0);
        }
    }

    #[inline]
    fn punctuation(&mut self, key: usize) {
        self.total += byte_at(self.tables.punctuation, key) << 6;
    }

    #[inline]
    fn space(&mut self, key: usize) {
        self.total += byte_at(self.tables.space, key) << 6;
    }

    #[inline]
    fn digits(&mut self, key: usize, length: usize) {
        let cost = word_at(self.tables.digits, key);
        self.total += if key >= 64 { cost * length as i64 } else { cost };
    }

    fn id(&mut self, run: &[u8]) {
        let mut pairs = 0i64;
        for_each_pair(run, |pair| pairs += byte_at(self.tables.id_pairs, pair));
        self.total += word_at(self.tables.ids, 0) + (pairs << 4);
    }

    fn unicode_escape(&mut self, key: usize) {
        self.total += word_at(self.tables.escapes, key);
    }

    fn wide(&mut self, first: bool, character: &[u8]) {
        self.total += match wide_key(first, character) {
            (2, row) => byte_at(self.tables.two_bytes, row) << 6,
            (3, row) => byte_at(self.tables.three_bytes, row) << 6,
            (4, row) => byte_at(self.tables.four_bytes, row) << 6,
            _ => ONE,
        };
    }

    /// A repetition such as `{"{"{"` is taken for far less than it costs by its pairs; lines of one character are common, and cheap.
    fn long_punctuation(&mut self, length: usize, alike: bool) {
        if !alike {
            self.caution += length as i64 * ONE / 3;
        }
    }

    fn tail(&mut self, cost: usize) {
        self.total += (cost as i64) << 4;
    }
}

/// The row of each byte in the id table: digits, lower, upper, then one for all separators.
static ID_ROWS: [u8; 256] = {
    let mut rows = [ID_SYMBOLS as u8 - 1; 256];
    let mut byte = 0u8;
    #[allow(clippy::indexing_slicing, reason = "evaluated at compile time, bounded by the loop")]
    while byte < 128 {
        rows[byte as usize] = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'z' => byte - b'a' + 10,
            b'A'..=b'Z' => byte - b'A' + 36,
            _ => ID_SYMBOLS as u8 - 1,
        };
        byte += 1;
    }
    rows
};

/// The place of each two neighbours of an id in the table of pairs.
#[inline]
pub(super) fn for_each_pair(run: &[u8], mut pair: impl FnMut(usize)) {
    let row = |byte: u8| usize::from(ID_ROWS.get(usize::from(byte)).copied().unwrap_or_default());
    let Some((first, rest)) = run.split_first() else { return };
    let mut left = row(*first);
    let step = |byte: u8| {
        let right = row(byte);
        pair(left * ID_SYMBOLS + right);
        left = right;
    };
    in_fours(rest, step);
}
