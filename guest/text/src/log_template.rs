//! Templates of log entries, which group similar entries.

use wide::u8x16;

use super::log_entry::LogEntry;
use super::log_message::message_range;
use super::log_source::{has_words, is_letter, source_length};
use context_guard_json::blocks::{copy_until, find_where, in_range};

/// The maximum number of bytes of a quoted value that [`template`] replaces.
const MAX_QUOTED_BYTES: usize = 200;

/// The parts of a log entry that [`template`] replaces, so that repetitions are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Masking {
    /// Numbers before the message: times, processes and threads.
    Header,
    /// Numbers and ids, including those in the message.
    Numbers,
    /// Numbers, ids, quoted values, paths, and everything before the message. In messages with
    /// JSON, quoted values and paths remain.
    Values,
    /// All but the words of the message.
    Words,
}

/// Returns the template of a log entry: its first line, with the parts of `masking` replaced.
/// Entries with equal templates are repetitions. O(line).
#[must_use]
pub fn template(entry: &LogEntry<'_>, masking: Masking) -> Vec<u8> {
    let line = &*entry.says;
    let (header, rest) = line.split_at_checked(entry.message).unwrap_or((line, &[]));
    let length = entry.message_end.map_or(rest.len(), |end| end.saturating_sub(header.len()));
    let (message, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
    let mut out = Vec::with_capacity(line.len());
    match masking {
        Masking::Header => {
            // Most numbers of a header are short, so that a search for them would cost more.
            for part in without_day_names(header) {
                out.extend(part.iter().filter(|byte| !byte.is_ascii_digit()));
            }
            out.extend_from_slice(message);
            out.extend(after.iter().filter(|byte| !byte.is_ascii_digit()));
        }
        Masking::Numbers => {
            for part in without_day_names(header) {
                mask_numbers(&mut out, part);
            }
            mask_numbers(&mut out, message);
            mask_numbers(&mut out, after);
        }
        Masking::Values | Masking::Words => {
            // Severities may be the last field of a line.
            let is_empty = entry.message_end.is_none() && !message.iter().any(is_letter);
            mask_message(&mut out, if is_empty { line } else { without_source(message) });
            if let Some(cause) = entry.cause.clone().and_then(|cause| line.get(cause)) {
                out.push(b' ');
                mask_values(&mut out, cause);
            }
        }
    }
    match masking {
        Masking::Words => words(&out).unwrap_or(out),
        _ => out,
    }
}

/// Returns the parts of a header without the names of weekdays and months in it, which vary like
/// the numbers of a time: `[Sun Dec 04 …]`.
fn without_day_names(header: &[u8]) -> Vec<&[u8]> {
    const NAMES: [&[u8]; 19] = [
        b"mon", b"tue", b"wed", b"thu", b"fri", b"sat", b"sun", b"jan", b"feb", b"mar", b"apr",
        b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec",
    ];
    let is_name =
        |word: &[u8]| word.len() == 3 && NAMES.iter().any(|name| word.eq_ignore_ascii_case(name));
    let (mut parts, mut start, mut word) = (Vec::new(), 0, 0);
    for at in 0..=header.len() {
        if header.get(at).is_some_and(u8::is_ascii_alphabetic) {
            continue;
        }
        if header.get(word..at).is_some_and(is_name) {
            parts.extend(header.get(start..word));
            start = at;
        }
        word = at + 1;
    }
    parts.extend(header.get(start..));
    parts
}

/// Appends a message to `out` with its values replaced. Of a JSON object after the message, only
/// the text of the error remains.
fn mask_message(out: &mut Vec<u8>, message: &[u8]) {
    let Some(at) = memchr::memmem::find(message, b"{\"") else {
        let start = out.len();
        mask_values(out, message);
        // The columns of a table may all have quotes.
        if !out.get(start..).is_some_and(has_words) && has_words(message) {
            out.truncate(start);
            mask_numbers(out, message);
        }
        return;
    };
    let (words, object) = message.split_at_checked(at).unwrap_or((message, &[]));
    if !has_words(words) {
        return mask_numbers(out, message);
    }
    mask_values(out, words);
    if let Some(text) = message_range(object).and_then(|range| object.get(range)) {
        mask_values(out, text);
    }
}

/// Returns the byte offset in an entry's first line of its message without threads, classes and
/// other sources in brackets or before a dash. O(line).
#[must_use]
pub fn text_start(entry: &LogEntry<'_>) -> usize {
    let message = entry.says.get(entry.message..).unwrap_or_default();
    entry.says.len() - without_source(message).len()
}

/// Returns a message without threads, classes and other sources in brackets or before a dash. If
/// fewer than two words would remain, returns all of it.
fn without_source(message: &[u8]) -> &[u8] {
    let is_sign = |byte: &u8| byte.is_ascii_whitespace() || b":|-]>)".contains(byte);
    let mut rest = message.get(source_length(message)..).unwrap_or_default();
    loop {
        let signs = rest.iter().take_while(|byte| is_sign(byte)).count();
        rest = rest.get(signs..).unwrap_or_default();
        let Some((part, after)) = bracketed(rest) else { break };
        // The message may be the last of the fields in brackets.
        if has_words(part) && !has_words(after) {
            return rest.get(1..).unwrap_or_default();
        }
        rest = after;
    }
    if has_words(rest) { rest } else { message }
}

/// Divides a text that begins with a bracket after the closing one. `None` for other texts.
fn bracketed(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let open = *text.first()?;
    let close = match open {
        b'[' => b']',
        b'(' => b')',
        b'<' => b'>',
        _ => return None,
    };
    let mut depth = 0usize;
    let end = memchr::memchr2_iter(open, close, text).find(|at| {
        depth = if text.get(*at) == Some(&open) { depth + 1 } else { depth - 1 };
        depth == 0
    })?;
    text.split_at_checked(end + 1)
}

/// The minimum number of words by which messages are compared. Messages of fewer words have most of
/// their meaning in names and values.
const MIN_WORDS: usize = 2;
/// The number of bytes that count as a word in languages without spaces.
const WIDE_WORD_BYTES: usize = 12;

/// Returns the words of a message, each followed by a space. Replaces names and values by `*`.
/// `None` for fewer than [`MIN_WORDS`] words.
fn words(message: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(message.len());
    let mut count = 0;
    for token in message.split(u8::is_ascii_whitespace).filter(|token| !token.is_empty()) {
        let kept = kept_word(token).unwrap_or(b"*");
        let wide = kept.iter().filter(|byte| **byte >= 0x80).count();
        count += usize::from(kept.len() > 1) + wide / WIDE_WORD_BYTES;
        if !(kept == b"*" && out.ends_with(b"* ")) {
            out.extend_from_slice(kept);
            out.push(b' ');
        }
    }
    (count >= MIN_WORDS).then_some(out)
}

/// Returns the part of a token by which messages are compared: a word, or the class of an error.
/// `None` for names and values.
fn kept_word(token: &[u8]) -> Option<&[u8]> {
    let is_mark = |byte: &u8| b".,:;!?)".contains(byte);
    let marks = token.iter().rev().take_while(|byte| is_mark(byte)).count();
    let word = token.get(..token.len() - marks)?;
    let word = word.strip_prefix(b"(").unwrap_or(word);
    // Languages without spaces have numbers between letters.
    if word.iter().all(is_letter) || token.iter().filter(|byte| **byte >= 0x80).count() > 3 {
        return Some(token).filter(|_| !word.is_empty());
    }
    let name = word.rsplit(|byte| b".:\\$".contains(byte)).next()?;
    let is_error = [b"Error".as_slice(), b"Exception"].iter().any(|end| name.ends_with(end));
    Some(name).filter(|name| is_error && name.iter().all(is_letter))
}

/// Appends `message` to `out`. Replaces numbers, ids, quoted values and paths.
fn mask_values(out: &mut Vec<u8>, message: &[u8]) {
    let mut rest = message;
    loop {
        let plain = find_where(rest, 0, |part| {
            let is = |byte| part.simd_eq(u8x16::splat(byte));
            is(b'"') | is(b'\'') | is(b'/')
        });
        let (before, value) = rest.split_at_checked(plain).unwrap_or((rest, &[]));
        mask_numbers(out, before);
        let Some(mark) = value.first() else { return };
        let is_first =
            before.last().or(out.last()).is_none_or(|byte| !byte.is_ascii_alphanumeric());
        let length = if is_first { value_length(value) } else { 1 };
        // The cause of an error is no value.
        let is_cause = *mark == b'"' && CAUSE_KEYS.iter().any(|key| out.ends_with(key));
        out.push(*mark);
        rest = value.get(if is_cause { 1 } else { length }..).unwrap_or_default();
    }
}

/// The beginnings of pairs whose value is the cause of an error.
const CAUSE_KEYS: [&[u8]; 5] = [b"error=", b"err=", b"exception=", b"cause=", b"reason="];

/// Returns the length, in bytes, of the quoted text or path at the start of `value`. 1 if no quote
/// closes the text.
fn value_length(value: &[u8]) -> usize {
    let rest = value.get(1..).unwrap_or_default();
    if value.first() == Some(&b'/') {
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || b",;:()[]\"'".contains(byte);
        return 1 + rest.iter().position(is_end).unwrap_or(rest.len());
    }
    let look = rest.get(..MAX_QUOTED_BYTES).unwrap_or(rest);
    value.first().and_then(|quote| memchr::memchr(*quote, look)).map_or(1, |at| at + 2)
}

/// Appends `text` to `out`. Replaces each number and each hexadecimal id with `0`.
#[inline(never)]
fn mask_numbers(out: &mut Vec<u8>, text: &[u8]) {
    let digit = |part| in_range(part, b'0', b'9');
    let not_id = |part: u8x16| {
        let is_dash = part.simd_eq(u8x16::splat(b'-'));
        !(digit(part) | is_dash | in_range(part | u8x16::splat(0x20), b'a', b'f'))
    };
    let mut rest = text;
    loop {
        let plain = copy_until(out, rest, digit);
        rest = rest.get(plain..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        // An id may begin with letters.
        let is_id = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
        let letters = out.iter().rev().take(plain).take_while(|byte| is_id(byte)).count();
        let start = out.len() - letters;
        let before = start.checked_sub(1).and_then(|at| out.get(at));
        if before.is_none_or(|byte| !byte.is_ascii_alphanumeric()) {
            out.truncate(start);
        }
        out.push(b'0');
        rest = rest.get(find_where(rest, 0, not_id)..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::severity::Severity;

    fn masked(line: &str, message: usize, masking: Masking) -> String {
        let says = Cow::Borrowed(line.as_bytes());
        let entry = LogEntry::new(Severity::Error, 0, says, message);
        String::from_utf8(template(&entry, masking)).unwrap()
    }

    #[test]
    fn numbers_and_ids_become_zero() {
        let line = "order 123 of 0xBEEF7 by ab12cd-9fz: 1A.2 and 77 for blk_-5";
        let expected = "order 0 of 0xBEEF0 by 0z: 0.0 and 0 for blk_0";
        assert_eq!(masked(line, 0, Masking::Numbers), expected);
        let uuid = "id beefcafe-1b2c-4d5e-8f90-a1b2c3d4e5f6 lost";
        assert_eq!(masked(uuid, 0, Masking::Numbers), "id 0 lost");
    }

    #[test]
    fn names_of_days_and_months_are_masked_in_headers() {
        let line = "[Sun Dec 04 04:47:44 2005] [error] sun is up";
        let message = line.find("sun is").unwrap();
        assert_eq!(masked(line, message, Masking::Numbers), "[  0 0:0:0 0] [error] sun is up");
        assert_eq!(masked(line, message, Masking::Header), "[   :: ] [error] sun is up");
        let line = "Monday mon-1 may.x sunny";
        assert_eq!(masked(line, line.len(), Masking::Numbers), "Monday 0 .x sunny");
    }

    #[test]
    fn quoted_values_and_paths_are_masked_last() {
        let line = "can't read '/etc/a.conf' of \"x y\" in /var/b: no \"z\"";
        assert_eq!(masked(line, 0, Masking::Numbers), line);
        assert_eq!(masked(line, 0, Masking::Values), "can't read ' of \" in /: no \"");
        let json = r#"{"msg":"failed 7"}"#;
        assert_eq!(masked(json, 0, Masking::Values), r#"{"msg":"failed 0"}"#);
    }

    #[test]
    fn repeats_differ_in_time_or_in_numbers() {
        let one = "2026-01-02 10:00:00 WARN attempt 5 of upstream a1b2";
        let two = "2026-01-02 11:30:09 WARN attempt 6 of upstream a1b3";
        assert_ne!(masked(one, 24, Masking::Header), masked(two, 24, Masking::Header));
        assert_eq!(masked(one, 24, Masking::Numbers), masked(two, 24, Masking::Numbers));
        let later = one.replace("10:00", "12:34");
        assert_eq!(masked(one, 24, Masking::Header), masked(&later, 24, Masking::Header));
    }

    #[test]
    fn json_after_a_message_is_ignored() {
        let one = r#"Target class X does not exist. {"exception":"at a.php:916"}"#;
        let two = r#"Target class X does not exist. {"exception":"at b.php:1"}"#;
        assert_eq!(masked(one, 0, Masking::Values), masked(two, 0, Masking::Values));
        let other = r#"host FAILED to start => {"changed": false, "msg": "no route"}"#;
        assert!(masked(other, 0, Masking::Values).ends_with("no route"));
    }

    #[test]
    fn texts_follow_sources() {
        for (line, message, expected) in [
            (
                "ERROR [Compaction:1] 2026-01-02 1:02:03,5 A.java:1 - no space left",
                5,
                "no space left",
            ),
            ("WARN ] [] [a.b] [tid: 7] no space left", 4, "no space left"),
            ("ERROR: <7> (main) no space left", 5, "no space left"),
            ("ERROR [no space left]", 5, "no space left]"),
            ("<Error> <HTTP> <<Kernel>> <> <[id: 7]> <no <b> left>", 6, "no <b> left>"),
        ] {
            let says = Cow::Borrowed(line.as_bytes());
            let entry = LogEntry::new(Severity::Error, 0, says, message);
            assert_eq!(line.get(text_start(&entry)..), Some(expected), "{line}");
        }
    }

    #[test]
    fn words_remain_last() {
        let line = "Class App.Orders of user_7 'x' is lost: Retry";
        assert_eq!(masked(line, 0, Masking::Words), "Class * of * is lost: Retry ");
        let class = "failed with java.lang.OutOfMemoryError: 7 (timeout).";
        let expected = "failed with OutOfMemoryError * (timeout). ";
        assert_eq!(masked(class, 0, Masking::Words), expected);
    }

    #[test]
    fn messages_of_few_words_keep_their_values() {
        for (one, two) in [
            ("code=E1001 op=write", "code=E2002 op=read"),
            ("java.lang.OutOfMemoryError", "java.io.IOException"),
            ("timeout.", "refused."),
            ("订单123失败", "库存123不足"),
            ("[订单] 处理 订单123失败", "[库存] 处理 库存9不足"),
            ("the connection timeout.", "the connection refused."),
            ("unhandled error: a.FooException", "unhandled error: a.BarException"),
        ] {
            let [first, second] = [one, two].map(|line| masked(line, 0, Masking::Words));
            assert_ne!(first, second);
        }
        let [one, two] = ["接続が切断されました host=db-1", "接続が切断されました host=web.b"];
        assert_eq!(masked(one, 0, Masking::Words), masked(two, 0, Masking::Words));
        let (one, two) = ("db-1 down CRITICAL", "web-1 slow CRITICAL");
        assert_ne!(masked(one, 18, Masking::Words), masked(two, 19, Masking::Words));
    }

    #[test]
    fn causes_in_pairs_are_no_values() {
        let one = r#"request failed user="a" err="disk 1 full""#;
        assert_eq!(masked(one, 0, Masking::Values), r#"request failed user=" err="disk 0 full""#);
    }
}
