//! Tables whose columns are aligned by spaces: the output of `ps`, `top`, `df`, `kubectl get`,
//! `docker ps` and the like.
//!
//! A column is where the header has a name, between positions at which header and rows have spaces.
//! A row whose long cell is in such a position is read by its words instead. If that leaves a
//! doubt, the text is no table: a cell is never read as that of another column.

use std::ops::Range;

use super::Table;

/// The maximum size of a text, in bytes.
const MAX_BYTES: usize = 4 << 20;
/// The maximum number of lines: the memory of a query is limited.
const MAX_LINES: usize = 100_000;
/// The maximum number of lines before the header in its block.
const MAX_TITLES: usize = 2;
/// The share of rows that may have a long cell between two columns, as a divisor.
const LONG_CELLS: usize = 32;
/// The minimum number of rows if columns are at least two spaces apart, and if not: single spaces
/// may be in the same place by chance.
const MIN_ROWS: usize = 2;
const MIN_CLOSE_ROWS: usize = 6;
/// The maximum length of the name of a column, in characters.
const MAX_NAME_CHARS: usize = 32;

/// Returns the table in a text. None if no block of lines that makes up most of it is one. O(text).
pub(super) fn parse(text: &str) -> Option<Table> {
    if text.len() > MAX_BYTES || text.contains('\t') || text.lines().nth(MAX_LINES).is_some() {
        return None;
    }
    let is_blank = |line: &&str| line.trim().is_empty();
    let lines: Vec<&str> = text.lines().collect();
    let block = lines.split(is_blank).max_by_key(|block| block.len())?;
    let filled = lines.iter().filter(|line| !is_blank(line)).count();
    if block.len() * 2 <= filled {
        return None;
    }
    (0..=MAX_TITLES).find_map(|titles| parse_block(block.get(titles..)?))
}

/// Returns the table that begins with its header.
fn parse_block(lines: &[&str]) -> Option<Table> {
    let (header, rows) = lines.split_first()?;
    let is_rule = |line: &&&str| !line.chars().any(|sign| !matches!(sign, '-' | '=' | ' '));
    let rows = if rows.first().is_some_and(|row| is_rule(&row)) { rows.get(1..)? } else { rows };
    if rows.len() < MIN_ROWS || !header.chars().any(char::is_alphabetic) {
        return None;
    }
    by_position(header, rows).or_else(|| by_words(header, rows))
}

/// Reads cells by the positions of their columns.
fn by_position(header: &str, rows: &[&str]) -> Option<Table> {
    let header: Vec<char> = header.trim_end().chars().collect();
    let rows: Vec<Vec<char>> = rows.iter().map(|row| row.trim_end().chars().collect()).collect();
    let mut used = vec![0; header.len()];
    for row in &rows {
        for (count, sign) in used.iter_mut().zip(row) {
            *count += usize::from(*sign != ' ');
        }
    }
    let is_gap: Vec<bool> = header
        .iter()
        .zip(&used)
        .map(|(sign, used)| *sign == ' ' && *used * LONG_CELLS <= rows.len())
        .collect();
    let columns = column_ranges(&is_gap, &used);
    let mut pairs = columns.iter().zip(columns.iter().skip(1));
    let is_close = pairs.any(|(column, next)| next.start - column.end == 1);
    if columns.len() < 2 || is_close && rows.len() < MIN_CLOSE_ROWS {
        return None;
    }
    let names: Vec<String> = columns.iter().map(|range| cell(&header, range)).collect();
    if !names.iter().all(|name| is_name(name)) {
        return None;
    }
    let last = columns.len() - 1;
    let mut table = Table { columns: names, rows: Vec::with_capacity(rows.len()) };
    for row in &rows {
        let is_regular = row.iter().zip(&is_gap).all(|(sign, is_gap)| !is_gap || *sign == ' ');
        let cells = if is_regular {
            let ends = columns.iter().map(|column| column.end).take(last).chain([row.len()]);
            let ranges = columns.iter().map(|column| column.start).zip(ends);
            ranges.map(|(start, end)| cell(row, &(start..end))).collect()
        } else {
            let row: String = row.iter().collect();
            words(&row, last + 1)?
        };
        table.rows.push(cells);
    }
    // Two columns whose long cells leave no gap look like one with a name of two words.
    let is_joined = |(at, name): (usize, &String)| {
        let cells = table.rows.iter().filter_map(|row| row.get(at));
        let several = cells.filter(|cell| cell.contains(' ')).count();
        at < last && name.contains(' ') && several * 2 > table.rows.len()
    };
    let is_joined = table.columns.iter().enumerate().any(is_joined);
    (table.is_valid() && !is_joined).then_some(table)
}

