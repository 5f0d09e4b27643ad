//! The format of a log, learned from a sample of its lines.
//!
//! No list of formats is needed. Most entries of a log have their severity in the same style and in
//! about the same field, and their time in the same field.

use std::borrow::Cow;
use std::ops::Range;

use super::heading::is_document;
use super::log_access::status_severity;
use super::log_field::{SeverityField, named_severity};
use super::log_line::LogLine;
use super::log_member::is_object;
use super::log_message::{cause_range, message_range};
use super::log_number::NumberColumn;
use super::log_prefix::{
    begins_entry, is_continuation, is_indented, is_trace, message, priority, tag_of_cause,
};
use super::log_record::record_severity;
use super::log_sample::{
    SampleLine, are_translated, has_long_entries, has_severity_lines, have_containers,
    have_records, have_time_lines,
};
use super::log_source::is_source;
use super::log_style::{LearnedStyle, MIN_ENTRIES, dominant_style, have_words_before};
use super::log_word::{Letters, SeverityWord};
use super::severity::{Severity, crash_severity, report_severity, strict_severity};

/// The maximum number of styles in which one log writes severities. Logs of several services have
/// more than one.
const MAX_STYLES: usize = 4;

/// The format of a log: the beginnings of its entries, and the styles of their severities.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogFormat {
    /// The last field in which entries have a time. `None` if fewer than a third of the lines have
    /// one.
    time: Option<u8>,
    styles: [Option<LearnedStyle>; MAX_STYLES],
    /// True if entries have a named severity, such as `level=error`.
    is_named: bool,
    /// The field of named severities.
    field: SeverityField,
    /// True if the line after the time begins with the severity, as in `java.util.logging`.
    has_severity_lines: bool,
    /// True if severities may be words of another language than English.
    is_translated: bool,
    /// True if entries begin with the priority of syslog: `<3>`.
    has_priority: bool,
    /// True if lines begin with the name of a container and `|`.
    has_containers: bool,
    /// True if times have lines of their own, and reports follow them, as in the alert log of
    /// Oracle.
    has_time_lines: bool,
    /// The column of severities that are numbers without a name.
    number: Option<NumberColumn>,
    /// True if entries are records of several lines, one of which states the severity.
    has_records: bool,
    /// True if entries state no severity, but the status of a request.
    is_access_log: bool,
    is_log: bool,
}

/// The properties of one line of a log.
#[derive(Clone, Debug)]
pub struct EntryHead {
    /// True if the line begins an entry.
    pub is_start: bool,
    /// The severity of the entry. `Other` if the line does not begin an entry.
    pub severity: Severity,
    /// The byte offset of the message in the line, after time and severity. 0 if unknown.
    pub message: usize,
    /// The range of the message in a severe entry, if it is the value of a named field such as
    /// `"msg"`.
    pub named_message: Option<Range<usize>>,
    /// True if the message is the cause of an exception. The line belongs to the entry before it if
    /// that has the same severity and tag.
    pub may_continue: bool,
    /// The range of the cause that the entry names beside that message, such as `"error"`.
    pub cause: Option<Range<usize>>,
}

