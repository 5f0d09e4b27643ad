//! Trains the tables: the mean number of token starts in each kind of event, counted with a real
//! tokenizer.
//!
//! The tables are means of events, not a regression on totals. Errors in one kind of text then do
//! not hide in another.

use super::characters::{
    Characters, EAST_ASIAN, ENTRIES_AT, PAIR, RUN, SEQUENCES_AT, SPACE, entry, sequence_hashes,
};
use super::scan::{
    DIGIT_KEYS, ESCAPE_KEYS, LENGTHS, PUNCTUATION_KEYS, SPACE_KEYS, Sink, WORD_KEYS, WORD_SHAPES,
    scan,
};
use super::tables::{
    FILE_BYTES, FOUR_BYTES, ID_SYMBOLS, LETTER_BITS, Sum, THREE_BYTES, TWO_BYTES, Tables,
    for_each_boundary, for_each_pair, wide_key,
};
use super::words::ONE;

/// The size of a file of cost tables, in bytes.
pub const TABLE_BYTES: usize = FILE_BYTES;

/// The number and sum of the values counted for one key of a table.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    count: f64,
    sum: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
    }

    /// Returns the mean of the counted values, weighted with `usual`. With fewer values, the result
    /// is closer to `usual`.
    fn value(&self, usual: f64) -> f64 {
        const DRAW: f64 = 2.0;
        (self.sum + DRAW * usual) / (self.count + DRAW)
    }
}

/// A word in the training texts: its key, the number of tokens that begin in it, and the table
/// indices of the boundaries inside it.
struct WordCount {
    key: usize,
    starts: f64,
    buckets: Vec<usize>,
}

/// Counts of lexical events and token starts in training texts, from which the tables are computed.
pub struct Trainer {
    letters: Vec<Mean>,
    words: Vec<WordCount>,
    digits: Vec<Mean>,
    id_pairs: Vec<Mean>,
    ids: Vec<(f64, Vec<usize>)>,
    escapes: Vec<Mean>,
    punctuation: Vec<Mean>,
    space: Vec<Mean>,
    wide: [Vec<Mean>; 3],
}

impl Default for Trainer {
    fn default() -> Self {
        let means = |length| vec![Mean::default(); length];
        Self {
            letters: means(1 << LETTER_BITS),
            words: Vec::new(),
            digits: means(DIGIT_KEYS),
            id_pairs: means(ID_SYMBOLS * ID_SYMBOLS),
            ids: Vec::new(),
            escapes: means(ESCAPE_KEYS),
            punctuation: means(PUNCTUATION_KEYS),
            space: means(SPACE_KEYS),
            wide: [means(TWO_BYTES), means(THREE_BYTES), means(FOUR_BYTES)],
        }
    }
}

/// A receiver that counts the events of one training text, with the tokens that begin in them.
struct Count<'t> {
    trainer: &'t mut Trainer,
    /// For each byte of the text, true if a token begins there.
    starts: &'t [bool],
    from: usize,
    to: usize,
}

impl Count<'_> {
    fn in_event(&self) -> f64 {
        let starts = self.starts.get(self.from..self.to).unwrap_or_default();
        starts.iter().filter(|start| **start).count() as f64
    }

    /// Returns, for each boundary in the last `length` bytes of the event, 1 if a token begins
    /// there, else 0.
    fn inside(&self, length: usize) -> Vec<f64> {
        let first = self.to.saturating_sub(length) + 1;
        self.starts
            .get(first..self.to)
            .unwrap_or_default()
            .iter()
            .map(|start| f64::from(u8::from(*start)))
            .collect()
    }
}

