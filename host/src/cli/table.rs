//! Tables on a terminal.

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

/// Returns an empty table with the column titles `head`. All columns but the first are aligned
/// right, for numbers.
pub(crate) fn new(head: &[&str]) -> Table {
    let mut table = texts(head);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Returns an empty table with the column titles `head`. All columns are aligned left, for texts.
pub(crate) fn texts(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(head.iter().copied());
    table
}

/// Formats a number with thousands separators, such as `12,345`.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats the reduction from `before` to `after` in percent, or returns `-` if `before` is 0.
pub(crate) fn saved(before: u64, after: u64) -> String {
    if before == 0 {
        return "-".to_owned();
    }
    let percent = (i128::from(before) - i128::from(after)) * 100 / i128::from(before);
    format!("{percent} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        assert_eq!(
            (number(0), number(999), number(1_234_567)),
            ("0".to_owned(), "999".to_owned(), "1,234,567".to_owned())
        );
        assert_eq!(
            (saved(200, 50), saved(100, 150), saved(0, 1)),
            ("75 %".to_owned(), "-50 %".to_owned(), "-".to_owned())
        );
    }
}
