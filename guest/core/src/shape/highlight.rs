//! Highlights: important lines of the part of a text that is not shown.
//!
//! Errors and warnings of a log come first, then an outline, rows, the end, and a sample. Lines
//! that a reader needs most come first.

mod error_members;
mod log_errors;
mod merged_entries;
mod readable;
mod table_layout;

use std::borrow::Cow;

use self::error_members::error_members;
use self::log_errors::{EntryDetail, FULL_DETAIL, LogErrors, shown_line};
use self::readable::Readable;
use self::table_layout::Tables;
use crate::json::text::{Form, boundary, visible};
use crate::text::colours::without_colours;
use crate::text::kind::Kind;
use crate::text::line_breaks::without_line_breaks;
use crate::text::lines::IndexedText;
use crate::text::log_entry::{LogEntry, SevereEntries, Subject, severe_entries};
use crate::text::outline::{Part, parts};
use crate::text::shorten::truncation_mark;
use crate::tokens::Estimator;

/// The maximum number of quoted lines of one log entry, including its stack trace.
const MAX_TRACE_LINES: usize = 8;
/// The maximum number of bytes that are quoted of one line.
const MAX_LINE_BYTES: usize = 400;
/// The maximum number of quoted lines at the end of a log, a table or a text of few long lines.
const MAX_END_LINES: usize = 40;
/// The maximum number of quoted lines at the end of prose, which is read in order.
const MAX_PROSE_END_LINES: usize = 12;
/// The number of leading lines that are searched for an accessibility snapshot.
const SNAPSHOT_SAMPLE_LINES: usize = 40;
/// The number of quoted bytes at the end of a text without line breaks that exceeds one chunk.
const TAIL_BYTES: usize = 240;

/// A text, and those of its lines that may be quoted as highlights outside the shown chunk, such as
/// errors and headings.
pub struct Highlights<'t> {
    text: &'t IndexedText<'t>,
    kind: Kind,
    errors: Vec<LogEntry<'t>>,
    /// The name of the entries in `errors`, for headings.
    subject: Subject,
    parts: Vec<Part>,
    /// The tables of the text, if it is one.
    tables: Tables,
    /// The members of a JSON document that state an error.
    error_members: Option<String>,
    /// The readable content of the text, if it is markup or an accessibility snapshot: the text of
    /// a page, or the elements of a document.
    readable: Option<Readable>,
}

impl<'t> Highlights<'t> {
    /// Finds the lines of a text, such as errors, that may be quoted outside the shown chunk. O(n).
    /// In logs and plain text, only lines that may report errors are parsed.
    #[must_use]
    pub fn new(text: &'t IndexedText<'t>) -> Self {
        let SevereEntries { kind, entries: errors, subject } = severe_entries(text);
        let mut parts = parts(kind, text);
        for part in &mut parts {
            part.text = without_line_breaks(std::mem::take(&mut part.text));
        }
        let is_table = kind == Kind::Table;
        let tables = if is_table { Tables::find(text) } else { Tables::default() };
        let error_members = error_members(text);
        let readable = (kind == Kind::Markup || may_be_snapshot(text)).then(|| {
            let source = visible(text.bytes(), text.form());
            let source = std::str::from_utf8(&source).ok()?;
            if kind == Kind::Markup { Readable::new(source) } else { Readable::snapshot(source) }
        });
        let readable = readable.flatten();
        Self { text, kind, errors, subject, parts, tables, error_members, readable }
    }

    /// Returns true if the text is markup or an accessibility snapshot whose readable content costs
    /// at least `token_limit`. No more tokens should then be used for its source.
    #[must_use]
    pub fn is_long_markup(&self, estimator: &Estimator, token_limit: u64) -> bool {
        let readable = self.readable.as_ref();
        readable.is_some_and(|read| read.wanted_tokens(estimator, token_limit) >= token_limit)
    }

    /// Returns true if the text is markup or an accessibility snapshot, whose readable content is
    /// shown after its first lines.
    #[must_use]
    pub fn is_markup(&self) -> bool {
        self.readable.is_some()
    }

