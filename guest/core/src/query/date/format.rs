//! Dates in the formats of the C function `strftime`: `%Y-%m-%dT%H:%M:%SZ`.

use super::{DateTime, DayOrder, days_since_monday};

/// The directives for a whole date or time, each with its expansion.
const SHORT: [(&str, &str); 3] = [("%F", "%Y-%m-%d"), ("%T", "%H:%M:%S"), ("%R", "%H:%M")];

/// Returns a format in which directives for a whole date or time are expanded.
fn expanded(format: &str) -> String {
    SHORT.iter().fold(format.to_owned(), |format, (short, long)| format.replace(short, long))
}

impl DateTime {
    /// Returns the date and time with these parts: year, month from 1, day, hour, minute, second.
    /// `None` if a part is out of its range. A day after the end of its month is one of the next
    /// month.
    pub(in crate::query) fn of_parts(parts: [i64; 6]) -> Option<Self> {
        let [year, month, day, hour, minute, second] = parts;
        let is_valid = (0..=9_999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..=60).contains(&second);
        let date = Self { year, month, day, hour, minute, second, ..Self::default() };
        is_valid.then_some(date)
    }

    /// Returns the date and time of a number of seconds since 1970, in UTC.
    pub(in crate::query) fn of_seconds(seconds: i64) -> Self {
        let in_day = seconds.rem_euclid(86_400);
        Self {
            hour: in_day / 3_600,
            minute: in_day / 60 % 60,
            second: in_day % 60,
            ..Self::from_days(seconds.div_euclid(86_400))
        }
    }

    /// Returns the parts of the date as jq has them: year, month from 0, day, hour, minute, second,
    /// day of the week from Sunday, day of the year from 0.
    pub(in crate::query) fn parts(&self) -> [i64; 8] {
        let days = self.days();
        let first = Self { month: 1, day: 1, ..*self };
        let weekday = (days_since_monday(days) + 1) % 7;
        let Self { year, month, day, hour, minute, second, .. } = *self;
        [year, month - 1, day, hour, minute, second, weekday, days - first.days()]
    }

    /// Reads a text in a format. Its zone becomes a part of the date. `None` if the text has
    /// another form, or if the format has an unknown directive.
    pub(in crate::query) fn read_format(text: &str, format: &str) -> Option<Self> {
        let format = expanded(format);
        let (mut rest, mut signs) = (text, format.chars());
        let mut parts = [1970, 1, 1, 0, 0, 0];
        let mut zone = 0;
        while let Some(sign) = signs.next() {
            if sign.is_whitespace() {
                rest = rest.trim_start();
                continue;
            }
            let directive = if sign == '%' { signs.next()? } else { sign };
            let at = match (sign, directive) {
                ('%', 'Y') => 0,
                ('%', 'm') => 1,
                ('%', 'd' | 'e') => 2,
                ('%', 'H') => 3,
                ('%', 'M') => 4,
                ('%', 'S') => 5,
                ('%', 'Z' | 'z' | 'b' | 'B') => {
                    let is_zone = directive.eq_ignore_ascii_case(&'z');
                    let is_part = |c: char| match is_zone {
                        true => c.is_alphanumeric() || "+-:".contains(c),
                        false => c.is_alphabetic(),
                    };
                    let end = rest.find(|c: char| !is_part(c));
                    let (word, after) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
                    if is_zone {
                        zone = offset(word)?;
                    } else if let Some(part) = parts.get_mut(1) {
                        let named = Self::read(&format!("1 {word} 2000"), DayOrder::Unknown)?;
                        *part = named.month;
                    }
                    rest = after;
                    continue;
                }
                ('%', '%') | (_, _) if sign == directive => {
                    rest = rest.strip_prefix(directive)?;
                    continue;
                }
                _ => return None,
            };
            rest = rest.trim_start();
            let most = if at == 0 { 4 } else { 2 };
            let length = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
            let (digits, after) = rest.split_at_checked(length)?;
            *parts.get_mut(at)? = digits.parse().ok()?;
            rest = after;
        }
        let date = Self::of_parts(parts).filter(|_| rest.is_empty())?;
        Some(Self::of_seconds(date.instant(false).0 - zone))
    }

