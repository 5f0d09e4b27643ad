//! The entries of a log as JSON records, for queries: `line`, `time`, `level` and `message`, with
//! what else an entry states in a usual form.
//!
//! | form | members |
//! |---|---|
//! | `host process[12]: …` after the time (syslog) | `host`, `process`, `pid` |
//! | `name: …` after time and level | `source` |
//! | `key=value`, `key="value"`, also between bars | each key |
//! | an access log (common, combined) | `client`, `method`, `path`, `status`, `bytes`, … |
//!
//! Members that an entry does not state are absent. Lines that begin no entry belong to the message
//! before them.

use std::borrow::Cow;

use super::table::write_cell;
use super::{Query, QueryInput, QueryResult};
use crate::json::text::quoted;
use crate::text::colours::without_colours;
use crate::text::log_format::LogFormat;
use crate::text::log_line::LogLine;

/// The maximum size of a log, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// The maximum number of lines of a log: the memory of a query is limited.
const MAX_LINES: usize = 250_000;
/// The number of lines from which the format is learned.
const SAMPLE_LINES: usize = 400;
/// The maximum length of a key, and of the name of a process or source, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// The maximum number of keys of one entry.
const MAX_KEYS: usize = 64;
/// The members that every entry has its own value for. Keys of these names are left out.
const OWN: [&str; 3] = ["line", "time", "message"];

/// The entries of a log.
struct LogRecords {
    /// A JSON list of them.
    json: Vec<u8>,
    /// The number of filled lines before the first entry, which no record has.
    skipped: usize,
}

impl Query {
    /// Runs a query of records on the entries of a log. `None` if the text is no log, or the query
    /// asks for no records.
    pub(super) fn run_on_log(
        &self,
        text: &[u8],
        input: &QueryInput<'_>,
    ) -> Option<Result<QueryResult, String>> {
        let is_query = self.aggregate.is_some() || self.fields.is_some() || self.filters();
        let log = if is_query { read(text) } else { None }?;
        let query = Self { path: None, ..self.clone() };
        let skipped = match log.skipped {
            0 => String::new(),
            1 => ", without the line before the first".to_owned(),
            lines => format!(", without the {lines} lines before the first"),
        };
        let note = format!("; the entries of the log were read as records{skipped}");
        Some(query.run_on_json(&log.json, input).map(|mut result| {
            result.description.push_str(&note);
            result
        }))
    }
}

/// Returns the entries of a log as a JSON list. `None` if the text is no log or too large, or less
/// than four fifths of its lines that are not indented begin an entry with a time. O(text).
fn read(text: &[u8]) -> Option<LogRecords> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let plain = |line: &'_ str| -> String {
        let line = without_colours(Cow::Borrowed(line.as_bytes()));
        String::from_utf8_lossy(&line).into_owned()
    };
    if text.lines().nth(MAX_LINES).is_some() {
        return None;
    }
    let lines: Vec<String> = text.lines().map(plain).collect();
    let sample: Vec<Cow<'_, [u8]>> =
        lines.iter().take(SAMPLE_LINES).map(|line| Cow::Borrowed(line.as_bytes())).collect();
    let format = LogFormat::learn(&sample);
    if !format.is_log() {
        return None;
    }
    let mut entries: Vec<LogRecord<'_>> = Vec::new();
    let (mut timed, mut counted, mut skipped) = (0, 0, 0);
    for (number, line) in lines.iter().enumerate() {
        let is_own = !line.trim().is_empty() && !line.starts_with([' ', '\t']);
        counted += usize::from(is_own);
        let head = format.read(line.as_bytes());
        let time_end = LogLine::parse(line.as_bytes()).time_end;
        if head.is_start && time_end > 0 {
            timed += usize::from(is_own);
            entries.push(LogRecord::new(number + 1, line, time_end, head.message));
        } else if let Some(last) = entries.last_mut() {
            last.more.push(line);
        } else {
            skipped += usize::from(!line.trim().is_empty());
        }
    }
    if entries.is_empty() || timed * 5 < counted * 4 {
        return None;
    }
    let mut out = vec![b'['];
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        entry.write(&mut out);
    }
    out.push(b']');
    Some(LogRecords { json: out, skipped })
}

/// An entry of a log.
struct LogRecord<'l> {
    line: usize,
    time: &'l str,
    level: &'l str,
    /// The entry after its time and level.
    rest: &'l str,
    /// The entry before its time.
    before: &'l str,
    /// The lines that follow and begin no entry.
    more: Vec<&'l str>,
}

