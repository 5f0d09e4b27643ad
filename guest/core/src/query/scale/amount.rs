//! Amounts: numbers with a unit, and amounts of money.

use super::super::value::Number;
use super::duration::iso_duration;

/// The units of storage with their factors. Includes the abbreviations that tools write.
const BYTES: &[(&str, f64)] = &[
    ("", 1.0),
    ("b", 1.0),
    ("byte", 1.0),
    ("bytes", 1.0),
    ("k", 1e3),
    ("kb", 1e3),
    ("ki", 1_024.0),
    ("kib", 1_024.0),
    ("M", 1e6),
    ("mb", 1e6),
    ("mi", 1_048_576.0),
    ("mib", 1_048_576.0),
    ("g", 1e9),
    ("gb", 1e9),
    ("gi", 1_073_741_824.0),
    ("gib", 1_073_741_824.0),
    ("t", 1e12),
    ("tb", 1e12),
    ("ti", 1_099_511_627_776.0),
    ("tib", 1_099_511_627_776.0),
    ("pi", 1_125_899_906_842_624.0),
    ("pb", 1e15),
];
/// The units of time, with their factors in seconds.
const DURATIONS: &[(&str, f64)] = &[
    ("ns", 1e-9),
    ("us", 1e-6),
    ("\u{b5}s", 1e-6),
    ("\u{3bc}s", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("sec", 1.0),
    ("secs", 1.0),
    ("second", 1.0),
    ("seconds", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("mins", 60.0),
    ("minute", 60.0),
    ("minutes", 60.0),
    ("h", 3_600.0),
    ("hr", 3_600.0),
    ("hrs", 3_600.0),
    ("hour", 3_600.0),
    ("hours", 3_600.0),
    ("d", 86_400.0),
    ("day", 86_400.0),
    ("days", 86_400.0),
    ("w", 604_800.0),
    ("wk", 604_800.0),
    ("week", 604_800.0),
    ("weeks", 604_800.0),
    ("month", 2_629_746.0),
    ("months", 2_629_746.0),
    ("y", 31_556_952.0),
    ("yr", 31_556_952.0),
    ("year", 31_556_952.0),
    ("years", 31_556_952.0),
];
/// The units of mass, with their factors in grams. Tonnes have the sign of a number, too.
const MASSES: &[(&str, f64)] = &[
    ("mg", 1e-3),
    ("g", 1.0),
    ("gram", 1.0),
    ("grams", 1.0),
    ("kg", 1e3),
    ("kgs", 1e3),
    ("t", 1e6),
    ("oz", 28.349_523_125),
    ("lb", 453.592_37),
    ("lbs", 453.592_37),
];
/// The units of length, with their factors in metres.
const LENGTHS: &[(&str, f64)] = &[
    ("nm", 1e-9),
    ("\u{b5}m", 1e-6),
    ("\u{3bc}m", 1e-6),
    ("mm", 1e-3),
    ("cm", 1e-2),
    ("dm", 1e-1),
    ("m", 1.0),
    ("km", 1e3),
    ("in", 0.025_4),
    ("ft", 0.304_8),
    ("yd", 0.914_4),
    ("mi", 1_609.344),
    ("miles", 1_609.344),
];
/// The units of volume, with their factors in litres.
const VOLUMES: &[(&str, f64)] =
    &[("ml", 1e-3), ("cl", 1e-2), ("dl", 1e-1), ("l", 1.0), ("hl", 1e2)];
/// The units of frequency, with their factors in hertz.
const FREQUENCIES: &[(&str, f64)] = &[("hz", 1.0), ("khz", 1e3), ("mhz", 1e6), ("ghz", 1e9)];
/// The suffixes of quantities with their factors: thousandths as in Kubernetes, thousands and
/// millions.
const QUANTITIES: &[(&str, f64)] = &[
    ("", 1.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("b", 1e9),
    ("bn", 1e9),
    ("g", 1e9),
    ("t", 1e12),
];
const ORDINALS: [&str; 4] = ["st", "nd", "rd", "th"];
const MAX_UNIT_CHARS: usize = 8;

/// The units of the amounts of a field.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::query) enum Units {
    /// One unit, which all amounts have.
    Same(String),
    /// Several units of one kind, with their factors.
    Table(&'static [(&'static str, f64)]),
}

