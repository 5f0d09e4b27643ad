//! Tests of conditions.

mod languages;
mod spellings;
mod units;

use super::*;
use crate::policy::EndpointSettings;

fn select(json: &str, condition: &str) -> Result<(usize, String), String> {
    let settings = EndpointSettings::default();
    let records = RecordSet::locate(json.as_bytes(), &settings).unwrap();
    let selection = Condition::parse(condition)?.select(&records)?;
    Ok((selection.ids.len(), selection.description))
}

#[test]
fn comparisons_handle_numbers_and_text() {
    let json = r#"[{"status":"confirmed","price":{"total":99.5},"tags":["sea","dog"],"open":true,"score":NaN,"none":null}]"#;
    for (text, expected) in [
        ("status=confirmed", true),
        ("status!=confirmed", false),
        ("price.total<100", true),
        ("price.total>=99.50, open=true", true),
        ("tags=dog", true),
        ("tags~SE", true),
        ("score=NaN", true),
        ("score!=5", true),
        ("none=null", true),
        ("none!=null", false),
        ("none=1", false),
        ("none!=1", false),
    ] {
        assert_eq!(select(json, text).unwrap().0 == 1, expected, "{text}");
    }
}

#[test]
fn words_for_absence_and_days_are_read() {
    let json = r#"[{"s":"present","t":"2024-05-01T10:00:00Z"},{"s":"x","t":"2024-05-02T00:00:00Z","n":5},{"t":"2024-04-01","n":"n/a"}]"#;
    for (text, expected) in [
        ("s is missing", 1),
        ("n is present", 2),
        ("n is not a number", 1),
        ("t after 2024-05-01", 1),
        ("t is on or before 2024-05-01", 2),
        ("t:[2024-04-01 TO 2024-05-01]", 2),
        ("t is before '2024-05-01'", 1),
        ("$_.s -eq 'X'", 1),
        ("$_.s -like 'PRES*'", 1),
        ("split_part(t, '-', 2) = '05'", 2),
        ("split(t, '\\\\-')[0] = '2024'", 3),
    ] {
        assert_eq!(select(json, text).map(|found| found.0), Ok(expected), "{text}");
    }
    for text in ["s is present", "split(t, '[-T]')[0] = '2024'"] {
        assert!(select(json, text).is_err(), "{text}");
    }
}

