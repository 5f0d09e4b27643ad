//! The format of a log, learned from a sample of its lines.
//!
//! No list of formats is needed. Most entries of a log have their severity in the same style and in
//! about the same field, and their time in the same field.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::log_line::{Letters, LogLine, SeverityStyle, SeverityWord};
use super::log_prefix::{begins_entry, container, is_continuation, is_indented, message, priority};
use super::severity::{Severity, named_severity, strict_severity};

/// The maximum number of styles in which one log writes severities. Logs of several services have
/// more than one.
const MAX_STYLES: usize = 4;
/// The minimum number of lines with a time or severity in a log.
const MIN_ENTRIES: usize = 2;

/// The format of a log: the beginnings of its entries, and the styles of their severities.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogFormat {
    /// The last field in which entries have a time. `None` if fewer than a third of the lines have
    /// one.
    time: Option<u8>,
    styles: [Option<LearnedStyle>; MAX_STYLES],
    /// True if entries have a named severity, such as `level=error`.
    is_named: bool,
    /// True if entries begin with the priority of syslog: `<3>`.
    has_priority: bool,
    /// True if lines begin with the name of a container and `|`.
    has_containers: bool,
    is_log: bool,
}

/// A style of severities, with the range of fields in which entries have them.
#[derive(Clone, Copy, Debug)]
struct LearnedStyle {
    style: SeverityStyle,
    first: u8,
    last: u8,
    /// True if only lines with a time have a severity in this style.
    needs_time: bool,
}

/// The properties of one line of a log.
#[derive(Clone, Copy, Debug)]
pub struct EntryHead {
    /// True if the line begins an entry.
    pub is_start: bool,
    /// The severity of the entry. `Other` if the line does not begin an entry.
    pub severity: Severity,
    /// The byte offset of the message in the line, after time and severity. 0 if unknown.
    pub message: usize,
}

/// A line of the sample.
struct SampleLine {
    parsed: LogLine,
    is_indented: bool,
    is_named: bool,
    has_priority: bool,
    begins_entry: bool,
    /// The name of the container before `|`.
    container: Option<Vec<u8>>,
}

