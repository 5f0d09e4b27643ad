//! Statements of SQL without totals: `SELECT name, price FROM items WHERE price > 5 ORDER BY price
//! LIMIT 3`.

mod window;

use super::Query;
use super::code::{keyword, parts, replaced};
use super::condition::Condition;
use super::reader::{MAX_BYTES, is_word_character};
use super::{objects, sql};

/// The parts of a statement that selects records.
#[derive(Debug, PartialEq, Eq)]
struct Statement {
    /// The fields, separated by commas. `None` for all.
    fields: Option<String>,
    /// The condition, with the order and the limit. `None` if there is none.
    condition: Option<String>,
}

impl Query {
    /// Replaces a query of another language in the condition, the totals or the program by its
    /// parts. Statements of SQL with totals become the totals. O(arguments).
    ///
    /// # Errors
    /// Returns a message for the caller if the query has one of these parts already.
    pub fn separate_statement(&mut self) -> Result<(), String> {
        self.separate_multiselect();
        self.separate_line_filter();
        // `fields: "id, price WHERE price > 5"`
        if let Some(fields) = self.fields.take() {
            let is_clause = |at: &usize| {
                let (before, after) = fields.split_at(*at);
                let condition = after
                    .strip_prefix(['w', 'W'])
                    .map_or(after, |_| after.get("where".len()..).unwrap_or_default());
                before.ends_with(char::is_whitespace)
                    && !before.trim_end().ends_with(',')
                    && condition.starts_with([' ', 'o', 'O'])
                    && Condition::parse(condition.trim()).is_ok()
            };
            let clauses = ["where", "order by"].iter().filter_map(|word| keyword(&fields, 1, word));
            let clause = clauses.filter(is_clause).min();
            let (names, condition) = fields.split_at(clause.unwrap_or(fields.len()));
            self.fields = Some(names.trim().to_owned());
            if !condition.is_empty() {
                let is_where = keyword(condition, 0, "where") == Some(0);
                let start = if is_where { "where".len() } else { 0 };
                let condition = condition.get(start..).map(|text| text.trim().to_owned());
                set(&mut self.condition, condition, "where")?;
            }
        }
        // Longer texts are refused, and converting them takes the square of their length.
        let is_long = |text: &String| text.len() > MAX_BYTES;
        if [&self.condition, &self.aggregate].into_iter().flatten().any(is_long) {
            return Ok(());
        }
        for slot in [&mut self.condition, &mut self.aggregate] {
            *slot = slot.as_deref().and_then(objects::json).or(slot.take());
        }
        if let Some(clauses) = self.stages() {
            (self.condition, self.aggregate) = (clauses.condition, clauses.aggregate);
            self.fields = clauses.fields.or(self.fields.take());
        }
        for slot in [&mut self.condition, &mut self.aggregate] {
            if let Some(reason) = slot.as_deref().and_then(sql::correlated) {
                return Err(reason);
            }
            let converted = slot.as_deref().and_then(sql::converted);
            *slot = converted.or(slot.take());
        }
        self.separate_window()?;
        let own = [&mut self.condition, &mut self.aggregate, &mut self.jq];
        let Some((slot, name)) = own
            .into_iter()
            .zip(["where", "aggregate", "jq"])
            .find(|(slot, _)| slot.as_deref().is_some_and(is_statement))
        else {
            return self.separate_comparison();
        };
        let text = slot.as_deref().unwrap_or_default();
        let is_count = |column: &str| name == "aggregate" && column.eq_ignore_ascii_case("count");
        let Some(statement) = read(text, &is_count) else {
            // The totals read the whole statement.
            if name != "aggregate" {
                let text = slot.take();
                set(&mut self.aggregate, text, "aggregate")?;
            }
            return Ok(());
        };
        *slot = None;
        set(&mut self.fields, statement.fields, "fields")?;
        set(&mut self.condition, statement.condition, "where")
    }

    /// Replaces the statements inside the condition and the totals by their results, which `run`
    /// returns as JSON. `None` if there are none.
    pub(super) fn with_results_of(
        &self,
        run: &mut dyn FnMut(&Self) -> Result<Vec<u8>, String>,
    ) -> Result<Option<Self>, String> {
        let mut run = |statement: &str| {
            let mut query = Self { condition: Some(statement.to_owned()), ..Self::default() };
            query.separate_statement()?;
            query.separate_condition();
            run(&query)
        };
        let mut resolve = |text: &Option<String>| match text {
            Some(text) => sql::with_results(text, &mut run),
            None => Ok(None),
        };
        let (condition, aggregate) = (resolve(&self.condition)?, resolve(&self.aggregate)?);
        if condition.is_none() && aggregate.is_none() {
            return Ok(None);
        }
        let mut query = self.clone();
        query.condition = condition.or(query.condition);
        query.aggregate = aggregate.or(query.aggregate);
        Ok(Some(query))
    }

