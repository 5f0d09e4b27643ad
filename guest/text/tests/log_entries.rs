//! Errors and warnings of logs whose entries, boxes and severities are unusual.
#![allow(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

use context_guard_json::text::Form;
use context_guard_text::kind::Kind;
use context_guard_text::lines::IndexedText;
use context_guard_text::log_entry::{SevereEntries, severe_entries};
use context_guard_text::severity::Severity;

/// Returns the kind of a text, and the lines of its errors (`E`) and warnings (`W`) with their
/// lengths.
fn severe(text: &str) -> (Kind, Vec<(char, usize, usize)>) {
    let text = IndexedText::new(text.as_bytes(), Form::Raw);
    let SevereEntries { kind, entries, .. } = severe_entries(&text);
    let letter = |level| if level == Severity::Error { 'E' } else { 'W' };
    (kind, entries.iter().map(|x| (letter(x.level), x.line + 1, x.length)).collect())
}

#[test]
fn rare_levels_of_serilog_are_found() {
    let time = r#""@t":"2026-01-02T10:00:00.123Z""#;
    let log = |rare: &[usize], level: &str| -> String {
        let level =
            |at| if rare.contains(&at) { format!(r#","@l":"{level}""#) } else { String::new() };
        (0..1_000)
            .map(|at| {
                format!("{{{time},\"@mt\":\"Request {{Id}} ends\"{},\"Id\":{at}}}\n", level(at))
            })
            .collect()
    };
    assert_eq!(severe(&log(&[50, 900], "Error")), (Kind::Log, vec![('E', 51, 1), ('E', 901, 1)]));
    // No line of the sample has a level.
    assert_eq!(severe(&log(&[503], "Fatal")), (Kind::Log, vec![('E', 504, 1)]));
    assert_eq!(severe(&log(&[503], "Warning")), (Kind::Log, vec![('W', 504, 1)]));
    assert_eq!(severe(&log(&[503], "Debug")), (Kind::Log, vec![]));
}

#[test]
fn quoted_logs_leave_documents_as_they_are() {
    let quote = "```\n2026-01-02 10:00:00 INFO a\n2026-01-02 10:00:01 ERROR b\n\
                 2026-01-02 10:00:02 WARN c\n```\n";
    let prose = "The service writes such lines.\nThey say little.\n".repeat(20);
    let markdown = format!("# Operation\n\n{prose}\n## Logs\n\n{quote}\n{prose}");
    assert_eq!(severe(&markdown), (Kind::Markdown, vec![]));
    let quote = quote.replace("```\n", "");
    assert_eq!(severe(&format!("{prose}{prose}{quote}")), (Kind::Plain, vec![]));
    let steps = "At 10:30 the backup begins.\nWARNING: keep the disk mounted during the backup\n\
                 Then wait.\nAsk the operator.\nWrite it down.\nGo on.\n";
    let notes = "NOTE: this takes long\nat 10:31 call\nand wait\n".repeat(3);
    assert_eq!(severe(&format!("{}{notes}", steps.repeat(4))).0, Kind::Plain);
}

#[test]
fn rows_of_box_tables_are_no_errors() {
    let row = "│ ERROR   │ 12 │ refused by host │\n│ INFO    │  3 │ accepted by host │\n";
    let table = format!("┌─────────┬────┬───┐\n{}└─────────┴────┴───┘\n", row.repeat(9));
    let text = "The rows of the table are counted.\n".repeat(30);
    assert_eq!(severe(&format!("{text}{table}")).1, []);
    let heavy = table.replace('│', "┃");
    assert_eq!(severe(&format!("{text}{heavy}")).1, []);
    let message = "╷\n│ Error: creating Subnet: Conflict\n│ Error: is said again here\n╵\n";
    assert_eq!(severe(&format!("{text}{message}")).1, [('E', 32, 2)]);
}

#[test]
fn rare_severities_of_other_languages_are_found() {
    for (usual, rare) in [
        ("INFORMATION", ["SCHWERWIEGEND", "WARNUNG"]),
        ("INFO", ["ALLVARLIG", "VARNING"]),
        ("INFO", ["GRAVE", "ADVERTENCIA"]),
        ("INFO", ["GRAVE", "AVVERTENZA"]),
        ("LOG", ["FEHLER", "WARNUNG"]),
    ] {
        let level = |at| match at {
            5_003 => rare[0],
            7_003 => rare[1],
            _ => usual,
        };
        let log: String = (0..10_000)
            .map(|at| format!("02-Jan-2026 10:00:00.123 {} [main] a.b.C.d x\n", level(at)))
            .collect();
        assert_eq!(severe(&log), (Kind::Log, vec![('E', 5_004, 1), ('W', 7_004, 1)]), "{rare:?}");
    }
    let log: String = (0..2_000)
        .map(|at| match at {
            1_003 => "2026-01-02 10:00:00.123 MSK [7] ОШИБКА:  нет таблицы\n".to_owned(),
            _ => "2026-01-02 10:00:00.123 MSK [7] LOG:  подключение получено\n".to_owned(),
        })
        .collect();
    assert_eq!(severe(&log), (Kind::Log, vec![('E', 1_004, 1)]));
}

#[test]
fn causes_alone_are_entries() {
    let line = |level: &str, says: &str| format!("2026-01-02 10:00:00 {level} {says}\n");
    let mut log = line("INFO", "worker: ready").repeat(9);
    log.push_str(&line("WARN", "disk: slow"));
    log.push_str(&line("ERROR", "worker: Caused by: java.io.IOException: x"));
    log.push_str(&line("ERROR", "web: request failed"));
    log.push_str(&line("ERROR", "web: Caused by: java.io.IOException: y"));
    log.push_str(&line("ERROR", "web: at a.b.C(D.java:1)"));
    assert_eq!(severe(&log), (Kind::Log, vec![('W', 10, 1), ('E', 11, 1), ('E', 12, 3)]));
}

#[test]
fn verdicts_of_builds_are_errors() {
    for verdict in ["BUILD FAILED", "** BUILD FAILED **"] {
        let text = format!("compile:\n    [javac] 3 files\n\n{verdict}\nTotal time: 1 second\n");
        assert_eq!(severe(&text).1, [('E', 4, 1)], "{verdict}");
    }
}
