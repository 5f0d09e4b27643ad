//! What stands out in the part of a text that is not shown: errors and warnings of a log, an outline, rows, the end. In order of what a reader would miss most.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_128;

use super::extract::mark;
use crate::json::text::{Form, boundary};
use crate::text::entry::{Entry, entries, strict_lines, template};
use crate::text::grave::candidates;
use crate::text::kind::Kind;
use crate::text::level::Level;
use crate::text::lines::ends;
use crate::text::outline::{Part, parts};
use crate::tokens::Estimator;

/// Lines of an entry, its stack trace, that are shown.
const TRACE: usize = 8;
/// Characters of a line that are shown.
const WIDTH: usize = 400;
/// Bytes of the end of a text of one line.
const TAIL: usize = 240;

/// A text, looked through once.
pub struct Highlights<'t> {
    lines: Vec<&'t [u8]>,
    kind: Kind,
    grave: Vec<Entry>,
    parts: Vec<Part>,
}

/// What stands out, in words, with its cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// Lines with their numbers.
    pub text: String,
    /// Entries that matter and had to be left out.
    pub omitted: usize,
}

impl<'t> Highlights<'t> {
    /// Looks through a text. O(n).
    #[must_use]
    pub fn of(text: &'t [u8]) -> Self {
        let mut from = 0;
        let line = |end: usize| {
            let line = text.get(std::mem::replace(&mut from, end)..end).unwrap_or_default();
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            line.strip_suffix(b"\r").unwrap_or(line)
        };
        let ends = ends(text, Form::Raw);
        let lines: Vec<&[u8]> = ends.iter().copied().map(line).collect();
        let kind = Kind::of(&lines);
        let grave = match kind {
            Kind::Log => entries(&lines, &candidates(text, &ends)),
            Kind::Plain => strict_lines(&lines, &candidates(text, &ends)),
            _ => Vec::new(),
        };
        let parts = parts(kind, &lines);
        Self { lines, kind, grave, parts }
    }

    /// Lines of the text.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Tokens that this would like to have when lines from `from` on, counted from 0, are not shown.
    #[must_use]
    pub fn wish(&self, from: usize, estimator: &Estimator, allowance: u64) -> u64 {
        let rest = self.lines.len().saturating_sub(from);
        if rest == 0 || self.lines.len() == 1 {
            return (TAIL as u64 / 2).min(allowance / 4);
        }
        let most = allowance * 6 / 10;
        let mut grave = 0;
        for entry in self.grave.iter().filter(|entry| entry.line >= from) {
            grave += estimator.cost(self.entry(entry, TRACE).as_bytes()) + 1;
            if grave >= most {
                break;
            }
        }
        let outline: u64 = self
            .parts
            .iter()
            .filter(|part| part.line > from)
            .take(2_000)
            .map(|part| part.text.len() as u64 / 3 + 4)
            .sum();
        // Errors come before the rest of the text; anything else has to leave it most of the room.
        grave.min(most).max(outline.min(allowance / 4)) + allowance / 10
    }

    /// What stands out from line `from` on, counted from 0, in at most `allowance` tokens.
    #[must_use]
    pub fn excerpt(&self, from: usize, estimator: &Estimator, allowance: u64) -> Option<Excerpt> {
        if from >= self.lines.len() || allowance < 24 {
            return None;
        }
        let mut text = Text { out: String::new(), room: allowance.saturating_sub(16), estimator };
        let omitted = self.errors(from, &mut text);
        self.outline(from, &mut text);
        self.rows(&mut text, from);
        self.end(from, &mut text);
        self.sample(from, &mut text);
        (!text.out.is_empty()).then(|| Excerpt {
            text: format!(
                "Elsewhere, in lines {}-{}:\n{}",
                from + 1,
                self.lines.len(),
                text.out.trim_end()
            ),
            omitted,
        })
    }

