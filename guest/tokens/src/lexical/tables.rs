//! The measured tables of a tokenizer: mean token starts for each kind of lexical event.
//!
//! The tables were trained with the o200k, cl100k and legacy Claude tokenizers on permissively
//! licensed text. A file first has little-endian `i16` in 1/256 token: words by key, words by
//! shape, digit runs, ids, Unicode escapes. Bytes follow: punctuation, white space, letter pairs,
//! id pairs, characters of two, three and four bytes.

use super::characters::{Characters, RUN, SPACE, code_point};
use super::scan::{
    DIGIT_KEYS, ESCAPE_KEYS, LENGTHS, PUNCTUATION_KEYS, SPACE_KEYS, Sink, WORD_KEYS, WORD_SHAPES,
};
use super::words::{ONE, WORDS, Word, WordsCost, further_cost};

pub(super) const LETTER_BITS: u32 = 15;
pub(super) const ID_SYMBOLS: usize = 63;
pub(super) const TWO_BYTES: usize = 2 * 2048;
pub(super) const THREE_BYTES: usize = 2 * 1024;
pub(super) const FOUR_BYTES: usize = 4096;

/// The size of a file of cost tables, in bytes.
pub(super) const FILE_BYTES: usize = 2 * (WORD_KEYS + WORD_SHAPES + DIGIT_KEYS + 1 + ESCAPE_KEYS)
    + PUNCTUATION_KEYS
    + SPACE_KEYS
    + (1 << LETTER_BITS)
    + ID_SYMBOLS * ID_SYMBOLS
    + TWO_BYTES
    + THREE_BYTES
    + FOUR_BYTES;

/// The cost tables measured for one tokenizer. The arrays have fixed lengths, so that the compiler
/// can omit most bounds checks.
pub(super) struct Tables {
    words: [i16; WORD_KEYS],
    word_letters: [i16; WORD_SHAPES],
    digits: [i16; DIGIT_KEYS],
    ids: [i16; 1],
    escapes: [i16; ESCAPE_KEYS],
    punctuation: [u8; PUNCTUATION_KEYS],
    space: [u8; SPACE_KEYS],
    letter_pairs: [u8; 1 << LETTER_BITS],
    id_pairs: [u8; ID_SYMBOLS * ID_SYMBOLS],
    two_bytes: [u8; TWO_BYTES],
    three_bytes: [u8; THREE_BYTES],
    four_bytes: [u8; FOUR_BYTES],
}

impl Tables {
    /// Parses the tables from the bytes of a table file. For built-in files, the compiler evaluates
    /// this.
    pub(super) const fn read(file: &[u8; FILE_BYTES]) -> Self {
        let (words, at) = shorts(file, 0);
        let (word_letters, at) = shorts(file, at);
        let (digits, at) = shorts(file, at);
        let (ids, at) = shorts(file, at);
        let (escapes, at) = shorts(file, at);
        let (punctuation, at) = bytes(file, at);
        let (space, at) = bytes(file, at);
        let (letter_pairs, at) = bytes(file, at);
        let (id_pairs, at) = bytes(file, at);
        let (two_bytes, at) = bytes(file, at);
        let (three_bytes, at) = bytes(file, at);
        let (four_bytes, _) = bytes(file, at);
        Self {
            words,
            word_letters,
            digits,
            ids,
            escapes,
            punctuation,
            space,
            letter_pairs,
            id_pairs,
            two_bytes,
            three_bytes,
            four_bytes,
        }
    }
}

/// Returns `N` bytes of a table file from the offset `from` on, and the offset after them.
#[allow(clippy::indexing_slicing, reason = "the parts of a file are as long as the file")]
const fn bytes<const N: usize>(file: &[u8; FILE_BYTES], from: usize) -> ([u8; N], usize) {
    let mut part = [0; N];
    let mut at = 0;
    while at < N {
        part[at] = file[from + at];
        at += 1;
    }
    (part, from + N)
}

/// Returns `N` little-endian numbers of a table file from the offset `from` on, and the offset
/// after them.
#[allow(clippy::indexing_slicing, reason = "the parts of a file are as long as the file")]
const fn shorts<const N: usize>(file: &[u8; FILE_BYTES], from: usize) -> ([i16; N], usize) {
    let mut part = [0; N];
    let mut at = 0;
    while at < N {
        part[at] = i16::from_le_bytes([file[from + 2 * at], file[from + 2 * at + 1]]);
        at += 1;
    }
    (part, from + 2 * N)
}

#[inline]
fn word_at<const N: usize>(table: &[i16; N], at: usize) -> i64 {
    table.get(at).map_or(0, |cost| i64::from(*cost) * 16)
}

#[inline]
fn byte_at<const N: usize>(table: &[u8; N], at: usize) -> i64 {
    table.get(at).copied().unwrap_or(0).into()
}