    /// Writes the date in a format. `None` if the format has an unknown directive.
    pub(in crate::query) fn write_format(&self, format: &str) -> Option<String> {
        let (mut out, format) = (String::new(), expanded(format));
        let mut signs = format.chars();
        let [.., year_day] = self.parts();
        while let Some(sign) = signs.next() {
            if sign != '%' {
                out.push(sign);
                continue;
            }
            match signs.next()? {
                'Y' => out.push_str(&format!("{:04}", self.year)),
                'm' => out.push_str(&format!("{:02}", self.month)),
                'd' => out.push_str(&format!("{:02}", self.day)),
                'H' => out.push_str(&format!("{:02}", self.hour)),
                'M' => out.push_str(&format!("{:02}", self.minute)),
                'S' => out.push_str(&format!("{:02}", self.second)),
                'j' => out.push_str(&format!("{:03}", year_day + 1)),
                's' => out.push_str(&self.instant(false).0.to_string()),
                'Z' => out.push_str("UTC"),
                'z' => out.push_str("+0000"),
                directive @ ('A' | 'a') => {
                    let weekday = usize::try_from(days_since_monday(self.days())).ok()?;
                    let name = super::WEEKDAYS.get(weekday)?;
                    out.push_str(if directive == 'A' { name } else { name.get(..3)? });
                }
                '%' => out.push('%'),
                _ => return None,
            }
        }
        Some(out)
    }
}

/// Returns the UTC offset, in seconds, of a zone such as `+0200`, `-05:30`, `Z` or `UTC`. `None`
/// for other texts.
fn offset(zone: &str) -> Option<i64> {
    if ["Z", "z", "UTC", "GMT"].contains(&zone) {
        return Some(0);
    }
    let (sign, digits) = match zone.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, zone.strip_prefix('+')?),
    };
    let digits = digits.replace(':', "");
    let number = Some(&digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let number: i64 = number.parse().ok()?;
    let (hours, minutes) = match digits.len() {
        2 => (number, 0),
        4 => (number / 100, number % 100),
        _ => return None,
    };
    Some(sign * (hours * 3_600 + minutes * 60))
}

/// The directives of a format for reading dates.
pub(in crate::query) const READ_DIRECTIVES: &str = "YmdeHMSFTRZzbB%";
/// The directives of a format for writing dates.
pub(in crate::query) const WRITTEN_DIRECTIVES: &str = "YmdHMSFTRjsAaZz%";

/// Returns the first directive of a format that is not in `known`. O(format).
pub(in crate::query) fn unknown_directive(format: &str, known: &str) -> Option<String> {
    let mut signs = format.chars();
    while let Some(sign) = signs.next() {
        let directive = if sign == '%' { signs.next() } else { continue };
        if directive.is_none_or(|directive| !known.contains(directive)) {
            return Some(format!("%{}", directive.map_or(String::new(), String::from)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_written_in_a_format() {
        let read = |text, format| {
            let date = DateTime::read_format(text, format)?;
            date.write_format("%Y-%m-%dT%H:%M:%SZ %a %j")
        };
        for (text, format, expected) in [
            ("2024-05-31T23:59:58Z", "%Y-%m-%dT%H:%M:%SZ", Some("2024-05-31T23:59:58Z Fri 152")),
            ("31/May/2024 01:00", "%d/%b/%Y %R", Some("2024-05-31T01:00:00Z Fri 152")),
            ("2024-05-31T23:00:00+0200", "%FT%T%z", Some("2024-05-31T21:00:00Z Fri 152")),
            ("31-May-2024", "%d-%b-%Y", Some("2024-05-31T00:00:00Z Fri 152")),
            ("2024-05-31T23:00:00+02", "%FT%T%z", Some("2024-05-31T21:00:00Z Fri 152")),
            ("2024-05-31T23:00:00-05:30", "%FT%T%z", Some("2024-06-01T04:30:00Z Sat 153")),
            ("2024-05-31T23:00:00+9223372036854775807", "%FT%T%z", None),
            ("2024-05-31T23:00:00+200", "%FT%T%z", None),
            ("2024-05-31", "%F %T", None),
            ("2024-13-31", "%F", None),
            ("5", "%q", None),
        ] {
            assert_eq!(read(text, format).as_deref(), expected, "{text}");
        }
        assert_eq!(unknown_directive("%F%% %y", READ_DIRECTIVES).as_deref(), Some("%y"));
        assert_eq!(unknown_directive("%F %T%", WRITTEN_DIRECTIVES).as_deref(), Some("%"));
        assert_eq!(unknown_directive("%F %T%%", WRITTEN_DIRECTIVES), None);
        let parts = DateTime::of_seconds(1_717_200_000).parts();
        assert_eq!(parts, [2024, 5, 1, 0, 0, 0, 6, 152]);
    }
}
