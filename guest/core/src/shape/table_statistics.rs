//! Statistics over all rows of a table in a text, shown after its first lines.

use super::condense::schema::Schema;
use super::condense::statistics::{ListStatistics, MAX_COUNTED_BYTES, document_statistics};
use super::highlight::Highlights;
use crate::json::outline::Outline;
use crate::json::text::Form;
use crate::query::table_rows;
use crate::text::line_breaks::without_line_breaks;
use crate::tokens::Estimator;

/// Returns the number of rows and the statistics of the columns, within `token_limit`. `None` if
/// nothing fits, or unless the text is a table of at most 800 kB whose first line names its
/// columns. O(n).
pub(super) fn table_statistics(
    highlights: &Highlights<'_>,
    estimator: &Estimator,
    token_limit: u64,
) -> Option<String> {
    let text = highlights.tabular().filter(|text| text.len() <= MAX_COUNTED_BYTES)?;
    let rows = table_rows(&text)?;
    let outline = Outline::parse(&rows, Form::Raw, &(0..rows.len())).ok()?;
    // A first line whose cells recur below them has no names of columns.
    let mut cells = (0..outline.len()).filter_map(|id| outline.node(id));
    let is_name = |key: &[u8], value: &[u8]| !key.is_empty() && key == value;
    if cells.any(|cell| is_name(&outline.inner(&cell.key), &outline.inner(&cell.span))) {
        return None;
    }
    let tables = highlights.tables();
    let total = outline.node(0).map_or(0, |list| list.children as usize);
    if tables.largest.is_some_and(|table| !tables.is_only && table.rows != total) {
        return None;
    }
    let schema = Schema::new(&outline, estimator, true)?;
    let lists = document_statistics(&schema, &outline);
    let which = match (tables.largest, tables.others) {
        (Some(table), 1..) => {
            format!("The table in line {}, of {} tables. ", table.header + 1, tables.others + 1)
        }
        _ => String::new(),
    };
    let limit = token_limit.checked_sub(estimator.cost(which.as_bytes()))?;
    let text = without_line_breaks(ListStatistics::text(lists, estimator, limit)?);
    Some(format!("{which}{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::lines::IndexedText;

    #[test]
    fn tables_have_statistics() {
        let rows = (0..100).map(|at| {
            let level = if at % 10 == 0 { "ERROR" } else { "INFO" };
            format!("{at},2026-01-01,{level},E{},text {at}\n", at % 12)
        });
        let text = format!("id,day,level,event,says\n{}", rows.collect::<String>());
        let lines = IndexedText::new(text.as_bytes(), Form::Raw);
        let highlights = Highlights::new(&lines);
        let found = table_statistics(&highlights, &Estimator::default(), 400);
        let expected = "Over all 100 items: level: INFO 90, ERROR 10; event: E0 9, E1 9, E2 9, E3 9, \
                        E10 8, E11 8, 6 other values 48";
        assert_eq!(found.as_deref(), Some(expected));
        // Without names of columns, nothing can be said.
        let (_, bare) = text.split_once('\n').unwrap();
        let lines = IndexedText::new(bare.as_bytes(), Form::Raw);
        assert_eq!(table_statistics(&Highlights::new(&lines), &Estimator::default(), 400), None);
    }

    fn statistics(text: &str) -> Option<String> {
        let lines = IndexedText::new(text.as_bytes(), Form::Raw);
        table_statistics(&Highlights::new(&lines), &Estimator::default(), 400)
    }

    fn rows(line: impl Fn(usize) -> String) -> String {
        (0..60).map(|at| line(at) + "\n").collect()
    }

    #[test]
    fn statistics_are_those_of_one_table() {
        let table = |name: &str, factor: usize| {
            let rows = rows(|at| format!("| {at} | {} |", at * factor));
            format!("| id | {name} |\n|---|---|\n{rows}\n")
        };
        let found = statistics(&(table("amount", 2) + &table("amount", 5))).unwrap();
        assert!(
            found.starts_with("The table in line 1, of 2 tables. Over all 60 items:"),
            "{found}"
        );
        assert!(found.contains("sum 3540"), "{found}");
        let csv = |name: &str| format!("id,{name}\n{}\n", rows(|at| format!("{at},{at}")));
        assert!(statistics(&csv("amount")).is_some());
        assert_eq!(statistics(&(csv("amount") + &csv("qty"))), None);
        assert_eq!(statistics(&(csv("amount") + "(60 rows, all)\n")), None);
    }

    #[test]
    fn aligned_tables_have_statistics() {
        let status = |at: usize| if at == 7 { "Error" } else { "Running" };
        let pods = rows(|at| format!("pod-{at:<7} 1/1     {:<9} {at}d", status(at)));
        let found = statistics(&format!("NAME        READY   STATUS    AGE\n{pods}")).unwrap();
        assert!(found.contains("STATUS: Running 59, Error 1"), "{found}");
        let prose = rows(|at| format!("line {at} is   no row of a table, it is a sentence"));
        assert_eq!(statistics(&format!("A TITLE  OF PROSE\n{prose}")), None);
    }
}
