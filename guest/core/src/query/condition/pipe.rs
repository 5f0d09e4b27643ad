//! The sign `|` between conditions, which languages read differently.

use crate::query::code::outside_quotes;
use crate::query::operand::Operand;
use crate::query::order::stage_follows;
use crate::query::reader::Reader;

/// Reads `|` between alternatives. False if there is none, or if the `|` begins a stage.
pub(super) fn eat_alternative(reader: &mut Reader<'_>) -> bool {
    let is_other = reader.rest().trim_start().starts_with("||") || stage_follows(reader);
    !is_other && reader.eat("|")
}

/// Reads `|` between conditions. False if there is none, or if it begins a stage.
pub(super) fn eat_or(reader: &mut Reader<'_>) -> Result<bool, String> {
    let is_next = eat_alternative(reader);
    if is_next {
        check_pipe(reader, None)?;
    }
    Ok(is_next)
}

/// Returns an error if a `|` before the reader may mean AND. Languages of logs, whose comparisons
/// have one `=`, write a further condition after it. It is OR between parentheses, beside `==`, and
/// between comparisons of the field `left`.
pub(super) fn check_pipe(reader: &Reader<'_>, left: Option<&Operand>) -> Result<(), String> {
    let text = reader.whole();
    let is_group = |text: &str| text.trim_start().starts_with('(');
    let signs: Vec<(usize, char)> = outside_quotes(text).collect();
    let is_single = |at: usize| {
        let sign = |at: Option<usize>| at.and_then(|at| signs.get(at)).map(|(_, sign)| *sign);
        sign(Some(at)) == Some('=')
            && !sign(at.checked_sub(1)).is_some_and(|sign| "=!<>~^$*:".contains(sign))
            && !sign(Some(at + 1)).is_some_and(|sign| "=>".contains(sign))
    };
    let next = Operand::read(&mut reader.clone()).ok();
    let is_same = left.zip(next).is_some_and(|(left, next)| left.name == next.name);
    if is_same || is_group(text) || is_group(reader.rest()) || !(0..signs.len()).any(is_single) {
        return Ok(());
    }
    Err(reader.error(
        "| between comparisons means OR in some languages, and AND in others: write OR, or AND",
    ))
}
