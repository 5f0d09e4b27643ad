//! The tables in a text: the lines of their headers, and the numbers of their rows.

use std::ops::Range;

use crate::text::lines::IndexedText;

/// The separators of cells, in the order in which they are tried.
const SEPARATORS: &[u8] = b"\t,;|";

/// A table in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLayout {
    /// The number of the line with the names of the columns, from 0.
    pub header: usize,
    /// The number of rows, without the header and without rules.
    pub rows: usize,
}

/// The tables in a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// The first of the tables with the most rows. `None` if the text has no table with a header.
    pub largest: Option<TableLayout>,
    /// The number of other tables.
    pub others: usize,
    /// True if the text has nothing else than one table whose cells have separators.
    pub is_only: bool,
}

impl Tables {
    /// Finds the tables in a text: those with a rule below the header, as in Markdown and in the
    /// output of SQL clients, else those whose cells have separators. O(n).
    pub(super) fn find(text: &IndexedText<'_>) -> Self {
        let mut tables = ruled_tables(text);
        let mut is_only = false;
        if tables.is_empty() {
            let blocks = blocks(text);
            tables = blocks.iter().filter_map(|block| delimited_table(text, block)).collect();
            is_only = blocks.len() == 1;
        }
        let larger =
            |best: TableLayout, next: TableLayout| if next.rows > best.rows { next } else { best };
        let others = tables.len().saturating_sub(1);
        Self { largest: tables.into_iter().reduce(larger), others, is_only }
    }
}

/// Returns the tables with a rule below the header.
fn ruled_tables(text: &IndexedText<'_>) -> Vec<TableLayout> {
    let mut tables: Vec<TableLayout> = Vec::new();
    // True if the line is inside of a table, and true if the line before may be a header.
    let (mut is_inside, mut follows_cells) = (false, false);
    for at in 0..text.len() {
        let line = text.line(at);
        let line = line.trim_ascii();
        if is_rule(line) {
            if is_inside && line.starts_with(b"+") {
                is_inside = false;
            } else if !is_inside && follows_cells {
                tables.push(TableLayout { header: at.saturating_sub(1), rows: 0 });
                is_inside = true;
            }
            follows_cells = false;
            continue;
        }
        follows_cells = line.contains(&b'|');
        is_inside &= follows_cells;
        if let Some(table) = tables.last_mut().filter(|_| is_inside) {
            table.rows += 1;
        }
    }
    tables.retain(|table| table.rows > 0);
    tables
}

/// Returns true if a line separates the header of a table from its rows.
fn is_rule(line: &[u8]) -> bool {
    line.iter().all(|byte| b"-|:+ ".contains(byte))
        && line.contains(&b'-')
        && line.iter().any(|byte| b"|+".contains(byte))
}

/// Returns the ranges of lines that blank lines separate.
fn blocks(text: &IndexedText<'_>) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    for at in (0..text.len()).filter(|at| !text.line(*at).trim_ascii().is_empty()) {
        match blocks.last_mut() {
            Some(block) if block.end == at => block.end = at + 1,
            _ => blocks.push(at..at + 1),
        }
    }
    blocks
}

/// Returns the table in a block of lines whose cells have a separator. `None` if more than a tenth
/// of the rows have another number of cells than the first line, or if that is no header.
fn delimited_table(text: &IndexedText<'_>, block: &Range<usize>) -> Option<TableLayout> {
    let header = block.start;
    SEPARATORS.iter().find_map(|separator| {
        let first = text.line(header);
        let names = cells(&first, *separator);
        if names.len() < 2 {
            return None;
        }
        let (mut rows, mut regular, mut alike) = (0, 0, vec![0; names.len()]);
        let (mut row, mut is_quoted): (Vec<u8>, bool) = (Vec::new(), false);
        for at in header + 1..block.end {
            let line = text.line(at);
            row.extend_from_slice(&line);
            // A quoted cell may have line breaks.
            is_quoted ^= memchr::memchr_iter(b'"', &line).count() % 2 == 1;
            if is_quoted {
                row.push(b'\n');
                continue;
            }
            let found = cells(&row, *separator);
            rows += 1;
            regular += usize::from(found.len() == names.len());
            if rows <= 2 {
                let pairs = names.iter().zip(&found).zip(&mut alike);
                pairs.for_each(|((name, cell), count)| *count += usize::from(is_alike(name, cell)));
            }
            row.clear();
        }
        let is_header = !names.iter().any(|name| is_number(name)) && !alike.contains(&2);
        let is_table = rows > 1 && regular * 10 >= rows * 9 && row.is_empty();
        (is_table && is_header).then_some(TableLayout { header, rows })
    })
}

