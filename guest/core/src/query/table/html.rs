//! Tables of HTML.

use super::Table;

/// Returns the table of a text of HTML that has the most rows.
pub(super) fn parse(text: &str) -> Option<Table> {
    // Letters outside of ASCII keep their length, so that offsets are those of the text.
    let lower = text.to_ascii_lowercase();
    if !lower.contains("<table") {
        return None;
    }
    let mut best: Option<Table> = None;
    let mut table = Table::default();
    let mut cell: Option<String> = None;
    let mut row: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(open) = text.get(at..).and_then(|rest| rest.find('<')) {
        if let (Some(cell), Some(words)) = (&mut cell, text.get(at..at + open)) {
            cell.push_str(words);
        }
        let start = at + open;
        let Some(end) = text.get(start..).and_then(|rest| rest.find('>')) else { break };
        let name: String = lower
            .get(start + 1..start + end)
            .unwrap_or_default()
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '/')
            .collect();
        at = start + end + 1;
        let ends_cell =
            matches!(name.as_str(), "td" | "th" | "/td" | "/th" | "tr" | "/tr" | "/table");
        if let Some(cell) = cell.take_if(|_| ends_cell) {
            row.push(decode(&cell));
        }
        match name.as_str() {
            "td" | "th" => cell = Some(String::new()),
            "br" | "p" | "div" | "li" => cell.iter_mut().for_each(|cell| cell.push(' ')),
            "tr" | "/tr" | "/table" if !row.is_empty() => {
                let row = std::mem::take(&mut row);
                if table.columns.is_empty() {
                    table.columns = row;
                } else if row != table.columns {
                    // A table may repeat its head at its foot.
                    table.rows.push(row);
                }
            }
            _ => {}
        }
        if matches!(name.as_str(), "table" | "/table") {
            let found = std::mem::take(&mut table);
            let is_larger = best.as_ref().is_none_or(|best| best.rows.len() < found.rows.len());
            if found.is_valid() && is_larger {
                best = Some(found);
            }
        }
    }
    best
}

/// Decodes the most common entities, and joins white space.
fn decode(text: &str) -> String {
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let entities = [
        ("&nbsp;", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ];
    if text.contains('&') {
        for (name, sign) in entities {
            text = text.replace(name, sign);
        }
    }
    text.trim().to_owned()
}
