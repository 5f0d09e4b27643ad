//! Lines of a text, or values of a document, that match a regular expression. The engine runs in
//! linear time, and the searched bytes are limited.

mod alternatives;
mod command_line;
mod readings;
mod unsupported;
mod values;
mod whole_records;

use std::borrow::Cow;

use self::command_line::unwrap_pattern;
pub use self::command_line::{check_empty, search_hint};
use self::readings::{from_basic_syntax, from_glob, member_name, with_literal_signs};

use super::compiled_regex::{CompiledRegex, MAX_PATTERN_CHARS, MAX_SEARCHED_BYTES};
use super::names::join_names;
use crate::json::text::{Form, boundary};
use crate::text::lines::LineSpans;

/// Maximum number of matches in the result of a search.
const MAX_SHOWN_MATCHES: usize = 2_000;
/// The context lines for a few matches in headings and markup, whose content follows them. Each
/// entry has a maximum number of matches, and the lines before and after each match.
const FEW_LINES: [(usize, usize, usize); 2] = [(3, 2, 8), (8, 1, 3)];
/// Maximum number of context lines before, and after, a match.
const MAX_CONTEXT_LINES: u64 = 50;
/// Maximum size, in bytes, of a member or line that is shown whole as automatic context.
const MAX_MEMBER_BYTES: usize = 400;
/// Maximum size, in bytes, of a line or value that is shown whole.
const MAX_LINE_BYTES: usize = 1_000;
/// The maximum number of matches for large windows, and the bytes of such a window before and after
/// a match. A line may be a whole document.
const FEW_WINDOWS: (usize, usize) = (3, 1_000);
/// Number of bytes that are shown before and after a match in a line or value above
/// [`MAX_LINE_BYTES`].
const WINDOW_BYTES: usize = 160;
/// Maximum number of windows that are shown of one line or value.
const MAX_WINDOWS: usize = 20;

/// A compiled regular expression, with the options of its search.
#[derive(Debug)]
pub struct Pattern {
    regex: CompiledRegex,
    /// The lower-case member name with which the pattern begins, such as `status` for `"status":
    /// "failed"`. Only members of this name are searched together with their values.
    name: Option<String>,
    /// A note for the answer, if the pattern was not read literally.
    note: Option<String>,
}

/// The options of a search.
#[derive(Clone, Copy, Debug)]
pub struct SearchOptions {
    /// Number of context lines before and after a matching line, or of context members before and
    /// after a matching member. At most 50. `None` for the automatic context of few matches.
    pub context: Option<u64>,
    /// The line at which the search begins, from 1.
    pub from_line: u64,
    /// Maximum number of matching lines or values to return, never more than 2,000. 0 for the
    /// default, which is 2,000.
    pub limit: u64,
}

impl SearchOptions {
    fn max_matches(self) -> usize {
        match usize::try_from(self.limit).unwrap_or(usize::MAX) {
            0 => MAX_SHOWN_MATCHES,
            limit => limit.min(MAX_SHOWN_MATCHES),
        }
    }

    /// Returns the numbers of lines to show before and after each match, if `matches` lines match.
    fn lines_around(self, matches: usize, is_heading: bool) -> (usize, usize) {
        if let Some(context) = self.context {
            let around = usize::try_from(context.min(MAX_CONTEXT_LINES)).unwrap_or(0);
            return (around, around);
        }
        let few = FEW_LINES.iter().find(|(most, ..)| is_heading && matches <= *most);
        few.map_or((0, 0), |(_, lead, trail)| (*lead, *trail))
    }
}

/// The result of a search in a text.
pub struct FoundLines {
    /// The matching lines, numbered in the style of grep.
    pub text: Vec<u8>,
    /// The numbers of matches and of searched lines, in words.
    pub description: String,
    /// The same numbers as a JSON object.
    pub counts: String,
}

/// Returns true if a pattern has a capital letter, other than in an escape such as `\S`.
pub(in crate::query) fn has_capital(pattern: &str) -> bool {
    let mut is_escaped = false;
    pattern.chars().any(|character| {
        let counts = character.is_uppercase() && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        counts
    })
}

