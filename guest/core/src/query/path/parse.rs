//! The grammar of JSONPath (RFC 9535). Also accepted: a path without the leading `$`, and names
//! such as `created-at` and `0` after a dot.

mod filter;

use super::syntax::{PathQuery, PathSelector, Segment};

/// The maximum length, in bytes, of a path.
const MAX_BYTES: usize = 4_096;
/// The maximum depth of brackets, parentheses and negations.
const MAX_DEPTH: usize = 32;
/// The largest number that JSON implementations hold exactly.
const MAX_INDEX: i64 = (1 << 53) - 1;

/// Syntax of other dialects, each with its replacement.
const DIALECTS: [(&str, &str); 8] = [
    ("=", "write == for equality"),
    ("and ", "write &&"),
    ("or ", "write ||"),
    ("in ", "write == and ||, or the argument where with IN (…)"),
    ("contains ", "write search(@.a, 'x'), or the argument where with ~"),
    ("~", "for the names of members use jq: keys"),
    ("^", "for the parents of values use jq: .items[] | select(.a.b == 1)"),
    (".length", "write length(@.a)"),
];

/// A parser of paths.
struct PathParser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    /// True if filters may contain bare names, as in `[?price>5]` of JMESPath. False for a path
    /// with the `$` of RFC 9535, which JMESPath lacks.
    has_bare_names: bool,
}

/// Parses a JSONPath.
///
/// # Errors
/// Returns the position and the reason.
pub(super) fn parse(text: &str) -> Result<PathQuery, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("it has {} bytes, and at most {MAX_BYTES} are accepted", text.len()));
    }
    let mut parser = PathParser { text, at: 0, depth: 0, has_bare_names: !text.starts_with('$') };
    let mut segments = Vec::new();
    if !parser.eat("$") && !parser.rest().starts_with(['.', '[']) {
        // `items[0].name`, without the leading `$`.
        let selectors = vec![parser.shorthand()?];
        segments.push(Segment { is_deep: false, selectors });
    }
    segments.extend(parser.segments()?);
    if !parser.rest().is_empty() {
        return Err(parser.error("a step such as .name, [0] or [*] is expected"));
    }
    Ok(PathQuery { is_absolute: true, segments })
}