impl LogFormat {
    /// Learns the format from decoded lines without ANSI escape sequences. Ignores blank lines.
    /// O(lines).
    #[must_use]
    #[inline(never)]
    pub fn learn(lines: &[Cow<'_, [u8]>]) -> Self {
        let lines = lines.iter().filter(|line| !line.trim_ascii().is_empty());
        let field = SeverityField::learn(lines.clone().map(AsRef::as_ref));
        let sample: Vec<SampleLine> =
            lines.clone().map(|line| SampleLine::read(line, &field)).collect();
        let count = |test: &dyn Fn(&SampleLine) -> bool| sample.iter().filter(|x| test(x)).count();
        let is_third = |count: usize| count >= MIN_ENTRIES && count * 3 >= sample.len();
        let times = sample.iter().filter(|line| !line.is_indented);
        let time = common_last_field(times.filter_map(|line| line.parsed.time));
        let has_time = |line: &SampleLine| !line.is_indented && has_time(&line.parsed, time);
        let has_severity_lines = time.is_some() && has_severity_lines(&sample);
        // Documents that quote a log begin otherwise.
        let begins_as_log = sample.first().is_some_and(|line| line.begins_entry);
        let is_document = || !begins_as_log && is_document(lines.clone().map(AsRef::as_ref));
        let has_long_entries = time.is_some() && has_long_entries(&sample) && !is_document();
        let is_long = has_severity_lines || has_long_entries;
        let time = time.filter(|_| is_long || is_third(count(&has_time)));
        let is_entry = |line: &&SampleLine| {
            if time.is_some() { has_time(line) } else { !line.is_indented }
        };
        let entries: Vec<&SampleLine> = sample.iter().filter(is_entry).collect();
        let most = |test: &dyn Fn(&SampleLine) -> bool| {
            count(test) >= MIN_ENTRIES && count(test) * 2 > entries.len()
        };
        let has_field = is_third(count(&|line| line.is_named))
            || field.has_own_name() && is_third(count(&|line| line.is_object));
        let mut format = Self {
            time,
            is_named: has_field && !have_words_before(lines.clone(), &sample, &field),
            has_priority: most(&|line| line.has_priority),
            has_containers: have_containers(&sample),
            has_time_lines: time.is_some() && have_time_lines(&sample),
            has_severity_lines,
            is_translated: are_translated(&sample),
            has_records: have_records(&sample),
            field,
            is_log: time.is_some() || is_third(count(&|line| line.begins_entry)),
            ..Self::default()
        };
        let entries = entries.into_iter().filter(|line| !format.is_named || !line.is_named);
        format.learn_styles(entries.collect());
        let statuses = count(&|line| line.has_status);
        format.is_access_log = !format.has_severities() && statuses * 2 > sample.len();
        if time.is_some() && !format.has_severities() && !format.has_time_lines {
            format.number = format.learn_number(lines.clone().map(AsRef::as_ref));
        }
        format.is_log |= format.has_severities() || format.has_containers || format.has_records;
        format
    }

    /// Learns the column of severities that are numbers.
    fn learn_number<'l>(&self, lines: impl Iterator<Item = &'l [u8]>) -> Option<NumberColumn> {
        let rest = |line: &'l [u8]| {
            let parsed = LogLine::parse_until(line, &|parsed| parsed.time.is_some());
            let is_entry = has_time(&parsed, self.time) && !is_indented(line);
            line.get(parsed.time_end..).filter(|_| is_entry)
        };
        let rests: Vec<&[u8]> = lines.filter_map(rest).collect();
        NumberColumn::learn(rests.iter().copied())
    }

    /// Learns the style of most entries, then that of most remaining entries, and so on.
    fn learn_styles(&mut self, mut entries: Vec<&SampleLine>) {
        let total = entries.len();
        for at in 0..MAX_STYLES {
            if entries.len() < MIN_ENTRIES || entries.len() * 20 < total {
                return;
            }
            let Some(learned) = dominant_style(&entries, self.time.is_some(), at == 0) else {
                return;
            };
            if let Some(style) = self.styles.get_mut(at) {
                *style = Some(learned);
            }
            entries.retain(|line| !line.parsed.words.iter().any(|word| learned.includes(word)));
        }
    }

    /// Returns true if the text is a log: at least a third of its lines have a time, or begin with
    /// a level or a JSON object. It is also one if most of its lines have a severity in the same
    /// field, or begin with the name of a container.
    #[must_use]
    pub fn is_log(&self) -> bool {
        self.is_log
    }

    /// Returns true if the entries of the log have explicit severities, so that words of messages
    /// are not read as such.
    #[must_use]
    pub fn has_severities(&self) -> bool {
        self.is_named
            || self.has_priority
            || self.has_severity_lines
            || self.styles.iter().any(Option::is_some)
    }

    /// Returns true if most entries have a time, and a word for their severity in the same column.
    #[must_use]
    pub fn has_severity_column(&self) -> bool {
        self.time.is_some() && self.styles.iter().flatten().any(|learned| learned.is_column)
    }

    /// Returns true if entries state no severity, but the status of a request.
    #[must_use]
    pub fn is_access_log(&self) -> bool {
        self.is_access_log
    }

    /// Returns true if lines begin with the name of a container and `|`.
    #[must_use]
    pub fn has_containers(&self) -> bool {
        self.has_containers
    }

    /// Returns true if entries may have severities that no English word names: letters, numbers,
    /// or words of other languages.
    #[must_use]
    pub fn has_short_severities(&self) -> bool {
        let is_short = |learned: &LearnedStyle| match learned.style.letters {
            _ if learned.has_contextual_words => true,
            Letters::Single | Letters::LowerSingle | Letters::Coded => true,
            Letters::Dated => learned.last > 0,
            _ => false,
        };
        self.has_priority
            || self.has_severity_lines
            || self.has_time_lines
            || self.has_records
            || self.number.is_some()
            || self.is_translated
            || self.field.is_unusual()
            || self.styles.iter().flatten().any(is_short)
    }

    /// Returns true if entries are records of several lines, one of which states the severity.
    #[must_use]
    pub fn has_records(&self) -> bool {
        self.has_records
    }

    /// Returns true if a line of the log begins an entry. `head` is the beginning of the line,
    /// decoded and without ANSI escape sequences.
    #[must_use]
    pub fn begins_entry(&self, head: &[u8]) -> bool {
        if self.has_records {
            // The severity is not in the first line of a record, but a blank line may be before it.
            return head.trim_ascii().is_empty() || record_severity(head).is_some();
        }
        let parsed = LogLine::parse_until(head, &|parsed| has_time(parsed, self.time));
        let is_timed = has_time(&parsed, self.time);
        if is_timed && !is_continuation(head, parsed.time_end) {
            let rest = head.get(parsed.time_end..).unwrap_or_default();
            return !is_trace(rest);
        }
        let parsed = if is_timed { LogLine::parse(head) } else { parsed };
        if self.severity_line(&parsed, is_timed).is_some() {
            return false;
        }
        self.is_start(head, &parsed, self.hit(&parsed).is_some())
    }

    /// Reads the beginning of a decoded line without ANSI escape sequences.
    #[must_use]
    pub fn read(&self, line: &[u8]) -> EntryHead {
        let head = |is_start, severity, message| EntryHead {
            is_start,
            severity,
            message,
            named_message: None,
            may_continue: false,
            cause: None,
        };
        if self.has_records {
            let severity = record_severity(line);
            return head(severity.is_some(), severity.unwrap_or(Severity::Other), line.len());
        }
        if self.is_access_log
            && let Some((severity, message)) = status_severity(line)
        {
            return head(true, severity, message);
        }
        let named = if self.is_named { self.field.severity(line) } else { None };
        let parsed = LogLine::parse_until(line, &|parsed| match named {
            Some(_) => parsed.time.is_some(),
            None => self.hit(parsed).is_some(),
        });
        let is_timed = has_time(&parsed, self.time);
        if let Some(severity) = named {
            let is_severe = severity != Severity::Other;
            let named_message = is_severe.then(|| message_range(line)).flatten();
            let cause = named_message.as_ref().and_then(|message| cause_range(line, message));
            return EntryHead { named_message, cause, ..head(true, severity, parsed.time_end) };
        }
        if is_timed
            && let Some(number) = &self.number
            && let Some((severity, end)) =
                line.get(parsed.time_end..).and_then(|rest| number.severity(rest))
            && severity != Severity::Other
        {
            return head(true, severity, parsed.time_end + end);
        }
        if let Some(word) = self.severity_line(&parsed, is_timed) {
            return head(true, word.severity, word.end);
        }
        if self.has_time_lines && !is_timed {
            let severity = report_severity(line);
            if severity != Severity::Other || !begins_entry(line) {
                return head(severity != Severity::Other, severity, 0);
            }
        }
        let hit = self.hit(&parsed);
        let is_start = self.is_start(line, &parsed, hit.is_some());
        let rest = |word: &SeverityWord| line.get(word.end..).unwrap_or_default();
        match hit {
            _ if !is_start => head(false, Severity::Other, 0),
            Some(word) if tag_of_cause(rest(word)).is_some() => {
                EntryHead { may_continue: true, ..head(true, word.severity, word.end) }
            }
            Some(word) if is_trace(rest(word)) => head(false, Severity::Other, 0),
            Some(word) if self.is_configuration(word) => head(true, Severity::Other, word.end),
            // The severity is the value of a member, and so is the message.
            Some(word) if word.style.right == b'"' && word.severity != Severity::Other => {
                let named_message = message_range(line);
                let cause = named_message.as_ref().and_then(|message| cause_range(line, message));
                EntryHead { named_message, cause, ..head(true, word.severity, word.end) }
            }
            Some(word) => head(true, word.severity, word.end),
            None => head(true, self.severity(line, &parsed), parsed.time_end),
        }
    }

    /// Returns the severity at the start of a line that follows the line with the time. `None` for
    /// other lines.
    fn severity_line<'p>(&self, parsed: &'p LogLine, is_timed: bool) -> Option<&'p SeverityWord> {
        let first = parsed.words.first().filter(|word| word.begins_line);
        first.filter(|_| self.has_severity_lines && !is_timed)
    }

    /// Returns the first severity word of `parsed` that has a learned style. `None` if there is
    /// none.
    fn hit<'p>(&self, parsed: &'p LogLine) -> Option<&'p SeverityWord> {
        let timed = has_time(parsed, self.time);
        let is_hit = |word: &&SeverityWord| {
            let mut learned = self.styles.iter().flatten();
            learned.any(|learned| learned.includes(word) && (timed || !learned.needs_time))
        };
        parsed.words.iter().find(is_hit)
    }

    /// Returns true if a word is the letter `C` of a log with many of them.
    fn is_configuration(&self, word: &SeverityWord) -> bool {
        let mut learned = self.styles.iter().flatten().filter(|learned| learned.includes(word));
        word.is_weak
            && word.style.letters == Letters::Single
            && learned.any(|learned| learned.has_configuration)
    }

    /// Returns true if a line begins an entry. `is_hit` is true if it has a severity in a learned
    /// style.
    fn is_start(&self, line: &[u8], parsed: &LogLine, is_hit: bool) -> bool {
        let is_own = is_hit || !is_continuation(line, parsed.time_end);
        has_time(parsed, self.time) && is_own
            || is_hit && !is_indented(line)
            || begins_entry(line) && is_own
            || self.has_priority && priority(line).is_some()
            || self.is_named && self.field.severity(line).is_some()
            || self.has_containers && parsed.words.iter().any(|word| self.begins_container(word))
    }

    /// Returns the severity of an entry that has no severity word of a learned style.
    fn severity(&self, line: &[u8], parsed: &LogLine) -> Severity {
        if self.has_priority
            && let Some(severity) = priority(line)
        {
            return severity;
        }
        // Beside learned severities, messages may begin with such words: `error rate is low`.
        let has_styles = self.styles.iter().any(Option::is_some);
        let follows_prose = |word: &SeverityWord| {
            let before = line.get(parsed.time_end..word.end).unwrap_or_default();
            let mut words = before.split(|byte| *byte == b' ').filter(|word| word.len() > 1);
            words.any(|word| word.iter().all(u8::is_ascii_lowercase))
        };
        // Parts of names are severities if entries have no others: `LustreError: text`.
        let is_part = |word: &SeverityWord| {
            let is_name = word.style.left == b'_' && word.style.right == b':';
            is_name && !self.has_severities() && !follows_prose(word)
        };
        let is_prose = |word: &&SeverityWord| {
            has_styles && word.style.letters == Letters::Lower
                || word.is_contextual && !is_part(word)
        };
        let mut words = parsed.words.iter().filter(|word| !is_prose(word));
        let own = words
            .find(|word| word.is_label || is_part(word) || is_after_source(line, parsed, word));
        if let Some(severity) = own.map(|word| word.severity).or_else(|| named_severity(line)) {
            return severity;
        }
        let message = message(line, parsed.time_end);
        let crash = crash_severity(message.trim_ascii_start());
        let strict = strict_severity(message).max(strict_severity(line)).max(crash);
        if strict != Severity::Other || self.has_severities() {
            return strict;
        }
        // Values of objects are data.
        if is_object(line) {
            return strict;
        }
        // Without a severity in most entries, words in capitals count if no prose is before them.
        let capitals = parsed
            .words
            .iter()
            .filter(|word| word.is_upper && word.style.letters.is_word() && !word.is_contextual)
            .filter(|word| !follows_prose(word));
        capitals.map(|word| word.severity).max().unwrap_or(Severity::Other)
    }

    /// Returns true if the word is a label at the beginning of a message after a container name, or
    /// in a log without times.
    fn begins_container(&self, word: &SeverityWord) -> bool {
        word.is_label && (self.time.is_none() || word.style.left == b'|')
    }
}

