//! The entries of a log as JSON records, for queries: `line`, a time, `level` and `message`, with
//! what else an entry states in a usual form.
//!
//! | form | members |
//! |---|---|
//! | a time with its year, or a number of seconds | `time`, as in ISO 8601 if it is known |
//! | a time without a year, or without a date | `timeOfYear`, `timeOfDay` |
//! | `host process[12]: …` after the time (syslog) | `host`, `process`, `pid` |
//! | `name: …` after time and level, `name - …` | `source` |
//! | `[main]` before such a name | `thread` |
//! | `key=value`, `key="value"`, also between bars | each key |
//! | an access log, a request in quotes | `client`, `method`, `path`, `status`, `bytes`, … |
//! | `[pid 12] [client a]`, `client: a, host: b` | each label |
//!
//! `message` is all of the entry but its time, so that nothing is lost. Members that an entry does
//! not state are absent. Lines that begin no entry belong to the message before them.
//!
//! JSON objects between other lines, and reports of compilers and linters, are records too.

mod access;
mod diagnostics;
mod pairs;
mod run;
mod time;
mod writer;

use std::borrow::Cow;

use self::pairs::{is_key, pairs};
use self::time::{LogTime, zone_length};
use super::grep::Pattern;
use super::json_lines;
use super::names::left_out;
use super::table::write_cell;
use crate::json::text::quoted;
use crate::text::colours::without_colours;
use crate::text::log_format::LogFormat;
use crate::text::log_line::LogLine;

/// The maximum size of a log, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// The maximum number of lines of a log, which limits the memory of a query.
const MAX_LINES: usize = 250_000;
/// The maximum size of all records of a log, in bytes of JSON.
const MAX_JSON_BYTES: usize = 48 << 20;
/// The number of lines from which the log format is learned.
const SAMPLE_LINES: usize = 400;
/// The maximum length of a key, and of the name of a process or source, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// The maximum number of keys of one entry.
const MAX_KEYS: usize = 64;
/// The members of the entries themselves. Each entry has a line, a message, and a time in one of
/// three forms. Keys of an entry with these names are left out.
const OWN: [&str; 5] = ["line", "time", "timeOfYear", "timeOfDay", "message"];

/// The separators between the parts of an entry.
const SEPARATORS: [char; 8] = [']', ')', '|', ':', '-', ',', ' ', '\t'];

/// A member of a record: its name and its text.
type LogMember<'l> = (&'l str, Cow<'l, str>);

/// The entries of a log.
struct LogRecords {
    /// A JSON list of the entries.
    json: Vec<u8>,
    /// The form of the records, in words.
    what: &'static str,
    /// The number of non-blank lines that belong to no record, in words. Empty if there are none.
    skipped: String,
    /// The number of entries.
    total: usize,
    /// The number of entries that the pattern selected.
    chosen: usize,
    /// True if the records are JSON objects of the text. A pattern is then searched in their
    /// values.
    is_json: bool,
}

impl LogRecords {
    /// Returns the note on the form of the records and on the lines that belong to none.
    fn note(&self) -> String {
        format!("; {}{}", self.what, self.skipped)
    }
}

/// Returns the records of a text as a JSON list. If `pattern` is given, only matching records.
/// `None` if the text has no records, is too large, or is not UTF-8. O(text).
fn read(text: &[u8], pattern: Option<&Pattern>) -> Option<LogRecords> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= MAX_BYTES)?;
    if text.lines().nth(MAX_LINES).is_some() {
        return None;
    }
    // Lines of JSON have times too.
    json_objects(text).or_else(|| {
        let lines = without_colours_of(text);
        entries(&lines, pattern).or_else(|| diagnostics::read(&lines, pattern))
    })
}

