//! Totals over all records, such as `count by status, sum(price.total), distinct(city)`. They are
//! correct although an excerpt hides rows.

use std::collections::BTreeMap;

use super::condition::{compare_values, split_path, values_at};
use super::decimal::Sum;
use super::expression::split_parts;
use super::names::join_names;
use super::records::RecordSet;
use crate::json::text::quoted;

/// Maximum number of distinct values, or of groups, that a result lists.
const MAX_LISTED_VALUES: usize = 1_000;

/// The totals that a caller requests over all records, such as `count by status, sum(price.total)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregates(Vec<Aggregate>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Aggregate {
    function: Function,
    field: Vec<String>,
    by: Option<Vec<String>>,
    verbatim: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Count,
    Distinct,
    Sum,
    Average,
    Min,
    Max,
}

impl Aggregates {
    /// Parses the totals that a caller requests, separated by commas.
    ///
    /// # Errors
    /// Returns a message for the caller that shows the syntax, or the limit that is exceeded.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = split_parts("aggregate", text)?;
        let aggregates = parts.into_iter().map(parse_aggregate).collect::<Option<Vec<_>>>();
        aggregates.map(Self).ok_or_else(|| {
            format!(
                "aggregate {text:?} cannot be read: write \"count\", \"count by status\", \"sum(price.total) by city\", \"distinct(city)\", \"min(price)\", \"max(price)\" or \"avg(price)\", separated by commas"
            )
        })
    }

    /// Computes the totals over `records`, as a JSON object with a member for each total.
    /// O(records).
    ///
    /// # Errors
    /// Returns a message for the caller if no record has a requested field.
    pub fn run(&self, records: &RecordSet<'_>) -> Result<Vec<u8>, String> {
        let mut out = format!("{{\"records\":{}", records.ids.len()).into_bytes();
        for aggregate in &self.0 {
            out.push(b',');
            out.extend(quoted(&aggregate.verbatim));
            out.push(b':');
            aggregate.run(records, &mut out)?;
        }
        out.push(b'}');
        Ok(out)
    }
}

fn parse_aggregate(text: &str) -> Option<Aggregate> {
    let text = text.trim();
    let (what, by) = match text.split_once(" by ") {
        Some((what, by)) => {
            (what.trim(), Some(Some(split_path(by)).filter(|keys| !keys.is_empty())?))
        }
        None => (text, None),
    };
    let (function, field) = match what.split_once('(') {
        Some((function, field)) => (function.trim(), split_path(field.strip_suffix(')')?)),
        None => (what, Vec::new()),
    };
    let function = match function {
        "count" => Function::Count,
        "distinct" => Function::Distinct,
        "sum" => Function::Sum,
        "avg" | "average" | "mean" => Function::Average,
        "min" => Function::Min,
        "max" => Function::Max,
        _ => return None,
    };
    let needs_field = function != Function::Count;
    (!needs_field || !field.is_empty()).then(|| Aggregate {
        function,
        field,
        by,
        verbatim: text.to_owned(),
    })
}

impl Aggregate {
    fn run(&self, records: &RecordSet<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let mut groups: BTreeMap<String, ValueGroup> = BTreeMap::new();
        let mut all = ValueGroup::default();
        for id in &records.ids {
            let found = if self.field.is_empty() {
                vec![String::new()]
            } else {
                values_at(&records.outline, *id, &self.field)
                    .into_iter()
                    .filter(|value| value != "null")
                    .collect()
            };
            match &self.by {
                None => all.add(self.function, &found),
                Some(by) => {
                    let names = values_at(&records.outline, *id, by);
                    let names = if names.is_empty() { vec!["null".to_owned()] } else { names };
                    for name in names {
                        groups.entry(name).or_default().add(self.function, &found);
                    }
                    all.count += found.len() as u64;
                }
            }
        }
        if all.count == 0 && !self.field.is_empty() && !records.ids.is_empty() {
            let first = records.ids.first().copied().unwrap_or(0);
            let known = crate::fields::mask::names(&records.outline, first);
            return Err(format!(
                "no record has a field {}; there are: {}",
                self.field.join("."),
                join_names(&known, 40)
            ));
        }
        if self.by.is_none() {
            all.write(self.function, out);
            return Ok(());
        }
        // Largest groups first: if there are too many, the smallest are omitted, and counted.
        let mut groups: Vec<(String, ValueGroup)> = groups.into_iter().collect();
        groups.sort_by(|left, right| {
            right.1.count.cmp(&left.1.count).then_with(|| left.0.cmp(&right.0))
        });
        let left_out = groups.len().saturating_sub(MAX_LISTED_VALUES);
        out.push(b'{');
        for (at, (name, group)) in groups.iter().take(MAX_LISTED_VALUES).enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend(quoted(name));
            out.push(b':');
            group.write(self.function, out);
        }
        if left_out > 0 {
            out.extend_from_slice(format!(",\"...\":\"{left_out} smaller groups\"").as_bytes());
        }
        out.push(b'}');
        Ok(())
    }
}

