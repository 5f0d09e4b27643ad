//! Messages of log entries that are values of named fields, and the causes that they name.

use std::ops::Range;

use super::log_member::{Member, Members, is_object, unquoted};
use super::log_pair::{key_before, value_range};
use context_guard_json::text::{Form, boundary};

/// The maximum length of a cause, in bytes.
const MAX_CAUSE_BYTES: usize = 200;
/// The names of messages, those of the best messages first.
const MESSAGES: [&str; 11] = [
    "message",
    "msg",
    "short_message",
    "@m",
    "@mt",
    "body",
    "event",
    "text",
    "error",
    "err",
    "log",
];
/// The names of causes, those of the best causes first.
const CAUSES: [&str; 13] = [
    "error",
    "err",
    "error.message",
    "error_message",
    "errorMessage",
    "errmsg",
    "exception",
    "exception.message",
    "cause",
    "reason",
    "exc_info",
    "@x",
    "stack_trace",
];
/// The names of causes in an error that is an object.
const INNER_CAUSES: [&str; 4] = ["message", "msg", "reason", "errmsg"];

/// Returns the range of the message that a line names: the value of `"message"`, `msg=` or a
/// similar field, without quotes. `None` without one. O(line).
pub(super) fn message_range(line: &[u8]) -> Option<Range<usize>> {
    object_message(line).or_else(|| pair_message(line))
}

/// Returns the range of the message in the JSON object of a line. Members of inner objects count
/// only if the object itself has no message.
fn object_message(line: &[u8]) -> Option<Range<usize>> {
    let from = object_start(line)?;
    let members = Members::new(line.get(from..)?);
    let rank = |member: &Member<'_>| {
        let rank =
            MESSAGES.iter().position(|name| member.name.eq_ignore_ascii_case(name.as_bytes()))?;
        let is_text = member.value.len() > 2 && member.value.starts_with(b"\"");
        is_text.then_some((member.depth > 1, rank))
    };
    let ranked = members.filter_map(|member| Some((rank(&member)?, member)));
    let (_, best) = ranked.min_by_key(|(rank, _)| *rank)?;
    let start = from + best.at + 1;
    Some(start..start + unquoted(best.value).len())
}

/// Returns the byte offset of the first object with members in a line. `None` without one.
fn object_start(line: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'{', line).find(|at| line.get(*at..).is_some_and(is_object))
}

/// Returns the range of the message in a line of `key=value` pairs.
fn pair_message(line: &[u8]) -> Option<Range<usize>> {
    best_pair(line, &MESSAGES)
}

/// Returns the range of the value whose key is the earliest of `keys`, without quotes. `None` if a
/// line of `key=value` pairs has no such key, or if its value is empty.
fn best_pair(line: &[u8], keys: &[&str]) -> Option<Range<usize>> {
    let rank = |sign: usize| {
        let key = key_before(line, sign);
        keys.iter().position(|name| name.as_bytes() == key)
    };
    let signs = memchr::memchr_iter(b'=', line);
    let (_, sign) = signs.filter_map(|sign| Some((rank(sign)?, sign))).min()?;
    let range = value_range(line, sign);
    let value = line.get(range.clone())?;
    let inner = unquoted(value);
    let start = range.start + usize::from(inner.len() < value.len());
    (!inner.is_empty()).then_some(start..start + inner.len())
}

