//! Patterns that are written as command lines or literals of scripts: `grep -i "error"`,
//! `/error/i`.

use std::borrow::Cow;

use super::readings::members_condition;

/// The options of grep with their long names.
const LONG_OPTIONS: [(&str, char); 13] = [
    ("ignore-case", 'i'),
    ("extended-regexp", 'E'),
    ("basic-regexp", 'G'),
    ("perl-regexp", 'P'),
    ("line-number", 'n'),
    ("recursive", 'r'),
    ("text", 'a'),
    ("count", 'c'),
    ("invert-match", 'v'),
    ("word-regexp", 'w'),
    ("fixed-strings", 'F'),
    ("only-matching", 'o'),
    ("context", 'C'),
];

/// Extracts the pattern from a command line or script: `grep -i "warn"`, `-e a -e b`, `/warn/i`.
/// Returns it, and true if it ignores case. `None` if the text is a plain pattern.
///
/// # Errors
/// Returns a message for the caller if the command line has an option that changes the meaning.
pub(super) fn unwrap_pattern<'p>(pattern: &'p str) -> Result<Option<(Cow<'p, str>, bool)>, String> {
    let names = ["grep ", "egrep ", "fgrep ", "rg "];
    let command = names.iter().find_map(|name| pattern.strip_prefix(name));
    // `grep x` may be the text that is searched for.
    let command = command.map(str::trim_start).filter(|rest| rest.starts_with(['-', '"', '\'']));
    let mut rest = command.unwrap_or(pattern).trim();
    let (mut has_options, mut ignore_case) = (command.is_some(), false);
    let (mut is_word, mut is_fixed) = (false, command.is_some() && pattern.starts_with("fgrep"));
    let mut alternatives = Vec::new();
    while let Some((word, after)) = rest.split_once(' ').or(Some((rest, ""))) {
        let Some((flags, value)) = options(word) else { break };
        if after.trim().is_empty() && !has_options && value.is_none() {
            break;
        }
        if let Some(other) = flags.chars().find(|flag| !"iEGPneHrRsahwF".contains(*flag)) {
            return Err(no_option(other, value, after));
        }
        has_options = true;
        ignore_case |= flags.contains('i');
        is_word |= flags.contains('w');
        is_fixed |= flags.contains('F');
        rest = after.trim_start();
        if flags.ends_with('e') {
            let (text, after) = argument(rest);
            alternatives.push(text);
            rest = after.trim_start();
        }
    }
    if alternatives.is_empty() && has_options {
        // The names of files follow a pattern in quotes.
        alternatives.push(if rest.starts_with(['"', '\'']) { argument(rest).0 } else { rest });
    }
    let written = |text: &&'p str| match (is_fixed, is_word) {
        (false, false) => Cow::Borrowed(*text),
        (false, true) => Cow::Owned(format!(r"\b(?:{text})\b")),
        (true, false) => Cow::Owned(regex_lite::escape(text)),
        (true, true) => Cow::Owned(format!(r"\b(?:{})\b", regex_lite::escape(text))),
    };
    match alternatives.as_slice() {
        [] => {}
        [text] => return Ok(Some((written(text), ignore_case))),
        texts => {
            let parts = texts.iter().map(|text| format!("(?:{})", written(text)));
            let parts: Vec<String> = parts.collect();
            return Ok(Some((Cow::Owned(parts.join("|")), ignore_case)));
        }
    }
    Ok(slashes(pattern).map(|(text, flag)| (Cow::Borrowed(text), flag)))
}

/// Returns the options in a word of a command line, with the number of the last one: `-iE`, `-A3`,
/// `--context=3`. `None` if the word has no options.
fn options(word: &str) -> Option<(String, Option<&str>)> {
    if let Some(name) = word.strip_prefix("--") {
        let (name, value) =
            name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
        let (_, flag) = LONG_OPTIONS.iter().find(|(known, _)| *known == name)?;
        return Some((flag.to_string(), value));
    }
    let flags = word.strip_prefix('-')?;
    let end = flags.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(flags.len());
    let (flags, value) = flags.split_at_checked(end)?;
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let value = (!value.is_empty()).then_some(value);
    (!flags.is_empty() && is_number).then(|| (flags.to_owned(), value))
}

