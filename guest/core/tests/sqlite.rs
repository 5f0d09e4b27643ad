//! Generated conditions and totals against SQLite on the same data. Python has SQLite in its
//! standard library; without Python, the tests say so and pass,
//! except in CI.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

mod reference;

use std::io::Write as _;
use std::process::{Command, Stdio};

use context_guard_core::query::Query;
use reference::{Random, is_installed, run};
use serde_json::{Map, Value, json};

/// The number of generated queries of each kind.
const QUERIES: usize = 1_200;
const RECORDS: u64 = 90;

const SCRIPT: &str = r#"
import json, sqlite3, sys
data = json.load(sys.stdin)
db = sqlite3.connect(":memory:")
db.execute("create table t (id, a, b, c, d, e)")
for r in data["records"]:
    db.execute("insert into t values (?,?,?,?,?,?)", [r.get(k) for k in "id a b c d e".split()])
print(json.dumps([db.execute(q).fetchall() for q in data["queries"]]))
"#;

const WORDS: [&str; 8] = ["red", "green", "blue", "dark red", "it's", "a,b", "x and y", ""];

/// Returns records: `a` a whole number, `b` a decimal, `c` a text, `d` a boolean, `e` a date. Each
/// may be null or absent.
fn records(random: &mut Random) -> Vec<Value> {
    (0..RECORDS)
        .map(|id| {
            let mut record = Map::new();
            record.insert("id".to_owned(), id.into());
            let values = [
                ("a", json!(random.below(20))),
                ("b", json!(random.below(1000) as f64 / 8.0 - 40.0)),
                ("c", json!(random.pick(&WORDS))),
                ("d", json!(random.below(2) == 0)),
                (
                    "e",
                    json!(format!("2024-{:02}-{:02}", 1 + random.below(4), 1 + random.below(28))),
                ),
            ];
            for (name, value) in values {
                match random.below(8) {
                    0 => {}
                    1 => drop(record.insert(name.to_owned(), Value::Null)),
                    _ => drop(record.insert(name.to_owned(), value)),
                }
            }
            record.into()
        })
        .collect()
}

fn sql_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns a literal of a field, as this language and as SQL write it.
fn literal(random: &mut Random, field: &str) -> (String, String) {
    let same = |text: String| (text.clone(), text);
    match field {
        "a" => same(random.below(22).to_string()),
        "b" => same((random.below(1000) as f64 / 8.0 - 40.0).to_string()),
        "c" => {
            let word = random.pick(&WORDS);
            let plain = !word.is_empty() && !word.contains([',', '\'']) && !word.contains(" and ");
            if plain && random.below(2) == 0 {
                return (word.to_owned(), sql_text(word));
            }
            (sql_text(word), sql_text(word))
        }
        _ => {
            let date = format!("2024-{:02}-{:02}", 1 + random.below(5), 1 + random.below(28));
            (date.clone(), sql_text(&date))
        }
    }
}

