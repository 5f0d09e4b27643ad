//! Counts the tokens of a text for the tokenizer o200k, with its vocabulary.
//!
//! The tokenizer splits a text into pieces, and joins the bytes of each piece to tokens, in the
//! order of their ranks. The table has the rank of each token, rounded to 6 bits. With a
//! probability of 1 in 1,024, a string that is not a token also has a rank. Texts in a script with
//! few letters repeat a few short strings. For those, a second table reduces the probability to 1
//! in a million.

mod map;
mod pieces;
#[cfg(feature = "train")]
pub mod train;

use map::RankMap;
use pieces::Pieces;

static O200K: RankMap<'static> = RankMap::read(include_bytes!("vocabulary/o200k.bin"));
/// The short tokens with characters beyond ASCII, for which [`is_short_and_wide`] is true.
static SHORT: RankMap<'static> = RankMap::read(include_bytes!("vocabulary/o200k-short.bin"));

/// The maximum length of a short string, in bytes: two characters of most alphabets.
const MAX_SHORT: usize = 4;

/// The maximum length of a piece, in bytes, that is joined as a whole. A longer piece is joined in
/// parts of this length, because time grows with the square of the length.
const MAX_JOINED: usize = 64;

/// The maximum length of a token, in bytes.
const MAX_TOKEN: usize = 128;

/// The number of entries in a cache of pieces.
const CACHED: usize = 1_024;

/// A cache of the tokens of pieces, because similar texts repeat the same pieces. It affects speed
/// only.
///
/// An entry has the upper half of the hash of a piece, and its tokens.
pub struct PieceCache([(u32, u8); CACHED]);

impl Default for PieceCache {
    fn default() -> Self {
        Self([(0, 0); CACHED])
    }
}

/// Returns the number of tokens of a text. O(n).
pub(crate) fn count(mut cache: Option<&mut PieceCache>, text: &[u8]) -> u64 {
    let pieces = Pieces::new(text);
    pieces.map(|piece| cache.as_mut().map_or_else(|| tokens_of(piece), |it| it.tokens(piece))).sum()
}

