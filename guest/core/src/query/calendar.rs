//! Calendars (iCalendar, RFC 5545) and address cards (vCard, RFC 6350) as JSON.
//!
//! A component becomes an object with its properties, in the order of the text. Its child
//! components become lists under their names. A repeated property becomes a list. Parameters become
//! separate members, such as `ATTENDEE_CN`. Dates and times get the form of RFC 3339, so that they
//! compare.

use std::collections::BTreeMap;

use crate::json::text::quoted;

/// The maximum size of a text, in bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;
/// The maximum depth of components. Writing is recursive.
const MAX_DEPTH: usize = 16;
/// The properties whose values are whole numbers.
const NUMBERS: [&str; 4] = ["PERCENT-COMPLETE", "PRIORITY", "REPEAT", "SEQUENCE"];
/// The properties whose values are dates or times.
const TIMES: [&str; 13] = [
    "ANNIVERSARY",
    "BDAY",
    "COMPLETED",
    "CREATED",
    "DTEND",
    "DTSTAMP",
    "DTSTART",
    "DUE",
    "EXDATE",
    "LAST-MODIFIED",
    "RDATE",
    "RECURRENCE-ID",
    "REV",
];
/// The maximum number of names of properties and parameters in one component.
const MAX_NAMES: usize = 1_000;
/// The maximum number of null values in one calendar component, for parameters that some of its
/// properties lack.
const MAX_ABSENT: usize = 1_000_000;
/// The properties whose values are lists, divided by commas.
const LISTS: [&str; 3] = ["CATEGORIES", "EXDATE", "RESOURCES"];

/// A component of a calendar, or a card.
#[derive(Default)]
struct Component {
    name: String,
    /// The names of properties and parameters, each with the JSON of its values. A value is `None`
    /// where one of several properties of the same name lacks the parameter.
    properties: Vec<(String, Vec<Option<Vec<u8>>>)>,
    components: Vec<Component>,
    /// The number of `None` values in `properties`.
    absent: usize,
}

/// Converts a text of calendars or cards to JSON. Also returns the name of the format. One calendar
/// is an object; several calendars, and all cards, are lists. `None` if the text is neither, too
/// large or too deep. O(text).
pub(super) fn to_json(text: &str) -> Option<(Vec<u8>, &'static str)> {
    let start = text.trim_start();
    let begins =
        |name: &str| start.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let (is_calendar, is_card) = (begins("BEGIN:VCALENDAR"), begins("BEGIN:VCARD"));
    if (!is_calendar && !is_card) || text.len() > MAX_TEXT_BYTES {
        return None;
    }
    let roots = read(text)?;
    let mut out = Vec::new();
    match roots.as_slice() {
        [calendar] if is_calendar => calendar.write(&mut out),
        all => write_list(all.iter(), &mut out),
    }
    Some((out, if is_calendar { "iCalendar" } else { "vCard" }))
}

/// Returns the outermost components of a text. `None` if a line is not a property, or a component
/// has no end.
fn read(text: &str) -> Option<Vec<Component>> {
    let mut open = vec![Component::default()];
    for line in unfolded(text) {
        if line.trim().is_empty() {
            continue;
        }
        let line = ContentLine::read(&line)?;
        match line.name.as_str() {
            "BEGIN" if open.len() > MAX_DEPTH => return None,
            "BEGIN" => {
                let name = line.value.trim().to_ascii_uppercase();
                open.push(Component { name, ..Component::default() });
            }
            "END" => {
                let ended = open.pop()?;
                let is_same = ended.name.eq_ignore_ascii_case(line.value.trim());
                open.last_mut().filter(|_| is_same)?.components.push(ended);
            }
            _ if open.len() == 1 => return None,
            _ => open.last_mut()?.add(&line)?,
        }
    }
    let root = open.pop().filter(|_| open.is_empty())?;
    Some(root.components)
}