/// Returns the JSON objects on lines of their own as a JSON list. `None` unless they are at least
/// two, and at least half of the non-blank lines. O(text).
fn json_objects(text: &str) -> Option<LogRecords> {
    let (objects, lines) = json_lines::objects(text)?;
    let total = objects.len();
    let json = format!("[{}]", objects.join(",")).into_bytes();
    let skipped = json_lines::skipped(lines - total);
    (json.len() <= MAX_JSON_BYTES).then_some(LogRecords {
        json,
        what: json_lines::WHAT,
        skipped,
        total,
        chosen: total,
        is_json: true,
    })
}

/// Returns the lines of a text without ANSI escape sequences.
fn without_colours_of(text: &str) -> Vec<String> {
    let plain = |line: &str| -> String {
        let line = without_colours(Cow::Borrowed(line.as_bytes()));
        String::from_utf8_lossy(&line).into_owned()
    };
    text.lines().map(plain).collect()
}

/// Returns the entries of a log as a JSON list. If `pattern` is given, only matching entries.
/// `None` if the lines are not a log. At least four fifths of its unindented lines must begin an
/// entry with a time.
fn entries(lines: &[String], pattern: Option<&Pattern>) -> Option<LogRecords> {
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
        let time_end = if head.is_start { LogLine::parse(line.as_bytes()).time_end } else { 0 };
        if time_end > 0 {
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
    let total = entries.len();
    entries.retain(|entry| pattern.is_none_or(|pattern| pattern.is_match(&entry.text())));
    let mut out = vec![b'['];
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        entry.write(&mut out);
        if out.len() > MAX_JSON_BYTES {
            return None;
        }
    }
    out.push(b']');
    let skipped = left_out(skipped, "before the first", "before the first");
    let what = "the entries of the log were read as records";
    let chosen = entries.len();
    Some(LogRecords { json: out, what, skipped, total, chosen, is_json: false })
}

/// An entry of a log.
struct LogRecord<'l> {
    /// The number of the entry's first line, from 1.
    number: usize,
    /// The entry's first line.
    line: &'l str,
    /// The text of the first line before the time.
    before: &'l str,
    time: &'l str,
    /// The text of the first line after the time.
    after: &'l str,
    /// The text between the time and the level.
    between: &'l str,
    level: &'l str,
    /// The text of the first line after time and level.
    rest: &'l str,
    /// The following lines, up to the next entry.
    more: Vec<&'l str>,
}

impl<'l> LogRecord<'l> {
    /// Reads the first line of an entry. `time_end` and `message` are the byte offsets after its
    /// time and its level.
    fn new(number: usize, line: &'l str, time_end: usize, message: usize) -> Self {
        let part = |from: usize, to: usize| line.get(from..to).unwrap_or_default();
        // A message right after the time has no level before it.
        let message = if message == time_end { 0 } else { message };
        let time_end = time_end + zone_length(part(time_end, line.len()));
        let begin = time::start(part(0, time_end));
        let (level, between) = match message {
            0 => ("", ""),
            // The level may be before the time.
            end if end < time_end => (last_word(part(0, end)), ""),
            end => {
                let level = last_word(part(time_end, end));
                (level, part(time_end, end - level.len()))
            }
        };
        Self {
            number,
            line,
            before: part(0, begin),
            time: part(begin, time_end).trim_matches(['[', ']', '(', ')', ' ']),
            after: part(time_end, line.len()),
            between,
            level: short_level(level),
            rest: part(message.max(time_end), line.len()),
            more: Vec::new(),
        }
    }