/// A sum of the costs of the lexical events of a text.
pub(super) struct Sum<'a> {
    tables: &'a Tables,
    /// The cache of word costs. `None` if the text is too short to benefit from a cache.
    words: Option<&'a mut [Word; WORDS]>,
    /// The cost of the events so far, in 1/4096 token.
    pub(super) total: i64,
    /// The extra cost, in 1/4096 token, of runs that natural text does not have. It is the
    /// difference between their maximum and mean cost.
    pub(super) caution: i64,
    /// The extra cost, in 1/4096 token, of characters at their maximum cost.
    greatest_caution: i64,
    /// The cost and the extra cost of the words so far.
    words_cost: WordsCost,
    /// The two characters before the next non-ASCII character.
    before: [u32; 2],
    characters: Characters,
}

/// Calls `step` for each byte, in a loop of four bytes per iteration, because the WASM component
/// checks its deadline in each iteration.
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

/// Calls `bucket` for each boundary between two letters of a word, with an index into the table of
/// letter pairs. The probability that a token begins there depends on the two letters before and
/// after it.
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

/// Returns the position of a character in the tables for characters beyond ASCII: its width in
/// bytes, and its row. `first` is true for the first in a run of such characters.
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

/// The minimum number of characters of an id without lower case that may be base32.
const MIN_BASE32: usize = 16;

/// The maximum number of letters of a run that is treated as a natural word.
const LONG_WORD: usize = 23;

impl<'a> Sum<'a> {
    pub(super) fn new(
        tables: &'a Tables,
        characters: Characters,
        words: Option<&'a mut [Word; WORDS]>,
    ) -> Self {
        Self {
            tables,
            characters,
            words,
            total: 0,
            caution: 0,
            greatest_caution: 0,
            words_cost: WordsCost::default(),
            before: [SPACE; 2],
        }
    }

    /// Returns the extra cost, in 1/4096 token, of characters and words at their maximum cost.
    pub(super) fn greatest_caution(&self) -> i64 {
        self.greatest_caution + self.words_cost.caution()
    }

    /// Returns the part of the extra costs that may itself be too low, in 1/4096 token. Excludes
    /// that of unusual words among usual ones, whose errors average out.
    pub(super) fn uncertain(&self) -> i64 {
        self.caution + self.greatest_caution + self.words_cost.uncertain()
    }

    #[inline]
    fn cost(&self, key: usize, letters: &[u8]) -> i64 {
        let mut boundaries = 0i64;
        for_each_boundary(letters, |bucket| {
            boundaries += byte_at(&self.tables.letter_pairs, bucket)
        });
        word_at(&self.tables.words, key)
            + ((word_at(&self.tables.word_letters, key / LENGTHS) * boundaries) >> 8)
    }

    /// Adds the cost of a word of up to eight bytes that is not in the cache, and stores it in the
    /// cache.
    #[inline(never)]
    fn new_word(&mut self, key: usize, letters: u64) {
        let bytes = letters.to_le_bytes();
        let cost = self.cost(key, bytes.get(..key % LENGTHS).unwrap_or_default());
        let further = further_cost(key % LENGTHS, cost);
        self.total += cost;
        self.words_cost.add(cost, further);
        if let Some(words) = &mut self.words
            && let Some(word) = words.get_mut(usize::from(Word::place(key, letters)))
        {
            let further = u16::try_from(further).unwrap_or(u16::MAX);
            *word = Word { letters, key: key as u16, further, cost: cost as i32 };
        }
    }

    /// Adds the extra cost of a single letter. It is one token together with the mark before it,
    /// such as `"x`, or two tokens.
    #[inline(never)]
    fn single_letter(&mut self, key: usize, text: &[u8], at: usize) {
        let Some(mark) = at.checked_sub(1).and_then(|before| text.get(before)) else { return };
        let letter = text.get(at).copied().unwrap_or_default();
        let tokens = match mark {
            0x80.. => 1,
            mark if !mark.is_ascii_punctuation() => return,
            mark if self.characters.is_pair(*mark, letter) => 1,
            _ => 2,
        };
        self.greatest_caution += (tokens * ONE - word_at(&self.tables.words, key)).max(0);
    }

    #[inline(never)]
    fn long_word(&mut self, key: usize, letters: &[u8]) {
        let cost = self.cost(key, letters);
        self.total += cost;
        self.words_cost.add(cost, further_cost(letters.len(), cost));
        if letters.len() > LONG_WORD {
            self.caution += (letters.len() as i64 * ONE / 2 - cost).max(0);
        }
    }
}

