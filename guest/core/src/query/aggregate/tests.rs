//! Tests of totals.

use super::*;
use crate::policy::EndpointSettings;

fn run(aggregate: &str) -> String {
    let json = br#"{"rows":[{"s":"open","p":0.1,"t":["a","b"]},{"s":"done","p":0.2,"t":["a"]},{"s":"open","p":10},{"p":null}]}"#;
    let records = RecordSet::locate(json, &EndpointSettings::default()).unwrap();
    match Aggregates::parse(aggregate)
        .and_then(|aggregates| aggregates.run(&records, &records.ids, 0))
    {
        Ok(bytes) => String::from_utf8(bytes).unwrap(),
        Err(reason) => reason,
    }
}

#[test]
fn totals_cover_every_record() {
    let note = r#""notes":["1 record has no number at p and was left out"]"#;
    assert_eq!(run("count"), r#"{"records":4,"count":4}"#);
    assert_eq!(run("count, sum(p), count"), run("count, sum(p)"));
    assert_eq!(run("count by s"), r#"{"records":4,"count by s":{"open":2,"done":1,"null":1}}"#);
    assert_eq!(
        run("sum(p), min(p),max(p)"),
        format!(r#"{{"records":4,"sum(p)":10.3,"min(p)":0.1,"max(p)":10,{note}}}"#)
    );
    assert_eq!(
        run("sum(p) by s"),
        format!(r#"{{"records":4,"sum(p) by s":{{"open":10.1,"done":0.2,"null":null}},{note}}}"#)
    );
    assert_eq!(run("distinct(t)"), r#"{"records":4,"distinct(t)":{"count":2,"values":["a","b"]}}"#);
    assert_eq!(run("count(p)"), r#"{"records":4,"count(p)":3}"#);
}

#[test]
fn groups_may_come_first() {
    assert_eq!(run("count_by(s)"), r#"{"records":4,"count_by(s)":{"open":2,"done":1,"null":1}}"#);
    assert!(run("top 1 s by sum(p)").contains(r#""top 1 s by sum(p)":{"open":10.1}"#));
    assert!(run("top 1 s").contains("write count by s order by count desc limit 1"));
    assert!(run(r#"{"terms": {"field": "s"}}"#).contains(r#"{"open":2,"done":1,"null":1}"#));
}

#[test]
fn distinct_values_have_several_spellings() {
    let values = r#"{"count":2,"values":["done","open"]}"#;
    for text in ["distinct s", "unique s", "distinct values of s"] {
        assert_eq!(run(text), format!(r#"{{"records":4,"{text}":{values}}}"#));
    }
    for text in
        ["distinct count of s", "distinct count s", "count distinct s", "number of unique s"]
    {
        assert_eq!(run(text), format!(r#"{{"records":4,"{text}":2}}"#));
    }
    assert!(run("unique count of t by s").contains(r#"{"open":2,"done":1,"null":0}"#));
    // Pairs in SQL, and the values of each elsewhere.
    for text in ["distinct s, t", "distinct s, sum(p)"] {
        assert!(run(text).contains("write count by a, b"), "{text}");
    }
}

#[test]
fn totals_replace_null() {
    for (text, expected) in [
        ("avg(coalesce(p, 0))", "2.575"),
        ("sum(coalesce(p, 0.7)), count(coalesce(p, 0))", "11"),
        ("max(ifnull(p, 99))", "99"),
        ("avg(nullif(p, 10))", "0.15"),
        ("count(nullif(s, 'open'))", "1"),
        ("sum(p + coalesce(p, 0))", "20.6"),
    ] {
        assert!(run(text).contains(&format!(":{expected}")), "{text}: {}", run(text));
    }
    assert!(run("count by coalesce(s, 'none')").contains(r#""none":1"#));
    for text in ["avg(coalesce(p, s, 0))", "avg(coalesce(p))", "avg(nullif(coalesce(p, 0), 0))"] {
        assert!(run(text).contains("takes a field and a value"), "{text}: {}", run(text));
    }
}

#[test]
fn ties_of_groups_are_stated() {
    for text in ["count by p limit 1", "count by p order by count desc limit 2"] {
        assert!(run(text).contains("more are equal to the last"), "{text}: {}", run(text));
    }
    for text in ["count by s limit 1", "count by p limit 4", "sum(p) by s order by sum limit 1"] {
        assert!(!run(text).contains("more are equal"), "{text}: {}", run(text));
    }
}

#[test]
fn groups_may_be_numbers_of_columns() {
    let groups = r#"{"open":2,"done":1,"null":1}"#;
    for text in [
        "SELECT s, count(*) FROM t GROUP BY 1",
        "SELECT count(*), s FROM t GROUP BY 2",
        "SELECT s, count(*) n FROM t GROUP BY 1 ORDER BY 2 DESC",
        "SELECT substr(s, 1, 9) AS k, count(*) FROM t GROUP BY 1",
    ] {
        assert!(run(text).contains(groups), "{text}: {}", run(text));
    }
    assert!(run("SELECT s, count(*) FROM t GROUP BY 2").contains("column without a total"));
    let unknown = run("SELECT s, count(*) FROM t GROUP BY 3");
    assert!(unknown.contains("column without a total"), "{unknown}");
}

#[test]
fn conditions_of_totals_do_not_choose_elements() {
    let json = br#"{"rows":[{"s":"open","t":[{"x":1,"y":"a"},{"x":2,"y":"b"}]},{"s":"x","t":[]}]}"#;
    let records = RecordSet::locate(json, &EndpointSettings::default()).unwrap();
    let run = |text| Aggregates::parse(text).unwrap().run(&records, &records.ids, 0);
    let refusal = run("sum(t.x) filter (where s = 'open') by t.y").unwrap_err();
    assert!(refusal.contains("the groups are elements of a list"), "{refusal}");
    assert!(run("sum(t.x) filter (where s = 'open') by s").is_ok());
}

#[test]
fn totals_of_dates_are_days() {
    let json = br#"[{"a":"2025-01-05","b":"2025-01-01"},{"a":"2025-01-03","b":"2025-01-01"}]"#;
    let records = RecordSet::locate(json, &EndpointSettings::default()).unwrap();
    let totals = Aggregates::parse("avg(a - b)").unwrap().run(&records, &records.ids, 0).unwrap();
    let expected = r#"{"records":2,"avg(a - b)":3,"notes":["avg(a - b) is a number of days"]}"#;
    assert_eq!(String::from_utf8(totals).unwrap(), expected);
}

/// Returns the totals of `run` without the number of records and the notes.
fn totals(aggregate: &str) -> String {
    let text = run(aggregate);
    let start = text.find(",\"").map_or(0, |at| at + 1);
    let end = text.rfind(",\"notes\"").unwrap_or(text.len() - 1);
    text.get(start..end).map_or(text.clone(), str::to_owned)
}

#[test]
fn totals_have_conditions_of_their_own() {
    for (text, expected) in [
        (
            "count(*) FILTER (WHERE s = 'open') AS open, sum(p) filter (where s='done') as done, count",
            r#""open":2,"done":0.2,"count":4"#,
        ),
        // Groups without such a record remain.
        (
            "count(*) FILTER (WHERE p > 5) AS n by s",
            r#""count(*) FILTER (WHERE p > 5) AS n by s":{"open":1,"done":0,"null":0}"#,
        ),
        (
            "SUM(CASE WHEN s = 'open' THEN p ELSE 0 END) AS a, SUM(CASE WHEN s = 'x' THEN p ELSE 0 END) AS b, sum(case when s = 'x' then p end) as c",
            r#""a":10.1,"b":0,"c":null"#,
        ),
        ("SUM(CASE s WHEN 'open' THEN 1 ELSE 0 END) AS n", r#""n":2"#),
        ("SUM(IF(s = 'open', 1, 0)) AS n, sum(s = 'done') AS m", r#""n":2,"m":1"#),
        ("COUNT(CASE WHEN s = 'open' THEN 1 END) AS n", r#""n":2"#),
        ("COUNT(DISTINCT CASE WHEN s = 'open' THEN p END) AS n", r#""n":2"#),
        ("avg(CASE WHEN s = 'open' THEN 1.0 ELSE 0 END) AS share", r#""share":0.5"#),
        ("avg(s = 'open') AS share", r#""share":0.5"#),
        ("countif(s = 'open') AS a, COUNTIF(s, \"done\") AS b", r#""a":2,"b":1"#),
        ("sumif(p, s = 'open') AS a, SUMIF(s, \"done\", p) AS b", r#""a":10.1,"b":0.2"#),
        ("max(p) FILTER (WHERE s = 'done') AS m", r#""m":0.2"#),
    ] {
        assert_eq!(totals(text), expected, "{text}");
    }
    for (text, reason) in [
        ("count(CASE WHEN s = 'open' THEN 1 ELSE 0 END)", "no clear meaning"),
        ("sum(CASE WHEN s = 'a' THEN 1 WHEN s = 'b' THEN 2 END)", "one WHEN"),
        ("count(*) FILTER (WHERE nothing = 5)", "nothing"),
        ("count(*) FILTER (WHERE s = 'open'", "closing parenthesis"),
        ("sumif(p)", "takes a condition"),
    ] {
        let refusal = run(text);
        assert!(refusal.contains(reason), "{text}: {refusal}");
    }
}

#[test]
fn numbers_are_computed_from_totals() {
    for (text, expected) in [
        ("sum(p) / count(p)", r#""sum(p) / count(p)":3.43333333333333"#),
        ("max(p)-min(p) as span", r#""span":9.9"#),
        ("ROUND(100.0 * COUNT(*) FILTER (WHERE s = 'open') / COUNT(*), 1) AS pct", r#""pct":50"#),
        ("(sum(p) + 1) * 2 as x", r#""x":22.6"#),
        ("sum(p)::float / nullif(count(*) - 4, 0) as x", r#""x":null"#),
        ("coalesce(sum(p) filter (where s = 'x'), 0) as x", r#""x":0"#),
        ("CAST(sum(p) AS double precision) / 2 as x", r#""x":5.15"#),
        (
            "sum(p) / count(*) as mean by s order by mean desc limit 1",
            r#""sum(p) / count(*) as mean by s order by mean desc limit 1":{"open":5.05}"#,
        ),
        (
            "count(*) * 100 / 8 by s order by 2 limit 1",
            r#""count(*) * 100 / 8 by s order by 2 limit 1":{"done":12.5}"#,
        ),
        ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY p) AS x", r#""x":0.2"#),
        ("percentile_cont(0.9) within group (order by p desc) as x", r#""x":0.12"#),
        (
            r#"{"group_by": "s", "sum": "p"}"#,
            r#""sum(p) by s":{"open":10.1,"done":0.2,"null":null}"#,
        ),
        (r#"{"sum": ["p"], "count": true}"#, r#""count":4,"sum(p)":10.3"#),
    ] {
        assert_eq!(totals(text), expected, "{text}");
    }
    for (text, reason) in [
        ("max(s) - min(s)", "computes with numbers, and min(s) is none"),
        ("argmax(p) / 2", "computes with numbers"),
        ("5 * 3", "a total"),
        (r#"{"avg": {"field": "p", "missing": 0}}"#, "not known"),
        (r#"[{"$group": {"_id": "$s", "x": {"$sum": "$p", "$avg": "$p"}}}]"#, "not known"),
        ("sum(p) /", "the name of a total is expected"),
        ("percentile_cont(95) within group (order by q)", "q"),
    ] {
        let refusal = run(text);
        assert!(refusal.contains(reason), "{text}: {refusal}");
    }
}

fn totals_of(json: &str, aggregate: &str) -> String {
    let records = RecordSet::locate(json.as_bytes(), &EndpointSettings::default()).unwrap();
    let totals = Aggregates::parse(aggregate);
    let totals = totals.and_then(|totals| totals.run(&records, &records.ids, 0));
    totals.map_or_else(|reason| reason, |bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn conditions_of_totals_keep_their_texts() {
    let json = r#"[{"c":"A","s":"done"},{"c":"B","s":"in progress"},{"c":"A","s":"done"}]"#;
    for text in [
        "count by c order by countif(s = 'in progress') desc limit 1",
        "count by c having countif(s = 'in progress') > 0",
        "count(*) FILTER (WHERE s = 'in progress') AS open, count by c order by count limit 1",
        "count by c order by sum(CASE WHEN s = 'in progress' THEN 1 ELSE 0 END) desc limit 1",
    ] {
        let found = totals_of(json, text);
        assert!(found.contains(r#"{"B":1}"#) || found.contains(r#""c":"B""#), "{text}: {found}");
        assert!(!found.contains(r#""A""#), "{text}: {found}");
    }
}

#[test]
fn conditions_of_totals_and_elements_are_refused() {
    let json = r#"[{"items":[{"sku":"x","qty":1},{"sku":"y","qty":10}]}]"#;
    for text in [
        "sumif(items.qty, items.sku = 'x')",
        "sum(items.qty) FILTER (WHERE items.sku = 'x')",
        "sum(CASE WHEN items.sku = 'x' THEN items.qty ELSE 0 END)",
    ] {
        assert!(totals_of(json, text).contains("are of elements of items"), "{text}");
    }
}

#[test]
fn names_are_no_conditions_of_totals() {
    let json = r#"[{"Cost in USD":5,"case":"a","is new":1,"status":"x","n":7}]"#;
    for (text, expected) in [
        (r#"sum("Cost in USD")"#, "5"),
        ("max(case)", "\"a\""),
        ("countif(status = 'x', n > 8) as k", "\"k\":0"),
        ("countif(status = 'x', n > 6) as k", "\"k\":1"),
        ("countif(status, n > 3)", "takes a condition"),
        ("sumif(n > 5, n < 9)", "takes a condition"),
        ("countif(n > 5, n < 3) as k", "\"k\":0"),
        ("avg(status = 'filter') as k", "\"k\":0"),
        ("{}", "not known"),
    ] {
        let found = totals_of(json, text);
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn computed_totals_have_currencies() {
    let json = r#"[{"fee":"10 EUR","tip":"5 USD","n":2},{"fee":"20 EUR","tip":"5 USD","n":2}]"#;
    for (text, expected) in [
        ("round(sum(fee), 1) as k", r#""k":"€30""#),
        ("sum(fee) / sum(n) as k", r#""k":"€7.5""#),
        ("sum(fee) + sum(tip)", "amounts in € and USD"),
        ("avg(n)::int", "to round, write round(total)"),
        ("avg(n)::decimal(10, 2) as k", r#""k":2"#),
    ] {
        let found = totals_of(json, text);
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn keys_have_the_names_of_a_statement() {
    let json =
        br#"[{"d":"2021-02-01","y":1610,"l":[{"n":"a"},{"n":"a"},{"n":"b"}],"t":["x","y"],"c":"p"},
        {"d":"2021-05-01","y":1699,"l":[{"n":"b"}],"t":["x"],"c":"p"},
        {"d":"2022-05-01","y":1700,"l":[],"t":[],"c":"q"}]"#;
    let records = RecordSet::locate(json, &EndpointSettings::default()).unwrap();
    let run = |text: &str| {
        let totals = Aggregates::parse(text)?.run(&records, &records.ids, 0)?;
        Ok::<String, String>(String::from_utf8(totals).unwrap())
    };
    for (text, expected) in [
        (
            "SELECT YEAR(d) y, COUNT(*) n FROM t GROUP BY y HAVING n >= 2 ORDER BY n DESC",
            r#":{"2021":2}}"#,
        ),
        (
            "SELECT YEAR(d) AS y, QUARTER(d) AS q, COUNT(*) AS n FROM t GROUP BY y, q ORDER BY y, q",
            r#":[{"y":2021,"q":"2021-Q1","n":1},{"y":2021,"q":"2021-Q2","n":1},{"y":2022,"q":"2022-Q2","n":1}]"#,
        ),
        (
            "SELECT FLOOR(y / 100) * 100 AS century, COUNT(*) FROM t GROUP BY century ORDER BY century",
            r#":{"1600":2,"1700":1}"#,
        ),
        (
            "SELECT FLOOR(y/100)*100 AS c, COUNT(*) FROM t GROUP BY c ORDER BY c",
            r#":{"1600":2,"1700":1}"#,
        ),
        ("count by y - y % 100", r#":{"1600":2,"1700":1}"#),
        (r#"[{"$unwind":"$l"},{"$group":{"_id":"$l.n","k":{"$sum":1}}}]"#, r#":{"a":2,"b":2}"#),
        ("SELECT e.n, COUNT(*) FROM t, UNNEST(l) AS e GROUP BY e.n", r#":{"a":2,"b":2}"#),
        ("SELECT e, COUNT(*) FROM rows CROSS JOIN UNNEST(t) e GROUP BY e", r#":{"x":2,"y":1}"#),
        ("SELECT c, COUNT(*) FROM rows, UNNEST(l) e GROUP BY c", r#":{"p":4}"#),
        ("count unnest l", r#""count":4"#),
        ("count by l.n", r#":{"b":2,"a":1,"null":1}"#),
        (r#"{"count":"n","group_by":"c","having":"n >= 2"}"#, r#":{"p":2}"#),
        ("stddev_pop(y)", r#""stddev_pop(y)":"#),
        ("variance(y) by c", "var_pop divides by n"),
        ("standard deviation of y", "stddev is of a sample (divided by n - 1)"),
        (r#"{"$group":{"_id":null,"s":{"$stdDevPop":"$y"}}}"#, r#""s":"#),
    ] {
        assert!(run(text).unwrap().contains(expected), "{text}: {:?}", run(text));
    }
    for text in [
        "SELECT YEAR(d) y, QUARTER(d) q, COUNT(*) FROM t GROUP BY y",
        "SELECT e.n, COUNT(*) FROM t, UNNEST(c) AS e GROUP BY e.n",
        "SELECT e.n, t, COUNT(*) FROM t, UNNEST(l) AS e GROUP BY e.n, t",
        "SELECT YEAR(d) y, COUNT(*) FROM t GROUP BY z",
        r#"{"group_by":"c","metrics":[{"count":{"distinct":"y"}}]}"#,
    ] {
        assert!(run(text).is_err(), "{text}: {:?}", run(text));
    }
}

#[test]
fn totals_of_amounts_have_their_unit() {
    let json = br#"[{"d":"3.3 km","e":"5 km","a":"20 m","k":"x"},{"d":"1.2 km","e":"3 mi","a":"40 m","k":"x"}]"#;
    let records = RecordSet::locate(json, &EndpointSettings::default()).unwrap();
    let run = |text: &str| {
        let totals = Aggregates::parse(text)?.run(&records, &records.ids, 0)?;
        Ok::<String, String>(String::from_utf8(totals).unwrap())
    };
    for (text, expected) in [
        ("sum(d)", r#""sum(d)":4.5"#),
        ("sum(d)", "sum(d) is in km, the unit of the values at d"),
        ("avg(d) by k", r#"{"x":2.25}"#),
        ("percentile(a, 50)", r#""percentile(a, 50)":30"#),
        ("max(d)", r#""max(d)":"3.3 km""#),
        ("sum(a) / sum(d)", r#""sum(a) / sum(d)":13.3333"#),
        ("sum(a * 2)", r#""sum(a * 2)":120"#),
    ] {
        assert!(run(text).unwrap().contains(expected), "{text}: {:?}", run(text));
    }
    assert!(run("sum(e)").unwrap_err().contains("different units"));
    for text in ["sum(a) + sum(d)", "sum(a) - count(*)", "sum(a + d)"] {
        assert!(run(text).is_err(), "{text}: {:?}", run(text));
    }
}

#[test]
fn defaults_are_the_least_and_greatest_amounts() {
    let json = r#"[{"d":"146 km"},{"d":"1200 km"},{"d":null}]"#;
    let totals = totals_of(json, "min(coalesce(d, 0)), max(coalesce(d, 0))");
    assert!(totals.contains(r#""min(coalesce(d, 0))":0,"#), "{totals}");
    assert!(totals.contains(r#""max(coalesce(d, 0))":"1200 km""#), "{totals}");
    assert!(!totals.contains("left out"), "{totals}");
}