/// Returns the first argument of a command line without its quotes, and the rest of the text.
fn argument(text: &str) -> (&str, &str) {
    let quoted = ['"', '\''].iter().find_map(|quote| {
        let inner = text.strip_prefix(*quote)?;
        let end = inner.match_indices(*quote).map(|(at, _)| at).find(|at| {
            inner.get(at + 1..).is_some_and(|after| after.is_empty() || after.starts_with(' '))
        })?;
        Some((inner.get(..end)?, inner.get(end + 1..)?))
    });
    quoted.unwrap_or_else(|| {
        let end = text.find(" -").unwrap_or(text.len());
        text.split_at_checked(end).unwrap_or((text, ""))
    })
}

/// Returns the error for an option that changes the meaning of a pattern.
fn no_option(option: char, value: Option<&str>, rest: &str) -> String {
    let text = rest.trim().trim_matches(['"', '\'']);
    let instead = match option {
        'v' => {
            let program = format!("map(select(test({text:?}) | not))");
            return format!("grep has no option -v: for lines without a text use jq: {program}");
        }
        'c' => "for the number of matches add aggregate: \"count\"".to_owned(),
        'A' | 'B' | 'C' => {
            format!("for lines around matches give context: {}", value.unwrap_or("3"))
        }
        'm' => "for the first matches give limit: 5".to_owned(),
        'o' => "matches are shown with their lines; leave it out".to_owned(),
        _ => "grep takes a regular expression".to_owned(),
    };
    format!("grep has no option -{option}: {instead}")
}

/// Checks the syntax of a pattern after its search. Accepts every pattern unless
/// `is_without_match`, which is true if the search found nothing.
///
/// # Errors
/// Returns a message for the caller if nothing matches and the pattern cannot be meant literally:
/// it is in quotes, begins with a long option such as `--include`, or names several JSON members.
pub fn check_empty(pattern: &str, is_without_match: bool) -> Result<(), String> {
    if let Some(condition) = members_condition(pattern).filter(|_| is_without_match) {
        return Err(format!(
            "grep searches each member by itself, and found nothing; write where: {condition}"
        ));
    }
    let option =
        pattern.split_once(' ').filter(|(word, _)| is_without_match && word.starts_with("--"));
    if let Some((word, rest)) = option.filter(|(word, _)| word.len() > 2) {
        return Err(format!(
            "grep found nothing with {word}, which is read as text; write grep: {}",
            rest.trim()
        ));
    }
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

/// Splits `/pattern/flags`. Returns the pattern, and true if it ignores case. `None` for other
/// texts.
fn slashes(pattern: &str) -> Option<(&str, bool)> {
    let (rest, flags) = pattern.strip_prefix('/')?.rsplit_once('/')?;
    let known = flags.chars().all(|flag| "igmsu".contains(flag));
    // `/a/b/` is a path.
    (known && !rest.is_empty() && !rest.contains('/')).then_some((rest, flags.contains('i')))
}

/// Returns a hint for an error: the `grep` argument that searches the last word of a condition.
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
            ("--ignore-case warn", Ok(Some(("warn", true)))),
            ("grep -iE 'a|b'", Ok(Some(("a|b", true)))),
            ("grep -rn 'a b' x.log", Ok(Some(("a b", false)))),
            ("-e a b -e 'c d'", Ok(Some(("(?:a b)|(?:c d)", false)))),
            ("-e a", Ok(Some(("a", false)))),
            ("-w a", Ok(Some((r"\b(?:a)\b", false)))),
            ("fgrep -i '(a)'", Ok(Some((r"\(a\)", true)))),
            ("-x", Ok(None)),
            ("rg \"a b\"", Ok(Some(("a b", false)))),
            ("/warn/i", Ok(Some(("warn", true)))),
            ("grep x", Ok(None)),
            ("-- x", Ok(None)),
            ("-5 degrees", Ok(None)),
        ] {
            let expected = expected.map(|found| found.map(|(text, flag)| (text.into(), flag)));
            assert_eq!(unwrap_pattern(line), expected, "{line}");
        }
        for (line, instead) in [
            ("grep -v 'a b'", "map(select(test(\"a b\") | not))"),
            ("-c x", "aggregate"),
            ("-A 3 x", "context"),
            ("-C5 x", "context: 5"),
            ("--count x", "aggregate"),
        ] {
            assert!(unwrap_pattern(line).unwrap_err().contains(instead), "{line}");
        }
        let reason = check_empty("\"a\"", true).unwrap_err();
        assert!(reason.ends_with("write grep: a"), "{reason}");
        assert_eq!(check_empty("\"a\"", false), Ok(()));
        assert_eq!(check_empty("a \"b\"", true), Ok(()));
    }
}
