//! The names of totals.

use super::total::{AggregateFunction, Spread};

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

const SAMPLE_DEVIATION: Spread = Spread { is_squared: false, is_sample: true };
const SAMPLE_VARIANCE: Spread = Spread { is_squared: true, is_sample: true };

/// The names of measures of spread. Names that do not say whether the values are a sample denote
/// one, as in PostgreSQL, pandas, R and spreadsheets; in MySQL and NumPy they do not.
const SPREADS: [(&[&str], Spread); 6] = [
    (&["stddev", "stdev", "std", "std_dev", "sd", "standard_deviation"], SAMPLE_DEVIATION),
    (&["stddev_samp", "stdev_samp", "stddevsamp"], SAMPLE_DEVIATION),
    (
        &["stddev_pop", "stddevpop", "stdevp", "stdev_p", "pstdev", "stdevpop"],
        Spread { is_squared: false, is_sample: false },
    ),
    (&["variance", "var"], SAMPLE_VARIANCE),
    (&["var_samp", "variance_samp", "varsamp"], SAMPLE_VARIANCE),
    (
        &["var_pop", "variance_pop", "varpop", "varp", "pvariance", "variancep"],
        Spread { is_squared: true, is_sample: false },
    ),
];

/// Returns a note for a total whose name does not say whether the values are a sample. `verbatim`
/// is the total as it was written.
pub(super) fn spread_note(verbatim: &str) -> Option<String> {
    let word = verbatim.split('(').next()?;
    let name = word.to_lowercase();
    let (_, spread) = SPREADS.iter().find(|(names, _)| names.contains(&name.as_str()))?;
    let is_open = spread.is_sample && !name.contains("samp");
    let other = if spread.is_squared { "var_pop" } else { "stddev_pop" };
    is_open.then(|| format!("{word} is of a sample (divided by n - 1); {other} divides by n"))
}

/// Returns the function with this name. `None` if there is none.
pub(super) fn function(word: &str) -> Option<AggregateFunction> {
    let word = word.to_lowercase();
    if let Some((_, function)) = FUNCTIONS.iter().find(|(name, _)| *name == word) {
        return Some(*function);
    }
    if let Some((_, spread)) = SPREADS.iter().find(|(names, _)| names.contains(&word.as_str())) {
        return Some(AggregateFunction::Spread(*spread));
    }
    let percent: f64 = word.strip_prefix('p')?.parse().ok()?;
    (word.len() <= 4 && percent <= 100.0).then_some(AggregateFunction::Percentile(percent / 100.0))
}

/// Returns true if a word is the name of a total.
pub(in crate::query) fn is_function(word: &str) -> bool {
    function(word).is_some()
}