impl Sink for Count<'_> {
    fn ends_at(&mut self, end: usize) {
        self.from = self.to;
        self.to = end;
    }

    fn word(&mut self, key: usize, text: &[u8], from: usize, to: usize) {
        let letters = text.get(from..to).unwrap_or_default();
        let starts = self.in_event();
        let inside = self.inside(letters.len());
        let mut buckets = Vec::new();
        for_each_boundary(letters, |bucket| buckets.push(bucket));
        for (bucket, start) in buckets.iter().zip(inside) {
            if let Some(mean) = self.trainer.letters.get_mut(*bucket) {
                mean.add(start);
            }
        }
        self.trainer.words.push(WordCount { key, starts, buckets });
    }

    fn punctuation(&mut self, key: usize) {
        let starts = self.in_event();
        if let Some(mean) = self.trainer.punctuation.get_mut(key) {
            mean.add(starts);
        }
    }

    fn space(&mut self, key: usize) {
        let starts = self.in_event();
        if let Some(mean) = self.trainer.space.get_mut(key) {
            mean.add(starts);
        }
    }

    fn digits(&mut self, key: usize, length: usize) {
        let starts = self.in_event();
        let value = if key >= 64 { starts / length.max(1) as f64 } else { starts };
        if let Some(mean) = self.trainer.digits.get_mut(key) {
            mean.add(value);
        }
    }

    fn id(&mut self, run: &[u8]) {
        let starts = self.in_event();
        let mut pairs = Vec::new();
        for_each_pair(run, |pair| pairs.push(pair));
        for (pair, start) in pairs.iter().zip(self.inside(run.len())) {
            if let Some(mean) = self.trainer.id_pairs.get_mut(*pair) {
                mean.add(start);
            }
        }
        self.trainer.ids.push((starts, pairs));
    }

    fn unicode_escape(&mut self, key: usize) {
        let starts = self.in_event();
        if let Some(mean) = self.trainer.escapes.get_mut(key) {
            mean.add(starts);
        }
    }

    fn wide(&mut self, ascii: Option<[u8; 2]>, character: &[u8]) {
        let starts = self.in_event();
        let (width, row) = wide_key(ascii.is_some(), character);
        let table = width.checked_sub(2).and_then(|at| self.trainer.wide.get_mut(at));
        if let Some(mean) = table.and_then(|table| table.get_mut(row)) {
            mean.add(starts);
        }
    }

    // Further costs depend on the text, not on counted events.

    fn long_punctuation(&mut self, _: &[u8], _: bool) {}

    fn spaced_punctuation(&mut self, _: usize, _: &[u8]) {}

    fn spaced_escape(&mut self) {}

    fn css_escape(&mut self) {}

    fn mixed_space(&mut self, _: usize) {}

    fn tail(&mut self, _: usize) {}
}

impl Trainer {
    /// Counts words, numbers, punctuation and other lexical classes in a training text. `starts`
    /// has one element per byte: true if a token begins there.
    pub fn add(&mut self, text: &[u8], starts: &[bool]) {
        scan(text, &mut Count { trainer: self, starts, from: 0, to: 0 });
    }

    /// Returns the bytes of the table file computed from the counts.
    #[must_use]
    pub fn tables(&self) -> Vec<u8> {
        let usual = |means: &[Mean], otherwise: f64| {
            let (count, sum) = means
                .iter()
                .fold((0.0, 0.0), |(count, sum), mean| (count + mean.count, sum + mean.sum));
            if count > 0.0 { sum / count } else { otherwise }
        };
        let letter = usual(&self.letters, 0.1);
        let letters: Vec<f64> = self.letters.iter().map(|mean| mean.value(letter)).collect();
        let (bases, slopes) = self.words(&letters);
        let pair = usual(&self.id_pairs, 0.6);
        let pairs: Vec<f64> = self.id_pairs.iter().map(|mean| mean.value(pair)).collect();
        let id = self.ids.iter().fold(Mean::default(), |mut mean, (starts, used)| {
            mean.add(starts - used.iter().filter_map(|at| pairs.get(*at)).sum::<f64>());
            mean
        });
        let mut file = Vec::with_capacity(FILE_BYTES);
        let means = |table: &[Mean], otherwise: f64| -> Vec<f64> {
            let usual = usual(table, otherwise);
            table.iter().map(|mean| mean.value(usual)).collect()
        };
        let digits: Vec<f64> = self
            .digits
            .iter()
            .enumerate()
            .map(|(key, mean)| {
                mean.value(if key >= 64 { 0.34 } else { ((key % 16) as f64 / 3.0).ceil() })
            })
            .collect();
        for table in [bases, slopes, digits, vec![id.value(1.0)], means(&self.escapes, 3.6)] {
            file.extend(table.iter().flat_map(|value| short(*value).to_le_bytes()));
        }
        for (table, unit) in [
            (means(&self.punctuation, 1.0), 64.0),
            (means(&self.space, 0.5), 64.0),
            (letters, 256.0),
            (pairs, 256.0),
            (means(&self.wide[0], 1.0), 64.0),
            (means(&self.wide[1], 1.0), 64.0),
            (means(&self.wide[2], 1.5), 64.0),
        ] {
            file.extend(table.iter().map(|value| byte(value * unit)));
        }
        file
    }

