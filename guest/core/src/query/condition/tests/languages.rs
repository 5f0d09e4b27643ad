//! Tests of conditions in the syntax of other languages.

use super::*;

#[test]
fn membership_and_quantifiers_of_other_languages() {
    let json = r#"[{"s":"a","t":[71,80],"x":[{"a":1,"b":3},{"a":2,"b":1}],"n":["p","q"]},
        {"s":"b","t":[60,80],"x":[{"a":1,"b":1},{"a":2,"b":9}],"n":["r"]},
        {"s":"c","t":[],"x":[],"n":[]}]"#;
    for (text, expected) in [
        ("['a','b'].includes(s)", 2),
        ("!['a','b'].includes(s)", 1),
        ("['a'].include?(s)", 1),
        ("n.includes('p')", 1),
        ("s.includes('a')", 1),
        ("t.includes(80) && s == 'a'", 1),
        ("t.every(v => v > 70)", 2),
        ("t.some(v => v < 70)", 1),
        ("all(v > 70 for v in t)", 2),
        ("any([v < 70 for v in t])", 1),
        ("x.some(e => e.a === 1 && e.b > 2)", 1),
        ("any(e['a'] == 1 and e['b'] > 2 for e in r['x'])", 1),
        ("x.any? { |e| e[:a] == 1 && e[:b] > 2 } && s == 'a'", 1),
        ("n.some(v => v.startsWith('p'))", 1),
        ("n.any? { |v| v.start_with?('p') }", 1),
        (r#"[{"field":"n","op":"contains","value":"p"}]"#, 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    for text in [
        // An element of objects is no value, and has no text.
        "x.some(e => e > 5)",
        "x.some(e => e.startsWith('a'))",
        "t.every(v => w > 70)",
        "['a', s].includes('a')",
        "all(v > 70 for v in t if v)",
    ] {
        assert!(select(json, text).is_err(), "{text}");
    }
    // A part of an element is no element.
    let json = r#"[{"n":["pool","sea"],"s":"pool"},{"n":["poolside"],"s":"poolside"}]"#;
    assert_eq!(select(json, "n.includes('pool')").unwrap().0, 1);
    assert_eq!(select(json, "s.includes('pool')").unwrap().0, 2);
    assert_eq!(select(json, "n ~ 'pool'").unwrap().0, 2);
    // A list of one key is the name of a field.
    let json = r#"[{"n":["p","q"]},{"n":["r"]}]"#;
    assert_eq!(select(json, "['n'].includes('p')").unwrap().0, 1);
}

