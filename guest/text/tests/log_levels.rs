//! Severities that stand in unusual words, letters, signs and numbers, and texts that have similar
//! ones.
#![allow(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

mod style_check;

use context_guard_json::text::Form;
use context_guard_text::kind::Kind;
use context_guard_text::lines::IndexedText;
use context_guard_text::log_entry::severe_entries;
use style_check::{check, letter, number, severe, title};

/// Returns the word for a level: that of errors, of warnings, and so on.
fn word<'w>(level: &str, words: [&'w str; 4]) -> &'w str {
    words[usize::from(number(level, [0, 1, 2, 3]))]
}

#[test]
fn abbreviations_and_alarms() {
    check("Aruba", |at, level, says| {
        let word = word(level, ["ERRS", "WARN", "NOTI", "DBUG"]);
        format!("Jan  2 10:00:{at:02} 2026 ctrl stm[{at}]: <1{at}> <{word}> |AP a|  {says}")
    });
    check("ZoneMinder", |at, level, says| {
        let word = word(level, ["ERR", "WAR", "INF", "DB1"]);
        format!("01/02/26 10:00:{at:02}.123456 zmc[7].{word}-zm_monitor/{at} [{says}]")
    });
    check("alarms", |at, level, says| {
        let word = word(level, ["MAJOR", "MINOR", "CLEARED", "INDETERMINATE"]);
        let word = if at % 16 == 3 { "CRITICAL" } else { word };
        format!("{at} 2026/01/02 10:00:{at:02}.12 UTC {word}: PORT #2001 Base {says}")
    });
    check("columns of a table", |at, level, says| {
        let word = word(level, ["high", "medium", "informational", "low"]);
        let word = if at % 16 == 3 { "critical" } else { word };
        format!("1,2026/01/02 10:00:{at:02},SYSTEM,vpn,0,,general,{word},\"{says}\",0x0")
    });
    check("parts of names", |at, level, says| {
        format!("2026-01-02 10:00:{at:02} +02 - [{}-Main.Put]: {says}", title(level))
    });
    check("grades", |at, level, says| {
        let word = word(level, ["ERROR", "WARNING", "INFO", "VERBOSE1"]);
        format!("[12:34:0102/1000{at:02}.123456:{word}:a.cc({at})] {says}")
    });
    check("start of a system", |_, level, says| {
        let word = word(level, ["FAILED", " WARN ", "  OK  ", "  OK  "]);
        format!("[{word}] {says}.")
    });
}

#[test]
fn letters_in_columns() {
    check("lower case", |at, level, says| {
        let letter = letter(level).to_lowercase();
        format!(
            "[{at}]{{-1}}[-1/-1] 2026-01-02 10:00:{at:02}.123 {letter} Basis  a.cpp(0{at}) : {says}"
        )
    });
    check("lower case with a grade", |at, level, says| {
        let letter = letter(level).to_lowercase();
        format!("[01/02/2026 10:00:{at:02}] [{letter}(0)] core: {says}")
    });
    check("before the time", |at, level, says| {
        format!("{}. 01/02 10:00:{at:02}. {says}", letter(level))
    });
    check("without a time", |at, level, says| {
        format!("( {at}.710|   0.123) {}: [main] a.c: {says}", letter(level))
    });
    check("only severe entries", |at, level, says| {
        let letter = word(level, ["(E)", "(W)", "   ", "   "]);
        format!("10:00:{at:02}.123 SCRIPT    {letter}: {says}")
    });
    check("after the time", |at, level, says| {
        let letter = word(level, ["E:", "W:", " :", "i:"]);
        format!("[10:00:{at:02}]{letter}\t {says}")
    });
    check("codes of messages", |at, level, says| {
        format!("01/02/2026 10:00:{at:02}  ANR{at:04}{} {says}", word(level, ["E", "W", "I", "I"]))
    });
}

#[test]
fn signs_before_messages() {
    check("brackets", |_, level, says| {
        format!("{} {says}", word(level, ["[-]", "[!]", "[*]", "[+]"]))
    });
    check("symbols", |_, level, says| format!("{} {says}", word(level, ["✖", "⚠️", "ℹ", "✔"])));
    check("symbols after the time", |at, level, says| {
        format!("[10:00:{at:02}] {} {says}", word(level, ["❌", "⚠", "ℹ️", "✅"]))
    });
    check("SQL Server's agent", |at, level, says| {
        format!("2026-01-02 10:00:{at:02} - {} [{at}] {says}", word(level, ["!", "+", "?", "?"]))
    });
}

