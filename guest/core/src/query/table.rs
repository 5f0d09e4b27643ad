//! Tables in texts as JSON: CSV and its variants, Markdown, the output of SQL clients, HTML, logs
//! whose columns a directive names, and columns aligned by spaces.
//!
//! The first row has the names of the columns. Each other row becomes an object. Plain numbers such
//! as `-1.5` are numbers, `true` and `false` are booleans, and empty cells and `null` are null. A
//! column with a number that begins with zeros, such as `007`, consists of texts.

mod aligned;
mod delimited;
mod extended_log;
mod html;
mod markdown;

use std::collections::BTreeSet;

use super::json_lines;
use super::value::Number;
use crate::decimal::Sum;
use crate::json::text::quoted;

/// The maximum size of a table as JSON, in bytes.
const MAX_JSON_BYTES: usize = 48 * 1024 * 1024;
/// The maximum number of columns.
const MAX_COLUMNS: usize = 1_000;

/// A table: the names of its columns, and its rows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The number of other tables in the text, none of which has more rows.
    others: usize,
    /// The number of rows that were left out as headings.
    headings: usize,
    /// True if the last row was left out as a total.
    has_total: bool,
}

/// Returns the table in a text as a JSON list of objects, and a note on what it does not contain.
/// The note begins with a semicolon, or is empty. `None` if the text has no table, or one that is
/// too large. O(text).
#[must_use]
pub(super) fn to_json(text: &str) -> Option<(Vec<u8>, String)> {
    let mut table = html::parse(text)
        .or_else(|| markdown::parse(text))
        .or_else(|| extended_log::parse(text))
        .or_else(|| {
            // Lines of JSON may have the same number of commas.
            let is_table = json_lines::objects(text).is_none();
            is_table.then(|| delimited::parse(text).or_else(|| aligned::parse(text)))?
        })?;
    table.leave_out_total();
    Some((table.to_json()?, table.note()))
}

/// Stores a table in `best` if it has more rows than the table there, and counts the other one.
fn keep_larger(best: &mut Option<Table>, found: Table) {
    match best {
        Some(best) if best.rows.len() >= found.rows.len() => best.others += 1,
        _ => {
            let others = best.as_ref().map_or(0, |best| best.others + 1);
            *best = Some(Table { others, ..found });
        }
    }
}

impl Table {
    /// Returns true if the table has rows, and columns with different names.
    fn is_valid(&self) -> bool {
        let mut names: Vec<&String> = self.columns.iter().collect();
        names.sort_unstable();
        names.dedup();
        (1..=MAX_COLUMNS).contains(&self.columns.len())
            && names.len() == self.columns.len()
            && !self.rows.is_empty()
            && self.columns.iter().all(|name| !name.is_empty())
    }

    /// Generates names for columns without a name, and for those with the name of an earlier
    /// column.
    fn name_columns(&mut self) {
        if self.columns.len() > MAX_COLUMNS {
            return;
        }
        let mut known: Vec<String> = Vec::new();
        for (at, name) in self.columns.iter_mut().enumerate() {
            if name.is_empty() {
                *name = format!("column {}", at + 1);
            }
            let plain = name.clone();
            let mut number = 1;
            while known.contains(name) {
                number += 1;
                *name = format!("{plain} {number}");
            }
            known.push(name.clone());
        }
    }

    /// Leaves out the last row if it is a total: it says so, and has the sum of a column.
    fn leave_out_total(&mut self) {
        let Some((last, rows)) = self.rows.split_last().filter(|(_, rows)| rows.len() > 1) else {
            return;
        };
        let is_sum = |(at, cell): (usize, &String)| {
            let Some(total) = Number::parse_plain(cell).filter(|total| total.float != 0.0) else {
                return false;
            };
            let mut sum = Sum::default();
            let mut cells = rows.iter().map(|row| row.get(at).map_or("", String::as_str));
            let are_numbers = cells.all(|cell| cell.is_empty() || sum.add(cell));
            // The total of rounded values may differ by half of their last place.
            let difference = (sum.float() - total.float).abs();
            are_numbers && difference <= total.float.abs() * 1e-9 + 0.005
        };
        let name = last.iter().find(|cell| !cell.is_empty());
        if name.is_some_and(|name| is_total(name)) && last.iter().enumerate().any(is_sum) {
            self.rows.pop();
            self.has_total = true;
        }
    }

