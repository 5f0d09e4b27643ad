//! Generated programs against the program jq on the same documents. Without jq, the test says so
//! and passes, except in CI.
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
use serde_json::{Value, json};

const PROGRAMS: usize = 520;

fn document(random: &mut Random) -> Value {
    let record = |random: &mut Random, id: u64| {
        let words = ["red", "Green", "blue sky", "", "a,b", "x<y", "7"];
        let word = random.pick(&words);
        let mut record = json!({"id": id, "s": word, "b": random.below(2) == 0});
        match random.below(4) {
            0 => {}
            1 => record["n"] = Value::Null,
            2 => record["n"] = json!(random.below(9)),
            _ => record["n"] = json!(random.below(99) as f64 / 4.0 + 0.125),
        }
        let tags: Vec<&str> = (0..random.below(3)).map(|_| random.pick(&["p", "q", "r"])).collect();
        record["t"] = json!(tags);
        record["o"] = json!({"k": random.below(4), "z": random.pick(&["u", "v"])});
        record
    };
    let records: Vec<Value> = (0..2 + random.below(6)).map(|id| record(random, id)).collect();
    json!({"items": records, "total": random.below(50), "name": "doc"})
}

/// Returns a filter of one record.
fn of_record(random: &mut Random, depth: u64) -> String {
    if depth > 0 && random.below(2) == 0 {
        let (left, right) = (of_record(random, depth - 1), of_record(random, depth - 1));
        return match random.below(9) {
            0 => format!("{{a: ({left}), b: ({right})}}"),
            1 => format!("[{left}, {right}]"),
            2 => format!("({left}) // ({right})"),
            3 => format!("if {} then {left} else {right} end", condition(random)),
            4 => format!("[({left}), ({right})] | map(tostring) | join(\"-\")"),
            5 => format!("\"\\({left})|\\({right})\""),
            6 => format!("({left}) as $x | [$x, ({right})]"),
            // jq 1.6 ignores errors without a value, and errors in `catch`.
            7 => format!("try ({left} | tojson | error) catch type, ({right})"),
            _ => format!("[{left}] == [{right}]"),
        };
    }
    let simple = random.pick(&[
        ".id",
        ".s",
        ".n",
        ".b",
        ".t",
        ".o",
        ".o.k",
        ".o.z",
        ".t[0]",
        ".t[-1]",
        ".t[1:]",
        ".missing",
        ".s[1:3]",
        ".t | length",
        ".s | length",
        "keys",
        "length",
        ".o | to_entries",
        ".o | keys",
        "has(\"n\")",
        ".s | ascii_downcase",
        ".s | split(\" \")",
        ".s | test(\"e\")",
        ".s | test(\"RED\"; \"i\")",
        ".t | join(\",\")",
        ".t | index(\"q\")",
        ".t | contains([\"p\"])",
        ".s | startswith(\"b\")",
        ".id + 1",
        ".id * 2",
        ".id - 3",
        ".id / 4",
        "[.id, 1] | .[0] += 2",
        "(.n // 1) / (.o.k)",
        ".id % 3",
        ".n + 1",
        "(.n // 0) * 2",
        ".s + \"!\"",
        ".s * 2",
        ".id | tostring",
        "[.t[] | ascii_upcase]",
        ".o | map_values(tostring)",
        ".t | sort",
        ".t | unique",
        "type",
        ".n | type",
        "[.[] | type]",
        ".o | with_entries(.value |= tostring)",
        "del(.o, .t)",
        ".o += {w: 1} | .o",
        ".s | @base64",
        ".s | @html",
        ".s | @uri",
        "[.s, .id] | @csv",
        "[.s, .id] | @tsv",
        ".s | @json",
        "tojson | fromjson",
        ".id | . as $v | [range($v)] | length",
        "[limit(2; .t[])]",
        "first(.t[], \"none\")",
        "[paths] | length",
        ".s | ltrimstr(\"b\")",
        ".s | gsub(\"e\"; \"E\")",
        "[.s | match(\"[a-z]\"; \"g\").offset]",
        ".s | explode | implode",
        "[..] | length",
        ".id == 2",
        ".b | not",
        ".t | any",
        ".t | length > 1 and true",
        "[.t[] | . == \"p\"] | all",
        ".s | capture(\"(?<x>[a-z])\") | .x",
        "getpath([\"o\", \"k\"])",
        "setpath([\"o\", \"k\"]; 9) | .o",
        "[.t, .t] | add",
        "{s, id}",
        "{(.o.z): .id}",
        "{\"k\": .id} * {\"m\": .n}",
        ".t | reverse",
        "[.t | .[] as $x | $x + \"1\"]",
        "[splits(\"x\")?]",
        "reduce .t[] as $x (\"\"; . + $x)",
        "[foreach .t[] as $x (0; . + 1; [$x, .])]",
        ".t | to_entries? // 0",
        "tostring | length",
        ".n | if type == \"number\" then floor else . end",
        "[.id, .o.k] | min",
        "[.id, .o.k] | max",
        ".o | has(\"k\")",
        "[.o | .[]] | length",
        ".t | map(select(. != \"q\"))",
        ".s | ascii_downcase | explode | length",
        ".o.k |= . + 1 | .o.k",
    ]);
    simple.to_owned()
}