impl Pattern {
    /// Compiles a regular expression. If `ignore_case` is `None`, an expression without capital
    /// letters ignores case (smart case).
    ///
    /// # Errors
    /// Returns a message for the caller if the expression is invalid or too long.
    pub fn new(pattern: &str, ignore_case: Option<bool>) -> Result<Self, String> {
        let (pattern, flag) = unwrapped(pattern)?;
        Self::compile(&pattern, ignore_case.or(flag.then_some(true)), false)
    }

    /// Compiles the argument `grep`, whose `^` and `$` match at each line. Escapes characters that
    /// can only be meant literally.
    ///
    /// # Errors
    /// Returns a message for the caller if the expression is invalid or too long.
    pub fn for_search(pattern: &str, ignore_case: Option<bool>) -> Result<Self, String> {
        let (pattern, flag) = unwrapped(pattern)?;
        let ignore_case = ignore_case.or(flag.then_some(true));
        if let Some(converted) = from_glob(&pattern) {
            let note = Some(format!("stars were read as any text, as in {converted}"));
            return Ok(Self { note, ..Self::compile(&converted, ignore_case, true)? });
        }
        let Some((literal, signs)) = with_literal_signs(&pattern) else {
            return Self::compile(&pattern, ignore_case, true);
        };
        let note = Some(format!("{} was read as text", join_names(&signs, 4)));
        Ok(Self { note, ..Self::compile(&literal, ignore_case, true)? })
    }

    /// Searches with the argument `grep` and, if that finds nothing, with the pattern in the basic
    /// syntax of grep. Returns the result of `search`, and a note for the answer. The note is empty
    /// if the pattern was read as written.
    ///
    /// # Errors
    /// Returns a message for the caller if the expression is invalid or too long, or the first
    /// error of `search`.
    pub fn search<R>(
        pattern: &str,
        ignore_case: Option<bool>,
        mut search: impl FnMut(&Self) -> Result<R, String>,
        is_empty: impl Fn(&R) -> bool,
    ) -> Result<(R, String), String> {
        let plain = Self::for_search(pattern, ignore_case)?;
        let found = search(&plain)?;
        let note = plain.note.map_or_else(String::new, |note| format!("; {note}"));
        if !is_empty(&found) {
            return Ok((found, note));
        }
        let (text, flag) = unwrapped(pattern)?;
        let basic = from_basic_syntax(&text).and_then(|text| {
            let basic = Self::compile(&text, ignore_case.or(flag.then_some(true)), true).ok()?;
            Some((basic, text))
        });
        if let Some((basic, text)) = basic {
            let other = search(&basic)?;
            if !is_empty(&other) {
                let note = format!("; read in the basic syntax of grep, as {text}");
                return Ok((other, note));
            }
        }
        Ok((found, note))
    }

    fn compile(pattern: &str, ignore_case: Option<bool>, by_line: bool) -> Result<Self, String> {
        let ignore_case =
            ignore_case.unwrap_or_else(|| !has_capital(pattern) || pattern.starts_with("(?i)"));
        if let Some(class) = unsupported::bare_class(pattern) {
            return Err(format!("grep has classes in brackets only: write [{class}] for {class}"));
        }
        if let Some(letter) = unsupported::bounded_letter(pattern) {
            return Err(format!(
                "grep {pattern:?}: \\b, and the option -w, know no letters such as {letter}; write grep: {}",
                pattern.replace("\\b", "")
            ));
        }
        let compiled = CompiledRegex::new(pattern, ignore_case, by_line).map_err(|error| {
            unsupported::explain(pattern).map_or_else(
                || format!("grep {pattern:?} is no regular expression: {error}; put a backslash before signs such as ( [ * that are meant as text"),
                |reason| format!("grep cannot search {pattern:?}: {reason}"),
            )
        })?;
        Ok(Self { regex: compiled, name: member_name(pattern), note: None })
    }