impl LogFormat {
    /// Learns the format from decoded lines without ANSI escape sequences. Ignores blank lines.
    /// O(lines).
    #[must_use]
    #[inline(never)]
    pub fn learn(lines: &[Cow<'_, [u8]>]) -> Self {
        let lines = lines.iter().filter(|line| !line.trim_ascii().is_empty());
        let sample: Vec<SampleLine> = lines.map(|line| SampleLine::read(line)).collect();
        let count = |test: &dyn Fn(&SampleLine) -> bool| sample.iter().filter(|x| test(x)).count();
        let is_third = |count: usize| count >= MIN_ENTRIES && count * 3 >= sample.len();
        let times = sample.iter().filter(|line| !line.is_indented);
        let time = common_last_field(times.filter_map(|line| line.parsed.time));
        let has_time = |line: &SampleLine| !line.is_indented && has_time(&line.parsed, time);
        let time = time.filter(|_| is_third(count(&has_time)));
        let is_entry = |line: &&SampleLine| {
            if time.is_some() { has_time(line) } else { !line.is_indented }
        };
        let entries: Vec<&SampleLine> = sample.iter().filter(is_entry).collect();
        let most = |test: &dyn Fn(&SampleLine) -> bool| {
            count(test) >= MIN_ENTRIES && count(test) * 2 > entries.len()
        };
        let mut format = Self {
            time,
            is_named: is_third(count(&|line| line.is_named)),
            has_priority: most(&|line| line.has_priority),
            has_containers: have_containers(&sample),
            is_log: time.is_some() || is_third(count(&|line| line.begins_entry)),
            ..Self::default()
        };
        let entries = entries.into_iter().filter(|line| !format.is_named || !line.is_named);
        format.learn_styles(entries.collect());
        format.is_log |= format.has_severities() || format.has_containers;
        format
    }

    /// Learns the style of most entries, then that of most remaining entries, and so on.
    fn learn_styles(&mut self, mut entries: Vec<&SampleLine>) {
        let total = entries.len();
        for at in 0..MAX_STYLES {
            if entries.len() < MIN_ENTRIES || entries.len() * 20 < total {
                return;
            }
            let Some(learned) = dominant_style(&entries, self.time.is_some()) else { return };
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
        self.is_named || self.has_priority || self.styles.iter().any(Option::is_some)
    }

    /// Returns true if lines begin with the name of a container and `|`.
    #[must_use]
    pub fn has_containers(&self) -> bool {
        self.has_containers
    }

    /// Returns true if entries may have severities without a word: letters, or syslog priorities.
    #[must_use]
    pub fn has_short_severities(&self) -> bool {
        let is_short = |learned: &LearnedStyle| match learned.style.letters {
            Letters::Single => true,
            Letters::Dated => learned.last > 0,
            _ => false,
        };
        self.has_priority || self.styles.iter().flatten().any(is_short)
    }

    /// Returns true if a line of the log begins an entry. `head` is the beginning of the line,
    /// decoded and without ANSI escape sequences.
    #[must_use]
    pub fn begins_entry(&self, head: &[u8]) -> bool {
        let parsed = LogLine::parse_until(head, &|parsed| has_time(parsed, self.time));
        let is_timed = has_time(&parsed, self.time);
        if is_timed && !is_continuation(head, parsed.time_end) {
            return true;
        }
        let parsed = if is_timed { LogLine::parse(head) } else { parsed };
        self.is_start(head, &parsed, self.hit(&parsed).is_some())
    }

    /// Reads the beginning of a decoded line without ANSI escape sequences.
    #[must_use]
    pub fn read(&self, line: &[u8]) -> EntryHead {
        let named = if self.is_named { named_severity(line) } else { None };
        let parsed = LogLine::parse_until(line, &|parsed| match named {
            Some(_) => parsed.time.is_some(),
            None => self.hit(parsed).is_some(),
        });
        if let Some(severity) = named {
            return EntryHead { is_start: true, severity, message: parsed.time_end };
        }
        let hit = self.hit(&parsed);
        let is_start = self.is_start(line, &parsed, hit.is_some());
        match hit {
            _ if !is_start => EntryHead { is_start, severity: Severity::Other, message: 0 },
            Some(word) => EntryHead { is_start, severity: word.severity, message: word.end },
            None => {
                let severity = self.severity(line, &parsed);
                EntryHead { is_start, severity, message: parsed.time_end }
            }
        }
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

    /// Returns true if a line begins an entry. `is_hit` is true if it has a severity in a learned
    /// style.
    fn is_start(&self, line: &[u8], parsed: &LogLine, is_hit: bool) -> bool {
        let is_own = is_hit || !is_continuation(line, parsed.time_end);
        has_time(parsed, self.time) && is_own
            || is_hit && !is_indented(line)
            || begins_entry(line) && is_own
            || self.has_priority && priority(line).is_some()
            || self.is_named && named_severity(line).is_some()
            || self.has_containers && parsed.words.iter().any(|word| self.begins_container(word))
    }

    /// Returns the severity of an entry that has no severity word of a learned style.
    fn severity(&self, line: &[u8], parsed: &LogLine) -> Severity {
        if self.has_priority
            && let Some(severity) = priority(line)
        {
            return severity;
        }
        let own = parsed.words.iter().find(|word| word.is_label);
        if let Some(severity) = own.map(|word| word.severity).or_else(|| named_severity(line)) {
            return severity;
        }
        let message = message(line, parsed.time_end);
        let strict = strict_severity(message).max(strict_severity(line));
        if strict != Severity::Other || self.has_severities() {
            return strict;
        }
        // Without a severity in most entries, words in capitals count if no prose is before them.
        let follows_prose = |word: &SeverityWord| {
            let before = line.get(parsed.time_end..word.end).unwrap_or_default();
            let mut words = before.split(|byte| *byte == b' ').filter(|word| word.len() > 1);
            words.any(|word| word.iter().all(u8::is_ascii_lowercase))
        };
        let capitals = parsed
            .words
            .iter()
            .filter(|word| word.is_upper && word.style.letters.is_word() && !follows_prose(word));
        capitals.map(|word| word.severity).max().unwrap_or(Severity::Other)
    }

    /// Returns true if the word is a label at the beginning of a message after a container name, or
    /// in a log without times.
    fn begins_container(&self, word: &SeverityWord) -> bool {
        word.is_label && (self.time.is_none() || word.style.left == b'|')
    }
}

impl LearnedStyle {
    fn includes(&self, word: &SeverityWord) -> bool {
        self.style == word.style && (self.first..=self.last).contains(&word.field)
    }
}

impl SampleLine {
    fn read(line: &[u8]) -> Self {
        Self {
            parsed: LogLine::parse(line),
            is_indented: is_indented(line),
            is_named: named_severity(line).is_some(),
            has_priority: priority(line).is_some(),
            begins_entry: begins_entry(line),
            container: container(line).map(<[u8]>::to_vec),
        }
    }
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

/// Returns the style in which most of `entries` write a severity. `None` if no style is learned
/// from them.
fn dominant_style(entries: &[&SampleLine], is_timed: bool) -> Option<LearnedStyle> {
    let mut styles: Vec<SeverityStyle> = Vec::new();
    for word in entries.iter().flat_map(|line| &line.parsed.words) {
        if !styles.contains(&word.style) && styles.len() < 64 {
            styles.push(word.style);
        }
    }
    let rate = |style: &SeverityStyle| {
        let learned = learn_style(*style, entries, is_timed)?;
        let hits =
            entries.iter().filter(|line| line.parsed.words.iter().any(|w| learned.includes(w)));
        // The earliest of equally frequent styles: those of messages come later.
        Some(((hits.count(), style.letters.is_word(), Reverse(learned.first)), learned))
    };
    let best = styles.iter().filter_map(rate).max_by_key(|(rank, _)| *rank)?;
    Some(best.1)
}

/// Learns the fields of a style. `None` if words in this style are parts of messages, not
/// severities.
fn learn_style(
    style: SeverityStyle,
    entries: &[&SampleLine],
    is_timed: bool,
) -> Option<LearnedStyle> {
    let mut fields = [0usize; 64];
    let (mut count, mut timed, mut harmless, mut strong, mut labels) = (0, 0, 0, 0, 0);
    let mut names = [false; 3];
    for line in entries {
        let Some(word) = line.parsed.words.iter().find(|word| word.style == style) else {
            continue;
        };
        let Some(field) = fields.get_mut(usize::from(word.field)) else { continue };
        *field += 1;
        count += 1;
        timed += usize::from(line.parsed.time.is_some());
        harmless += usize::from(word.severity == Severity::Other);
        strong += usize::from(!word.is_weak);
        labels += usize::from(word.is_label);
        if let Some(name) = names.get_mut(word.severity as usize) {
            *name = true;
        }
    }
    let is_common = |hits: &usize| *hits > 0 && *hits * 50 >= count;
    let first = fields.iter().position(is_common)?;
    let last = fields.iter().rposition(is_common)?;
    let peak = fields.iter().copied().max().unwrap_or(0);
    let share = |percent: usize| count * 100 >= entries.len() * percent;
    // Different words in the same field are levels. One word alone may be part of a message.
    let varies = names.iter().filter(|name| **name).count() >= 2 && harmless > 0;
    let is_narrow = |percent: usize| peak * 100 >= count * percent;
    // Where all entries are severe, the word must begin them.
    let is_column = harmless > 0
        || !style.letters.is_word()
        || labels * 10 >= count * 9
        || style.letters == Letters::Upper;
    let is_stable = match style.letters {
        Letters::Single => (is_timed || style.right == b'/') && share(60) && is_narrow(80),
        Letters::Dated => share(30),
        Letters::Upper if is_timed => share(30) || varies && share(5),
        Letters::Enclosed if is_timed => is_narrow(60) && (share(30) || varies && share(5)),
        Letters::Lower | Letters::Title if is_timed => {
            is_narrow(70) && (share(50) || varies && share(10))
        }
        // Without times, source code and settings have such words too.
        Letters::Upper | Letters::Enclosed => {
            style.left != b'=' && harmless > 0 && is_narrow(60) && share(60)
        }
        Letters::Lower | Letters::Title => {
            is_narrow(90) && (share(50) && last == 0 || varies && share(80))
        }
    };
    (count >= MIN_ENTRIES && strong > 0 && is_column && is_stable).then(|| LearnedStyle {
        style,
        first: u8::try_from(first).unwrap_or(0),
        last: u8::try_from(last).unwrap_or(u8::MAX),
        needs_time: is_timed && timed * 20 >= count * 19,
    })
}

/// Returns true if most lines begin with the name of a container, and each name occurs repeatedly.
fn have_containers(sample: &[SampleLine]) -> bool {
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
