//! The conditions of alerts: an expression of measures, a comparison and a number.
//!
//! ```text
//! condition = sum (">" | ">=" | "<" | "<=") number
//! sum       = product {("+" | "-") product}
//! product   = value {("*" | "/") value}
//! value     = number | measure | "(" sum ")"
//! ```

use std::fmt;

/// The maximum length of a condition, in bytes.
const MAX_BYTES: usize = 1_024;
/// The maximum depth of parentheses.
const MAX_DEPTH: usize = 16;

/// The measures of conditions that also exist in statistics, under the same names.
pub const CALL_MEASURES: [&str; 21] = [
    "calls",
    "followups",
    "tokens_before",
    "tokens_sent",
    "tokens_followup",
    "tokens_saved",
    "net_tokens_saved",
    "tokens_p95",
    "reduction",
    "bytes_before",
    "bytes_sent",
    "oversized",
    "oversized_share",
    "paged",
    "chunked",
    "condensed",
    "faults",
    "fault_rate",
    "latency_p50",
    "latency_p95",
    "latency_p99",
];

/// The measures of conditions that describe the gateway instead of calls.
pub const GATEWAY_MEASURES: [&str; 6] = [
    "estimate_error",
    "metadata_queries",
    "upstreams_down",
    "store_down",
    "audit_lost",
    "definition_alerts",
];

/// A comparison in a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
}

impl Comparison {
    const ALL: [(&'static str, Self); 4] = [
        // The longer operators come first, because each begins with a shorter one.
        (">=", Self::GreaterOrEqual),
        ("<=", Self::LessOrEqual),
        (">", Self::Greater),
        ("<", Self::Less),
    ];

    /// Returns true if the comparison of `value` with `threshold` is true.
    #[must_use]
    pub fn holds(self, value: f64, threshold: f64) -> bool {
        match self {
            Self::Greater => value > threshold,
            Self::GreaterOrEqual => value >= threshold,
            Self::Less => value < threshold,
            Self::LessOrEqual => value <= threshold,
        }
    }
}

/// An expression of measures and numbers.
#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Number(f64),
    Measure(&'static str),
    Operation(Box<Self>, char, Box<Self>),
}

impl Expression {
    fn value(&self, measure: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Measure(name) => measure(name),
            Self::Operation(left, operator, right) => {
                let (left, right) = (left.value(measure)?, right.value(measure)?);
                let result = match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                };
                // A share without calls has no value.
                result.is_finite().then_some(result)
            }
        }
    }

    fn uses(&self, name: &str) -> bool {
        match self {
            Self::Number(_) => false,
            Self::Measure(measure) => *measure == name,
            Self::Operation(left, _, right) => left.uses(name) || right.uses(name),
        }
    }
}

/// The condition of an alert.
///
/// # Examples
/// ```
/// use context_guard_config::Condition;
///
/// let condition = Condition::parse("oversized / calls > 0.05").unwrap();
/// let measures = |name: &str| Some(if name == "calls" { 100.0 } else { 7.0 });
/// assert_eq!(condition.value(&measures), Some(0.07));
/// assert_eq!(condition.is_true(&measures), Some(true));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    text: String,
    left: Expression,
    comparison: Comparison,
    threshold: f64,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// The reason with its column, counted from 1, and the valid names.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("a condition has at most {MAX_BYTES} bytes"));
        }
        let mut parser = Parser { text, at: 0, depth: 0 };
        let left = parser.sum()?;
        let Some(comparison) = parser.comparison() else {
            return Err(parser.fault("one of > >= < <= is expected"));
        };
        let threshold = match parser.value()? {
            Expression::Number(threshold) => threshold,
            _ => return Err(parser.fault("the right side is a number")),
        };
        parser.skip_space();
        if !parser.rest().is_empty() {
            return Err(parser.fault("nothing may follow the number"));
        }
        if !MEASURES.iter().any(|names| names.iter().any(|name| left.uses(name))) {
            return Err("a condition needs a measure, such as calls".to_owned());
        }
        Ok(Self { text: text.trim().to_owned(), left, comparison, threshold })
    }

    /// Returns the value of the left side. `None` if a measure has no value, for example a share of
    /// zero calls. `measure` returns the values of measures by name.
    pub fn value(&self, measure: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        self.left.value(measure)
    }

    /// Returns true if the condition is met. `None` if its left side has no value.
    pub fn is_true(&self, measure: &dyn Fn(&str) -> Option<f64>) -> Option<bool> {
        Some(self.comparison.holds(self.value(measure)?, self.threshold))
    }

    /// Returns the number on the right side.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// Returns true if the condition uses the measure with this name.
    #[must_use]
    pub fn uses(&self, measure: &str) -> bool {
        self.left.uses(measure)
    }
}

