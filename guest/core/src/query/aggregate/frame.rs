//! Totals as libraries for tables write them: `df.groupby('kind')['price'].mean()` and
//! `group_by(kind) %>% summarise(mean(price))`.

use crate::query::code::{end_of_group, parts};
use crate::query::reader::is_word_character;
use crate::query::value::quote;

/// The methods of a column, and the totals that they compute.
const METHODS: [(&str, &str); 9] = [
    ("sum", "sum"),
    ("mean", "avg"),
    ("median", "median"),
    ("min", "min"),
    ("max", "max"),
    ("nunique", "nunique"),
    ("unique", "distinct"),
    ("count", "count"),
    ("n_distinct", "nunique"),
];

/// Returns the total that a method or function of a column computes.
fn total_of(method: &str) -> Option<&'static str> {
    METHODS.iter().find(|(name, _)| *name == method).map(|(_, total)| *total)
}

/// Returns the totals that such an expression computes. None if the text is no such expression, or
/// has a part that is not known.
pub(super) fn totals(text: &str) -> Option<String> {
    let text = text.trim();
    let mut pipes = ["%>%", "|>"].iter().map(|pipe| parts(text, pipe));
    if let Some(steps) = pipes.find(|steps| steps.len() > 1) {
        return piped(&steps);
    }
    if let Some(totals) = prometheus(text).or_else(|| command(text)) {
        return Some(totals);
    }
    if let Some(table) = text.strip_prefix("len(").and_then(|text| text.strip_suffix(')')) {
        return is_name(table).then(|| "count".to_owned());
    }
    Chain::read(text)?.totals()
}

/// Reads `max by (city) (price)`.
fn prometheus(text: &str) -> Option<String> {
    let (function, rest) = text.split_once(char::is_whitespace)?;
    let rest = rest.trim_start().strip_prefix("by")?.trim_start().strip_prefix('(')?;
    let end = end_of_group(rest)?;
    let (by, rest) = (rest.get(..end)?, rest.get(end + 1..)?.trim());
    let field = rest.strip_prefix('(')?.strip_suffix(')').filter(|field| !field.contains(')'))?;
    let total = total_of(function).or((function == "avg").then_some("avg"))?;
    (!field.is_empty() && !by.is_empty()).then(|| format!("{total}({field}) by {by}"))
}

/// Reads the command of a log search: `stats count by status`, `| summarize avg(x) by y`.
fn command(text: &str) -> Option<String> {
    let text = text.strip_prefix('|').unwrap_or(text).trim_start();
    let (word, rest) = text.split_once(char::is_whitespace)?;
    let is_command = ["stats", "summarize", "summarise"].contains(&word);
    (is_command && !rest.trim_start().starts_with("by ")).then(|| rest.trim().to_owned())
}

/// Calls on a table: its groups, the columns, and the totals of them.
#[derive(Default)]
struct Chain {
    /// The names of columns, in quotes.
    by: Vec<String>,
    columns: Vec<String>,
    items: Vec<String>,
    order: Option<&'static str>,
    limit: Option<usize>,
}

impl Chain {
    fn read(text: &str) -> Option<Self> {
        let (table, mut rest) = text.split_at_checked(text.find(['.', '['])?)?;
        if !is_name(table) {
            return None;
        }
        let mut chain = Self::default();
        while !rest.is_empty() {
            rest = if let Some(inner) = rest.strip_prefix('[') {
                let end = end_of_group(inner)?;
                chain.columns = columns(inner.get(..end)?)?;
                inner.get(end + 1..)?
            } else {
                let inner = rest.strip_prefix('.')?;
                let end = inner.find(|c| !is_word_character(c)).unwrap_or(inner.len());
                let (name, after) = inner.split_at_checked(end)?;
                if let Some(arguments) = after.strip_prefix('(') {
                    let end = end_of_group(arguments)?;
                    chain.call(name, arguments.get(..end)?.trim())?;
                    arguments.get(end + 1..)?
                } else {
                    chain.columns = vec![quote(name)];
                    after
                }
            };
        }
        Some(chain)
    }

