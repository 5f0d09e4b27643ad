//! A map from strings to small numbers that does not store the strings. It is a binary fuse filter
//! with three slots for each string (Graf and Lemire, "Binary Fuse Filters: Fast and Smaller Than
//! Xor Filters", 2022). Its slots contain the value next to the fingerprint.

/// The size of the header of a file, in bytes: the seed, the logarithm of the segment length, and
/// the number of segments that may contain a first slot.
pub(super) const HEAD_BYTES: usize = 16;

/// The number of bits of a rank in a slot. The other bits are the fingerprint.
pub(super) const RANK_BITS: u32 = 6;

/// A map from the strings of a vocabulary to their ranks.
pub(super) struct RankMap<'f> {
    seed: u64,
    segment_bits: u32,
    segments: u32,
    slots: &'f [u8],
}

impl<'f> RankMap<'f> {
    /// Reads a file that [`super::train`] created.
    pub(super) const fn read(file: &'f [u8]) -> Self {
        let Some((head, slots)) = file.split_at_checked(HEAD_BYTES) else { panic_on_short_file() };
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *head else { panic_on_short_file() };
        Self {
            seed: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            segment_bits: u32::from_le_bytes([i, j, k, l]),
            segments: u32::from_le_bytes([m, n, o, p]),
            slots,
        }
    }

    /// Returns the rank of the string with this hash. `None` if it is not in the map.
    #[inline]
    pub(super) fn rank_of_hash(&self, hash: u64) -> Option<u8> {
        let mixed = mix(hash, self.seed);
        let [a, b, c] = slots(mixed, self.segment_bits, self.segments);
        let slot = self.slot(a) ^ self.slot(b) ^ self.slot(c);
        (slot >> RANK_BITS == fingerprint(mixed)).then_some((slot & ((1 << RANK_BITS) - 1)) as u8)
    }

    #[inline]
    fn slot(&self, at: u32) -> u16 {
        let at = at as usize * 2;
        let bytes = self.slots.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u16::from_le_bytes(*bytes))
    }
}

/// Fails the build: only a constant evaluation calls this.
#[allow(clippy::panic, reason = "evaluated at compile time")]
const fn panic_on_short_file() -> ! {
    panic!("the file of the vocabulary is too short")
}

/// Returns the hash of a string, which is independent of the map.
#[inline]
pub(super) fn hash(string: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hash = string.len() as u64;
    let (words, rest) = string.as_chunks::<8>();
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(MULTIPLIER);
        hash ^= hash >> 29;
    }
    let mut last = 0;
    for byte in rest {
        last = last << 8 | u64::from(*byte);
    }
    hash = (hash ^ last).wrapping_mul(MULTIPLIER);
    hash ^ hash >> 32
}

/// Returns a hash that also depends on the seed (the finalizer of MurmurHash3).
#[inline]
pub(super) fn mix(hash: u64, seed: u64) -> u64 {
    let mut mixed = hash.wrapping_add(seed);
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    mixed ^ mixed >> 33
}

/// Returns the fingerprint of a mixed hash.
#[inline]
pub(super) fn fingerprint(mixed: u64) -> u16 {
    (mixed >> 16 & ((1 << (16 - RANK_BITS)) - 1)) as u16
}

/// Returns the three slots of a mixed hash, in consecutive segments.
#[inline]
pub(super) fn slots(mixed: u64, segment_bits: u32, segments: u32) -> [u32; 3] {
    // The upper half of a product of 96 bits. WebAssembly multiplies 128 bits slowly.
    let length = u64::from(segments << segment_bits);
    let low = ((mixed & 0xFFFF_FFFF) * length) >> 32;
    let first = (((mixed >> 32) * length + low) >> 32) as u32;
    let (segment, mask) = (1u32 << segment_bits, (1u32 << segment_bits) - 1);
    let (high, low) = ((mixed >> 18) as u32 & mask, mixed as u32 & mask);
    [first, (first + segment) ^ high, (first + 2 * segment) ^ low]
}