/// Returns the range of the cause that a line names in addition to its `message`: the value of
/// `"error"`, `err=` or a similar field, or the message in such an object. Of a stack trace, that
/// is the line with the exception. `None` without a cause. O(line).
pub(super) fn cause_range(line: &[u8], message: &Range<usize>) -> Option<Range<usize>> {
    let object = object_start(line);
    let object = object.filter(|from| *from < message.start);
    let range = match object {
        Some(from) => object_cause(line, from, message),
        None => best_pair(line, &CAUSES),
    }?;
    if range.start < message.end && message.start < range.end {
        return None;
    }
    let text = line.get(range.clone())?;
    // Python writes the exception after the trace, others before it.
    let last =
        || Some(memchr::memmem::rfind(text.strip_suffix(b"\\n").unwrap_or(text), b"\\n")? + 2);
    let skipped = if text.starts_with(b"Traceback (") { last()? } else { 0 };
    let rest = text.get(skipped..)?;
    let end = memchr::memmem::find(rest, b"\\n").unwrap_or(rest.len());
    let end = boundary(rest, end.min(MAX_CAUSE_BYTES), Form::Raw);
    let start = range.start + skipped;
    (end > 0).then_some(start..start + end)
}

/// Returns the range of the cause in the object at `from`.
fn object_cause(line: &[u8], from: usize, message: &Range<usize>) -> Option<Range<usize>> {
    // The depth of the members of an error that is an object.
    let mut inner = None;
    let mut best: Option<(usize, Range<usize>)> = None;
    for member in Members::new(line.get(from..)?) {
        inner = inner.filter(|depth| member.depth >= *depth);
        let rank = |names: &[&str]| {
            names.iter().position(|name| member.name.eq_ignore_ascii_case(name.as_bytes()))
        };
        let rank = match inner {
            Some(_) => rank(&INNER_CAUSES),
            None => rank(&CAUSES),
        };
        if member.value.is_empty() {
            inner = inner.or(rank.map(|_| member.depth + 1));
            continue;
        }
        let start = from + member.at + 1;
        let range = start..start + unquoted(member.value).len();
        let is_text = member.value.starts_with(b"\"") && member.value.len() > 2;
        let rank = rank.filter(|_| is_text && range.start != message.start);
        if let Some(rank) = rank
            && best.as_ref().is_none_or(|(known, _)| rank < *known)
        {
            best = Some((rank, range));
        }
    }
    best.map(|(_, range)| range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: &str) -> &str {
        message_range(line.as_bytes()).map_or("", |range| line.get(range).unwrap())
    }

    #[test]
    fn messages_are_found() {
        for (line, expected) in [
            (r#"{"err":{"message":"inner"},"level":50,"msg":"outer \"x\""}"#, r#"outer \"x\""#),
            (r#"{"err":{"message":"inner"},"level":50}"#, "inner"),
            (r#"[pod/a] {"level":"ERROR","msg":"cut"#, "cut"),
            (r#"t=1 lvl=eror msg="no peers left" n=2"#, "no peers left"),
            ("level=warn msg=slow n=2", "slow"),
            ("level=warn n=2", ""),
        ] {
            assert_eq!(message(line), expected, "{line}");
        }
    }

    #[test]
    fn causes_are_found() {
        for (line, expected) in [
            (
                r#"{"err":{"message":"no \"x\"","stack":"a\nb"},"level":50,"msg":"outer"}"#,
                r#"no \"x\""#,
            ),
            (r#"{"error":{"type":"a","root":[{"reason":"b"}],"reason":"c"},"message":"d"}"#, "b"),
            (r#"{"error":{"code":7},"reason":"late","message":"d"}"#, "late"),
            (r#"{"level":50,"err":{"message":"inner"}}"#, ""),
            (
                r#"{"event":"x","exception":"Traceback (most\n  File\nKeyError: 'a'\n"}"#,
                "KeyError: 'a'",
            ),
            (r#"{"@mt":"x","@x":"System.Exception: y\r\n   at z"}"#, "System.Exception: y\\r"),
            (r#"level=error msg="request failed" err="disk full" n=2"#, "disk full"),
            ("level=error error=x", ""),
            ("level=error msg=x", ""),
        ] {
            let found = cause_range(line.as_bytes(), &message_range(line.as_bytes()).unwrap());
            assert_eq!(found.map_or("", |range| line.get(range).unwrap()), expected, "{line}");
        }
    }
}