impl Units {
    /// Returns the units to which all of `units` belong. `None` if they are not of one kind.
    pub(super) fn unify<'u>(units: impl Iterator<Item = &'u str> + Clone) -> Option<Self> {
        let first = units.clone().next()?;
        if units.clone().all(|unit| unit == first) {
            return Some(Self::Same(first.to_owned()));
        }
        let is_in = |table: &[(&str, f64)]| {
            units.clone().all(|unit| table.iter().any(|(known, _)| *known == unit))
        };
        // Beside a letter alone, `b` may be a byte or a billion.
        let is_unclear = units.clone().any(|unit| unit == "b")
            && units.clone().any(|unit| ["k", "M", "g", "t"].contains(&unit));
        // Grams and tonnes, or thousands of millions of bytes.
        let is_unclear = is_unclear || units.clone().all(|unit| ["g", "t"].contains(&unit));
        let tables = [BYTES, DURATIONS, QUANTITIES, MASSES, LENGTHS, VOLUMES, FREQUENCIES];
        tables.into_iter().find(|table| is_in(table)).filter(|_| !is_unclear).map(Self::Table)
    }

    /// Returns an amount in the base unit. `None` if its unit does not belong to these units.
    pub(super) fn scaled(&self, number: f64, unit: &str) -> Option<f64> {
        match self {
            Units::Same(own) => (own == unit).then_some(number),
            Units::Table(table) => {
                let (_, factor) = table.iter().find(|(known, _)| *known == unit)?;
                Some(number * factor)
            }
        }
    }

    /// Returns the units for comparing values with an amount in `unit`, if the units of the values
    /// are unknown.
    pub(super) fn beside(unit: &str) -> Self {
        let find = |table: &&'static [(&str, f64)]| {
            unit != "m" && unit != "b" && table.iter().any(|(known, _)| *known == unit)
        };
        let table = [BYTES, DURATIONS].into_iter().find(find);
        table.map_or_else(|| Self::Same(unit.to_owned()), Self::Table)
    }
}

/// Returns true if a unit, as it is written, is a multiple of bytes.
pub(super) fn is_multiple_of_bytes(unit: &str) -> bool {
    let unit = unit.to_lowercase();
    BYTES.iter().any(|(known, factor)| *known == unit && *factor > 1.0)
}

/// Returns the number and the unit of an amount such as `16Gi`, `250 ms`, `3d4h`, `45%`, `2nd` or
/// `9:30`. `None` for other texts.
pub(super) fn amount(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let text = text.strip_suffix(" ago").unwrap_or(text);
    let minus = text.strip_prefix('\u{2212}').map(|rest| format!("-{rest}"));
    let text = minus.as_deref().unwrap_or(text);
    if let Some(seconds) = iso_duration(text) {
        return Some((seconds, "s".to_owned()));
    }
    if let Some(found) = clock(text).or_else(|| composite(text)) {
        return Some(found);
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && !"-.,+".contains(c))?;
    let (digits, unit) = text.split_at_checked(end)?;
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    let number = grouped_number(digits, false).or_else(|| grouped_number(digits, true))?;
    Some((number.parse().ok()?, unit_name(unit.trim())?))
}

/// Returns the seconds of a duration such as `36 hours`, `2d` or `1h30m`. `None` for other texts,
/// and for a clock time.
pub(in crate::query) fn duration(text: &str) -> Option<f64> {
    let (number, unit) = amount(text)?;
    let (_, factor) = DURATIONS.iter().find(|(known, _)| *known == unit)?;
    (!text.contains(':')).then_some(number * factor)
}

