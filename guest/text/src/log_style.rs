//! Learns the styles in which a log writes severities.

use std::cmp::Reverse;

use super::log_field::SeverityField;
use super::log_sample::SampleLine;
use super::log_word::{CODE_SIGN, Letters, SIGN, SeverityStyle, SeverityWord};
use super::severity::Severity;

/// The minimum number of lines with a time or severity in a log.
pub(super) const MIN_ENTRIES: usize = 2;

/// A style of severities, with the range of fields in which entries have them.
#[derive(Clone, Copy, Debug)]
pub(super) struct LearnedStyle {
    pub(super) style: SeverityStyle,
    first: u8,
    pub(super) last: u8,
    /// True if only lines with a time have a severity in this style.
    pub(super) needs_time: bool,
    /// True if the letter `C` is frequent: it marks the configuration in logs of ESPHome.
    pub(super) has_configuration: bool,
    /// True if some severities are words such as `MAJOR`.
    pub(super) has_contextual_words: bool,
    /// True if most entries have a severity in this style, it is a word such as `INFO`, and most
    /// are harmless. A table of reported problems has other shares.
    pub(super) is_column: bool,
}

impl LearnedStyle {
    pub(super) fn includes(&self, word: &SeverityWord) -> bool {
        // In lists of topics, more may precede a rare severity: `system,error,critical`.
        let last = self.last + u8::from(self.style.left == b',' && self.style.right == b' ');
        self.style == word.style && (self.first..=last).contains(&word.field)
    }
}

/// Returns the style in which most of `entries` write a severity. `None` if no style is learned
/// from them.
/// `is_first` is true for the style of most entries: others need harmless severities.
pub(super) fn dominant_style(
    entries: &[&SampleLine],
    is_timed: bool,
    is_first: bool,
) -> Option<LearnedStyle> {
    let mut styles: Vec<SeverityStyle> = Vec::new();
    for word in entries.iter().flat_map(|line| &line.parsed.words) {
        if !styles.contains(&word.style) && styles.len() < 64 {
            styles.push(word.style);
        }
    }
    let rate = |style: &SeverityStyle| {
        let learned = learn_style(*style, entries, is_timed, is_first)?;
        let hits =
            entries.iter().filter(|line| line.parsed.words.iter().any(|w| learned.includes(w)));
        let is_harmless =
            |word: &SeverityWord| learned.includes(word) && word.severity == Severity::Other;
        let is_varied = entries.iter().any(|line| line.parsed.words.iter().any(is_harmless));
        // The earliest of equally frequent styles: those of messages come later.
        let is_word = style.letters.is_word();
        Some(((hits.count(), is_word, is_varied, Reverse(learned.first)), learned))
    };
    let best = styles.iter().filter_map(rate).max_by_key(|(rank, _)| *rank)?;
    Some(best.1)
}

/// Returns true if most entries with a level field have a severity in one style before it. The
/// field is then a part of their message: `10:00:00 INFO request with level=error`. `sample` has
/// the parsed `lines`. O(lines).
pub(super) fn have_words_before<'l, L: AsRef<[u8]> + 'l>(
    lines: impl Iterator<Item = &'l L>,
    sample: &[SampleLine],
    field: &SeverityField,
) -> bool {
    let mut named = 0;
    let mut heads: Vec<SampleLine> = Vec::new();
    for (line, read) in lines.map(AsRef::as_ref).zip(sample).filter(|(_, read)| read.is_named) {
        named += 1;
        let Some(first) = read.parsed.words.first() else { continue };
        let offset = field.offset(line);
        if first.end < offset && !read.is_object {
            heads.push(SampleLine::read(line.get(..offset).unwrap_or_default(), field));
        }
    }
    if heads.len() * 5 < named * 4 {
        return false;
    }
    let heads: Vec<&SampleLine> = heads.iter().collect();
    let timed = heads.iter().filter(|line| line.parsed.time.is_some()).count();
    dominant_style(&heads, timed * 2 > heads.len(), true).is_some_and(|learned| {
        let is_hit =
            |line: &&&SampleLine| line.parsed.words.iter().any(|word| learned.includes(word));
        learned.style.letters.is_word() && heads.iter().filter(is_hit).count() * 5 >= named * 4
    })
}

