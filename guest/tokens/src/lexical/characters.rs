//! The maximum cost of characters beyond ASCII. The tables of events have mean costs. These are too
//! low for scripts and sequences that the training texts lacked.
//!
//! A file has four parts. The first has the tokens of a run of 64 of each ASCII character, one byte
//! each. The second has the tokens of each single character up to U+FFFF. The third has the maximum
//! tokens of each block of 64 characters above that. Their entries have two bits, with the number
//! less one.
//!
//! The fourth part is the set of the sequences that tokens contain: three characters or, in East
//! Asian scripts, two. It also has the tokens of a mark and a letter. The set is a Bloom filter
//! with two bits for each sequence. It also contains about one in 50 of all other sequences.

/// The number of characters with an individual entry in the file.
pub(super) const BASIC_CHARACTERS: usize = 1 << 16;
/// The number of entries in the file for blocks of 64 characters.
pub(super) const BLOCKS: usize = (0x11_0000 - BASIC_CHARACTERS) / 64;
/// The offset, in bytes, of the set of sequences in a file.
pub(super) const SEQUENCES_AT: usize = ENTRIES_AT + (BASIC_CHARACTERS + BLOCKS) / 4;
/// The number of ASCII characters, and the offset, in bytes, of the entries of all others.
pub(super) const ENTRIES_AT: usize = 128;
/// The length of the runs of one character that were measured.
pub(super) const RUN: usize = 64;
/// The character that represents all word separators in sequences.
pub(super) const SPACE: u32 = 0x20;
/// The first of the two preceding characters in the entry of a pair: a mark and a letter that are
/// one token.
pub(super) const PAIR: u32 = 1;
/// The first character of the scripts whose words are too short for sequences of three.
pub(super) const EAST_ASIAN: u32 = 0x2E80;

/// The maximum costs of characters with one tokenizer.
#[derive(Clone, Copy)]
pub(super) struct Characters {
    file: &'static [u8],
}

impl Characters {
    /// Reads a file of costs. The length of its set of sequences must be a power of two.
    pub(super) const fn new(file: &'static [u8]) -> Self {
        Self { file }
    }

    /// Returns the number of tokens, 1 to 4, of a single character beyond ASCII.
    #[inline]
    pub(super) fn tokens(self, character: u32) -> i64 {
        let at = entry(character);
        // A file that is too short has no cheap characters.
        self.file.get(ENTRIES_AT + at / 4).map_or(4, |four| i64::from(four >> (at % 4 * 2) & 3) + 1)
    }

    /// Returns the number of tokens of a run of [`RUN`] times the ASCII character `byte`.
    #[inline]
    pub(super) fn run_tokens(self, byte: u8) -> i64 {
        self.file.get(usize::from(byte)).map_or(RUN as i64, |tokens| i64::from(*tokens))
    }

    /// Returns true if a mark and the letter after it are one token.
    #[inline]
    pub(super) fn is_pair(self, mark: u8, letter: u8) -> bool {
        self.is_usual([PAIR, mark.into()], letter.into())
    }

    /// Returns true if tokens contain the character `character` after the two characters `before`.
    #[inline]
    pub(super) fn is_usual(self, before: [u32; 2], character: u32) -> bool {
        let Some(set) = self.file.get(SEQUENCES_AT..) else { return false };
        let is_set = |hash: u32| {
            let bit = hash as usize % (set.len() * 8).max(1);
            set.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
        };
        let [first, second] = sequence_hashes(before, character);
        is_set(first) && is_set(second)
    }
}

/// Returns the index of the entry for a character.
pub(super) fn entry(character: u32) -> usize {
    match character as usize {
        basic @ ..BASIC_CHARACTERS => basic,
        other => BASIC_CHARACTERS + (other - BASIC_CHARACTERS) / 64,
    }
}

/// Returns two hashes of a character and the characters before it that its script requires. With
/// one hash, the filter would accept every seventh unknown sequence.
#[inline]
pub(super) fn sequence_hashes(before: [u32; 2], character: u32) -> [u32; 2] {
    let [first, second] = if character >= EAST_ASIAN { [0, before[1]] } else { before };
    let mixed = first.wrapping_mul(0x85EB_CA6B) ^ second.wrapping_mul(0xC2B2_AE35) ^ character;
    let mixed = mixed.wrapping_mul(0x9E37_79B1);
    let mixed = mixed ^ mixed >> 15;
    [mixed.wrapping_mul(0x2C1B_3C6D) >> 8, mixed.wrapping_mul(0x297A_2D39) >> 8]
}

/// Returns the code point of a UTF-8 character of two to four bytes.
#[inline]
pub(super) fn code_point(bytes: &[u8]) -> u32 {
    let low = |byte: u8| u32::from(byte & 63);
    match *bytes {
        [a, b] => u32::from(a & 31) << 6 | low(b),
        [a, b, c] => u32::from(a & 15) << 12 | low(b) << 6 | low(c),
        [a, b, c, d] => u32::from(a & 7) << 18 | low(b) << 12 | low(c) << 6 | low(d),
        _ => 0x80,
    }
}
