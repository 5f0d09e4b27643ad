//! Queries of other languages that are written in stages, one after the other:
//! `flights | where status == "late" | top 3 by delay desc` and
//! `flights.Where(f => f.stops == 0).OrderBy(f => f.price).Take(3)`. They are converted to a
//! condition and totals of this language.

mod methods;
mod pipe;

use super::Query;
use super::condition::{Condition, lambda};
use super::reader::is_word_character;

/// A step of a query.
#[derive(Debug, PartialEq, Eq)]
enum QueryStage {
    /// Keeps the records, or the groups, that meet a condition.
    Filter(String),
    /// Sorts by fields, such as `price desc, name`.
    Order(String),
    /// Sorts by a further field, where the ones before are equal.
    ThenBy(String),
    /// Turns the order around.
    Reverse,
    /// Keeps the first records or groups.
    Limit(String),
    /// Skips the first records.
    Skip(String),
    /// Shows these fields only.
    Fields(String),
    /// Computes totals, such as `count by status`.
    Totals(String),
}

/// The stages of a query, in the order in which this language evaluates its clauses.
#[derive(Debug, Default)]
struct Stages {
    /// The name of the list. `None` if the text has none.
    list: Option<String>,
    /// The conditions on records, each in the syntax of this language.
    conditions: Vec<String>,
    totals: Option<String>,
    /// The conditions on groups.
    having: Vec<String>,
    order: Vec<String>,
    skip: Option<String>,
    limit: Option<String>,
    fields: Option<String>,
    /// The number of stages.
    count: usize,
}

