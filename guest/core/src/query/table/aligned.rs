//! Tables whose columns are aligned by spaces, such as the output of `ps`, `top`, `df`, `kubectl
//! get` and `docker ps`.
//!
//! A column has a name in the header, and lies between positions at which header and rows have
//! spaces. If a long cell of a row extends into such a position, the row is split by words instead.
//! If the result is ambiguous, the text is not a table: a cell is never assigned to another column.

use std::ops::Range;

use super::Table;

/// The maximum size of a text, in bytes.
const MAX_BYTES: usize = 4 << 20;
/// The maximum number of lines, which limits the memory of a query.
const MAX_LINES: usize = 100_000;
/// The maximum number of lines before the header in a block of lines.
const MAX_TITLES: usize = 2;
/// The maximum share of rows with a cell that extends into the gap after its column, as a divisor.
const LONG_CELLS: usize = 32;
/// The minimum number of rows if columns are at least two spaces apart.
const MIN_ROWS: usize = 2;
/// The minimum number of rows if columns are closer: single spaces may align by chance.
const MIN_CLOSE_ROWS: usize = 6;
/// The maximum length of the name of a column, in characters.
const MAX_NAME_CHARS: usize = 32;

/// Returns the table in a text. `None` unless a block of lines that makes up most of the text is a
/// table. O(text).
pub(super) fn parse(text: &str) -> Option<Table> {
    let is_small = text.len() <= MAX_BYTES && text.lines().nth(MAX_LINES).is_none();
    if !is_small || text.chars().any(|sign| sign == '\t' || has_other_width(sign)) {
        return None;
    }
    let is_blank = |line: &&str| line.trim().is_empty();
    let lines: Vec<&str> = text.lines().collect();
    let block = lines.split(is_blank).max_by_key(|block| block.len())?;
    let filled = lines.iter().filter(|line| !is_blank(line)).count();
    if block.len() * 2 <= filled {
        return None;
    }
    // A title may have gaps in the places of some columns, but the header names most.
    let tables = (0..=MAX_TITLES).filter_map(|titles| parse_block(block.get(titles..)?));
    tables.reduce(|best, next| if next.columns.len() > best.columns.len() { next } else { best })
}

/// Returns true if a character may be wider or narrower than one column, because programs align by
/// width.
fn has_other_width(sign: char) -> bool {
    // Marks that combine with the letter before; scripts with wide signs. Between them are
    // punctuation, arrows and shapes.
    matches!(sign, '\u{300}'..='\u{36F}' | '\u{1100}'..='\u{1FFF}' | '\u{2C00}'..)
}

/// Parses a block of lines that begins with the header of a table. `None` if it is not a table.
fn parse_block(lines: &[&str]) -> Option<Table> {
    // A rare cell of several words, such as `1 (2d ago)`, is no long cell if a gap follows it in
    // all rows.
    parse_with(lines, usize::MAX).or_else(|| parse_with(lines, LONG_CELLS))
}

/// Parses a block of lines like [`parse_block`]. `long_cells` is the maximum share of rows with a
/// cell that extends into the gap after its column, as a divisor.
fn parse_with(lines: &[&str], long_cells: usize) -> Option<Table> {
    let (header, rows) = lines.split_first()?;
    let is_rule = |line: &&str| line.chars().all(|sign| matches!(sign, '-' | '=' | ' '));
    let is_ruled = rows.first().is_some_and(is_rule);
    let rows = if is_ruled { rows.get(1..)? } else { rows };
    if rows.len() < MIN_ROWS {
        return None;
    }
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
        .map(|(sign, used)| *sign == ' ' && used.saturating_mul(long_cells) <= rows.len())
        .collect();
    let columns = column_ranges(&header, &is_gap, &used);
    let mut pairs = columns.iter().zip(columns.iter().skip(1));
    let is_close = pairs.any(|(column, next)| next.start - column.end == 1);
    if columns.len() < 2 || is_close && rows.len() < MIN_CLOSE_ROWS {
        return None;
    }
    let names: Vec<String> = columns.iter().map(|range| cell(&header, range)).collect();
    if !names.iter().all(|name| is_name(name)) {
        return None;
    }
    let regular: Vec<Option<Vec<String>>> =
        rows.iter().map(|row| regular_cells(row, &columns, &is_gap)).collect();
    // A title is followed by the header, which is no regular row below it.
    regular.first()?.as_ref()?;
    let is_word = |cell: &String| !cell.is_empty() && !cell.contains(' ');
    let mut cells = regular.iter().flatten().flat_map(|row| row.iter().take(columns.len() - 1));
    let are_words = cells.all(is_word);
    let rows = regular.into_iter().zip(&rows).map(|(cells, row)| {
        let by_words = || words(row, &columns).filter(|_| are_words);
        cells.or_else(by_words)
    });
    let table = Table { columns: names, rows: rows.collect::<Option<_>>()?, ..Table::default() };
    (table.is_valid() && !table.has_joined_columns() && (is_ruled || table.has_unlike_header()))
        .then_some(table)
}

