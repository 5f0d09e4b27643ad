//! Named severities of log entries, in members of JSON objects and in `key=value` pairs.

use super::log_time::run;
use super::severity::{Severity, severity_of_letter, severity_of_word};

/// The number of bytes at the start of a line that are searched for a named severity.
const NAMED_BYTES: usize = 8192;
/// The maximum length of the name of a learned field, in bytes.
const MAX_NAME_BYTES: usize = 24;
/// The maximum number of names that are examined to learn the field of severities.
const MAX_NAMES: usize = 64;
/// The meaning of a number that states a severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NumberScale {
    /// Greater numbers are more severe, in steps of ten: 40 is a warning, 50 an error.
    #[default]
    Tens,
    /// The severities of syslog (RFC 5424): 3 is an error, 4 a warning.
    Syslog,
    /// The severity numbers of OpenTelemetry: 13 to 16 are warnings, 17 to 24 errors.
    OpenTelemetry,
}

/// The field in which the entries of a log name their severity, in addition to the usual names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeverityField {
    scale: NumberScale,
    name: [u8; MAX_NAME_BYTES],
    /// The length of the name, in bytes. 0 if the field has a usual name.
    length: usize,
}

impl SeverityField {
    /// Learns the field from lines of a log. O(lines).
    pub(super) fn learn<'l>(lines: impl Iterator<Item = &'l [u8]> + Clone) -> Self {
        let named = lines.clone().filter(|line| named_severity(line).is_some()).count();
        let objects = lines.clone().filter(|line| is_object(line)).count();
        let numbers: Vec<u8> = lines.clone().filter_map(named_number).collect();
        // Texts have other levels: those of tanks, games and nesting.
        let is_syslog = objects * 2 >= lines.clone().count()
            && named * 2 < numbers.len()
            && are_syslog(&numbers);
        let scale = if is_syslog { NumberScale::Syslog } else { NumberScale::Tens };
        if objects < 2 || named * 2 > objects || is_syslog {
            return Self { scale, ..Self::default() };
        }
        // Serilog leaves out the level of information, so that a sample may have none.
        if lines.clone().filter(|line| is_serilog(line)).count() * 2 > objects {
            return Self::with_name(b"@l", scale);
        }
        Self::learn_name(lines, objects).unwrap_or_default()
    }

    /// Learns the name of the field whose values are severities in most of the `objects` of a log.
    fn learn_name<'l>(lines: impl Iterator<Item = &'l [u8]>, objects: usize) -> Option<Self> {
        let mut names: Vec<FieldValues<'_>> = Vec::new();
        for Member { name, value, .. } in
            lines.filter(|line| is_object(line)).flat_map(Members::new)
        {
            let has_room = names.len() < MAX_NAMES && name.len() <= MAX_NAME_BYTES;
            match names.iter_mut().find(|known| known.name == name) {
                Some(known) => known.add(value),
                None if has_room => {
                    let mut values = FieldValues::new(name);
                    values.add(value);
                    names.push(values);
                }
                None => {}
            }
        }
        let scales = names.iter().filter_map(|values| Some((values, values.scale(objects)?)));
        let (best, scale) = scales.max_by_key(|(values, _)| values.words + values.letters)?;
        Some(Self::with_name(best.name, scale))
    }

    fn with_name(name: &[u8], scale: NumberScale) -> Self {
        let mut field = Self { scale, length: name.len(), ..Self::default() };
        field.name.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        field
    }

    /// Returns true if the field has another name than the usual ones. Entries may leave it out.
    pub(super) fn has_own_name(&self) -> bool {
        self.length > 0
    }

    /// Returns true if the field has another name than the usual ones, or values of syslog.
    pub(super) fn is_unusual(&self) -> bool {
        self.length > 0 || self.scale != NumberScale::Tens
    }

    /// Returns the severity that a line names. `None` if it names none.
    pub(super) fn severity(&self, line: &[u8]) -> Option<Severity> {
        if self.length == 0 {
            return scaled_severity(line, self.scale);
        }
        let name = self.name.get(..self.length)?;
        let value = Members::new(line).find(|member| member.name == name);
        let severity = value.and_then(|member| {
            let text = unquoted(member.value);
            let word = severity_of_initial(text).or_else(|| severity_of_word(text));
            word.or_else(|| severity_of_number(text, self.scale))
        });
        severity.or_else(|| named_severity(line))
    }
}