#[test]
fn pairs_of_many_names() {
    check("numbers of syslog", |at, level, says| {
        let level = number(level, [3, 4, 6, 6]);
        format!("id=fw sn=1 time=\"2026-01-02 10:00:{at:02}\" pri={level} msg=\"{says}\" n={at}")
    });
    check("severity", |at, level, says| {
        let level = number(level, [3, 4, 6, 7]);
        format!("Jan  2 10:00:{at:02} fw iked[{at}]: severity={level} msg_id=\"{at}\" {says}")
    });
    check("severities of events", |at, level, says| {
        let level = number(level, [9, 5, 2, 1]);
        format!("Jan  2 10:00:{at:02} ids LEEF:1.0|V|IPS|5.1|{at}|src=a\tsev={level}\tmsg={says}")
    });
    check("words", |at, level, says| {
        let level = word(level, ["Alert", "Warning", "Notice", "Information"]);
        format!("date=2026-01-02 time=10:00:{at:02} priority={level} message=\"{says}\"")
    });
    check("numbers from 0", |at, level, says| {
        let level = number(level, [3, 2, 1, 0]);
        format!(r#"{{"level":{level},"time":"2026-01-02T10:00:{at:02}Z","message":"{says}"}}"#)
    });
}

#[test]
fn numbers_without_a_name() {
    check("details", |at, level, says| {
        format!("2026.01.02 10:00:{at:02} {}: {says}", number(level, [1, 2, 3, 4]))
    });
    check("powers of two", |at, level, says| {
        let number = number(level, [16, 8, 4, 2]);
        format!("10:00:{at:02}.123 [7.{at}] <{number}> bptm: {says}")
    });
    check("syslog", |at, level, says| {
        let number = number(level, [3, 4, 6, 6]);
        format!("Jan  2 10:00:{at:02} 2026 12{at} {number} 10.1 lim: {says}")
    });
}

#[test]
fn unusual_signs_around_words() {
    check("hash", |at, level, says| format!("10:00:{at:02} #{} {says}", level.to_uppercase()));
    check("tilde", |at, level, says| format!("10:00:{at:02} ~{level}~ {says}"));
    check("columns in German", |at, level, says| {
        let word = word(level, ["Fehler", "Warnung", "Information", "Information"]);
        format!("{at};02.01.2026;10:00:{at:02};{word};SPS;\"{says}\"")
    });
    check("numbers of levels", |at, level, says| {
        let number = number(level, [3, 4, 6, 7]);
        format!("2026-01-02T10:00:{at:02}Z level={number} facility=3 {says}")
    });
}

#[test]
fn severities_in_names() {
    check("underscore", |at, level, says| {
        let word = word(level, ["ERROR", "WARN", "INFO", "INFO"]);
        format!("2026-01-02 10:00:{at:02} EVT_{word} plc {says}")
    });
    check("GLib", |at, level, says| {
        let word = word(level, ["CRITICAL", "WARNING", "DEBUG", "Message"]);
        format!("(gedit:{at}): Gtk-{word} **: 10:00:{at:02}.123: {says}")
    });
    check("compound", |at, level, says| {
        let word = word(level, ["Error", "Warning", "Info", "Info"]);
        format!("2026-01-02 10:00:{at:02} Net{word}: {says}")
    });
    check("only errors", |at, level, says| {
        let word = word(level, ["LOG_ERROR::", "LOG_WARNING::", "", ""]);
        format!("01/02/2026 10:00:{at:02};0001;server.7;Svr;{word}{says}")
    });
}

#[test]
fn reports_of_engineering_tools() {
    let report = "  12     1     0     3\n ***WARNING: element is distorted\n  13     1     0     4\n *** USER FATAL MESSAGE 9050 (X7)\n     no such node\n";
    let rest =
        "--> FOAM Warning : \n    bad mesh\n%Error-WIDTH: a.v:7: too wide\nWarning 1: no index\n";
    let expected = [
        " ***WARNING: element is distorted",
        " *** USER FATAL MESSAGE 9050 (X7) no such node",
        "--> FOAM Warning :  bad mesh",
        "%Error-WIDTH: a.v:7: too wide",
        "Warning 1: no index",
    ];
    assert_eq!(says(&format!("{report}{rest}")), expected);
}

/// Returns the first lines of the severe entries of a text.
fn says(text: &str) -> Vec<String> {
    let text = IndexedText::new(text.as_bytes(), Form::Raw);
    let entries = severe_entries(&text).entries;
    entries.iter().map(|entry| String::from_utf8_lossy(&entry.says).into_owned()).collect()
}

#[test]
fn records_of_several_lines() {
    let record = |at: usize, level: &str, message: &str| {
        format!(
            "_CURSOR={at}\n_TIME=17673480{at:02}000000\nPRIORITY={level}\n_PID=7\nMESSAGE={message}\n\n"
        )
    };
    let journal = |at| match at {
        7 => record(at, "3", "disk lost"),
        9 => record(at, "4", "disk slow"),
        _ => record(at, "6", "no error"),
    };
    let journal: String = (0..20).map(journal).collect();
    assert_eq!(says(&journal), ["PRIORITY=3 MESSAGE=disk lost", "PRIORITY=4 MESSAGE=disk slow"]);
    let record = |at: usize, level: &str, message: &str| {
        format!(
            "Event[{at}]:\n  Date: 2026-01-02T10:00:{at:02}\n  Level: {level}\n  Task: N/A\n  Description: \n{message}\n\n"
        )
    };
    let events = |at| record(at, if at == 7 { "Error" } else { "Information" }, "disk state");
    let events: String = (0..20).map(events).collect();
    assert_eq!(says(&events), ["  Level: Error disk state"]);
    let record = |at: usize| {
        let level = if at == 7 { "Error" } else { "Information" };
        format!(
            "TimeCreated      : 1/2/2026 10:00:{at:02} AM\nId               : {at}\n\
             LevelDisplayName : {level}\nMessage          : disk state\n\n"
        )
    };
    let events: String = (0..20).map(record).collect();
    assert_eq!(says(&events), ["LevelDisplayName : Error Message          : disk state"]);
    // The settings of a program have no times.
    let settings = "- name: a\n  path: /b\n  file: /c\n  level: info\n- name: b\n  path: /c\n  file: /d\n  level: error\n";
    assert_eq!(severe(&settings.repeat(20)).1, []);
}

#[test]
fn messages_in_the_line_below() {
    let entry = |at: usize| {
        let level = if at == 7 { "Error" } else { "Info" };
        format!(
            "[Fri Jan  2 10:00:{at:02} 2026]Local/DB0///12/{level}(101{at})\nmessage of {at}\n\n"
        )
    };
    let essbase: String = (0..20).map(entry).collect();
    assert_eq!(
        says(&essbase),
        ["[Fri Jan  2 10:00:07 2026]Local/DB0///12/Error(1017) message of 7"]
    );
    let entry = |at: usize| {
        let level = if at == 7 { "ERROR" } else { "INFO" };
        format!(
            "<event time=\"17673480{at:02}\" level=\"{level}\">\n<message>of {at}</message>\n</event>\n"
        )
    };
    let events: String = (0..20).map(entry).collect();
    let expected = "<event time=\"1767348007\" level=\"ERROR\"> <message>of 7</message>";
    assert_eq!(says(&events), [expected]);
    let entry = |at: usize| {
        let time = format!("2026-01-02 10:00:{at:02}.12 spid7");
        let error = format!("{time}     Error: 18456, Severity: 14, State: 8.\n");
        format!("{}{time}     message of {at}\n", if at == 7 { &error } else { "" })
    };
    let server: String = (0..20).map(entry).collect();
    let expected = "2026-01-02 10:00:07.12 spid7     Error: 18456, Severity: 14, State: 8. spid7     \
                    message of 7";
    assert_eq!(says(&server), [expected]);
    let entry = |at: usize| {
        let letter = if at == 7 { "E" } else { "I" };
        format!(
            "01/02/2026 10:00:{at:02} AM - Process(1.{at}) User(mqm)\n    Host(a)\n\nAMQ99{at:02}{letter}: message of {at}.\n\nACTION:\nNone.\n-----\n"
        )
    };
    let codes: String = (0..20).map(entry).collect();
    assert_eq!(says(&codes), ["AMQ9907E: message of 7."]);
}

#[test]
fn rare_severities_of_other_languages() {
    let line = |at: usize| {
        let level = if at == 700 { "AVISO" } else { "INFO" };
        format!("02/01/2026 10:00:00 [{level}] message {at}\n")
    };
    let log: String = (0..1000).map(line).collect();
    assert_eq!(says(&log), ["02/01/2026 10:00:00 [AVISO] message 700"]);
}

#[test]
fn similar_texts_have_no_errors() {
    let texts = [
        "2026-01-02 10:00:00 Copy C:\\data to D:\\data\n2026-01-02 10:00:01 Move D:\\a to C:\\b\n",
        "10:00:00 job=7 priority=1 started\n10:00:01 job=8 priority=3 started\n",
        "10:00:00 priority high for ticket 7\n10:00:01 minor change of ticket 8\n",
        "- ✅ works\n- ❌ does not work\n- ⚠️ works in part\n",
        "[x] done\n[ ] to do\n[-] dropped\n[!] urgent\n",
        "AMQ9001I: started.\nAMQ9002E: failed.\nAMQ9003W: slow.\n",
        "| a | Major |\n| b | Minor |\n| c | Normal |\n",
        "N 7 miles\nE 3 miles\nW 2 miles\nS 1 mile\n",
        "I. First\nV. Fifth\nC. Hundredth\nD. Last\n",
        "10:00:00 level=6 tank\n10:00:01 level=3 tank\n10:00:02 level=5 tank\n",
        "10:00:00 GET #error ok\n10:00:01 see #12 of a+error\n10:00:02 a >error b\n",
        "10:00:00 cpu 3: idle\n10:00:01 cpu 1: idle\n10:00:02 cpu 4: idle\n",
        "10:00:00 1: one\n10:00:01 2: two\n10:00:02 3: three\n10:00:03 4: four\n",
        "10:00:00 MAX_ERROR is 7\n10:00:01 the NetError: value\n10:00:02 set LOG_ERR to 3\n",
        "{\"id\":1,\"level\":3,\"name\":\"a\"}\n{\"id\":2,\"level\":0,\"name\":\"b\"}\n",
    ];
    for text in texts {
        let (kind, entries) = severe(&text.repeat(20));
        assert_eq!(entries, [], "{kind:?} {text}");
    }
    assert_ne!(severe(&texts[4].repeat(20)).0, Kind::Log);
}

/// Returns the numbers of the severe lines of a log of 40 lines, from 0.
fn severe_lines(line: impl Fn(usize) -> String) -> Vec<usize> {
    let text: String = (0..40).map(|at| line(at) + "\n").collect();
    let text = IndexedText::new(text.as_bytes(), Form::Raw);
    let found = severe_entries(&text);
    assert_eq!(found.kind, Kind::Log);
    found.entries.iter().map(|entry| entry.line).collect()
}

#[test]
fn levels_in_messages_are_no_severities() {
    let messages = [
        "fetched https://x.org/a?level=error in 1 ms",
        "fetched https://x.org/a?page=1&severity=critical in 1 ms",
        "GET /logs/level=error",
        "filter level=error id 7",
        "sent {\"level\":\"error\"} to x",
    ];
    for message in messages {
        let lines = |level: &dyn Fn(usize) -> String| {
            severe_lines(|at| format!("2026-01-02 10:00:{at:02} {} {message}", level(at)))
        };
        let level = |at| if at == 30 { "ERROR" } else { "INFO" };
        assert_eq!(lines(&|at| level(at).to_owned()), [30], "{message}");
        assert_eq!(lines(&|at| format!("[{}]", level(at))), [30], "{message}");
        assert_eq!(lines(&|at| format!("app[{at}]: level={}", level(at))), [30], "{message}");
    }
    // The words before a level field are no severities there.
    let field = |at: usize| {
        let level = if at == 30 { "error" } else { "info" };
        format!("2026-01-02 10:00:{at:02} error-service x level={level} msg=\"no ERROR\"")
    };
    assert_eq!(severe_lines(field), [30]);
}

#[test]
fn statuses_of_access_logs_are_severities() {
    for request in ["GET /logs?level=error&page=1", "GET /x?level=info", "GET /error"] {
        let line = |at: usize| {
            let status = [200, 404, 201, 301].get(at % 4).copied().unwrap_or(500);
            let status = if at == 30 { 503 } else { status };
            let time = format!("02/Jan/2026:10:00:{at:02} +0000");
            format!("10.0.0.{at} - - [{time}] \"{request} HTTP/1.1\" {status} {at}")
        };
        assert_eq!(severe_lines(line), [30], "{request}");
    }
    // The level of a line decides.
    let line =
        |at: usize| format!("INFO [2026-01-02 10:00:{at:02}] \"GET / HTTP/1.1\" 50{} {at}", at % 2);
    assert_eq!(severe_lines(line), [0; 0]);
}
