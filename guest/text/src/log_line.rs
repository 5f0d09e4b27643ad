//! Parses log lines before the message: timestamps, and words that name a severity.

use super::log_code::line_code;
use super::log_prefix::{common_event, mark, mnemonic, named_priority};
use super::log_time::{run, time_end};
use super::severity::{
    MAX_WORD_BYTES, Severity, severity_of_letter, severity_of_weak_word, severity_of_word,
};
use super::severity_translation::{MAX_TRANSLATION_BYTES, severity_of_translation};

/// The number of bytes at the start of a line that are searched for time and severity.
pub const HEADER_BYTES: usize = 192;
/// The number of the field of a word that is the last column of a line. The columns before it may
/// have any number of words.
const LAST_FIELD: u8 = 63;
/// The maximum number of bytes in brackets that form one field.
const MAX_BRACKETS: usize = 100;
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
        !matches!(self, Letters::Single | Letters::Dated | Letters::Coded)
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
    fn coded(severity: Severity, left: u8, field: u8, end: usize) -> Self {
        Self {
            severity,
            style: SeverityStyle { left, right: b':', letters: Letters::Coded },
            field,
            end,
            is_upper: true,
            is_weak: false,
            is_label: false,
            begins_line: false,
            is_translated: false,
        }
    }
}

/// The time and the words of a line that may name its severity.
#[derive(Debug, Default)]
pub struct LogLine {
    /// The number of the field with the first time in the line. `None` without a time.
    pub time: Option<u8>,
    /// The byte offset after the first time in the line. 0 without a time.
    pub time_end: usize,
    /// The words that may name the severity, in the order of the line.
    pub words: Vec<SeverityWord>,
}

impl LogLine {
    /// Reads the first [`HEADER_BYTES`] of a decoded line. O(1).
    #[must_use]
    pub fn parse(line: &[u8]) -> Self {
        Self::parse_until(line, &|_| false)
    }

    /// Parses a decoded line like [`LogLine::parse`], but only until `is_enough` returns true. Most
    /// entries begin with all the needed parts.
    #[must_use]
    #[inline(never)]
    pub fn parse_until(line: &[u8], is_enough: &dyn Fn(&Self) -> bool) -> Self {
        let mut found = Self::default();
        if let Some((severity, end)) = line_code(line) {
            found.words.push(SeverityWord::coded(severity, b'!', 0, end));
            if is_enough(&found) {
                return found;
            }
        }
        let line = line.get(..HEADER_BYTES).unwrap_or(line);
        let (mut at, mut field, mut group_end) = (0, 0u8, 0);
        let mut in_field = false;
        while let Some(byte) = line.get(at) {
            if byte.is_ascii_alphanumeric() {
                let length = run(line, at, u8::is_ascii_alphanumeric);
                let is_time = found.time.is_none() && byte.is_ascii_digit();
                let end = if is_time { time_end(line, at, length, field) } else { None };
                if let Some(end) = end {
                    (found.time, found.time_end) = (Some(field), end);
                    let mark = mark(line, end).map(|it| SeverityWord::coded(it, b'#', field, end));
                    found.words.extend(mark);
                    if is_enough(&found) {
                        break;
                    }
                }
                let word = line.get(at..at + length).unwrap_or_default();
                let rest = line.get(at + length..).unwrap_or_default();
                let word = if let Some(severity) = named_priority(word, rest) {
                    let end = at + bracket_end(rest, 0) + length;
                    Some(SeverityWord::coded(severity, b'(', field, end))
                } else if let Some((severity, name)) = line.get(at..).and_then(common_event) {
                    Some(SeverityWord::coded(severity, b'|', field, at + name))
                } else {
                    severity_word(line, at, at + length, field)
                };
                if let Some(mut word) = word {
                    // Directly after the time, any spelling is a label.
                    word.is_label |= found.time.is_some()
                        && at < found.time_end + 3
                        && word.style.letters.is_word();
                    found.words.push(word);
                    if is_enough(&found) {
                        break;
                    }
                }
                at += length;
                in_field = true;
                continue;
            }
            if *byte >= 0x80
                && at.checked_sub(1).and_then(|at| line.get(at)).is_none_or(u8::is_ascii)
            {
                let end = at + run(line, at, is_wide_letter);
                found.words.extend(translated_word(line, at, end, field));
                if !found.words.is_empty() && is_enough(&found) {
                    break;
                }
            }
            if *byte == b'%'
                && let Some(severity) = line.get(at..).and_then(mnemonic)
            {
                found.words.push(SeverityWord::coded(severity, b'%', field, at));
                if is_enough(&found) {
                    break;
                }
            }
            if matches!(byte, b' ' | b'\t' | b'|' | b',' | b';') {
                if in_field && at >= group_end {
                    field = field.saturating_add(1);
                    in_field = false;
                }
            } else {
                if matches!(byte, b'[' | b'(') && at >= group_end {
                    group_end = bracket_end(line, at);
                }
                in_field = true;
            }
            at += 1;
        }
        found
    }
}