/// Returns the lines of a text, each joined with its continuation lines.
fn unfolded(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix([' ', '\t']), lines.last_mut()) {
            (Some(rest), Some(last)) => last.push_str(rest),
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

/// A property: its name, parameters and value.
struct ContentLine<'l> {
    name: String,
    parameters: Vec<(String, &'l str)>,
    value: &'l str,
}

impl<'l> ContentLine<'l> {
    fn read(line: &'l str) -> Option<Self> {
        let mut in_quotes = false;
        let is_end = |sign: char| {
            in_quotes ^= sign == '"';
            sign == ':' && !in_quotes
        };
        let (head, value) = line.split_at_checked(line.find(is_end)?)?;
        let mut parts = divided(head, ';').into_iter();
        // A group of a card, as in `item1.TEL`, is no part of the name.
        let name = parts.next()?.rsplit('.').next()?.to_ascii_uppercase();
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let parameters = parts.map(|part| {
            let (name, value) = part.split_once('=').unwrap_or(("TYPE", part));
            (name.to_ascii_uppercase(), value.trim_matches('"'))
        });
        let parameters = parameters.filter(|(name, _)| is_name(name)).collect();
        is_name(&name).then_some(Self { name, parameters, value: value.get(1..)? })
    }

    /// Returns the value as JSON.
    fn json(&self) -> Vec<u8> {
        if NUMBERS.contains(&self.name.as_str())
            && self.value.len() < 10
            && self.value.parse::<u32>().is_ok_and(|number| number.to_string() == self.value)
        {
            return self.value.as_bytes().to_vec();
        }
        if LISTS.contains(&self.name.as_str()) {
            let parts = escaped_parts(self.value);
            let parts: Vec<Vec<u8>> = parts.iter().map(|part| self.json_of(part)).collect();
            return [b"[".as_slice(), &parts.join(&b','), b"]"].concat();
        }
        self.json_of(self.value)
    }

    /// Returns one value as JSON: a date or time in the form of RFC 3339, any other value as a
    /// text.
    fn json_of(&self, value: &str) -> Vec<u8> {
        let found = TIMES.contains(&self.name.as_str()).then(|| time(value)).flatten();
        quoted(&found.unwrap_or_else(|| unescaped(value)))
    }
}

impl Component {
    /// Adds a property. `None` if the component has too many names or absent parameters.
    fn add(&mut self, line: &ContentLine<'_>) -> Option<()> {
        let count = self.push(&line.name, Some(line.json()), 0);
        for (name, value) in &line.parameters {
            let name = format!("{}_{name}", line.name);
            self.push(&name, Some(quoted(value)), count);
        }
        (self.properties.len() <= MAX_NAMES && self.absent <= MAX_ABSENT).then_some(())
    }

    /// Adds a value to the member `name`: as its `at`-th value, or after the last one if `at` is 0.
    /// Returns the position of the value, from 1.
    fn push(&mut self, name: &str, value: Option<Vec<u8>>, at: usize) -> usize {
        let known = self.properties.iter().position(|(known, _)| known == name);
        let known = known.unwrap_or_else(|| {
            self.properties.push((name.to_owned(), Vec::new()));
            self.properties.len() - 1
        });
        let Some((_, values)) = self.properties.get_mut(known) else { return 0 };
        // A parameter that occurs twice in a line remains once.
        if at > 0 && values.len() >= at {
            return at;
        }
        let length = at.saturating_sub(1).max(values.len());
        self.absent += length - values.len();
        values.resize(length, None);
        values.push(value);
        values.len()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        for (name, values) in &self.properties {
            separate(out);
            out.extend(quoted(name));
            out.push(b':');
            let null = || b"null".to_vec();
            let mut values = values.iter().map(|value| value.clone().unwrap_or_else(null));
            match (values.next(), values.len()) {
                (Some(value), 0) => out.extend(value),
                (first, _) => {
                    let all: Vec<Vec<u8>> = first.into_iter().chain(values).collect();
                    out.extend([b"[".as_slice(), &all.join(&b','), b"]"].concat());
                }
            }
        }
        let mut by_name: BTreeMap<&str, Vec<&Self>> = BTreeMap::new();
        for component in &self.components {
            by_name.entry(&component.name).or_default().push(component);
        }
        for (name, components) in by_name {
            separate(out);
            out.extend(quoted(name));
            out.push(b':');
            write_list(components.into_iter(), out);
        }
        out.push(b'}');
    }
}

fn write_list<'c>(components: impl Iterator<Item = &'c Component>, out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, component) in components.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        component.write(out);
    }
    out.push(b']');
}

/// Appends a comma to `out`, unless an object begins there.
fn separate(out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
}

/// Converts a date `20240501` or time `20240501T100000Z` to the form of RFC 3339. A local time
/// remains without offset. `None` for other values.
fn time(value: &str) -> Option<String> {
    let (date, rest) = value.split_at_checked(8)?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (year, day) = date.split_at_checked(4).filter(|_| is_number(date))?;
    let (month, day) = day.split_at_checked(2)?;
    let is_in = |text: &str, most: u8| text.parse::<u8>().is_ok_and(|it| (1..=most).contains(&it));
    if !is_in(month, 12) || !is_in(day, 31) {
        return None;
    }
    let date = format!("{year}-{month}-{day}");
    if rest.is_empty() {
        return Some(date);
    }
    let (clock, zone) = rest.strip_prefix('T')?.split_at_checked(6)?;
    let (hour, minute) = clock.split_at_checked(2).filter(|_| is_number(clock))?;
    let (minute, second) = minute.split_at_checked(2)?;
    ["", "Z"].contains(&zone).then(|| format!("{date}T{hour}:{minute}:{second}{zone}"))
}