/// Reads cells by their words: all but the last column have cells of one word. Only for headers in
/// capital letters, as those of `ps`.
fn by_words(header: &str, rows: &[&str]) -> Option<Table> {
    const MIN_COLUMNS: usize = 4;
    let columns: Vec<String> = header.split_whitespace().map(str::to_owned).collect();
    let is_capital = |name: &String| is_name(name) && !name.chars().any(char::is_lowercase);
    if columns.len() < MIN_COLUMNS || !columns.iter().all(is_capital) {
        return None;
    }
    let rows: Option<Vec<_>> = rows.iter().map(|row| words_and_rest(row, columns.len())).collect();
    let table = Table { columns, rows: rows? };
    table.is_valid().then_some(table)
}

/// Returns the ranges of positions between gaps. The last one may go on. A word of the header under
/// which no row has a cell, as `ID` in `CONTAINER ID`, belongs to the word before it.
fn column_ranges(is_gap: &[bool], used: &[usize]) -> Vec<Range<usize>> {
    let mut columns: Vec<Range<usize>> = Vec::new();
    for (at, _) in is_gap.iter().enumerate().filter(|(_, is_gap)| !**is_gap) {
        match columns.last_mut().filter(|column| column.end == at) {
            Some(column) => column.end = at + 1,
            None => columns.push(at..at + 1),
        }
    }
    let is_empty = |column: &Range<usize>| {
        used.get(column.clone()).is_some_and(|used| used.iter().all(|count| *count == 0))
    };
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(columns.len());
    for column in columns {
        match joined.last_mut().filter(|last| last.end + 1 == column.start && is_empty(&column)) {
            Some(last) => last.end = column.end,
            None => joined.push(column),
        }
    }
    joined
}

fn cell(line: &[char], range: &Range<usize>) -> String {
    let signs = line.get(range.start..range.end.min(line.len())).unwrap_or_default();
    signs.iter().collect::<String>().trim().to_owned()
}

/// Returns true if a text can be the name of a column, and is no part of a sentence or a value.
fn is_name(name: &str) -> bool {
    name.chars().count() <= MAX_NAME_CHARS
        && name.chars().any(|sign| sign.is_alphabetic() || matches!(sign, '%' | '#'))
        && !name.starts_with(|sign: char| sign.is_ascii_digit() && !name.starts_with("1K-"))
        && (name == "#"
            || !name.starts_with(['#', '-', '*', '+', '>', '|', '/', '@', '$', '[', '(']))
        && !name.ends_with(['.', ',', ':', ';', '!', '?', '{', '('])
        && !name.contains(['"', '=', '<', '>'])
}

/// Returns the cells of a row if its words are as many: those between several spaces, or all.
fn words(row: &str, count: usize) -> Option<Vec<String>> {
    let wide: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let found = if wide.len() == count { wide } else { row.split_whitespace().collect() };
    (found.len() == count).then(|| found.into_iter().map(str::to_owned).collect())
}

