//! Byte classes of the event scanner.

/// The class of a byte. The event scanner does not distinguish bytes of the same class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Class {
    Lower,
    Upper,
    Digit,
    Space,
    Newline,
    Tab,
    Punctuation,
    NonAscii,
}

impl Class {
    /// Returns true for letters and digits, which form runs.
    #[inline]
    pub(super) fn is_alphanumeric(self) -> bool {
        self <= Class::Digit
    }

    #[inline]
    pub(super) fn is_letter(self) -> bool {
        self <= Class::Upper
    }
}

/// Returns the class of a byte by comparisons. Used at compile time to build tables.
pub(super) const fn compute_class(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' => Class::Lower,
        b'A'..=b'Z' => Class::Upper,
        b'0'..=b'9' => Class::Digit,
        b' ' => Class::Space,
        b'\n' | b'\r' => Class::Newline,
        b'\t' | 0x0b | 0x0c => Class::Tab,
        0x80..=0xff => Class::NonAscii,
        _ => Class::Punctuation,
    }
}

static CLASSES: [Class; 256] = {
    let mut table = [Class::Punctuation; 256];
    let mut byte = 0;
    #[allow(clippy::indexing_slicing, reason = "evaluated at compile time, bounded by the loop")]
    while byte < 256 {
        table[byte] = compute_class(byte as u8);
        byte += 1;
    }
    table
};

/// Returns the class of a byte by a table lookup.
#[inline]
pub(super) fn class(byte: u8) -> Class {
    CLASSES.get(byte as usize).copied().unwrap_or(Class::Punctuation)
}