    /// Returns the text without escapes if it may be a table, else `None`. A table of log entries
    /// is detected as a log. O(n).
    #[must_use]
    pub fn tabular(&self) -> Option<Cow<'_, [u8]>> {
        let is_tabular = match self.kind {
            Kind::Table | Kind::Log => true,
            Kind::Plain => self.begins_with_aligned_names(),
            _ => false,
        };
        is_tabular.then(|| visible(self.text.bytes(), self.text.form()))
    }

    /// Returns true if the first line has names in capitals, aligned by spaces, as in the output
    /// of `kubectl get`, `docker ps` and `ps`.
    fn begins_with_aligned_names(&self) -> bool {
        let first = self.text.start(0);
        let first = first.trim_ascii();
        first.first().is_some_and(u8::is_ascii_uppercase)
            && !first.iter().any(u8::is_ascii_lowercase)
            && memchr::memmem::find(first, b"  ").is_some()
    }

    /// Returns the tables of the text. Empty if the kind of the text is not a table.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Returns the number of lines in the text.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.text.len()
    }

    /// Returns the number of tokens to reserve for quoting important lines from line `from` on,
    /// counted from 0. `token_limit` is for a chunk and these highlights together.
    #[must_use]
    pub fn wanted_tokens(&self, from: usize, estimator: &Estimator, token_limit: u64) -> u64 {
        if let Some(readable) = &self.readable {
            return readable.wanted_tokens(estimator, token_limit * 17 / 20);
        }
        let rest = self.text.len().saturating_sub(from);
        let members = self.error_members.as_ref();
        let members = members.map_or(0, |text| estimator.cost(text.as_bytes()));
        if rest == 0 || self.text.len() == 1 {
            return (TAIL_BYTES as u64 / 2 + members).min(token_limit / 4);
        }
        let most = token_limit * 6 / 10;
        let mut errors = 0;
        for entry in self.errors.iter().filter(|entry| entry.line >= from) {
            errors += estimator.cost(self.entry(entry, &FULL_DETAIL, "").as_bytes()) + 1;
            if errors >= most {
                break;
            }
        }
        let outline: u64 = self
            .parts
            .iter()
            .filter(|part| part.line > from)
            // Far more than fit: the sum is limited below.
            .take(2_000)
            .map(|part| part.text.len() as u64 / 3 + 4)
            .sum();
        // Errors may take most of the limit. An outline leaves it to the text itself.
        let members = members.min(token_limit / 4);
        errors.min(most).max(outline.min(token_limit / 4)).max(members) + token_limit / 10
    }

    /// Returns the errors and warnings in line `from`, counted from 0, and all later lines.
    #[must_use]
    pub fn errors_after(&self, from: usize) -> LogErrors<'_> {
        LogErrors::new(&self.errors, from, self.subject)
    }

    /// Returns quotes of the important lines from line `from` on, counted from 0, within
    /// `token_limit`. `errors` has the errors in the same lines. For markup, returns the readable
    /// content of the whole text instead. `None` if nothing fits.
    #[must_use]
    pub fn excerpt(
        &self,
        from: usize,
        errors: &LogErrors<'_>,
        estimator: &Estimator,
        token_limit: u64,
    ) -> Option<String> {
        if let Some(readable) = &self.readable {
            return readable.excerpt(estimator, token_limit);
        }
        // The heading alone takes 16 tokens.
        if from >= self.text.len() || token_limit < 24 {
            return None;
        }
        let mut text =
            HighlightWriter { out: String::new(), room: token_limit.saturating_sub(16), estimator };
        if let Some(members) = &self.error_members {
            text.push(&format!("{members}\n"));
        }
        errors.write(self, &mut text);
        self.outline(from, &mut text);
        self.rows(&mut text, from);
        self.end(from, &mut text);
        self.sample(from, &mut text);
        let (first, last, lines) = (from + 1, self.text.len(), text.out.trim_end());
        (!lines.is_empty()).then(|| format!("Elsewhere, in lines {first}-{last}:\n{lines}"))
    }

    /// Returns the last 240 bytes of the last line of a text, for a quote after the first chunk, or
    /// a quarter of that. The members of a JSON document that state an error precede it. `None` if
    /// nothing fits `token_limit`.
    #[must_use]
    pub fn tail(&self, estimator: &Estimator, token_limit: u64) -> Option<String> {
        let last = self.text.line(self.text.len().checked_sub(1)?);
        let members = self.error_members.as_ref();
        let members = members.map_or(String::new(), |members| format!("{members}\n"));
        let ends = [TAIL_BYTES, TAIL_BYTES / 4].into_iter().filter_map(|length| {
            let from = boundary(&last, last.len().saturating_sub(length), Form::Raw);
            let end = String::from_utf8_lossy(last.get(from..)?);
            Some(without_line_breaks(format!("The end: … {end}")))
        });
        let ends: Vec<String> = ends.collect();
        let heads = [members.as_str(), ""].into_iter();
        let mut texts = heads.flat_map(|head| ends.iter().map(move |end| format!("{head}{end}")));
        texts.find(|text| estimator.cost(text.as_bytes()) + 4 <= token_limit)
    }

    fn line(&self, at: usize) -> String {
        shortened(&without_colours(self.text.line(at)), MAX_LINE_BYTES)
    }

    /// Formats a log entry with as many of its lines and bytes as `detail` allows. `count` follows
    /// the first line.
    fn entry(&self, entry: &LogEntry<'_>, detail: &EntryDetail, count: &str) -> String {
        let below = (entry.length + 1).saturating_sub(entry.header_lines).max(1);
        let shown = below.min(detail.lines.max(1));
        let says = shown_line(entry, detail);
        let mut text = format!("{}: {says}{count}", entry.line + 1);
        // Blank lines and rules say nothing.
        let from = entry.line + entry.header_lines;
        let lines = (from..entry.line + entry.length).map(|at| self.line(at));
        let mut lines = lines.filter(|line| line.contains(char::is_alphanumeric));
        for line in lines.by_ref().take(shown - 1) {
            text.push_str("\n  ");
            text.push_str(&line);
        }
        let mut hidden = below - shown;
        // The last cause in a stack trace is the first that happened.
        let causes = lines.filter(|line| is_cause(line)).take(if shown > 1 { hidden } else { 0 });
        if let Some(cause) = causes.last() {
            hidden = hidden.saturating_sub(1);
            text.push_str(&format!("\n  {}", cause.trim_start()));
        }
        if hidden > 0 {
            text.push_str(&format!(" (+{hidden} lines)"));
        }
        text
    }

    /// Writes the headings or definitions after line `from`. If they do not all fit, omits the
    /// deepest levels.
    fn outline(&self, from: usize, text: &mut HighlightWriter<'_>) {
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
        // The top level alone does not fit: its first headings are shown, and the number of others.
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

    /// Writes the header and the number of rows of a table, if the text is one.
    fn rows(&self, text: &mut HighlightWriter<'_>, from: usize) {
        let Some(table) = self.tables.largest.filter(|_| from > 0) else { return };
        let of_tables = match self.tables.others {
            0 => String::new(),
            others => format!(" in the largest of {} tables", others + 1),
        };
        text.push(&format!(
            "{} rows{of_tables}; the columns stand in line {}: {}\n",
            table.rows,
            table.header + 1,
            self.line(table.header)
        ));
    }

    /// Returns true if quotes of later lines are more useful than the next lines. That applies to
    /// logs and tables, and to texts of few long lines. Other texts are read in order.
    #[must_use]
    pub fn are_sampled(&self) -> bool {
        let mean = self.text.bytes().len() / self.text.len().max(1);
        self.has_sample() || mean > MAX_LINE_BYTES
    }

    /// Returns true if highlights include lines between the shown ones and the end.
    fn has_sample(&self) -> bool {
        matches!(self.kind, Kind::Log | Kind::Table)
    }

    /// Writes the last lines of the text, because a log or report often ends with its result.
    fn end(&self, from: usize, text: &mut HighlightWriter<'_>) {
        let most = if self.are_sampled() { MAX_END_LINES } else { MAX_PROSE_END_LINES };
        let lines = (from..self.text.len()).rev();
        let lines = lines.filter(|at| !self.text.line(*at).trim_ascii().is_empty()).take(most);
        let lines: Vec<usize> = lines.collect();
        // The other half is for the sample.
        let room = if self.has_sample() { text.room / 2 } else { text.room }.saturating_sub(4);
        let quoted = |bytes: usize| {
            let quotes = lines.iter().map(|at| self.quote(*at, bytes));
            fitting(quotes, text.estimator, room)
        };
        // A few long lines are quoted at greater length.
        let longer = [32, 16, 8, 4, 2].into_iter().map(|times| quoted(times * MAX_LINE_BYTES));
        let mut all = longer.filter(|quotes| quotes.len() == lines.len());
        let mut quotes = all.next().unwrap_or_else(|| quoted(MAX_LINE_BYTES));
        quotes.reverse();
        text.push_lines("the end", &quotes);
    }

    /// Writes evenly spaced lines of a log or table. They are selected from the lines after line
    /// `from`.
    fn sample(&self, from: usize, text: &mut HighlightWriter<'_>) {
        if !self.has_sample() || text.room < 40 {
            return;
        }
        // A line takes about 40 tokens.
        let wanted = usize::try_from(text.room / 40).unwrap_or(1).clamp(1, 20);
        let stride = ((self.text.len() - from) / (wanted + 1)).max(1);
        let lines = (from..self.text.len()).step_by(stride).skip(1).take(wanted);
        let quotes = lines.map(|at| self.quote(at, MAX_LINE_BYTES));
        let quotes = fitting(quotes, text.estimator, text.room - 6);
        text.push_lines("a sample between", &quotes);
    }

    /// Formats a line with its number, shortened to `max_bytes`.
    fn quote(&self, at: usize, max_bytes: usize) -> String {
        let line = shortened(&without_colours(self.text.line(at)), max_bytes);
        format!("{}: {line}", at + 1)
    }
}