const MEASURES: [&[&str]; 2] = [&CALL_MEASURES, &GATEWAY_MEASURES];

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn fault(&self, reason: &str) -> String {
        let column = self.text.get(..self.at).unwrap_or_default().chars().count() + 1;
        format!("column {column}: {reason}")
    }

    /// Consumes and returns one of these characters, after white space. `None` if another character
    /// follows.
    fn operator(&mut self, operators: &[char]) -> Option<char> {
        self.skip_space();
        let found = self.rest().chars().next().filter(|found| operators.contains(found))?;
        self.at += found.len_utf8();
        Some(found)
    }

    fn comparison(&mut self) -> Option<Comparison> {
        self.skip_space();
        let all = Comparison::ALL.into_iter();
        let (sign, found) = all.into_iter().find(|(sign, _)| self.rest().starts_with(sign))?;
        self.at += sign.len();
        Some(found)
    }

    fn sum(&mut self) -> Result<Expression, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.operator(&['+', '-']) {
            left = Expression::Operation(left.into(), operator, self.product()?.into());
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expression, String> {
        let mut left = self.value()?;
        while let Some(operator) = self.operator(&['*', '/']) {
            left = Expression::Operation(left.into(), operator, self.value()?.into());
        }
        Ok(left)
    }

    fn value(&mut self) -> Result<Expression, String> {
        if self.operator(&['(']).is_some() {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err(self.fault("too many parentheses"));
            }
            let inner = self.sum()?;
            if self.operator(&[')']).is_none() {
                return Err(self.fault("`)` is missing"));
            }
            self.depth -= 1;
            return Ok(inner);
        }
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let length = self.rest().find(|c| !is_part(c)).unwrap_or(self.rest().len());
        let word = self.rest().get(..length).unwrap_or_default().to_owned();
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
            let Some(number) = number else {
                return Err(self.fault(&format!("`{word}` is not a number, such as 0.05 or 1000")));
            };
            self.at += length;
            return Ok(Expression::Number(number));
        }
        let measure = MEASURES.iter().flat_map(|names| names.iter()).find(|name| **name == word);
        match measure {
            Some(name) => {
                self.at += length;
                Ok(Expression::Measure(name))
            }
            None if word.is_empty() => Err(self.fault("a measure or a number is expected")),
            None => Err(self.fault(&format!(
                "there is no measure `{word}`; there are {}",
                MEASURES.concat().join(", ")
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<f64> {
        let condition = Condition::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        condition.value(&|name| match name {
            "calls" => Some(8.0),
            "oversized" => Some(2.0),
            "faults" => Some(0.0),
            _ => None,
        })
    }

    #[test]
    fn operators_have_the_usual_precedence() {
        for (text, expected) in [
            ("calls > 1", Some(8.0)),
            ("calls - oversized - 1 >= 0", Some(5.0)),
            ("calls + oversized * 3 > 1", Some(14.0)),
            ("(calls + oversized) * 3 > 1", Some(30.0)),
            ("calls/oversized/2<=7", Some(2.0)),
            ("  oversized / calls\t<  .5", Some(0.25)),
            ("calls / faults > 1", None),
            ("latency_p95 > 1", None),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn comparisons_differ_at_the_threshold() {
        for (text, expected) in
            [("calls > 8", false), ("calls >= 8", true), ("calls < 8", false), ("calls <= 8", true)]
        {
            let condition = Condition::parse(text).unwrap();
            assert_eq!(condition.is_true(&|_| Some(8.0)), Some(expected), "{text}");
            assert_eq!((condition.threshold(), condition.to_string()), (8.0, text.to_owned()));
        }
    }

    #[test]
    fn faults_name_their_column() {
        let nested = format!("{}calls > 1", "(".repeat(17));
        for (text, expected) in [
            ("", "column 1: a measure or a number is expected"),
            ("oversize / calls > 1", "column 1: there is no measure `oversize`; there are calls,"),
            ("calls / oversised > 1", "column 9: there is no measure `oversised`"),
            ("calls", "column 6: one of > >= < <= is expected"),
            ("calls = 1", "column 7: one of"),
            ("calls > oversized", "column 18: the right side is a number"),
            ("calls > 1 and", "column 11: nothing may follow the number"),
            ("calls > 5%", "column 10: nothing may follow"),
            ("(calls > 1", "column 8: `)` is missing"),
            ("calls > 1.2.3", "column 9: `1.2.3` is not a number"),
            ("ü > 1", "column 1: there is no measure `ü`"),
            ("1 > 2", "a condition needs a measure"),
            (&nested, "too many parentheses"),
            (&"1".repeat(2_000), "at most 1024 bytes"),
        ] {
            let reason = Condition::parse(text).unwrap_err();
            assert!(reason.contains(expected), "{text}: {reason}");
        }
    }
}
