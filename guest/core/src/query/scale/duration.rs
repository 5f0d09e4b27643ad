//! Durations of ISO 8601, such as `PT8H15M` and `P1DT2H`.

/// The letters of the date part, in order, with their seconds.
const DATE: [(char, f64); 4] =
    [('Y', 31_556_952.0), ('M', 2_629_746.0), ('W', 604_800.0), ('D', 86_400.0)];
const TIME: [(char, f64); 3] = [('H', 3_600.0), ('M', 60.0), ('S', 1.0)];

/// Returns the seconds of an ISO 8601 duration. `None` for other texts.
pub(super) fn iso_duration(text: &str) -> Option<f64> {
    let (sign, text) = text.strip_prefix('-').map_or((1.0, text), |text| (-1.0, text));
    let (days, time) = match text.strip_prefix('P')?.split_once('T') {
        Some((days, time)) => (days, Some(time)),
        None => (text.strip_prefix('P')?, None),
    };
    // At least one part follows `P`, and also `T`.
    let has_part = !days.is_empty() || time.is_some();
    if !has_part || time == Some("") {
        return None;
    }
    Some(sign * (sum(days, &DATE)? + sum(time.unwrap_or_default(), &TIME)?))
}

/// Returns the sum, in seconds, of numbers followed by letters of `units`, in their order. `None`
/// for other texts.
fn sum(mut text: &str, units: &[(char, f64)]) -> Option<f64> {
    let (mut seconds, mut left) = (0.0, units.iter());
    while !text.is_empty() {
        let end = text.find(|c: char| !c.is_ascii_digit() && !".,".contains(c))?;
        let (digits, rest) = text.split_at_checked(end)?;
        let letter = rest.chars().next()?;
        let (_, factor) = left.find(|(known, _)| *known == letter)?;
        seconds += digits.replace(',', ".").parse::<f64>().ok()? * factor;
        text = rest.get(letter.len_utf8()..)?;
    }
    Some(seconds)
}

#[cfg(test)]
mod tests {
    use super::iso_duration;

    #[test]
    fn durations_are_seconds() {
        for (text, expected) in [
            ("PT9H", Some(32_400.0)),
            ("PT8H15M", Some(29_700.0)),
            ("P1DT2H", Some(93_600.0)),
            ("PT0.5S", Some(0.5)),
            ("-PT1M", Some(-60.0)),
            ("P2W", Some(1_209_600.0)),
            ("P1M", Some(2_629_746.0)),
            ("PT", None),
            ("P", None),
            ("P1DT", None),
            ("PT1M1H", None),
            ("P5", None),
            ("PT6X", None),
        ] {
            assert_eq!(iso_duration(text), expected, "{text}");
        }
    }
}