    /// The end of the last line, in at most `allowance` tokens.
    #[must_use]
    pub fn tail(&self, estimator: &Estimator, allowance: u64) -> Option<Excerpt> {
        let last = self.lines.last()?;
        [TAIL, TAIL / 4].into_iter().find_map(|length| {
            let from = boundary(last, last.len().saturating_sub(length), Form::Raw);
            let end = String::from_utf8_lossy(last.get(from..)?);
            let text = format!("The end: … {end}");
            (estimator.cost(text.as_bytes()) + 4 <= allowance)
                .then_some(Excerpt { text, omitted: 0 })
        })
    }

    fn line(&self, at: usize) -> String {
        let line = self.lines.get(at).copied().unwrap_or_default();
        let end = boundary(line, WIDTH, Form::Raw);
        let head = String::from_utf8_lossy(line.get(..end).unwrap_or(line)).into_owned();
        if end < line.len() {
            format!("{head}{}", mark(line.len() - end, "characters"))
        } else {
            head
        }
    }

    /// An entry with so many lines of what belongs to it.
    fn entry(&self, entry: &Entry, trace: usize) -> String {
        let shown = entry.length.min(trace.max(1));
        let mut text = format!("{}: {}", entry.line + 1, self.line(entry.line));
        for at in entry.line + 1..entry.line + shown {
            text.push_str("\n  ");
            text.push_str(&self.line(at));
        }
        if shown < entry.length {
            text.push_str(&format!(" (+{} lines)", entry.length - shown));
        }
        text
    }

    /// Errors and warnings: all of them where they fit, repeats folded; else shorter; else the gravest. How many had to be left out.
    fn errors(&self, from: usize, text: &mut Text<'_>) -> usize {
        let grave: Vec<&Entry> = self.grave.iter().filter(|entry| entry.line >= from).collect();
        if grave.is_empty() {
            return 0;
        }
        let count = |level| grave.iter().filter(|entry| entry.level == level).count();
        let head = format!("{} errors, {} warnings:\n", count(Level::Error), count(Level::Warn));
        let room = text.room * 9 / 10;
        let whole = |folded: &[Group], trace: usize| {
            // Each takes a token at least.
            if folded.len() as u64 > room {
                return None;
            }
            let lines: Vec<String> = folded.iter().map(|group| self.group(group, trace)).collect();
            let whole = format!("{head}{}\n", lines.join("\n"));
            // A token is at most 16 bytes.
            let fits = whole.len() as u64 <= room.saturating_mul(16)
                && text.estimator.cost(whole.as_bytes()) <= room;
            fits.then_some(whole)
        };
        let fine = self.fold(&grave, false);
        let fits = [TRACE, 2, 1].into_iter().find_map(|trace| whole(&fine, trace));
        let mut coarse = if fits.is_some() { Vec::new() } else { self.fold(&grave, true) };
        if let Some(whole) = fits.or_else(|| whole(&coarse, 1)) {
            text.push(&whole);
            return 0;
        }
        // Not all of them fit: the gravest first, in their order, evenly spread.
        coarse.sort_by_key(|group| (std::cmp::Reverse(group.level), group.line));
        let mut kept: Vec<(usize, String)> = Vec::new();
        let mut spent = text.estimator.cost(head.as_bytes()) + 8;
        let mut omitted = 0;
        for group in &coarse {
            if spent >= room {
                omitted += group.count;
                continue;
            }
            let line = self.group(group, 1);
            let cost = text.estimator.cost(line.as_bytes()) + 1;
            if spent + cost > room {
                omitted += group.count;
                continue;
            }
            spent += cost;
            kept.push((group.line, line));
        }
        kept.sort_unstable();
        let lines: Vec<String> = kept.into_iter().map(|(_, line)| line).collect();
        text.push(&format!(
            "{head}{}\n({omitted} more of them have no room here)\n",
            lines.join("\n")
        ));
        omitted
    }

    fn group(&self, group: &Group, trace: usize) -> String {
        let text = self
            .entry(&Entry { level: group.level, line: group.line, length: group.length }, trace);
        if group.count > 1 {
            format!("{text} (x{}, last in line {})", group.count, group.last + 1)
        } else {
            text
        }
    }

