//! Parses log lines before the message: timestamps, and words that name a severity.

use super::log_code::{line_code, message_code};
use super::log_prefix::{common_event, mark, mnemonic, named_priority};
use super::log_sign::{sign, sign_after_time};
use super::log_time::{run, time_end};
use super::log_word::{
    CODE_SIGN, HEADER_BYTES, SIGN, SeverityWord, is_wide_letter, severity_word, translated_word,
};

/// The maximum number of bytes in brackets that form one field.
const MAX_BRACKETS: usize = 100;
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
        if let Some((severity, end)) = sign(line) {
            found.words.push(SeverityWord::coded(severity, SIGN, 0, end));
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
                    let sign = sign_after_time(line, end);
                    let sign = sign.map(|(it, end)| SeverityWord::coded(it, SIGN, field, end));
                    found.words.extend(mark.or(sign));
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
                } else if let Some(severity) = message_code(word) {
                    Some(SeverityWord::coded(severity, CODE_SIGN, field, at))
                } else {
                    severity_word(line, at, at + length, field)
                };
                if let Some(mut word) = word {
                    // Directly after the time, any spelling is a label.
                    word.is_label |= !word.is_contextual
                        && found.time.is_some()
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
            if matches!(byte, b'%' | b'#')
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