/// Returns the name of a unit as the tables spell it. `None` if the text is not a unit.
fn unit_name(unit: &str) -> Option<String> {
    // A rate is compared by its amount.
    let unit = unit.strip_suffix("/s").unwrap_or(unit);
    let is_unit = !unit.is_empty()
        && unit.chars().count() <= MAX_UNIT_CHARS
        && !unit.starts_with('/')
        && !unit.ends_with('/')
        && unit.chars().all(|c| c.is_alphabetic() || "%\u{b0}\u{b2}\u{b3}/".contains(c));
    // `m` is a thousandth or a minute, `M` a million.
    let name = if unit == "M" { unit.to_owned() } else { unit.to_lowercase() };
    is_unit.then(|| if ORDINALS.contains(&name.as_str()) { "th".to_owned() } else { name })
}

/// Reads a duration of several units, such as `3d4h` or `1 hour 5 minutes`. Returns it in seconds.
fn composite(text: &str) -> Option<(f64, String)> {
    let (mut rest, mut seconds, mut parts) = (text, 0.0, 0);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, after) = rest.split_at_checked(end)?;
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end)?;
        let (_, factor) = DURATIONS.iter().find(|(known, _)| *known == unit)?;
        seconds += digits.parse::<f64>().ok()? * factor;
        parts += 1;
        rest = after.trim_start_matches([' ', ',']);
    }
    (parts > 1).then(|| (seconds, "s".to_owned()))
}

/// Returns the seconds since midnight of `10:30`, `10:30:05` or `10:30 PM`. `None` for other texts.
pub(super) fn time_of_day(text: &str) -> Option<f64> {
    let (time, unit) = clock(text.trim())?;
    let seconds = if unit == ":" { time * 60.0 } else { time };
    (seconds < 86_400.0).then_some(seconds)
}

/// Reads a time of day, or a duration with colons. The unit consists of the colons in its form,
/// such as `:` for `9:30`.
fn clock(text: &str) -> Option<(f64, String)> {
    let lower = text.to_lowercase().replace(',', ".");
    let (text, half) = match lower.strip_suffix("am").or_else(|| lower.strip_suffix("pm")) {
        Some(rest) => (rest.trim_end(), Some(lower.ends_with("pm"))),
        None => (lower.as_str(), None),
    };
    let parts: Vec<&str> = text.split(':').collect();
    let is_part = |part: &&str| {
        let whole = part.split('.').next().unwrap_or_default();
        (1..=6).contains(&whole.len()) && part.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    };
    if !(2..=3).contains(&parts.len()) || !parts.iter().all(is_part) {
        return None;
    }
    let mut seconds = 0.0;
    for part in &parts {
        seconds = seconds * 60.0 + part.parse::<f64>().ok()?;
    }
    let unit = ":".repeat(parts.len() - 1);
    let hour = if parts.len() == 2 { 60.0 } else { 3_600.0 };
    let seconds = match half {
        Some(is_late) => seconds % (12.0 * hour) + if is_late { 12.0 * hour } else { 0.0 },
        None => seconds,
    };
    Some((seconds, unit))
}

/// Converts a number with thousands separators to JSON: `1,234.5`, or `1.234,5` if `has_comma`.
/// `None` for other texts.
pub(super) fn grouped_number(text: &str, has_comma: bool) -> Option<String> {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (group, decimal) = if has_comma { ('.', ',') } else { (',', '.') };
    let (whole, fraction) = digits.split_once(decimal).unwrap_or((digits, ""));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if digits.contains(decimal) && !is_digits(fraction) {
        return None;
    }
    let is_group = |c: char| c == group || " \u{a0}\u{202f}'\u{2019}".contains(c);
    let groups: Vec<&str> = whole.split(is_group).collect();
    let (first, rest) = groups.split_first()?;
    let is_grouped = rest.iter().enumerate().all(|(at, part)| {
        is_digits(part) && (part.len() == 3 || (part.len() == 2 && at + 1 < rest.len()))
    });
    if !is_digits(first) || !is_grouped || (!rest.is_empty() && first.len() > 3) {
        return None;
    }
    let fraction = if fraction.is_empty() { String::new() } else { format!(".{fraction}") };
    Some(format!("{sign}{}{fraction}", groups.concat()))
}

