//! Splits a text into the pieces of the tokenizer o200k, which it then joins to tokens. Implements
//! the regular expression of the tokenizer.

use unicode_normalization::char::is_combining_mark;

/// An iterator over the pieces of a text, which together are the whole text.
pub(super) struct Pieces<'t> {
    text: &'t [u8],
    at: usize,
}

/// The kinds of characters that determine the boundaries of pieces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A lower-case letter.
    Lower,
    /// An upper-case letter.
    Upper,
    /// A letter without case, which is treated as lower and upper case.
    Letter,
    /// A combining mark. In a word, it is treated like a letter without case, elsewhere as a
    /// symbol.
    Mark,
    Number,
    /// White space other than line breaks.
    Space,
    Newline,
    Symbol,
}

/// The kinds of the ASCII characters.
#[allow(clippy::indexing_slicing, reason = "evaluated at compile time")]
static ASCII: [Kind; 128] = {
    let mut kinds = [Kind::Symbol; 128];
    let mut byte = 0;
    while byte < 128 {
        kinds[byte] = match byte as u8 {
            b'a'..=b'z' => Kind::Lower,
            b'A'..=b'Z' => Kind::Upper,
            b'0'..=b'9' => Kind::Number,
            b'\r' | b'\n' => Kind::Newline,
            b' ' | b'\t' | 0x0B | 0x0C => Kind::Space,
            _ => Kind::Symbol,
        };
        byte += 1;
    }
    kinds
};

impl Kind {
    fn is_upper(self) -> bool {
        matches!(self, Kind::Upper | Kind::Letter | Kind::Mark)
    }

    fn is_lower(self) -> bool {
        matches!(self, Kind::Lower | Kind::Letter | Kind::Mark)
    }

    fn is_letter(self) -> bool {
        self.is_upper() || self.is_lower()
    }

    fn is_space(self) -> bool {
        matches!(self, Kind::Space | Kind::Newline)
    }

    fn is_symbol(self) -> bool {
        matches!(self, Kind::Symbol | Kind::Mark)
    }
}

/// The classes of bytes, as bits, for the boundaries of pieces of ASCII characters.
mod class {
    pub(super) const LOWER: u8 = 1;
    pub(super) const UPPER: u8 = 2;
    pub(super) const NUMBER: u8 = 4;
    pub(super) const SPACE: u8 = 8;
    pub(super) const SYMBOL: u8 = 16;
    /// A byte of a character beyond ASCII.
    pub(super) const WIDE: u8 = 32;
    pub(super) const LETTER: u8 = LOWER | UPPER;
}

/// The class of each byte. Line breaks have none, as the end of the text.
#[allow(clippy::indexing_slicing, reason = "evaluated at compile time")]
static CLASSES: [u8; 256] = {
    let mut classes = [class::WIDE; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = match ASCII[byte] {
            Kind::Lower => class::LOWER,
            Kind::Upper => class::UPPER,
            Kind::Number => class::NUMBER,
            Kind::Space => class::SPACE,
            Kind::Symbol => class::SYMBOL,
            Kind::Newline | Kind::Letter | Kind::Mark => 0,
        };
        byte += 1;
    }
    classes
};