impl<'t> PathParser<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn error(&self, reason: &str) -> String {
        let rest = self.rest();
        let hint = DIALECTS.iter().find(|(spelling, _)| rest.trim_start().starts_with(spelling));
        let reason = hint.map_or(reason, |(_, hint)| hint);
        let shown: String = rest.chars().take(40).collect();
        match shown.is_empty() {
            true => format!("at its end: {reason}"),
            false => format!("at {shown:?}: {reason}"),
        }
    }

    fn eat(&mut self, token: &str) -> bool {
        let is_next = self.rest().starts_with(token);
        self.at += if is_next { token.len() } else { 0 };
        is_next
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.eat(token) { Ok(()) } else { Err(self.error(&format!("{token} is expected"))) }
    }

    fn skip_space(&mut self) {
        let is_space = |character| matches!(character, ' ' | '\t' | '\n' | '\r');
        self.at = self.text.len() - self.rest().trim_start_matches(is_space).len();
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(&format!("it is nested deeper than {MAX_DEPTH} levels")));
        }
        let parsed = parse(self)?;
        self.depth -= 1;
        Ok(parsed)
    }

    /// Reads all steps that follow. White space may precede each of them.
    fn segments(&mut self) -> Result<Vec<Segment>, String> {
        let mut segments = Vec::new();
        loop {
            let before = self.at;
            self.skip_space();
            let is_deep = self.eat("..");
            if self.rest().starts_with('[') {
                let selectors = self.nested(Self::brackets)?;
                segments.push(Segment { is_deep, selectors });
            } else if is_deep || self.eat(".") {
                segments.push(Segment { is_deep, selectors: vec![self.shorthand()?] });
            } else {
                self.at = before;
                return Ok(segments);
            }
        }
    }

    /// Reads a name or `*` after a dot.
    fn shorthand(&mut self) -> Result<PathSelector, String> {
        if self.eat("*") {
            return Ok(PathSelector::All);
        }
        let is_end = |character: char| {
            character.is_ascii() && !character.is_ascii_alphanumeric() && !"_-".contains(character)
        };
        let rest = self.rest();
        let name = rest.get(..rest.find(is_end).unwrap_or(rest.len())).unwrap_or_default();
        if name.is_empty() {
            return Err(self.error("a name is expected; write ['a name'] for one with other signs"));
        }
        self.at += name.len();
        if self.rest().starts_with('(') {
            self.at -= name.len();
            let argument = self.rest().split_once('(').and_then(|(_, rest)| rest.split_once(')'));
            let argument =
                argument.map(|(argument, _)| argument.trim().trim_start_matches(['@', '$', '.']));
            let known =
                ["keys", "length", "sort", "reverse", "type", "max", "min", "values", "add"];
            let argument = argument.filter(|text| !text.is_empty() && known.contains(&name));
            if let Some(argument) = argument {
                let is_plain = argument.chars().all(|c| c.is_alphanumeric() || "_.[]".contains(c));
                let program = match (is_plain, argument.contains("[]")) {
                    (true, false) => format!(".{argument} | {name}"),
                    (true, true) => format!("[.{argument}] | {name}"),
                    _ => format!("[.[] | select(.size > 5) | .name] | {name}"),
                };
                return Err(self.error(&format!("for this use jq, such as {program}")));
            }
            let reason = "functions are for filters only, such as [?length(@.a)>2]; for totals use aggregate or jq";
            return Err(self.error(reason));
        }
        Ok(PathSelector::Token(name.to_owned()))
    }

    fn brackets(&mut self) -> Result<Vec<PathSelector>, String> {
        self.expect("[")?;
        let mut selectors = Vec::new();
        // `[]` of JMESPath.
        if self.has_bare_names && self.eat("]") {
            return Ok(vec![PathSelector::All]);
        }
        loop {
            self.skip_space();
            selectors.push(self.selector()?);
            self.skip_space();
            if self.eat("]") {
                return Ok(selectors);
            }
            if !self.eat(",") {
                return Err(self.error("a comma or ] is expected"));
            }
        }
    }

    fn selector(&mut self) -> Result<PathSelector, String> {
        match self.rest().chars().next() {
            Some('\'' | '"') => Ok(PathSelector::Name(self.quoted()?)),
            Some('*') => {
                self.at += 1;
                Ok(PathSelector::All)
            }
            Some('?') => {
                self.at += 1;
                self.skip_space();
                self.any().map(PathSelector::Filter)
            }
            Some('-' | ':' | '0'..='9') => self.index_or_slice(),
            Some('(') => {
                Err(self.error("for the last element write [-1]; a condition begins with ?"))
            }
            _ => Err(self.error("an index, a name in quotes, *, a slice or ? is expected")),
        }
    }

    fn index_or_slice(&mut self) -> Result<PathSelector, String> {
        let start = self.integer()?;
        let before = self.at;
        self.skip_space();
        if !self.eat(":") {
            self.at = before;
            return start
                .map(PathSelector::Index)
                .ok_or_else(|| self.error("an index is expected"));
        }
        self.skip_space();
        let end = self.integer()?;
        let before = self.at;
        self.skip_space();
        let mut step = None;
        if self.eat(":") {
            let before = self.at;
            self.skip_space();
            step = self.integer()?;
            if step.is_none() {
                self.at = before;
            }
        } else {
            self.at = before;
        }
        Ok(PathSelector::Slice { start, end, step: step.unwrap_or(1) })
    }

    /// Reads an integer. `None` if none is next.
    fn integer(&mut self) -> Result<Option<i64>, String> {
        let rest = self.rest();
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let count = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        if count == 0 && digits.len() == rest.len() {
            return Ok(None);
        }
        let length = rest.len() - digits.len() + count;
        let text = rest.get(..length).unwrap_or_default();
        let is_canonical = text == "0" || !digits.starts_with('0');
        let number = text.parse().ok().filter(|number: &i64| number.abs() <= MAX_INDEX);
        match number.filter(|_| is_canonical) {
            Some(number) => {
                self.at += length;
                Ok(Some(number))
            }
            None => Err(self.error("a whole number is expected, without leading zeros")),
        }
    }

    /// Reads a quoted text.
    fn quoted(&mut self) -> Result<String, String> {
        let start = self.at;
        let Some(quote) = self.next() else { return Err(self.error("a text is expected")) };
        let mut text = String::new();
        loop {
            match self.next() {
                Some(character) if character == quote => return Ok(text),
                Some('\\') => {
                    let escape = self.at - 1;
                    let Some(character) = self.escaped(quote) else {
                        self.at = escape;
                        return Err(self.error("this escape is not one of JSON"));
                    };
                    text.push(character);
                }
                Some(character) if character < ' ' => {
                    self.at -= 1;
                    return Err(self.error("control characters must be escaped, such as \\n"));
                }
                Some(character) => text.push(character),
                None => {
                    self.at = start;
                    return Err(self.error("the closing quote is missing"));
                }
            }
        }
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn escaped(&mut self, quote: char) -> Option<char> {
        Some(match self.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            same @ ('/' | '\\') => same,
            same if same == quote => same,
            'u' => {
                let unit = self.hexadecimal()?;
                match unit {
                    0xD800..=0xDBFF => {
                        let low = if self.eat("\\u") { self.hexadecimal()? } else { return None };
                        char::decode_utf16([unit, low]).next()?.ok()?
                    }
                    unit => char::from_u32(u32::from(unit))?,
                }
            }
            _ => return None,
        })
    }

    fn hexadecimal(&mut self) -> Option<u16> {
        let digits = self.rest().get(..4)?;
        let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let unit = u16::from_str_radix(digits, 16).ok().filter(|_| is_hexadecimal)?;
        self.at += 4;
        Some(unit)
    }
}
