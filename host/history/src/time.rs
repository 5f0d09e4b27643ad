//! Times in queries: relative to now, or in RFC 3339.

use ::time::OffsetDateTime;
use ::time::format_description::well_known::Rfc3339;

/// Parses a duration such as `90s`, `10m`, `2h`, `7d` or `2w`. Returns seconds, or `None` if it is
/// invalid.
pub(crate) fn parse_duration(text: &str) -> Option<u64> {
    let unit = text.chars().next_back()?;
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    number.checked_mul(seconds)
}

/// Parses a time: `now`, a duration before now with or without a sign (`-7d`), or RFC 3339. Returns
/// milliseconds since 1970, or `None` if it is invalid.
pub(crate) fn parse_time(text: &str, now_ms: u64) -> Option<u64> {
    if text == "now" {
        return Some(now_ms);
    }
    if let Some(seconds) = parse_duration(text.strip_prefix('-').unwrap_or(text)) {
        return now_ms.checked_sub(seconds.checked_mul(1_000)?);
    }
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok()
}

/// Returns a time in RFC 3339, UTC. `at_ms` is in milliseconds since 1970.
pub(crate) fn format_time(at_ms: u64) -> String {
    let seconds = i64::try_from(at_ms / 1_000).unwrap_or(i64::MAX);
    let time = OffsetDateTime::from_unix_timestamp(seconds);
    time.ok().and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_or_absolute() {
        let now = 1_790_000_000_000;
        for (text, expected) in [
            ("now", Some(now)),
            ("-7d", Some(now - 7 * 86_400_000)),
            ("90s", Some(now - 90_000)),
            ("2w", Some(now - 14 * 86_400_000)),
            ("2026-09-21T14:13:20Z", Some(now)),
            ("2026-09-21T16:13:20.5+02:00", Some(now + 500)),
            ("", None),
            ("7", None),
            ("7y", None),
            ("--7d", None),
            ("99999999999w", None),
            ("é", None),
            ("1960-01-01T00:00:00Z", None),
        ] {
            assert_eq!(parse_time(text, now), expected, "{text}");
        }
        assert_eq!(format_time(now), "2026-09-21T14:13:20Z");
    }
}
