//! Exact sums of decimal numbers. Floating point would show `0.1 + 0.2` as `0.30000000000000004`.

/// Number of decimal places up to which sums are exact.
const EXACT_DECIMAL_PLACES: u32 = 18;

/// One in units of the last exact decimal place.
const ONE: i128 = 10i128.pow(EXACT_DECIMAL_PLACES);

/// The number of digits of a rounded number: those that a double has at least.
const SIGNIFICANT_DIGITS: usize = 15;

/// The maximum absolute value of an exponent that is read exactly.
const MAX_EXPONENT: i32 = 40;

/// A sum of decimal numbers. It is exact while all numbers have at most 18 decimal places, and the
/// sum fits 128 bits. After that it is a floating-point number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sum {
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
    pub(super) fn add(&mut self, number: &str) -> bool {
        let Ok(float) = number.parse::<f64>() else { return false };
        // Rust parses `inf` and `NaN`, which are not JSON numbers.
        if !number.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
            return false;
        }
        *self = match (*self, decimal(number)) {
            (Sum::Exact(sum), Some(exact)) => match sum.checked_add(exact) {
                Some(sum) => Sum::Exact(sum),
                None => Sum::Float(Sum::Exact(sum).float() + float),
            },
            (sum, _) => Sum::Float(sum.float() + float),
        };
        true
    }

    /// Returns the sum divided by a count as a JSON number. It has 15 significant digits, or more
    /// if its whole part has more. `None` if it is not finite.
    #[allow(clippy::cast_precision_loss, reason = "a sum that is no longer exact")]
    pub(super) fn average(self, count: u64) -> Option<String> {
        let exact = match self {
            Sum::Exact(sum) => quotient(sum, i128::from(count)),
            Sum::Float(_) => None,
        };
        exact.or_else(|| rounded(self.float() / count as f64))
    }

    #[allow(clippy::cast_precision_loss, reason = "the number is about to be a float")]
    pub(super) fn float(self) -> f64 {
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
pub(super) fn rounded(number: f64) -> Option<String> {
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
pub(super) fn computed(operator: char, left: i128, right: i128) -> Option<i128> {
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
pub(super) fn decimal(number: &str) -> Option<i128> {
    let (sign, digits) = number.strip_prefix('-').map_or((1, number), |digits| (-1, digits));
    let (digits, exponent) = match digits.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || !whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = if exponent == 0 { part } else { part.trim_end_matches('0') };
    let mut value: i128 = whole.parse().ok()?;
    if !part.is_empty() {
        let places = u32::try_from(part.len()).ok()?;
        value = value.checked_mul(10i128.checked_pow(places)?)?.checked_add(part.parse().ok()?)?;
    }
    // The number of zeros to append, or to remove if negative.
    let places = i32::try_from(EXACT_DECIMAL_PLACES).ok()? - i32::try_from(part.len()).ok()?;
    let shift = places + Some(exponent).filter(|exponent| exponent.abs() <= MAX_EXPONENT)?;
    let factor = 10i128.checked_pow(shift.unsigned_abs());
    let scaled = match (shift >= 0, factor) {
        _ if value == 0 => 0,
        (true, Some(factor)) => value.checked_mul(factor)?,
        (false, Some(factor)) if value % factor == 0 => value / factor,
        _ => return None,
    };
    Some(sign * scaled)
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
