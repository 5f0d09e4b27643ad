//! Counts the matches of each alternative of a regular expression. Callers often search
//! `error|warning` to compare the counts.

use regex_lite::Regex;

/// The maximum number of distinct texts that are counted.
const MAX_TEXTS: usize = 8;
/// The maximum length of such a text, in bytes.
const MAX_TEXT_BYTES: usize = 60;
/// The maximum size, in bytes, of the lines in which matches are counted.
const MAX_COUNTED_BYTES: usize = 1 << 20;

/// Returns the number of matches of each distinct text, the most frequent first: `error: 3,
/// warning: 12`. If the expression has groups, the text is that of the first group. `None` if the
/// expression has no alternatives, or if the number of texts is one or too large. Also `None` if a
/// text or the lines are too long, or if a match lacks the group. O(lines).
pub(super) fn counts<'t>(regex: &Regex, lines: impl Iterator<Item = &'t [u8]>) -> Option<String> {
    if !regex.as_str().contains('|') {
        return None;
    }
    let group = usize::from(regex.captures_len() > 1);
    let (mut found, mut bytes) = (Vec::<(String, usize)>::new(), 0);
    for line in lines {
        bytes += line.len();
        if bytes > MAX_COUNTED_BYTES {
            return None;
        }
        let line = String::from_utf8_lossy(line);
        for captures in regex.captures_iter(&line) {
            let text = captures.get(group)?.as_str().trim();
            let known = found.iter().position(|(known, _)| known == text);
            if let Some((_, count)) = known.and_then(|at| found.get_mut(at)) {
                *count += 1;
            } else if found.len() < MAX_TEXTS && text.len() <= MAX_TEXT_BYTES {
                found.push((text.to_owned(), 1));
            } else {
                return None;
            }
        }
    }
    found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let counts: Vec<String> =
        found.iter().map(|(text, count)| format!("{text}: {count}")).collect();
    (counts.len() > 1).then(|| counts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_are_counted() {
        let text = "ab 1 [\njava 2 [\nab 3 [\nab ab\n";
        for (pattern, expected) in [
            ("ab|java", Some("ab: 4, java: 1")),
            (r"^(ab|java) \d", Some("ab: 2, java: 1")),
            ("ab", None),
            ("ab|x", None),
            (r"\d|ab|java|\[|(x)", None),
        ] {
            let regex = Regex::new(pattern).unwrap();
            let found = counts(&regex, text.lines().map(str::as_bytes));
            assert_eq!(found.as_deref(), expected, "{pattern}");
        }
    }
}