impl<'t> Pieces<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the class of the byte at an offset, 0 at the end.
    #[inline]
    fn class(&self, at: usize) -> u8 {
        let byte = self.text.get(at).map_or(usize::from(b'\n'), |byte| usize::from(*byte));
        CLASSES.get(byte).copied().unwrap_or_default()
    }

    /// Returns the end of the run of bytes of some classes at an offset. `None` if a character
    /// beyond ASCII ends the run, because it may continue it.
    #[inline]
    fn ascii_run(&self, mut at: usize, classes: u8) -> Option<usize> {
        while self.class(at) & classes != 0 {
            at += 1;
        }
        (self.class(at) != class::WIDE).then_some(at)
    }

    /// Returns the same as [`Pieces::end`] for a piece of ASCII characters. `None` if a character
    /// beyond ASCII may belong to the piece, and for line breaks and runs of white space.
    #[inline]
    fn ascii_end(&self, from: usize) -> Option<usize> {
        let (first, second) = (self.class(from), self.class(from + 1));
        match first {
            class::LOWER | class::UPPER => self.ascii_word(from),
            class::NUMBER => {
                // Only three digits are read, because a run of them may be the whole text.
                let others = (from + 1)..(from + 3);
                let digits = 1 + others.take_while(|at| self.class(*at) == class::NUMBER).count();
                let is_whole = digits == 3 || self.class(from + digits) != class::WIDE;
                is_whole.then_some(from + digits)
            }
            class::SPACE | class::SYMBOL if second & class::LETTER != 0 => {
                self.ascii_word(from + 1)
            }
            class::SYMBOL => self.ascii_symbols(from + 1),
            class::SPACE if second == class::SYMBOL && self.text.get(from) == Some(&b' ') => {
                self.ascii_symbols(from + 1)
            }
            class::SPACE if matches!(second, class::NUMBER | class::SYMBOL) => Some(from + 1),
            _ => None,
        }
    }

    #[inline]
    fn ascii_word(&self, at: usize) -> Option<usize> {
        let capitals = self.ascii_run(at, class::UPPER)?;
        let end = self.ascii_run(capitals, class::LOWER)?;
        Some(end + self.contraction(end))
    }

    #[inline]
    fn ascii_symbols(&self, at: usize) -> Option<usize> {
        let end = self.ascii_run(at, class::SYMBOL)?;
        let tail = self.text.get(end..).unwrap_or_default();
        Some(end + tail.iter().take_while(|byte| matches!(byte, b'\r' | b'\n' | b'/')).count())
    }

    /// Returns the kind and the length, in bytes, of the character at an offset. `None` at the end.
    #[inline]
    fn kind(&self, at: usize) -> Option<(Kind, usize)> {
        let byte = *self.text.get(at)?;
        match ASCII.get(usize::from(byte)) {
            Some(kind) => Some((*kind, 1)),
            None => Some(self.wide(at)),
        }
    }

    /// Returns the kind and the length, in bytes, of a character of the most frequent scripts and
    /// punctuation. `None` for other characters. The result equals that of [`Pieces::any`], which
    /// is slower.
    #[inline]
    fn common(&self, at: usize) -> Option<(Kind, usize)> {
        let is_rest = |byte: &u8| byte & 0xC0 == 0x80;
        Some(match self.text.get(at..)? {
            // Latin, Cyrillic.
            [0xC3, last, ..] if is_rest(last) => match last {
                0x97 | 0xB7 => (Kind::Symbol, 2),
                0x80..0x9F => (Kind::Upper, 2),
                _ => (Kind::Lower, 2),
            },
            [0xD0, 0x80..0xB0, ..] => (Kind::Upper, 2),
            [0xD0, 0xB0..0xC0, ..] | [0xD1, 0x80..0xA0, ..] => (Kind::Lower, 2),
            // Quotation marks, dashes, ellipsis, bullets.
            [0xE2, 0x80, 0x8B..=0xA7 | 0xAA..=0xAE | 0xB0..=0xBF, ..] => (Kind::Symbol, 3),
            // Chinese, Hangul.
            [0xE4, 0xB8..0xC0, last, ..]
            | [0xE5..0xE9, 0x80..0xC0, last, ..]
            | [0xEB | 0xEC, 0x80..0xC0, last, ..]
                if is_rest(last) =>
            {
                (Kind::Letter, 3)
            }
            _ => return None,
        })
    }

    /// Returns the kind and the length, in bytes, of a character beyond ASCII. An invalid byte is a
    /// symbol.
    #[cold]
    fn wide(&self, at: usize) -> (Kind, usize) {
        self.common(at).unwrap_or_else(|| self.any(at))
    }

    /// Returns the same as [`Pieces::wide`], from the tables of Unicode.
    fn any(&self, at: usize) -> (Kind, usize) {
        let rest = self.text.get(at..(at + 4).min(self.text.len())).unwrap_or_default();
        let valid = std::str::from_utf8(rest).unwrap_or_else(|error| {
            let valid = rest.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(valid).unwrap_or_default()
        });
        let Some(character) = valid.chars().next() else { return (Kind::Symbol, 1) };
        let kind = match character {
            _ if is_combining_mark(character) => Kind::Mark,
            _ if character.is_numeric() => Kind::Number,
            _ if character.is_uppercase() => Kind::Upper,
            _ if character.is_lowercase() => Kind::Lower,
            _ if character.is_alphabetic() => Kind::Letter,
            _ if character.is_whitespace() => Kind::Space,
            _ => Kind::Symbol,
        };
        (kind, character.len_utf8())
    }

    /// Returns the end of the run of characters, from an offset on, for which `is` returns true.
    #[inline]
    fn while_kind(&self, mut at: usize, is: impl Fn(Kind) -> bool) -> usize {
        while let Some((kind, length)) = self.kind(at)
            && is(kind)
        {
            at += length;
        }
        at
    }

    /// Returns the end of the word at an offset: capitals, then small letters, then a contraction
    /// such as `'s`.
    fn word(&self, at: usize) -> usize {
        let capitals = self.while_kind(at, Kind::is_upper);
        let mut end = self.while_kind(capitals, Kind::is_lower);
        if end == capitals {
            // Without a small letter at the end, the expression goes back to the last letter
            // without case.
            let mut last = None;
            let mut next = at;
            while next < end
                && let Some((kind, length)) = self.kind(next)
            {
                next += length;
                if kind.is_lower() {
                    last = Some(next);
                }
            }
            end = last.unwrap_or(end);
        }
        end + self.contraction(end)
    }

    /// Returns the length, in bytes, of `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll` or `'d` at an offset.
    /// 0 if there is none.
    fn contraction(&self, at: usize) -> usize {
        let Some([b'\'', rest @ ..]) = self.text.get(at..) else { return 0 };
        match rest {
            [b's' | b'S' | b't' | b'T' | b'm' | b'M' | b'd' | b'D', ..] => 2,
            [b'r' | b'R' | b'v' | b'V', b'e' | b'E', ..] | [b'l' | b'L', b'l' | b'L', ..] => 3,
            _ => 0,
        }
    }

    /// Returns the end of a run of up to three digits at an offset.
    fn digits(&self, mut at: usize) -> usize {
        for _ in 0..3 {
            match self.kind(at) {
                Some((Kind::Number, length)) => at += length,
                _ => break,
            }
        }
        at
    }

    /// Returns the end of the piece of white space at an offset. If the run has line breaks, the
    /// piece ends after the last. Otherwise, if text follows the run, the piece excludes its last
    /// character, which belongs to that text.
    fn space(&self, at: usize) -> usize {
        let (mut end, mut last, mut after_break) = (at, at, None);
        while let Some((kind, length)) = self.kind(end)
            && kind.is_space()
        {
            last = end;
            end += length;
            if kind == Kind::Newline {
                after_break = Some(end);
            }
        }
        match after_break {
            Some(after) => after,
            None if end == self.text.len() || last == at => end,
            None => last,
        }
    }

    /// Returns the end of the piece at an offset. Its first character has this kind and length.
    fn end(&self, from: usize, kind: Kind, length: usize) -> usize {
        let second = from + length;
        let after = self.kind(second).map(|(kind, _)| kind);
        match kind {
            Kind::Lower | Kind::Upper | Kind::Letter => self.word(from),
            Kind::Number => self.digits(from),
            Kind::Space | Kind::Symbol | Kind::Mark if after.is_some_and(Kind::is_letter) => {
                self.word(second)
            }
            Kind::Mark => self.word(from),
            _ if kind.is_symbol()
                || self.text.get(from) == Some(&b' ') && after.is_some_and(Kind::is_symbol) =>
            {
                let end = self.while_kind(second, Kind::is_symbol);
                let tail = self.text.get(end..).unwrap_or_default();
                end + tail.iter().take_while(|byte| matches!(byte, b'\r' | b'\n' | b'/')).count()
            }
            _ => self.space(from),
        }
    }
}

