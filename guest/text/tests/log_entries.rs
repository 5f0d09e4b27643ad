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

/// Returns the line, the length and the first line of each severe entry.
fn severe_entries_of(text: &str) -> Vec<(usize, usize, String)> {
    let text = IndexedText::new(text.as_bytes(), Form::Raw);
    let says = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let found = severe_entries(&text);
    found.entries.iter().map(|x| (x.line + 1, x.length, says(&x.says))).collect()
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

/// Checks that the rare errors and warnings of a log are found. `line` writes a line with one of
/// `levels`: those of errors, of warnings, and of other entries.
fn check(name: &str, levels: [&str; 3], line: impl Fn(usize, &str) -> String) {
    let log: String = (0..600)
        .map(|at| match at {
            303 | 504 => line(at, levels[0]) + " refused 7\n",
            405 => line(at, levels[1]) + " slow 7\n",
            _ => line(at, levels[2]) + " done with 0 errors\n",
        })
        .collect();
    let expected = vec![('E', 304, 1), ('W', 406, 1), ('E', 505, 1)];
    assert_eq!(severe(&log), (Kind::Log, expected), "{name}: {log:.300}");
}

#[test]
fn rare_severities_of_products() {
    let clock = |at: usize| format!("10:{:02}:{:02}", at / 60, at % 60);
    check("ESXi", ["Er(179)", "Wa(180)", "In(182)"], |at, level| {
        format!("2026-01-02T{}.123Z {level} vmkernel: cpu3:2097)NMP:", clock(at))
    });
    check("iOS", ["F ", "W ", "Df"], |at, level| {
        format!("2026-01-02 {}.123 {level} app[12:ab] [com.a.b:c]", clock(at))
    });
    check("macOS", ["Fault", "Warning", "Default"], |at, level| {
        format!("2026-01-02 {}.1+0100 0x1a2b {level:<11} 0x0  12 0 kernel: (A)", clock(at))
    });
    check("CockroachDB", ["E", "W", "I"], |at, level| {
        format!("{level}260102 {}.123456 12 server/x.go:7 ⋮ [n1] 45 ", clock(at))
    });
    check("Minecraft", ["ERROR", "WARN", "INFO"], |at, level| {
        format!("[{}] [Server thread/{level}]:", clock(at))
    });
    check("SQL Server", ["Error:", "Warning:", ""], |at, level| {
        format!("2026-01-02 {}.12 spid52      {level}", clock(at))
    });
    check("Telegraf", ["E!", "W!", "I!"], |at, level| {
        format!("2026-01-02T{}Z {level} [inputs.snmp]", clock(at))
    });
    check("RouterOS", ["system,error,critical", "system,warning", "system,info"], |at, level| {
        format!("jan/02/2026 {} {level}", clock(at))
    });
    check("Unreal Engine", [" Error:", " Warning:", ""], |at, level| {
        format!("[2026.01.02-{}:123][{:3}]LogNet:{level}", clock(at).replace(':', "."), at % 99)
    });
    check("CEF", ["8", "5", "2"], |at, level| {
        format!("Jan  2 {} host CEF:0|A|B|1.0|7|name|{level}|src=1", clock(at))
    });
    check("PAN-OS", ["critical", "warning", "informational"], |at, level| {
        let time = format!("2026/01/02 {}", clock(at));
        format!("1,{time},0123,SYSTEM,general,0,{time},,general,,0,0,general,{level},\"x\",{at}")
    });
}

#[test]
fn words_of_messages_are_no_severities() {
    let clock = |at: usize| format!("10:{:02}:{:02}", at / 60, at % 60);
    // Some entries have a level that is none of the known ones.
    let log = |at: usize, level: &str, other: &str| match at % 5 {
        2 => format!("2026-01-02 {} [api] {other}: polling the FATAL queue ends", clock(at)),
        1 => format!("2026-01-02 {} [api] info: error rate is low", clock(at)),
        _ => format!("2026-01-02 {} [api] {level}:", clock(at)),
    };
    check("unknown level", ["error", "warn", "info"], |at, level| log(at, level, "http"));
    check("no level", ["error:", "warning:", "debug:"], |at, level| match at % 5 {
        1 => format!("[2026-01-02T{}.123] error rate is low", clock(at)),
        _ => format!("[2026-01-02T{}.123] {level}", clock(at)),
    });
    check("configuration", ["E", "W", "I"], |at, level| match at % 5 {
        1 => format!("[{}][C][sensor:012]:", clock(at)),
        _ => format!("[{}][{level}][sensor:012]:", clock(at)),
    });
    check("function", ["E", "W", "I"], |at, level| {
        format!("2026/01/02 {} ...routers/x.go:7:F() [{level}]", clock(at))
    });
}

#[test]
fn reports_after_lines_with_times_are_found() {
    let mut log = String::new();
    for at in 0..200 {
        log.push_str(&format!("2026-01-02T10:{:02}:{:02}.123456+01:00\n", at / 60, at % 60));
        log.push_str(match at {
            150 => "ORA-00600: internal error code\nORA-06512: at \"A.B\", line 7\n",
            160 => "WARNING: Heavy swapping observed\n",
            170 => "\nFatal NI connect error 12170.\n\n  Time: now\n",
            _ => "Thread 1 advanced to log sequence 7\n",
        });
    }
    let expected = vec![('E', 302, 2), ('W', 323, 1), ('E', 344, 2)];
    assert_eq!(severe(&log), (Kind::Log, expected));
}

#[test]
fn fatal_errors_of_programs_are_found() {
    let mut text = "unchanged /data/error/file.txt\n".repeat(60);
    text.push_str("Fatal: unable to save snapshot: canceled\n");
    text.push_str("a.c:1:10: fatal error: x.h: No such file\n");
    assert_eq!(severe(&text).1, [('E', 61, 1), ('E', 62, 1)]);
}

#[test]
fn reports_of_tools_are_found() {
    let text = "src/a is checked without any problem\n".repeat(40);
    for (report, expected) in [
        ("  12:5  error  x is not defined  no-undef\n", 'E'),
        ("  12:5   warning  x is unused  no-unused\n", 'W'),
        ("  error • x is not defined • lib/a.dart:1:5 • undefined\n", 'E'),
        ("warning • x is unused • lib/a.dart:1:5 • unused\n", 'W'),
        (" WARN  deprecated a@1.0.0\n", 'W'),
        ("e: file:///src/a.kt:7:5 unresolved reference\n", 'E'),
        ("ld: warning: cannot find entry symbol\n", 'W'),
        ("collect2: error: ld returned 1 exit status\n", 'E'),
        ("CMake Error at CMakeLists.txt:7 (find_package):\n", 'E'),
        ("/a/b.py:7: UserWarning: the value is old\n", 'W'),
        ("LaTeX Warning: Reference a is undefined on line 7.\n", 'W'),
        ("Error response from daemon: no such container\n", 'E'),
        ("E: Unable to locate package a\n", 'E'),
        ("┌ Warning: the value is old\n└ @ Main a.jl:7\n", 'W'),
    ] {
        assert_eq!(severe(&format!("{text}{report}")).1, [(expected, 41, 1)], "{report}");
    }
    for line in ["description: Warning: do not use it\n", "  1:5 error rate of all\n"] {
        assert_eq!(severe(&format!("{text}{line}")).1, [], "{line}");
    }
}

#[test]
fn traces_of_python_end_with_their_exception() {
    let trace = "Traceback (most recent call last):\n  File \"a.py\", line 7, in f\n    g()\n";
    let text = "epoch 7 ends with loss of 5\n".repeat(40);
    let text = format!("{text}{trace}ValueError: x is old\n{text}{trace}KeyError: 'y'\n");
    let found = severe_entries_of(&text);
    let expected = [
        (41, 4, "Traceback (most recent call last): ValueError: x is old".to_owned()),
        (85, 4, "Traceback (most recent call last): KeyError: 'y'".to_owned()),
    ];
    assert_eq!(found, expected);
    let session = "The result is an exception.\n".repeat(9) + ">>> f()\n" + trace + "KeyError: 7\n";
    assert_eq!(severe(&session).1, []);
}

#[test]
fn messages_below_headers_are_found() {
    let fields = "[] [a.b] [tid: _ThreadID=7] [timeMillis: 1767348000123] [levelValue: 800] [[";
    let entry = |level: &str, says: &str| {
        format!("[2026-01-02T10:00:00.123+0100] [glassfish 5.0] [{level}] {fields}\n  {says}]]\n\n")
    };
    let log = entry("INFO", "ready").repeat(20) + &entry("SEVERE", "refused");
    let found = severe_entries_of(&log);
    assert!(found[0].2.ends_with("[[ refused]]"), "{found:?}");
    let aligned = " INFO ready\n".repeat(20) + " WARN slow\nERROR refused\n";
    assert_eq!(severe(&aligned).1, [('W', 21, 1), ('E', 22, 1)]);
    let piped = " INFO | ready\n".repeat(20) + " WARN | slow\nERROR | refused\n";
    assert_eq!(severe(&piped).1, [('W', 21, 1), ('E', 22, 1)]);
}

/// Returns a log of 60 lines, of which line 21 is a warning and line 41 an error.
fn log_with(line: impl Fn(usize, usize) -> String) -> String {
    let severity = |at| match at {
        20 => 1,
        40 => 2,
        _ => 0,
    };
    (0..60).map(|at| line(at, severity(at)) + "\n").collect()
}

#[test]
fn severities_in_codes_and_last_columns_are_found() {
    let expected = (Kind::Log, vec![('E', 41, 1), ('W', 21, 1)]);
    let sorted = |text: &str| {
        let (kind, mut found) = severe(text);
        found.sort_unstable();
        (kind, found)
    };
    let x_server = log_with(|at, severity| {
        format!("[   329.{at:03}] ({}) Loading module {at}", ["II", "WW", "EE"][severity])
    });
    assert_eq!(sorted(&x_server), expected);
    let trace = log_with(|at, severity| {
        format!(
            "<![LOG[Job {at} ends]LOG]!><time=\"10:00:{at:02}.123-60\" date=\"05-07-2024\" \
             component=\"Exec\" context=\"\" type=\"{}\" thread=\"7\" file=\"a.cpp:5\">",
            severity + 1
        )
    });
    assert_eq!(sorted(&trace), expected);
    let last_column = log_with(|at, severity| {
        let words = "and more ".repeat(at % 4);
        let severity = ["Information", "Warning", "Error"][severity];
        format!("2024-05-07T10:00:{at:02}Z,web-1,77,Job {at}, {words}ends,{severity}")
    });
    assert_eq!(sorted(&last_column), expected);
}

#[test]
fn messages_of_eclipse_are_in_the_next_line() {
    let log = log_with(|at, severity| {
        format!(
            "!ENTRY org.core.jobs {} 0 2024-05-07 10:00:{at:02}.123\n!MESSAGE Job {at} ends\n",
            [1, 2, 4][severity]
        )
    });
    let says = |line: usize, at: usize, severity: usize| {
        let entry = format!("!ENTRY org.core.jobs {severity} 0 2024-05-07 10:00:{at}.123");
        (line, 2, format!("{entry} !MESSAGE Job {at} ends"))
    };
    assert_eq!(severe_entries_of(&log), [says(61, 20, 2), says(121, 40, 4)]);
}

#[test]
fn transcripts_of_simulators_are_no_documents() {
    let transcript = log_with(|at, severity| match severity {
        0 => format!("# Job {at} of the test bench"),
        1 => "# ** Warning: (vsim-8522) The number of bins is zero".to_owned(),
        _ => "# ** Error: Assertion error.".to_owned(),
    });
    assert_eq!(severe(&transcript), (Kind::Plain, vec![('W', 21, 1), ('E', 41, 1)]));
    let document = "# Title\n\n## ** Notes **\n\nText of the document.\n".repeat(4);
    assert_eq!(severe(&document), (Kind::Markdown, vec![]));
}

#[test]
fn messages_of_records_are_in_a_later_line() {
    let log = log_with(|at, severity| {
        let level = ["Info", "Warning", "Error"][severity];
        format!(
            "2024-05-07-10.00.{at:02}.123456+120 I{at}E400              LEVEL: {level}\n\
             PID     : 77                 PROC : db2sysc 0\nMESSAGE : Job {at} ends\n"
        )
    });
    let says = |line: usize, at: usize, level: &str| {
        let head =
            format!("2024-05-07-10.00.{at}.123456+120 I{at}E400              LEVEL: {level}");
        (line, 3, format!("{head} MESSAGE : Job {at} ends"))
    };
    assert_eq!(severe_entries_of(&log), [says(81, 20, "Warning"), says(161, 40, "Error")]);
}

#[test]
fn rows_of_database_dumps_are_no_entries() {
    let rows = log_with(|at, severity| {
        let level = ["info", "warning", "error"][severity];
        format!("INSERT INTO `t` VALUES ({at},'2024-06-18 14:30:{at:02}','{level}','Job ends');")
    });
    assert_eq!(severe(&rows).1, vec![]);
    let rows = log_with(|at, severity| {
        let level = ["info", "warning", "error"][severity];
        format!("{at}\t2024-06-18 14:30:{at:02}\t{level}\tJob ends")
    });
    let dump = format!("COPY public.t (id, time, level, title) FROM stdin;\n{rows}\\.\n");
    assert_eq!(severe(&dump).1, vec![]);
}

#[test]
fn statements_in_logs_are_no_database_dump() {
    let log = log_with(|at, severity| {
        let level = ["INF", "WRN", "ERR"][severity];
        format!(
            "[10:00:{at:02} {level}] Executed command (3ms)\nINSERT INTO \"Orders\" (\"Id\")\n\
             VALUES (@p0);"
        )
    });
    let found = severe(&log);
    assert_eq!((found.0, found.1.len()), (Kind::Log, 2), "{found:?}");
    let copy = "2026-01-02 10:00:00 INFO a\nCOPY t (id) FROM stdin;\n2026-01-02 10:00:01 ERROR b\n";
    let found = severe(&copy.repeat(5));
    assert_eq!((found.0, found.1.len()), (Kind::Log, 5), "{found:?}");
}

#[test]
fn levels_in_brackets_below_a_time_are_found() {
    let log = log_with(|at, severity| {
        let level = ["[INFO]", "[WARN]", "[ERROR]"][severity];
        format!("2026-01-02 10:00:{at:02}\n{level} Job {at} ends")
    });
    let levels: Vec<char> = severe(&log).1.iter().map(|entry| entry.0).collect();
    assert_eq!(levels, ['W', 'E']);
}

#[test]
fn documents_may_have_more_headings_than_other_lines() {
    let changes = "## [1.0.1]\n### Fixed\n- One.\n\n".repeat(12);
    assert_eq!(severe(&format!("# Changes\n\n{changes}")), (Kind::Markdown, vec![]));
}

#[test]
fn bodies_with_headings_are_parts_of_entries() {
    let body = "# Task\n## Rules\nAnswer in one line.\n".repeat(8);
    let entry =
        |at: usize| format!("[2026-05-15 18:19:{at:02}] local.ERROR: prompt failed\n{body}");
    let log: String = (0..6).map(entry).collect();
    let found = severe(&log);
    assert_eq!((found.0, found.1.len()), (Kind::Log, 6), "{found:?}");
}

#[test]
fn long_entries_may_follow_a_long_beginning() {
    let settings = "setting of the service\n".repeat(90);
    let entry = |at: usize| {
        format!("2026-01-02 10:00:{at:02} ERROR job {at}\n{}", "  at a.b(c)\n".repeat(10))
    };
    let log: String = (0..50).map(entry).collect();
    let found = severe(&format!("{settings}{log}"));
    assert_eq!((found.0, found.1.len()), (Kind::Log, 50));
}

#[test]
fn named_messages_before_a_level_remain() {
    let log = log_with(|at, severity| {
        let level = ["info", "warn", "error"][severity];
        format!("ts=2026-01-02T10:00:{at:02}Z msg=\"job {at} ends\" level={level}\nmessage: boom")
    });
    let text = IndexedText::new(log.as_bytes(), Form::Raw);
    let entries = severe_entries(&text).entries;
    assert_eq!(entries.len(), 2);
    for entry in entries {
        let message = entry.says.get(entry.message..entry.message_end.unwrap()).unwrap();
        assert!(message.ends_with(b" ends"));
    }
}

#[test]
fn letters_in_parentheses_are_no_severities_in_sentences() {
    let log = log_with(|at, _| {
        format!("2026-01-02 10:00:{at:02} clause {at} (II) and pictures under licence (CC) apply")
    });
    assert_eq!(severe(&log).1, vec![]);
}
