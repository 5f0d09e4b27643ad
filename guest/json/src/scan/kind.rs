//! The kinds of JSON values, by their first byte.

/// The kind of a value, determined by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An object, `{}`.
    Object,
    /// An array, `[]`.
    Array,
    /// A string, `""`.
    String,
    /// A number, `true`, `false` or `null`. `NaN`, `Infinity` and `-Infinity` also have this kind.
    Scalar,
}

impl Kind {
    /// Returns the kind of the value that begins with `byte`. `None` if no value does.
    #[inline]
    pub(super) fn starting_with(byte: u8) -> Option<Self> {
        *KINDS.get(usize::from(byte))?
    }
}

/// For each byte, the kind of value that begins with it, or `None` if no value does.
static KINDS: [Option<Kind>; 256] = {
    let mut kinds = [None; 256];
    let mut byte = 0;
    #[allow(clippy::indexing_slicing, reason = "evaluated at compile time, bounded by the loop")]
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'{' => Some(Kind::Object),
            b'[' => Some(Kind::Array),
            b'"' => Some(Kind::String),
            // `NaN` and `Infinity` are accepted as numbers.
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' | b'N' | b'I' => Some(Kind::Scalar),
            _ => None,
        };
        byte += 1;
    }
    kinds
};