impl Table {
    /// Returns true if two columns seem to be joined into one with a name of two words, because
    /// their long cells leave no gap.
    fn has_joined_columns(&self) -> bool {
        let last = self.columns.len().saturating_sub(1);
        let is_joined = |(at, name): (usize, &String)| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            let several = cells.filter(|cell| cell.contains(' ')).count();
            name.contains(' ') && several * 2 > self.rows.len()
        };
        self.columns.iter().enumerate().take(last).any(is_joined)
    }

    /// Returns true if the header differs from the rows: it is in capitals, or names columns of
    /// numbers. In a list without a header, the first row resembles the others.
    fn has_unlike_header(&self) -> bool {
        let is_capital = |name: &String| !name.chars().any(char::is_lowercase);
        let has_numbers = |at: usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(at));
            cells.all(|cell| cell.starts_with(|sign: char| sign.is_ascii_digit()))
        };
        let has_numbers = (0..self.columns.len()).any(has_numbers);
        let rows_are_capital =
            self.rows.iter().flatten().all(|cell| !cell.chars().any(char::is_lowercase));
        has_numbers || self.columns.iter().all(is_capital) && !rows_are_capital
    }
}

/// Returns the cells at the positions of their columns. `None` if a cell extends into a gap, or
/// seems to be two cells.
fn regular_cells(row: &[char], columns: &[Range<usize>], is_gap: &[bool]) -> Option<Vec<String>> {
    if row.iter().zip(is_gap).any(|(sign, is_gap)| *is_gap && *sign != ' ') {
        return None;
    }
    let last = columns.len().checked_sub(1)?;
    let ends = columns.iter().map(|column| column.end).take(last).chain([row.len()]);
    let ranges = columns.iter().map(|column| column.start).zip(ends);
    let cells: Vec<String> = ranges.map(|(start, end)| cell(row, &(start..end))).collect();
    let is_single = !cells.iter().take(last).any(|cell| cell.contains("  "));
    is_single.then_some(cells)
}