/// Splits a row at the separators outside of quotes.
fn cells(row: &[u8], separator: u8) -> Vec<&[u8]> {
    let mut is_quoted = false;
    row.split(|byte| {
        is_quoted ^= *byte == b'"';
        *byte == separator && !is_quoted
    })
    .collect()
}

/// Returns true if two cells differ in digits only. The names of columns differ from the cells.
fn is_alike(name: &[u8], cell: &[u8]) -> bool {
    let letters = |text: &[u8]| -> Vec<u8> {
        text.trim_ascii().iter().copied().filter(|byte| !byte.is_ascii_digit()).collect()
    };
    !name.trim_ascii().is_empty() && letters(name) == letters(cell)
}

/// Returns true if a cell is a number, a date or a time. No column has such a name, except for
/// years.
fn is_number(cell: &[u8]) -> bool {
    let cell = cell.trim_ascii();
    let is_year = cell.len() == 4 && cell.iter().all(u8::is_ascii_digit);
    !is_year
        && cell.iter().any(u8::is_ascii_digit)
        && cell.iter().all(|byte| byte.is_ascii_digit() || b"+-.:%/".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::text::Form;

    fn find(text: &str) -> Tables {
        Tables::find(&IndexedText::new(text.as_bytes(), Form::Raw))
    }

    fn rows(line: impl Fn(usize) -> String) -> String {
        (0..30).map(|at| line(at) + "\n").collect()
    }

    #[test]
    fn rows_are_data() {
        let csv = rows(|at| format!("{at},n{at},ok"));
        let markdown = rows(|at| format!("| {at} | n{at} |"));
        let quoted = rows(|at| format!("{at},\"n\n{at}, x\",ok"));
        for (text, header) in [
            (format!("id,name,status\n{csv}"), 0),
            (format!("id,name,status\n{quoted}"), 0),
            (format!("Report\n\n|id|name|\n|--|--|\n{markdown}\n**Total: 30**\n"), 2),
            (format!("+--+--+\n| id | name |\n+--+--+\n{markdown}+--+--+\n30 rows\n"), 1),
            (format!(" id | name \n----+---\n{markdown}(30 rows)\n"), 0),
        ] {
            assert_eq!(find(&text).largest, Some(TableLayout { header, rows: 30 }), "{text}");
            assert_eq!(find(&text).others, 0, "{text}");
        }
    }

    #[test]
    fn other_texts_have_no_tables() {
        let trace = rows(|at| format!("\tat a.b.C{at}.m(C.java:{at})"));
        for text in [
            rows(|at| format!("{at},n{at},ok")),
            rows(|at| format!("n{at},x,ok")),
            rows(|at| format!("INSERT INTO t VALUES ({at}, 'name {at}', NULL);")),
            format!("Exception in thread \"main\" java.lang.Error: x\n{trace}"),
            String::new(),
        ] {
            assert_eq!(find(&text).largest, None, "{text}");
        }
    }

    #[test]
    fn other_tables_are_counted() {
        let markdown = rows(|at| format!("| {at} | n{at} |"));
        let table = format!("# T\n\n| id | n |\n|---|---|\n{markdown}");
        let found = find(&format!("{table}\n{table}| 7 | 8 |\n"));
        assert_eq!(found.largest, Some(TableLayout { header: 35 + 2, rows: 31 }));
        assert_eq!((found.others, found.is_only), (1, false));
        let csv = format!("id,qty\n{}", rows(|at| format!("{at},{at}")));
        let found = find(&format!("{csv}\n{csv}"));
        assert_eq!(found.largest, Some(TableLayout { header: 0, rows: 30 }));
        assert_eq!((found.others, found.is_only), (1, false));
    }
}
