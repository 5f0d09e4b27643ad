//! Exact sums of decimal numbers. Floating point would show `0.1 + 0.2` as `0.30000000000000004`.

/// Number of decimal places up to which sums are exact.
const EXACT_DECIMAL_PLACES: u32 = 18;

/// A sum of decimal numbers. It is exact while all numbers have no exponent and at most 18 decimal
/// places, and the sum fits 128 bits. After that it is a floating-point number.
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

    #[allow(clippy::cast_precision_loss, reason = "the number is about to be a float")]
    fn float(self) -> f64 {
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
                let one = 10i128.pow(EXACT_DECIMAL_PLACES);
                let (whole, part) = (sum / one, (sum % one).unsigned_abs());
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

/// Returns a number in units of its 18th decimal place. `None` if it has more decimal places or an
/// exponent, or is too large.
pub(super) fn decimal(number: &str) -> Option<i128> {
    let (sign, digits) = number.strip_prefix('-').map_or((1, number), |digits| (-1, digits));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let places = u32::try_from(part.len()).ok().filter(|places| *places <= EXACT_DECIMAL_PLACES)?;
    let whole: i128 = whole.parse().ok()?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let fraction: i128 = if part.is_empty() { 0 } else { part.parse().ok()? };
    let scaled = whole
        .checked_mul(10i128.pow(EXACT_DECIMAL_PLACES))?
        .checked_add(fraction * 10i128.pow(EXACT_DECIMAL_PLACES - places))?;
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
        assert_eq!(
            sum(&["170141183460469231731687303715884105727", "1"]),
            "170141183460469230000000000000000000000"
        );
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
