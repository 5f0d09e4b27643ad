//! Tables whose cells have a separator: CSV, TSV, and CSV with semicolons or vertical bars.

use super::{MAX_COLUMNS, Table};
use crate::query::value::Number;
use crate::text::log_line::LogLine;

const SIGNS: [char; 4] = ['\t', ',', ';', '|'];
/// The number of rows that determine the separator.
const SAMPLED_ROWS: usize = 50;

/// Returns the table in a text. `None` if more than a tenth of the first 50 rows have another
/// number of cells than the header. A header with a missing or repeated name needs three columns
/// and two rows, all of the same width.
pub(super) fn parse(text: &str) -> Option<Table> {
    let parse_part = |part: &str| SIGNS.into_iter().find_map(|sign| parse_with(part, sign));
    parse_part(text).or_else(|| {
        let (last, rest) = split_comments(text)?;
        // The last comment may be the header.
        parse_part(last.trim_start_matches('#').trim_start()).or_else(|| parse_part(rest))
    })
}

/// Returns the text from the last of the lines that begin with `#` on, and the text after it.
/// `None` if the text does not begin with such lines.
fn split_comments(text: &str) -> Option<(&str, &str)> {
    let mut rest = text;
    let mut last = None;
    while rest.starts_with('#') {
        last = Some(rest);
        rest = rest.split_once('\n').map_or("", |(_, after)| after);
    }
    last.map(|last| (last, rest))
}

fn parse_with(text: &str, sign: char) -> Option<Table> {
    let mut rows = Rows { rest: text, sign };
    let columns = rows.next()?;
    let width = columns.len();
    // A line that begins with a time is an entry of a log, and one with a bracket is JSON.
    let is_name = |(at, name): (usize, &String)| {
        let begins_table =
            || !name.starts_with('{') && LogLine::parse(name.as_bytes()).time.is_none();
        Number::parse_plain(name).is_none() && (at > 0 || begins_table())
    };
    if !(2..=MAX_COLUMNS).contains(&width) || !columns.iter().enumerate().all(is_name) {
        return None;
    }
    let sampled: Vec<Vec<String>> = rows.by_ref().take(SAMPLED_ROWS).collect();
    let regular = sampled.iter().filter(|row| row.len() == width).count();
    // A text that has commas by chance has different numbers of them.
    if regular * 10 < sampled.len() * 9 {
        return None;
    }
    let is_even = width > 2 && sampled.len() > 1 && regular == sampled.len();
    let is_named = columns.iter().filter(|name| !name.is_empty()).count() * 2 > width;
    let rows: Vec<Vec<String>> = sampled.into_iter().chain(rows).collect();
    let mut table = Table { columns, rows, ..Table::default() };
    // The index of a table of R or pandas has no name.
    let has_index = table.columns.first().is_some_and(String::is_empty)
        && table.columns.iter().skip(1).all(|name| !name.is_empty());
    if has_index || is_even && is_named {
        table.name_columns();
    }
    table.is_valid().then_some(table)
}

/// The rows of a text, according to RFC 4180.
struct Rows<'t> {
    rest: &'t str,
    sign: char,
}

impl Iterator for Rows<'_> {
    type Item = Vec<String>;

    fn next(&mut self) -> Option<Self::Item> {
        // Empty lines are no rows.
        self.rest = self.rest.trim_start_matches(['\r', '\n']);
        if self.rest.is_empty() {
            return None;
        }
        let mut cells = Vec::new();
        loop {
            let (cell, end) = self.cell();
            cells.push(cell);
            match end {
                Some(sign) if sign == self.sign => {}
                _ => return Some(cells),
            }
        }
    }
}

impl Rows<'_> {
    /// Reads a cell, and the separator or line end after it. The separator is `None` at the end of
    /// the text.
    fn cell(&mut self) -> (String, Option<char>) {
        let mut cell = String::new();
        let trimmed = self.rest.trim_start_matches(' ');
        if let Some(quoted) = trimmed.strip_prefix('"') {
            self.rest = quoted;
            while let Some((part, after)) = self.rest.split_once('"') {
                cell.push_str(part);
                self.rest = after;
                let Some(after) = after.strip_prefix('"') else { break };
                cell.push('"');
                self.rest = after;
            }
        }
        let end = self.rest.find([self.sign, '\n']).unwrap_or(self.rest.len());
        let (plain, after) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        cell.push_str(plain.trim());
        let sign = after.chars().next();
        self.rest = sign.and_then(|sign| after.strip_prefix(sign)).unwrap_or("");
        (cell, sign)
    }
}