impl Stages {
    /// Adds a stage. `None` if the clauses of this language would be evaluated in another order, or
    /// would replace each other.
    fn add(&mut self, stage: QueryStage) -> Option<()> {
        self.count += 1;
        let is_cut = self.limit.is_some() || self.skip.is_some();
        match stage {
            QueryStage::Filter(condition) if !is_cut => {
                // A name alone is a flag.
                let condition = match is_list_name(&condition) {
                    true => format!("{condition} = true"),
                    false => condition,
                };
                match self.totals {
                    Some(_) => self.having.push(condition),
                    None => self.conditions.push(condition),
                }
            }
            QueryStage::Order(keys) if !is_cut => self.order = vec![keys],
            QueryStage::ThenBy(key) if !is_cut && !self.order.is_empty() => self.order.push(key),
            QueryStage::Reverse if !is_cut && self.order.len() == 1 => {
                let order = self.order.first_mut()?;
                *order = match order.strip_suffix(" desc") {
                    Some(key) => key.to_owned(),
                    None => format!("{order} desc"),
                };
            }
            QueryStage::Skip(count) if !is_cut && self.totals.is_none() => self.skip = Some(count),
            QueryStage::Limit(count) if self.limit.is_none() => self.limit = Some(count),
            QueryStage::Fields(fields) if self.totals.is_none() && self.fields.is_none() => {
                self.fields = Some(fields);
            }
            QueryStage::Totals(totals)
                if !is_cut && self.totals.is_none() && self.fields.is_none() =>
            {
                // The order of the records does not change totals.
                self.order.clear();
                self.totals = Some(totals);
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns the condition and the totals in the syntax of this language.
    fn clauses(self) -> Clauses {
        let join = |conditions: Vec<String>| match conditions.as_slice() {
            [] => None,
            [condition] => Some(condition.clone()),
            several => {
                let several: Vec<String> =
                    several.iter().map(|condition| format!("({condition})")).collect();
                Some(several.join(" AND "))
            }
        };
        let clause = |name: &str, value: Option<String>| {
            value.map_or_else(String::new, |value| format!(" {name} {value}"))
        };
        let order = (!self.order.is_empty()).then(|| self.order.join(", "));
        let page = clause("order by", order) + &clause("limit", self.limit);
        let page = page + &clause("offset", self.skip);
        let (wanted, has_totals) = (join(self.conditions), self.totals.is_some());
        let aggregate = self
            .totals
            .map(|totals| format!("{totals}{}{page}", clause("having", join(self.having))));
        let page = if has_totals { String::new() } else { page };
        let condition = match (self.list, wanted) {
            (None, None) if page.is_empty() => None,
            (None, wanted) => Some(format!("{}{page}", wanted.as_deref().unwrap_or("true"))),
            (Some(list), None) if page.is_empty() => {
                Some(format!("from {list} where true offset 0"))
            }
            (Some(list), wanted) => {
                Some(format!("from {list} where {}{page}", wanted.as_deref().unwrap_or("true")))
            }
        };
        Clauses { fields: self.fields, condition, aggregate }
    }
}

/// The parts of a query that stages become.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Clauses {
    pub(super) fields: Option<String>,
    pub(super) condition: Option<String>,
    pub(super) aggregate: Option<String>,
}

impl Query {
    /// Returns the parts of the query that is written in stages in the condition or in the totals.
    /// `None` if there are no stages, or if they cannot be joined with its other parts. O(text).
    pub(super) fn stages(&self) -> Option<Clauses> {
        let (text, names_totals) = match (&self.condition, &self.aggregate) {
            (Some(text), None) => (text, false),
            (_, Some(text)) => (text, true),
            _ => return None,
        };
        let mut stages = pipe::read(text, names_totals).or_else(|| methods::read(text))?;
        if let Some(other) = self.condition.as_ref().filter(|_| names_totals) {
            let is_plain = Condition::parse(other).is_ok_and(|other| other.is_plain());
            (is_plain && stages.totals.is_some()).then_some(())?;
            stages.conditions.insert(0, other.clone());
            for condition in &mut stages.conditions {
                *condition = lambda(condition).unwrap_or_else(|| std::mem::take(condition));
            }
        }
        let clauses = stages.clauses();
        (clauses.fields.is_none() || self.fields.is_none()).then_some(clauses)
    }
}

/// Returns true for the name of a list, such as `flights` or `data.flights`.
fn is_list_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && text.chars().all(|c| is_word_character(c) || c == '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staged(text: &str, argument: &str) -> Option<Clauses> {
        let text = Some(text.to_owned());
        let query = match argument {
            "where" => Query { condition: text, ..Query::default() },
            _ => Query { aggregate: text, ..Query::default() },
        };
        query.stages()
    }

    fn clauses(condition: &str, aggregate: &str, fields: &str) -> Clauses {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Clauses { fields: some(fields), condition: some(condition), aggregate: some(aggregate) }
    }

    /// Checks the condition, the totals and the fields that each text becomes.
    fn check(rows: &[(&str, &str, &str, &str)]) {
        for (text, condition, aggregate, fields) in rows {
            let expected = Some(clauses(condition, aggregate, fields));
            assert_eq!(staged(text, "where"), expected, "{text}");
        }
    }

    #[test]
    fn stages_of_pipes_become_clauses() {
        check(&[
            ("t | top 5 by a.b desc", "from t where true order by a.b desc limit 5", "", ""),
            ("t | where a > 5 | take 3", "from t where a > 5 limit 3", "", ""),
            (
                "FROM t | WHERE a IS NOT NULL AND b == \"x\" | SORT a DESC | LIMIT 3",
                "from t where a IS NOT NULL AND b == \"x\" order by a DESC limit 3",
                "",
                "",
            ),
            ("a = 'x|y' | sort -b | head 2", "a = 'x|y' order by b desc limit 2", "", ""),
            ("a > 5 | where b > 6", "(a > 5) AND (b > 6)", "", ""),
            ("t | where a > 5 | sort by b", "from t where a > 5 order by b desc", "", ""),
            ("a = 1 | fields b, c", "a = 1", "", "b,c"),
            ("where a == \"x\" | summarize count() by b", "a == \"x\"", "count() by b", ""),
            ("search a=b | stats avg(c) as m by d", "a=b", "avg(c) as m by d", ""),
            (
                "t | summarize n = count() by b",
                "from t where true offset 0",
                "count() as n by b",
                "",
            ),
            (
                "from t\nfilter a > 5\ngroup b (aggregate { n = count this })",
                "from t where a > 5",
                "count as n by b",
                "",
            ),
            (
                "from t\nsort {-a, b}\ntake 3",
                "from t where true order by a desc, b limit 3",
                "",
                "",
            ),
        ]);
        for (text, aggregate) in [
            ("count by a | sort count desc | head 1", "count by a order by count desc limit 1"),
            ("stats sum(x) by y | where sum > 5", "sum(x) by y having sum > 5"),
            ("| summarize avg(x) by y | order by avg asc", "avg(x) by y order by avg asc"),
        ] {
            assert_eq!(staged(text, "aggregate"), Some(clauses("", aggregate, "")), "{text}");
        }
    }

    #[test]
    fn chains_of_methods_become_clauses() {
        check(&[
            ("t.filter(r => r.a > 5).length", "from t where a > 5", "count", ""),
            ("t.filter { it.a > 5 }", "from t where a > 5", "", ""),
            ("where('a', '==', 'x')", "a == 'x'", "", ""),
            ("t.where('a', 'x')", "from t where a = 'x'", "", ""),
            ("t.filter(r => !(r.a > 5)).length", "from t where r => !(r.a > 5)", "count", ""),
            (
                "t.Where(r => r.a == \"x\").Average(r => r.b)",
                "from t where a == \"x\"",
                "avg(b)",
                "",
            ),
            (
                "t.Where(f => f.a == 0).OrderBy(f => f.b).ThenByDescending(f => f.c).Take(3)",
                "from t where a == 0 order by b, c desc limit 3",
                "",
                "",
            ),
            (
                "t.filter { it.a == \"x\" && !it.b.c }.take(2)",
                "from t where a == \"x\" && !b.c limit 2",
                "",
                "",
            ),
            (
                "t.select { |r| r['a'] == 'x' }.sort_by { |r| -r['b'] }",
                "from t where ['a'] == 'x' order by ['b'] desc",
                "",
                "",
            ),
            ("t.filter(r => r.a > 5).map(r => r.id)", "from t where a > 5", "", "id"),
            (
                "t.filter(r => r.a == 'x').reduce((s, r) => s + r.b, 0)",
                "from t where a == 'x'",
                "sum(b)",
                "",
            ),
            (
                "t.map(r => r.b).reduce((s, v) => s + v, 0)",
                "from t where true offset 0",
                "sum(b)",
                "",
            ),
            (
                "t.values.group_by { |r| r['u'] }.transform_values(&:count)",
                "from t where true offset 0",
                "count by ['u']",
                "",
            ),
            ("_.sumBy(_.filter(t, c => c.a === 'x'), 'n')", "from t where a === 'x'", "sum(n)", ""),
            (
                "t.sort((a, b) => b.x - a.x).slice(0, 3)",
                "from t where true order by x desc limit 3",
                "",
                "",
            ),
            (
                "db.t.find({a: {$gt: 5}}).sort({b: -1}).limit(3)",
                "from t where a > 5 order by b desc limit 3",
                "",
                "",
            ),
            (
                ".where('a', '==', 'x').where('b', 'array-contains', 'y')",
                "(a == 'x') AND (b = 'y')",
                "",
                "",
            ),
        ]);
    }

    #[test]
    fn other_texts_have_no_stages() {
        for text in [
            "a = 1 | b = 2",
            "a || b",
            "a ~ 'x | take 5'",
            "status in (a | b)",
            "t.filter(r => r.a > 5)",
            "where(r => r.a > 5)",
            "tags.some(t => t.name == 'x')",
            "tags.any? { |t| t.name == 'x' }",
            "name.startsWith('x')",
            "limit = 5",
            "t | take 3 | where a > 5",
            "t | extend b = a * 2",
            "a.b.c > 5",
            "t.groupBy(r => r.a).map(g => g.b)",
            "head 5",
        ] {
            assert_eq!(staged(text, "where"), None, "{text}");
        }
        for text in ["count by status", "sum(price) by city", "df.price.mean()", "df['a'].mean()"] {
            assert_eq!(staged(text, "aggregate"), None, "{text}");
        }
    }
}