    /// Returns a note on the other tables and on the rows that were left out. Empty if there are
    /// none.
    fn note(&self) -> String {
        let total = match self.has_total {
            true => "; the last row, the total of the others, was left out",
            false => "",
        };
        let headings = match self.headings {
            0 => String::new(),
            1 => "; 1 row with a cell across all columns was left out as a heading".to_owned(),
            rows => {
                format!("; {rows} rows with a cell across all columns were left out as headings")
            }
        };
        let equal = self.equal_numbers();
        if self.others == 0 {
            return headings + total + &equal;
        }
        let tables = self.others + 1;
        format!(
            "{headings}{total}{equal}; only the largest of {tables} tables was read; grep alone searches the whole text"
        )
    }

    /// Returns a note on a column in which one number is written in two ways, because they may be
    /// versions: `1.1` and `1.10`. Empty if there is none.
    fn equal_numbers(&self) -> String {
        for (at, name) in self.columns.iter().enumerate() {
            let cells = || self.rows.iter().filter_map(|row| row.get(at)).map(String::as_str);
            let shorter = |cell: &str| {
                let (whole, decimals) = cell.split_once('.')?;
                let decimals = decimals.strip_suffix('0')?.trim_end_matches('0');
                Number::parse_plain(cell)?;
                Some(if decimals.is_empty() {
                    whole.to_owned()
                } else {
                    format!("{whole}.{decimals}")
                })
            };
            // Numbers with equally many decimals are written in one way.
            let mut decimals = cells().map(|cell| cell.split_once('.').map(|(_, part)| part.len()));
            let first = decimals.next();
            if decimals.all(|part| Some(part) == first) {
                continue;
            }
            let mut long = cells().filter_map(|cell| Some((shorter(cell)?, cell))).peekable();
            if long.peek().is_none() {
                continue;
            }
            let known: BTreeSet<&str> = cells().collect();
            if let Some((short, long)) = long.find(|(short, _)| known.contains(short.as_str())) {
                return format!(
                    "; {short} and {long} at {name} are one number; for such texts use grep"
                );
            }
        }
        String::new()
    }

    fn to_json(&self) -> Option<Vec<u8>> {
        let names: Vec<Vec<u8>> = self.columns.iter().map(|name| quoted(name)).collect();
        let is_text: Vec<bool> = (0..self.columns.len())
            .map(|at| {
                let mut cells = self.rows.iter().filter_map(|row| row.get(at));
                cells.any(|cell| has_leading_zeros(cell))
            })
            .collect();
        let mut out = vec![b'['];
        for (number, row) in self.rows.iter().enumerate() {
            out.extend_from_slice(if number > 0 { b",{" } else { b"{" });
            for (at, (name, is_text)) in names.iter().zip(&is_text).enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(name);
                out.push(b':');
                write_cell(row.get(at).map_or("", String::as_str), *is_text, &mut out);
            }
            for (at, cell) in row.iter().enumerate().skip(names.len()) {
                out.extend_from_slice(format!(",\"column {}\":", at + 1).as_bytes());
                write_cell(cell, false, &mut out);
            }
            out.push(b'}');
            if out.len() > MAX_JSON_BYTES {
                return None;
            }
        }
        out.push(b']');
        Some(out)
    }
}

/// Returns true for the name of a row with totals.
fn is_total(name: &str) -> bool {
    const NAMES: [&str; 10] = [
        "total",
        "totals",
        "grand total",
        "sum",
        "sums",
        "overall",
        "all",
        "gesamt",
        "summe",
        "totale",
    ];
    let name = name.trim().trim_matches(['*', ':', '_']).to_lowercase();
    NAMES.contains(&name.as_str())
}