/// An amount of money, or a number with thousands separators.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Money {
    pub(super) number: Number,
    /// The symbol or code of the currency. Empty without one.
    pub(super) currency: String,
    /// True if the amount is in parentheses, as accounting writes negative amounts.
    pub(super) has_parentheses: bool,
}

/// The symbols of currencies.
const SIGNS: &str = "$\u{20ac}\u{a3}\u{a5}\u{20b9}\u{20bd}\u{20a9}\u{20ab}\u{20aa}\u{20b4}\u{20a6}\u{e3f}\u{20ba}\u{20b1}";
const CODES: [&str; 24] = [
    "AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF", "ILS", "INR",
    "JPY", "KRW", "MXN", "NOK", "NZD", "PLN", "SEK", "SGD", "TRY", "USD", "ZAR",
];
/// The words for powers of ten, with their exponents.
const MAGNITUDES: [(&str, &str); 7] =
    [("k", "3"), ("K", "3"), ("M", "6"), ("bn", "9"), ("B", "9"), ("T", "12"), ("m", "6")];

/// Returns true if the decimal separator is a comma, false if it is a dot. `None` if there is none,
/// or if both are possible.
pub(super) fn decimal_comma(text: &str) -> Option<bool> {
    let last = text.rfind([',', '.'])?;
    let decimals = text.get(last + 1..)?.bytes().take_while(u8::is_ascii_digit).count();
    let is_comma = text.get(last..)?.starts_with(',');
    let has_both = text.contains(',') && text.contains('.');
    (has_both || decimals != 3).then_some(is_comma)
}

