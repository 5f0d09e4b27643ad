//! The limits on query expressions: conditions and totals, which a caller separates by commas.

/// The maximum number of comparisons or totals in one expression. Each is evaluated on every
/// record.
const MAX_PARTS: usize = 64;
/// The maximum length, in bytes, of an expression.
const MAX_BYTES: usize = 4_096;

/// Splits an expression at its commas. `name` is the name of the argument.
///
/// # Errors
/// Returns a message for the caller if the expression is too long or has too many parts.
pub(super) fn split_parts<'t>(name: &str, text: &'t str) -> Result<Vec<&'t str>, String> {
    // The length is checked first: it also bounds the text that later errors repeat.
    if text.len() > MAX_BYTES {
        return Err(format!(
            "{name} has {} bytes; at most {MAX_BYTES} are accepted: ask for fewer things, or make several calls",
            text.len()
        ));
    }
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > MAX_PARTS {
        return Err(format!(
            "{name} has {} parts; at most {MAX_PARTS} are accepted: ask for fewer things, or make several calls",
            parts.len()
        ));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_bounded() {
        assert_eq!(split_parts("where", "a=1, b=2"), Ok(vec!["a=1", " b=2"]));
        assert_eq!(
            split_parts("where", &vec!["a=1"; 64].join(",")).map(|parts| parts.len()),
            Ok(64)
        );
        let many = split_parts("where", &vec!["a=1"; 65].join(",")).unwrap_err();
        assert!(many.contains("where has 65 parts; at most 64"), "{many}");
        let long = split_parts("aggregate", &"x".repeat(4_097)).unwrap_err();
        assert!(long.contains("aggregate has 4097 bytes; at most 4096"), "{long}");
    }
}
