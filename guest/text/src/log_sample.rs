//! The sample of lines from which the format of a log is learned.

use super::log_access::status_severity;
use super::log_field::SeverityField;
use super::log_line::LogLine;
use super::log_member::is_object;
use super::log_prefix::{begins_entry, container, is_indented, priority};
use super::log_record::record_severity;
use super::log_word::SeverityWord;
use super::severity::Severity;

/// The minimum number of entries in a log whose entries have many lines.
const MIN_LONG_ENTRIES: usize = 3;
/// The last field in which entries of many lines have a severity.
const MAX_LONG_ENTRY_FIELD: u8 = 4;
/// The minimum number of bytes before the end of a time that follows a date.
const MIN_DATED_BYTES: usize = 15;
/// The number of bytes of a year after the time: `Fri Jan  2 10:00:00 2026`.
const YEAR_BYTES: usize = 5;
/// The maximum length of a line that has only a time, in bytes.
const MAX_TIME_BYTES: usize = 40;
/// The minimum number of lines with signs of another language than English.
const MIN_TRANSLATED: usize = 2;

/// The minimum number of records from which the form is learned.
const MIN_RECORDS: usize = 3;
/// The maximum number of lines of a record, on average.
const MAX_MEAN_LINES: usize = 40;

/// A line of the sample.
pub(super) struct SampleLine {
    pub(super) parsed: LogLine,
    pub(super) is_indented: bool,
    pub(super) is_named: bool,
    pub(super) is_object: bool,
    /// True if the line is an entry of an access log.
    pub(super) has_status: bool,
    /// True if the line has only a time.
    is_time: bool,
    /// True if the line has letters beyond ASCII.
    has_wide_letters: bool,
    pub(super) has_priority: bool,
    pub(super) begins_entry: bool,
    /// The severity that the line states, if it has nothing else.
    pub(super) record: Option<Severity>,
    /// The name of the container before `|`.
    pub(super) container: Option<Vec<u8>>,
}

impl SampleLine {
    /// Reads a decoded line. `field` is the field of named severities.
    pub(super) fn read(line: &[u8], field: &SeverityField) -> Self {
        let parsed = LogLine::parse(line);
        let is_time = parsed.time.is_some()
            && line.len() <= (parsed.time_end + YEAR_BYTES).min(MAX_TIME_BYTES);
        Self {
            parsed,
            is_time,
            is_indented: is_indented(line),
            is_named: field.severity(line).is_some(),
            is_object: is_object(line),
            has_status: status_severity(line).is_some(),
            has_wide_letters: line.iter().any(is_lead_of_letter),
            has_priority: priority(line).is_some(),
            begins_entry: begins_entry(line),
            record: record_severity(line),
            container: container(line).map(<[u8]>::to_vec),
        }
    }

    /// Returns true if a severity begins the line, and a colon follows it.
    fn begins_with_severity(&self) -> bool {
        self.parsed.words.first().is_some_and(|word| word.begins_line)
    }

    /// Returns true if a severity of the line is in another language than English.
    fn is_translated(&self) -> bool {
        self.parsed.words.iter().any(|word| word.is_translated)
    }

    /// Returns true if the line begins with a time, and has a severity soon after it.
    fn begins_with_time_and_severity(&self) -> bool {
        let is_near = |word: &SeverityWord| word.field <= MAX_LONG_ENTRY_FIELD && word.is_upper;
        let begins = self.begins_entry && !self.is_indented && self.parsed.time.is_some();
        begins && (self.is_named || self.parsed.words.iter().any(is_near))
    }
}

/// Returns true if some lines begin with a time and a severity. A stack trace of many lines may
/// follow each of them. False if all of these lines are in one part, as quotes of a log are.
pub(super) fn has_long_entries(sample: &[SampleLine]) -> bool {
    let is_entry = |line: &SampleLine| line.begins_with_time_and_severity();
    let entries = sample.iter().filter(|line| is_entry(line)).count();
    let first = sample.iter().position(is_entry).unwrap_or(0);
    let last = sample.iter().rposition(is_entry).unwrap_or(0);
    entries >= MIN_LONG_ENTRIES
        && entries * 60 >= sample.len()
        && (last - first) * 3 >= sample.len()
}

