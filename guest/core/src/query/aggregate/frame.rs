//! Totals in the syntax of data frame libraries: `df.groupby('kind')['price'].mean()` and
//! `group_by(kind) %>% summarise(mean(price))`.

use crate::query::code::{end_of_group, parts};
use crate::query::reader::is_word_character;
use crate::query::value::quote;

/// The methods of a column, each with the total that it computes.
const METHODS: [(&str, &str); 13] = [
    ("sum", "sum"),
    ("mean", "avg"),
    ("median", "median"),
    ("min", "min"),
    ("max", "max"),
    ("nunique", "nunique"),
    ("unique", "distinct"),
    ("count", "count"),
    ("n_distinct", "nunique"),
    ("std", "stddev"),
    ("stddev", "stddev"),
    ("sd", "stddev"),
    ("var", "variance"),
];

/// Returns the total that a method or function of a column computes. `None` if it is unknown.
fn total_of(method: &str) -> Option<&'static str> {
    METHODS.iter().find(|(name, _)| *name == method).map(|(_, total)| *total)
}

/// Converts a data frame expression to totals. `None` if the text is not such an expression, or has
/// an unknown part.
pub(super) fn totals(text: &str) -> Option<String> {
    let text = text.trim();
    let mut pipes = ["%>%", "|>"].iter().map(|pipe| parts(text, pipe));
    if let Some(steps) = pipes.find(|steps| steps.len() > 1) {
        return piped(&steps);
    }
    if text.contains("pivot_table(") {
        return pivot(text);
    }
    if text.starts_with("summarise(") || text.starts_with("summarize(") {
        return piped(&[text]);
    }
    if let Some(totals) = ranked(text).or_else(|| prometheus(text)).or_else(|| expression(text)) {
        return Some(totals);
    }
    if let Some(table) = text.strip_prefix("len(").and_then(|text| text.strip_suffix(')')) {
        return is_name(table).then(|| "count".to_owned());
    }
    if let Some(total) = text.strip_prefix("np.").or_else(|| text.strip_prefix("numpy.")) {
        let function = total.split('(').next().unwrap_or_default();
        // NumPy does not divide by the number less one.
        return match function {
            "std" | "var" => {
                let name = if function == "std" { "stddev_pop" } else { "var_pop" };
                Some(format!("{name}{}", total.strip_prefix(function)?))
            }
            _ => {
                (total_of(function).is_some() || function == "percentile").then(|| total.to_owned())
            }
        };
    }
    if ["groupBy(", "group_by(", "groupby("].iter().any(|call| text.starts_with(call)) {
        return Chain::read(&format!("df.{text}"))?.totals();
    }
    worded(text).or_else(|| Chain::read(text)?.totals())
}

/// Converts a total in words: `average of price by city` to `avg(price) by city`. `None` if the
/// text has another form.
fn worded(text: &str) -> Option<String> {
    let deviation = "standard deviation ";
    let start = text.get(..deviation.len());
    let (function, rest) = match start {
        Some(start) if start.eq_ignore_ascii_case(deviation) => {
            ("std", text.get(deviation.len()..)?)
        }
        _ => text.split_once(' ')?,
    };
    let total = match function.to_lowercase().as_str() {
        "average" | "avg" => "avg",
        // `largest city by population` sorts cities by another field.
        "largest" | "highest" | "biggest" | "greatest" if text.contains(" per ") => "max",
        "smallest" | "lowest" if text.contains(" per ") => "min",
        "maximum" => "max",
        "minimum" => "min",
        "total" => "sum",
        // The grammar reads `count` and distinct values in words.
        name => total_of(name).filter(|total| !["count", "distinct"].contains(total))?,
    };
    let rest = rest.trim_start();
    let rest = rest.strip_prefix("of ").unwrap_or(rest).trim_start();
    let end = rest.find(' ').unwrap_or(rest.len());
    let (field, after) = rest.split_at_checked(end)?;
    let is_field = field.split('.').all(is_name);
    let is_clause = after.is_empty() || [" by ", " per "].iter().any(|by| after.starts_with(by));
    let is_word = ["by", "per"].contains(&field);
    (is_field && is_clause && !is_word).then(|| format!("{total}({field}){after}"))
}

/// Converts `topk(3, sum by (city) (price))` of PromQL, and `bottomk`.
fn ranked(text: &str) -> Option<String> {
    let (inner, direction) = match text.strip_prefix("topk(") {
        Some(inner) => (inner, "desc"),
        None => (text.strip_prefix("bottomk(")?, "asc"),
    };
    let (count, total) = inner.strip_suffix(')')?.split_once(',')?;
    let totals = prometheus(total.trim())?;
    let first = totals.split(" by ").next()?;
    let count: u64 = count.trim().parse().ok()?;
    Some(format!("{totals} order by {first} {direction} limit {count}"))
}