    /// Returns all lines of the entry.
    fn text(&self) -> Cow<'l, str> {
        match self.more.is_empty() {
            true => Cow::Borrowed(self.line),
            false => {
                let lines = std::iter::once(self.line).chain(self.more.iter().copied());
                Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
            }
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut members: Vec<LogMember<'l>> = Vec::new();
        let time = LogTime::read(self.time);
        if !self.level.is_empty() {
            members.push(("level", self.level.into()));
        }
        let (thread, after) = writer::thread(self.between, self.rest);
        let after = after.trim_start_matches(SEPARATORS);
        let source = writer::source(self.between, after, thread.is_some());
        let rest = self.rest.trim_start_matches(SEPARATORS);
        let is_syslog = self.level.is_empty() && time.is_of_syslog();
        let message = match is_syslog {
            true => origin(rest, true, &mut members),
            false => rest,
        };
        if !access::common(self.before, rest, &mut members) {
            // Pairs of the entry itself come before those that are guessed from a request.
            let mut guessed = Vec::new();
            if !access::labels(message, &mut members) {
                access::request(self.before, message, &mut guessed);
            }
            // The time may be the value of the last key before it.
            let before = self.before.trim_end_matches('"');
            let keyed =
                before.strip_suffix('=').map(|rest| rest.rsplit_once(' ').unwrap_or(("", rest)));
            pairs(keyed.map_or(before, |(words, _)| words), &mut members);
            // A model asks for the time by the key that the log shows.
            let key = keyed.and_then(|(_, word)| word.rsplit([',', ';']).next());
            let key = key.filter(|key| is_key(key) && *key != time.name());
            members.extend(key.map(|key| (key, Cow::Owned(time.text().to_owned()))));
            pairs(self.between, &mut members);
            let message = match source {
                Some((name, message)) => {
                    members.extend(thread.map(|thread| ("thread", thread.into())));
                    members.push(("source", name.into()));
                    message
                }
                None if is_syslog => message,
                None => origin(rest, false, &mut members),
            };
            // The parameters of a request are no pairs, unless it is the value of one.
            match access::quoted_request(message).filter(|(head, ..)| !head.ends_with('=')) {
                Some((head, _, after)) => {
                    pairs(head, &mut members);
                    pairs(after, &mut members);
                }
                None => pairs(message, &mut members),
            }
            members.append(&mut guessed);
        }
        out.extend_from_slice(
            format!("{{\"line\":{},\"{}\":", self.number, time.name()).as_bytes(),
        );
        write_cell(time.text(), false, out);
        // A proxy writes the time of the request after that of syslog.
        let inner = || message.split_once('[')?.1.split_once(']');
        if let Some((time, _)) = inner().filter(|_| is_syslog)
            && let full @ LogTime::Full(_) = LogTime::read(time)
            && time.contains('/')
        {
            out.extend_from_slice(b",\"time\":");
            write_cell(full.text(), false, out);
        }
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
        out.extend(quoted(&self.message()));
        out.push(b'}');
    }

    /// Returns the text of the entry without its time.
    fn message(&self) -> String {
        let before = self.before.trim().trim_end_matches(['[', '(', '"', '=']);
        let after = self.after.trim_start_matches(SEPARATORS).trim_end();
        let mut message = match before.trim_end() {
            "" => after.to_owned(),
            before => format!("{before} {after}"),
        };
        for line in &self.more {
            message.push('\n');
            message.push_str(line);
        }
        message.truncate(message.trim_end().len());
        message
    }
}

/// Returns the letter of a klog severity, which month and day follow: `E` for `E0102`. Returns
/// other levels unchanged.
fn short_level(level: &str) -> &str {
    let is_dated = level.len() == 5 && level.bytes().skip(1).all(|byte| byte.is_ascii_digit());
    if is_dated { level.get(..1).unwrap_or(level) } else { level }
}

/// Returns the word of letters and digits at the end of a text.
fn last_word(text: &str) -> &str {
    let from = text.rfind(|sign: char| !sign.is_ascii_alphanumeric()).map_or(0, |at| at + 1);
    text.get(from..).unwrap_or_default()
}