/// Returns a condition, as this language and as SQL write it.
fn condition(random: &mut Random, depth: u64) -> (String, String) {
    if depth > 0 && random.below(3) > 0 {
        let (left, left_sql) = condition(random, depth - 1);
        let (right, right_sql) = condition(random, depth - 1);
        let and = random.pick(&["AND", "and", "&&"]);
        let or = random.pick(&["OR", "or", "||"]);
        return match random.below(5) {
            0 => (format!("({left}) {and} ({right})"), format!("({left_sql}) AND ({right_sql})")),
            1 => (format!("({left}) {or} ({right})"), format!("({left_sql}) OR ({right_sql})")),
            2 => (format!("NOT ({left})"), format!("NOT ({left_sql})")),
            // Without parentheses, NOT binds before AND, and AND before OR.
            3 => (format!("{left} {and} {right}"), format!("{left_sql} AND {right_sql}")),
            _ => (format!("{left} {or} {right}"), format!("{left_sql} OR {right_sql}")),
        };
    }
    if random.below(8) == 0 {
        let (value, number) = if random.below(2) == 0 { ("true", 1) } else { ("false", 0) };
        let sign = random.pick(&["=", "!="]);
        return (format!("d{sign}{value}"), format!("d {sign} {number}"));
    }
    if random.below(10) == 0 {
        let operator = random.pick(&["=", "<", ">=", "!="]);
        let text = format!("a {operator} id");
        return (text.clone(), text);
    }
    let field = random.pick(&["a", "b", "c", "e"]);
    let (value, sql) = literal(random, field);
    match random.below(9) {
        0 => (format!("{field} IS NULL"), format!("{field} IS NULL")),
        1 => (format!("{field} != null"), format!("{field} IS NOT NULL")),
        2 => {
            let (other, other_sql) = literal(random, field);
            let not = random.pick(&["", "NOT "]);
            (
                format!("{field} {not}IN ({value}, {other})"),
                format!("{field} {not}IN ({sql}, {other_sql})"),
            )
        }
        3 => {
            let (other, other_sql) = literal(random, field);
            (
                format!("{field} BETWEEN {value} AND {other}"),
                format!("{field} BETWEEN {sql} AND {other_sql}"),
            )
        }
        4 if field == "c" => {
            let pattern =
                random.pick(&["'%red'", "'r%'", "'%e%'", "'_r_%'", "'blue'", "'%'", "'X%'"]);
            let text = format!("c {}LIKE {pattern}", random.pick(&["", "NOT "]));
            (text.clone(), text)
        }
        5 if field == "c" => ("c ~ ed".to_owned(), "instr(lower(c), 'ed') > 0".to_owned()),
        _ => {
            let (own, sign) = [
                ("=", "="),
                ("==", "="),
                ("!=", "!="),
                ("<>", "!="),
                (" < ", "<"),
                ("<=", "<="),
                (">", ">"),
                (">=", ">="),
                (" gt ", ">"),
                (" lte ", "<="),
                (":", "="),
            ][usize::try_from(random.below(11)).unwrap()];
            (format!("{field}{own}{value}"), format!("{field} {sign} {sql}"))
        }
    }
}

