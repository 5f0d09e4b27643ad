//! Pairs such as `key=value` in the messages of a log.

use std::borrow::Cow;

use super::{LogMember, MAX_KEYS, MAX_NAME_BYTES};

/// Returns true if a text is the key of a pair.
pub(super) fn is_key(key: &str) -> bool {
    key.len() <= MAX_NAME_BYTES
        && key.starts_with(|sign: char| sign.is_ascii_alphabetic() || sign == '_')
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// Adds the `key=value` pairs of a message to `members`. If the message has only pairs, they may be
/// between vertical bars, else they are between spaces, commas and semicolons.
pub(super) fn pairs<'l>(message: &'l str, members: &mut Vec<LogMember<'l>>) {
    let parts: Vec<&str> = message.split('|').filter(|part| !part.trim().is_empty()).collect();
    let barred: Option<Vec<(&str, &str)>> = parts
        .iter()
        .map(|part| part.trim().split_once('=').filter(|(key, _)| is_key(key)))
        .collect();
    // Of two parts, one bar may be a sign of a value.
    let has_more = |(_, value): &(&str, &str)| value.contains('=') || value.contains('"');
    if let Some(barred) = barred
        .filter(|barred| barred.len() > 2 || barred.len() == 2 && !barred.iter().any(has_more))
    {
        let values = barred.into_iter().take(MAX_KEYS);
        members.extend(values.map(|(key, value)| (key, Cow::Borrowed(value))));
        return;
    }
    let (mut rest, mut found) = (message, 0);
    while let Some((before, after)) = rest.split_once('=').filter(|_| found < MAX_KEYS) {
        let key = before.rsplit([' ', ',', ';', '\t', '(', '{', '[']).next().unwrap_or_default();
        let (mut last, mut open) = (' ', 0_usize);
        let end = after.char_indices().find(|(at, sign)| {
            let rest = after.get(at + 1..).unwrap_or_default();
            // A comma between digits is a part of a number, or of a list of them.
            let is_number = *sign == ','
                && last.is_ascii_digit()
                && rest.starts_with(|next: char| next.is_ascii_digit());
            // A bracket that the value opens belongs to it: `bot[1]`.
            let is_closed = open > 0 && [')', '}', ']'].contains(sign);
            open = match sign {
                '(' | '{' | '[' if *at > 0 => open + 1,
                _ => open - usize::from(is_closed),
            };
            last = *sign;
            [' ', ',', ';', '\t', ')', '}', ']'].contains(sign) && !is_number && !is_closed
        });
        let end = end.map_or(after.len(), |(at, _)| at);
        let (value, next) = match quoted_value(after) {
            Some((value, next)) => (Cow::Owned(value), next),
            None => (
                Cow::Borrowed(after.get(..end).unwrap_or_default()),
                after.get(end..).unwrap_or_default(),
            ),
        };
        if is_key(key) && !value.starts_with('=') {
            members.push((key, value));
            found += 1;
        }
        rest = next;
    }
}

/// Returns the value in quotes at the start of a text, and the rest. Removes backslashes before
/// quotes and backslashes. `None` if the text does not begin with a closed quote.
fn quoted_value(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|sign| matches!(sign, '"' | '\''))?;
    let inner = text.get(1..)?;
    let mut value = String::new();
    let mut signs = inner.char_indices();
    while let Some((at, sign)) = signs.next() {
        if sign == quote {
            return Some((value, inner.get(at + 1..)?));
        }
        if sign != '\\' {
            value.push(sign);
            continue;
        }
        match signs.next()?.1 {
            escaped @ ('"' | '\\') => value.push(escaped),
            other => value.extend([sign, other]),
        }
    }
    None
}
