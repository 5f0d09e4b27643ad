//! Statistics over all rows of a table in a text, shown after its first lines.

use super::condense::schema::Schema;
use super::condense::statistics::{ListStatistics, MAX_COUNTED_BYTES, document_statistics};
use super::highlight::Highlights;
use crate::json::outline::Outline;
use crate::json::text::Form;
use crate::query::table_rows;
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
    let schema = Schema::new(&outline, estimator, true)?;
    ListStatistics::text(document_statistics(&schema, &outline), estimator, token_limit)
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
}
