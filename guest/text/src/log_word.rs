//! Words of log lines that may name a severity, and the styles in which they are written.

use super::log_pair::is_in_url;
use super::log_time::run;
use super::severity::{
    MAX_WORD_BYTES, Severity, severity_of_contextual_word, severity_of_letter,
    severity_of_weak_word, severity_of_word,
};
use super::severity_translation::{MAX_TRANSLATION_BYTES, severity_of_translation};

/// The number of bytes at the start of a line that are searched for time and severity.
pub const HEADER_BYTES: usize = 192;
/// The number of the field of a word that is the last column of a line. The columns before it may
/// have any number of words.
const LAST_FIELD: u8 = 63;
/// The left character in the style of the codes of messages, such as `ANR2034E`.
pub(super) const CODE_SIGN: u8 = b'@';
/// The left character in the style of signs, such as `[!]`.
pub(super) const SIGN: u8 = b'?';
/// The style of a severity: the characters around the word, and its letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeverityStyle {
    /// The character before the word. White space and the start of the line are a space.
    pub left: u8,
    /// The character after the word. White space and the end of the line are a space.
    pub right: u8,
    /// The letters of the word.
    pub letters: Letters,
}

/// The letters of a word that names a severity. The start and the end of a line, and a closing
/// bracket before the word, count as white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letters {
    /// A word in capitals, with white space on both sides.
    Upper,
    /// A word in lower case, with white space on both sides.
    Lower,
    /// A word with an initial capital, with white space on both sides.
    Title,
    /// A word in any case, in brackets or with a separator.
    Enclosed,
    /// A single letter, as in Android's logs.
    Single,
    /// A single letter in lower case, as in traces of SAP HANA.
    LowerSingle,
    /// A single letter before month and day, as in klog: `E0102`. The year may be before them.
    Dated,
    /// A digit in the code of a message of network devices, as in `%LINK-3-UPDOWN`, a mark, a
    /// priority with its name, as in `Er(179)`, or a letter twice, as in `(EE)`.
    Coded,
}

impl Letters {
    /// Returns true if the severity is a word, not a single letter or digit.
    #[must_use]
    pub fn is_word(self) -> bool {
        !matches!(self, Letters::Single | Letters::LowerSingle | Letters::Dated | Letters::Coded)
    }
}

/// A word of a log line that may name its severity.
#[derive(Clone, Copy, Debug)]
pub struct SeverityWord {
    /// The severity that the word names.
    pub severity: Severity,
    /// The way in which the word is written.
    pub style: SeverityStyle,
    /// The number of fields before the word.
    pub field: u8,
    /// The byte offset in the line after the word. The code of a network device is a part of the
    /// message, so that this is its start.
    pub end: usize,
    /// True if the word is in capitals.
    pub is_upper: bool,
    /// True if the word also has other meanings, such as `LOG`, `FAILED` and the letter `C`.
    pub is_weak: bool,
    /// True if the word names a severity only in a column of severities, such as `MAJOR`.
    pub is_contextual: bool,
    /// True if the word is a label at the beginning of the message: `error:`, or `ERROR` after the
    /// time, a bracket or a colon.
    pub is_label: bool,
    /// True if the word is the first of the line, and a colon follows it.
    pub begins_line: bool,
    /// True if the word is of another language than English.
    pub is_translated: bool,
}

impl SeverityWord {
    /// Creates a severity without a word. `left` is the first character of its code, and `end` the
    /// byte offset of the code.
    pub(super) fn coded(severity: Severity, left: u8, field: u8, end: usize) -> Self {
        Self {
            severity,
            style: SeverityStyle { left, right: b':', letters: Letters::Coded },
            field,
            end,
            is_upper: true,
            is_weak: false,
            is_contextual: false,
            is_label: false,
            begins_line: false,
            is_translated: false,
        }
    }
}

/// Returns the word in `start..end`, if it names a severity and is not part of a longer name.
/// `field` is the number of fields before it.
pub(super) fn severity_word(
    line: &[u8],
    start: usize,
    end: usize,
    field: u8,
) -> Option<SeverityWord> {
    let word = line.get(start..end)?;
    if !word.first()?.is_ascii_alphabetic() {
        return None;
    }
    if let Some(severity) = compound_severity(word)
        && line.get(end..end + 2) == Some(b": ")
        && line.get(..start)?.last().is_none_or(u8::is_ascii_whitespace)
    {
        return Some(SeverityWord {
            style: SeverityStyle { left: b'_', right: b':', letters: Letters::Enclosed },
            is_upper: false,
            is_contextual: true,
            ..SeverityWord::coded(severity, b'_', field, end)
        });
    }
    if word.len() > MAX_WORD_BYTES || line.get(end).is_some_and(|next| *next >= 0x80) {
        return translated_word(line, start, end + run(line, end, is_wide_letter), field);
    }
    let strong = severity_of_word(without_grade(word));
    word_at(line, start, end, field, strong)
}

