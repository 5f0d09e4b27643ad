//! Messages with `NaN`, `Infinity` or `-Infinity`, which are not JSON, but which Python writes by
//! default.

use memchr::memmem;

/// Returns a copy of a message in which each such number is a zero, padded with spaces so that all
/// offsets remain. Strings remain unchanged. `None` if the message has no such number.
pub(crate) fn replaced(message: &[u8]) -> Option<Vec<u8>> {
    const NAMES: [&[u8]; 2] = [b"NaN", b"Infinity"];
    // Most messages have none, and are searched once only.
    NAMES.iter().find(|name| memmem::find(message, name).is_some())?;
    let mut valid = message.to_vec();
    let (mut at, mut is_text, mut found) = (0, false, false);
    while let Some(byte) = message.get(at) {
        let rest = message.get(at..).unwrap_or_default();
        match byte {
            b'"' => is_text = !is_text,
            b'\\' if is_text => at += 1,
            b'N' | b'I' if !is_text => {
                let name = NAMES.iter().find(|name| rest.starts_with(name));
                if let Some(name) = name
                    && let Some(number) = valid.get_mut(at..at + name.len())
                {
                    number.fill(b' ');
                    if let Some(first) = number.first_mut() {
                        *first = b'0';
                    }
                    found = true;
                    at += name.len() - 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    found.then_some(valid)
}

/// Returns the part of `message` at the offset that `part` has in `valid`, the copy of `message`
/// from [`replaced`]. `part` must be a slice of `valid`. `None` if it is not, or if the part of
/// `message` is not UTF-8.
pub(crate) fn verbatim<'m>(message: &'m [u8], valid: &[u8], part: &str) -> Option<&'m str> {
    let start = part.as_ptr().addr().checked_sub(valid.as_ptr().addr())?;
    std::str::from_utf8(message.get(start..start.checked_add(part.len())?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_of_texts_are_replaced() {
        let message = br#"{"a":[NaN,-Infinity],"NaN":"\"Infinity NaN","b":Infinity}"#;
        let valid = br#"{"a":[0  ,-0       ],"NaN":"\"Infinity NaN","b":0       }"#;
        assert_eq!(replaced(message).as_deref(), Some(valid.as_slice()));
        assert_eq!((replaced(br#"{"a":"NaN"}"#), replaced(b"{}")), (None, None));
    }
}