/// The values of a member in the sample of a log.
struct FieldValues<'l> {
    name: &'l [u8],
    count: usize,
    words: usize,
    letters: usize,
    numbers: Vec<u8>,
    /// The number of values that name neither an error nor a warning.
    harmless: usize,
}

impl<'l> FieldValues<'l> {
    fn new(name: &'l [u8]) -> Self {
        Self { name, count: 0, words: 0, letters: 0, numbers: Vec::new(), harmless: 0 }
    }

    fn add(&mut self, value: &[u8]) {
        let value = unquoted(value);
        self.count += 1;
        let (word, letter) = (severity_of_word(value), severity_of_initial(value));
        self.words += usize::from(word.is_some());
        self.letters += usize::from(letter.is_some());
        self.harmless += usize::from(word.or(letter) == Some(Severity::Other));
        self.numbers.extend(number(value));
    }

    /// Returns the scale of numbers if the values are severities. `None` for other values.
    /// `objects` is the number of objects in the sample.
    fn scale(&self, objects: usize) -> Option<NumberScale> {
        let is_most = |count: usize| count >= 2 && count * 20 >= self.count * 19;
        let is_common = self.count * 2 >= objects;
        let lower = self.name.to_ascii_lowercase();
        let is_level = [b"lev".as_slice(), b"lvl", b"sev", b"pri"]
            .iter()
            .any(|part| lower.windows(part.len()).any(|window| window == *part))
            || lower.len() == 1;
        let letters = if is_level { self.letters } else { 0 };
        if is_common && self.harmless > 0 && is_most(self.words.max(letters)) {
            return Some(NumberScale::Tens);
        }
        if !is_common || !is_most(self.numbers.len()) {
            return None;
        }
        match self.name {
            b"severityNumber" | b"SeverityNumber" | b"severity_number" => {
                Some(NumberScale::OpenTelemetry)
            }
            b"PRIORITY" | b"priority" | b"severity_code" | b"syslog_severity" => {
                are_syslog(&self.numbers).then_some(NumberScale::Syslog)
            }
            _ => None,
        }
    }
}

/// Returns true if the numbers are severities of syslog: none exceeds 7, and half of them are
/// harmless.
fn are_syslog(numbers: &[u8]) -> bool {
    let harmless = numbers.iter().filter(|number| **number >= 5).count();
    numbers.iter().all(|number| *number <= 7) && harmless * 2 >= numbers.len()
}

/// Returns the severity in a line's level field. `None` if the line has no such field, or if it has
/// another value than a severity. Examples are `level=error`, `"level":"error"`,
/// `"severity": "WARNING"`, and the numbers of pino and bunyan.
pub(super) fn named_severity(line: &[u8]) -> Option<Severity> {
    scaled_severity(line, NumberScale::Tens)
}

#[inline(never)]
fn scaled_severity(line: &[u8], scale: NumberScale) -> Option<Severity> {
    let value = |value: &[u8]| severity_of_word(value).or_else(|| severity_of_number(value, scale));
    named_value(line, &value)
}

/// Returns the number in a line's level field. `None` if it has none below 256.
fn named_number(line: &[u8]) -> Option<u8> {
    named_value(line, &number)
}

/// Returns the result of `read` for the first level field for whose value it has one.
fn named_value<T>(line: &[u8], read: &dyn Fn(&[u8]) -> Option<T>) -> Option<T> {
    let look = line.get(..NAMED_BYTES).unwrap_or(line);
    memchr::memchr2(b'v', b'V', look)?;
    let names = [
        (b"level".as_slice(), b'v', 2),
        (b"severity", b'v', 2),
        (b"levelname", b'v', 2),
        (b"lvl", b'v', 1),
        (b"Level", b'v', 2),
        (b"Severity", b'v', 2),
        (b"LEVEL", b'V', 2),
    ];
    names.into_iter().find_map(|(name, letter, place)| {
        occurrences(look, name, letter, place).find_map(|at| {
            let rest = look.get(at + name.len()..)?;
            let is_sign = |byte: &u8| matches!(byte, b'"' | b'\'' | b':' | b'=' | b' ');
            let signs = rest.iter().take_while(|byte| is_sign(byte)).count();
            let (signs, value) = rest.split_at_checked(signs)?;
            let length = value.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            let has_sign = signs.iter().any(|sign| matches!(sign, b':' | b'='));
            if has_sign { read(value.get(..length)?) } else { None }
        })
    })
}