/// Adds the members that state the origin of an entry, and returns the rest of the text.
/// `is_syslog` is true if the time has the syslog format, after which the host follows.
fn origin<'l>(rest: &'l str, is_syslog: bool, members: &mut Vec<LogMember<'l>>) -> &'l str {
    let is_name = |name: &str| {
        (1..=MAX_NAME_BYTES).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./$@".contains(&byte))
    };
    let is_word = |name: &str| is_name(name) && name.bytes().any(|byte| byte.is_ascii_alphabetic());
    let split = rest.split_once(": ").or_else(|| Some((rest.strip_suffix(':')?, "")));
    let Some((head, message)) = split else { return rest };
    let (host, name) = match head.split_once(' ') {
        Some((host, name)) if is_name(host) => (host, name),
        None => ("", head),
        Some(_) => return rest,
    };
    let (name, pid) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        Some((name, pid)) if !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()) => {
            (name, pid)
        }
        _ => (name, ""),
    };
    // Modules are in parentheses: `sshd(pam_unix)`.
    let short = name.split_once('(').map_or(name, |(short, _)| short);
    let name = if name.ends_with(')') { short } else { name };
    // Two words without the number of a process are words of a sentence, unless a host is expected.
    if !is_word(name) || !host.is_empty() && !is_syslog && pid.is_empty() {
        return rest;
    }
    if host.is_empty() && pid.is_empty() {
        members.push(("source", name.into()));
        return message;
    }
    let found = [("host", host), ("process", name), ("pid", pid)];
    let found = found.into_iter().filter(|(_, text)| !text.is_empty());
    members.extend(found.map(|(name, text)| (name, Cow::Borrowed(text))));
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(log: &str) -> String {
        let found = read(log.as_bytes(), None).unwrap_or_else(|| panic!("no log: {log}"));
        let records: Vec<serde_json::Value> = serde_json::from_slice(&found.json).unwrap();
        records[0].to_string()
    }

    #[test]
    fn entries_are_records() {
        for (line, expected) in [
            (
                "2024-05-01 10:00:00,123 ERROR db.pool: no connection to a=1\n  at x\n",
                r#"{"line":1,"time":"2024-05-01 10:00:00,123","level":"ERROR","source":"db.pool","a":1,"message":"ERROR db.pool: no connection to a=1\n  at x"}"#,
            ),
            (
                "2024-05-01 10:00:00 INFO [r1] user=bot[1] f(x=1) g=h(2)i tags=[a]\n",
                r#"{"line":1,"time":"2024-05-01 10:00:00","level":"INFO","user":"bot[1]","x":1,"g":"h(2)i","tags":"[a","message":"INFO [r1] user=bot[1] f(x=1) g=h(2)i tags=[a]"}"#,
            ),
            (
                "Jun 14 15:16:01 combo sshd(pam_unix)[19939]: failure; uid=0 ruser= rhost=218.188.2.4 \n",
                r#"{"line":1,"timeOfYear":"06-14T15:16:01","host":"combo","process":"sshd","pid":19939,"uid":0,"ruser":null,"rhost":"218.188.2.4","message":"combo sshd(pam_unix)[19939]: failure; uid=0 ruser= rhost=218.188.2.4"}"#,
            ),
            (
                "10.0.0.1 - ann [10/Oct/2000:13:55:36 -0700] \"GET /a?b=1 HTTP/1.0\" 404 - \"-\" \"curl/8 (x)\"\n",
                r#"{"line":1,"time":"2000-10-10T13:55:36-0700","client":"10.0.0.1","user":"ann","method":"GET","path":"/a?b=1","status":404,"bytes":null,"referer":null,"agent":"curl/8 (x)","message":"10.0.0.1 - ann \"GET /a?b=1 HTTP/1.0\" 404 - \"-\" \"curl/8 (x)\""}"#,
            ),
            (
                "example.com:443 10.0.0.2 - - [10/Oct/2000:13:55:36 -0700] \"-\" 408 0 \"-\" \"-\"\n",
                r#"{"line":1,"time":"2000-10-10T13:55:36-0700","client":"10.0.0.2","user":null,"status":408,"bytes":0,"referer":null,"agent":null,"message":"example.com:443 10.0.0.2 - - \"-\" 408 0 \"-\" \"-\""}"#,
            ),
            (
                "time=2024-05-01T10:00:00Z level=warn msg=\"a \\\"b\\\" user=x\" path=/x\n",
                r#"{"line":1,"time":"2024-05-01T10:00:00Z","level":"warn","msg":"a \"b\" user=x","path":"/x","message":"time level=warn msg=\"a \\\"b\\\" user=x\" path=/x"}"#,
            ),
            (
                "time=2024-05-01T10:00:00Z level=error msg=\"GET /b HTTP/1.1\" status=500 duration=7\n",
                r#"{"line":1,"time":"2024-05-01T10:00:00Z","level":"error","msg":"GET /b HTTP/1.1","status":500,"duration":7,"method":"GET","path":"/b","message":"time level=error msg=\"GET /b HTTP/1.1\" status=500 duration=7"}"#,
            ),
            (
                "2024-05-01 10:00:00 ERROR shop.pay: payment failed user=bob, host: a1, port: 5432\n",
                r#"{"line":1,"time":"2024-05-01 10:00:00","level":"ERROR","host":"a1","port":5432,"source":"shop.pay","user":"bob","message":"ERROR shop.pay: payment failed user=bob, host: a1, port: 5432"}"#,
            ),
            (
                "2024-05-01 10:00:00 INFO \"GET /a;status=7 HTTP/1.1\" 200 12 rt=0.5\n",
                r#"{"line":1,"time":"2024-05-01 10:00:00","level":"INFO","rt":0.5,"method":"GET","path":"/a;status=7","status":200,"bytes":12,"message":"INFO \"GET /a;status=7 HTTP/1.1\" 200 12 rt=0.5"}"#,
            ),
            (
                "level=error ts=2024-05-01T10:00:00Z caller=x cmd=\"ps | wc\"\n",
                r#"{"line":1,"time":"2024-05-01T10:00:00Z","level":"error","ts":"2024-05-01T10:00:00Z","caller":"x","cmd":"ps | wc","message":"level=error ts caller=x cmd=\"ps | wc\""}"#,
            ),
            (
                "[2018-08-19T03:17:55.765Z] I santad: action=EXEC|decision=ALLOW|path=/a b/c\n",
                r#"{"line":1,"time":"2018-08-19T03:17:55.765Z","level":"I","source":"santad","action":"EXEC","decision":"ALLOW","path":"/a b/c","message":"I santad: action=EXEC|decision=ALLOW|path=/a b/c"}"#,
            ),
            (
                "[Sun Dec 04 04:47:44 2005] [error] mod_jk in state 6\n",
                r#"{"line":1,"time":"2005-12-04T04:47:44","level":"error","message":"[error] mod_jk in state 6"}"#,
            ),
            (
                "[INFO] 2024-05-01 10:00:00,123 Starting server: port 8080\n",
                r#"{"line":1,"time":"2024-05-01 10:00:00,123","level":"INFO","message":"[INFO] Starting server: port 8080"}"#,
            ),
            (
                "mongo-1  | 2024-05-01 10:00:00 user=bob code=3 | done\n",
                r#"{"line":1,"time":"2024-05-01 10:00:00","user":"bob","code":3,"message":"mongo-1  | user=bob code=3 | done"}"#,
            ),
            (
                "E0102 15:04:05.100000       1 a.go:10] failed\n",
                r#"{"line":1,"timeOfDay":"15:04:05.100000","level":"E","message":"E0102 1 a.go:10] failed"}"#,
            ),
            (
                "03-17 16:13:38.811  1702  2395 D PhoneStatusBar: off\n",
                r#"{"line":1,"timeOfYear":"03-17T16:13:38.811","level":"D","source":"PhoneStatusBar","message":"1702  2395 D PhoneStatusBar: off"}"#,
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
            assert!(read(text.as_bytes(), None).is_none(), "{text}");
        }
    }
}