#[test]
fn functions_of_elements_read_no_other_variables() {
    let json = r#"[{"id":1,"seller":"A","l":[{"buyer":"A","seller":"B","n":1,"m":2,"q":[{"z":1}]}]},
        {"id":2,"seller":"A","l":[{"buyer":"C","n":3,"m":3,"q":[]}]}]"#;
    for (text, expected) in [
        ("o => o.l.some(l => l.buyer == 'C')", 1),
        ("l.some(x => x.buyer != x.seller)", 1),
        ("any(x['n'] == x['m'] for x in o['l'])", 1),
        ("l.some(x => x.n < x.m && x.q.some(y => y.z == 1))", 1),
        ("o => o.l.some(x => x.q.every(y => y.z > 0)) && o.id > 1", 1),
        ("l.some(x => x.m - x.n > 0)", 1),
        ("l.some(x => ['A', 'B'].includes(x.buyer))", 1),
        ("l.some(x => x.seller == null)", 1),
        ("any(x.seller is None for x in l)", 1),
        ("l.some(x => x.seller !== undefined)", 1),
        ("l.some(x => x.buyer.toLowerCase() === 'c')", 1),
        ("l.any? { |x| x[:buyer] == 'C' }", 1),
        ("any(l; buyer = C)", 1),
        ("any(l; x.buyer = 'C')", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    for text in [
        "o => o.l.some(l => l.buyer != o.seller)",
        "order => order.l.every(x => order.seller == x.buyer)",
        "any(x.buyer != o.seller for x in o.l)",
        "any(x['buyer'] != row['seller'] for x in row['l'])",
        "[o for o in rows if any(x.buyer == o.seller for x in o.l)]",
        "l.some(x => x.buyer != seller)",
        "l.some(x => seller != x.buyer)",
        "l.some(x => x.buyer in [o.seller, 'C'])",
        "l.some(x => x.buyer.startsWith(o.seller))",
        "l.some(x => x.q.some(y => y.z == x.n))",
        "l.any? { |x| x[:buyer] != r[:seller] }",
        "any(l, x -> x.buyer <> o.seller)",
        "o => any(o.l, x -> x.buyer <> o.seller)",
        "l.some(x => x.buyer in [x.seller, 'C'])",
        "l.some(x => x.buyer.startsWith(x.seller))",
        "l.some(x => x.buyer == x.seller ? x.n : x.m)",
        "any(l; buyer != row.seller)",
        "any(l; buyer != $.seller)",
        "l[?buyer != $.seller]",
    ] {
        let refused = select(json, text).unwrap_err();
        assert!(refused.contains(". as $r"), "{text}: {refused}");
    }
    for text in ["l.some(x => x.n * o.id > 2)", "l.some(x => o.id + x.n > 2)"] {
        assert!(select(json, text).is_err(), "{text}");
    }
}

#[test]
fn elements_have_the_name_of_their_list() {
    let json = r#"[{"zone":"a","records":[{"type":"A"}]},{"zone":"b","records":[{"type":"B"}]}]"#;
    let selected = select(json, "any(records; record.type = 'A')");
    assert_eq!(selected.map(|(count, _)| count), Ok(1));
}

#[test]
fn elements_of_lists_are_no_parts_of_texts() {
    let json = r#"[{"id":1,"t":["bugfix"],"l":[{"n":"bugfix"}],"m":"bug x","e":["a","b"]},
        {"id":2,"t":["bug"],"l":[{"n":"bug"}],"m":["bug"],"e":["a"]}]"#;
    for (text, expected) in [
        ("contains(t, 'bug')", 1),
        ("contains(l[*].n, 'bug')", 1),
        ("l.n contains 'bug'", 2),
        ("t ~ 'bug'", 2),
        ("t *= 'bug'", 2),
        ("e contains 'b'", 1),
        ("e contains a", 2),
        ("m = 'bug'", 1),
        ("m ~ 'bug'", 2),
        // A list of one element may be the element.
        ("contains(m, 'bug x')", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    for text in [
        "m.includes('bug')",
        "contains(m, 'bug')",
        "'bug' in m",
        "t contains bug",
        "t__contains='bug'",
        r#"{"t":{"$contains":"bug"}}"#,
        "not t contains 'bug'",
    ] {
        let refused = select(json, text).unwrap_err();
        assert!(refused.contains("~ 'bug' for a part"), "{text}: {refused}");
    }
}

#[test]
fn empty_lists_have_no_elements() {
    let json = r#"[{"t":["","x"],"n":5},{"t":[],"n":null},{"t":[null,"y"],"n":0},{"t":["z"],"n":{}},
        {"t":null,"n":""},{"n":false},{"t":"","n":"x"}]"#;
    for (text, expected) in [
        ("t.empty?", 4),
        ("isempty(t)", 4),
        ("t IS EMPTY", 4),
        ("isnotempty(t)", 3),
        ("t is not empty", 3),
        ("isempty(n)", 3),
        // An element that is null is no null.
        ("t IS NULL", 2),
        ("t.nil?", 2),
        ("t = null", 2),
        ("exists(t)", 5),
        ("t IS NOT NULL", 5),
        ("isnotempty(n)", 4),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
}

#[test]
fn rows_have_variables() {
    let json = r#"[{"City":"Rome","Energy class":"A","m":{"title":"x","due":null},"p":5,"f":true,"y":"no","l":[1]},
        {"City":"Oslo","Energy class":"","m":null,"p":9,"f":false,"y":"yes","l":[]},
        {"City":"Oslo","m":{"title":"y","due":"2020"},"p":0,"f":true,"y":"no","l":[]}]"#;
    for (text, expected) in [
        ("not r['Energy class'] and r['City'] == 'Oslo'", 2),
        ("i['m'] && i['m']['title'] == 'x' && i['m']['due'].nil?", 1),
        ("r.get('City') == 'Oslo' and r.f", 1),
        ("m?.title == 'y' && m?.due >= 2020", 1),
        ("m&.title.start_with?('x')", 1),
        ("City.lower().startswith('os')", 2),
        ("City.include?('sl')", 2),
        ("isnotempty(['Energy class'])", 1),
        ("isempty(['Energy class'])", 2),
        ("isnotempty(p)", 3),
        ("strlen(City) == 4 and tolower(City) == 'rome'", 1),
        ("f && p > 1", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    for text in ["not r['p']", "not y", "not l", "City.nil?.x", "q.include?('x')", "City.include?"]
    {
        assert!(select(json, text).is_err(), "{text}");
    }
    // Languages differ in the meaning of an object without members.
    let objects = r#"[{"id":1,"m":{}},{"id":2,"m":{"a":1}},{"id":3}]"#;
    assert!(select(objects, "id > 0 and row['m']").is_err());
    assert!(select(objects, "not row['m']").is_err());
    let (_, note) = select(json, "not r['Energy class']").unwrap();
    assert!(note.contains("\"Energy class\" IS EMPTY"), "{note}");
}

#[test]
fn comparisons_have_two_bounds() {
    let json = r#"[{"x":10,"d":"1950-01-01","a b":3},{"x":19.5,"d":"1955-12-31","a b":5},{"x":20,"d":"1960-05-05","a b":9}]"#;
    for (text, expected) in [
        ("10 <= x < 20", 2),
        ("20 > x > 10", 1),
        ("1950-01-01 <= d <= 1955-12-31", 2),
        ("'1951-01-01' <= d <= '1955-12-31'", 1),
        ("1951-01-01 < d", 2),
        ("1 <= month(d) <= 5", 2),
        ("0 < x - 10 < 10 and x > 1", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    for text in [
        "10 <= x != 20",
        "'zz' < d",
        "10 <= x < y < 20",
        "1950-01-01 <= q <= 1955-12-31",
        "1 <= x <= null",
    ] {
        assert!(select(json, text).is_err(), "{text}");
    }
    // A field may have a number as its name.
    let years = r#"[{"2019":5,"total":7},{"2019":9,"total":8}]"#;
    for (text, correction, expected) in [
        ("2019 < total", "\"2019\" < total", 1),
        ("2019 < total", "total > 2019", 0),
        ("2019 = total", "total = 2019", 0),
    ] {
        let refused = select(years, text).unwrap_err();
        assert!(refused.contains("the name of a field"), "{refused}");
        assert_eq!(select(years, correction).map(|(count, _)| count), Ok(expected), "{correction}");
    }
    assert_eq!(select(years, "6 < total").unwrap().0, 2);
}

#[test]
fn null_is_no_bound() {
    let json = r#"[{"n":"ash"},{"n":"oak"},{"n":null}]"#;
    for (text, hint, expected) in [
        ("n BETWEEN null AND 'm'", "n <= 'm'", 1),
        ("n BETWEEN 'm' AND null", "n >= 'm'", 1),
        ("n NOT BETWEEN null AND 'm'", "n <= 'm'", 1),
        ("n.between(null, 'm')", "n <= 'm'", 1),
        (r#"{"n__range":[null,"m"]}"#, "n <= 'm'", 1),
        (r#"{"field":"n","op":"between","value":["m",null]}"#, "n >= 'm'", 1),
        ("n BETWEEN null AND null", "n IS NOT NULL", 2),
    ] {
        let refused = select(json, text).unwrap_err();
        assert!(refused.contains(&format!("write {hint}")), "{text}: {refused}");
        assert_eq!(select(json, hint).map(|(count, _)| count), Ok(expected), "{hint}");
    }
    assert_eq!(select(json, "n BETWEEN 'null' AND 'oak'").unwrap().0, 1);
}

#[test]
fn separators_of_other_languages_are_paths() {
    let json = r#"[{"c":{"a":5,"u":"x"},"o":{"@t":"G"},"p":8,"q":2},{"c":{"a":7,"u":"y"},"o":{"@t":"H"},"p":9,"q":3}]"#;
    for (text, expected) in [
        ("c__a__gt=5, c__u='y'", 1),
        ("c__a > 5", 1),
        ("o/@t = 'G'", 1),
        ("o/@t in ('G', 'H')", 2),
        ("c/a >= 7", 1),
        ("p / q = 4", 1),
        (r#"{"c__a__gte": 5, "c__u": "x"}"#, 1),
        (r#"[{"field":"c.u","op":"eq","value":"y"},{"field":"p","op":"gt","value":8}]"#, 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    for text in ["p/q = 4", "c__z > 5", "o/@x = 'G'", "c__ > 5"] {
        assert!(select(json, text).is_err(), "{text}");
    }
    // A field of the name takes precedence.
    let json = r#"[{"c__a":1,"c":{"a":5},"o/t":1,"o":{"t":9}}]"#;
    assert_eq!(select(json, "c__a = 1 and o/t = 1").unwrap().0, 1);
}

#[test]
fn differences_of_dates_have_units() {
    let json = r#"[{"a":"2024-05-01T00:30:00Z","b":"2024-05-01T02:00:00Z"},
        {"a":"2024-05-01T23:59:30Z","b":"2024-05-02T00:00:10Z"},
        {"a":"2024-05-03T00:00:00Z","b":"2024-05-01T00:00:00Z"}]"#;
    for (text, expected) in [
        ("TIMESTAMPDIFF(MINUTE, a, b) = 90", 1),
        ("TIMESTAMPDIFF(MINUTE, a, b) = 0", 1),
        ("TIMESTAMPDIFF(HOUR, a, b) < 0", 1),
        ("TIMESTAMPDIFF(HOUR, a, b) = 1", 1),
        ("timestamp_diff(b, a, second) = 40", 1),
        ("TIMESTAMPDIFF(DAY, a, b) = 0", 2),
        ("DATEDIFF(day, a, b) = 1", 1),
        ("DATETIME_DIFF(b, a, DAY) = 1", 1),
        ("datetime_diff('hour', b, a) = 2", 1),
        ("TIMESTAMP_DIFF(b, a, DAY) = 0", 2),
        // A unit that begins between the dates.
        ("DATEDIFF('hour', a, b) = 1", 1),
        ("DATEDIFF('hour', a, b) = 2", 1),
        ("date_diff('hour', a, b) = 1", 1),
        ("date_diff('minute', a, b) / 60 > 1", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    let named = r#"[{"s":"2024-05-05","h":"2024-05-01"}]"#;
    assert_eq!(select(named, "DATEDIFF(s, h) = 4").unwrap().0, 1);
    let (_, note) = select(json, "TIMESTAMPDIFF(HOUR, a, b) > 0").unwrap();
    assert!(note.contains("(complete hours)"), "{note}");
    let (_, note) = select(json, "DATEDIFF('hour', a, b) > 0").unwrap();
    assert!(note.contains("(hours that begin between the dates)"), "{note}");
    for text in [
        "TIMESTAMPDIFF(MONTH, a, b) > 1",
        "DATEDIFF(a, b, HOUR) > 1",
        "TIMESTAMPDIFF(MINUTE, a) > 1",
    ] {
        assert!(select(json, text).is_err(), "{text}");
    }
}

#[test]
fn texts_are_joined() {
    let json = r#"[{"First Name":"Ann","l":"Lee","n":5},{"First Name":"Bob","l":"Lee","n":6},{"First Name":"Cy","l":null,"n":7}]"#;
    for (text, expected) in [
        ("[First Name] + ' ' + l = 'Ann Lee'", 1),
        ("'First Name' + ' ' + 'l' IN ('Ann Lee', 'Bob Lee')", 2),
        ("CONCAT(\"First Name\", ' ', l) = 'Bob Lee'", 1),
        ("concat_ws(' ', `First Name`, l) LIKE '%Lee'", 2),
        ("n = 5 AND l || ', ' || [First Name] = 'Lee, Ann'", 1),
        ("l || '-' || n = 'Lee-6' OR n = 7", 2),
        ("lower(l) || ' x' = 'lee x'", 2),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    for text in [
        "n + n + ' ' = '10 '",
        // `||` is OR in other languages.
        "l || n = 'Lee5'",
        "[First Name] + l = 'AnnLee'",
        "q || ' ' || l = 'x'",
        "CONCAT('a', 'b') = 'ab'",
        "'a' + ' ' + 'b' = 'a b'",
    ] {
        assert!(select(json, text).is_err(), "{text}: {:?}", select(json, text));
    }
    assert_eq!(select(json, "n + 1 = 6").unwrap().0, 1);
    assert_eq!(select(json, "n = 5 || n = 6").unwrap().0, 2);
}

#[test]
fn texts_of_null_parts() {
    let json = r#"[{"f":"Ann","m":null,"l":"Lee","t":["a"]},{"f":"Bob","m":"X","l":"Yu","t":[]},{"f":"","m":"B","l":null}]"#;
    for (text, expected) in [
        ("concat_ws(' ', f, m, l) = 'Ann Lee'", 1),
        ("concat_ws(' ', f, m, l) = 'Bob X Yu'", 1),
        // An empty text is a part, and null is none.
        ("concat_ws('-', f, m, l) = '-B'", 1),
        ("concat(f, m, l) = 'BobXYu'", 1),
        ("f || ' ' || m = 'Bob X'", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    let note = |text| select(json, text).unwrap().1;
    assert!(note("concat(f, ' ', m) = 'Bob X'").contains("leaves nulls out"));
    assert!(!note("concat(f, 'x') = 'Bobx'").contains("leaves nulls out"));
    assert!(select(json, "concat_ws(f, m, l) = 'x'").is_err());
}

#[test]
fn joined_texts_with_two_meanings_are_refused() {
    let json = r#"[{"open":true,"city":"Oslo","code":"A","size":"M","joined":"A-M"},
        {"open":false,"city":"Rome","code":"B","size":"L","joined":"x"}]"#;
    for text in [
        "open || 'Rome' == city",
        "open || 'Rome' === city",
        "open || 'Rome' != city",
        "open || 'Rome' < city",
        "open || 'a' || 'Rome' == city",
    ] {
        let refused = select(json, text).unwrap_err();
        assert!(refused.contains("|| is OR in some languages"), "{text}: {refused}");
    }
    for text in [
        "code + '-' + 'size' == 'A-size'",
        "code + '-' + \"size\" == 'A-size'",
        "concat(code, '-', \"size\") = 'A-M'",
    ] {
        let refused = select(json, text).unwrap_err();
        assert!(refused.contains("write [size]"), "{text}: {refused}");
    }
    for (text, expected) in [
        ("open = true OR city = 'Rome'", 2),
        ("code || '-' || size = joined", 1),
        ("code || '-' || size == 'A-M'", 1),
        ("concat(code, '-', size) = joined", 1),
        ("code + '-' + [size] == 'A-M'", 1),
        ("concat(code, '-', 'size') = 'A-size'", 1),
        ("'code' + '-' + 'size' == 'A-M'", 1),
        ("code + '-' + 'x' == 'A-x'", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
}

#[test]
fn percentages_are_parts_of_100() {
    let json = r#"[{"p":50,"d":"20%","e":"10%","f":"5 km"},{"p":10,"d":"5%","e":"5%","f":"2 km"}]"#;
    for (text, expected) in [
        ("p * (d / 100) >= 10", 1),
        ("p * d / 100 >= 10", 1),
        ("p * (1 - d / 100) > 9", 2),
        ("p * (100 - d) / 100 > 39", 1),
        ("p * d * 0.01 >= 10", 1),
        ("d * 2 > 30", 1),
        ("d - e > 5", 1),
        ("d / e > 1", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    for text in [
        "p * d > 10",
        "d * p > 10",
        "p / d > 1",
        "d * e > 1",
        "f * d > 1",
        "1 - d > 0",
        "p * (1 - d) > 5",
    ] {
        let refused = select(json, text).unwrap_err();
        assert!(refused.contains("discount / 100"), "{text}: {refused}");
    }
}

#[test]
fn amounts_of_one_unit_are_computed_with() {
    let json = r#"[{"a":"900 m","d":"2 km","m":"5 km","x":3},{"a":"100 m","d":"1.5 km","m":"3 mi","x":4}]"#;
    let (count, note) = select(json, "a / d > 400").unwrap();
    assert_eq!(count, 1);
    assert!(note.contains("a is in m, d is in km"), "{note}");
    for (text, expected) in [
        ("d * x >= 6", 2),
        ("d > '1.8 km'", 1),
        ("d > 1.8", 1),
        ("a >= 900 m", 1),
        ("d - 1 > 0.9", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    for text in ["a + d > 5", "m * 2 > 5", "d + x > 2", "a > d * 400"] {
        assert!(select(json, text).is_err(), "{text}: {:?}", select(json, text));
    }
}

#[test]
fn records_have_names() {
    let json = r#"[{"city":"Rome","price":5},{"city":"Oslo","price":9}]"#;
    let (count, note) = select(json, "listing.city = 'Rome' and listing['price'] > 1").unwrap();
    assert_eq!(count, 1);
    assert!(note.contains("listing was read as the name of a record"), "{note}");
    for text in [
        // One field may be that of an absent object.
        "owner.city = 'Rome'",
        "listing.city = 'Rome' and price > 1",
        "listing.city = 'Rome' and listing.size > 1",
        "listing.city = 'Rome' and listing.price = listing.city",
    ] {
        assert!(select(json, text).is_err(), "{text}: {:?}", select(json, text));
    }
    // A list with a name has records of that name only.
    let named = r#"{"pets":[{"name":"Rex","age":7},{"name":"Tom","age":3}]}"#;
    assert!(select(named, "owner.name = 'Rex' and owner.age > 5").is_err());
    assert_eq!(select(named, "pet.name = 'Rex' and pet.age > 5").unwrap().0, 1);
}

#[test]
fn filters_of_records_read_lists_of_that_name() {
    // `row[?…]` filters the records only if they have no list `rows`.
    let mut names = Vec::new();
    let condition = Condition::parse("row[?price > 5]").unwrap();
    condition.each_name(&mut |name| names.extend(name.keys().map(str::to_owned)));
    assert_eq!(names, ["row", "rows", "price"]);
    let json = r#"[{"price":9,"rows":[{"price":1}]},{"price":1,"rows":[{"price":9}]}]"#;
    assert!(select(json, "row[?price > 5]").is_err());
    assert_eq!(select(r#"[{"price":9},{"price":1}]"#, "row[?price > 5]").unwrap().0, 1);
}

#[test]
fn negations_in_javascript_include_records_without_a_value() {
    let json = r#"[{"p":"a","f":5,"l":[{"n":1}]},{"p":"a","f":0,"l":[{"n":9}]},{"p":"a","l":[{}]},
        {"p":"b","f":null,"l":[]}]"#;
    for (text, expected) in [
        ("e => !(e.f > 0)", 3),
        ("e => !(e.f > 0) && e.p == 'a'", 2),
        ("rows.filter(e => !(e.f > 0 && e.p === 'a'))", 3),
        ("l.some(x => !(x.n > 5))", 2),
        // Other languages leave them out.
        ("NOT (f > 0)", 1),
        ("!(f > 0)", 1),
        ("lambda e: not (e['f'] > 0)", 1),
    ] {
        assert_eq!(select(json, text).map(|(count, _)| count), Ok(expected), "{text}");
    }
    let (_, note) = select(json, "e => !(e.f > 0)").unwrap();
    assert!(note.contains("includes 2 without a value at f, as in JavaScript"), "{note}");
    assert!(!note.contains("left out"), "{note}");
    let (_, note) = select(json, "e => e.f > 0").unwrap();
    assert!(note.contains("left out"), "{note}");
    // An order that is added keeps the meaning.
    let sorted = Condition::with_order("rows.filter(e => !(e.f > 0))", "p desc").unwrap();
    assert_eq!(select(json, &sorted).unwrap().0, 3, "{sorted}");
}

#[test]
fn filters_of_databases_state_null() {
    let json = r#"[{"n":"x","a b":1},{"n":null,"a b":null},{}]"#;
    for (text, expected) in [
        (r#"{"n": {"$exists": false}}"#, 2),
        (r#"{"n": {"$exists": true}}"#, 1),
        (r#"{"a b": {"$exists": true}}"#, 1),
        (r#"{"$or": [{"n": {"$exists": false}}, {"n": "x"}]}"#, 3),
    ] {
        let (count, note) = select(json, text).unwrap();
        assert_eq!(count, expected, "{text}: {note}");
        assert!(note.contains("null or empty in 1 records"), "{text}: {note}");
    }
}