/// Returns true if a word is a label after the time and the name of a source:
/// `2026-01-02 10:00:00 spid52  Error: text`.
fn is_after_source(line: &[u8], parsed: &LogLine, word: &SeverityWord) -> bool {
    let style = word.style;
    let is_title = line.get(..word.end).is_some_and(|line| {
        let letters = line.iter().rev().take_while(|byte| byte.is_ascii_alphabetic());
        letters.last().is_some_and(u8::is_ascii_uppercase)
    });
    let before = line.get(parsed.time_end..word.end).unwrap_or_default();
    let tokens = before.split(u8::is_ascii_whitespace).filter(|token| !token.is_empty());
    parsed.time.is_some()
        && is_title
        && (style.left, style.right) == (b' ', b':')
        && is_source(tokens)
}

fn has_time(parsed: &LogLine, last: Option<u8>) -> bool {
    parsed.time.zip(last).is_some_and(|(field, last)| field <= last)
}

/// Returns the last field that at least a twentieth of `fields` have. `None` if `fields` is empty.
fn common_last_field(fields: impl Iterator<Item = u8>) -> Option<u8> {
    let mut counts = [0usize; 32];
    fields.for_each(|field| {
        if let Some(count) = counts.get_mut(usize::from(field)) {
            *count += 1;
        }
    });
    let total: usize = counts.iter().sum();
    let last = counts.iter().rposition(|count| *count > 0 && count * 20 >= total)?;
    u8::try_from(last).ok()
}
