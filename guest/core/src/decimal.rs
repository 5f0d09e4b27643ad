//! Exact sums, comparisons and operations of decimal numbers. Floating point would show `0.1 + 0.2`
//! as `0.30000000000000004`.

use std::cmp::Ordering;

/// Number of decimal places up to which sums are exact.
const EXACT_DECIMAL_PLACES: u32 = 18;

/// One in units of the last exact decimal place.
const ONE: i128 = 10i128.pow(EXACT_DECIMAL_PLACES);

/// The number of digits of a rounded number: those that a double has at least.
const SIGNIFICANT_DIGITS: usize = 15;

/// The maximum absolute value of an exponent that is read exactly.
const MAX_EXPONENT: i32 = 40;

/// The maximum number of digits of a number that always fits 64 bits.
const MAX_SHORT_DIGITS: usize = 19;

/// The powers of ten that fit 128 bits.
#[allow(clippy::indexing_slicing, reason = "evaluated at compile time")]
const POWERS: [i128; 39] = {
    let mut powers = [1; 39];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// Returns a power of ten. `None` if it does not fit 128 bits.
fn power_of_ten(exponent: u32) -> Option<i128> {
    POWERS.get(usize::try_from(exponent).ok()?).copied()
}

/// Reads digits. `None` if there are none or other characters, or if the number is too large.
fn digits(text: &str) -> Option<i128> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Numbers of 128 bits are slow to read.
    match text.len() {
        ..=MAX_SHORT_DIGITS => text.parse::<u64>().ok().map(i128::from),
        _ => text.parse().ok(),
    }
}

/// A sum of decimal numbers. It is exact while all numbers have at most 18 decimal places, and the
/// sum fits 128 bits. After that it is a floating-point number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sum {
    Exact(i128),
    Float(f64),
}

impl Default for Sum {
    fn default() -> Self {
        Sum::Exact(0)
    }
}

impl Sum {
    /// Adds a number, given as text. Returns false, and adds nothing, if the text is not a number.
    pub(crate) fn add(&mut self, number: &str) -> bool {
        // Rust parses `inf` and `NaN`, which are not JSON numbers.
        if !number.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
            return false;
        }
        let Some(number) = Number::parse(number) else { return false };
        self.add_number(number);
        true
    }

    /// Adds a number.
    pub(crate) fn add_number(&mut self, number: Number) {
        *self = match (*self, number.exact) {
            (Sum::Exact(sum), Some(exact)) => match sum.checked_add(exact) {
                Some(sum) => Sum::Exact(sum),
                None => Sum::Float(Sum::Exact(sum).float() + number.float),
            },
            (sum, _) => Sum::Float(sum.float() + number.float),
        };
    }

    /// Returns the sum divided by a count as a JSON number. It has 15 significant digits, or more
    /// if its whole part has more. `None` if it is not finite.
    #[allow(clippy::cast_precision_loss, reason = "a sum that is no longer exact")]
    pub(crate) fn average(self, count: u64) -> Option<String> {
        let exact = match self {
            Sum::Exact(sum) => quotient(sum, i128::from(count)),
            Sum::Float(_) => None,
        };
        exact.or_else(|| rounded(self.float() / count as f64))
    }

    /// Returns the sum divided by a count, to 18 decimal places if the sum is exact. The sum itself
    /// for a count of 0.
    #[allow(clippy::cast_precision_loss, reason = "a sum that is no longer exact")]
    pub(crate) fn mean(self, count: u64) -> Self {
        match self {
            Sum::Exact(sum) => Sum::Exact(sum.checked_div(i128::from(count)).unwrap_or(sum)),
            Sum::Float(sum) => Sum::Float(sum / count.max(1) as f64),
        }
    }

    /// Returns the sum for a reader: with four decimal places, or four significant digits below 1.
    pub(crate) fn short(self) -> String {
        let float = self.float();
        if float != 0.0 && float.abs() < 1.0 {
            let rounded: f64 = format!("{float:.3e}").parse().unwrap_or(float);
            return rounded.to_string();
        }
        match self {
            Sum::Exact(sum) => {
                let step = ONE / 10_000;
                let half = if sum < 0 { -step / 2 } else { step / 2 };
                Sum::Exact(sum.checked_add(half).map_or(sum, |sum| sum / step * step)).to_string()
            }
            Sum::Float(float) => {
                let text = format!("{float:.4}");
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "the number is about to be a float")]
    pub(crate) fn float(self) -> f64 {
        match self {
            Sum::Exact(sum) => sum as f64 / 1e18,
            Sum::Float(sum) => sum,
        }
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Sum::Exact(sum) => {
                let (whole, part) = (sum / ONE, (sum % ONE).unsigned_abs());
                let sign = if *sum < 0 && whole == 0 { "-" } else { "" };
                write!(f, "{sign}{whole}")?;
                let digits = format!("{part:018}");
                let digits = digits.trim_end_matches('0');
                if digits.is_empty() { Ok(()) } else { write!(f, ".{digits}") }
            }
            Sum::Float(sum) if sum.is_finite() => write!(f, "{sum}"),
            Sum::Float(_) => write!(f, "null"),
        }
    }
}