fn condition(random: &mut Random) -> &'static str {
    random.pick(&[
        ".b",
        ".id > 2",
        ".n == null",
        ".s == \"red\"",
        "(.n // 0) > 3",
        ".t | length > 0",
        ".o.k == 1 or .b",
        ".b and .id < 4",
        "(.t | index(\"p\")) != null",
        ".s | test(\"^b\")",
        "has(\"n\") | not",
        ".n != null and .n >= 2",
        "any(.t[]; . == \"q\")",
        ".o.z | IN(\"u\", \"w\")",
        "(.s | length) >= 3",
        ".id as $i | [1, 3] | index($i)",
    ])
}

/// Returns a program on the document.
fn program(random: &mut Random) -> String {
    let record = of_record(random, 2);
    let condition = condition(random);
    match random.below(16) {
        0 => format!(".items[] | {record}"),
        1 => format!(".items | map({record})"),
        2 => format!("[.items[] | select({condition}) | {record}]"),
        3 => format!("[.items[] | select({condition})] | length"),
        4 => format!(".items | group_by({record}) | map(length)"),
        5 => format!(".items | sort_by({record}) | map(.id)"),
        6 => format!(".items | unique_by({record}) | map(.id)"),
        7 => format!(".items | (min_by({record}) | .id), (max_by({record}) | .id)"),
        8 => format!(".items | any({condition}), all({condition})"),
        9 => format!("reduce (.items[] | select({condition})) as $r (0; . + $r.id)"),
        10 => format!("[.items[] | [{record}][0]] | unique"),
        11 => format!(".items |= map(select({condition})) | .items | length"),
        12 => format!("del(.items[] | select({condition})) | [.items[].id]"),
        13 => format!(".items[1:] | first | {record}"),
        14 => format!("[.items[] | {{key: .s, value: ({record})}}] | from_entries"),
        _ => format!("[.items[] | {record} | tojson] | join(\";\")"),
    }
}

/// Returns the results of jq, or none if the program fails.
fn jq(program: &str, document: &str) -> Option<Vec<Value>> {
    let mut child = Command::new("jq")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(document.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let values = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    output.status.success().then_some(values)
}

/// Returns the results of the core, or the error.
fn own(program: &str, document: &str) -> Result<Vec<Value>, String> {
    let query = Query { jq: Some(program.to_owned()), ..Query::default() };
    let result = run(document, &query)?;
    if result.is_text {
        return Ok(vec![String::from_utf8(result.bytes).unwrap().into()]);
    }
    let value: Value = serde_json::from_slice(&result.bytes).unwrap();
    match (result.description.contains("results as a list"), value) {
        (true, Value::Array(values)) => Ok(values),
        (_, value) => Ok(vec![value]),
    }
}

/// Makes numbers comparable: 1 and 1.0 are the same.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(list) => list.iter().map(normal).collect(),
        Value::Object(members) => {
            members.iter().map(|(key, value)| (key.clone(), normal(value))).collect()
        }
        other => other.clone(),
    }
}

#[test]
fn programs_return_what_jq_returns() {
    if !is_installed("jq") {
        return;
    }
    let mut random = Random(11);
    let (mut wrong, mut failed) = (Vec::new(), 0);
    for _ in 0..PROGRAMS {
        let document = document(&mut random).to_string();
        let program = program(&mut random);
        let (expected, found) = (jq(&program, &document), own(&program, &document));
        failed += usize::from(expected.is_none());
        let same = match (&expected, &found) {
            (None, Err(_)) => true,
            (Some(expected), Ok(found)) => {
                expected.iter().map(normal).collect::<Vec<_>>()
                    == found.iter().map(normal).collect::<Vec<_>>()
            }
            _ => false,
        };
        if !same {
            wrong.push(format!("{program}\n  jq   {expected:?}\n  core {found:?}\n  {document}"));
        }
    }
    let shown = wrong.iter().take(12).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {PROGRAMS}, {failed} failed in jq:\n{shown}", wrong.len());
    assert!(failed * 3 < PROGRAMS, "{failed} of {PROGRAMS} programs fail");
}