/// Returns as many of the first `quotes` as fit `token_limit`.
fn fitting(
    quotes: impl Iterator<Item = String>,
    estimator: &Estimator,
    token_limit: u64,
) -> Vec<String> {
    let mut spent = 0;
    let fits = |quote: &String| {
        spent += estimator.cost(quote.as_bytes()) + 1;
        spent <= token_limit
    };
    quotes.take_while(fits).collect()
}

/// Returns true if some leading lines of a text have the form of an accessibility snapshot.
fn may_be_snapshot(text: &IndexedText<'_>) -> bool {
    let mut heads = (0..text.len().min(SNAPSHOT_SAMPLE_LINES)).map(|at| text.start(at));
    heads.any(|head| {
        memchr::memmem::find(&head, b"[ref=").is_some()
            || head.trim_ascii_start().starts_with(b"uid=")
    })
}

/// Returns a line as text. A line longer than `max_bytes` is cut and ends with a truncation mark.
pub(super) fn shortened(line: &[u8], max_bytes: usize) -> String {
    let end = boundary(line, max_bytes, Form::Raw);
    let head = String::from_utf8_lossy(line.get(..end).unwrap_or(line)).into_owned();
    let head = without_line_breaks(head);
    if end < line.len() {
        let rest = String::from_utf8_lossy(line.get(end..).unwrap_or_default());
        format!("{head}{}", truncation_mark(rest.chars().count(), "characters"))
    } else {
        head
    }
}