/// Returns the field in which most words of a style that have no other meaning are.
fn usual_field(style: SeverityStyle, entries: &[&SampleLine]) -> Option<u8> {
    let mut counts = [0usize; 64];
    let is_own = |word: &&SeverityWord| word.style == style && !word.is_weak;
    for word in entries.iter().filter_map(|line| line.parsed.words.iter().find(is_own)) {
        if let Some(count) = counts.get_mut(usize::from(word.field)) {
            *count += 1;
        }
    }
    let (field, count) =
        counts.iter().zip(0u8..).max_by_key(|(count, _)| **count).map(|(c, f)| (f, *c))?;
    (count > 0).then_some(field)
}

/// Learns the fields of a style. `None` if words in this style are parts of messages, not
/// severities.
fn learn_style(
    style: SeverityStyle,
    entries: &[&SampleLine],
    is_timed: bool,
    is_first: bool,
) -> Option<LearnedStyle> {
    let (mut fields, mut strong_fields) = ([0usize; 64], [0usize; 64]);
    let (mut count, mut timed, mut harmless, mut strong, mut labels) = (0, 0, 0, 0, 0);
    let (mut names, mut configuration, mut contextual) = ([false; 3], 0, 0);
    let usual_field = usual_field(style, entries);
    let dated = entries.iter().filter(|line| line.parsed.time.is_some()).count();
    for line in entries {
        let mut words = line.parsed.words.iter().filter(|word| word.style == style);
        // Other columns may have words such as `SYSTEM`.
        let is_usual = |word: &&SeverityWord| usual_field == Some(word.field);
        let known = words.clone().find(|word| !word.is_weak);
        let known = known.or_else(|| words.clone().find(is_usual)).or_else(|| words.next());
        let Some(word) = known else {
            continue;
        };
        contextual += usize::from(word.is_contextual);
        let Some(field) = fields.get_mut(usize::from(word.field)) else { continue };
        *field += 1;
        count += 1;
        timed += usize::from(line.parsed.time.is_some());
        harmless += usize::from(word.severity == Severity::Other);
        strong += usize::from(!word.is_weak);
        if let Some(strong) = strong_fields.get_mut(usize::from(word.field)) {
            *strong += usize::from(!word.is_weak);
        }
        labels += usize::from(word.is_label);
        let is_letter = matches!(style.letters, Letters::Single | Letters::LowerSingle);
        configuration += usize::from(is_letter && word.is_weak);
        if let Some(name) = names.get_mut(word.severity as usize) {
            *name = true;
        }
    }
    let is_common = |hits: &usize| *hits > 0 && *hits * 50 >= count;
    let severe = if strong * 10 >= count { &strong_fields } else { &fields };
    let first = severe.iter().position(is_common)?;
    let last = severe.iter().rposition(is_common)?;
    let peak = fields.iter().copied().max().unwrap_or(0);
    let share = |percent: usize| count * 100 >= entries.len() * percent;
    // Different words in the same field are levels. One word alone may be part of a message.
    let is_varied = names.iter().filter(|name| **name).count() >= 2;
    let varies = is_varied && harmless > 0;
    let is_narrow = |percent: usize| peak * 100 >= count * percent;
    // Where all entries are severe, the word must begin them.
    let is_column = harmless > 0
        || !style.letters.is_word()
        || is_first && (labels * 10 >= count * 9 || style.letters == Letters::Upper);
    // Only severe entries may have a letter: `SCRIPT (E): text`.
    let is_enclosed = (style.left, style.right) != (b' ', b' ');
    let is_rare_letter = is_narrow(95) && is_varied;
    let is_stable = match style.letters {
        Letters::Single if is_timed && is_enclosed && is_rare_letter => true,
        Letters::Single if !is_timed && style.right != b'/' => {
            is_enclosed && varies && harmless * 2 > count && share(80) && is_narrow(90)
        }
        // Other letters state the kind of some entries, as in WebSphere.
        Letters::Single if is_timed && varies && share(25) && is_narrow(92) => true,
        Letters::Single => share(60) && is_narrow(80),
        Letters::LowerSingle => is_timed && varies && share(60) && is_narrow(80),
        Letters::Dated => share(30),
        // Without times, lists of codes have them, too.
        Letters::Coded if style.left == CODE_SIGN => {
            varies && is_narrow(80) && (is_timed && share(30) || dated * 2 >= count && share(5))
        }
        // Without times, documents have such signs, too.
        Letters::Coded if style.left == SIGN => varies && share(if is_timed { 10 } else { 60 }),
        Letters::Coded => share(5),
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
        has_configuration: configuration * 20 >= count,
        has_contextual_words: contextual > 0,
        is_column: share(80)
            && harmless * 10 >= count * 6
            && contextual == 0
            && style.letters.is_word(),
    })
}