#[derive(Default)]
struct ValueGroup {
    count: u64,
    sum: Sum,
    numbers: u64,
    lowest: Option<String>,
    highest: Option<String>,
    distinct: BTreeMap<String, u64>,
}

impl ValueGroup {
    fn add(&mut self, function: Function, values: &[String]) {
        for value in values {
            self.count += 1;
            match function {
                Function::Count => {}
                Function::Distinct => *self.distinct.entry(value.clone()).or_default() += 1,
                Function::Sum | Function::Average => self.numbers += u64::from(self.sum.add(value)),
                Function::Min => {
                    if self
                        .lowest
                        .as_ref()
                        .is_none_or(|lowest| compare_values(value, lowest).is_lt())
                    {
                        self.lowest = Some(value.clone());
                    }
                }
                Function::Max => {
                    if self
                        .highest
                        .as_ref()
                        .is_none_or(|highest| compare_values(highest, value).is_lt())
                    {
                        self.highest = Some(value.clone());
                    }
                }
            }
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "an average is no exact number")]
    fn write(&self, function: Function, out: &mut Vec<u8>) {
        match function {
            Function::Count => out.extend_from_slice(self.count.to_string().as_bytes()),
            Function::Sum => out.extend_from_slice(self.sum.to_string().as_bytes()),
            Function::Average => {
                let average =
                    self.sum.to_string().parse::<f64>().unwrap_or(f64::NAN) / self.numbers as f64;
                let text =
                    if average.is_finite() { average.to_string() } else { "null".to_owned() };
                out.extend_from_slice(text.as_bytes());
            }
            Function::Min => write_value(self.lowest.as_deref(), out),
            Function::Max => write_value(self.highest.as_deref(), out),
            Function::Distinct => {
                out.extend_from_slice(
                    format!("{{\"count\":{},\"values\":[", self.distinct.len()).as_bytes(),
                );
                for (at, name) in self.distinct.keys().take(MAX_LISTED_VALUES).enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    write_value(Some(name), out);
                }
                out.extend_from_slice(b"]}");
            }
        }
    }
}

/// Appends a value to `out` as JSON. Numbers, booleans and null are verbatim, anything else becomes
/// a string, and none becomes null.
fn write_value(value: Option<&str>, out: &mut Vec<u8>) {
    match value {
        None => out.extend_from_slice(b"null"),
        Some(value)
            if crate::json::scan::is_json(value.as_bytes(), crate::json::text::Form::Raw)
                && !value.starts_with(['"', '{', '[']) =>
        {
            out.extend_from_slice(value.as_bytes());
        }
        Some(value) => out.extend(quoted(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::EndpointSettings;

    fn run(aggregate: &str) -> String {
        let json = br#"{"rows":[{"s":"open","p":0.1,"t":["a","b"]},{"s":"done","p":0.2,"t":["a"]},{"s":"open","p":10},{"p":null}]}"#;
        let records = RecordSet::locate(json, &EndpointSettings::default()).unwrap();
        match Aggregates::parse(aggregate).and_then(|aggregates| aggregates.run(&records)) {
            Ok(bytes) => String::from_utf8(bytes).unwrap(),
            Err(reason) => reason,
        }
    }

    #[test]
    fn totals_cover_every_record() {
        assert_eq!(run("count"), r#"{"records":4,"count":4}"#);
        assert_eq!(run("count by s"), r#"{"records":4,"count by s":{"open":2,"done":1,"null":1}}"#);
        assert_eq!(
            run("sum(p), min(p),max(p)"),
            r#"{"records":4,"sum(p)":10.3,"min(p)":0.1,"max(p)":10}"#
        );
        assert_eq!(
            run("sum(p) by s"),
            r#"{"records":4,"sum(p) by s":{"open":10.1,"done":0.2,"null":0}}"#
        );
        assert_eq!(
            run("distinct(t)"),
            r#"{"records":4,"distinct(t)":{"count":2,"values":["a","b"]}}"#
        );
        assert_eq!(run("count(p)"), r#"{"records":4,"count(p)":3}"#);
    }

    #[test]
    fn invalid_aggregates_are_explained() {
        assert!(run("sum(x)").starts_with("no record has a field x; there are: s, p, t"));
        for text in ["total", "sum", "sum(p", "count by "] {
            assert!(run(text).contains("cannot be read"), "{text}");
        }
    }
}