/// Writes quoted lines up to a maximum number of tokens.
struct HighlightWriter<'e> {
    out: String,
    room: u64,
    estimator: &'e Estimator,
}

impl HighlightWriter<'_> {
    fn push(&mut self, text: &str) {
        let cost = self.estimator.cost(text.as_bytes());
        if cost <= self.room {
            self.out.push_str(text);
            self.room -= cost;
        }
    }

    fn push_lines(&mut self, heading: &str, lines: &[String]) {
        if !lines.is_empty() {
            self.push(&format!("{heading}:\n{}\n", lines.join("\n")));
        }
    }
}

/// Returns true if a line of a stack trace names the cause of an exception.
fn is_cause(line: &str) -> bool {
    let cause = line.trim_start().strip_prefix("Caused by: ");
    cause.is_some_and(|cause| cause.contains(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(text: &str, from: usize, token_limit: u64) -> String {
        let lined = IndexedText::new(text.as_bytes(), Form::Raw);
        let highlights = Highlights::new(&lined);
        let errors = highlights.errors_after(from);
        highlights.excerpt(from, &errors, &Estimator::default(), token_limit).unwrap()
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
    fn last_causes_of_traces_are_quoted() {
        let calls = |name: &str| {
            (0..30).map(|at| format!("\tat {name}.m{at}(A.java:1)\n")).collect::<String>()
        };
        let trace = format!(
            "java.lang.Error: x\n{}Caused by: a.Wrapped: y\n{}Caused by: b.Refused: db-7\n{}",
            calls("a"),
            calls("b"),
            calls("c")
        );
        let log = log().replace("java.lang.Error: x\n", &trace);
        let found = excerpt(&log, 100, 600);
        assert!(found.contains("(A.java:1)\n  Caused by: b.Refused: db-7 (+"), "{found}");
        assert!(!found.contains("a.Wrapped"), "{found}");
    }

    #[test]
    fn errors_come_first_with_traces_and_counts() {
        let found = excerpt(&log(), 100, 600);
        for part in [
            "1 errors, 3 warnings",
            "501: 2026-01-02 10:08:20 ERROR payment failed for BK-7\n  java.lang.Error: x\n  \tat a.b(C.java:1)",
            "WARN slow answer (x3, last in line 903)",
            "the end:",
            "1002: 2026-01-02 10:16:39 INFO booking 999 confirmed",
            "a sample between:",
        ] {
            assert!(found.contains(part), "{part} in\n{found}");
        }
        assert!(Estimator::default().cost(found.as_bytes()) <= 600);
    }

    #[test]
    fn late_messages_of_objects_are_shown() {
        let stack = "at render (/srv/app.js:1:2) ".repeat(30);
        let log: String = (0..200)
            .map(|at| match at % 10 {
                3 => format!(
                    "{{\"level\":50,\"id\":{at},\"err\":{{\"message\":\"x\",\
                     \"stack\":\"{stack}\"}},\"msg\":\"page {at} failed\"}}\n"
                ),
                _ => format!("{{\"level\":30,\"id\":{at},\"msg\":\"page {at} done, 0 errors\"}}\n"),
            })
            .collect();
        let found = excerpt(&log, 10, 600);
        assert!(found.contains("19 errors, 0 warnings (in all lines 20 and 0)"), "{found}");
        let first = "14: page 13 failed … x (20 alike in all lines)\n24: page 23 failed … x\n";
        assert!(found.contains(first), "{found}");
    }

    #[test]
    fn entries_with_the_same_words_are_counted() {
        let mut log = String::new();
        for at in 0..100 {
            let line = match at % 10 {
                3 => format!("ERROR no answer from {}-db\n", ["red", "blue"][at / 10 % 2]),
                _ => "INFO all is well\n".to_owned(),
            };
            log.push_str(&format!("2026-01-02 10:00:{:02} {line}", at % 60));
        }
        let found = excerpt(&log, 5, 600);
        assert!(
            found.contains("from blue-db (x5, last in line 94; 10 alike in all lines)"),
            "{found}"
        );
        assert!(found.contains("from red-db (x4, last in line 84; 5 in all lines)"), "{found}");
    }

    #[test]
    fn entries_with_few_other_words_are_one_group_if_not_all_fit() {
        let names = ["alpha", "beta", "gamma", "delta", "omega", "sigma", "kappa", "theta"];
        let name = |at: usize| format!("{}{}", names[at % 8], names[at / 8 % 8]);
        let log: String = (0..400)
            .map(|at| match at % 10 {
                3 => format!("ERROR no answer from the host of {} today\n", name(at)),
                7 if at == 207 => "WARN the disk is nearly full\n".to_owned(),
                7 => format!("WARN the user {} logs in from two places\n", name(at)),
                _ => "INFO all is well\n".to_owned(),
            })
            .map(|line| format!("2026-01-02 10:00:00 {line}"))
            .collect();
        let found = excerpt(&log, 20, 400);
        for part in [
            "from the host of thetagamma today (x38 similar, last in line 394; 40 in all lines)",
            "places (x37 similar, last in line 398; 39 in all lines)",
            "WARN the disk is nearly full",
        ] {
            assert!(found.contains(part), "{part} in\n{found}");
        }
        assert!(!found.contains("have no room"), "{found}");
    }

    #[test]
    fn long_sources_do_not_hide_messages() {
        let thread = "OptionalTasks-of-the-compaction-executor-with-a-long-name";
        let names = ["alpha", "beta", "gamma", "delta", "omega", "sigma", "kappa", "theta"];
        let log: String = (0..400)
            .map(|at| match at % 4 {
                3 => format!(
                    "ERROR [{thread}:{at}] 2026-01-02 10:00:00,123 Compaction.java:7 - {} {} lost\n",
                    names[at / 4 % 8],
                    names[at / 32 % 8]
                ),
                _ => format!("INFO  [{thread}:{at}] 2026-01-02 10:00:00,123 A.java:7 - done\n"),
            })
            .collect();
        let found = excerpt(&log, 20, 900);
        assert!(found.contains("ERROR … sigma alpha lost"), "{found}");
    }

    #[test]
    fn failed_tests_are_listed_with_their_names() {
        let mut output = String::from("collected 400 items\n");
        for at in 0..400 {
            let verdict = if at % 20 == 7 { "FAILED" } else { "PASSED" };
            output.push_str(&format!("shop.py::test_price[{at}] {verdict} [{}%]\n", at / 4));
        }
        for at in (7..400).step_by(20) {
            output.push_str(&format!("E   AssertionError: price {at}\nE   assert {at} == 0\n"));
        }
        for at in (7..400).step_by(20) {
            output.push_str(&format!("FAILED shop.py::test_price[{at}] - price {at}\n"));
        }
        let found = excerpt(&output, 100, 1_000);
        assert!(found.contains("20 failed tests:\n"), "{found}");
        for at in (7..400).step_by(20) {
            assert!(
                found.contains(&format!("shop.py::test_price[{at}] - price {at}\n")),
                "{found}"
            );
        }
        assert!(!found.contains("E   assert"), "{found}");
    }

    #[test]
    fn marks_count_characters() {
        assert_eq!(shortened("жжжжж".as_bytes(), 4), "жж ... [3 more characters]");
    }

    #[test]
    fn most_severe_entries_are_kept() {
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
            found.contains("more of them have no room") && found.matches(" ERROR ").count() == 10,
            "{found}"
        );
    }

    #[test]
    fn document_has_outline_and_end() {
        let text: String = (1..40).map(|at| format!("# Part {at}\n\nSome words about part {at}.\n\n## Detail {at}\n\nMore of them.\n\n")).collect();
        let wide = excerpt(&text, 20, 1_200);
        assert!(
            wide.contains("sections:\n21: ## Detail 3\n25: # Part 4\n")
                && wide.contains("More of them."),
            "{wide}"
        );
        let narrow = excerpt(&text, 20, 500);
        assert!(narrow.contains("# Part 39") && !narrow.contains("## Detail 4"), "{narrow}");
    }
}