    /// Repeats in one: entries that say the same at another time; `coarse`: that differ in numbers only.
    fn fold(&self, entries: &[&Entry], coarse: bool) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        // By their hashes: templates are long, and alike in their first half.
        let mut known: BTreeMap<u128, usize> = BTreeMap::new();
        for entry in entries {
            let line = self.lines.get(entry.line).copied().unwrap_or_default();
            let key = xxh3_128(&template(line, coarse));
            match known.get(&key).and_then(|at| groups.get_mut(*at)) {
                Some(group) => {
                    group.count += 1;
                    group.last = entry.line;
                }
                None => {
                    known.insert(key, groups.len());
                    groups.push(Group {
                        level: entry.level,
                        line: entry.line,
                        length: entry.length,
                        last: entry.line,
                        count: 1,
                    });
                }
            }
        }
        groups
    }

    /// The parts of the text, the deepest left out where there is no room.
    fn outline(&self, from: usize, text: &mut Text<'_>) {
        let rest: Vec<&Part> = self.parts.iter().filter(|part| part.line > from).collect();
        let deepest = rest.iter().map(|part| part.depth).max().unwrap_or(0);
        let name = match self.kind {
            Kind::Diff => "files and hunks",
            Kind::Source => "items",
            _ => "sections",
        };
        for depth in (1..=deepest).rev() {
            let lines: Vec<String> = rest
                .iter()
                .filter(|part| part.depth <= depth)
                .map(|part| format!("{}: {}", part.line, part.text))
                .collect();
            let whole = format!("{name}:\n{}\n", lines.join("\n"));
            if !lines.is_empty() && text.estimator.cost(whole.as_bytes()) <= text.room * 3 / 4 {
                return text.push(&whole);
            }
        }
        // Even the topmost are too many: as many as fit, and how many there are.
        let topmost = rest.iter().map(|part| part.depth).min().unwrap_or(0);
        let top: Vec<&&Part> = rest.iter().filter(|part| part.depth == topmost).collect();
        let mut kept = String::new();
        let mut shown = 0;
        for part in &top {
            let line = format!("{}: {}\n", part.line, part.text);
            if text.estimator.cost(kept.as_bytes()) + text.estimator.cost(line.as_bytes())
                > text.room / 2
            {
                break;
            }
            kept.push_str(&line);
            shown += 1;
        }
        if shown > 0 {
            text.push(&format!("{name}:\n{kept}({} more)\n", rest.len() - shown));
        }
    }

    /// Of a table: what its columns are, and how many rows there are.
    fn rows(&self, text: &mut Text<'_>, from: usize) {
        if self.kind == Kind::Table && from > 0 {
            text.push(&format!(
                "{} rows; the columns stand in line 1: {}\n",
                self.lines.len().saturating_sub(1),
                self.line(0)
            ));
        }
    }

    /// The end: a text says at its end how it went.
    fn end(&self, from: usize, text: &mut Text<'_>) {
        let budget = text.room / 2;
        let (mut kept, mut spent) = (Vec::new(), 4);
        for at in (from..self.lines.len())
            .rev()
            .filter(|at| self.lines.get(*at).is_some_and(|line| !line.trim_ascii().is_empty()))
        {
            let line = format!("{}: {}", at + 1, self.line(at));
            let cost = text.estimator.cost(line.as_bytes()) + 1;
            if spent + cost > budget || kept.len() >= 40 {
                break;
            }
            spent += cost;
            kept.push(line);
        }
        if !kept.is_empty() {
            kept.reverse();
            text.push(&format!("the end:\n{}\n", kept.join("\n")));
        }
    }

    /// Lines from all over the rest, evenly spaced.
    fn sample(&self, from: usize, text: &mut Text<'_>) {
        if !matches!(self.kind, Kind::Log | Kind::Table) || text.room < 40 {
            return;
        }
        let rest = self.lines.len() - from;
        let wanted = usize::try_from(text.room / 40).unwrap_or(1).clamp(1, 20);
        let stride = (rest / (wanted + 1)).max(1);
        let (mut kept, mut spent) = (Vec::new(), 6);
        for step in 1..=wanted {
            let at = from + step * stride;
            if at >= self.lines.len() {
                break;
            }
            let line = format!("{}: {}", at + 1, self.line(at));
            let cost = text.estimator.cost(line.as_bytes()) + 1;
            if spent + cost > text.room {
                break;
            }
            spent += cost;
            kept.push(line);
        }
        if !kept.is_empty() {
            text.push(&format!("a sample between:\n{}\n", kept.join("\n")));
        }
    }
}

