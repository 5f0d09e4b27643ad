//! Queries of YAML, TOML, XML and logs, and of documents with many values.
#![allow(clippy::unwrap_used, reason = "tests: a panic is a failure")]

use context_guard_core::json::text::Form;
use context_guard_core::policy::EndpointSettings;
use context_guard_core::query::{Query, QueryInput};

const YAML: &str = "apiVersion: v1\nkind: List\nitems:\n- kind: Pod\n  metadata: {name: a, labels: {app: web}}\n  restarts: 3\n- kind: Pod\n  metadata: {name: b, labels: {app: db}}\n  restarts: 12\n- kind: Job\n  metadata: {name: c, labels: {app: db}}\n  restarts: 0\n";
const XML: &str = "<?xml version=\"1.0\"?>\n<suite name=\"s\">\n  <case name=\"one\" time=\"1.5\"/>\n  <case name=\"two\" time=\"0.5\"><failure>expected &lt;2&gt;</failure></case>\n  <case name=\"three\" time=\"2\"/>\n</suite>\n";

fn run(text: &str, query: Query) -> Result<(String, String), String> {
    let limits = EndpointSettings::default();
    let input = QueryInput {
        bytes: text.as_bytes(),
        form: Form::Raw,
        survey: None,
        limits: &limits,
        from_line: 0,
        until_line: 0,
        limit: 0,
    };
    let found = query.run(&input, &mut |_| false)?;
    Ok((String::from_utf8(found.bytes).unwrap(), found.description))
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn yaml_is_queried_as_json() {
    let query = Query {
        condition: text("metadata.labels.app=db"),
        aggregate: text("sum(restarts) by kind"),
        ..Query::default()
    };
    let (found, description) = run(YAML, query).unwrap();
    assert_eq!(found, r#"{"records":2,"sum(restarts) by kind":{"Job":0,"Pod":12}}"#);
    assert!(description.ends_with("; the YAML was read as JSON"), "{description}");
    let query = Query { jq: text("[.items[] | .metadata.name] | join(\" \")"), ..Query::default() };
    assert_eq!(run(YAML, query).unwrap().0, "a b c");
    let query = Query { path: text("/items/1/metadata"), ..Query::default() };
    assert_eq!(run(YAML, query).unwrap().0, r#"{"name":"b","labels":{"app":"db"}}"#);
    let query = Query { grep: text("pod"), fields: text("restarts"), ..Query::default() };
    assert_eq!(run(YAML, query).unwrap().0, r#"[{"restarts":3},{"restarts":12}]"#);
    // A search alone shows the lines of the text.
    let query = Query { grep: text("kind: Job"), ..Query::default() };
    assert!(run(YAML, query).unwrap().0.contains("- kind: Job"));
}

#[test]
fn events_of_calendars_are_queried_as_records() {
    let event = |at: u32, name: &str| {
        format!(
            "BEGIN:VEVENT\r\nUID:{at}\r\nSUMMARY:{name}\r\nDTSTART:202405{:02}T100000Z\r\nEND:VEVENT\r\n",
            at + 1
        )
    };
    let events: String =
        (0..20).map(|at| event(at, if at % 4 == 0 { "Review" } else { "Stand-up" })).collect();
    let calendar = format!("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{events}END:VCALENDAR\r\n");
    let query = Query { aggregate: text("count by SUMMARY"), ..Query::default() };
    let (found, description) = run(&calendar, query).unwrap();
    assert_eq!(found, r#"{"records":20,"count by SUMMARY":{"Stand-up":15,"Review":5}}"#);
    assert!(description.ends_with("; the iCalendar was read as JSON"), "{description}");
    let query = Query {
        condition: text("summary = Review AND DTSTART >= 2024-05-10"),
        fields: text("UID"),
        ..Query::default()
    };
    let (found, _) = run(&calendar, query).unwrap();
    assert!(found.contains(r#"{"UID":"12"},{"UID":"16"}"#), "{found}");
}

#[test]
fn entries_of_logs_are_queried_as_records() {
    let log = "# started\n\
        May  1 10:00:01 web sshd[7]: failure; uid=0 rhost=10.0.0.1\n\
        May  1 10:00:02 web sshd[8]: failure; uid=0 rhost=10.0.0.2\n\
        May  1 10:00:03 web cron[9]: started\n\
        May  1 10:00:04 web sshd[9]: failure; uid=5 rhost=10.0.0.1\n";
    let query = Query { aggregate: text("count by rhost"), ..Query::default() };
    let query = Query { condition: text("process = sshd AND uid < 5"), ..query };
    let (found, description) = run(log, query).unwrap();
    let expected = r#"{"records":2,"count by rhost":{"10.0.0.1":1,"10.0.0.2":1}}"#;
    assert_eq!(found, expected);
    let note = "read as records, without the line before the first";
    assert!(description.ends_with(note), "{description}");
    // A search counts entries in which a value matches. Programs of jq get the lines.
    let query = Query { grep: text("uid=0"), fields: text("line"), ..Query::default() };
    assert_eq!(run(log, query).unwrap().0, r#"[{"line":2},{"line":3}]"#);
    let query = Query { jq: text("length"), ..Query::default() };
    assert_eq!(run(log, query).unwrap().0, "5");
    let query = Query { condition: text("tag = sshd"), ..Query::default() };
    let refusal = run(log, query).unwrap_err();
    assert!(refusal.contains("process"), "{refusal}");
}

#[test]
fn toml_is_queried_as_json() {
    let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"b\"\nversion = \"0.2.1\"\n";
    // A condition is about the records, also if the document has a member of that name.
    let query = Query { condition: text("name = b"), fields: text("version"), ..Query::default() };
    let (found, description) = run(lock, query).unwrap();
    assert_eq!(found, r#"[{"version":"0.2.1"}]"#);
    assert!(description.ends_with("; the TOML was read as JSON"), "{description}");
    let query = Query { fields: text("version"), ..Query::default() };
    assert_eq!(run(lock, query).unwrap().0, r#"{"version":4}"#);
    let query = Query { grep: text("^b$"), fields: text("version"), ..Query::default() };
    assert_eq!(run(lock, query).unwrap().0, r#"[{"version":"0.2.1"}]"#);
}

#[test]
fn lines_of_json_between_others_are_records() {
    let log = concat!(
        "stdout:\n{\"at\":\"2026-11-01T10:00:00Z\",\"ms\":3,\"id\":1}\n** note\n",
        "{\"ms\":9,\"id\":2,\"error\":null}\n{\"id\":3,\"level\":\"error\"}\n",
    );
    let query = Query { condition: text("ms > 5"), fields: text("id"), ..Query::default() };
    let (found, description) = run(log, query).unwrap();
    assert_eq!(found, r#"[{"id":2}]"#);
    let note = "read as records, without the 2 lines that are no JSON objects";
    assert!(description.ends_with(note), "{description}");
    // A search is one of values.
    let query = Query { grep: text("^error$"), fields: text("id"), ..Query::default() };
    assert_eq!(run(log, query).unwrap().0, r#"[{"id":3}]"#);
}

#[test]
fn reports_of_linters_are_records() {
    let log = "Inspecting 3 files\na.rb:1:2: C: long line\n  code\nb.rb:4:1: W: unused\nb.rb:9:1: C: long line\n";
    let query = Query { aggregate: text("count by file"), ..Query::default() };
    assert_eq!(run(log, query).unwrap().0, r#"{"records":3,"count by file":{"b.rb":2,"a.rb":1}}"#);
    let query = Query { condition: text("severity = W"), ..Query::default() };
    let (found, description) = run(log, query).unwrap();
    let expected = r#"[{"file":"b.rb","line":4,"column":1,"severity":"W","message":"unused"}]"#;
    assert_eq!(found, expected);
    assert!(description.ends_with("without the line that is no report"), "{description}");
}

#[test]
#[cfg(feature = "jq")]
fn programs_for_each_line_run_on_lines_of_json() {
    let lines = "{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":\"y\"}\n{\"a\":3,\"b\":\"z\"}\n";
    let query = Query { jq: text("select(.a >= 2) | .b # c"), ..Query::default() };
    let (found, description) = run(lines, query).unwrap();
    assert_eq!(found, r#"["y","z"]"#);
    assert!(description.contains("run on each line"), "{description}");
    // A program that works on the list gets the list.
    let query = Query { jq: text("length"), ..Query::default() };
    assert_eq!(run(lines, query).unwrap().0, "3");
    let query = Query { jq: text(".a.b.c"), ..Query::default() };
    assert!(run(lines, query).unwrap_err().contains("a list, whose elements have"));
}

#[test]
fn xml_is_queried_as_json() {
    let query = Query {
        path: text("/suite/case"),
        condition: text("failure IS NOT NULL"),
        fields: text("@name"),
        ..Query::default()
    };
    let (found, description) = run(XML, query).unwrap();
    assert_eq!(found, r#"[{"@name":"two"}]"#);
    assert!(description.ends_with("; the XML was read as JSON"), "{description}");
    let query = Query { aggregate: text("sum(\"@time\")"), ..Query::default() };
    assert_eq!(run(XML, query).unwrap().0, r#"{"records":3,"sum(\"@time\")":4}"#);
    let query = Query { jq: text(".suite.case | map(.failure // empty)"), ..Query::default() };
    assert_eq!(run(XML, query).unwrap().0, r#"["expected <2>"]"#);
}

#[test]
fn json_between_tags_or_words_is_read_as_json() {
    let rows: Vec<String> = (0..40).map(|id| format!("{{\"id\":{id}}}")).collect();
    let rows = format!("[{}]", rows.join(","));
    for document in [format!("<data>{rows}</data>"), format!("---\nrows: {rows}\n")] {
        let query = Query { aggregate: text("sum(id)"), ..Query::default() };
        assert_eq!(
            run(&document, query).unwrap().0,
            r#"{"records":40,"sum(id)":780}"#,
            "{document}"
        );
    }
}

#[test]
fn logs_remain_lines() {
    let log = "2026-01-01T10:00:00Z INFO start: a\n2026-01-01T10:00:01Z ERROR stop: b\n".repeat(4);
    let query = Query { jq: text("length"), ..Query::default() };
    assert_eq!(run(&log, query).unwrap().0, "8");
}

#[test]
fn conditions_read_only_their_fields() {
    let records: Vec<String> = (0..150_000)
        .map(|id| format!(r#"{{"id":{id},"a":1,"b":[1,2,3],"c":{{"d":1}},"state":"s{}"}}"#, id % 3))
        .collect();
    let document = format!("{{\"total\":1,\"items\":[{}]}}", records.join(","));
    let query = Query {
        condition: text("state=s1 AND id>=140000"),
        aggregate: text("count, max(id)"),
        ..Query::default()
    };
    let (found, _) = run(&document, query).unwrap();
    assert_eq!(found, r#"{"records":3333,"count":3333,"max(id)":149998}"#);
    // Records after the first ones are complete.
    let (found, _) = run(&document, Query { skip: 149_999, ..Query::default() }).unwrap();
    assert_eq!(found, format!("[{}]", records[149_999]));
    // A query that needs all values is refused, because some are not indexed.
    let query = Query { path: text("/items/149999/id"), ..Query::default() };
    assert!(run(&document, query).unwrap_err().contains("too many for this query"));
    let query = Query { condition: text("stat=s1"), ..Query::default() };
    assert!(run(&document, query).is_err());
}