/// Converts `pivot_table(values='price', index='city', aggfunc='sum')` of pandas.
fn pivot(text: &str) -> Option<String> {
    let (table, inner) = text.strip_suffix(')')?.split_once("pivot_table(")?;
    (table.is_empty() || is_name(table.strip_suffix('.')?)).then_some(())?;
    let (mut by, mut values, mut functions) = (Vec::new(), Vec::new(), vec!["mean"]);
    for (at, argument) in parts(inner, ",").into_iter().enumerate() {
        let Some((name, value)) = argument.split_once('=') else {
            // The first argument may be the table.
            (at == 0 && is_name(argument)).then_some(())?;
            continue;
        };
        match name.trim() {
            "values" => values = columns(value)?,
            "index" | "columns" => by.append(&mut columns(value)?),
            "aggfunc" => functions = texts(value)?,
            _ => return None,
        }
    }
    let mut items = Vec::new();
    for name in functions {
        if name == "size" {
            items.push("count".to_owned());
            continue;
        }
        let total = total_of(name)?;
        items.extend(values.iter().map(|column| format!("{total}({column})")));
    }
    (!items.is_empty() && !by.is_empty())
        .then(|| format!("{} by {}", items.join(", "), by.join(", ")))
}

/// Converts a total of PromQL, such as `max by (city) (price)`, to `max(price) by city`. `None` if
/// the text has another form.
fn prometheus(text: &str) -> Option<String> {
    let (function, rest) = text.split_once(char::is_whitespace)?;
    let rest = rest.trim_start().strip_prefix("by")?.trim_start().strip_prefix('(')?;
    let end = end_of_group(rest)?;
    let (by, rest) = (rest.get(..end)?, rest.get(end + 1..)?.trim());
    let field = rest.strip_prefix('(')?.strip_suffix(')').filter(|field| !field.contains(')'))?;
    let total = total_of(function).or((function == "avg").then_some("avg"))?;
    (!field.is_empty() && !by.is_empty()).then(|| format!("{total}({field}) by {by}"))
}

/// Converts column functions of Polars and Spark: `pl.col("a").max()`, `agg(F.countDistinct("a"))`.
fn expression(text: &str) -> Option<String> {
    let text = text.trim();
    let inner = text.strip_prefix("agg(").or_else(|| text.strip_prefix("select("));
    if let Some(inner) = inner.and_then(|inner| inner.strip_suffix(')')) {
        let totals: Option<Vec<String>> = parts(inner, ",").into_iter().map(expression).collect();
        return totals.map(|totals| totals.join(", "));
    }
    if let Some(rest) = text.strip_prefix("pl.col(").or_else(|| text.strip_prefix("col(")) {
        let end = end_of_group(rest)?;
        let column = columns(rest.get(..end)?)?.pop()?;
        let method = rest.get(end + 1..)?.strip_prefix('.')?.strip_suffix("()")?;
        return Some(format!("{}({column})", function_of(method)?));
    }
    let call = ["F.", "fn.", "func.", "functions."].iter().find_map(|it| text.strip_prefix(it))?;
    let (call, alias) = match call.split_once(").alias(") {
        Some((call, alias)) => (format!("{call})"), Some(texts(alias.strip_suffix(')')?)?.pop()?)),
        None => (call.to_owned(), None),
    };
    let (function, column) = call.strip_suffix(')')?.split_once('(')?;
    let total = match (function, column) {
        ("count", "\"*\"" | "'*'" | "1" | "") => "count".to_owned(),
        _ => format!("{}({})", function_of(function)?, columns(column)?.pop()?),
    };
    Some(match alias {
        Some(alias) => format!("{total} as {}", quote(alias)),
        None => total,
    })
}

/// Returns the total that a function of Polars or Spark computes. `None` if it is unknown.
fn function_of(name: &str) -> Option<&'static str> {
    total_of(name).or(match name {
        "countDistinct" | "count_distinct" | "approx_count_distinct" | "n_unique" => {
            Some("nunique")
        }
        "avg" => Some("avg"),
        _ => None,
    })
}

/// The calls on a data frame: its groups, columns and totals.
#[derive(Default)]
struct Chain {
    /// The quoted first name: a data frame, or a column as in `price.mean()`.
    table: String,
    /// The quoted names of the columns that group the rows.
    by: Vec<String>,
    columns: Vec<String>,
    items: Vec<String>,
    order: Option<&'static str>,
    limit: Option<usize>,
    /// The condition of a column of flags, such as `price IS NULL`, of which a total follows.
    flag: Option<String>,
}