/// Returns the rows that SQLite returns for each query. None without Python.
fn sqlite(records: &[Value], queries: &[String]) -> Option<Vec<Vec<Vec<Value>>>> {
    if !is_installed("python3") {
        return None;
    }
    let mut python = Command::new("python3")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = json!({"records": records, "queries": queries}).to_string();
    python.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Returns the result of a query as JSON.
fn own(document: &str, query: &Query) -> Result<Value, String> {
    Ok(serde_json::from_slice(&run(document, query)?.bytes).unwrap())
}

#[test]
fn conditions_choose_the_records_of_sqlite() {
    let mut random = Random(1);
    let records = records(&mut random);
    let document = Value::from(records.clone()).to_string();
    let queries: Vec<(String, String)> = (0..QUERIES).map(|_| condition(&mut random, 3)).collect();
    let sql: Vec<String> = queries
        .iter()
        .map(|(_, sql)| format!("select id from t where {sql} order by id"))
        .collect();
    let Some(expected) = sqlite(&records, &sql) else { return };
    let mut wrong = Vec::new();
    for ((text, sql), expected) in queries.iter().zip(expected) {
        let query = Query { condition: Some(text.clone()), ..Query::default() };
        let found = own(&document, &query).map(|found| {
            found.as_array().unwrap().iter().map(|record| vec![record["id"].clone()]).collect()
        });
        if found.as_ref() != Ok(&expected) {
            wrong.push(format!("{text}\n  {sql}\n  found {found:?}\n  expected {expected:?}"));
        }
    }
    let shown = wrong.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {QUERIES}:\n{shown}", wrong.len());
}

/// Returns totals of groups, as this language and as SQL write them, and the number of groups'
/// fields.
fn totals(random: &mut Random) -> (String, String, usize) {
    let total = |random: &mut Random| {
        let number = random.pick(&["a", "b"]);
        let any = random.pick(&["a", "b", "c", "e"]);
        match random.below(8) {
            0 => "count(*)".to_owned(),
            1 => format!("count({any})"),
            2 => format!("count(distinct {any})"),
            3 => format!("sum({number})"),
            4 => format!("avg({number})"),
            5 => format!("min({any})"),
            _ => format!("max({any})"),
        }
    };
    let mut items: Vec<String> = (0..=random.below(3)).map(|_| total(random)).collect();
    items.dedup();
    items.sort();
    items.dedup();
    let groups: &[&str] = match random.below(5) {
        0 => &[],
        1 => &["c"],
        2 => &["a"],
        3 => &["c", "d"],
        _ => &["d"],
    };
    let list = items.join(", ");
    if groups.is_empty() {
        return (list.clone(), format!("select {list} from t"), 0);
    }
    let by = groups.join(", ");
    let having = match random.below(3) {
        0 => format!(" having count(*) > {}", random.below(12)),
        1 if random.below(2) == 0 => " having sum(b) > 10 and count(*) > 2".to_owned(),
        _ => String::new(),
    };
    let (order, sql_order) = if random.below(2) == 0 {
        let first = &items[0];
        let limit = 1 + random.below(5);
        let keys: Vec<String> = groups.iter().map(|key| format!("{key} is null, {key}")).collect();
        (
            format!(" order by {first} desc, {by} limit {limit}"),
            format!(" order by {first} is null, {first} desc, {} limit {limit}", keys.join(", ")),
        )
    } else {
        (String::new(), String::new())
    };
    (
        format!("{list} {} {by}{having}{order}", random.pick(&["by", "group by", "GROUP BY"])),
        format!("select {by}, {list} from t group by {by}{having}{sql_order}"),
        groups.len(),
    )
}

/// Returns a value as text, rounded, so that sums in another order are equal.
fn text(value: &Value) -> String {
    match value {
        Value::Number(number) => format!("{:.6}", number.as_f64().unwrap()),
        Value::Bool(value) => format!("{:.6}", f64::from(u8::from(*value))),
        Value::String(text) if text == "true" => "1.000000".to_owned(),
        Value::String(text) if text == "false" => "0.000000".to_owned(),
        Value::String(text) => match text.parse::<f64>() {
            Ok(number) => format!("{number:.6}"),
            Err(_) => text.clone(),
        },
        _ => "null".to_owned(),
    }
}

fn sorted(rows: impl Iterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = rows
        .map(|mut row| {
            row.sort();
            row
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn totals_are_those_of_sqlite() {
    let mut random = Random(2);
    let records = records(&mut random);
    let document = Value::from(records.clone()).to_string();
    let queries: Vec<(String, String, usize)> = (0..QUERIES).map(|_| totals(&mut random)).collect();
    let sql: Vec<String> = queries.iter().map(|(_, sql, _)| sql.clone()).collect();
    let Some(expected) = sqlite(&records, &sql) else { return };
    let mut wrong = Vec::new();
    for ((query, sql, groups), expected) in queries.iter().zip(expected) {
        let aggregate = Some(query.clone());
        let found = own(&document, &Query { aggregate, ..Query::default() });
        let found = found.map(|found| {
            let members = found.as_object().unwrap();
            let rows = members
                .iter()
                .find(|(name, value)| *name != "notes" && (value.is_object() || value.is_array()));
            match rows {
                Some((_, Value::Object(pairs))) if *groups > 0 => {
                    sorted(pairs.iter().map(|(key, value)| {
                        let key = if key == "null" { "null".to_owned() } else { text(&json!(key)) };
                        vec![key, text(value)]
                    }))
                }
                Some((_, rows)) if *groups > 0 => {
                    let rows = rows.as_array().unwrap().iter();
                    sorted(rows.map(|row| row.as_object().unwrap().values().map(text).collect()))
                }
                _ => {
                    let values =
                        members.iter().filter(|(name, _)| *name != "records" && *name != "notes");
                    sorted(std::iter::once(values.map(|(_, value)| text(value)).collect()))
                }
            }
        });
        let expected = sorted(expected.iter().map(|row| row.iter().map(text).collect()));
        if found.as_ref() != Ok(&expected) {
            wrong.push(format!("{query}\n  {sql}\n  found {found:?}\n  expected {expected:?}"));
        }
    }
    let shown = wrong.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {QUERIES}:\n{shown}", wrong.len());
}