struct Group {
    level: Level,
    line: usize,
    length: usize,
    last: usize,
    count: usize,
}

/// What is written, and the room for more.
struct Text<'e> {
    out: String,
    room: u64,
    estimator: &'e Estimator,
}

impl Text<'_> {
    fn push(&mut self, text: &str) {
        let cost = self.estimator.cost(text.as_bytes());
        if cost <= self.room {
            self.out.push_str(text);
            self.room -= cost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(text: &str, from: usize, allowance: u64) -> Excerpt {
        Highlights::of(text.as_bytes()).excerpt(from, &Estimator::default(), allowance).unwrap()
    }

    fn log() -> String {
        let mut log = String::new();
        for at in 0..1_000 {
            let line = match at {
                500 => "ERROR payment failed for BK-7\njava.lang.Error: x\n\tat a.b(C.java:1)"
                    .to_owned(),
                700 | 800 | 900 => "WARN slow answer".to_owned(),
                _ => format!("INFO booking {at} confirmed"),
            };
            log.push_str(&format!("2026-01-02 10:{:02}:{:02} {line}\n", at / 60, at % 60));
        }
        log
    }

    #[test]
    fn errors_and_warnings_come_first_with_their_traces_and_counts() {
        let found = excerpt(&log(), 100, 600);
        for part in [
            "1 errors, 3 warnings",
            "501: 2026-01-02 10:08:20 ERROR payment failed for BK-7\n  java.lang.Error: x\n  \tat a.b(C.java:1)",
            "WARN slow answer (x3, last in line 903)",
            "the end:",
            "1002: 2026-01-02 10:16:39 INFO booking 999 confirmed",
            "a sample between:",
        ] {
            assert!(found.text.contains(part), "{part} in\n{}", found.text);
        }
        assert!(Estimator::default().cost(found.text.as_bytes()) <= 600);
    }

    #[test]
    fn the_gravest_stay_where_not_all_fit() {
        let errors: String = (0..400)
            .map(|at| {
                let level = if at % 40 == 7 { "ERROR" } else { "WARN" };
                let words = ["alpha", "beta", "gamma", "delta", "omega", "sigma", "kappa", "theta"];
                let name: String =
                    [at % 8, at / 8 % 8, at / 64 % 8].iter().map(|word| words[*word]).collect();
                format!("2026-01-02 10:00:00 {level} {name} failed\n")
            })
            .collect();
        let found = excerpt(&errors, 0, 400);
        assert!(
            found.omitted > 100 && found.text.matches(" ERROR ").count() == 10,
            "{}",
            found.text
        );
    }

    #[test]
    fn documents_have_an_outline_and_an_end() {
        let text: String = (1..40).map(|at| format!("# Part {at}\n\nSome words about part {at}.\n\n## Detail {at}\n\nMore of them.\n\n")).collect();
        let wide = excerpt(&text, 20, 1_200).text;
        assert!(
            wide.contains("sections:\n21: ## Detail 3\n25: # Part 4\n")
                && wide.contains("More of them."),
            "{wide}"
        );
        let narrow = excerpt(&text, 20, 500).text;
        assert!(narrow.contains("# Part 39") && !narrow.contains("## Detail 4"), "{narrow}");
    }
}
