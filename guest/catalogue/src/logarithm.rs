//! The natural logarithm with the same bits on every target.

/// Returns the natural logarithm of a positive normal number. `f64::ln` differs between platforms
/// in its last bit, which would change the order of tools with nearly equal scores.
pub(crate) fn ln(value: f64) -> f64 {
    const SQRT_2: f64 = std::f64::consts::SQRT_2;
    let bits = value.to_bits();
    let mut exponent = i64::try_from((bits >> 52) & 0x7ff).unwrap_or_default() - 1_023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1_023 << 52));
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln(m) = 2 artanh(t), as a series in t with |t| < 0.172: 12 terms are below 1e-18.
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let square = t * t;
    let mut sum = 0.0;
    for term in (0..12_u32).rev() {
        sum = sum * square + 1.0 / f64::from(2 * term + 1);
    }
    let exponent = f64::from(i32::try_from(exponent).unwrap_or_default());
    2.0 * t * sum + exponent * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_agree_with_the_standard_library() {
        for value in [1.0, 1.5, 2.0, 1e-3, 7.25, 10_000.5, 1e9] {
            assert!((ln(value) - value.ln()).abs() < 1e-14, "{value}");
        }
    }
}