/// Returns the ranges of positions between gaps. The last range may extend further.
///
/// A header word without cells below it belongs to the word before it, such as `ID` in `CONTAINER
/// ID`. Words of cells below no header word belong to the column before them, as in `2 hours ago`,
/// if the next column is further away.
fn column_ranges(header: &[char], is_gap: &[bool], used: &[usize]) -> Vec<Range<usize>> {
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
    let starts: Vec<usize> = columns.iter().map(|column| column.start).skip(1).collect();
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(columns.len());
    for (at, column) in columns.into_iter().enumerate() {
        let is_nameless = cell(header, &column).is_empty();
        let is_far = starts.get(at).is_none_or(|next| next - column.end > 1)
            || starts.get(at).is_some_and(|next| {
                // Further words of the same cell.
                header.get(*next).is_some_and(|sign| *sign == ' ')
            });
        let belongs = is_empty(&column) || is_nameless && is_far;
        match joined.last_mut().filter(|last| last.end + 1 == column.start && belongs) {
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

/// Returns true if a text can be the name of a column, not a part of a sentence or a value.
fn is_name(name: &str) -> bool {
    name.chars().count() <= MAX_NAME_CHARS
        && !name.contains("  ")
        && name.chars().any(|sign| sign.is_alphabetic() || matches!(sign, '%' | '#'))
        && !name.starts_with(|sign: char| sign.is_ascii_digit() && !name.starts_with("1K-"))
        && (name == "#"
            || !name.starts_with(['#', '-', '*', '+', '>', '|', '/', '@', '$', '[', '(']))
        && !name.ends_with(['.', ',', ':', ';', '!', '?', '{', '('])
        && !name.contains(['"', '=', '<', '>'])
}

/// Returns the first words of a row as cells, and the rest as its last cell. `None` if a word
/// starts before its column, because long cells move later ones to the right only.
fn words(row: &[char], columns: &[Range<usize>]) -> Option<Vec<String>> {
    let mut cells: Vec<String> = Vec::with_capacity(columns.len());
    let is_space = |at: usize| row.get(at).is_some_and(|sign| *sign == ' ');
    let mut at = 0;
    for (number, column) in columns.iter().enumerate() {
        at += (at..row.len()).take_while(|at| is_space(*at)).count();
        let is_last = number + 1 == columns.len();
        let length = (at..row.len()).take_while(|at| is_last || !is_space(*at)).count();
        let word = at..at + length;
        if word.end <= column.start || length == 0 {
            return None;
        }
        cells.push(cell(row, &word));
        at = word.end;
    }
    Some(cells)
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
    fn rare_cells_of_several_words_have_a_gap_after_them() {
        let row = |at: usize| {
            let restarts = if at == 7 { "1 (2d ago)" } else { "0" };
            format!("pod-{at:<4}   Running   {restarts:<14}  {at}d\n")
        };
        let pods: String = (0..80).map(row).collect();
        let found = rows(&format!("NAME       STATUS    RESTARTS        AGE\n{pods}"));
        assert_eq!(found.len(), 81, "{found:?}");
        assert_eq!(found[8], "pod-7|Running|1 (2d ago)|7d");
    }

    #[test]
    fn cells_of_several_words_belong_to_one_column() {
        let containers = "CONTAINER ID   IMAGE     CREATED       STATUS       NAMES\n\
                          4cf1a2b3c4d5   nginx     2 hours ago   Up 2 hours   web\n\
                          9ab3c4d5e6f7   redis     2 hours ago   Up 2 hours   store\n";
        let expected = [
            "CONTAINER ID|IMAGE|CREATED|STATUS|NAMES",
            "4cf1a2b3c4d5|nginx|2 hours ago|Up 2 hours|web",
            "9ab3c4d5e6f7|redis|2 hours ago|Up 2 hours|store",
        ];
        assert_eq!(rows(containers), expected);
        // A sign before one row moves its words.
        let mut units = "  UNIT             LOAD   ACTIVE SUB     DESCRIPTION\n".to_owned();
        for at in 10..50 {
            units += &format!("  unit{at}.service   loaded active running A unit\n");
        }
        assert_eq!(rows(&units).len(), 41);
        units += "\u{25CF} nginx.service    loaded failed failed  A high\n";
        assert!(rows(&units).is_empty(), "{:?}", rows(&units));
        // Signs of other widths, lists without a header, and a title before it.
        let names =
            "NAME                 COUNT\naaaaaaaaaaaaaaaaaa       1\n名前太郎             7\n";
        assert!(rows(names).is_empty());
        let list = "INFO  server started\nWARN  slow query\nINFO  done\n";
        assert!(rows(list).is_empty(), "{:?}", rows(list));
        let sockets = "Active Internet connections (w/o servers)\n\
            Proto Recv-Q Send-Q Local Address           Foreign Address         State\n"
            .to_owned()
            + &"tcp        0      0 10.0.0.1:22             10.0.0.9:50100          ESTABLISHED\n"
                .repeat(40);
        let found = rows(&sockets);
        assert_eq!(found.len(), 41, "{found:?}");
        assert_eq!(found[0], "Proto|Recv-Q|Send-Q|Local Address|Foreign Address|State");
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
