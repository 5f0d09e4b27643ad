//! Builds the map of a vocabulary.

use std::collections::{HashMap, HashSet};

use super::is_short_and_wide;
use super::map::{HEAD_BYTES, RANK_BITS, RankMap, fingerprint, hash, mix, slots};
use super::pieces::Pieces;

/// The number of seeds that are tried. The best one is used.
const SEEDS: u64 = 200;
/// The maximum length, in bytes, of strings that are counted.
const MAX_COUNTED: usize = 12;
/// The minimum number of occurrences of a string that is taken into account.
const MIN_OCCURRENCES: u32 = 10;

/// Counts of the strings in texts that are not tokens, but that may be joined to one.
#[derive(Default)]
pub struct Strings(HashMap<Vec<u8>, u32>);

impl Strings {
    /// Adds the strings of a text. O(n).
    pub fn add(&mut self, text: &[u8]) {
        for piece in Pieces::new(text) {
            for length in 2..=MAX_COUNTED.min(piece.len()) {
                for string in piece.windows(length) {
                    match self.0.get_mut(string) {
                        Some(count) => *count += 1,
                        None => drop(self.0.insert(string.to_vec(), 1)),
                    }
                }
            }
        }
    }
}

/// Returns the file of the map of a vocabulary. `tokens` has each token with its rank. Of several
/// seeds, uses the one that mistakes the fewest of `strings` for tokens. `None` if no seed
/// separates the tokens, which is extremely improbable. O(n).
#[must_use]
pub fn vocabulary(tokens: &[(Vec<u8>, u32)], strings: &Strings) -> Option<Vec<u8>> {
    let known: HashSet<&[u8]> = tokens.iter().map(|(token, _)| token.as_slice()).collect();
    let strings: Vec<(u64, u32)> = strings
        .0
        .iter()
        .filter(|(string, count)| **count >= MIN_OCCURRENCES && !known.contains(string.as_slice()))
        .map(|(string, count)| (hash(string), *count))
        .collect();
    let ranks = tokens.iter().filter(|(token, _)| token.len() > 1);
    let ranks: Vec<_> = ranks.map(|(token, rank)| (hash(token), rounded(*rank))).collect();
    files(&ranks).min_by_key(|file| {
        let map = RankMap::read(file);
        let mistaken = strings.iter().filter(|(hash, _)| map.rank_of_hash(*hash).is_some());
        mistaken.map(|(_, count)| u64::from(*count)).sum::<u64>()
    })
}

/// Returns the file of a map of the short tokens beyond ASCII. `None` as for [`vocabulary`]. O(n).
#[must_use]
pub fn short_tokens(tokens: &[(Vec<u8>, u32)]) -> Option<Vec<u8>> {
    let short = tokens.iter().filter(|(token, _)| token.len() > 1 && is_short_and_wide(token));
    files(&short.map(|(token, _)| (hash(token), 0)).collect::<Vec<_>>()).next()
}

/// Returns the files of a map for several seeds that separate its strings.
fn files(tokens: &[(u64, u16)]) -> impl Iterator<Item = Vec<u8>> {
    // The length of a segment and the number of slots are those of the paper.
    let number = tokens.len() as f64;
    let segment_bits = (number.ln() / 3.33_f64.ln() + 2.25) as u32;
    let slots = number * (0.875 + 0.25 * 1e6_f64.ln() / number.ln()).max(1.125);
    let segments = (slots / f64::from(1 << segment_bits)).ceil() as u32;
    let segments = segments.saturating_sub(2).max(1);
    (0..SEEDS).filter_map(move |seed| build(tokens, seed, segment_bits, segments))
}

/// Returns the rank of a merge in 6 bits. The scale is logarithmic: early merges, which have low
/// ranks, keep their order.
fn rounded(rank: u32) -> u16 {
    (f64::from(rank + 1).log2() * 3.5) as u16
}

/// Returns the file for one seed. `None` if the seed does not separate the strings.
#[allow(clippy::indexing_slicing, reason = "all slots are below the length of the lists")]
fn build(tokens: &[(u64, u16)], seed: u64, segment_bits: u32, segments: u32) -> Option<Vec<u8>> {
    let length = ((segments + 2) as usize) << segment_bits;
    let mixed: Vec<u64> = tokens.iter().map(|(hash, _)| mix(*hash, seed)).collect();
    // For each slot, the number of strings that use it, and the exclusive or of their numbers.
    let mut uses = vec![(0u32, 0usize); length];
    let of = |mixed: u64| slots(mixed, segment_bits, segments).map(|slot| slot as usize);
    for (at, mixed) in mixed.iter().enumerate() {
        for slot in of(*mixed) {
            let (count, numbers) = uses.get_mut(slot)?;
            (*count, *numbers) = (*count + 1, *numbers ^ at);
        }
    }
    // A string with a slot of its own is set last, so that the others are free of it.
    let mut alone: Vec<usize> = (0..length).filter(|slot| uses[*slot].0 == 1).collect();
    let mut order = Vec::with_capacity(tokens.len());
    while let Some(slot) = alone.pop() {
        let (1, at) = uses[slot] else { continue };
        order.push((at, slot));
        for other in of(mixed[at]) {
            let (count, numbers) = &mut uses[other];
            (*count, *numbers) = (*count - 1, *numbers ^ at);
            if *count == 1 {
                alone.push(other);
            }
        }
    }
    if order.len() < tokens.len() {
        return None;
    }
    let mut values = vec![0u16; length];
    for (at, slot) in order.into_iter().rev() {
        let value = fingerprint(mixed[at]) << RANK_BITS | tokens[at].1;
        let others = of(mixed[at]).into_iter().filter(|other| *other != slot);
        values[slot] = others.fold(value, |value, other| value ^ values[other]);
    }
    let mut file = Vec::with_capacity(HEAD_BYTES + 2 * length);
    file.extend(seed.to_le_bytes());
    file.extend(segment_bits.to_le_bytes());
    file.extend(segments.to_le_bytes());
    file.extend(values.into_iter().flat_map(u16::to_le_bytes));
    Some(file)
}