impl<'l> LogRecord<'l> {
    /// Reads a line. `time_end` and `message` are the offsets after its time and its level.
    fn new(number: usize, line: &'l str, time_end: usize, message: usize) -> Self {
        let part = |from: usize, to: usize| line.get(from..to).unwrap_or_default();
        // A message right after the time has no level before it.
        let message = if message == time_end { 0 } else { message };
        let time_end = time_end + zone_length(part(time_end, line.len()));
        let begin = time_start(part(0, time_end));
        let end = message.max(time_end);
        let level = if message > time_end { last_word(part(time_end, message)) } else { "" };
        // The level may be before the time.
        let level = match level {
            "" if message > 0 && message < time_end => last_word(part(0, message)),
            level => level,
        };
        Self {
            line: number,
            time: part(begin, time_end).trim_matches(['[', ']', '(', ')', ' ']),
            level,
            rest: part(end, line.len()),
            before: part(0, begin).trim_end_matches(['[', ' ']),
            more: Vec::new(),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut members: Vec<(&str, &str)> = Vec::new();
        if !self.level.is_empty() {
            members.push(("level", self.level));
        }
        let rest = self.rest.trim_start_matches([']', ')', '|', ':', '-', ',', ' ', '\t']);
        let message = match access(self.before, rest, &mut members) {
            true => rest,
            false => origin(rest, self.level.is_empty(), &mut members),
        };
        pairs(message, &mut members);
        out.extend_from_slice(format!("{{\"line\":{},\"time\":", self.line).as_bytes());
        out.extend(quoted(self.time));
        for (at, (name, value)) in members.iter().enumerate() {
            let is_known = members.iter().take(at).any(|(known, _)| known == name);
            if is_known || OWN.contains(name) {
                continue;
            }
            out.push(b',');
            out.extend(quoted(name));
            out.push(b':');
            write_cell(value, false, out);
        }
        out.extend_from_slice(b",\"message\":");
        let text = std::iter::once(message).chain(self.more.iter().copied());
        out.extend(quoted(text.collect::<Vec<_>>().join("\n").trim_end()));
        out.push(b'}');
    }
}

/// Returns the offset at which the time at the end of `prefix` begins: at the start, unless a
/// bracket or another word is before it.
fn time_start(prefix: &str) -> usize {
    if let Some(at) = prefix.rfind('[') {
        return at + 1;
    }
    let is_date = |text: &str| {
        const NAMES: &str =
            "jan feb mar apr may jun jul aug sep oct nov dec mon tue wed thu fri sat sun";
        let name: String = text.chars().take(3).collect::<String>().to_lowercase();
        text.starts_with(|sign: char| sign.is_ascii_digit())
            || name.len() == 3 && NAMES.split(' ').any(|known| known == name)
    };
    let mut starts =
        std::iter::once(0).chain(prefix.match_indices([' ', '=', '"']).map(|(at, _)| at + 1));
    starts.find(|at| prefix.get(*at..).is_some_and(is_date)).unwrap_or(0)
}

/// Returns the length of a time zone with a space before it: ` -0700`. 0 if there is none.
fn zone_length(text: &str) -> usize {
    let zone = text.get(..6).and_then(|zone| zone.strip_prefix([' ']));
    let digits = zone.and_then(|zone| zone.strip_prefix(['+', '-']));
    let is_zone = digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if is_zone { 6 } else { 0 }
}

/// Returns the word at the end of a text, of letters and digits.
fn last_word(text: &str) -> &str {
    let from = text.rfind(|sign: char| !sign.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
    text.get(from..).unwrap_or_default()
}

/// Adds the members of an access log: `client - user [time] "GET /path HTTP/1.1" 200 12 "…" "…"`.
/// Returns false if the entry has another form.
fn access<'l>(before: &'l str, rest: &'l str, members: &mut Vec<(&'l str, &'l str)>) -> bool {
    let read = || {
        let (request, after) = rest.strip_prefix('"')?.split_once("\" ")?;
        let (method, target) = request.split_once(' ')?;
        let path = target.rsplit_once(" HTTP/").map_or(target, |(path, _)| path);
        let mut words = after.split(' ');
        let (status, bytes) = (words.next()?, words.next().unwrap_or("-"));
        let is_status = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
        let quoted: Vec<&str> = after.split('"').skip(1).step_by(2).collect();
        (is_status && method.bytes().all(|byte| byte.is_ascii_uppercase()))
            .then_some((method, path, status, bytes, quoted))
    };
    let Some((method, path, status, bytes, quoted)) = read() else { return false };
    let value = |text: &'l str| if text == "-" { "" } else { text };
    let client = before.split(' ').next().unwrap_or_default();
    members.extend([("client", client), ("method", method), ("path", path), ("status", status)]);
    members.push(("bytes", value(bytes)));
    members.extend(["referer", "agent"].into_iter().zip(quoted.into_iter().map(value)));
    true
}

/// Adds what wrote an entry, and returns its message. `is_bare` is true if no level precedes it: a
/// host may then be first, as in syslog.
fn origin<'l>(rest: &'l str, is_bare: bool, members: &mut Vec<(&'l str, &'l str)>) -> &'l str {
    let is_name = |name: &str| {
        (1..=MAX_NAME_BYTES).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./$@".contains(&byte))
            && name.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let Some((head, message)) =
        rest.split_once(": ").or_else(|| Some((rest.strip_suffix(':')?, "")))
    else {
        return rest;
    };
    let (host, name) = match head.split_once(' ') {
        Some((host, name)) if is_bare && is_name(host) => (host, name),
        None => ("", head),
        Some(_) => return rest,
    };
    let (name, pid) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        Some((name, pid)) if pid.bytes().all(|byte| byte.is_ascii_digit()) => (name, pid),
        _ => (name, ""),
    };
    // Modules are in parentheses: `sshd(pam_unix)`.
    let short = name.split_once('(').map_or(name, |(short, _)| short);
    let name = if name.ends_with(')') { short } else { name };
    if !is_name(name) {
        return rest;
    }
    if host.is_empty() && pid.is_empty() {
        members.push(("source", name));
        return message;
    }
    members.extend(
        [("host", host), ("process", name), ("pid", pid)]
            .into_iter()
            .filter(|(_, text)| !text.is_empty()),
    );
    message
}

