//! Patterns as they are written on command lines and in scripts.

/// Splits a pattern that is written as on a command line or in a script: `grep -i "warn"`,
/// `/warn/i`. Returns the pattern, and true if it matches any case. None if it is written plainly.
///
/// # Errors
/// Returns a message for the caller if the command line has an option that changes the meaning.
pub(super) fn unwrap_pattern(pattern: &str) -> Result<Option<(&str, bool)>, String> {
    let command = ["grep ", "egrep ", "rg "].iter().find_map(|name| pattern.strip_prefix(name));
    // `grep x` may be the text that is searched for.
    let command = command.map(str::trim_start).filter(|rest| rest.starts_with(['-', '"', '\'']));
    let mut rest = command.unwrap_or(pattern).trim();
    let (mut has_options, mut ignore_case) = (command.is_some(), false);
    while let Some((flags, after)) = rest.strip_prefix('-').and_then(|rest| rest.split_once(' ')) {
        let is_flags = !flags.is_empty() && flags.chars().all(|c| c.is_ascii_alphabetic());
        if !is_flags {
            break;
        }
        if let Some(other) = flags.chars().find(|flag| !"iEGPneH".contains(*flag)) {
            let instead = match other {
                'v' => {
                    let text = after.trim().trim_matches(['"', '\'']);
                    let program = format!("map(select(test({text:?}) | not))");
                    return Err(format!(
                        "grep has no option -v: for lines without a text use jq: {program}"
                    ));
                }
                'c' => "for the number of matches add aggregate: \"count\"",
                'A' | 'B' | 'C' => "for lines around matches give context: 3",
                'm' => "for the first matches give limit: 5",
                'w' => "for whole words write \\bword\\b",
                'F' => "put a backslash before signs such as ( [ * that are meant as text",
                _ => "grep takes a regular expression",
            };
            return Err(format!("grep has no option -{other}: {instead}"));
        }
        has_options = true;
        ignore_case |= flags.contains('i');
        rest = after.trim_start();
    }
    if has_options {
        let inner = ['"', '\'']
            .iter()
            .find_map(|quote| rest.strip_prefix(*quote).and_then(|rest| rest.strip_suffix(*quote)));
        return Ok(Some((inner.unwrap_or(rest), ignore_case)));
    }
    Ok(slashes(pattern))
}

/// Checks that a pattern in quotes matches something.
///
/// # Errors
/// Returns a message for the caller if nothing matches, and the pattern is in quotes.
pub fn check_quotes(pattern: &str, is_without_match: bool) -> Result<(), String> {
    let inner = ['"', '\'', '`'].iter().find_map(|quote| {
        let inner = pattern.strip_prefix(*quote)?.strip_suffix(*quote)?;
        (!inner.is_empty() && !inner.contains(*quote)).then_some(inner)
    });
    match inner.filter(|_| is_without_match) {
        Some(inner) => Err(format!(
            "grep found nothing with the quotes around {inner}, which are part of the pattern; write grep: {inner}"
        )),
        None => Ok(()),
    }
}

/// Splits a pattern between slashes.
fn slashes(pattern: &str) -> Option<(&str, bool)> {
    let (rest, flags) = pattern.strip_prefix('/')?.rsplit_once('/')?;
    let known = flags.chars().all(|flag| "igmsu".contains(flag));
    // `/a/b/` is a path.
    (known && !rest.is_empty() && !rest.contains('/')).then_some((rest, flags.contains('i')))
}

/// Returns the argument to search a text for the word that a condition names last, for an error.
/// Empty if there is none.
#[must_use]
pub fn search_hint(condition: &str) -> String {
    let mut words = condition.rsplit(|c: char| !c.is_alphanumeric() && c != '_');
    let word = words.find(|word| !word.is_empty());
    word.map_or_else(String::new, |word| format!(", such as grep: {word:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_split() {
        for (line, expected) in [
            ("-i warn", Ok(Some(("warn", true)))),
            ("grep -iE 'a|b'", Ok(Some(("a|b", true)))),
            ("rg \"a b\"", Ok(Some(("a b", false)))),
            ("/warn/i", Ok(Some(("warn", true)))),
            ("grep x", Ok(None)),
            ("-- x", Ok(None)),
            ("-5 degrees", Ok(None)),
        ] {
            assert_eq!(unwrap_pattern(line), expected, "{line}");
        }
        for (line, instead) in [
            ("grep -v 'a b'", "map(select(test(\"a b\") | not))"),
            ("-c x", "aggregate"),
            ("-A 3 x", "context"),
        ] {
            assert!(unwrap_pattern(line).unwrap_err().contains(instead), "{line}");
        }
        let reason = check_quotes("\"a\"", true).unwrap_err();
        assert!(reason.ends_with("write grep: a"), "{reason}");
        assert_eq!(check_quotes("\"a\"", false), Ok(()));
        assert_eq!(check_quotes("a \"b\"", true), Ok(()));
    }
}