#[test]
fn nested_functions_are_limited() {
    // Each level was read several times.
    let nested = format!("{}n{} > 1", "lower(abs(n)+".repeat(40), ")".repeat(40));
    assert!(select(r#"[{"n":1}]"#, &nested).is_err());
    assert!(select(r#"[{"n":1}]"#, "abs(n + 1) = 2").is_ok());
}

#[test]
fn records_without_a_comparable_value_are_reported() {
    let json = r#"[{"age":70},{"age":null},{"age":"old"},{},{"age":5}]"#;
    let (count, note) = select(json, "age>60").unwrap();
    assert_eq!(
        (count, note.as_str()),
        (1, "age > 60; 3 records have no number at age and were left out")
    );
    let (count, note) = select(json, "age=60 OR age>60").unwrap();
    assert_eq!(count, 1);
    assert!(note.contains("3 records have no number"), "{note}");
    assert!(!select(json, "age>60 AND age<80").unwrap().1.is_empty());
}

#[test]
fn texts_in_another_case_are_reported() {
    let json = r#"[{"a":"Main Street"},{"a":"mainstreet 5"},{"a":null}]"#;
    let (count, note) = select(json, "contains(a, 'Street')").unwrap();
    assert!(count == 2 && note.contains("write =~ 'Street'"), "{note}");
    assert!(!select(json, "a =~ 'Street'").unwrap().1.contains("another case"));
    assert!(!select(json, "a ~ street").unwrap().1.contains("another case"));
}

#[test]
fn empty_texts_are_not_null() {
    let json = r#"[{"a":"x"},{"a":null},{}]"#;
    assert!(select(json, "a = ''").unwrap_err().contains("2 have no value: write a IS NULL"));
    assert_eq!(select(json, "a = '' OR a IS NULL").unwrap().0, 2);
    assert_eq!(select(json, "a IS EMPTY").unwrap().0, 2);
    assert_eq!(select(json, "a != ''").unwrap().0, 1);
    assert_eq!(select(r#"[{"a":""},{"a":null}]"#, "a = ''").unwrap().0, 1);
}

#[test]
fn spellings_of_search_engines_are_read() {
    let json = r#"[{"k":"a b","n":1},{"k":"c","n":5},{"k":"d","n":9},{"k":null,"n":null}]"#;
    for (text, expected) in [
        ("k:(c OR d)", 2),
        ("k:(\"a b\" OR c)", 2),
        ("n:[1 TO 5]", 2),
        ("n:{1 TO 5]", 1),
        ("n:[5 TO *]", 2),
        ("n:[* TO *]", 3),
        ("-k:c", 2),
        ("n::int > 4", 2),
        ("CAST(n AS DECIMAL(5, 2)) > 4", 2),
        ("df[(df['k'] == 'c') & (df.n > 4)]", 1),
        ("{\"n\": {\"$gt\": 4}}", 2),
    ] {
        assert_eq!(select(json, text).unwrap().0, expected, "{text}");
    }
    assert_eq!(select(r#"[{"Mass (g)":5},{"Mass (g)":1}]"#, "Mass (g) > 2").unwrap().0, 1);
    for text in ["k:(c OR d", "n:[1 TO ]x", "n:[1 TO 5", "CAST(n AS blob) > 4", "-k = "] {
        assert!(select(json, text).is_err(), "{text}");
    }
}

#[test]
fn conditions_on_one_list_hold_for_one_element() {
    let json = r#"[{"c":[{"t":"Ready","s":"False"},{"t":"Disk","s":"True"}]},{"c":[{"t":"Ready","s":"True"},{"t":"Disk","s":"False"}]}]"#;
    assert_eq!(
        select(json, "c.t=Ready, c.s=False").unwrap(),
        (1, "any(c; t = 'Ready' AND s = False)".to_owned())
    );
    assert_eq!(select(json, "any(c; t=Ready, s=False)").unwrap().0, 1);
    // Two values of one field are of two elements.
    assert_eq!(select(json, "c.t=Ready AND c.t=Disk").unwrap().0, 2);
    assert_eq!(select(json, "c.t=Ready AND NOT c.t=Disk").unwrap().0, 0);
    assert!(
        select(json, "c.t=Ready, c.s=True, c.t=Disk, c.s=False").unwrap_err().contains("any(c;")
    );
}

#[test]
fn keys_may_contain_dots() {
    let json = r#"[{"labels":{"beta.kubernetes.io/os":"linux"}},{"labels":{}}]"#;
    for name in [
        "labels.beta.kubernetes.io/os",
        "labels.\"beta.kubernetes.io/os\"",
        "labels['beta.kubernetes.io/os']",
    ] {
        assert_eq!(select(json, &format!("{name}=linux")).unwrap().0, 1, "{name}");
    }
}

#[test]
fn invalid_conditions_show_the_syntax() {
    for text in ["status", "=x", "a ? b", "a=", "(a=1", "a=1)", "a=1 AND", "a=x=y"] {
        let reason = Condition::parse(text).unwrap_err();
        assert!(reason.contains("write "), "{text}: {reason}");
    }
}

#[test]
fn conditions_that_always_hold_are_skipped_before_an_order() {
    let json = r#"[{"a":1,"true":0},{"a":3,"true":0},{"a":2,"true":0}]"#;
    for text in ["true order by a desc limit 2", "1=1 order by a limit 2", "* limit 2"] {
        assert_eq!(select(json, text).unwrap().0, 2, "{text}");
    }
    assert_eq!(select(json, "true = 0 order by a").unwrap().0, 3);
    for text in ["true", "1=1", "1=2 order by a", "true OR a=1 order by a"] {
        assert!(select(json, text).is_err(), "{text}");
    }
}

#[test]
fn pipes_with_two_meanings_are_refused() {
    let json = r#"[{"a":"x","b":1},{"a":"y","b":5}]"#;
    for (text, expected) in [
        ("a = x | a = y", Some(2)),
        ("a == 'x' | b > 3", Some(2)),
        ("(a = 'x') | (b > 3)", Some(2)),
        ("a = 'x' | b > 3", None),
        ("a=\"x\" | b >= 1 | b < 3", None),
    ] {
        match (select(json, text), expected) {
            (Ok((count, _)), Some(expected)) => assert_eq!(count, expected, "{text}"),
            (Err(reason), None) => assert!(reason.contains("write OR, or AND"), "{reason}"),
            (other, _) => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn computed_values_are_numbers() {
    let json = r#"[{"a":"x-1","b":"2025-01-01","c":3},{"a":"y","b":"2025-01-01","c":4}]"#;
    assert!(select(json, "a - b > 3").unwrap_err().contains("is a number in no record"));
    assert_eq!(select(json, "c * 2 > 7").unwrap().0, 1);
}

#[test]
fn differences_of_dates_are_days() {
    let json = r#"[{"a":"2025-01-05","b":"2025-01-01","t":"2025-01-02T12:00:00Z","u":"2025-01-01T23:00:00Z"},{"a":"2025-03-01","b":"2025-02-01","t":null,"u":"2025-01-01T00:00:00Z"}]"#;
    for (text, expected) in [
        ("a - b > 4", 1),
        ("a - b >= 4", 2),
        ("DATEDIFF(a, b) = 28", 1),
        ("DATEDIFF('day', b, a) < 5", 1),
        ("TIMESTAMPDIFF(DAY, b, a) >= 28", 1),
        ("julianday(a) - julianday(b) = 4", 1),
        ("t - u > 0.5 AND t - u < 0.6", 1),
        ("DATEDIFF(t, u) = 1", 1),
    ] {
        let (count, note) = select(json, text).unwrap();
        assert_eq!(count, expected, "{text}");
        assert!(note.contains("days)"), "{note}");
    }
    assert!(select(json, "DATEDIFF(a) > 3").unwrap_err().contains("number of days"));
    let json = r#"[{"a":"12/26/2023","b":"12/25/2023"},{"a":"03/05/2024","b":"03/04/2024"}]"#;
    for text in
        ["DATEDIFF(a, b) = 1", "a - b = 1", "DATE_DIFF(a, b, DAY) = 1", "date(a) - date(b) = 1"]
    {
        assert_eq!(select(json, text).unwrap().0, 2, "{text}");
    }
    for text in [
        "month(a) - month(b) = 0",
        "DATEDIFF(decade, a, b) = 1",
        // DAX subtracts the first date, and BigQuery the second.
        "DATEDIFF(a, b, DAY) = 1",
    ] {
        assert!(select(json, text).is_err(), "{text}");
    }
}

#[test]
fn null_is_a_value_for_distinct_from() {
    let json = r#"[{"a":"x"},{"a":"y"},{"a":null}]"#;
    for (text, expected) in [
        ("a IS DISTINCT FROM 'x'", 2),
        ("a IS NOT DISTINCT FROM 'x'", 1),
        ("a IS DISTINCT FROM null", 2),
        ("a IS NOT DISTINCT FROM null", 1),
        ("a != 'x'", 1),
    ] {
        assert!(select(json, "a IS DISTINCT FROM b").unwrap_err().contains("texts in quotes"));
        assert_eq!(select(json, text).unwrap().0, expected, "{text}");
    }
}

#[test]
fn brackets_of_other_syntax_remain() {
    let json = r#"[{"code":"AB","status":"open"},{"code":"a1","status":"done"}]"#;
    for (text, expected) in [
        ("NOT (code =~ /^[A-Z]{2}$/)", 1),
        ("NOT (status IN [open, closed])", 1),
        ("NOT (code =~ '^[A-Z]')", 1),
    ] {
        assert_eq!(select(json, text).unwrap().0, expected, "{text}");
    }
}

#[test]
fn elements_have_their_units() {
    let json = r##"[{"p":{"@currency":"EUR","#text":5},"q":{"@id":1,"#text":7}},{"p":{"@currency":"EUR","#text":9},"q":{"@id":2,"#text":8}}]"##;
    assert_eq!(select(json, "p > 6").unwrap().0, 1);
    assert_eq!(select(json, "q > 7").unwrap().0, 1);
}

#[test]
fn formulas_are_conditions() {
    let json = r#"[{"Length (m)":5,"a":"x","not-found":1},{"Length (m)":1,"a":"y","not-found":0}]"#;
    for text in [
        "=AND([Length (m)]>2, OR(a=\"x\", a=\"z\"))",
        "AND(a = 'x', NOT([Length (m)] < 2))",
        "not-found = 1",
        "array_length(a, 1) = 1 AND a = 'x'",
    ] {
        assert_eq!(select(json, text).unwrap().0, 1, "{text}");
    }
}