/// Returns the offsets of `word` in `look` that no letter or digit precedes. Searches for `letter`,
/// a rare letter at the offset `place` of the word. Lines are too short for search algorithms with
/// a setup phase.
fn occurrences<'l>(
    look: &'l [u8],
    word: &'l [u8],
    letter: u8,
    place: usize,
) -> impl Iterator<Item = usize> + 'l {
    let is_free = move |at: &usize| {
        let before = at.checked_sub(1).and_then(|before| look.get(before));
        before.is_none_or(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b'-'))
    };
    memchr::memchr_iter(letter, look)
        .filter_map(move |at| at.checked_sub(place))
        .filter(is_free)
        .filter(move |at| look.get(*at..).is_some_and(|rest| rest.starts_with(word)))
}

/// Returns the number that a text is. `None` for other texts, and for numbers above 255.
fn number(text: &[u8]) -> Option<u8> {
    let is_number = text.len() <= 3 && text.iter().all(u8::is_ascii_digit);
    if is_number { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

fn severity_of_number(text: &[u8], scale: NumberScale) -> Option<Severity> {
    let number = number(text)?;
    Some(match (scale, number) {
        (NumberScale::Tens, 50 | 60)
        | (NumberScale::Syslog, 0..=3)
        | (NumberScale::OpenTelemetry, 17..=24) => Severity::Error,
        (NumberScale::Tens, 40)
        | (NumberScale::Syslog, 4)
        | (NumberScale::OpenTelemetry, 13..=16) => Severity::Warn,
        (NumberScale::Tens, 10 | 20 | 30)
        | (NumberScale::Syslog, 5..=7)
        | (NumberScale::OpenTelemetry, 1..=12) => Severity::Other,
        _ => return None,
    })
}

/// Returns the severity of a single letter, which a digit may follow: `E`, `D1`. `None` for other
/// texts.
fn severity_of_initial(text: &[u8]) -> Option<Severity> {
    match text {
        [letter] => severity_of_letter(*letter),
        [b'D', b'1'..=b'5'] => Some(Severity::Other),
        _ => None,
    }
}

pub(super) fn is_object(line: &[u8]) -> bool {
    line.starts_with(b"{\"")
}

/// Returns true if a line is an entry of Serilog's compact format.
fn is_serilog(line: &[u8]) -> bool {
    let mut names = Members::new(line).take(3).map(|member| member.name);
    line.starts_with(b"{\"@t\"") && names.any(|name| matches!(name, b"@m" | b"@mt" | b"@i"))
}

pub(super) fn unquoted(value: &[u8]) -> &[u8] {
    let Some(inner) = value.strip_prefix(b"\"") else { return value };
    inner.strip_suffix(b"\"").unwrap_or(inner)
}

/// A member of a JSON object.
pub(super) struct Member<'l> {
    pub(super) name: &'l [u8],
    /// The raw value. Empty for objects and lists, whose members follow.
    pub(super) value: &'l [u8],
    /// The byte offset of the value.
    pub(super) at: usize,
    /// The number of brackets around the member.
    pub(super) depth: usize,
}

/// Iterates over the members of a JSON object and of its inner objects. Tolerates faults, and
/// objects without an end. O(object).
pub(super) struct Members<'l> {
    text: &'l [u8],
    at: usize,
    depth: usize,
}

impl<'l> Members<'l> {
    pub(super) fn new(text: &'l [u8]) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// Returns the offset after the string that begins at the quote `at`.
    pub(super) fn string_end(&self, at: usize) -> usize {
        let mut end = at + 1;
        loop {
            let rest = self.text.get(end..).unwrap_or_default();
            let Some(stop) = memchr::memchr2(b'"', b'\\', rest) else { return self.text.len() };
            if rest.get(stop) == Some(&b'"') {
                return end + stop + 1;
            }
            end += stop + 2;
        }
    }

    fn after_spaces(&self, at: usize) -> usize {
        at + run(self.text, at, |byte| *byte == b' ')
    }

    /// Returns the raw scalar at `at`. Empty for objects and lists.
    fn value(&self, at: usize) -> &'l [u8] {
        let end = match self.text.get(at) {
            Some(b'"') => self.string_end(at),
            Some(b'{' | b'[') => at,
            _ => at + run(self.text, at, |byte| !b",}] ".contains(byte)),
        };
        self.text.get(at..end.min(self.text.len())).unwrap_or_default()
    }
}