impl PieceCache {
    /// Returns the number of tokens of a piece.
    #[inline]
    fn tokens(&mut self, piece: &[u8]) -> u64 {
        // Numbers of up to three digits are tokens.
        if let [b'0'..=b'9']
        | [b'0'..=b'9', b'0'..=b'9']
        | [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9'] = piece
        {
            return 1;
        }
        if !(2..=MAX_JOINED).contains(&piece.len()) {
            return tokens_of(piece);
        }
        let hash = map::hash(piece);
        let Some(slot) = self.0.get_mut(hash as usize % CACHED) else { return tokens_of(piece) };
        let tag = (hash >> 32) as u32;
        if slot.0 != tag || slot.1 == 0 {
            *slot = (tag, tokens_of_hash(piece, hash));
        }
        u64::from(slot.1)
    }
}

/// Returns true if a string has at most [`MAX_SHORT`] bytes, one of them beyond ASCII.
fn is_short_and_wide(string: &[u8]) -> bool {
    string.len() <= MAX_SHORT && !string.is_ascii()
}

/// Returns the rank of the string with this hash. `None` if it is not a token.
#[inline]
fn rank(string: &[u8], hash: u64) -> Option<u8> {
    let rank = O200K.rank_of_hash(hash)?;
    let is_token = !is_short_and_wide(string) || SHORT.rank_of_hash(hash).is_some();
    is_token.then_some(rank)
}

/// Returns the number of tokens of a piece.
fn tokens_of(piece: &[u8]) -> u64 {
    match piece.len() {
        length @ ..2 => length as u64,
        ..=MAX_JOINED => u64::from(tokens_of_hash(piece, map::hash(piece))),
        _ => long(piece),
    }
}

/// Returns the number of tokens of a piece of at most [`MAX_JOINED`] bytes with this hash.
fn tokens_of_hash(piece: &[u8], hash: u64) -> u8 {
    if rank(piece, hash).is_some() { 1 } else { join(piece) }
}

/// Returns the number of tokens of a long piece: a run of spaces or symbols, or a word that no
/// language has. O(n).
fn long(mut piece: &[u8]) -> u64 {
    let mut tokens = 0;
    while piece.len() > MAX_JOINED {
        let part = first_part(piece);
        // The longest token of a run is also the longest one of its rest, which is a run, too.
        let run = piece.get(..part.length.max(MAX_JOINED + 1)).filter(|_| part.is_run);
        loop {
            tokens += part.tokens;
            piece = piece.get(part.length..).unwrap_or_default();
            if !run.is_some_and(|run| piece.starts_with(run)) {
                break;
            }
        }
    }
    tokens + tokens_of(piece)
}

/// A part at the beginning of a long piece.
struct Part {
    /// The length in bytes.
    length: usize,
    tokens: u64,
    /// True if the part is a token in a run of one character that has more than [`MAX_JOINED`]
    /// bytes.
    is_run: bool,
}

/// Returns a part at the beginning of a long piece: the longest token of a run of one character, or
/// as many characters as are joined at once.
fn first_part(piece: &[u8]) -> Part {
    let part = |length: usize| piece.get(..length).unwrap_or_default();
    let is_start = |at: &usize| piece.get(*at).is_none_or(|byte| !is_continuation(*byte));
    let character = (1..=4).find(is_start).unwrap_or(1);
    let repeats = piece.iter().zip(piece.iter().skip(character)).take_while(|(a, b)| a == b);
    let run = (repeats.count() + character).min(MAX_TOKEN);
    if run > MAX_JOINED {
        let lengths = 1..=run / character;
        let lengths = lengths.rev().map(|count| count * character);
        let token = lengths
            .into_iter()
            .find(|length| rank(part(*length), map::hash(part(*length))).is_some());
        return Part { length: token.unwrap_or(character), tokens: 1, is_run: true };
    }
    let length = (1..=MAX_JOINED).rev().find(is_start).unwrap_or(MAX_JOINED);
    Part { length, tokens: u64::from(join(part(length))), is_run: false }
}

/// Returns true if a byte is a continuation byte of UTF-8.
fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// Returns the number of tokens of a piece of at most [`MAX_JOINED`] bytes that is not a token.
/// Repeatedly joins the two neighbours whose token has the lowest rank, the first among equals,
/// until none is left.
fn join(piece: &[u8]) -> u8 {
    const NONE: u8 = u8::MAX;
    // The offset at which each part begins, and the rank of each part with the next one.
    let (mut starts, mut ranks) = ([0u8; MAX_JOINED + 1], [NONE; MAX_JOINED]);
    let mut parts = piece.len().min(MAX_JOINED);
    for (at, start) in starts.iter_mut().enumerate().take(parts + 1) {
        *start = at as u8;
    }
    let rank = |from: u8, to: u8| {
        let pair = piece.get(usize::from(from)..usize::from(to)).unwrap_or_default();
        rank(pair, map::hash(pair)).unwrap_or(NONE)
    };
    for (rank_at, ends) in ranks.iter_mut().zip(starts.windows(3)).take(parts - 1) {
        if let [from, _, to] = ends {
            *rank_at = rank(*from, *to);
        }
    }
    while let Some(pairs) = ranks.get(..parts - 1) {
        let lowest = pairs.iter().enumerate().min_by_key(|(_, rank)| **rank);
        let Some((at, _)) = lowest.filter(|(_, rank)| **rank < NONE) else { break };
        starts.copy_within(at + 2..=parts, at + 1);
        ranks.copy_within(at + 1..parts, at);
        parts -= 1;
        let start = |at: usize| starts.get(at).copied();
        for pair in [at.checked_sub(1), Some(at)].into_iter().flatten() {
            if pair + 1 < parts
                && let (Some(from), Some(to)) = (start(pair), start(pair + 2))
                && let Some(slot) = ranks.get_mut(pair)
            {
                *slot = rank(from, to);
            }
        }
        if parts < 2 {
            break;
        }
    }
    parts as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> u64 {
        let cached = count(Some(&mut PieceCache::default()), text.as_bytes());
        assert_eq!(cached, count(None, text.as_bytes()));
        cached
    }

    /// The expected numbers are the real token counts.
    #[test]
    fn texts_have_their_real_tokens() {
        for (text, real) in [
            ("The booking of the harbour house was confirmed on Monday.", 11),
            (r#"{"id":"a81bc81b-dead-4e5d-abff-90865d1e13b1","n":12345}"#, 32),
            ("    let Some(first) = piece.first() else { return 0 };\n", 15),
            ("2026-11-25T13:08:16.123Z ERROR [main] c.e.Worker: it's gone\r\n\r\n", 27),
            ("\t\tif (x) {\n\n      y  = z\t;\n", 13),
        ] {
            assert_eq!(tokens(text), real, "{text}");
        }
    }

    #[test]
    fn runs_of_one_character_have_long_tokens() {
        assert!(tokens(&"=".repeat(1_000)) <= 20);
        assert!(tokens(&" ".repeat(10_000)) <= 200);
    }
}
