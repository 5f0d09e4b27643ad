//! The sample of lines from which the format of a log is learned.

use super::log_field::SeverityField;
use super::log_line::{LogLine, SeverityWord};
use super::log_prefix::{begins_entry, container, is_indented, priority};

/// The minimum number of entries in a log whose entries have many lines.
const MIN_LONG_ENTRIES: usize = 3;
/// The last field in which entries of many lines have a severity.
const MAX_LONG_ENTRY_FIELD: u8 = 4;

/// A line of the sample.
pub(super) struct SampleLine {
    pub(super) parsed: LogLine,
    pub(super) is_indented: bool,
    pub(super) is_named: bool,
    pub(super) has_priority: bool,
    pub(super) begins_entry: bool,
    /// The name of the container before `|`.
    pub(super) container: Option<Vec<u8>>,
}

impl SampleLine {
    /// Reads a decoded line. `field` is the field of named severities.
    pub(super) fn read(line: &[u8], field: &SeverityField) -> Self {
        Self {
            parsed: LogLine::parse(line),
            is_indented: is_indented(line),
            is_named: field.severity(line).is_some(),
            has_priority: priority(line).is_some(),
            begins_entry: begins_entry(line),
            container: container(line).map(<[u8]>::to_vec),
        }
    }

    /// Returns true if a severity begins the line, and a colon follows it.
    fn begins_with_severity(&self) -> bool {
        self.parsed.words.first().is_some_and(|word| word.begins_line)
    }

    /// Returns true if a severity of the line is in another language than English.
    pub(super) fn is_translated(&self) -> bool {
        self.parsed.words.iter().any(|word| word.is_translated)
    }

    /// Returns true if the line begins with a time, and has a severity soon after it.
    fn begins_with_time_and_severity(&self) -> bool {
        let is_near = |word: &SeverityWord| word.field <= MAX_LONG_ENTRY_FIELD && word.is_upper;
        let begins = self.begins_entry && !self.is_indented && self.parsed.time.is_some();
        begins && self.parsed.words.iter().any(is_near)
    }
}

/// Returns true if some lines begin with a time and a severity. A stack trace of many lines may
/// follow each of them.
pub(super) fn has_long_entries(sample: &[SampleLine]) -> bool {
    let entries = sample.iter().filter(|line| line.begins_with_time_and_severity()).count();
    entries >= MIN_LONG_ENTRIES && entries * 60 >= sample.len()
}

/// Returns true if lines without a time begin with a severity, about as many as have a time.
pub(super) fn has_severity_lines(sample: &[SampleLine]) -> bool {
    let count = |test: &dyn Fn(&SampleLine) -> bool| sample.iter().filter(|x| test(x)).count();
    let begins = |line: &SampleLine| {
        line.parsed.time.is_none() && !line.is_indented && line.begins_with_severity()
    };
    let timed = |line: &SampleLine| line.parsed.time.is_some() && line.parsed.words.is_empty();
    let (severities, times) = (count(&begins), count(&timed));
    severities >= MIN_LONG_ENTRIES
        && severities * 60 >= sample.len()
        && severities * 2 >= times
        && times * 2 >= severities
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
