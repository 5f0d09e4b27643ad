//! Tests of lists, lengths and quoted texts as other languages write them.

use super::*;

#[test]
fn elements_of_arrays_are_found() {
    let json = r#"[{"t":["a","b"],"k":"x","n":[1,9]},{"t":["ab"],"k":"y","n":[2]},{"t":[],"k":"z","n":[]}]"#;
    for (text, expected) in [
        ("t @> ARRAY['a']", 1),
        ("t @> ARRAY['a', 'ab']", 0),
        (r#"t @> '["a","b"]'::jsonb"#, 1),
        ("t @> '{a,b}'", 1),
        ("NOT t @> ARRAY['a']", 2),
        ("t && ARRAY['a','ab'] AND k = 'y'", 1),
        ("t && ARRAY['a','ab'] && k = 'y'", 1),
        ("'a' = ANY(t)", 1),
        ("NOT ('a' = ANY (t))", 2),
        ("'a' <> ALL(t)", 2),
        ("5 < ANY(n)", 1),
        ("2 = SOME(n)", 1),
        ("'ab' MEMBER OF(t)", 1),
        ("k = ANY(ARRAY['x','y'])", 2),
        ("k = ANY('{x,z}'::text[])", 2),
        ("k <> ALL(ARRAY['x','y'])", 1),
        ("array_contains(t, 'a')", 1),
        ("has(t, 'a')", 1),
        (r#"JSON_CONTAINS(t, '"ab"')"#, 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    for text in ["'a' = ALL(t)", r#"t @> '{"a":1}'"#, "t @> 'a'", "k = ANY(other)"] {
        assert!(select(json, text).is_err(), "{text}");
    }
}

#[test]
fn lengths_are_members_of_lists_and_texts() {
    let json =
        r#"[{"t":["a","b"],"s":"abc","o":{"x":1},"n":5},{"t":[],"s":"a","o":{"x":2},"n":7}]"#;
    for (text, expected) in [
        ("t.length > 1", 1),
        ("r => r.t.length === 0", 1),
        ("t.Count == 2 && s.Length > 1", 1),
        ("t.size = 2", 1),
        ("s.len > 1", 1),
        ("count(t) = 2", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    assert_eq!(select(json, "t.length > 1").unwrap().1, "length(t) > 1");
    // An object may have such a member elsewhere, and a text has no count.
    for text in ["o.size > 0", "o.length > 0", "n.length > 0", "s.count > 1", "count(s) = 1"] {
        assert!(select(json, text).is_err(), "{text}");
    }
    let field = r#"[{"t":{"length":9}},{"t":["a"]}]"#;
    assert_eq!(select(field, "t.length = 9").unwrap().0, 1);
    // Converters write a list of one element as the element.
    let single = r#"[{"t":{"x":1,"y":2}},{"t":[{"x":1},{"x":2}]},{"t":"abc"}]"#;
    let (count, note) = select(single, "length(t) = 1").unwrap();
    assert!(count == 2 && note.contains("counts as one element"), "{note}");
}

#[test]
fn quoted_texts_have_prefixes() {
    let json = r#"[{"c":"Bern","p":"C:\\new"},{"c":"Rome","p":"x"}]"#;
    for (text, expected) in [
        ("c == b'Bern'", 1),
        ("c = N'Bern'", 1),
        ("c in [u'Bern', f'Rome']", 2),
        (r"c =~ r'^B\w+n$'", 1),
        (r"p == r'C:\new'", 1),
        ("df['c'].str.contains(r'^R|^B')", 2),
        ("df['c'].str.contains('^b', case=False, na=False)", 1),
        ("df['c'].str.contains('.', regex=False)", 0),
        ("re.search(r'^b', c, re.I)", 1),
        ("df['c'].str.lower() == 'bern'", 1),
        ("df['c'].str.len() > 4", 0),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    for text in ["c == f'{x}'", "c.str.contains('x', flags=0)"] {
        assert!(select(json, text).is_err(), "{text}");
    }
}

#[test]
fn dates_have_types_and_formats() {
    let json = r#"[{"d":"2024-05-13"},{"d":"2024-06-02"}]"#;
    for (text, expected) in [
        ("d >= DATE '2024-06-01'", 1),
        ("d >= date('2024-06-01') AND d < to_date('2024-07-01')", 1),
        ("d < '2024-06-01'::date", 1),
        ("r => r.d > new Date('2024-06-01')", 1),
        ("to_char(d, 'YYYY-MM') = '2024-05'", 1),
        ("DATE_FORMAT(d, '%Y-%m') = '2024-05'", 1),
        ("DAYNAME(d) = 'Monday'", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    for text in ["d > NOW() - INTERVAL '7 days'", "d + INTERVAL 1 DAY > '2024-05-01'", "d > now()"]
    {
        let refused = select(json, text).unwrap_err();
        assert!(refused.contains("there is no clock here"), "{text}: {refused}");
    }
    assert!(select(json, "to_char(d, 'day') = 'monday'").is_err());
}

#[test]
fn presence_of_null_is_stated_beside_absence() {
    let json = r#"[{"a":1,"n":"x"},{"a":null,"n":null},{"a":3}]"#;
    for (text, expected) in
        [("has(n)", 1), ("exists(n)", 1), ("n EXISTS", 1), ("EXISTS n", 1), ("NOT has(n)", 2)]
    {
        let (count, note) = select(json, text).unwrap();
        assert!(count == expected && note.contains("null or empty in 1 records"), "{text}: {note}");
    }
    // The field is there in all records, or has a value wherever it is.
    for (json, text) in [(json, "exists(a)"), (r#"[{"n":1},{}]"#, "has(n)"), (json, "n IS NULL")] {
        assert!(!select(json, text).unwrap().1.contains("null or empty"), "{text}");
    }
}

#[test]
fn is_with_a_value_is_never_unknown() {
    let json = r#"[{"f":true},{"f":false},{"f":null},{}]"#;
    for (text, expected) in [
        ("f IS TRUE", 1),
        ("f IS NOT TRUE", 3),
        ("NOT f IS TRUE", 3),
        ("NOT (f IS FALSE)", 3),
        ("f != true", 1),
        ("NOT f = true", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    let note = select(json, "f IS NOT TRUE").unwrap().1;
    assert!(note.contains("IS NOT includes 2 without a value at f"), "{note}");
}

#[test]
fn equal_times_have_several_forms() {
    let json = r#"[{"t":"2024-05-01T10:00:00Z","d":"2024-05-01"},{"t":"2024-05-01T00:00:00Z","d":"2024-05-12"}]"#;
    for (text, expected) in [
        ("t = '2024-05-01 10:00:00'", 1),
        ("t = '2024-05-01T12:00:00+02:00'", 1),
        ("t != '2024-05-01 10:00:00'", 1),
        ("d = '2024-5-12'", 1),
        ("d = '2024-05-12'", 1),
        ("d = '2024-05-13'", 0),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    // A day is no time of that day.
    assert!(select(json, "t = '2024-05-01'").unwrap_err().contains("date(t)"));
}

#[test]
fn ties_at_the_end_of_a_page_are_stated() {
    let json = r#"[{"a":1},{"a":3},{"a":3},{"a":3},{"a":2}]"#;
    for (text, more) in [
        ("order by a desc limit 2", "1 more are equal"),
        ("order by a desc limit 1 offset 1", "1 more are equal"),
        ("order by a limit 3", "2 more are equal"),
    ] {
        assert!(select(json, text).unwrap().1.contains(more), "{text}");
    }
    for text in ["order by a desc limit 3", "order by a limit 1", "order by a", "a > 1 limit 1"] {
        assert!(!select(json, text).unwrap().1.contains("equal to the last"), "{text}");
    }
}

#[test]
fn totals_of_lists_are_compared() {
    let json = r#"[{"i":1,"l":[{"p":5},{"p":9}],"s":[1,2],"n":3,"t":["a"]},{"i":2,"l":[],"s":[7],"n":4,"t":[]},
        {"i":3,"n":4},{"i":4,"l":[{"p":1},{"p":null}],"s":[],"n":5,"t":[]}]"#;
    for (text, expected) in [
        ("sum(l.p) > 10", 1),
        ("sum(l.p) = 0", 1),
        ("max(l.p) >= 5 AND i = 1", 1),
        ("min(s) < 2", 1),
        ("avg(s) = 1.5", 1),
        ("sum(x.p for x in l) > 10", 1),
        ("max(s) > n", 1),
        ("sum(l.p) + n > 10", 1),
        ("r => sum(r.s) > 2", 2),
        ("NOT max(s) > 2", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    assert_eq!(select(json, "i > 0 order by max(s) desc limit 1").unwrap().0, 1);
    for text in ["max(n) > 2", "sum(t) > 1", "sum(l) > 1"] {
        assert!(select(json, text).is_err(), "{text}");
    }
}

#[test]
fn null_is_replaced_in_computations() {
    let json = r#"[{"a":1,"b":null,"s":""},{"a":2,"b":9,"s":"x"},{"a":3,"s":null}]"#;
    for (text, expected) in [
        ("a + COALESCE(b, 0) > 2", 2),
        ("COALESCE(b, 5) + a >= 8", 2),
        ("NULLIF(s, '') IS NULL", 2),
        ("NULLIF(a, 1) > 0", 2),
        ("a > 0 order by coalesce(b, 0) desc", 3),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
}

#[test]
fn fields_in_braces_are_read() {
    let json = r#"[{"a":1,"b":2,"Full Name":"x","c":"abc"},{"a":3,"b":2,"Full Name":"y"}]"#;
    for (text, expected) in [
        ("{a} = 1", 1),
        ("{Full Name} = 'x'", 1),
        ("{a} > {b}", 1),
        ("{a} = {b}", 0),
        ("AND({a}=1, {b}>1, NOT({Full Name}='y'))", 1),
        ("OR({a}=1, {Full Name}='y')", 2),
        ("LEN({c}) > 2", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
}

#[test]
fn values_that_never_match_are_refused() {
    let json = r#"[{"c":"007","s":"x"},{"c":"012","s":"y"}]"#;
    assert!(select(json, "s = BLANK()").unwrap_err().contains("s IS NULL for absent values"));
    assert!(select(json, "c = 7").unwrap_err().contains("write c = '007'"));
    assert_eq!(select(json, "c = '007'").unwrap().0, 1);
}

#[test]
fn totals_of_several_fields_are_of_the_whole_list() {
    let json = r#"[{"i":1,"l":[{"b":90,"p":30},{"b":80,"p":20}]},{"i":2,"l":[{"b":101,"p":1}]}]"#;
    for (text, expected) in [
        ("sum(l.b) - sum(l.p) > 110", 1),
        ("sum(l.p) / sum(l.b) < 0.1", 1),
        ("max(l.b) - min(l.p) = 70", 1),
        ("sum(l.b) / length(l) > 90", 1),
        ("l.b > max(l.p) * 2 AND l.p = 30", 1),
        ("l.b >= min(l.b) + 5 AND l.p = 20", 1),
        // Other comparisons are of fields of one element.
        ("l.b - l.p > 99", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    let texts = r#"[{"l":[{"a":"xxxx","b":"x"},{"a":"x","b":"xx"}]},{"l":[{"a":"x","b":"x"}]}]"#;
    assert_eq!(select(texts, "length(l.a) - length(l.b) > 2").unwrap().0, 1);
}

#[test]
fn totals_of_lists_are_exact() {
    let json = r#"[{"i":[1700000000123457],"f":[0.1,0.2]},{"i":[1,1700000000123458],"f":[1]}]"#;
    for (text, expected) in [
        ("max(i) = 1700000000123457", 1),
        ("min(i) = 1700000000123457", 1),
        ("max(i) > 1700000000123458", 0),
        ("sum(i) = 1700000000123459", 1),
        ("avg(i) = 1700000000123457", 1),
        ("sum(f) = 0.3", 1),
        ("max(f) = 0.2", 1),
        ("avg(f) = 0.15", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
}

#[test]
fn tests_for_null_have_no_note_on_null() {
    let json = r#"[{"t":1},{"t":null}]"#;
    for text in [
        "t IS NOT NULL",
        "NOT t IS NULL",
        r#"{"t": {"$ne": null}}"#,
        r#"{"t": {"is_null": false}}"#,
    ] {
        let (count, note) = select(json, text).unwrap();
        assert!(count == 1 && !note.contains("IS NOT includes"), "{text}: {note}");
    }
}

#[test]
fn months_are_no_days() {
    let json = r#"[{"d":"2024-05-01","m":"2024-05"},{"d":"2024-05-12","m":"2024-06"}]"#;
    for text in ["d = '2024-05'", "d != '2024-05'"] {
        assert!(select(json, text).unwrap_err().contains("date(d)"), "{text}");
    }
    assert_eq!(select(json, "m = '2024/05'").unwrap().0, 1);
}

#[test]
fn fields_of_some_elements_are_compared() {
    let json = r#"[{"l":[{"a":2,"b":1}]},{"x":1}]"#;
    for (text, expected) in [("any(l; a > b)", 1), ("l.a > l.b", 1), ("l.a < l.b", 0)] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    let never = r#"[{"l":[{"a":"x","b":1}]},{"l":[{"a":"y","b":2}]}]"#;
    assert!(select(never, "any(l; a > b)").unwrap_err().contains("no record has values"));
}

#[test]
fn objects_beside_empty_lists_have_members() {
    let json = r#"[{"m":{"a":1,"b":2,"c":3},"t":"x"},{"m":[],"t":["x","y"]},{"m":{},"t":"abc"}]"#;
    for (text, expected) in [
        ("length(m) > 2", 1),
        ("m IS EMPTY", 2),
        ("m = {}", 2),
        // A single value beside lists of its kind is a list of one element.
        ("length(t) = 1", 2),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    let lists = r#"[{"m":{"a":1,"b":2}},{"m":[{"a":1},{"a":2},{"a":3}]},{"m":{}}]"#;
    for (text, expected) in [("length(m) = 1", 1), ("length(m) = 3", 1), ("m IS EMPTY", 1)] {
        assert_eq!(select(lists, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
}

#[test]
fn texts_have_no_size() {
    let json = r#"[{"file":"a/b.txt","l":[1,2]},{"file":"c.txt","l":[]}]"#;
    assert!(select(json, "file.size > 6").is_err());
    assert_eq!(select(json, "file.length > 6").unwrap().0, 1);
    assert_eq!(select(json, "l.size > 1").unwrap().0, 1);
}

#[test]
fn commas_in_quotes_separate_no_elements() {
    let json = r#"[{"t":["Rome, IT","x"]},{"t":["x"]}]"#;
    assert!(select(json, r#"t && '{"Rome, IT",x}'"#).is_err());
    assert_eq!(select(json, r#"t @> '{"x"}'"#).unwrap().0, 2);
}

#[test]
fn programs_of_jq_are_refused_with_the_argument_for_them() {
    for text in [
        "any(.a[]; .b | endswith(\"x\")) and .c == \"y\"",
        "(.a // 0) > 5 and (.b | test(\"x\")) or",
    ] {
        let error = Condition::parse(text).unwrap_err();
        assert!(error.contains("jq: .items[] | select("), "{error}");
    }
    let error = Condition::parse("a = 'x | test(y)' and").unwrap_err();
    assert!(!error.contains("program of jq"), "{error}");
}
