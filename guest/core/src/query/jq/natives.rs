//! jq functions for numbers, regular expressions and formats.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use context_guard_protocol::rest::{percent_decoded, percent_encoded};
use jaq_core::native::{Fun, bome, run, unary, v};
use jaq_core::{Error, RunPtr, ValR};
use jaq_json::{Val, read::parse_single_num};
use jaq_std::ValT as _;
use regex_lite::{Regex, RegexBuilder};

use super::limits::{JqData, normalized};
use super::read::read_value;

/// The maximum size of a compiled regular expression, in bytes.
const MAX_COMPILED_BYTES: usize = 64 * 1024;

type Failure = Error<Val>;
/// A function of one number.
type OfNumber = fn(f64) -> f64;

const NUMBER_FUNCTIONS: [(&str, RunPtr<JqData>); 14] = [
    ("sqrt", |cv| number(&cv.1, f64::sqrt)),
    ("fabs", |cv| number(&cv.1, f64::abs)),
    ("trunc", |cv| number(&cv.1, f64::trunc)),
    ("exp", |cv| number(&cv.1, f64::exp)),
    ("exp2", |cv| number(&cv.1, f64::exp2)),
    ("exp10", |cv| number(&cv.1, |x| 10f64.powf(x))),
    ("log", |cv| number(&cv.1, f64::ln)),
    ("log2", |cv| number(&cv.1, f64::log2)),
    ("log10", |cv| number(&cv.1, f64::log10)),
    ("cbrt", |cv| number(&cv.1, f64::cbrt)),
    ("sin", |cv| number(&cv.1, f64::sin)),
    ("cos", |cv| number(&cv.1, f64::cos)),
    ("tan", |cv| number(&cv.1, f64::tan)),
    ("atan", |cv| number(&cv.1, f64::atan)),
];

/// Returns the jq functions that are implemented in Rust, such as `@html` escaping and regular
/// expressions.
pub(super) fn functions() -> impl Iterator<Item = Fun<JqData>> {
    let texts: [(&str, RunPtr<JqData>); 7] = [
        ("fromjson", |cv| bome(text(&cv.1).and_then(from_json))),
        ("escape_html", |cv| bome(map_text(&cv.1, |text| Ok(escape_html(text))))),
        ("unescape_html", |cv| bome(map_text(&cv.1, |text| Ok(unescape_html(text))))),
        ("encode_uri", |cv| bome(map_text(&cv.1, |text| Ok(percent_encoded(text))))),
        ("decode_uri", |cv| bome(map_text(&cv.1, |text| Ok(percent_decoded(text))))),
        ("encode_base64", |cv| bome(map_text(&cv.1, |text| Ok(STANDARD.encode(text))))),
        ("decode_base64", |cv| bome(map_text(&cv.1, decode_base64))),
    ];
    let pairs: [(&str, RunPtr<JqData>); 5] = [
        ("matches", |mut cv| {
            let (flags, pattern) = (cv.0.pop_var(), cv.0.pop_var());
            bome(matches(&cv.1, &pattern, &flags, Parts::Matches))
        }),
        ("split_matches", |mut cv| {
            let (flags, pattern) = (cv.0.pop_var(), cv.0.pop_var());
            bome(matches(&cv.1, &pattern, &flags, Parts::Both))
        }),
        ("split_", |mut cv| {
            let (flags, pattern) = (cv.0.pop_var(), cv.0.pop_var());
            bome(matches(&cv.1, &pattern, &flags, Parts::Between))
        }),
        ("pow", |mut cv| {
            let (exponent, base) = (cv.0.pop_var(), cv.0.pop_var());
            bome(two_numbers(&base, &exponent, f64::powf))
        }),
        ("atan2", |mut cv| {
            let (right, left) = (cv.0.pop_var(), cv.0.pop_var());
            bome(two_numbers(&left, &right, f64::atan2))
        }),
    ];
    let numbers = NUMBER_FUNCTIONS.into_iter().chain(texts);
    let numbers = numbers.map(|(name, function)| run::<JqData>((name, v(0), function)));
    let pairs = pairs.into_iter().map(|(name, function)| run::<JqData>((name, v(2), function)));
    let has: (&str, _, RunPtr<JqData>) =
        ("has", v(1), |cv| unary(cv, |value, key| has(&value, &key)));
    numbers.chain(pairs).chain([run::<JqData>(has)])
}

fn number<'a>(value: &Val, function: OfNumber) -> jaq_core::ValXs<'a, Val> {
    let result = value.as_f64().ok_or_else(|| Error::typ(value.clone(), "number"));
    bome(result.map(|value| normalized(Val::from(function(value)))))
}

fn two_numbers(left: &Val, right: &Val, function: fn(f64, f64) -> f64) -> ValR<Val> {
    let number = |value: &Val| value.as_f64().ok_or_else(|| Error::typ(value.clone(), "number"));
    Ok(normalized(Val::from(function(number(left)?, number(right)?))))
}

/// Returns true if a list has an element at `key`, or if an object has that member. Unlike in jaq,
/// a negative number is not counted from the end.
fn has(value: &Val, key: &Val) -> ValR<Val> {
    let found = match (value, key) {
        (Val::Obj(members), Val::TStr(_)) => members.contains_key(key),
        (Val::Arr(list), Val::Num(number)) => {
            // The conversion rounds towards zero, as jq does.
            let at = number.as_isize().or_else(|| key.as_f64().map(|number| number as isize));
            at.and_then(|at| usize::try_from(at).ok()).is_some_and(|at| at < list.len())
        }
        _ => return Err(Error::index(value.clone(), key.clone())),
    };
    Ok(Val::from(found))
}

