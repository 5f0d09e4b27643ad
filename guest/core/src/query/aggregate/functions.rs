//! The names of totals.

use super::total::AggregateFunction;

/// The names of functions. Several names may denote one function.
const FUNCTIONS: [(&str, AggregateFunction); 34] = [
    ("count", AggregateFunction::Count),
    ("sum", AggregateFunction::Sum),
    ("avg", AggregateFunction::Average),
    ("average", AggregateFunction::Average),
    ("mean", AggregateFunction::Average),
    ("min", AggregateFunction::Min),
    ("minimum", AggregateFunction::Min),
    ("max", AggregateFunction::Max),
    ("maximum", AggregateFunction::Max),
    ("median", AggregateFunction::Percentile(0.5)),
    ("percentile", AggregateFunction::Percentile(f64::NAN)),
    ("quantile", AggregateFunction::Percentile(f64::NAN)),
    ("percentile_cont", AggregateFunction::Percentile(f64::NAN)),
    ("quantile_cont", AggregateFunction::Percentile(f64::NAN)),
    ("approx_percentile", AggregateFunction::Percentile(f64::NAN)),
    ("distinct", AggregateFunction::Distinct),
    ("unique", AggregateFunction::Distinct),
    ("count_distinct", AggregateFunction::CountDistinct),
    ("nunique", AggregateFunction::CountDistinct),
    ("uniq", AggregateFunction::CountDistinct),
    ("uniqexact", AggregateFunction::CountDistinct),
    ("dcount", AggregateFunction::CountDistinct),
    ("dc", AggregateFunction::CountDistinct),
    ("approx_count_distinct", AggregateFunction::CountDistinct),
    ("groupuniqarray", AggregateFunction::Distinct),
    ("collect_set", AggregateFunction::Distinct),
    ("make_set", AggregateFunction::Distinct),
    ("argmax", AggregateFunction::MaxRecord),
    ("arg_max", AggregateFunction::MaxRecord),
    ("max_by", AggregateFunction::MaxRecord),
    ("argmin", AggregateFunction::MinRecord),
    ("arg_min", AggregateFunction::MinRecord),
    ("min_by", AggregateFunction::MinRecord),
    ("values", AggregateFunction::Distinct),
];

/// Returns the function with this name. `None` if there is none.
pub(super) fn function(word: &str) -> Option<AggregateFunction> {
    let word = word.to_lowercase();
    if let Some((_, function)) = FUNCTIONS.iter().find(|(name, _)| *name == word) {
        return Some(*function);
    }
    let percent: f64 = word.strip_prefix('p')?.parse().ok()?;
    (word.len() <= 4 && percent <= 100.0).then_some(AggregateFunction::Percentile(percent / 100.0))
}

/// Returns true if a word is the name of a total.
pub(in crate::query) fn is_function(word: &str) -> bool {
    function(word).is_some()
}
