//! Tests of programs in jq.

use super::*;

fn text(program: &str, input: &str) -> String {
    match run(program, input.as_bytes()) {
        Ok(results) => String::from_utf8(results.bytes).unwrap(),
        Err(reason) => reason,
    }
}

#[test]
fn division_by_zero_is_an_error() {
    for program in ["7 / 0 + 3", ".[0] / .[1]", "1 as $x | $x / (.[1] * 1.0)"] {
        let reason = text(program, "[7,0]");
        assert!(reason.contains("divisor is zero"), "{program}: {reason}");
    }
    assert_eq!(text("try (1 / 0) catch \"none\"", "[]"), "none");
    assert_eq!(text("0 / 5", "[]"), "0");
    assert!(text("[1 % 0]", "[]").contains("cannot calculate 1 % 0"));
    assert_eq!(
        text("[infinite, -infinite]", "[]"),
        "[1.7976931348623157e308,-1.7976931348623157e308]"
    );
}

#[test]
fn elements_of_a_list_are_updated() {
    for (program, expected) in [
        (".[0] |= 2", "[2,0]"),
        (".[0] = 5", "[5,0]"),
        (".[0] /= 2", "[3.5,0]"),
        (".[1] += 3", "[7,3]"),
        ("(.[0], .[1]) |= . + 1", "[8,1]"),
        (".[-1] |= 9", "[7,9]"),
        ("del(.[0])", "[0]"),
    ] {
        assert_eq!(text(program, "[7,0]"), expected, "{program}");
    }
    assert!(text(".[0] /= 0", "[7,0]").contains("divisor is zero"));
    assert_eq!(text(".[0][1] |= 4", "[[1,2]]"), "[[1,4]]");
    assert_eq!(text(".a[0][1].b |= 4", r#"{"a":[[1,{"b":2}]]}"#), r#"{"a":[[1,{"b":4}]]}"#);
}

#[test]
fn programs_return_their_results() {
    let json = r#"{"items":[{"a":"x","n":1},{"a":"y","n":2.5},{"a":"x","n":null}],"name":"t"}"#;
    for (program, expected) in [
        (".name", "t"),
        (".items | length", "3"),
        ("[.items[] | select(.a == \"x\")] | length", "2"),
        (
            ".items | group_by(.a) | map({a: .[0].a, n: (map(.n) | add)})",
            r#"[{"a":"x","n":1},{"a":"y","n":2.5}]"#,
        ),
        (".items[].n", "[1,2.5,null]"),
        ("[.items[] | .n // 0] | add / 2", "1.75"),
        (".items | map(.n) | max", "2.5"),
        (".items | sort_by(.n) | .[0].n", "null"),
        ("to_entries | map(.key)", r#"["items","name"]"#),
        ("[limit(2; range(10))]", "[0,1]"),
        ("[.items[] | .a | test(\"X\"; \"i\")]", "[true,false,true]"),
        ("\"a1b22\" | [match(\"[0-9]+\"; \"g\").string]", r#"["1","22"]"#),
        ("\"2024-05-01\" | capture(\"(?<y>[0-9]+)-(?<m>[0-9]+)\") | .m", "05"),
        ("\"a,b\" | split(\",\") | join(\"-\")", "a-b"),
        ("\"aXbX\" | gsub(\"X\"; \"-\")", "a-b-"),
        ("[(1,2) + (10,20)]", "[11,12,21,22]"),
        (".items[0] | keys", r#"["a","n"]"#),
        ("def f(x): x * 2; f(3)", "6"),
        ("[paths] | length", "11"),
        (".items |= map(.a) | .items", r#"["x","y","x"]"#),
        (".items[0].n += 5 | .items[0].n", "6"),
        ("[.items[] | [.a, .n] | @csv]", r#"["\"x\",1","\"y\",2.5","\"x\","]"#),
        ("\"abc\" * 2", "abcabc"),
        ("[1,2,3] - [2]", "[1,3]"),
        ("reduce .items[].n as $n (0; . + ($n // 0))", "3.5"),
        ("[foreach (1,2,3) as $x (0; . + $x)]", "[1,3,6]"),
        ("first(.items[] | select(.n > 1)) | .a", "y"),
        (".items | any(.n == 1)", "true"),
        ("[.items[] | .a] | unique", r#"["x","y"]"#),
        ("try error(\"x\") catch .", "x"),
        ("[.[]?]|length", "2"),
        ("empty", "[]"),
        ("@base64 \"\\(.name)\"", "dA=="),
        ("INDEX(.items[]; .n) | keys", r#"["1","2.5","null"]"#),
        ("[.items[] | .n | numbers | floor]", "[1,2]"),
    ] {
        assert_eq!(text(program, json), expected, "{program}");
    }
}

#[test]
fn only_a_whole_text_is_a_number() {
    for (program, expected) in [
        (
            r#"[("1,234", "12 MB", "2024-01-05", "0x1F", "10:30", "5 6", "1_0", "", "- 5") | tonumber?]"#,
            "[]",
        ),
        (
            r#"[("10", " 12 ", "+5", "007", "-007", ".5", "5.", "1e3") | tonumber]"#,
            "[10,12,5,7,-7,0.5,5,1e3]",
        ),
        (r#""00900719925474099312" | tonumber"#, "900719925474099312"),
        (r#"try ("12abc" | tonumber) catch "bad""#, "bad"),
        (r#"[("1 2", "[1] x", "1,2") | fromjson?]"#, "[]"),
        (r#"[(" [1] ", "null", "{\"a\":2}") | fromjson]"#, r#"[[1],null,{"a":2}]"#),
    ] {
        assert_eq!(text(program, "[]"), expected, "{program}");
    }
    let reason = text(r#""2024-01-05" | tonumber"#, "[]");
    assert!(reason.contains("2024-01-05") && reason.contains("as JSON"), "{reason}");
}

#[test]
fn functions_agree_with_jq_where_jaq_differs() {
    for (program, expected) in [
        (
            r#"[[1, null], [null, null], [null], [], [true, "x"]] | map(join(","))"#,
            r#"["1,",",","","","true,x"]"#,
        ),
        ("[-5.5 % 2, 90.5 % 60, 7 % 2.9, -7 % 3, 5 % -3]", "[-1,30,1,-1,2]"),
        ("[9007199254740993 % 10]", "[3]"),
        ("[[1] | has(0, 1, -1)]", "[true,false,false]"),
        (r#"{"a": 1} | [has("a", "b")]"#, "[true,false]"),
        (r#"try ({"a": 1} | has(0)) catch "error""#, "error"),
        (r#"{"a": 1, "b": null} | join("-")"#, "1-"),
    ] {
        assert_eq!(text(program, "[]"), expected, "{program}");
    }
    assert!(text("5 % 0.5", "[]").contains("cannot calculate 5 % 0"));
    assert!(text("[1] | has(\"a\")", "[]").contains("cannot index"));
}

#[test]
fn members_are_those_of_each_line() {
    let lines = br#"[{"id":1,"o":{"k":2}},{"id":3}]"#;
    for (program, expected, is_for_lines) in [
        (".id?", "[1,3]", true),
        (".o?.k?", "[2,null]", true),
        ("try .id", "[1,3]", true),
        ("select(.id? == 3)", r#"{"id":3}"#, true),
        (".[].id?", "[1,3]", false),
        ("(.items? // .) | length", "2", false),
        (".[] | select(. == 2)", "[]", false),
    ] {
        let results = run_on_lines(program, lines).unwrap();
        assert_eq!(String::from_utf8(results.bytes).unwrap(), expected, "{program}");
        assert_eq!(
            results.notes.iter().any(|note| note == "run on each line or record"),
            is_for_lines,
            "{program}"
        );
    }
}

#[test]
fn errors_have_a_position_and_a_hint() {
    let json = r#"[{"kind":"a","b":[1]}]"#;
    for (program, expected) in [
        (".[", "jq cannot be read at its end: closing bracket"),
        (".[] | select(.kind = = 1)", "at character 22"),
        (".[] |", "at its end"),
        ("map(select(kind == 1))", "for a field write .kind"),
        (".[] | .kind == 'a'", "texts have double quotes in jq"),
        ("now", "there is no clock"),
        ("env", "no environment"),
        ("input", "the input is the whole answer"),
        ("$ENV.HOME", "there is no variable $ENV"),
        (".kind", "the input is a list, whose elements have: kind, b"),
        ("import \"a\" as a; .", "jq cannot be read"),
        ("halt", "there is no function halt"),
    ] {
        let reason = text(program, json);
        assert!(reason.contains(expected), "{program}: {reason}");
    }
    let notes = run(".[] | select(.kindd == \"a\") | {x: .b}", json.as_bytes()).unwrap().notes;
    assert_eq!(notes, ["no value has the key \"kindd\" (did you mean \"kind\"?)"]);
}

#[test]
fn hostile_programs_are_stopped() {
    for program in [
        "def f: f; f",
        "def f: 1 + f; f",
        "def f: [f]; f",
        "def f: (f, 1); f",
        "[range(1e12)]",
        "last(range(1e12))",
        "reduce range(1e12) as $i (0; .)",
        "[recurse(. + 1; true)]",
        "repeat(1)",
        "[limit(1e12; repeat(1))] | length",
        "until(false; .)",
        "\"x\" * 1e9",
        "reduce range(40) as $i (\"x\"; . + .)",
        "reduce range(40) as $i ([1]; . + .)",
        "reduce range(60) as $i ([1]; [., .])",
        "reduce range(60) as $i ([1]; [., .]) | tojson",
        "reduce range(60) as $i ([1]; .[length] = .) | tojson",
        "reduce range(100000) as $i (null; [.])",
        "reduce range(100000) as $i (null; {a: .})",
        "reduce range(100000) as $i ([1]; group_by(.))",
        "reduce range(100000) as $i ([1]; [key_values])",
        "reduce range(100) as $i (3; . * .)",
        "\"[\" * 1000000 | fromjson",
        "[range(100000)] - [range(100000)]",
        "(\"a\" * 1000000) | test(\"(a?){60}(a|b|c){60}z\")",
        "range(1e9)",
        "[.,.,.,.] | [combinations(20)] | length",
        "path(repeat(.))",
        "try (def f: f; f) catch 1",
        "(def f: f; f)?",
        ".. |= (def f: f; f)",
        "reduce range(1e7) as $i (\"x\" * 1000000; . + \"y\") | length",
    ] {
        let result = run(program, b"[1,[2]]").map(|results| results.count);
        let reason = result.err().unwrap_or_else(|| panic!("{program} has results"));
        assert!(reason.starts_with("jq"), "{program}: {reason}");
    }
    let deep = "(".repeat(2_000) + "." + &")".repeat(2_000);
    assert!(run(&deep, b"1").is_err());
    assert!(run(&"-".repeat(4_000), b"1").is_err());
    assert!(run(&"if . then ".repeat(400), b"1").is_err());
    let nested = "[".repeat(100_000) + &"]".repeat(100_000);
    assert!(run(".", nested.as_bytes()).is_err());
}