impl Chain {
    fn read(text: &str) -> Option<Self> {
        let (table, mut rest) = text.split_at_checked(text.find(['.', '['])?)?;
        if !is_name(table) {
            return None;
        }
        let mut chain = Self { table: quote(table), ..Self::default() };
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

    /// Adds a method call. `None` if the method is unknown.
    fn call(&mut self, name: &str, arguments: &str) -> Option<()> {
        let has_totals = !self.items.is_empty();
        match name {
            "groupby" | "groupBy" | "group_by" if !has_totals => {
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
            "isnull" | "isna" | "notnull" | "notna" if !has_totals && arguments.is_empty() => {
                let column = self.columns.pop()?;
                self.columns.is_empty().then_some(())?;
                let not = if name.starts_with("not") { "NOT " } else { "" };
                self.flag = Some(format!("{column} IS {not}NULL"));
                Some(())
            }
            "sum" if self.flag.is_some() && arguments.is_empty() => {
                let flag = self.flag.take()?;
                self.items.push(format!("count(*) FILTER (WHERE {flag})"));
                Some(())
            }
            _ if self.flag.is_some() => None,
            "describe" if !has_totals && arguments.is_empty() => {
                let totals = ["count", "avg", "stddev", "min", "p25", "median", "p75", "max"];
                totals.into_iter().try_for_each(|total| self.add(total))
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

    /// Adds a total of each selected column. `None` if no column is selected.
    fn add(&mut self, total: &str) -> Option<()> {
        if self.columns.is_empty() && self.by.is_empty() {
            self.items.push(format!("{total}({})", self.table));
            return Some(());
        }
        self.items.extend(self.columns.iter().map(|column| format!("{total}({column})")));
        (!self.columns.is_empty()).then_some(())
    }

    /// Adds the totals of `.agg('mean')`, `.agg(['min', 'max'])` or `.agg({'price': 'mean'})`.
    fn aggregate(&mut self, arguments: &str) -> Option<()> {
        let inner = arguments.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        let Some(inner) = inner else {
            if let Some(items) = parts(arguments, ",").into_iter().map(expression).collect() {
                let items: Vec<String> = items;
                self.items.extend(items);
                return Some(());
            }
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
        self.flag.is_none().then_some(())?;
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

/// Converts `group_by(a, b) %>% summarise(n = n(), mean(c))`. A table may come first.
fn piped(steps: &[&str]) -> Option<String> {
    let steps = match steps {
        [table, rest @ ..] if is_name(table) => rest,
        steps => steps,
    };
    let (by, items) = match steps {
        [step] if step.starts_with("summari") => {
            (Vec::new(), arguments(step, &["summarise", "summarize"])?)
        }
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
    let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
    Some(format!("{}{by}", items?.join(", ")))
}

/// Returns the arguments of a step that is a call of one of `names`. `None` for other steps.
fn arguments<'t>(step: &'t str, names: &[&str]) -> Option<Vec<&'t str>> {
    let inner = names.iter().find_map(|name| step.strip_prefix(name)?.strip_prefix('('))?;
    let inner = inner.strip_suffix(')').filter(|inner| end_of_group(inner).is_none())?;
    Some(parts(inner, ","))
}

/// Returns one quoted text or a list of them, without their quotes. `None` for other texts.
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

/// Returns the names of one or several columns, quoted for an expression.
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
            ("a.mean()", Some("avg('a')")),
            ("average of a.b per c", Some("avg(a.b) per c")),
            ("sum of by c", None),
            ("max a b", None),
            ("summarise(n = sum(a), n())", Some("sum(a) as n, count")),
            ("df['a'].quantile(0.9)", Some("percentile('a', 0.9)")),
            ("df['a'].std()", Some("stddev('a')")),
            ("np.std(a)", Some("stddev_pop(a)")),
            (
                "df['a'].describe()",
                Some(
                    "count('a'), avg('a'), stddev('a'), min('a'), p25('a'), median('a'), p75('a'), max('a')",
                ),
            ),
            ("standard deviation of a by b", Some("stddev(a) by b")),
            ("df['a'].isnull().sum()", Some("count(*) FILTER (WHERE 'a' IS NULL)")),
            ("df['a'].isna()", None),
            ("df['a'].isna().mean()", None),
            ("largest a per b", Some("max(a) per b")),
            ("largest a by b", None),
            ("longest a", None),
            ("total a", Some("sum(a)")),
            (
                "df.pivot_table(values='a', index=['b', 'c'], aggfunc=['sum', 'count'])",
                Some("sum('a'), count('a') by 'b', 'c'"),
            ),
            ("pd.pivot_table(df, values='a', index='b')", Some("avg('a') by 'b'")),
            ("pivot_table(values='a', index='b', columns='c')", Some("avg('a') by 'b', 'c'")),
            ("pivot_table(values='a', index='b', margins=True)", None),
            ("topk(2, sum by (a.b) (c))", Some("sum(c) by a.b order by sum(c) desc limit 2")),
            ("len(df)", Some("count")),
            ("max by (a, b) (c)", Some("max(c) by a, b")),
            ("sum by (a) (rate(c[5m]))", None),
            ("np.percentile(a, 25)", Some("percentile(a, 25)")),
            ("groupBy('a').agg(F.max('b'))", Some("max('b') by 'a'")),
            ("pl.col(\"a b\").n_unique()", Some("nunique('a b')")),
            ("agg(F.countDistinct(\"a\"), F.count(\"*\"))", Some("nunique('a'), count")),
            ("df.groupBy(\"a\").agg(F.avg(\"b\").alias(\"n\"))", Some("avg('b') as 'n' by 'a'")),
            ("df.group_by('a').agg(pl.col('b').mean())", Some("avg('b') by 'a'")),
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
