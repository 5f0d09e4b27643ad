//! Tables in HTML.
//!
//! Cells that span several columns or rows are repeated in each of them. The rows of a head are
//! joined to one name for each column.

use super::{Table, keep_larger};
use crate::query::value::Number;
use crate::text::markup::{Piece, Pieces, attributes, plain_text};

/// The maximum number of columns or rows that a cell spans.
const MAX_SPAN: usize = 100;
/// The maximum number of cells that repeat others because of spans, in all tables. A long cell
/// counts once more for each 100 bytes.
const MAX_REPEATED: usize = 100_000;

/// Returns the HTML table with the most rows in a text. `None` if there is none, and if spans
/// repeat more than the limit: a part of a table would give wrong totals.
pub(super) fn parse(text: &str) -> Option<Table> {
    let mut tags =
        text.match_indices('<').filter_map(|(at, _)| text.as_bytes().get(at + 1..at + 6));
    if !tags.any(|name| name.eq_ignore_ascii_case(b"table")) {
        return None;
    }
    let mut best: Option<Table> = None;
    let mut table = HtmlTable::default();
    let mut repeated = 0;
    for (_, piece) in Pieces::new(text) {
        match piece {
            Piece::Text(text) => table.text(text),
            Piece::Open { name, attributes, .. } => match name.to_ascii_lowercase().as_str() {
                "td" | "th" => table.begin_cell(attributes, name.eq_ignore_ascii_case("th")),
                "br" | "p" | "div" | "li" => table.text(" "),
                "tr" => table.end_row(&mut repeated),
                "table" => end_table(&mut best, &mut table, &mut repeated),
                "tfoot" => table.is_foot = true,
                "tbody" => table.begin_body(&mut repeated),
                _ => {}
            },
            Piece::Close { name } => match name.to_ascii_lowercase().as_str() {
                "td" | "th" => table.end_cell(),
                "tr" => table.end_row(&mut repeated),
                "thead" => table.begin_body(&mut repeated),
                "tfoot" => {
                    table.end_row(&mut repeated);
                    table.is_foot = false;
                }
                "table" => end_table(&mut best, &mut table, &mut repeated),
                _ => {}
            },
        }
        if repeated > MAX_REPEATED {
            return None;
        }
    }
    end_table(&mut best, &mut table, &mut repeated);
    best.filter(|_| repeated <= MAX_REPEATED)
}

/// Ends a table, and stores it in `best` if it has more rows than the table there.
fn end_table(best: &mut Option<Table>, table: &mut HtmlTable, repeated: &mut usize) {
    table.end_row(repeated);
    if let Some(found) = std::mem::take(table).finish() {
        keep_larger(best, found);
    }
}

/// Returns what a repeated cell counts towards [`MAX_REPEATED`].
fn cost_of_repeat(text: &str) -> usize {
    1 + text.len() / 100
}

/// A cell of a row.
struct Cell {
    text: String,
    is_head: bool,
    columns: usize,
    rows: usize,
}

/// A table that is being read.
#[derive(Default)]
struct HtmlTable {
    head: Vec<Vec<String>>,
    rows: Vec<Vec<String>>,
    /// The number of rows after the head that are headings.
    headings: usize,
    /// True after the head: later rows are data.
    has_head: bool,
    is_foot: bool,
    cell: Option<Cell>,
    row: Vec<Cell>,
    /// For each column, the text of a cell of an earlier row, and the number of further rows that
    /// it spans.
    spans: Vec<(String, usize)>,
}

impl HtmlTable {
    fn text(&mut self, text: &str) {
        if let Some(cell) = &mut self.cell {
            cell.text.push_str(text);
        }
    }

    fn begin_cell(&mut self, own: &str, is_head: bool) {
        self.end_cell();
        let span = |name: &str| {
            let mut values = attributes(own).filter(|(known, _)| known.eq_ignore_ascii_case(name));
            let value = values.next().and_then(|(_, value)| value.trim().parse().ok());
            value.unwrap_or(1usize).clamp(1, MAX_SPAN)
        };
        let (columns, rows) = (span("colspan"), span("rowspan"));
        self.cell = Some(Cell { text: String::new(), is_head, columns, rows });
    }