fn has_leading_zeros(cell: &str) -> bool {
    let digits = cell.strip_prefix('-').unwrap_or(cell);
    digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Appends the text of a cell to `out` as JSON. Numbers, booleans and null have JSON types, unless
/// the column is of texts (`is_text`).
pub(super) fn write_cell(cell: &str, is_text: bool, out: &mut Vec<u8>) {
    match cell {
        "" => out.extend_from_slice(b"null"),
        cell if is_text => out.extend(quoted(cell)),
        "true" | "True" | "TRUE" => out.extend_from_slice(b"true"),
        "false" | "False" | "FALSE" => out.extend_from_slice(b"false"),
        "null" | "NULL" => out.extend_from_slice(b"null"),
        cell if Number::parse_plain(cell).is_some() => out.extend_from_slice(cell.as_bytes()),
        cell => out.extend(quoted(cell)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        to_json(text).map_or("none".to_owned(), |(json, _)| String::from_utf8(json).unwrap())
    }

    #[test]
    fn delimited_tables() {
        assert_eq!(
            json("id,name,zip,ok\n1,\"a, \"\"b\"\"\",007,true\n2.50,,12,False\n"),
            r#"[{"id":1,"name":"a, \"b\"","zip":"007","ok":true},{"id":2.50,"name":null,"zip":"12","ok":false}]"#
        );
        assert_eq!(json("a\tb\n1\tx y\n"), r#"[{"a":1,"b":"x y"}]"#);
        assert_eq!(json("a;b\r\n\"x\ny\";2,5\r\n"), r#"[{"a":"x\ny","b":"2,5"}]"#);
        // Columns without a name, or with that of another column.
        assert_eq!(
            json("id,tel,,tel\n1,2,3,4\n5,6,7,8\n"),
            r#"[{"id":1,"tel":2,"column 3":3,"tel 2":4},{"id":5,"tel":6,"column 3":7,"tel 2":8}]"#
        );
        assert_eq!(json("so, so, well\nnow, then\nwhat, is, this, all\n"), "none");
        assert_eq!(json("a,b\n1\n2,3,4\n"), "none");
        for text in
            ["just words\n", "a,b\n", "1,2\n3,4\n", "Dear all, hello\nthis is, a letter, ok\n", ""]
        {
            assert_eq!(json(text), "none", "{text}");
        }
    }

    #[test]
    fn markdown_tables() {
        let expected = r#"[{"name":"a|b","n":1},{"name":"c","n":null}]"#;
        assert_eq!(
            json("# Title\n\n| name | n |\n|------|--:|\n| a\\|b | 1 |\n| c |  |\n\nEnd\n"),
            expected
        );
        assert_eq!(json("name | n\n--- | ---\nc | 2\n"), r#"[{"name":"c","n":2}]"#);
        assert_eq!(
            json(" name | n \n------+---\n c    | 2 \n(1 row)\n"),
            r#"[{"name":"c","n":2}]"#
        );
        assert_eq!(
            json("+----+---+\n| id | x |\n+----+---+\n|  1 | y |\n+----+---+\n"),
            r#"[{"id":1,"x":"y"}]"#
        );
    }

    #[test]
    fn numbers_that_are_written_twice_are_named() {
        let note = |text| to_json(text).unwrap().1;
        let found = note("v,n\n1.1,1\n1.10,2\n");
        assert_eq!(found, "; 1.1 and 1.10 at v are one number; for such texts use grep");
        assert_eq!(note("v,n\n1.1,1\n1.20,2\n"), "");
    }

    #[test]
    fn html_tables() {
        let html = "<p>x</p><TABLE class=t><thead><tr><th>Name</th><th>N</th></tr></thead><tr><td><a href='#'>A &amp; B</a></td><td> 3 </td></tr><tr><td>C<td>4</table>";
        assert_eq!(json(html), r#"[{"Name":"A & B","N":3},{"Name":"C","N":4}]"#);
    }

    #[test]
    fn html_tables_of_pages() {
        // A head of two rows, a row of controls at the foot, a script, and a comment.
        let html = "<script>a('<table><tr><td>x</td></tr>')</script><!-- <tr><td>y</td> --><table>\
            <thead><tr><th rowspan=2>Id</th><th colspan=2>Size</th><th></th></tr>\
            <tr><th>W</th><th>H</th><th></th></tr></thead>\
            <tfoot><tr><td colspan=4>next page</td></tr></tfoot>\
            <tbody><tr><td rowspan='2'>a</td><td>1</td><td>2</td><td>X</td></tr>\
            <tr><td>3</td><td>4</td><td>X</td></tr></tbody></table>";
        assert_eq!(
            json(html),
            r#"[{"Id":"a","Size W":1,"Size H":2,"column 4":"X"},{"Id":"a","Size W":3,"Size H":4,"column 4":"X"}]"#
        );
        // The names of rows are heads too.
        assert_eq!(
            json("<table><tr><th>k</th><th>v</th></tr><tr><th>a</th><td>1</td></tr></table>"),
            r#"[{"k":"a","v":1}]"#
        );
        let wide = format!("<table>{}</table>", "<tr><td colspan=100>x</td></tr>".repeat(5_000));
        assert_eq!(json(&wide), "none");
        let cell = format!("<td colspan=100 rowspan=100>{}</td>", "x".repeat(100_000));
        let rows = "<tr><td>1</td></tr>".repeat(99);
        let long = format!("<table><tr><th>a</th></tr><tr>{cell}</tr>{rows}</table>");
        assert_eq!(json(&long), "none");
    }

    #[test]
    fn rows_across_all_columns_are_data_or_headings() {
        let html = "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr>\
            <tr><td colspan=2>3</td></tr><tr><td colspan=2>More</td></tr><tr><th colspan=2>4</th></tr>\
            <tr><td>7</td><td>8</td></tr></table>";
        let (rows, note) = to_json(html).unwrap();
        assert_eq!(rows, br#"[{"a":1,"b":2},{"a":3,"b":3},{"a":7,"b":8}]"#);
        assert_eq!(note, "; 2 rows with a cell across all columns were left out as headings");
    }

    #[test]
    fn other_tables_are_counted() {
        let small = "| a | b |\n|---|---|\n| 1 | 2 |\n";
        let large = format!("{small}| 3 | 4 |\n");
        let row = "<tr><td>1</td><td>2</td></tr>";
        let head = "<tr><th>a</th><th>b</th></tr>";
        let html = format!("<table>{head}{row}</table><table>{head}{row}{row}</table>");
        for (text, expected) in [
            (format!("{small}\n# B\n\n{large}\n# C\n\n{small}"), "; only the largest of 3 tables"),
            (html, "; only the largest of 2 tables"),
            (large, ""),
        ] {
            let (_, note) = to_json(&text).unwrap_or_else(|| panic!("{text}"));
            assert!(note.starts_with(expected) && note.is_empty() == expected.is_empty(), "{note}");
        }
    }

    #[test]
    fn comments_precede_a_table() {
        let expected = r#"[{"id":1,"n":2},{"id":3,"n":4}]"#;
        for text in [
            "# of today, by hand\n# unit: EUR\nid,n\n1,2\n3,4\n",
            "##version=1\n#id\tn\n1\t2\n3\t4\n",
        ] {
            assert_eq!(json(text), expected, "{text}");
        }
        assert_eq!(json("# A title\n# Another, one\n"), "none");
    }

    #[test]
    fn totals_are_no_rows() {
        let text = |last: &str| format!("name,n,price\na,1,0.1\nb,2,0.2\n{last}\n");
        for last in ["Total,3,", "TOTAL:,,0.3", ",3,Total"] {
            let (json, note) = to_json(&text(last)).unwrap();
            let rows = String::from_utf8(json).unwrap();
            let is_total = !last.starts_with(',');
            assert_eq!(rows.matches("price").count(), 3 - usize::from(is_total), "{rows}");
            assert_eq!(note.contains("the total of the others, was left out"), is_total);
        }
        // A row with another value is no total, whatever its name.
        assert_eq!(to_json(&text("Total,4,")).unwrap().1, "");
        assert_eq!(to_json(&text("c,3,")).unwrap().1, "");
    }

    #[test]
    fn index_of_a_delimited_table_has_no_name() {
        assert_eq!(json(",a\n0,x\n1,y\n"), r#"[{"column 1":0,"a":"x"},{"column 1":1,"a":"y"}]"#);
    }
}