    /// Adds a call of a method.
    fn call(&mut self, name: &str, arguments: &str) -> Option<()> {
        let has_totals = !self.items.is_empty();
        match name {
            "groupby" if !has_totals => {
                let mut arguments = parts(arguments, ",").into_iter();
                self.by = columns(arguments.next()?)?;
                let is_known = |argument: &str| {
                    ["as_index", "sort"].contains(&argument.split('=').next().unwrap_or_default())
                };
                arguments.all(is_known).then_some(())
            }
            "size" if !has_totals && arguments.is_empty() && !self.by.is_empty() => {
                self.items.push("count".to_owned());
                Some(())
            }
            "value_counts" if !has_totals && arguments.is_empty() => {
                self.by.append(&mut self.columns);
                self.items.push("count".to_owned());
                self.order = Some("desc");
                (!self.by.is_empty()).then_some(())
            }
            "quantile" if !has_totals => {
                let part: f64 = arguments.parse().ok()?;
                let item = |column: &String| format!("percentile({column}, {part})");
                self.items.extend(self.columns.iter().map(item));
                (!self.columns.is_empty()).then_some(())
            }
            "agg" | "aggregate" if !has_totals => self.aggregate(arguments),
            "sort_values" if has_totals => {
                self.order = match arguments {
                    "" | "ascending=True" => Some("asc"),
                    "ascending=False" => Some("desc"),
                    _ => return None,
                };
                Some(())
            }
            "nlargest" if has_totals => {
                self.order = Some("desc");
                self.limit = Some(arguments.parse().ok()?);
                Some(())
            }
            "head" if has_totals => {
                self.limit = Some(if arguments.is_empty() { 5 } else { arguments.parse().ok()? });
                Some(())
            }
            "reset_index" | "to_dict" | "to_frame" if has_totals => {
                (arguments.is_empty() || arguments.starts_with("name=")).then_some(())
            }
            _ if !has_totals && arguments.is_empty() => self.add(total_of(name)?),
            _ => None,
        }
    }

    /// Adds a total of each column.
    fn add(&mut self, total: &str) -> Option<()> {
        self.items.extend(self.columns.iter().map(|column| format!("{total}({column})")));
        (!self.columns.is_empty()).then_some(())
    }

    /// Adds the totals of `.agg('mean')`, `.agg(['min', 'max'])` or `.agg({'price': 'mean'})`.
    fn aggregate(&mut self, arguments: &str) -> Option<()> {
        let inner = arguments.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        let Some(inner) = inner else {
            return texts(arguments)?.into_iter().try_for_each(|name| self.add(total_of(name)?));
        };
        for pair in parts(inner, ",") {
            let pair = parts(pair, ":");
            let [column, functions] = pair.as_slice() else { return None };
            let column = quote(texts(column)?.pop()?);
            for name in texts(functions)? {
                self.items.push(format!("{}({column})", total_of(name)?));
            }
        }
        Some(())
    }

    fn totals(self) -> Option<String> {
        let first = self.items.first()?;
        let mut text = self.items.join(", ");
        if self.by.is_empty() {
            // One value has no order.
            return (self.order.is_none() && self.limit.is_none()).then_some(text);
        }
        text.push_str(&format!(" by {}", self.by.join(", ")));
        if let Some(direction) = self.order {
            text.push_str(&format!(" order by {first} {direction}"));
        }
        if let Some(limit) = self.limit {
            text.push_str(&format!(" limit {limit}"));
        }
        Some(text)
    }
}