/// Returns the severity at the end of a compound name: `DiskError`. `None` for other words.
fn compound_severity(word: &[u8]) -> Option<Severity> {
    let severity = match word {
        [.., b'E', b'r', b'r', b'o', b'r'] => Severity::Error,
        [.., b'W', b'a', b'r', b'n', b'i', b'n', b'g'] => Severity::Warn,
        [.., b'I', b'n', b'f', b'o'] => Severity::Other,
        _ => return None,
    };
    let length = word.iter().rev().position(u8::is_ascii_uppercase)? + 1;
    let before = word.len().checked_sub(length + 1).and_then(|at| word.get(at))?;
    before.is_ascii_lowercase().then_some(severity)
}

/// Returns true if the word in `start..end` is the last part of a name in capitals, as in
/// `EVENT_WARN`, or the severity of a library that GLib writes: `Gtk-WARNING **: text`.
fn is_joined_severity(line: &[u8], start: usize, end: usize) -> bool {
    let before = line.get(..start).unwrap_or_default();
    let is_name = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'_';
    let rest = line.get(end..).unwrap_or_default();
    match before.last() {
        Some(b'-') => rest.starts_with(b" **"),
        _ => {
            let name = before.iter().rev().take_while(|byte| is_name(byte)).count();
            let outer = before.len().checked_sub(name + 1).and_then(|at| before.get(at));
            let is_upper = line.get(start..end).is_some_and(|word| word.iter().all(is_name));
            is_upper && name > 1 && outer.is_none_or(|byte| !byte.is_ascii_alphanumeric())
        }
    }
}

/// Returns a name of a severity without the digit at its end: `DEBUG` of `DEBUG1`. Only the
/// severities below warnings have such digits.
fn without_grade(word: &[u8]) -> &[u8] {
    let Some((b'0'..=b'9', name)) = word.split_last() else { return word };
    let is_harmless = severity_of_word(name) == Some(Severity::Other);
    if is_harmless { name } else { word }
}

/// Returns true for a byte of a word that may have letters beyond ASCII.
pub(super) fn is_wide_letter(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte >= 0x80
}

/// Returns the word in `start..end`, if it names a severity in another language than English.
pub(super) fn translated_word(
    line: &[u8],
    start: usize,
    end: usize,
    field: u8,
) -> Option<SeverityWord> {
    let word = line.get(start..end).filter(|word| word.len() <= MAX_TRANSLATION_BYTES)?;
    let word = word_at(line, start, end, field, Some(severity_of_translation(word)?))?;
    // In prose, words such as `attention` are usual.
    let is_column = word.style.left == word.style.right && b",;|".contains(&word.style.left);
    let is_named = word.is_upper || word.is_label || word.style.right == b']' || is_column;
    is_named.then_some(SeverityWord { is_translated: true, ..word })
}

