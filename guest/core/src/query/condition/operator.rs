//! The operators of comparisons, as symbols and as words.

use super::Operator;
use crate::query::operand::Operand;
use crate::query::reader::Reader;

/// An operator of a comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Compare(Operator),
    /// Compares days if the value is a day, as words such as `after` do.
    Dated(Operator),
    Unequal,
    Contains,
    /// The list has all elements of an array, or one of them: `@>` and `&&` of SQL.
    Superset,
    Overlap,
    /// The text contains these whole words.
    Has,
    /// The text contains any text of a list, as whole words.
    HasAny,
    /// The text contains all texts of a list, as whole words.
    HasAll,
    StartsWith,
    EndsWith,
    Regex,
    RegexAnyCase,
    EqualAnyCase,
    Glob,
    Like,
    In,
    Between,
    Is,
    Exists,
}

/// Operators that are symbols, and true if they are negated. Longer ones come first, because the
/// first match wins.
pub(super) const SYMBOLS: [(&str, Sign, bool); 24] = [
    ("===", Sign::Compare(Operator::Equal), false),
    ("!==", Sign::Unequal, false),
    (">=", Sign::Compare(Operator::AtLeast), false),
    ("=>", Sign::Compare(Operator::AtLeast), false),
    ("\u{2265}", Sign::Compare(Operator::AtLeast), false),
    ("<=", Sign::Compare(Operator::AtMost), false),
    ("=<", Sign::Compare(Operator::AtMost), false),
    ("\u{2264}", Sign::Compare(Operator::AtMost), false),
    ("<>", Sign::Unequal, false),
    ("!=", Sign::Unequal, false),
    ("\u{2260}", Sign::Unequal, false),
    ("==", Sign::Compare(Operator::Equal), false),
    ("=~", Sign::Regex, false),
    ("~=", Sign::Regex, false),
    ("!~", Sign::Contains, true),
    ("^=", Sign::StartsWith, false),
    ("$=", Sign::EndsWith, false),
    ("*=", Sign::Contains, false),
    ("=", Sign::Compare(Operator::Equal), false),
    (">", Sign::Compare(Operator::More), false),
    ("<", Sign::Compare(Operator::Less), false),
    ("~~", Sign::Like, false),
    ("~", Sign::Contains, false),
    (":", Sign::Compare(Operator::Equal), false),
];

/// Operators that are words, without their forms with `NOT`.
const WORDS: [(&str, Sign); 63] = [
    ("exists", Sign::Exists),
    ("exist", Sign::Exists),
    ("is equal to", Sign::Compare(Operator::Equal)),
    ("equal to", Sign::Compare(Operator::Equal)),
    ("equals", Sign::Compare(Operator::Equal)),
    ("is at least", Sign::Compare(Operator::AtLeast)),
    ("at least", Sign::Compare(Operator::AtLeast)),
    ("is at most", Sign::Compare(Operator::AtMost)),
    ("at most", Sign::Compare(Operator::AtMost)),
    ("is greater than or equal to", Sign::Compare(Operator::AtLeast)),
    ("is less than or equal to", Sign::Compare(Operator::AtMost)),
    ("is greater than", Sign::Compare(Operator::More)),
    ("greater than or equal to", Sign::Compare(Operator::AtLeast)),
    ("greater than", Sign::Compare(Operator::More)),
    ("is more than", Sign::Compare(Operator::More)),
    ("more than", Sign::Compare(Operator::More)),
    ("is less than", Sign::Compare(Operator::Less)),
    ("less than or equal to", Sign::Compare(Operator::AtMost)),
    ("less than", Sign::Compare(Operator::Less)),
    ("fewer than", Sign::Compare(Operator::Less)),
    ("is on or after", Sign::Dated(Operator::AtLeast)),
    ("on or after", Sign::Dated(Operator::AtLeast)),
    ("is on or before", Sign::Dated(Operator::AtMost)),
    ("on or before", Sign::Dated(Operator::AtMost)),
    ("is after", Sign::Dated(Operator::More)),
    ("after", Sign::Dated(Operator::More)),
    ("is before", Sign::Dated(Operator::Less)),
    ("before", Sign::Dated(Operator::Less)),
    ("eq", Sign::Compare(Operator::Equal)),
    ("neq", Sign::Unequal),
    ("ne", Sign::Unequal),
    ("gte", Sign::Compare(Operator::AtLeast)),
    ("ge", Sign::Compare(Operator::AtLeast)),
    ("gt", Sign::Compare(Operator::More)),
    ("lte", Sign::Compare(Operator::AtMost)),
    ("le", Sign::Compare(Operator::AtMost)),
    ("lt", Sign::Compare(Operator::Less)),
    ("is", Sign::Is),
    ("in", Sign::In),
    ("between", Sign::Between),
    ("ilike", Sign::Like),
    ("like", Sign::Like),
    ("glob", Sign::Glob),
    ("regexp", Sign::Regex),
    ("rlike", Sign::Regex),
    ("matches regex", Sign::Regex),
    ("matches", Sign::Regex),
    ("match", Sign::Regex),
    ("contains", Sign::Contains),
    ("has", Sign::Has),
    ("has_any", Sign::HasAny),
    ("has_all", Sign::HasAll),
    ("hasprefix", Sign::StartsWith),
    ("hassuffix", Sign::EndsWith),
    ("starts_with", Sign::StartsWith),
    ("ends_with", Sign::EndsWith),
    ("includes", Sign::Contains),
    ("starts with", Sign::StartsWith),
    ("startswith", Sign::StartsWith),
    ("begins with", Sign::StartsWith),
    ("beginswith", Sign::StartsWith),
    ("ends with", Sign::EndsWith),
    ("endswith", Sign::EndsWith),
];