    /// Returns the maximum number of bytes that one search with this pattern may read.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.regex.max_bytes
    }

    /// Returns the maximum number of bytes that an engine of regular expressions may read, also if
    /// the pattern is a plain text.
    #[cfg(feature = "jq")]
    pub(super) fn max_engine_bytes(&self) -> usize {
        self.regex.max_engine_bytes
    }

    /// Returns true if the text matches.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Returns the lines of a text that match, with `context` lines around each, and the counts.
    /// Lines are numbered in the style of grep: `12:` is a match, `13-` is context. Searches at
    /// most [`Pattern::max_bytes`]. The description says how to search the rest.
    #[must_use]
    pub fn search_text(&self, text: &[u8], options: SearchOptions) -> FoundLines {
        let before = usize::try_from(options.from_line.saturating_sub(1)).unwrap_or(usize::MAX);
        let start = LineSpans::new(text, Form::Raw).take(before).last().map_or(0, |line| line.end);
        let text = text.get(start..).unwrap_or_default();
        let searched = boundary(text, self.max_bytes(), Form::Raw);
        let head = text.get(..searched).unwrap_or(text);
        let lines: Vec<&[u8]> = LineSpans::new(head, Form::Raw)
            .map(|line| without_ending(head.get(line).unwrap_or_default()))
            .collect();
        let matches: Vec<usize> = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| self.regex.is_match(&String::from_utf8_lossy(line)))
            .map(|(at, _)| at)
            .collect();
        let max_matches = options.max_matches();
        let is_markup = text.trim_ascii_start().starts_with(b"<");
        let mut out = Vec::new();
        let mut next = 0;
        for (number, at) in matches.iter().take(max_matches).enumerate() {
            let is_heading = is_markup || is_heading(&lines, *at);
            let (lead, trail) = options.lines_around(matches.len(), is_heading);
            let from = at.saturating_sub(lead).max(next);
            if number > 0 && trail > 0 && from > next {
                out.extend_from_slice(b"--\n");
            }
            // The context of a match ends where the next match begins, so no line is shown twice.
            let until = matches.get(number + 1).map_or(usize::MAX, |next| *next);
            for line in from..(at + trail + 1).min(until).min(lines.len()) {
                let text = String::from_utf8_lossy(lines.get(line).copied().unwrap_or_default());
                let text = if line == *at {
                    format!("{}:{}", before + line + 1, self.show(&text, matches.len()))
                } else {
                    let most =
                        if options.context.is_some() { MAX_LINE_BYTES } else { MAX_MEMBER_BYTES };
                    let end = boundary(text.as_bytes(), most, Form::Raw);
                    let more = if end < text.len() { " \u{2026}" } else { "" };
                    let head = text.get(..end).unwrap_or(&text);
                    format!("{}-{head}{more}", before + line + 1)
                };
                out.extend_from_slice(text.as_bytes());
                out.push(b'\n');
                next = line + 1;
            }
        }
        let count = |line: &usize| {
            let line = String::from_utf8_lossy(lines.get(*line).copied().unwrap_or_default());
            self.regex.find_iter(&line).take(lines.len().max(MAX_SEARCHED_BYTES)).count()
        };
        let total: usize = matches.iter().map(count).sum();
        let mut what = format!("{} matching lines of {}", matches.len(), lines.len());
        if total > matches.len() {
            what.push_str(&format!(", with {total} matches"));
        }
        let found = matches.iter().filter_map(|at| lines.get(*at).copied());
        if let Some(counts) = alternatives::counts(self.regex.regex(), found) {
            what.push_str(&format!(" ({counts})"));
        }
        if matches.len() > max_matches {
            what.push_str(&format!(", the first {max_matches} shown"));
        }
        let is_complete = searched >= text.len();
        let is_cut = lines.len() == 1 && !head.ends_with(b"\n");
        if !is_complete && is_cut {
            what.push_str(&format!(
                "; only the first {searched} bytes of line {} were searched: search for a plain text, which is found anywhere",
                before + 1
            ));
            if memchr::memchr(b'\n', text).is_some() {
                what.push_str(&format!(
                    ", and for the lines after it give startLine {}",
                    before + 2
                ));
            }
        } else if !is_complete {
            what.push_str(&format!(
                "; only so far was searched: for the rest give startLine {}",
                before + lines.len().max(2)
            ));
        }
        let counts = format!(
            "{{\"lines\":{},\"matching lines\":{},\"matches\":{total},\"complete\":{is_complete}}}",
            lines.len(),
            matches.len()
        );
        FoundLines { text: out, description: what, counts }
    }

    /// Returns a matching text for the answer: whole, or windows around its matches. The windows
    /// are larger if `matches`, the number of matching texts, is small.
    fn show(&self, text: &str, matches: usize) -> String {
        if text.len() <= MAX_LINE_BYTES {
            return text.to_owned();
        }
        let found = self.regex.find_iter(text).take(FEW_WINDOWS.0 + 1).count();
        let is_few = matches.saturating_mul(found) <= FEW_WINDOWS.0;
        let around = if is_few { FEW_WINDOWS.1 } else { WINDOW_BYTES };
        let mut windows: Vec<(usize, usize, usize)> = Vec::new();
        let mut count = 0usize;
        for found in self.regex.find_iter(text) {
            count += 1;
            let from = floor_boundary(text, found.start.saturating_sub(around));
            let end = found.end.min(found.start + MAX_LINE_BYTES);
            let until = floor_boundary(text, end.saturating_add(around).min(text.len()));
            if let Some((_, last, _)) = windows.last_mut().filter(|(_, last, _)| from <= *last) {
                *last = until.max(*last);
            } else if windows.len() < MAX_WINDOWS {
                windows.push((from, until, found.start));
            }
        }
        let parts = windows.iter().map(|(from, until, at)| {
            let before = if *from > 0 { "\u{2026}" } else { "" };
            let after = if *until < text.len() { "\u{2026}" } else { "" };
            // A long run of matches is one window.
            let until = (*until).min(floor_boundary(text, from + 4 * MAX_LINE_BYTES));
            let part = text.get(*from..until).unwrap_or_default();
            format!("[byte {at} of {}] {before}{part}{after}", text.len())
        });
        let mut shown = parts.collect::<Vec<_>>().join(" ");
        if count > 1 && windows.len() == MAX_WINDOWS {
            shown.push_str(&format!(" [{count} matches in this line]"));
        }
        shown
    }
}