/// Returns the only JSON value in a text. Like jq, accepts numbers such as `007`, `+5` and `.5`.
/// jaq returns each value of a text, and those before an error.
fn from_json(text: &str) -> ValR<Val> {
    let trimmed = text.trim_ascii();
    if let Some(number) = plain_number(trimmed) {
        return Ok(number);
    }
    read_value(trimmed.as_bytes())
        .map_err(|error| Error::str(format_args!("cannot parse {text:?} as JSON: {error}")))
}

/// Returns the number in a text of digits, signs, a dot and an exponent. `None` for other texts.
fn plain_number(text: &str) -> Option<Val> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let float: f64 = Some(text).filter(|text| text.bytes().all(is_plain))?.parse().ok()?;
    let unsigned = text.trim_start_matches('+');
    let exact = [unsigned, unsigned.trim_start_matches('0')]
        .into_iter()
        .find_map(|digits| parse_single_num(digits.as_bytes()));
    Some(exact.map_or_else(|| normalized(Val::from(float)), Val::Num))
}

pub(super) fn text(value: &Val) -> Result<&str, Failure> {
    let bytes = value.as_utf8_bytes().ok_or_else(|| Error::typ(value.clone(), "string"))?;
    std::str::from_utf8(bytes).map_err(Error::str)
}

fn map_text(value: &Val, map: impl Fn(&str) -> Result<String, Failure>) -> ValR<Val> {
    text(value).and_then(map).map(Val::from)
}

fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

fn unescape_html(text: &str) -> String {
    let names = [("&lt;", "<"), ("&gt;", ">"), ("&#39;", "'"), ("&quot;", "\""), ("&amp;", "&")];
    names.iter().fold(text.to_owned(), |text, (name, sign)| text.replace(name, sign))
}

fn decode_base64(text: &str) -> Result<String, Failure> {
    let bytes = STANDARD.decode(text.trim()).map_err(Error::str)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The parts of a text that a regular expression function returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    Matches,
    Between,
    Both,
}

/// Returns the matches of a regular expression in a text, the texts between them, or both
/// alternately.
fn matches(value: &Val, pattern: &Val, flags: &Val, parts: Parts) -> ValR<Val> {
    let flags = match flags {
        Val::Null => "",
        flags => text(flags)?,
    };
    let has = |flag: char| flags.contains(flag);
    if let Some(flag) = flags.chars().find(|flag| !"gnimslxp".contains(*flag)) {
        return Err(Error::str(format_args!("invalid regex flag: {flag}")));
    }
    let text = text(value)?;
    let regex = RegexBuilder::new(self::text(pattern)?)
        .case_insensitive(has('i'))
        .multi_line(has('m') || has('p'))
        .dot_matches_new_line(has('s') || has('p'))
        .swap_greed(has('l'))
        .ignore_whitespace(has('x'))
        .size_limit(MAX_COMPILED_BYTES)
        .build()
        .map_err(|error| Error::str(format_args!("invalid regex: {error}")))?;
    let (mut out, mut last) = (Vec::new(), 0);
    let limit = if has('g') || parts == Parts::Between { usize::MAX } else { 1 };
    let mut characters = Characters { text, byte: 0, count: 0 };
    let found = regex.captures_iter(text);
    let is_empty = |captures: &regex_lite::Captures<'_>| {
        captures.get(0).is_none_or(|whole| whole.as_str().is_empty())
    };
    for captures in found.filter(|captures| !(has('n') && is_empty(captures))).take(limit) {
        let Some(whole) = captures.get(0) else { continue };
        if parts != Parts::Matches {
            out.push(Val::from(text.get(last..whole.start()).unwrap_or_default().to_owned()));
        }
        if parts != Parts::Between {
            out.push(groups(&regex, &captures, &mut characters).collect());
        }
        last = whole.end();
    }
    if parts != Parts::Matches {
        out.push(Val::from(text.get(last..).unwrap_or_default().to_owned()));
    }
    Ok(out.into_iter().collect())
}

/// Converts ascending byte offsets in a text to character offsets.
struct Characters<'t> {
    text: &'t str,
    byte: usize,
    count: usize,
}

impl Characters<'_> {
    fn offset(&mut self, byte: usize) -> usize {
        if byte < self.byte {
            return self.text.get(..byte).map_or(0, |text| text.chars().count());
        }
        self.count += self.text.get(self.byte..byte).map_or(0, |text| text.chars().count());
        self.byte = byte;
        self.count
    }
}

/// Returns the groups of a match as jq objects. The first group is the whole match.
fn groups<'t>(
    regex: &'t Regex,
    captures: &'t regex_lite::Captures<'_>,
    characters: &'t mut Characters<'_>,
) -> impl Iterator<Item = Val> + 't {
    regex.capture_names().enumerate().map(|(at, name)| {
        let field = |name: &str, value: Val| (Val::from(name.to_owned()), value);
        let mut members = match captures.get(at) {
            Some(group) => vec![
                field("offset", Val::from(characters.offset(group.start()))),
                field("length", Val::from(group.as_str().chars().count())),
                field("string", Val::from(group.as_str().to_owned())),
            ],
            None => vec![
                field("offset", Val::from(-1isize)),
                field("length", Val::from(0usize)),
                field("string", Val::Null),
            ],
        };
        if at > 0 {
            members.push(field("name", name.map_or(Val::Null, |name| Val::from(name.to_owned()))));
        }
        Val::obj(members.into_iter().collect())
    })
}