    fn end_cell(&mut self) {
        if let Some(cell) = self.cell.take() {
            self.row.push(Cell { text: plain_text(&cell.text), ..cell });
        }
    }

    /// Ends the head, if there is one.
    fn begin_body(&mut self, repeated: &mut usize) {
        self.end_row(repeated);
        self.has_head |= !self.head.is_empty();
    }

    fn end_row(&mut self, repeated: &mut usize) {
        self.end_cell();
        let cells = std::mem::take(&mut self.row);
        if cells.is_empty() {
            return;
        }
        let is_head = cells.iter().all(|cell| cell.is_head);
        // At the foot, cells that span columns are controls.
        let is_control = self.is_foot && cells.iter().any(|cell| cell.columns > 1);
        // A heading or a note is no data, unlike a number for all columns.
        let width = self.head.first().map_or(usize::MAX, Vec::len);
        let is_heading = |cell: &Cell| {
            cell.columns >= width && (cell.is_head || Number::parse_plain(&cell.text).is_none())
        };
        let is_note = cells.len() == 1 && cells.first().is_some_and(is_heading);
        let row = self.expanded(cells, repeated);
        let is_first = self.head.is_empty() && self.rows.is_empty();
        if is_control {
        } else if is_note {
            self.headings += 1;
        } else if is_first || (is_head && !self.has_head && self.rows.is_empty()) {
            self.head.push(row);
        } else if !self.head.contains(&row) {
            // A table may repeat its head at its foot.
            self.rows.push(row);
        }
    }

    /// Returns the texts of a row. Repeats cells that span several columns or rows, and adds their
    /// number to `repeated`. Ends early beyond the limit.
    fn expanded(&mut self, cells: Vec<Cell>, repeated: &mut usize) -> Vec<String> {
        let mut row = Vec::new();
        for cell in cells {
            self.add_spans(&mut row, repeated);
            for column in 0..cell.columns {
                if cell.rows > 1 {
                    *repeated += cost_of_repeat(&cell.text);
                    self.spans.resize(self.spans.len().max(row.len() + 1), Default::default());
                    if let Some(span) = self.spans.get_mut(row.len()) {
                        *span = (cell.text.clone(), cell.rows - 1);
                    }
                }
                if column > 0 {
                    *repeated += cost_of_repeat(&cell.text);
                }
                if *repeated > MAX_REPEATED {
                    return row;
                }
                row.push(cell.text.clone());
            }
        }
        self.add_spans(&mut row, repeated);
        row
    }

    /// Appends the texts of earlier cells that span the next columns of a row, and adds their
    /// number to `repeated`. Ends early beyond the limit.
    fn add_spans(&mut self, row: &mut Vec<String>, repeated: &mut usize) {
        while let Some((text, rows)) = self.spans.get_mut(row.len()).filter(|(_, rows)| *rows > 0) {
            *repeated += cost_of_repeat(text);
            if *repeated > MAX_REPEATED {
                return;
            }
            *rows -= 1;
            row.push(text.clone());
        }
    }

    /// Returns the table. `None` if it has no rows.
    fn finish(self) -> Option<Table> {
        let width = self.head.iter().map(Vec::len).max()?;
        let name = |at: usize| {
            let mut parts: Vec<&str> = Vec::new();
            for row in &self.head {
                let part = row.get(at).map_or("", String::as_str);
                if !part.is_empty() && parts.last() != Some(&part) {
                    parts.push(part);
                }
            }
            parts.join(" ")
        };
        let columns = (0..width).map(name).collect();
        let mut table =
            Table { columns, rows: self.rows, headings: self.headings, ..Table::default() };
        table.name_columns();
        table.is_valid().then_some(table)
    }
}
