//! Bytes as hexadecimal digits, in digests and random names.

use std::fmt::Write as _;

/// Returns bytes as hexadecimal digits in lower case.
///
/// ```
/// assert_eq!(context_guard_protocol::to_hex(&[0, 255]), "00ff");
/// ```
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    let digits = String::with_capacity(bytes.len() * 2);
    bytes.iter().fold(digits, |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
