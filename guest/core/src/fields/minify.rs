//! Removal of insignificant white space.

/// Returns JSON without the white space between its tokens. O(n).
#[must_use]
pub fn minify(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut rest = json;
    while let Some(next) = rest.first() {
        let length = match next {
            b'"' => string_length(rest),
            b' ' | b'\n' | b'\r' | b'\t' => {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            _ => rest
                .iter()
                .position(|byte| matches!(byte, b'"' | b' ' | b'\n' | b'\r' | b'\t'))
                .unwrap_or(rest.len()),
        };
        let (run, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        out.extend_from_slice(run);
        rest = after;
    }
    out
}

/// Returns the length of the string at the start of `json`, including its quotes.
fn string_length(json: &[u8]) -> usize {
    let mut at = 1;
    while let Some(stop) = json.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += stop;
        if json.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_insignificant_white_space_is_removed() {
        assert_eq!(minify(b"{ \"a b\" :\n [1.0, \"x \\\" y\" ] }"), br#"{"a b":[1.0,"x \" y"]}"#);
    }
}