/// Returns true if entries may have severities in another language than English: some lines do, or
/// have letters beyond ASCII. Rare severities of such logs are not in the sample.
pub(super) fn are_translated(sample: &[SampleLine]) -> bool {
    let count = |test: &dyn Fn(&SampleLine) -> bool| sample.iter().filter(|x| test(x)).count();
    let translated = count(&SampleLine::is_translated);
    let wide = count(&|line| line.has_wide_letters);
    // A single word such as `ATTENTION` is usual in English, too.
    translated.max(wide) >= MIN_TRANSLATED && translated.max(wide) * 20 >= sample.len()
}

/// Returns true if a byte begins a letter beyond ASCII in UTF-8. Punctuation, symbols and emoji
/// have other first bytes.
fn is_lead_of_letter(byte: &u8) -> bool {
    matches!(byte, 0xC3..=0xDF | 0xE0..=0xE1 | 0xE3..=0xED)
}

/// Returns true if lines without a time begin with a severity, about as many as have a time. A line
/// with a time is before some of them.
pub(super) fn has_severity_lines(sample: &[SampleLine]) -> bool {
    let count = |test: &dyn Fn(&SampleLine) -> bool| sample.iter().filter(|x| test(x)).count();
    let begins = |line: &SampleLine| {
        line.parsed.time.is_none() && !line.is_indented && line.begins_with_severity()
    };
    // Names of classes may have words such as `Config`.
    let has_severity = |line: &SampleLine| line.parsed.words.iter().any(|word| !word.is_weak);
    let timed = |line: &SampleLine| line.parsed.time_end >= MIN_DATED_BYTES && !has_severity(line);
    let (severities, times) = (count(&begins), count(&timed));
    // The later lines of the sample are not adjacent.
    let is_pair = |two: &&[SampleLine]| matches!(two, [one, two] if timed(one) && begins(two));
    let pairs = sample.windows(2).filter(is_pair).count();

    severities >= MIN_LONG_ENTRIES
        && pairs * 4 >= severities
        && severities * 60 >= sample.len()
        && severities * 2 >= times
        && times * 2 >= severities
}

/// Returns true if times have lines of their own, and follow each other at short distances.
pub(super) fn have_time_lines(sample: &[SampleLine]) -> bool {
    let count = |test: &dyn Fn(&SampleLine) -> bool| sample.iter().filter(|x| test(x)).count();
    let times = count(&|line| line.is_time);
    let others = count(&|line| line.parsed.time.is_some() && !line.is_time);
    times >= MIN_LONG_ENTRIES && times * 6 >= sample.len() && others < times
}

/// Returns true if most lines begin with the name of a container, and each name occurs repeatedly.
pub(super) fn have_containers(sample: &[SampleLine]) -> bool {
    let mut names: Vec<&[u8]> = Vec::new();
    let mut lines = 0;
    for name in sample.iter().filter_map(|line| line.container.as_deref()) {
        lines += 1;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    lines >= 4 && lines * 10 >= sample.len() * 8 && names.len() * 4 <= lines
}

/// Returns true if a log has records of several lines: some lines state only a severity, mostly a
/// harmless one, and about as many have a time. Settings have severities without times.
pub(super) fn have_records(sample: &[SampleLine]) -> bool {
    let (mut stated, mut harmless, mut times) = (0, 0, 0);
    for line in sample {
        stated += usize::from(line.record.is_some());
        harmless += usize::from(line.record == Some(Severity::Other));
        times += usize::from(line.parsed.time.is_some());
    }
    stated >= MIN_RECORDS
        && stated * MAX_MEAN_LINES >= sample.len()
        && harmless * 2 >= stated
        // The lines of the sample are of different records.
        && times * 2 >= stated
        // Otherwise, each line is an entry.
        && stated * 2 <= sample.len()
        && times * 2 <= sample.len()
}