    /// Returns two tables: by key, the cost of words without the boundaries inside them; by shape,
    /// the factor on the cost of those boundaries. `letters` has the probability of a token start
    /// at each boundary.
    fn words(&self, letters: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let chance = |word: &WordCount| {
            word.buckets.iter().filter_map(|bucket| letters.get(*bucket)).sum::<f64>()
        };
        let mut by_key = vec![(Mean::default(), Mean::default()); WORD_KEYS];
        for word in &self.words {
            if let Some((starts, chances)) = by_key.get_mut(word.key) {
                starts.add(word.starts);
                chances.add(chance(word));
            }
        }
        let mut by_shape = vec![(0.0, 0.0); WORD_SHAPES];
        for word in &self.words {
            let Some((starts, chances)) = by_key.get(word.key) else { continue };
            let off = chance(word) - chances.sum / chances.count.max(1.0);
            if let Some((with, of)) = by_shape.get_mut(word.key / LENGTHS) {
                *with += (word.starts - starts.sum / starts.count.max(1.0)) * off;
                *of += off * off;
            }
        }
        let slopes: Vec<f64> =
            by_shape.iter().map(|(with, of)| if *of > 1.0 { with / of } else { 1.0 }).collect();
        let bases = by_key
            .iter()
            .enumerate()
            .map(|(key, (starts, chances))| {
                let slope = slopes.get(key / LENGTHS).copied().unwrap_or(1.0);
                Mean { count: starts.count, sum: starts.sum - slope * chances.sum }.value(0.9)
            })
            .collect();
        (bases, slopes)
    }
}

#[allow(clippy::cast_possible_truncation, reason = "within the range that was clamped to")]
fn short(value: f64) -> i16 {
    (value * 256.0).round().clamp(f64::from(i16::MIN), f64::from(i16::MAX)) as i16
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within the range that was clamped to"
)]
fn byte(value: f64) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
}

/// Returns the estimated tokens of `text`, computed with the tables of a newly trained file.
#[must_use]
pub fn estimate_with(tables: &[u8; TABLE_BYTES], text: &[u8]) -> u64 {
    let tables = Tables::read(tables);
    let mut sum = Sum::new(&tables, Characters::new(&[]), None);
    scan(text, &mut sum);
    (sum.total.max(0).unsigned_abs() + ONE.unsigned_abs() / 2) / ONE.unsigned_abs()
}

/// Returns the bytes of a file of the maximum costs of characters. `tokens` returns the number of
/// tokens of a text, and `vocabulary` has the bytes of each token. `set_bytes`, a power of two, is
/// the size of the set of sequences.
#[must_use]
pub fn characters(
    tokens: impl Fn(&str) -> usize,
    vocabulary: impl Iterator<Item = Vec<u8>>,
    set_bytes: usize,
) -> Vec<u8> {
    let mut file = vec![0; SEQUENCES_AT + set_bytes];
    let ascii = (0..ENTRIES_AT).filter_map(|code| char::from_u32(code as u32));
    for (run, character) in file.iter_mut().zip(ascii.clone()) {
        *run = u8::try_from(tokens(&character.to_string().repeat(RUN))).unwrap_or(u8::MAX);
    }
    for character in char::from_u32(0x80).into_iter().flat_map(|first| first..=char::MAX) {
        let at = entry(character.into());
        if let Some(four) = file.get_mut(ENTRIES_AT + at / 4) {
            let shift = at % 4 * 2;
            let own = tokens(&character.to_string()).clamp(1, 4) as u8 - 1;
            let greatest = own.max(*four >> shift & 3);
            *four = *four & !(3 << shift) | greatest << shift;
        }
    }
    let mut add = |before: [u32; 2], character: u32| {
        for hash in sequence_hashes(before, character) {
            let bit = hash as usize % (set_bytes * 8);
            if let Some(byte) = file.get_mut(SEQUENCES_AT + bit / 8) {
                *byte |= 1 << (bit % 8);
            }
        }
    };
    for mark in ascii.clone().filter(char::is_ascii_punctuation) {
        for letter in ascii.clone().filter(char::is_ascii_alphabetic) {
            if tokens(&format!("{mark}{letter}")) == 1 {
                add([PAIR, mark.into()], letter.into());
            }
        }
    }
    for token in vocabulary {
        let Ok(text) = String::from_utf8(token) else { continue };
        let is_separator = |letter: char| letter.is_ascii() && !letter.is_ascii_alphabetic();
        let code = |letter: char| if is_separator(letter) { SPACE } else { letter.into() };
        let codes: Vec<u32> = text.chars().map(code).collect();
        let mut before = [0, 0];
        for (at, code) in codes.iter().enumerate() {
            // A sequence of fewer characters counts in East Asian scripts only.
            if *code > 0x7F && at > 0 && (at > 1 || *code >= EAST_ASIAN) {
                add(before, *code);
            }
            before = [before[1], *code];
        }
    }
    file
}