/// Returns a finite number, rounded to 15 significant digits, as JSON. Further digits of a double
/// differ from those of the exact result.
fn rounded(number: f64) -> Option<String> {
    let rounded: f64 = format!("{number:.14e}").parse().unwrap_or(number);
    rounded.is_finite().then(|| rounded.to_string())
}

/// Returns a quotient as JSON. `None` if fewer than 15 significant digits of it would be exact.
fn quotient(sum: i128, count: i128) -> Option<String> {
    let value = sum.checked_div(count)?;
    let rest = sum.checked_rem(count)?;
    let whole = (value / ONE).unsigned_abs();
    if rest == 0 && value % ONE == 0 {
        return Some(Sum::Exact(value).to_string());
    }
    if whole == 0 {
        return None;
    }
    let digits = whole.to_string().len();
    let places = u32::try_from(SIGNIFICANT_DIGITS.saturating_sub(digits).max(2)).ok()?;
    let step = 10i128.pow(EXACT_DECIMAL_PLACES.saturating_sub(places));
    let half = if sum < 0 { -step / 2 } else { step / 2 };
    Some(Sum::Exact(value.checked_add(half)? / step * step).to_string())
}

/// Returns the exact result of an operation on numbers in units of their 18th decimal place. `None`
/// if it is not exact, or too large.
fn computed(operator: char, left: i128, right: i128) -> Option<i128> {
    match operator {
        '+' => left.checked_add(right),
        '-' => left.checked_sub(right),
        '*' if right % ONE == 0 => left.checked_mul(right / ONE),
        '*' if left % ONE == 0 => right.checked_mul(left / ONE),
        '*' => left.checked_mul(right).filter(|product| product % ONE == 0).map(|it| it / ONE),
        '/' if right != 0 && left % right == 0 => (left / right).checked_mul(ONE),
        '%' => left.checked_rem(right),
        _ => None,
    }
}

