//! Spellings of distinct values: `distinct city`, `distinct count of city`.

use super::total::AggregateFunction;
use crate::query::reader::Reader;

/// Reads the words of `distinct x`, `unique values of x`, `distinct count of x` and `count of
/// distinct x`, before the field. Returns the function that they denote. `None`, with nothing read,
/// if other words are next.
pub(super) fn distinct_words(reader: &mut Reader<'_>) -> Option<AggregateFunction> {
    let mut rest = reader.clone();
    let is_count = rest.keyword(&["number of", "count of", "count"]).is_some();
    rest.keyword(&["distinct", "unique"])?;
    let is_count = rest.keyword(&["count of", "count"]).is_some() || is_count;
    let _ = rest.keyword(&["values of", "of"]);
    let mut end = rest.clone();
    let is_field = !rest.rest().trim_start().starts_with('(') && !end.is_at_end();
    if !is_field || rest.clone().keyword(&["by", "group by", "as", "from"]).is_some() {
        return None;
    }
    *reader = rest;
    Some(match is_count {
        true => AggregateFunction::CountDistinct,
        false => AggregateFunction::Distinct,
    })
}
