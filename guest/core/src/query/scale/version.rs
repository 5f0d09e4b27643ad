//! Versions and addresses, such as `v1.10.2`, `2.0.0-rc.1` and `10.0.0.12`.

use std::cmp::Ordering;

/// The maximum number of parts of a version.
const MAX_PARTS: usize = 8;
/// The words for stages before a release.
const PRE_RELEASES: [&str; 14] = [
    "a", "alpha", "b", "beta", "c", "canary", "dev", "m", "next", "nightly", "pre", "preview",
    "rc", "snapshot",
];

/// A version, ordered by its numbers. Pre-releases come before their release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::query) struct Version {
    /// The numbers, without trailing zeros.
    parts: Vec<u64>,
    /// The stage: less than that of the release for a pre-release, greater for a later build.
    stage: Stage,
    suffix: Vec<SuffixPart>,
    /// The part after a plus sign, which numbers the packages of distributions.
    build: Vec<SuffixPart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    PreRelease,
    Release,
    Build,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SuffixPart {
    Number(u64),
    Text(String),
}

impl Version {
    /// Reads a version. Also reads a single number, for comparisons with versions. `None` for other
    /// texts. O(1).
    pub(super) fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        if text.len() > 60 {
            return None;
        }
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (numbers, suffix) = text.split_at_checked(end)?;
        let (numbers, suffix) = match numbers.strip_suffix('.') {
            Some(numbers) if !suffix.is_empty() => (numbers, suffix),
            _ => (numbers, suffix),
        };
        let parts: Option<Vec<u64>> = numbers.split('.').map(|part| part.parse().ok()).collect();
        let mut parts = parts.filter(|parts| parts.len() <= MAX_PARTS)?;
        while parts.len() > 1 && parts.last() == Some(&0) {
            parts.pop();
        }
        let is_suffix = suffix.chars().all(|c| c.is_alphanumeric() || "-._+~".contains(c));
        let (suffix, build) = suffix.split_once('+').unwrap_or((suffix, ""));
        let suffix = is_suffix.then(|| suffix_parts(suffix))?;
        // A letter alone is a later release, as in OpenSSL 1.1.1m.
        let is_numbered = matches!(suffix.get(1), Some(SuffixPart::Number(_)));
        let stage = match suffix.first() {
            None => Stage::Release,
            Some(SuffixPart::Text(word))
                if PRE_RELEASES.contains(&word.as_str()) && (word.len() > 1 || is_numbered) =>
            {
                Stage::PreRelease
            }
            Some(_) => Stage::Build,
        };
        Some(Self { parts, stage, suffix, build: suffix_parts(build) })
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

/// Returns true if a text can only be a version: it has two dots, begins with `v`, or has a suffix
/// such as `-rc1`.
pub(super) fn is_version(text: &str) -> bool {
    let (plain, has_prefix) = match text.strip_prefix(['v', 'V']) {
        Some(plain) => (plain, true),
        None => (text, false),
    };
    let is_start = plain.starts_with(|c: char| c.is_ascii_digit());
    let numbers = plain.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(plain.len());
    let dots = plain.get(..numbers).unwrap_or_default().trim_end_matches('.').matches('.').count();
    let has_suffix = numbers < plain.len();
    is_start
        && (has_prefix || dots >= 2 || (dots == 1 && has_suffix))
        && Version::read(text).is_some()
}

/// Returns the numbers and words of a suffix, such as `rc` and `1` of `-rc1`.
fn suffix_parts(suffix: &str) -> Vec<SuffixPart> {
    let mut parts = Vec::new();
    for word in suffix.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let mut rest = word;
        while let Some(first) = rest.chars().next() {
            let is_digit = first.is_ascii_digit();
            let end = rest.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(rest.len());
            let (part, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            parts.push(match part.parse() {
                Ok(number) if is_digit => SuffixPart::Number(number),
                _ => SuffixPart::Text(part.to_lowercase()),
            });
            rest = after;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_order_of_their_releases() {
        let order = [
            "1.0.0-alpha",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc1",
            "1.0",
            "v1.0.0+build",
            "1.0.0-91-generic",
            "1.1.1-0+deb11u3",
            "1.1.1-0+deb11u4",
            "1.1.1k",
            "1.1.1m",
            "v1.2",
            "1.9.0",
            "1.10.0b1",
            "1.10.0",
            "2",
        ];
        for pair in order.windows(2) {
            let read = |at: usize| Version::read(pair[at]).unwrap();
            assert_eq!(read(0).compare(&read(1)), Ordering::Less, "{pair:?}");
        }
        assert_eq!(Version::read("1.0"), Version::read("v1.0.0"));
    }

    #[test]
    fn other_texts_are_no_versions() {
        for text in ["3.10", "1", "abc", "1.x", "10-20", "1..2", "v", "1.2 beta"] {
            assert!(!is_version(text), "{text}");
        }
        for text in ["v2", "1.2.3", "1.10rc1", "10.0.0.12"] {
            assert!(is_version(text), "{text}");
        }
    }
}