/// Reads `group_by(a, b) %>% summarise(n = n(), mean(c))`. A table may come first.
fn piped(steps: &[&str]) -> Option<String> {
    let steps = match steps {
        [table, rest @ ..] if is_name(table) => rest,
        steps => steps,
    };
    let (by, items) = match steps {
        [step] => (arguments(step, &["count"])?, vec!["n()"]),
        [groups, step] => {
            let tally = arguments(step, &["tally"]).map(|_| vec!["n()"]);
            let items = tally.or_else(|| arguments(step, &["summarise", "summarize"]))?;
            (arguments(groups, &["group_by"])?, items)
        }
        _ => return None,
    };
    let item = |text: &&str| -> Option<String> {
        let pair = parts(text, "=");
        let (name, total) = match pair.as_slice() {
            [total] => ("", *total),
            [name, total] => (*name, *total),
            _ => return None,
        };
        let (function, arguments) = total.strip_suffix(')')?.split_once('(')?;
        let arguments = parts(arguments, ",");
        let total = match (function, arguments.as_slice()) {
            ("n", [""]) => "count".to_owned(),
            (_, [column] | [column, "na.rm = TRUE" | "na.rm=TRUE" | "na.rm = T" | "na.rm=T"]) => {
                format!("{}({column})", total_of(function)?)
            }
            _ => return None,
        };
        Some(if name.is_empty() { total } else { format!("{total} as {name}") })
    };
    let items: Option<Vec<String>> = items.iter().map(item).collect();
    Some(format!("{} by {}", items?.join(", "), by.join(", ")))
}

/// Returns the arguments of a call of one of `names` that is the whole step.
fn arguments<'t>(step: &'t str, names: &[&str]) -> Option<Vec<&'t str>> {
    let inner = names.iter().find_map(|name| step.strip_prefix(name)?.strip_prefix('('))?;
    let inner = inner.strip_suffix(')').filter(|inner| end_of_group(inner).is_none())?;
    Some(parts(inner, ","))
}

/// Returns one text in quotes, or a list of them, without their quotes.
fn texts(text: &str) -> Option<Vec<&str>> {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    parts(inner, ",").into_iter().map(unquoted).collect()
}

fn unquoted(text: &str) -> Option<&str> {
    ['\'', '"'].iter().find_map(|mark| {
        let inner = text.strip_prefix(*mark)?.strip_suffix(*mark)?;
        (!inner.contains(*mark) && !inner.contains('\\')).then_some(inner)
    })
}

/// Returns the names of one or several columns, as expressions quote them.
fn columns(text: &str) -> Option<Vec<String>> {
    Some(texts(text)?.into_iter().map(quote).collect())
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_') && text.chars().all(is_word_character)
}

#[cfg(test)]
mod tests {
    use super::totals;

    #[test]
    fn expressions_on_tables_are_totals() {
        for (text, expected) in [
            ("df['a b'].value_counts()", Some("count by 'a b' order by count desc")),
            ("df.a.value_counts().head(3)", Some("count by 'a' order by count desc limit 3")),
            ("df.groupby('a')['b'].mean()", Some("avg('b') by 'a'")),
            ("df.groupby(['a', 'b']).size().reset_index(name='n')", Some("count by 'a', 'b'")),
            ("df.groupby(\"a\")[\"b\"].agg(['min', 'max'])", Some("min('b'), max('b') by 'a'")),
            (
                "df.groupby('a').agg({'b': 'sum', 'c': ['mean']}).reset_index()",
                Some("sum('b'), avg('c') by 'a'"),
            ),
            (
                "df.groupby('a').b.sum().sort_values(ascending=False).head(2)",
                Some("sum('b') by 'a' order by sum('b') desc limit 2"),
            ),
            ("df['a'].nunique()", Some("nunique('a')")),
            ("df['a'].quantile(0.9)", Some("percentile('a', 0.9)")),
            ("len(df)", Some("count")),
            ("max by (a, b) (c)", Some("max(c) by a, b")),
            ("sum by (a) (rate(c[5m]))", None),
            ("stats count, avg(b) by a", Some("count, avg(b) by a")),
            ("stats by a", None),
            ("rows %>% group_by(a) %>% summarise(n = n())", Some("count as n by a")),
            ("group_by(a, b) |> summarize(mean(c, na.rm = TRUE))", Some("avg(c) by a, b")),
            ("rows %>% count(a)", Some("count by a")),
            ("df['a'].value_counts(normalize=True)", None),
            ("df.groupby('a', dropna=False).size()", None),
            ("df[df.a > 5]['b'].mean()", None),
            ("df['a'].mean().round(2)", None),
            ("df['a'].mean().head(2)", None),
            ("rows %>% filter(a > 1) %>% count(a)", None),
            ("count by a.b", None),
            ("sum(price)", None),
        ] {
            assert_eq!(totals(text).as_deref(), expected, "{text}");
        }
    }
}