impl<'t> Iterator for Pieces<'t> {
    type Item = &'t [u8];

    fn next(&mut self) -> Option<&'t [u8]> {
        let from = self.at;
        self.at = match self.ascii_end(from) {
            Some(end) => end,
            None => {
                let (kind, length) = self.kind(from)?;
                self.end(from, kind, length)
            }
        };
        self.text.get(from..self.at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(text: &str) -> Vec<&str> {
        Pieces::new(text.as_bytes()).map(|piece| std::str::from_utf8(piece).unwrap()).collect()
    }

    #[test]
    fn texts_are_cut_as_by_the_tokenizer() {
        assert_eq!(
            pieces("{\"userName\": 12345,  it's\r\n\r\n  x}/\n"),
            [
                "{\"", "user", "Name", "\":", " ", "123", "45", ",", " ", " it's", "\r\n\r\n", " ",
                " x", "}/\n"
            ]
        );
        assert_eq!(pieces("HTTPServer ABC"), ["HTTPServer", " ABC"]);
        assert_eq!(pieces("a\tb \t(c)  "), ["a", "\tb", " ", "\t", "(c", ")", "  "]);
        assert_eq!(pieces("F\u{fc}r \u{4e2d}\u{6587}A"), ["F\u{fc}r", " \u{4e2d}\u{6587}", "A"]);
        assert_eq!(
            pieces("\u{915}\u{94d}\u{937}\u{2500}\u{2500}"),
            ["\u{915}\u{94d}\u{937}", "\u{2500}\u{2500}"]
        );
    }

    #[test]
    fn common_characters_have_the_kinds_of_all() {
        let mut common = 0;
        for character in '\u{80}'..=char::MAX {
            let text = character.to_string();
            let pieces = Pieces::new(text.as_bytes());
            if let Some(found) = pieces.common(0) {
                common += 1;
                assert!(found == pieces.any(0), "{character:?}");
            }
        }
        assert!(common > 20_000, "{common}");
    }

    proptest! {
        #[test]
        fn pieces_are_the_whole_text(text in "\\PC{0,80}|[ -~\n\t]{0,80}") {
            prop_assert_eq!(pieces(&text).concat(), text);
        }

        #[test]
        fn ascii_pieces_end_where_all_do(
            text in "[a-cA-C0-3 \t\r\n'/.!\u{e9}\u{301}\u{4e2d}\u{a0}\u{b2}]{0,24}",
        ) {
            let pieces = Pieces::new(text.as_bytes());
            for (at, _) in text.char_indices() {
                let (kind, length) = pieces.kind(at).unwrap();
                if let Some(end) = pieces.ascii_end(at) {
                    prop_assert_eq!(end, pieces.end(at, kind, length), "{:?} at {}", text, at);
                }
            }
        }

        #[test]
        fn any_bytes_are_cut(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(Pieces::new(&bytes).collect::<Vec<_>>().concat(), bytes);
        }
    }
}
