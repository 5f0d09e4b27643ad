//! Tables in Markdown, and in the output of SQL clients.

use super::{Table, keep_larger};

/// Returns the largest table in a text. `None` if there is none.
pub(super) fn parse(text: &str) -> Option<Table> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut best: Option<Table> = None;
    let mut at = 0;
    while at < lines.len() {
        let is_rule = lines.get(at).is_some_and(|line| is_rule(line));
        let header = at.checked_sub(1).and_then(|at| lines.get(at));
        let header = header.filter(|header| is_rule && header.contains('|'));
        at += 1;
        let Some(header) = header else { continue };
        let columns = cells(header);
        let mut rows = Vec::new();
        while let Some(line) = lines.get(at) {
            if is_rule_of_grid(line) {
                // The last line of a grid.
                at += 1;
                break;
            }
            if !line.contains('|') {
                break;
            }
            rows.push(cells(line));
            at += 1;
        }
        let table = Table { columns, rows, ..Table::default() };
        if table.is_valid() {
            keep_larger(&mut best, table);
        }
    }
    best
}

/// Returns true if a line separates the names of the columns from the rows.
fn is_rule(line: &str) -> bool {
    line.contains("--")
        && line.chars().all(|c| matches!(c, '-' | '|' | ':' | '+' | ' '))
        && line.contains(['|', '+'])
        || (line.len() > 2
            && line.contains('|')
            && line.chars().all(|c| matches!(c, '-' | '|' | ':' | ' '))
            && line.contains('-'))
}

fn is_rule_of_grid(line: &str) -> bool {
    line.starts_with("+-") && is_rule(line)
}

/// Returns the cells of a row. A backslash escapes a vertical bar.
fn cells(line: &str) -> Vec<String> {
    let line = line.strip_prefix('|').unwrap_or(line);
    let line = match line.strip_suffix('|') {
        Some(inner) if !inner.ends_with('\\') => inner,
        _ => line,
    };
    let mut cells = vec![String::new()];
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.peek() == Some(&'|') => {
                characters.next();
                cells.iter_mut().last().into_iter().for_each(|cell| cell.push('|'));
            }
            '|' => cells.push(String::new()),
            other => cells.iter_mut().last().into_iter().for_each(|cell| cell.push(other)),
        }
    }
    cells.into_iter().map(|cell| cell.trim().to_owned()).collect()
}