    /// Replaces a statement that chooses the best record of each group by its totals.
    fn separate_window(&mut self) -> Result<(), String> {
        for slot in ["where", "aggregate", "jq"] {
            let argument = match slot {
                "where" => &mut self.condition,
                "aggregate" => &mut self.aggregate,
                _ => &mut self.jq,
            };
            let found = argument.as_deref().map(window::best_records).transpose();
            let found = found.map_err(|reason| format!("{slot}: {reason}"))?.flatten();
            if let Some((condition, totals)) = found {
                *argument = None;
                set(&mut self.condition, condition, "where")?;
                set(&mut self.aggregate, Some(totals), "aggregate")?;
            }
        }
        Ok(())
    }

    /// Moves a condition of SQL from the program to the condition: a program has no single quotes.
    fn separate_comparison(&mut self) -> Result<(), String> {
        let is_comparison = |text: &str| {
            text.contains('\'')
                && text.starts_with(|c: char| c.is_alphabetic() || c == '_')
                && keyword(text, 0, "select").is_none()
                && !text.contains(['|', '{', ';'])
                && Condition::parse(text).is_ok()
        };
        if self.jq.as_deref().is_some_and(is_comparison) {
            let text = self.jq.take();
            set(&mut self.condition, text, "where")?;
        }
        Ok(())
    }
}

/// Sets a part of a query.
///
/// # Errors
/// Returns a message for the caller if the part is set already.
fn set(slot: &mut Option<String>, text: Option<String>, name: &str) -> Result<(), String> {
    if text.is_some() && slot.is_some() {
        return Err(format!(
            "{name} is given as an argument and in the SQL statement: give it once"
        ));
    }
    *slot = text.or(slot.take());
    Ok(())
}

/// Returns true if a text is a statement: `SELECT … FROM …`. The function `select(…)` of jq is
/// none.
fn is_statement(text: &str) -> bool {
    keyword(text.trim(), 0, "select") == Some(0)
        && text.trim().get("select".len()..).is_some_and(|rest| !rest.trim().starts_with('('))
        && keyword(text.trim(), 0, "from").is_some()
}