/// Returns the offset after the bracket that closes the one at `at`. Returns `at` if no bracket
/// closes it within [`MAX_BRACKETS`] bytes.
fn bracket_end(line: &[u8], at: usize) -> usize {
    let close = if line.get(at) == Some(&b'[') { b']' } else { b')' };
    let rest = line.get(at..line.len().min(at + MAX_BRACKETS)).unwrap_or_default();
    memchr::memchr(close, rest).map_or(at, |length| at + length + 1)
}

/// Returns the word in `start..end`, if it names a severity and is not part of a longer name.
/// `field` is the number of fields before it.
fn severity_word(line: &[u8], start: usize, end: usize, field: u8) -> Option<SeverityWord> {
    let word = line.get(start..end)?;
    if !word.first()?.is_ascii_alphabetic() {
        return None;
    }
    if word.len() > MAX_WORD_BYTES || line.get(end).is_some_and(|next| *next >= 0x80) {
        return translated_word(line, start, end + run(line, end, is_wide_letter), field);
    }
    let strong = severity_of_word(word);
    word_at(line, start, end, field, strong)
}

/// Returns true for a byte of a word that may have letters beyond ASCII.
fn is_wide_letter(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte >= 0x80
}

/// Returns the word in `start..end`, if it names a severity in another language than English.
fn translated_word(line: &[u8], start: usize, end: usize, field: u8) -> Option<SeverityWord> {
    let word = line.get(start..end).filter(|word| word.len() <= MAX_TRANSLATION_BYTES)?;
    let word = word_at(line, start, end, field, Some(severity_of_translation(word)?))?;
    // In prose, words such as `attention` are usual.
    let is_named = word.is_upper || word.is_label || word.style.right == b']';
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
    ) {
        return None;
    }
    // Minecraft writes `[Server thread/WARN]`, Telegraf `W!`. Elsewhere, these are paths and prose.
    if left == b'/' && right != b']' || right == b'!' && word.len() > 1 {
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
    let mut is_translated = false;
    let (severity, letters) = match word {
        // Container runtimes mark whole and partial lines by a letter after the stream.
        [_] if trimmed.ends_with(b"stdout") || trimmed.ends_with(b"stderr") => return None,
        [letter] => (severity_of_letter(*letter)?, Letters::Single),
        // The X server writes `(EE)`.
        [first, second] if first == second && (left, right) == (b'(', b')') => {
            let head = trimmed.strip_suffix(b"(")?.trim_ascii_end();
            if !head.is_empty() && !head.ends_with(b"]") {
                return None;
            }
            (severity_of_letter(*first)?, Letters::Coded)
        }
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
            let mut translated = || {
                let is_named = is_upper || matches!(right, b':' | b']');
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
            (strong.or_else(weak).or_else(&mut translated)?, letters)
        }
    };
    let is_weak = strong.is_none() && !is_translated && letters.is_word() || word == b"C";
    let begins_message =
        matches!(trimmed.last(), None | Some(b':' | b']' | b')' | b'|' | b'[' | b'<' | b'('));
    let is_marked = matches!(right, b':' | b']' | b')' | b'>' | b'|') || letters == Letters::Upper;
    let is_label = begins_message && (is_marked || is_upper) && letters.is_word();
    let style = SeverityStyle { left, right, letters };
    let begins_line = start == 0 && right == b':' && letters.is_word();
    Some(SeverityWord {
        severity,
        style,
        field,
        end,
        is_upper,
        is_weak,
        is_label,
        begins_line,
        is_translated,
    })
}
