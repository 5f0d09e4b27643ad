//! Logs whose columns a directive names: the W3C Extended Log File Format (IIS, CloudFront), and
//! the logs of Zeek.

use super::Table;

/// The number of leading lines that are searched for the directive.
const MAX_DIRECTIVES: usize = 16;

/// Returns the table in a text. `None` if no directive names its columns, or if a later one has
/// other names.
pub(super) fn parse(text: &str) -> Option<Table> {
    if !text.starts_with('#') {
        return None;
    }
    let head = text.lines().take(MAX_DIRECTIVES).take_while(|line| line.starts_with('#'));
    let columns: Vec<String> = head.into_iter().find_map(names)?;
    let mut rows = Vec::new();
    for line in text.lines() {
        if line.starts_with('#') {
            if names(line).is_some_and(|names| names != columns) {
                return None;
            }
        } else if !line.trim().is_empty() {
            rows.push(cells(line));
        }
    }
    let regular = rows.iter().filter(|row| row.len() == columns.len()).count();
    let table = Table { columns, rows, ..Table::default() };
    (table.is_valid() && regular * 10 >= table.rows.len() * 9).then_some(table)
}

/// Returns the names of the columns in the directive `#Fields: a b` or `#fields a b`. `None` for
/// other lines.
fn names(line: &str) -> Option<Vec<String>> {
    let directive = line.strip_prefix('#')?;
    let (name, rest) = directive.split_once([':', ' ', '\t'])?;
    let is_fields = name.eq_ignore_ascii_case("fields");
    is_fields.then(|| rest.split_whitespace().map(str::to_owned).collect())
}

/// Returns the cells of a line: between tabs if there are any, else between spaces outside of
/// quotes. A dash is an empty cell.
fn cells(line: &str) -> Vec<String> {
    let value = |cell: &str| if cell == "-" { String::new() } else { cell.to_owned() };
    if line.contains('\t') {
        return line.trim_end().split('\t').map(|cell| value(cell.trim())).collect();
    }
    let (mut cells, mut rest) = (Vec::new(), line.trim());
    while !rest.is_empty() {
        let quoted = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        let (cell, after) = match quoted {
            Some((cell, after)) if after.is_empty() || after.starts_with(' ') => (cell, after),
            _ => rest.split_once(' ').unwrap_or((rest, "")),
        };
        cells.push(value(cell));
        rest = after.trim_start();
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::super::to_json;

    fn json(text: &str) -> String {
        to_json(text).map_or("none".to_owned(), |(json, _)| String::from_utf8(json).unwrap())
    }

    #[test]
    fn directives_name_the_columns() {
        let iis = "#Software: Microsoft Internet Information Services 10.0\r\n#Version: 1.0\r\n#Fields: \
                   date cs-uri-stem sc-status cs(User-Agent)\r\n2026-01-02 /a 404 \"a b\"\r\n\
                   #Fields: date cs-uri-stem sc-status cs(User-Agent)\r\n2026-01-02 /b 200 -\r\n";
        assert_eq!(
            json(iis),
            r#"[{"date":"2026-01-02","cs-uri-stem":"/a","sc-status":404,"cs(User-Agent)":"a b"},{"date":"2026-01-02","cs-uri-stem":"/b","sc-status":200,"cs(User-Agent)":null}]"#
        );
        let zeek = "#separator \\x09\n#path\tconn\n#fields\tts\tid.orig_h\tservice\n#types\ttime\taddr\t\
                    string\n1591367999.3\t192.168.4.76\tdns\n1591367999.4\t192.168.4.77\t-\n#close x\n";
        assert_eq!(
            json(zeek),
            r#"[{"ts":1591367999.3,"id.orig_h":"192.168.4.76","service":"dns"},{"ts":1591367999.4,"id.orig_h":"192.168.4.77","service":null}]"#
        );
        assert_eq!(json("# Fields: of study\nWe grew wheat, barley and rye.\n"), "none");
        assert_eq!(json("#Fields: a b\n1 2\n#Fields: a c\n3 4\n"), "none");
    }
}