/// Returns the parts of a statement. `None` if it has totals or groups, or a form that this
/// language lacks. `is_total` returns true for further columns that are totals.
fn read(text: &str, is_total: &dyn Fn(&str) -> bool) -> Option<Statement> {
    let text = text.trim().trim_end_matches(';').trim_end();
    let from = keyword(text, 0, "from")?;
    let (mut columns, rest) =
        (text.get("select".len()..from)?.trim(), text.get(from + "from".len()..)?.trim());
    let has_groups = keyword(columns, 0, "distinct") == Some(0)
        || keyword(rest, 0, "group by").is_some()
        || keyword(rest, 0, "join").is_some();
    if has_groups {
        return None;
    }
    let mut limit = String::new();
    if keyword(columns, 0, "top") == Some(0) {
        let number = columns.get("top".len()..)?.trim_start();
        let number = number.strip_prefix('(').unwrap_or(number);
        let end = number.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
        limit = format!(" limit {}", number.get(..end)?);
        columns = number.get(end..)?.trim_start_matches(')').trim();
    }
    let clauses = ["where", "order by", "limit", "offset"];
    let start = clauses.iter().filter_map(|clause| keyword(rest, 0, clause)).min();
    let (table, rest) = rest.split_at_checked(start.unwrap_or(rest.len()))?;
    let mut names = table.split_whitespace().filter(|word| !word.eq_ignore_ascii_case("as"));
    let (table, alias) = (names.next()?.trim_matches(['"', '`', '[', ']']), names.next());
    if names.next().is_some() || table.contains([',', '(']) {
        return None;
    }
    let prefixes: Vec<String> =
        [Some(table), alias].into_iter().flatten().map(|name| format!("{name}.")).collect();
    let (mut fields, mut aliases) = (Vec::new(), Vec::new());
    for column in parts(columns, ",") {
        let (column, alias) = match keyword(column, 1, "as") {
            Some(at) => (column.get(..at)?.trim(), column.get(at + "as".len()..)?.trim()),
            None => (column.trim(), ""),
        };
        if is_total(column) {
            return None;
        }
        let plain = prefixes.iter().find_map(|prefix| column.strip_prefix(prefix.as_str()));
        let plain = plain.unwrap_or(column).trim_matches(['"', '`', '[', ']']);
        let is_name = |c: char| is_word_character(c) || "*.-@$ ".contains(c);
        // A quotient is computed: `price/4`.
        let is_quotient = plain.rsplit('/').next().is_some_and(|last| {
            plain.contains('/') && last.trim().bytes().all(|byte| byte.is_ascii_digit())
        });
        if plain.is_empty() || is_quotient || !plain.chars().all(is_name) {
            return None;
        }
        fields.push(plain.to_owned());
        aliases.extend((!alias.is_empty()).then_some((alias, plain)));
    }
    let condition = rest.get("where".len()..).filter(|_| keyword(rest, 0, "where") == Some(0));
    let mut condition = format!("{}{limit}", condition.unwrap_or(rest).trim());
    if let Some(alias) = alias {
        condition = replaced(&condition, |before, rest| {
            let prefix = format!("{alias}.");
            let is_start = !before.ends_with(|c| is_word_character(c) || c == '.');
            (is_start && rest.starts_with(&prefix)).then(|| (prefix.len(), String::new()))
        })
        .unwrap_or(condition);
    }
    // An alias names its column in the order. In the condition, SQL reads the fields.
    let order = keyword(&condition, 0, "order by").unwrap_or(condition.len());
    let (wanted, order) = condition.split_at_checked(order)?;
    let is_end = |rest: &str| !rest.starts_with(|c| is_word_character(c) || c == '.');
    let named = replaced(order, |before, rest| {
        let is_start = !before.ends_with(|c| is_word_character(c) || c == '.');
        let mut aliases = aliases.iter().filter(|_| is_start);
        aliases.find_map(|(alias, column)| {
            let after = rest.strip_prefix(alias)?;
            is_end(after).then(|| (alias.len(), (*column).to_owned()))
        })
    });
    let condition = format!("{wanted}{}", named.as_deref().unwrap_or(order));
    let all = fields.iter().any(|field| field == "*");
    let condition = condition.trim();
    // The name of the table may be that of a list.
    let is_list = table.chars().all(|c| c.is_alphanumeric() || "_-.$".contains(c));
    let is_where = keyword(rest, 0, "where") == Some(0);
    let condition = match (is_list, is_where, condition) {
        (false, _, "") => String::new(),
        (false, _, condition) => condition.to_owned(),
        (true, true, condition) => format!("from {table} where {condition}"),
        (true, false, "") => format!("from {table} where true offset 0"),
        (true, false, condition) => format!("from {table} where true {condition}"),
    };
    Some(Statement {
        fields: (!all).then(|| fields.join(",")),
        condition: (!condition.is_empty()).then_some(condition),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn separated(query: Query) -> (Option<String>, Option<String>, Option<String>) {
        let mut query = query;
        query.separate_statement().unwrap();
        assert_eq!(query.jq, None);
        (query.fields, query.condition, query.aggregate)
    }

    #[test]
    fn statements_become_arguments() {
        let owned = |text: &str| Some(text.to_owned());
        for (text, fields, condition) in [
            ("SELECT * FROM t WHERE a > 5", None, Some("from t where a > 5")),
            (
                "select a, t.b AS c from t where a = 'x from y' order by b desc limit 3;",
                Some("a,b"),
                Some("from t where a = 'x from y' order by b desc limit 3"),
            ),
            (
                "SELECT TOP 3 a FROM t ORDER BY b DESC",
                Some("a"),
                Some("from t where true ORDER BY b DESC limit 3"),
            ),
            ("SELECT x.a FROM t AS x WHERE x.b = 1", Some("a"), Some("from t where b = 1")),
            (
                "SELECT a AS n, b FROM t ORDER BY n",
                Some("a,b"),
                Some("from t where true ORDER BY a"),
            ),
            ("SELECT a FROM t", Some("a"), Some("from t where true offset 0")),
        ] {
            let expected = (fields.and_then(owned), condition.and_then(owned), None);
            for query in [
                Query { condition: owned(text), ..Query::default() },
                Query { jq: owned(text), ..Query::default() },
                Query { aggregate: owned(text), ..Query::default() },
            ] {
                assert_eq!(separated(query), expected, "{text}");
            }
        }
        let totals = "SELECT a, count(*) FROM t WHERE b > 5 GROUP BY a";
        let query = Query { condition: owned(totals), ..Query::default() };
        assert_eq!(separated(query), (None, None, owned(totals)));
        let query = Query { fields: owned("a, b WHERE b > 5"), ..Query::default() };
        assert_eq!(separated(query), (owned("a, b"), owned("b > 5"), None));
        for fields in ["id,where", "id,where,title", "event.where.city", "id, order by"] {
            let query = Query { fields: owned(fields), ..Query::default() };
            assert_eq!(separated(query), (owned(fields), None, None));
        }
        let count = "select city, count from t";
        let query = Query { aggregate: owned(count), ..Query::default() };
        assert_eq!(separated(query), (None, None, owned(count)));
        let query = Query { jq: owned("a = 'x' AND b < 5"), ..Query::default() };
        assert_eq!(separated(query), (None, owned("a = 'x' AND b < 5"), None));
    }

    #[test]
    fn other_texts_remain() {
        for text in [".[] | select(.a == 5)", "select(.from)", "map(select(.a))", "length"] {
            let mut query = Query { jq: Some(text.to_owned()), ..Query::default() };
            query.separate_statement().unwrap();
            assert_eq!(query.jq.as_deref(), Some(text));
        }
        let mut query = Query {
            condition: Some("SELECT a FROM t WHERE b = 1".to_owned()),
            fields: Some("c".to_owned()),
            ..Query::default()
        };
        assert!(query.separate_statement().unwrap_err().contains("fields is given"));
    }
}