/// Returns the word in `start..end`, if it is not part of a longer name. `strong` is the severity
/// that it names. If that is `None`, the word may also be a letter, an ambiguous word or a
/// translation.
fn word_at(
    line: &[u8],
    start: usize,
    end: usize,
    field: u8,
    strong: Option<Severity>,
) -> Option<SeverityWord> {
    let word = line.get(start..end)?;
    let before = line.get(..start)?;
    let mut left = before.last().copied().unwrap_or(b' ');
    let mut right = line.get(end).copied().unwrap_or(b' ');
    if !matches!(
        left,
        b' ' | b'\t'
            | b'['
            | b']'
            | b'('
            | b')'
            | b'<'
            | b'{'
            | b'|'
            | b'"'
            | b'\''
            | b'='
            | b':'
            | b','
            | b'.'
            | b';'
            | b'*'
            | b'/'
            | b'_'
            | b'-'
            | b'#'
            | b'~'
            | b'^'
            | b'>'
            | b'+'
    ) || !matches!(
        right,
        b' ' | b'\t'
            | b']'
            | b')'
            | b'>'
            | b'}'
            | b'|'
            | b':'
            | b'"'
            | b'\''
            | b','
            | b';'
            | b'/'
            | b'['
            | b'('
            | b'*'
            | b'!'
            | b'-'
            | b'.'
            | b'~'
            | b'#'
            | b'^'
            | b'+'
    ) {
        return None;
    }
    let after = line.get(end + 1).copied().unwrap_or(b' ');
    let is_joined = matches!(left, b'_' | b'-');
    let is_name = match right {
        // `EVENT_WARN`, `Gtk-WARNING`. Else, these are names.
        _ if is_joined => !is_joined_severity(line, start, end),
        // Minecraft writes `[Server thread/WARN]`, Essbase `/Error(1012004)`. Others are paths.
        _ if left == b'/' => right != b']' && !(right == b'(' && after.is_ascii_digit()),
        b'!' => word.len() > 1,
        // The parameters of a URL: `/logs?level=error`.
        _ if left == b'=' && is_in_url(line, start - 1) => true,
        b'-' => !matches!(left, b'[' | b'(' | b'<' | b'.'),
        // SQL Anywhere begins lines with `E. `.
        b'.' => word.len() > 1 || start > 0 || after != b' ',
        // Paths of Windows begin with a letter.
        b':' => word.len() == 1 && matches!(after, b'\\' | b'/'),
        _ => false,
    };
    if is_name {
        return None;
    }
    let is_column = matches!(left, b',' | b';' | b'|' | b'\t');
    let is_last = line.len() < HEADER_BYTES && line.trim_ascii_end().len() == end;
    let field = if is_column && is_last { LAST_FIELD } else { field };
    let trimmed = before.trim_ascii_end();
    // Words are padded to equal widths: `[INFO ]`, `[ INFO]`.
    if matches!(left, b' ' | b'\t' | b']' | b')') {
        left = trimmed.last().copied().filter(|byte| b"[(<|".contains(byte)).unwrap_or(b' ');
    }
    if matches!(right, b' ' | b'\t') {
        let rest = line.get(end..)?.trim_ascii_start();
        let close = rest.first().copied().unwrap_or(b' ');
        let is_closed =
            matches!((left, close), (b'[', b']') | (b'(', b')') | (b'<', b'>')) || close == b'|';
        right = if is_closed { close } else { b' ' };
    }
    let is_bare = left == b' ' && right == b' ';
    let is_upper = word.iter().all(|byte| !byte.is_ascii_lowercase());
    let (mut is_translated, mut is_contextual) = (false, false);
    let (severity, letters) = match word {
        // Container runtimes mark whole and partial lines by a letter after the stream.
        [_] if trimmed.ends_with(b"stdout") || trimmed.ends_with(b"stderr") => return None,
        [letter @ b'a'..=b'z'] if matches!((left, right), (b' ', b' ' | b':') | (b'[', b'(')) => {
            (severity_of_letter(letter.to_ascii_uppercase())?, Letters::LowerSingle)
        }
        // CUPS writes alerts and emergencies so: `X [10/Mar/2021:13:13:59 +0100] text`.
        b"A" | b"X" if start == 0 && line.get(end..end + 2) == Some(b" [") => {
            (Severity::Error, Letters::Single)
        }
        [letter] => (severity_of_letter(*letter)?, Letters::Single),
        // The X server writes `(EE)`.
        [first, second] if first == second && (left, right) == (b'(', b')') => {
            let head = trimmed.strip_suffix(b"(")?.trim_ascii_end();
            if !head.is_empty() && !head.ends_with(b"]") {
                return None;
            }
            (severity_of_letter(*first)?, Letters::Coded)
        }
        // The start of a system: `[  OK  ]` and `[FAILED]`.
        b"OK" if (left, right) == (b'[', b']') => (Severity::Other, Letters::Enclosed),
        // The compact style of macOS and iOS has two letters for the usual severities.
        [b'D', b'f' | b'b'] if is_bare => (Severity::Other, Letters::Single),
        // CockroachDB writes the year, too.
        [letter @ (b'I' | b'W' | b'E' | b'F'), digits @ ..]
            if matches!(digits.len(), 4 | 6)
                && digits.iter().all(u8::is_ascii_digit)
                && right == b' ' =>
        {
            (severity_of_letter(*letter)?, Letters::Dated)
        }
        _ => {
            let allows_weak = is_upper || matches!(left, b'[' | b'(' | b'<');
            let weak = || allows_weak.then(|| severity_of_weak_word(word)).flatten();
            let mut contextual = || {
                let is_named = allows_weak || is_column && left == right;
                let severity = is_named.then(|| severity_of_contextual_word(word)).flatten();
                is_contextual = severity.is_some();
                severity
            };
            let mut translated = || {
                let is_named =
                    is_upper || matches!(right, b':' | b']') || is_column && left == right;
                let severity = is_named.then(|| severity_of_translation(word)).flatten();
                is_translated = severity.is_some();
                severity
            };
            let letters = match word {
                _ if !is_bare => Letters::Enclosed,
                _ if is_upper => Letters::Upper,
                [first, ..] if first.is_ascii_uppercase() => Letters::Title,
                _ => Letters::Lower,
            };
            let weak = strong.or_else(weak).or_else(&mut contextual);
            (weak.or_else(&mut translated)?, letters)
        }
    };
    let is_weak =
        strong.is_none() && !is_translated && letters.is_word() && word != b"OK" || word == b"C";
    let begins_message =
        matches!(trimmed.last(), None | Some(b':' | b']' | b')' | b'|' | b'[' | b'<' | b'('));
    let is_marked = matches!(right, b':' | b']' | b')' | b'>' | b'|') || letters == Letters::Upper;
    let is_label = begins_message && (is_marked || is_upper) && letters.is_word();
    // Such signs count only if most entries have them.
    is_contextual |= is_joined || b"#~^>+".contains(&left) || b"~#^+".contains(&right);
    let is_label = is_label && !is_contextual;
    let style = SeverityStyle { left, right, letters };
    let begins_line = start == 0 && right == b':' && letters.is_word();
    Some(SeverityWord {
        severity,
        style,
        field,
        end,
        is_upper,
        is_weak,
        is_contextual,
        is_label,
        begins_line,
        is_translated,
    })
}
