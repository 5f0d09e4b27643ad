//! The grammar of filters.

mod functions;

use super::PathParser;
use crate::query::code::regex_literal;
use crate::query::path::regex::PathRegex;
use crate::query::path::syntax::{Comparison, PathCondition, PathOperand, PathQuery, Segment};

/// The operators of comparisons. Longer ones come first, because the first match wins.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

impl PathParser<'_> {
    /// Reads conditions that `||` joins.
    pub(super) fn any(&mut self) -> Result<PathCondition, String> {
        self.chain("||", Self::all, PathCondition::Any)
    }

    /// Reads conditions that `&&` joins.
    fn all(&mut self) -> Result<PathCondition, String> {
        self.chain("&&", Self::condition, PathCondition::All)
    }

    fn chain(
        &mut self,
        operator: &str,
        part: impl Fn(&mut Self) -> Result<PathCondition, String>,
        join: impl FnOnce(Vec<PathCondition>) -> PathCondition,
    ) -> Result<PathCondition, String> {
        let first = part(self)?;
        let mut parts = vec![first];
        loop {
            let before = self.at;
            self.skip_space();
            if !self.eat(operator) {
                self.at = before;
                break;
            }
            self.skip_space();
            parts.push(part(self)?);
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => join(parts),
        })
    }

    fn condition(&mut self) -> Result<PathCondition, String> {
        if self.eat("!") {
            self.skip_space();
            let is_test =
                self.rest().starts_with(['(', '@', '$', 'm', 's']) || self.has_bare_name();
            let is_test = is_test || self.has_test();
            if !is_test {
                return Err(self.error("! needs a query or parentheses"));
            }
            let start = self.at;
            let condition = self.nested(Self::condition)?;
            if matches!(condition, PathCondition::Compare(..)) && !self.is_parenthesis(start) {
                self.at = start;
                return Err(self.error("write !(…) around a comparison"));
            }
            return Ok(PathCondition::Not(Box::new(condition)));
        }
        if self.rest().starts_with('(') {
            return self.nested(|parser| {
                parser.expect("(")?;
                parser.skip_space();
                let condition = parser.any()?;
                parser.skip_space();
                parser.expect(")")?;
                Ok(condition)
            });
        }
        for (name, is_whole) in [("match(", true), ("search(", false)] {
            if self.eat(name) {
                let matches = self.nested(|parser| parser.matches(is_whole))?;
                return self.without_comparison(matches);
            }
        }
        if let Some(test) = self.test()? {
            return Ok(test);
        }
        let start = self.at;
        let is_query = self.rest().starts_with(['@', '$']);
        if is_query || self.has_bare_name() {
            let query = self.query()?;
            let end = self.at;
            self.skip_space();
            if !self.is_comparison() {
                self.at = end;
                // A bare name, as in JMESPath, tests the value. RFC 9535 tests that there is one.
                return Ok(match is_query {
                    true => PathCondition::Exists(query),
                    false => PathCondition::IsTrue(query),
                });
            }
            self.at = start;
        }
        let left = self.operand()?;
        self.skip_space();
        if self.eat("=~") {
            self.skip_space();
            return self.matched(left);
        }
        let start = self.at;
        let Some(comparison) = self.comparison() else {
            return Err(self.error("a comparison such as ==, < or >= is expected"));
        };
        if self.rest().starts_with('=') {
            self.at = start;
            return Err(self.error("write == or !="));
        }
        self.skip_space();
        let right = self.operand()?;
        Ok(PathCondition::Compare(left, comparison, right))
    }

    /// Reads the operator of a comparison. `None` if none is next.
    fn comparison(&mut self) -> Option<Comparison> {
        COMPARISONS.iter().find(|(token, _)| self.eat(token)).map(|(_, comparison)| *comparison)
    }

    fn is_parenthesis(&self, at: usize) -> bool {
        self.text.get(at..).is_some_and(|rest| rest.starts_with('('))
    }

    /// Reads the regular expression after `=~`, as `/^x/i` or in quotes. It may match a part of the
    /// text.
    fn matched(&mut self, text: PathOperand) -> Result<PathCondition, String> {
        let start = self.at;
        let pattern = match self.regex_literal() {
            Some(pattern) => pattern,
            None if self.rest().starts_with(['\'', '"']) => self.quoted()?,
            None => return Err(self.error("a regular expression such as /^x/i is expected")),
        };
        let compiled = PathRegex::search(&pattern).map_err(|reason| {
            self.at = start;
            self.error(&reason)
        })?;
        let (pattern, compiled) = (PathOperand::Text(pattern), Some(Box::new(compiled)));
        Ok(PathCondition::Matches { text, pattern, is_whole: false, compiled })
    }

    fn regex_literal(&mut self) -> Option<String> {
        let (pattern, ignore_case, rest) = regex_literal(self.rest())?;
        self.at = self.text.len() - rest.len();
        Some(if ignore_case { format!("(?i){pattern}") } else { pattern })
    }

    fn is_comparison(&self) -> bool {
        self.rest().starts_with("=~")
            || COMPARISONS.iter().any(|(token, _)| self.rest().starts_with(token))
    }

    /// Returns an error if a comparison follows a condition, which is true or false already.
    fn without_comparison(&mut self, condition: PathCondition) -> Result<PathCondition, String> {
        let end = self.at;
        self.skip_space();
        if self.is_comparison() {
            return Err(self.error("match and search are conditions, and cannot be compared"));
        }
        self.at = end;
        Ok(condition)
    }

    /// Reads the arguments of `match` or `search`.
    fn matches(&mut self, is_whole: bool) -> Result<PathCondition, String> {
        self.skip_space();
        let text = self.operand()?;
        self.skip_space();
        self.expect(",")?;
        self.skip_space();
        let start = self.at;
        let pattern = self.operand()?;
        let compiled = match &pattern {
            PathOperand::Text(text) => match PathRegex::new(text, is_whole) {
                Ok(pattern) => Some(Box::new(pattern)),
                Err(reason) => {
                    self.at = start;
                    return Err(self.error(&reason));
                }
            },
            _ => None,
        };
        self.skip_space();
        self.expect(")")?;
        Ok(PathCondition::Matches { text, pattern, is_whole, compiled })
    }

    /// Reads a query that begins with `@` or `$`, or with a bare name if those are accepted.
    fn query(&mut self) -> Result<PathQuery, String> {
        if self.has_bare_name() {
            let first = Segment { is_deep: false, selectors: vec![self.shorthand()?] };
            let mut segments = vec![first];
            segments.extend(self.segments()?);
            return Ok(PathQuery { is_absolute: false, segments });
        }
        let is_absolute = self.eat("$");
        if !is_absolute {
            self.expect("@")?;
        }
        Ok(PathQuery { is_absolute, segments: self.segments()? })
    }

    /// Returns true if a bare name is next, which denotes a member of the tested element.
    fn has_bare_name(&self) -> bool {
        let rest = self.rest();
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let (name, after) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
        self.has_bare_names
            && name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && !after.starts_with('(')
            && !["true", "false", "null"].contains(&name)
    }

    /// Reads a value of a comparison.
    fn operand(&mut self) -> Result<PathOperand, String> {
        let start = self.at;
        match self.rest().chars().next() {
            Some('@' | '$') => {
                let query = self.query()?;
                if !query.is_singular() {
                    self.at = start;
                    return Err(self.error(
                        "a path to one value is expected here, without *, .., slices and filters; count(…) and value(…) take others",
                    ));
                }
                return Ok(PathOperand::Value(query));
            }
            Some('\'' | '"') => return self.quoted().map(PathOperand::Text),
            Some('`') if self.has_bare_names => return self.literal(),
            Some(_) if self.has_bare_name() => return self.query().map(PathOperand::Value),
            Some('-' | '0'..='9') => return self.number(),
            _ => {}
        }
        let is_word = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let words = [
            ("null", PathOperand::Null),
            ("true", PathOperand::Boolean(true)),
            ("false", PathOperand::Boolean(false)),
        ];
        for (word, operand) in words {
            if self.rest().strip_prefix(word).is_some_and(is_word) {
                self.at += word.len();
                return Ok(operand);
            }
        }
        if let Some(function) = self.function()? {
            return Ok(function);
        }
        if self.eat("length(") {
            return self.nested(|parser| {
                parser.skip_space();
                let operand = parser.operand()?;
                parser.skip_space();
                parser.expect(")")?;
                Ok(PathOperand::Length(Box::new(operand)))
            });
        }
        for (name, function) in [
            ("count(", PathOperand::Count as fn(PathQuery) -> PathOperand),
            ("value(", PathOperand::Only),
        ] {
            if self.eat(name) {
                return self.nested(|parser| {
                    parser.skip_space();
                    let query = parser.query()?;
                    parser.skip_space();
                    parser.expect(")")?;
                    Ok(function(query))
                });
            }
        }
        Err(self.error("a value is expected: @.name, 'text', a number, true, false, null, length(…), count(…), value(…), max(…), min(…), sum(…), avg(…) or to_number(…)"))
    }

    /// Reads a JSON value between backquotes, in the syntax of JMESPath.
    fn literal(&mut self) -> Result<PathOperand, String> {
        let inside = self.rest().get(1..).and_then(|rest| rest.split_once('`'));
        let Some((inside, _)) = inside else { return Err(self.error("` is expected")) };
        let operand = match serde_json::from_str(inside) {
            Ok(serde_json::Value::Null) => PathOperand::Null,
            Ok(serde_json::Value::Bool(value)) => PathOperand::Boolean(value),
            Ok(serde_json::Value::Number(_)) => PathOperand::Number(inside.trim().to_owned()),
            Ok(serde_json::Value::String(text)) => PathOperand::Text(text),
            _ => return Err(self.error("a number, a text, true, false or null is expected")),
        };
        self.at += inside.len() + 2;
        Ok(operand)
    }

    /// Reads a JSON number.
    fn number(&mut self) -> Result<PathOperand, String> {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let text = rest.get(..rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
        let number = text.filter(|text| serde_json::from_str::<serde_json::Number>(text).is_ok());
        let Some(number) = number else { return Err(self.error("this is no number of JSON")) };
        self.at += number.len();
        Ok(PathOperand::Number(number.to_owned()))
    }
}