/// Returns a number in units of its 18th decimal place. `None` if it has more decimal places, a
/// large exponent, or is too large.
fn decimal(number: &str) -> Option<i128> {
    let (sign, text) = number.strip_prefix('-').map_or((1, number), |text| (-1, text));
    let (text, exponent) = match text.split_once(['e', 'E']) {
        Some((text, exponent)) => (text, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part = if exponent == 0 { part } else { part.trim_end_matches('0') };
    let mut value = digits(whole)?;
    if !part.is_empty() {
        let places = u32::try_from(part.len()).ok()?;
        value = value.checked_mul(power_of_ten(places)?)?.checked_add(digits(part)?)?;
    }
    // The number of zeros to append, or to remove if negative.
    let places = i32::try_from(EXACT_DECIMAL_PLACES).ok()? - i32::try_from(part.len()).ok()?;
    let shift = places + Some(exponent).filter(|exponent| exponent.abs() <= MAX_EXPONENT)?;
    let factor = power_of_ten(shift.unsigned_abs());
    let scaled = match (shift >= 0, factor) {
        _ if value == 0 => 0,
        (true, Some(factor)) => value.checked_mul(factor)?,
        (false, Some(factor)) if value % factor == 0 => value / factor,
        _ => return None,
    };
    Some(sign * scaled)
}

/// A number. Comparisons and operations are exact while both sides have at most 18 decimal places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Number {
    pub(crate) float: f64,
    exact: Option<i128>,
}

impl Number {
    /// Parses any number that a document may contain, such as `-1.5e3` or `NaN`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let float = text.parse::<f64>().ok()?;
        Some(Self { float, exact: decimal(text) })
    }

    /// Parses a number that JSON writers would produce. `007`, `+5`, `1e5` and `inf` are texts,
    /// because they may be identifiers.
    pub(crate) fn parse_plain(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let has_zero = whole.len() > 1 && whole.starts_with('0');
        (is_digits(whole) && is_digits(fraction) && !has_zero).then(|| Self::parse(text)).flatten()
    }

    /// Returns a number with the value of a double.
    pub(crate) fn of_float(float: f64) -> Self {
        Self { float, exact: None }
    }

    /// Returns the result of `+`, `-`, `*`, `/` or `%`. `None` if it is not finite.
    pub(crate) fn computed(self, operator: char, other: Self) -> Option<Self> {
        let exact = self.exact.zip(other.exact);
        if let Some(exact) = exact.and_then(|(left, right)| computed(operator, left, right)) {
            return Some(Self { float: Sum::Exact(exact).float(), exact: Some(exact) });
        }
        let (left, right) = (self.float, other.float);
        let float = match operator {
            '+' => left + right,
            '-' => left - right,
            '*' => left * right,
            '/' => left / right,
            _ => left % right,
        };
        float.is_finite().then(|| Self::of_float(float))
    }

    /// Returns the number as JSON, rounded to 15 significant digits if it is not exact. `None` if
    /// it is not finite.
    pub(crate) fn rounded(self) -> Option<String> {
        match self.exact {
            Some(exact) => Some(Sum::Exact(exact).to_string()),
            None => rounded(self.float),
        }
    }

    /// Compares two numbers. `None` if one of them is `NaN`.
    pub(crate) fn compare(self, other: Self) -> Option<Ordering> {
        match (self.exact, other.exact) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => self.float.partial_cmp(&other.float),
        }
    }

    /// Compares two numbers in a total order, with `NaN` last.
    pub(crate) fn total_compare(self, other: Self) -> Ordering {
        self.compare(other).unwrap_or_else(|| self.float.total_cmp(&other.float))
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.exact.map_or(Sum::Float(self.float), Sum::Exact).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(numbers: &[&str]) -> String {
        let mut sum = Sum::default();
        for number in numbers {
            assert!(sum.add(number), "{number}");
        }
        sum.to_string()
    }

    #[test]
    fn decimal_sums_are_exact() {
        assert_eq!(sum(&["0.1", "0.2"]), "0.3");
        assert_eq!(sum(&["9007199254740993", "1"]), "9007199254740994");
        assert_eq!(sum(&["-0.75", "0.25"]), "-0.5");
        assert_eq!(sum(&["1e3", "1"]), "1001");
        assert_eq!(sum(&["1e5", "9007199254740993"]), "9007199254840993");
        assert_eq!(sum(&["1e-1", "0.2"]), "0.3");
        assert_eq!(sum(&["1E-07", "7", "-5.0e0"]), "2.0000001");
        assert_eq!(sum(&["1.50e1", "-1e-18"]), "14.999999999999999999");
        assert_eq!(sum(&["1e-19", "1"]), "1");
        assert_eq!(
            sum(&["170141183460469231731687303715884105727", "1"]),
            "170141183460469230000000000000000000000"
        );
    }

    #[test]
    fn averages_keep_the_digits_of_long_numbers() {
        let average = |numbers: &[&str]| {
            let mut sum = Sum::default();
            numbers.iter().for_each(|number| assert!(sum.add(number), "{number}"));
            sum.average(numbers.len() as u64).unwrap()
        };
        assert_eq!(average(&["1717171717123457"; 3]), "1717171717123457");
        assert_eq!(average(&["1717171717123457", "1717171717123458"]), "1717171717123457.5");
        assert_eq!(average(&["1", "2", "4"]), "2.33333333333333");
        assert_eq!(average(&["-2", "-3"]), "-2.5");
        assert_eq!(average(&["-1", "-2", "-2"]), "-1.66666666666667");
        assert_eq!(average(&["0.1", "0.2"]), "0.15");
        assert_eq!(average(&["1", "0", "0"]), "0.333333333333333");
    }

    #[test]
    fn sums_are_short_for_readers() {
        let short = |numbers: &[&str]| {
            let mut sum = Sum::default();
            numbers.iter().for_each(|number| assert!(sum.add(number), "{number}"));
            (sum.short(), sum.mean(numbers.len() as u64).short())
        };
        for (numbers, total, mean) in [
            (
                &["100000000000000000", "100000000000000499"][..],
                "200000000000000499",
                "100000000000000249.5",
            ),
            (&["1e-09", "3.0000000000000004e-07"], "0.000000301", "0.0000001505"),
            (&["-0.001505"], "-0.001505", "-0.001505"),
            (&["1", "1", "3"], "5", "1.6667"),
            (&["0.1", "0.2", "7.00004"], "7.3", "2.4333"),
            (&["0", "0"], "0", "0"),
            (&["-1.23456"], "-1.2346", "-1.2346"),
        ] {
            assert_eq!(short(numbers), (total.to_owned(), mean.to_owned()), "{numbers:?}");
        }
    }

    #[test]
    fn operations_are_exact() {
        for (operator, left, right, expected) in [
            ('-', "1717171717123456999", "1717171717123456789", Some("210")),
            ('+', "0.1", "0.2", Some("0.3")),
            ('*', "0.1", "0.2", Some("0.02")),
            ('*', "9007199254740993", "1", Some("9007199254740993")),
            ('%', "9007199254740993", "2", Some("1")),
            ('/', "10", "5", Some("2")),
            ('/', "10", "4", None),
            ('/', "1", "0", None),
            ('%', "1", "0", None),
        ] {
            let result = computed(operator, decimal(left).unwrap(), decimal(right).unwrap());
            let result = result.map(|result| Sum::Exact(result).to_string());
            assert_eq!(result.as_deref(), expected, "{left} {operator} {right}");
        }
    }

    #[test]
    fn words_are_not_numbers() {
        assert!(
            !Sum::default().add("NaN")
                && !Sum::default().add("inf")
                && !Sum::default().add("12 euro")
        );
    }
}
