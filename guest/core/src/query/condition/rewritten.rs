//! Conditions of other languages, converted to the syntax of this language.

use super::{dialects, frame, lookups, wrapper};
use crate::query::objects;

/// Splits `from open where price > 5` into the names that lead to the list and the condition.
/// `None` for other conditions, because a field may be called `from`.
pub(super) fn from_list(text: &str) -> Option<(Vec<String>, &str)> {
    let (name, condition) = text.strip_prefix("from ")?.split_once(" where ")?;
    let is_name = name.chars().all(|c| c.is_alphanumeric() || "_-.$".contains(c));
    is_name.then(|| (name.split('.').map(str::to_owned).collect(), condition))
}

/// Converts a condition of another language to the syntax of this language. `None` if it is in this
/// syntax already.
pub(super) fn rewritten(text: &str) -> Result<Option<String>, String> {
    let dialect = dialects::condition(text).or_else(|| lookups::condition(text));
    if dialect.is_none() && objects::is_object(text) {
        return objects::condition(text).map(Some);
    }
    if dialect.is_none() && objects::is_pipeline(text) {
        return objects::filters(text).map(Some);
    }
    let plain = dialect.as_deref().unwrap_or(text);
    Ok(frame::condition(plain).or_else(|| wrapper::condition(plain)).or(dialect))
}