/// Returns true if a comparison is next.
pub(super) fn is_comparison(reader: &mut Reader<'_>) -> bool {
    let _ = reader.keyword(&["not"]);
    reader.eat("(") || (Operand::read(reader).is_ok() && parse_operator(reader).is_some())
}

/// Operators that ignore case: `~*` of Postgres, and those to which other languages are converted.
const ANY_CASE: [(&str, Sign, bool); 3] = [
    ("!~*", Sign::RegexAnyCase, true),
    ("~*", Sign::RegexAnyCase, false),
    ("==*", Sign::EqualAnyCase, false),
];

/// Reads an operator that ignores case, such as `~*`. `None` if none follows: a star before a word
/// is a wildcard.
fn any_case(reader: &mut Reader<'_>) -> Option<(Sign, bool)> {
    let rest = reader.rest().trim_start();
    let (symbol, sign, is_negated) = ANY_CASE.iter().find(|(symbol, ..)| {
        let after = rest.strip_prefix(symbol);
        after.is_some_and(|after| after.starts_with([' ', '\'', '"']))
    })?;
    reader.eat(symbol).then_some((*sign, *is_negated))
}

/// Returns true if `&&` and an array of SQL are next. Elsewhere, `&&` is AND.
pub(super) fn overlaps(reader: &Reader<'_>) -> bool {
    let mut rest = reader.clone();
    rest.eat("&&") && rest.keyword(&["array"]).is_some() && rest.eat("[")
}

/// Parses a comparison operator. Returns it, and true if it is negated. `None` if no operator
/// follows.
pub(super) fn parse_operator(reader: &mut Reader<'_>) -> Option<(Sign, bool)> {
    let start = reader.position();
    if let Some(found) = any_case(reader) {
        return Some(found);
    }
    if reader.eat("@>") {
        return Some((Sign::Superset, false));
    }
    if overlaps(reader) && reader.eat("&&") {
        return Some((Sign::Overlap, false));
    }
    if let Some((_, found, negated)) = SYMBOLS.iter().find(|(symbol, ..)| reader.eat(symbol)) {
        if reader.since(start) == ":" {
            // `age:>60`, as search engines write it.
            let symbols = SYMBOLS.iter().filter(|(symbol, ..)| *symbol != ":" && *symbol != "~~");
            let mut symbols = symbols;
            if let Some((_, found, negated)) = symbols.find(|(symbol, ..)| reader.eat(symbol)) {
                return Some((*found, *negated));
            }
        }
        return Some((*found, *negated));
    }
    // `!contains`, as KQL writes it.
    let is_bang = reader.eat("!");
    let is_not = reader.keyword(&["not", "does not", "is not"]);
    if let Some((_, found)) = WORDS.iter().find(|(word, _)| reader.keyword(&[word]).is_some()) {
        return Some((*found, is_not.is_some() || is_bang));
    }
    if is_bang {
        reader.reset(start);
        return None;
    }
    if matches!(is_not, Some("is not")) {
        return Some((Sign::Is, true));
    }
    if reader.keyword(&["equal", "contain", "match"]).is_some() && is_not.is_some() {
        let word = reader.since(start).to_lowercase();
        let found = match () {
            () if word.ends_with("equal") => Sign::Compare(Operator::Equal),
            () if word.ends_with("contain") => Sign::Contains,
            () => Sign::Regex,
        };
        return Some((found, true));
    }
    reader.reset(start);
    None
}