/// Reads an amount of money or a number: `$1,234.50`, `USD 5`, `-$5`, or `9,99 €` if `has_comma`.
/// `None` for other texts.
pub(super) fn money(text: &str, has_comma: bool) -> Option<Money> {
    let text = text.trim();
    if text.len() > 40 {
        return None;
    }
    let is_exponent = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    if text.contains(['e', 'E']) && text.chars().all(is_exponent) {
        let number = Number::parse(text).filter(|number| number.float.is_finite())?;
        return Some(Money { number, currency: String::new(), has_parentheses: false });
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    let in_parentheses = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let (inner, is_negative) = match in_parentheses {
        // `(1)` is the mark of a note or of an element of a list.
        Some(inner) if inner.contains('-') || inner.bytes().all(|b| b.is_ascii_digit()) => {
            return None;
        }
        Some(inner) => (inner, true),
        None => text.strip_prefix(['-', '\u{2212}']).map_or((text, false), |text| (text, true)),
    };
    let start = inner.find(|c: char| c.is_ascii_digit() || c == '-')?;
    let (before, rest) = inner.split_at_checked(start)?;
    let end = rest.rfind(|c: char| c.is_ascii_digit())? + 1;
    let (digits, after) = rest.split_at_checked(end)?;
    let currency_of = |name: &str| -> Option<String> {
        let name = name.trim();
        let is_sign = !name.is_empty()
            && name.chars().filter(|c| SIGNS.contains(*c)).count() == 1
            && name.chars().all(|c| SIGNS.contains(c) || c.is_ascii_uppercase())
            && name.chars().count() <= 3;
        let is_code = CODES.contains(&name);
        (is_sign || is_code).then(|| match name {
            "EUR" => "\u{20ac}".to_owned(),
            "GBP" => "\u{a3}".to_owned(),
            "US$" => "USD".to_owned(),
            name => name.to_owned(),
        })
    };
    let before = before.trim();
    let mut after = after.trim();
    let mut exponent = None;
    let has_sign = !before.is_empty();
    let magnitude = MAGNITUDES.iter().find(|(name, _)| after == *name).filter(|_| has_sign);
    if let Some((_, found)) = magnitude {
        (exponent, after) = (Some(found), "");
    }
    let currency = match (before, after) {
        ("", "") => String::new(),
        (name, "") | ("", name) => currency_of(name)?,
        _ => return None,
    };
    let number = grouped_number(digits, has_comma)?;
    // A product of 8.2 is not exact.
    let number = match exponent {
        Some(exponent) => format!("{number}e{exponent}").parse::<f64>().ok()?.to_string(),
        None => number,
    };
    let number = if is_negative { format!("-{}", number.trim_start_matches('-')) } else { number };
    let has_parentheses = in_parentheses.is_some();
    Some(Money { number: Number::parse(&number)?, currency, has_parentheses })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_a_number_and_a_unit() {
        for (text, expected) in [
            ("16Gi", Some((16.0, "gi"))),
            ("1,024 MB", Some((1_024.0, "mb"))),
            ("\u{2212}15 m", Some((-15.0, "m"))),
            ("3d4h", Some((273_600.0, "s"))),
            ("2 days ago", Some((2.0, "days"))),
            ("45.5%", Some((45.5, "%"))),
            ("12,5 %", Some((12.5, "%"))),
            ("1.5 MB/s", Some((1.5, "mb"))),
            ("9:30 PM", Some((1_290.0, ":"))),
            ("21st", Some((21.0, "th"))),
            ("300 m\u{b2}", Some((300.0, "m\u{b2}"))),
            ("50 km/h", Some((50.0, "km/h"))),
            ("5 /s", None),
            ("12 Main Street", None),
            ("v1", None),
            ("1.2.3", None),
            ("12", None),
        ] {
            let expected = expected.map(|(number, unit): (f64, &str)| (number, unit.to_owned()));
            assert_eq!(amount(text), expected, "{text}");
        }
    }

    #[test]
    fn units_of_one_kind_have_one_scale() {
        let unify = |units: &[&str]| Units::unify(units.iter().copied());
        assert_eq!(unify(&["gi", "mb", ""]), Some(Units::Table(BYTES)));
        assert_eq!(unify(&["m", "h"]), Some(Units::Table(DURATIONS)));
        assert_eq!(unify(&["m", ""]), Some(Units::Table(QUANTITIES)));
        assert_eq!(unify(&["b", "M"]), None);
        assert_eq!(unify(&["kg", "ml"]), None);
    }

    #[test]
    fn money_is_a_number_with_a_currency() {
        for (text, has_comma, expected) in [
            ("$1,234.50", false, Some((1_234.5, "$"))),
            ("-$5", false, Some((-5.0, "$"))),
            ("(5.00)", false, Some((-5.0, ""))),
            ("($5)", false, Some((-5.0, "$"))),
            ("(5)", false, None),
            ("(-5.0)", false, None),
            ("9,99 €", true, Some((9.99, "€"))),
            ("1.234,50", true, Some((1_234.5, ""))),
            ("EUR 12", false, Some((12.0, "€"))),
            ("$1.5M", false, Some((1.5e6, "$"))),
            ("$8.2M", false, Some((8_200_000.0, "$"))),
            ("1,23,456", false, Some((123_456.0, ""))),
            ("+5", false, Some((5.0, ""))),
            ("2.5e3", false, Some((2_500.0, ""))),
            ("1,2", false, None),
            ("12 kg", false, None),
            ("$", false, None),
        ] {
            let found = money(text, has_comma).map(|money| (money.number.float, money.currency));
            let expected = expected.map(|(number, unit): (f64, &str)| (number, unit.to_owned()));
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(decimal_comma("9,99"), Some(true));
        assert_eq!(decimal_comma("1,234.50"), Some(false));
        assert_eq!(decimal_comma("1,234"), None);
    }
}