impl<'l> Iterator for Members<'l> {
    type Item = Member<'l>;

    fn next(&mut self) -> Option<Member<'l>> {
        loop {
            let at = self.at;
            match self.text.get(at)? {
                b'"' => {
                    let end = self.string_end(at);
                    self.at = end;
                    let colon = self.after_spaces(end);
                    if self.text.get(colon) != Some(&b':') {
                        continue;
                    }
                    let start = self.after_spaces(colon + 1);
                    let value = self.value(start);
                    self.at = start + value.len();
                    let name = self.text.get(at + 1..end.saturating_sub(1)).unwrap_or_default();
                    return Some(Member { name, value, at: start, depth: self.depth });
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return None;
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_severities_are_detected() {
        for (line, expected) in [
            ("ts=1 level=error msg=x", Some(Severity::Error)),
            ("t=1 lvl=eror msg=x", Some(Severity::Error)),
            (r#"{"time":1,"level":"warning","msg":"ERROR in text"}"#, Some(Severity::Warn)),
            (r#"{"level":50,"msg":"x"}"#, Some(Severity::Error)),
            (r#"{"log.level": "ERROR"}"#, Some(Severity::Error)),
            (r#"{"level":"info","msg":"no ERROR"}"#, Some(Severity::Other)),
            (r#"{"water":{"level":"7"},"severity":"ERROR"}"#, Some(Severity::Error)),
            (r#"{"msg":"level of x","Level":"Error"}"#, Some(Severity::Error)),
            ("the level of error is low", None),
            ("--log_level=error", None),
            ("logging.level.root=ERROR", None),
        ] {
            assert_eq!(named_severity(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn late_severities_are_detected() {
        let line = format!(r#"{{"msg":"{}","severity":"ERROR"}}"#, "x".repeat(4_000));
        assert_eq!(named_severity(line.as_bytes()), Some(Severity::Error));
    }

    #[test]
    fn fields_of_severities_are_learned() {
        for (lines, line, expected) in [
            (
                [r#"{"s":"I","msg":"a"}"#, r#"{"s":"I","msg":"b"}"#],
                r#"{"s":"E","msg":"c"}"#,
                Some(Severity::Error),
            ),
            (
                [r#"{"status":"info","m":"a"}"#, r#"{"status":"error","m":"b"}"#],
                r#"{"m":"c","status":"warn"}"#,
                Some(Severity::Warn),
            ),
            (
                [r#"{"PRIORITY":"6","m":"a"}"#, r#"{"PRIORITY":"5","m":"b"}"#],
                r#"{"PRIORITY":"3","m":"c"}"#,
                Some(Severity::Error),
            ),
            (
                [r#"{"level":6,"m":"a"}"#, r#"{"level":7,"m":"b"}"#],
                r#"{"level":4,"m":"c"}"#,
                Some(Severity::Warn),
            ),
            (
                [r#"{"severityNumber":9}"#, r#"{"severityNumber":5}"#],
                r#"{"severityNumber":17}"#,
                Some(Severity::Error),
            ),
            (
                [r#"{"@t":"1","@m":"a"}"#, r#"{"@t":"2","@m":"b","@l":"Warning"}"#],
                r#"{"@t":"3","@m":"c","@l":"Fatal"}"#,
                Some(Severity::Error),
            ),
            // Results and names are no severities.
            (
                [r#"{"kind":"trace","m":"a"}"#, r#"{"kind":"span","m":"b"}"#],
                r#"{"kind":"error","m":"c"}"#,
                None,
            ),
        ] {
            let field = SeverityField::learn(lines.iter().map(|line| line.as_bytes()));
            assert_eq!(field.severity(line.as_bytes()), expected, "{line}");
        }
    }
}