/// Adds the pairs `key=value` of a message. They are between bars if it has such pairs, else
/// between spaces, commas and semicolons.
fn pairs<'l>(message: &'l str, members: &mut Vec<(&'l str, &'l str)>) {
    let is_key = |key: &str| {
        key.len() <= MAX_NAME_BYTES
            && key.starts_with(|sign: char| sign.is_ascii_alphabetic() || sign == '_')
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    let mut bars = message.split('|').filter_map(|part| part.trim().split_once('='));
    if message.contains('|') && bars.all(|(key, _)| is_key(key)) {
        let parts = message.split('|').filter_map(|part| part.trim().split_once('='));
        members.extend(parts.filter(|(key, _)| is_key(key)).take(MAX_KEYS));
        return;
    }
    let (mut rest, mut found) = (message, 0);
    while let Some((before, after)) = rest.split_once('=').filter(|_| found < MAX_KEYS) {
        let key = before.rsplit([' ', ',', ';', '\t', '(', '{', '[']).next().unwrap_or_default();
        let quote = after.chars().next().filter(|sign| matches!(sign, '"' | '\''));
        let quoted = quote.and_then(|quote| after.get(1..)?.split_once(quote));
        let end = after.find([' ', ',', ';', '\t', ')', '}', ']']).unwrap_or(after.len());
        let (value, next) = quoted.unwrap_or_else(|| after.split_at(end));
        if is_key(key) && !value.starts_with('=') {
            members.push((key, value));
            found += 1;
        }
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(log: &str) -> String {
        let found = read(log.as_bytes()).unwrap_or_else(|| panic!("no log: {log}"));
        let records: Vec<serde_json::Value> = serde_json::from_slice(&found.json).unwrap();
        records[0].to_string()
    }

    #[test]
    fn entries_are_records() {
        for (line, expected) in [
            (
                "2024-05-01 10:00:00,123 ERROR db.pool: no connection to a=1\n  at x\n",
                r#"{"line":1,"time":"2024-05-01 10:00:00,123","level":"ERROR","source":"db.pool","a":1,"message":"no connection to a=1\n  at x"}"#,
            ),
            (
                "Jun 14 15:16:01 combo sshd(pam_unix)[19939]: failure; uid=0 ruser= rhost=218.188.2.4 \n",
                r#"{"line":1,"time":"Jun 14 15:16:01","host":"combo","process":"sshd","pid":19939,"uid":0,"ruser":null,"rhost":"218.188.2.4","message":"failure; uid=0 ruser= rhost=218.188.2.4"}"#,
            ),
            (
                "10.0.0.1 - ann [10/Oct/2000:13:55:36 -0700] \"GET /a?b=1 HTTP/1.0\" 404 - \"-\" \"curl/8 (x)\"\n",
                r#"{"line":1,"time":"10/Oct/2000:13:55:36 -0700","client":"10.0.0.1","method":"GET","path":"/a?b=1","status":404,"bytes":null,"referer":null,"agent":"curl/8 (x)","message":"\"GET /a?b=1 HTTP/1.0\" 404 - \"-\" \"curl/8 (x)\""}"#,
            ),
            (
                "time=2024-05-01T10:00:00Z level=warn msg=\"a b\" path=/x\n",
                r#"{"line":1,"time":"2024-05-01T10:00:00Z","level":"warn","msg":"a b","path":"/x","message":"level=warn msg=\"a b\" path=/x"}"#,
            ),
            (
                "[2018-08-19T03:17:55.765Z] I santad: action=EXEC|decision=ALLOW|path=/a b/c\n",
                r#"{"line":1,"time":"2018-08-19T03:17:55.765Z","level":"I","source":"santad","action":"EXEC","decision":"ALLOW","path":"/a b/c","message":"action=EXEC|decision=ALLOW|path=/a b/c"}"#,
            ),
        ] {
            let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
            assert_eq!(first(&line.repeat(5)), expected.to_string(), "{line}");
        }
    }

    #[test]
    fn other_texts_have_no_entries() {
        for text in [
            "",
            "a\nb\nc\n",
            "At 10:00 we met.\nAt 11:00 we left.\nThen nothing.\nAnd so on.\nEnd.\n",
        ] {
            assert!(read(text.as_bytes()).is_none(), "{text}");
        }
    }
}
