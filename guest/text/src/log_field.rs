//! Named severities of log entries, in members of JSON objects and in `key=value` pairs.

use super::log_line::LogLine;
use super::log_member::{Member, Members, is_object, unquoted};
use super::log_message::message_range;
use super::log_pair::{is_in_url, pair_value, pairs};
use super::severity::{Severity, severity_of_letter, severity_of_word};

/// The number of bytes at the start of a line that are searched for a named severity.
const NAMED_BYTES: usize = 8192;
/// The maximum length of the name of a learned field, in bytes.
const MAX_NAME_BYTES: usize = 24;
/// The maximum number of names that are examined to learn the field of severities.
const MAX_NAMES: usize = 64;
/// The minimum number of pairs from which their meaning is learned.
const MIN_PAIRS: usize = 4;

/// The meaning of a number that states a severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NumberScale {
    /// Greater numbers are more severe, in steps of ten: 40 is a warning, 50 an error.
    #[default]
    Tens,
    /// The severities of syslog (RFC 5424): 3 is an error, 4 a warning.
    Syslog,
    /// Greater numbers are more severe, in steps of one: 2 is a warning, 3 and 4 are errors.
    Ones,
    /// The severities of events in the formats LEEF and CEF, from 0 to 10: 4 to 6 are warnings, 7
    /// to 10 errors.
    Events,
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
    /// True if the field is a pair such as `pri=3`, else a member of an object.
    is_pair: bool,
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
        let scale = match () {
            () if is_syslog => NumberScale::Syslog,
            () if named == 0 && are_ones(lines.clone(), &numbers) => NumberScale::Ones,
            () => NumberScale::Tens,
        };
        let is_text = objects * 2 < lines.clone().count();
        if is_text && let Some(pair) = Self::learn_pair(lines.clone(), named) {
            return pair;
        }
        if objects < 2 || named * 2 > objects || scale != NumberScale::Tens {
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

    /// Learns the key of pairs whose values are severities in most lines of a log. `named` is the
    /// number of lines with a level field.
    fn learn_pair<'l>(lines: impl Iterator<Item = &'l [u8]> + Clone, named: usize) -> Option<Self> {
        let total = lines.clone().count();
        if named * 2 > total {
            return None;
        }
        let mut keys: Vec<FieldValues<'_>> = Vec::new();
        for (key, value) in lines.flat_map(pairs).filter(|(key, _)| is_level_name(key)) {
            let has_room = keys.len() < MAX_NAMES && key.len() <= MAX_NAME_BYTES;
            match keys.iter_mut().find(|known| known.name == key) {
                Some(known) => known.add(value),
                None if has_room => {
                    let mut values = FieldValues::new(key);
                    values.add(value);
                    keys.push(values);
                }
                None => {}
            }
        }
        let scales = keys.iter().filter_map(|values| Some((values, values.pair_scale(total)?)));
        let (best, scale) = scales.max_by_key(|(values, _)| (values.words, values.count))?;
        Some(Self { is_pair: true, ..Self::with_name(best.name, scale) })
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

    /// Returns the byte offset of the field in a line that names a severity. 0 if unknown. O(line).
    pub(super) fn offset(&self, line: &[u8]) -> usize {
        let offset = match self.name.get(..self.length).filter(|name| !name.is_empty()) {
            Some(name) => memchr::memmem::find(line, name),
            None => named_value(line, &|_| Some(())).map(|(at, ())| at),
        };
        offset.unwrap_or(0)
    }

    /// Returns the severity that a line names. `None` if it names none.
    pub(super) fn severity(&self, line: &[u8]) -> Option<Severity> {
        if self.length == 0 {
            return scaled_severity(line, self.scale);
        }
        let name = self.name.get(..self.length)?;
        let value = match self.is_pair {
            true => pair_value(line, name),
            false => {
                let member = Members::new(line).find(|member| member.name == name);
                member.map(|member| member.value)
            }
        };
        let severity = value.and_then(|value| {
            let text = unquoted(value);
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
        let is_level = is_level_name(self.name) || self.name.len() == 1;
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

impl FieldValues<'_> {
    /// Returns the scale of the values of a pair in most of `total` lines, if they are severities.
    /// `None` for other values.
    fn pair_scale(&self, total: usize) -> Option<NumberScale> {
        let is_most = |count: usize| count >= MIN_PAIRS && count * 20 >= self.count * 19;
        if self.count * 2 < total {
            return None;
        }
        if self.harmless > 0 && is_most(self.words) {
            return Some(NumberScale::Tens);
        }
        // Numbers of other levels and of the priorities of jobs are not rare below 5.
        let numbers = &self.numbers;
        let harmless = numbers.iter().filter(|number| **number >= 5).count();
        let usual = numbers.iter().filter(|number| **number >= 6).count();
        let has_level = has_part(self.name, &[b"sev", b"pri"]) || usual * 10 >= numbers.len() * 7;
        let is_syslog = has_level && are_syslog(numbers) && harmless * 10 >= numbers.len() * 7;
        if is_syslog && is_most(numbers.len()) {
            return Some(NumberScale::Syslog);
        }
        let low = numbers.iter().filter(|number| **number <= 3).count();
        let are_events = has_part(self.name, &[b"sev"])
            && numbers.iter().all(|number| *number <= 10)
            && numbers.iter().any(|number| *number > 4)
            && low * 10 >= numbers.len() * 7;
        (are_events && is_most(numbers.len())).then_some(NumberScale::Events)
    }
}

/// Returns true if the name of a field says that its values are levels.
fn is_level_name(name: &[u8]) -> bool {
    has_part(name, &[b"lev", b"lvl", b"sev", b"pri"])
}

/// Returns true if a name has one of `parts`, ignoring case.
fn has_part(name: &[u8], parts: &[&[u8; 3]]) -> bool {
    let is_part = |three: &[u8]| parts.iter().any(|part| part.eq_ignore_ascii_case(three));
    name.len() <= MAX_NAME_BYTES && name.windows(3).any(is_part)
}

/// Returns true if the numbers of most lines are severities from 0 to 4: few exceed 1. The lines
/// are objects with a time and a message. Other objects have levels, too.
fn are_ones<'l>(lines: impl Iterator<Item = &'l [u8]> + Clone, numbers: &[u8]) -> bool {
    let total = lines.clone().count();
    let harmless = numbers.iter().filter(|number| **number <= 1).count();
    let are_close = numbers.iter().all(|number| *number <= 4);
    let is_entry =
        |line: &&[u8]| is_object(line) && has_time(line) && message_range(line).is_some();
    are_close
        && numbers.len() * 10 >= total * 9
        && harmless * 10 >= numbers.len() * 7
        && lines.filter(is_entry).count() * 10 >= total * 9
}

/// Returns true if an object has a time in ISO 8601, or in seconds since 1970.
fn has_time(object: &[u8]) -> bool {
    Members::new(object).any(|member| LogLine::parse(unquoted(member.value)).time.is_some())
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
    named_value(line, &value).map(|(_, severity)| severity)
}

/// Returns the number in a line's level field. `None` if it has none below 256.
fn named_number(line: &[u8]) -> Option<u8> {
    named_value(line, &number).map(|(_, number)| number)
}

/// Returns the byte offset of the first level field for whose value `read` has a result, and that
/// result.
fn named_value<T>(line: &[u8], read: &dyn Fn(&[u8]) -> Option<T>) -> Option<(usize, T)> {
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
            let is_field = has_sign && !is_in_url(look, at);
            if is_field { Some((at, read(value.get(..length)?)?)) } else { None }
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
        | (NumberScale::Ones, 3 | 4)
        | (NumberScale::Events, 7..=10)
        | (NumberScale::OpenTelemetry, 17..=24) => Severity::Error,
        (NumberScale::Tens, 40)
        | (NumberScale::Syslog, 4)
        | (NumberScale::Ones, 2)
        | (NumberScale::Events, 4..=6)
        | (NumberScale::OpenTelemetry, 13..=16) => Severity::Warn,
        (NumberScale::Tens, 10 | 20 | 30)
        | (NumberScale::Syslog, 5..=7)
        | (NumberScale::Ones, 0 | 1)
        | (NumberScale::Events, 0..=3)
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

/// Returns true if a line is an entry of Serilog's compact format.
fn is_serilog(line: &[u8]) -> bool {
    let mut names = Members::new(line).take(3).map(|member| member.name);
    line.starts_with(b"{\"@t\"") && names.any(|name| matches!(name, b"@m" | b"@mt" | b"@i"))
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