/// Splits a text at the character `divider` outside of quotes.
fn divided(text: &str, divider: char) -> Vec<&str> {
    let mut in_quotes = false;
    text.split(|sign: char| {
        in_quotes ^= sign == '"';
        sign == divider && !in_quotes
    })
    .collect()
}

/// Splits a value at commas without a preceding backslash.
fn escaped_parts(value: &str) -> Vec<&str> {
    let mut is_escaped = false;
    value
        .split(|sign: char| {
            let divides = sign == ',' && !is_escaped;
            is_escaped = sign == '\\' && !is_escaped;
            divides
        })
        .collect()
}

/// Returns a value with its escapes replaced: `\n`, `\,`, `\;` and `\\`.
fn unescaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut signs = value.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => match signs.next() {
                Some('n' | 'N') => text.push('\n'),
                Some(other) => text.push(other),
                None => text.push('\\'),
            },
            _ => text.push(sign),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn json(text: &str) -> Option<Value> {
        to_json(text).map(|(json, _)| serde_json::from_slice(&json).unwrap())
    }

    const CALENDAR: &str = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x\r\nBEGIN:VEVENT\r\n\
        UID:1\r\nSUMMARY:Stand-up\\, daily\r\nDTSTART;TZID=Europe/Berlin:20240501T093000\r\n\
        DTEND:20240501T074500Z\r\nSEQUENCE:2\r\nATTENDEE;CN=Ann:mailto:a@x.org\r\n\
        ATTENDEE:mailto:b@x.org\r\nATTENDEE;CN=\"Doe; C:\":mailto:c@x.org\r\n\
        DESCRIPTION:A long\r\n  text\\nof two lines\r\nCATEGORIES:work,a\\,b\r\n\
        BEGIN:VALARM\r\nTRIGGER:-PT5M\r\nEND:VALARM\r\nEND:VEVENT\r\n\
        BEGIN:VEVENT\r\nUID:2\r\nDTSTART;VALUE=DATE:20240601\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";

    #[test]
    fn calendar_is_an_object_with_lists_of_components() {
        let expected = json!({
            "VERSION": "2.0", "PRODID": "-//x",
            "VEVENT": [
                {"UID": "1", "SUMMARY": "Stand-up, daily", "DTSTART": "2024-05-01T09:30:00",
                 "DTSTART_TZID": "Europe/Berlin", "DTEND": "2024-05-01T07:45:00Z", "SEQUENCE": 2,
                 "ATTENDEE": ["mailto:a@x.org", "mailto:b@x.org", "mailto:c@x.org"],
                 "ATTENDEE_CN": ["Ann", null, "Doe; C:"],
                 "DESCRIPTION": "A long text\nof two lines", "CATEGORIES": ["work", "a,b"],
                 "VALARM": [{"TRIGGER": "-PT5M"}]},
                {"UID": "2", "DTSTART": "2024-06-01", "DTSTART_VALUE": "DATE"}
            ]
        });
        assert_eq!(json(CALENDAR), Some(expected));
    }

    #[test]
    fn cards_are_a_list() {
        let cards = "BEGIN:VCARD\nVERSION:3.0\nFN:Ann\nBDAY:19800203\nitem1.TEL;TYPE=home:12345678\nTEL;WORK:2\nEND:VCARD\n";
        let card = json!({"VERSION": "3.0", "FN": "Ann", "BDAY": "1980-02-03",
            "TEL": ["12345678", "2"], "TEL_TYPE": ["home", "WORK"]});
        assert_eq!(json(cards), Some(json!([card])));
        assert_eq!(to_json(cards).map(|(_, format)| format), Some("vCard"));
    }

    #[test]
    fn other_texts_are_no_calendars() {
        for text in [
            "",
            "BEGIN:VCALENDAR\nEND:VEVENT\n",
            "BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VCALENDAR\n",
            "BEGIN:VCALENDAR\nno property\nEND:VCALENDAR\n",
            "BEGIN:VCARD\nEND:VCARD\nFN:outside\n",
            "SUMMARY:x\n",
        ] {
            assert_eq!(json(text), None, "{text}");
        }
        let lines = |line: &dyn Fn(usize) -> String| {
            let lines: String = (0..40_000).map(line).collect();
            format!("BEGIN:VCALENDAR\n{lines}END:VCALENDAR\n")
        };
        assert_eq!(json(&lines(&|at| format!("A;P{at}=:x\n"))), None);
        assert_eq!(json(&lines(&|at| format!("A{at}:x\n"))), None);
        assert!(json(&lines(&|at| format!("BEGIN:A{at}\nEND:A{at}\n"))).is_some());
        assert!(json(&lines(&|at| format!("A;P{}=:x\n", at % 20))).is_some());
        let deep = "BEGIN:A\n".repeat(MAX_DEPTH + 1);
        assert_eq!(json(&format!("BEGIN:VCALENDAR\n{deep}")), None);
    }
}