/// Returns the pattern inside a command line, and true if the command ignores case.
fn unwrapped(pattern: &str) -> Result<(Cow<'_, str>, bool), String> {
    if pattern.is_empty() || pattern.chars().nth(MAX_PATTERN_CHARS).is_some() {
        return Err(format!(
            "grep takes a regular expression of 1 to {MAX_PATTERN_CHARS} characters"
        ));
    }
    Ok(unwrap_pattern(pattern)?.unwrap_or((Cow::Borrowed(pattern), false)))
}

/// Returns the largest character boundary of a text that is at most `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Returns true if a line is a heading of Markdown: it begins with `#`, or is underlined.
fn is_heading(lines: &[&[u8]], at: usize) -> bool {
    let line = lines.get(at).copied().unwrap_or_default();
    let below = lines.get(at + 1).copied().unwrap_or_default().trim_ascii();
    let is_rule = |sign: u8| below.len() >= 3 && below.iter().all(|byte| *byte == sign);
    line.starts_with(b"#") || (!line.is_empty() && (is_rule(b'=') || is_rule(b'-')))
}

/// Returns a line without its line ending.
fn without_ending(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: SearchOptions = SearchOptions { context: None, from_line: 1, limit: 0 };

    fn search(pattern: &str, text: &[u8], context: u64, from_line: u64) -> FoundLines {
        let context = Some(context).filter(|context| *context > 0);
        let options = SearchOptions { context, from_line, limit: 0 };
        Pattern::new(pattern, None).unwrap().search_text(text, options)
    }

    #[test]
    fn matching_lines_have_numbers_and_context() {
        let text = b"one\ntwo\nERROR three\nfour\nfive\nsix\nERROR seven\n";
        let grep = |context| {
            let found = search("ERR.R", text, context, 1);
            (String::from_utf8(found.text).unwrap(), found.description)
        };
        assert_eq!(
            grep(0),
            ("3:ERROR three\n7:ERROR seven\n".to_owned(), "2 matching lines of 7".to_owned())
        );
        // Few headings and tags show what comes after them unasked.
        let found = |text: &str| {
            let found = search("two", text.as_bytes(), 0, 1).text;
            String::from_utf8(found).unwrap()
        };
        assert_eq!(found("one\n# two\nthree\n"), "1-one\n2:# two\n3-three\n");
        assert_eq!(found("one\ntwo\n---\nthree\n"), "1-one\n2:two\n3----\n4-three\n");
        assert_eq!(found("<td>two</td>\n<td>3</td>\n"), "1:<td>two</td>\n2-<td>3</td>\n");
        assert_eq!(found(&"# two\nx\n".repeat(9)).matches("-x").count(), 0);
        assert_eq!(grep(1).0, "2-two\n3:ERROR three\n4-four\n--\n6-six\n7:ERROR seven\n");
        assert_eq!(
            grep(2).0,
            "1-one\n2-two\n3:ERROR three\n4-four\n5-five\n6-six\n7:ERROR seven\n"
        );
    }

    #[test]
    fn length_of_patterns_is_counted_in_characters() {
        for pattern in ["ж".repeat(1_000), "a".repeat(1_000)] {
            assert!(Pattern::for_search(&pattern, None).is_ok(), "{pattern:.8}");
            assert!(Pattern::for_search(&(pattern + "a"), None).is_err());
        }
    }

    #[test]
    fn slow_patterns_search_in_parts() {
        let text = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n".repeat(20_000) + "aab\n";
        let slow = "(a?){60}(a|b|c){60}z";
        let found = search(slow, text.as_bytes(), 0, 1);
        let what = found.description;
        let next: u64 = what.split("startLine ").nth(1).unwrap().parse().unwrap();
        assert!(found.text.is_empty() && next > 1_000 && next < 20_000, "{what}");
        let what = search(slow, text.as_bytes(), 0, next).description;
        assert!(what.split("startLine ").nth(1).unwrap().parse::<u64>().unwrap() > next, "{what}");
        // A line beyond the limit is searched in part. A plain text is found anywhere.
        let line = b"a".repeat(600_000);
        let what = search(slow, &line, 0, 1).description;
        assert!(what.contains("bytes of line 1") && !what.contains("startLine"), "{what}");
        let what = search(slow, &[&line[..], b"\nb\n"].concat(), 0, 1).description;
        assert!(what.ends_with("startLine 2"), "{what}");
        let long = ["a ".repeat(5 << 20), "needle".to_owned()].concat();
        let found = search("Needle|needle", long.as_bytes(), 0, 1);
        assert_eq!(found.description, "1 matching lines of 1");
        assert_eq!(search("b$", text.as_bytes(), 0, 20_001).text, b"20001:aab\n");
    }

    #[test]
    fn long_lines_are_searched_whole() {
        let line = format!(
            "{}needle one{}needle two{}",
            "x".repeat(11_256),
            "y".repeat(5_000),
            "z".repeat(3_000)
        );
        let found = search("needle", format!("short\n{line}\n").as_bytes(), 0, 1);
        let text = String::from_utf8(found.text).unwrap();
        assert!(text.starts_with("2:[byte 11256 of 19276] \u{2026}xxx"), "{text}");
        assert!(text.contains("needle one") && text.contains("needle two"), "{text}");
        assert!(text.len() < 4_200, "{}", text.len());
        // Of more matches, less is shown around each.
        let pages = format!("{line}\n").repeat(3);
        assert!(search("needle", pages.as_bytes(), 0, 1).text.len() < 3_000);
        assert_eq!(found.description, "1 matching lines of 2, with 2 matches");
    }

    #[test]
    fn lower_case_matches_any_case() {
        let count = |pattern: &str, ignore_case| {
            let found = Pattern::new(pattern, ignore_case).unwrap();
            let found = found.search_text(b"WARN a\nwarn b\nWarn c\n", ALL).text;
            let lines = found.split(|byte| *byte == b'\n');
            lines.filter(|line| line.get(1) == Some(&b':')).count()
        };
        assert_eq!(count("warn", None), 3);
        assert_eq!(count("WARN", None), 1);
        assert_eq!(count("warn\\S*", None), 3);
        assert_eq!(count("warn", Some(false)), 1);
        assert_eq!(count("WARN", Some(true)), 3);
        assert_eq!(count("/WARN/i", None), 3);
        assert_eq!(count("-i WARN", None), 3);
    }

    #[test]
    fn limit_applies_to_matches() {
        let options = SearchOptions { limit: 2, ..ALL };
        let found = Pattern::new("a", None).unwrap().search_text(b"a\na\na\n", options);
        assert_eq!(found.text, b"1:a\n2:a\n");
        assert_eq!(found.description, "3 matching lines of 3, the first 2 shown");
    }

    #[test]
    fn invalid_patterns_are_rejected() {
        assert!(
            Pattern::new("(", None).is_err()
                && Pattern::new("", None).is_err()
                && Pattern::new("(a{1000}){1000}", None).is_err()
        );
    }
}