impl Sink for Sum<'_> {
    #[inline(always)]
    fn word(&mut self, key: usize, text: &[u8], from: usize, to: usize) {
        if to - from == 1 {
            self.single_letter(key, text, from);
        }
        if to - from <= 8
            && let Some(eight) = text.get(from..).and_then(|rest| rest.first_chunk())
        {
            let beyond = 64u32.wrapping_sub(8 * (to - from) as u32);
            let letters = u64::from_le_bytes(*eight) & u64::MAX.wrapping_shr(beyond);
            if let Some(words) = &self.words {
                let word = words.get(usize::from(Word::place(key, letters)));
                if let Some(word) = word
                    && word.letters == letters
                    && word.key == key as u16
                {
                    let cost = i64::from(word.cost);
                    self.total += cost;
                    return self.words_cost.add(cost, word.further.into());
                }
            }
            return self.new_word(key, letters);
        }
        self.long_word(key, text.get(from..to).unwrap_or_default());
    }

    #[inline]
    fn punctuation(&mut self, key: usize) {
        self.total += byte_at(&self.tables.punctuation, key) << 6;
    }

    #[inline]
    fn space(&mut self, key: usize) {
        self.total += byte_at(&self.tables.space, key) << 6;
    }

    #[inline]
    fn digits(&mut self, key: usize, length: usize) {
        let cost = word_at(&self.tables.digits, key);
        self.total += if key >= 64 { cost * length as i64 } else { cost };
    }

    fn id(&mut self, run: &[u8]) {
        let mut pairs = 0i64;
        for_each_pair(run, |pair| pairs += byte_at(&self.tables.id_pairs, pair));
        let cost = word_at(&self.tables.ids, 0) + (pairs << 4);
        self.total += cost;
        // The pairs are those of hashes. Other encodings have fewer tokens of several characters.
        let has = |is: fn(&u8) -> bool| run.iter().any(is);
        self.greatest_caution += match (has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase)) {
            (true, true) => cost / 40,
            (false, true) if run.len() >= MIN_BASE32 => cost / 16,
            _ => 0,
        };
    }

    fn unicode_escape(&mut self, key: usize) {
        self.total += word_at(&self.tables.escapes, key);
    }

    fn wide(&mut self, ascii: Option<[u8; 2]>, bytes: &[u8]) {
        let cost = match wide_key(ascii.is_some(), bytes) {
            (2, row) => byte_at(&self.tables.two_bytes, row) << 6,
            (3, row) => byte_at(&self.tables.three_bytes, row) << 6,
            (4, row) => byte_at(&self.tables.four_bytes, row) << 6,
            _ => ONE,
        };
        self.total += cost;
        let character = code_point(bytes);
        if let Some(ascii) = ascii {
            self.before = ascii.map(u32::from);
        }
        // A word begins a token. A sequence that tokens contain has its mean cost, any other the
        // greatest.
        let begins = self.before[1] == SPACE || self.before == [character; 2];
        if begins || !self.characters.is_usual(self.before, character) {
            self.greatest_caution += (self.characters.tokens(character) * ONE - cost).max(0);
        }
        self.before = [self.before[1], character];
    }

    /// Adds an extra cost for a long punctuation run. Repeated pairs such as `{"{"{"` would be
    /// estimated far too low. Lines of one repeated character are common and cheap.
    fn long_punctuation(&mut self, run: &[u8], alike: bool) {
        if !alike {
            self.caution += run.len() as i64 * ONE / 3;
            return;
        }
        let tokens = run.iter().map(|byte| self.characters.run_tokens(*byte)).sum::<i64>();
        let changes = run.windows(2).filter(|pair| pair.first() != pair.last()).count();
        self.greatest_caution += tokens * ONE / RUN as i64 + changes as i64 * ONE * 9 / 16;
    }

    /// Adds an extra cost for a run that is not an operator. The key is a hash, which such a run
    /// may share with a cheap one.
    fn spaced_punctuation(&mut self, key: usize, run: &[u8]) {
        let changes = run.windows(2).filter(|pair| pair.first() != pair.last()).count();
        if changes > 1 {
            let cost = byte_at(&self.tables.punctuation, key) << 6;
            self.greatest_caution += (changes as i64 * ONE * 4 / 5 - cost).max(0);
        }
    }

    fn spaced_escape(&mut self) {
        self.greatest_caution += ONE / 2;
    }

    fn css_escape(&mut self) {
        self.greatest_caution += ONE * 3 / 2;
    }

    fn mixed_space(&mut self, changes: usize) {
        self.greatest_caution += changes.saturating_sub(2) as i64 * ONE;
    }

    fn tail(&mut self, cost: usize) {
        self.total += (cost as i64) << 4;
    }
}

/// For each byte, its row in the table of id pairs: one for each digit, lower-case and upper-case
/// letter, and one for all separators.
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

/// Calls `pair` for each two adjacent bytes of an id, with their index in the table of id pairs.
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