/// Returns `count` cells: the first words of a row, and its rest.
fn words_and_rest(row: &str, count: usize) -> Option<Vec<String>> {
    let (mut cells, mut rest) = (Vec::with_capacity(count), row.trim());
    while cells.len() + 1 < count {
        let (word, after) = rest.split_once(' ')?;
        cells.push(word.to_owned());
        rest = after.trim_start();
    }
    cells.push(rest.to_owned());
    (!rest.is_empty()).then_some(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<String> {
        let Some(table) = parse(text) else { return Vec::new() };
        let rows = std::iter::once(&table.columns).chain(&table.rows);
        rows.map(|cells| cells.join("|")).collect()
    }

    #[test]
    fn outputs_of_commands_are_tables() {
        let pods = "NAME        READY   STATUS             RESTARTS      AGE\n\
                    web-1       1/1     Running            0             5d\n\
                    web-2       0/1     CrashLoopBackOff   12 (3m ago)   5d\n";
        let expected = [
            "NAME|READY|STATUS|RESTARTS|AGE",
            "web-1|1/1|Running|0|5d",
            "web-2|0/1|CrashLoopBackOff|12 (3m ago)|5d",
        ];
        assert_eq!(rows(pods), expected);
        let images = "CONTAINER ID   IMAGE     COMMAND   PORTS\n\
                      4cf1a2         nginx     \"run\"     80/tcp\n\
                      9ab3c4         redis     \"serve\"\n";
        let expected = [
            "CONTAINER ID|IMAGE|COMMAND|PORTS",
            "4cf1a2|nginx|\"run\"|80/tcp",
            "9ab3c4|redis|\"serve\"|",
        ];
        assert_eq!(rows(images), expected);
        let packages =
            "Package    Version\n---------- -------\ncertifi    2024.2\nidna       3.6\n";
        assert_eq!(rows(packages), ["Package|Version", "certifi|2024.2", "idna|3.6"]);
        let disks = "Filesystem     1K-blocks     Used Available Use% Mounted on\n\
                     /dev/vda1       82043328 41021664  36807812  53% /\n\
                     tmpfs            8123456        0   8123456   0% /dev/shm\n\
                     tmpfs            1624692     1234   1623458   1% /run\n\
                     /dev/vda2         523248     6220    517028   2% /boot/efi\n\
                     tmpfs            1624688       16   1624672   1% /run/user/0\n\
                     overlay         82043328 41021664  36807812  53% /var/lib/a b\n";
        let found = rows(disks);
        assert_eq!(
            found.first().map(String::as_str),
            Some("Filesystem|1K-blocks|Used|Available|Use%|Mounted on")
        );
        assert_eq!(
            found.last().map(String::as_str),
            Some("overlay|82043328|41021664|36807812|53%|/var/lib/a b")
        );
    }

    #[test]
    fn long_cells_are_read_by_words_or_not_at_all() {
        let line = |user: &str, size: &str| format!("{user:<8} {size:>6}   0.1 run --all\n");
        let mut text = "USER        VSZ  %CPU COMMAND\n".to_owned();
        for at in 0..40 {
            text += &line("root", &at.to_string());
        }
        let long = text.clone() + &line("systemd-network", "12345678");
        assert_eq!(
            rows(&long).last().map(String::as_str),
            Some("systemd-network|12345678|0.1|run --all")
        );
        assert_eq!(rows(&text).len(), 41);
        let doubtful = text.replace("USER ", "User ") + "a b c 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5\n";
        assert!(rows(&doubtful).is_empty(), "{:?}", rows(&doubtful));
    }

    #[test]
    fn other_texts_are_no_tables() {
        for text in [
            "The first line of a paragraph\nis followed by the second one,\nand that by the third.\n",
            "Dear all,\n\nthis is a letter of some lines\nthat says nothing at all\nbut goes on\n",
            "2024-05-01 10:00:00 INFO  start\n2024-05-01 10:00:01 WARN  slow\n2024-05-01 10:00:02 INFO  end\n",
            "fn main() {\n    let a   = 1;\n    let bcd = 2;\n}\n",
            "apiVersion: v1\nkind:       Pod\nname:       web\n",
            "- one  is a point\n- two  is a point\n- six  is a point\n",
            "a\nb\nc\n",
            "",
        ] {
            assert!(rows(text).is_empty(), "{text}: {:?}", rows(text));
        }
    }
}
