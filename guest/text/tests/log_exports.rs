//! Errors and warnings of logs that were exported as tables, of records of several lines, and of
//! texts in other languages.
#![allow(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

mod style_check;

use context_guard_text::kind::Kind;
use style_check::{check, severe};

#[test]
fn exported_tables_are_logs() {
    let mut csv = "Id;Fecha;Hora;Equipo;Mensaje;Nivel\n".to_owned();
    for at in 0..60 {
        let (message, level) = match at {
            20 => ("Fallo de comunicación", "ERROR"),
            40 => ("Reloj desincronizado", "ADVERTENCIA"),
            _ => ("Orden enviada, errores=0", "INFORMACIÓN"),
        };
        csv.push_str(&format!("{at};10/06/2021;00:00:{at:02},1;PLC-{at};{message};{level}\n"));
    }
    assert_eq!(severe(&csv), (Kind::Log, vec![('E', 22, 1), ('W', 42, 1)]));
}

#[test]
fn objects_may_have_spaces() {
    let log: String = (0..60)
        .map(|at| {
            let priority = if at == 30 { 3 } else { 6 };
            format!(
                "{{ \"__REALTIME_TIMESTAMP\" : \"15348602{at:02}113419\", \"PRIORITY\" : \
                 \"{priority}\", \"MESSAGE\" : \"errors 0\" }}\n"
            )
        })
        .collect();
    assert_eq!(severe(&log), (Kind::Log, vec![('E', 31, 1)]));
}

#[test]
fn levels_of_other_languages_follow_lines_with_times() {
    let log: String = (0..160)
        .map(|at| {
            let (class, text) = match at {
                70 => ("Annuaire joindre", "GRAVE: Impossible de joindre le serveur"),
                90 => ("Filtre filtrer", "AVERTISSEMENT: Temps trop long"),
                at if at % 3 == 0 => ("Config charger", "CONFIG: Propriété a"),
                _ => ("Cache lire", "INFOS: 0 erreur"),
            };
            format!("janv. 12, 2013 9:{:02}:{:02} AM fr.{class}\n{text}\n", at / 60, at % 60)
        })
        .collect();
    let (kind, found) = severe(&log);
    let levels: Vec<char> = found.iter().map(|entry| entry.0).collect();
    assert_eq!((kind, levels), (Kind::Log, vec!['E', 'W']));
}

#[test]
fn level_words_of_many_languages_are_found() {
    for (error, warning, info) in [
        ("エラー", "警告", "情報"),
        ("致命的", "注意", "デバッグ"),
        ("错误", "警告", "信息"),
        ("오류", "경고", "정보"),
        ("ОШИБКА", "ПРЕДУПРЕЖДЕНИЕ", "ИНФО"),
        ("BŁĄD", "OSTRZEŻENIE", "INFORMACJA"),
        ("FOUT", "WAARSCHUWING", "INFORMATIE"),
        ("KRITISK", "VARNING", "INFORMATION"),
        ("CHYBA", "VAROVÁNÍ", "INFO"),
        ("HATA", "UYARI", "BILGI"),
    ] {
        check(error, |at, level, says| {
            let word = match level {
                "error" => error,
                "warn" => warning,
                _ => info,
            };
            format!("2026/01/02 10:00:{at:02}.123\t[{word}]\tAP01\t{says}")
        });
    }
}

#[test]
fn records_name_their_message_below() {
    let log: String = (0..30)
        .map(|at| {
            let (level, text) = match at {
                10 => ("Error", "MESSAGE : ADM1823E  The active log is full"),
                20 => ("Severe", "RETCODE : ZRC=0x86020001 \"page is bad\""),
                _ => ("Info", "MESSAGE : Backup complete."),
            };
            format!(
                "2019-05-18-14.25.{at:02}.563291-240 I{at}E673            LEVEL: {level}\n\
                 PID     : 3228                 PROC : db2sysc 0\nINSTANCE: db2inst1\n\
                 EDUID   : 98\nFUNCTION: DB2 UDB, probe:10\n{text}\n\n"
            )
        })
        .collect();
    let found = context_guard_text::log_entry::severe_entries(
        &context_guard_text::lines::IndexedText::new(
            log.as_bytes(),
            context_guard_json::text::Form::Raw,
        ),
    );
    let says = |at: usize| String::from_utf8_lossy(&found.entries[at].says).into_owned();
    assert_eq!(found.entries.len(), 2, "{log}");
    assert!(says(0).ends_with("The active log is full"), "{}", says(0));
    assert!(says(1).ends_with("\"page is bad\""), "{}", says(1));
}

#[test]
fn marks_of_redis_follow_the_name_of_a_container() {
    let log: String = (0..60)
        .map(|at| {
            let mark = if at == 50 { "#" } else { "*" };
            format!("redis-1   | 1:M 25 Apr 2024 06:00:{at:02}.123 {mark} DB saved, 0 errors\n")
        })
        .collect();
    assert_eq!(severe(&log), (Kind::Log, vec![('W', 51, 1)]));
}

#[test]
fn reports_of_engines_and_build_tools_are_found() {
    let filler = "Loading resource: res://scenes/a.tres with 0 errors\n".repeat(9);
    for (report, expected) in [
        ("SCRIPT ERROR: Parse Error: Identifier \"a\" is not declared\n", ('E', 10, 1)),
        ("USER WARNING: the node a is not in the tree\n", ('W', 10, 1)),
        ("Package hyperref Warning: Token not allowed in a PDF string\n", ('W', 10, 1)),
        ("! Missing $ inserted.\n<inserted text>\n                $\nl.74 a\n", ('E', 10, 1)),
        (
            "FAILURE: Build failed with an exception.\n\n* What went wrong:\nExecution failed \
             for task ':a'.\n",
            ('E', 10, 4),
        ),
    ] {
        let text = format!("{filler}{report}{filler}");
        assert_eq!(severe(&text).1, [expected], "{report}");
    }
}

#[test]
fn crashes_between_entries_are_errors() {
    let log: String = (0..60)
        .map(|at| match at {
            30 => "RequestId: 0320 Error: Runtime exited with error: signal: killed\n".to_owned(),
            at => format!("2023-06-02T00:00:{at:02}.123Z\tb{at}\tINFO\t0 errors\n"),
        })
        .collect();
    assert_eq!(severe(&log), (Kind::Log, vec![('E', 31, 1)]));
}

#[test]
fn codes_of_operating_systems_and_products_are_severities() {
    let filler = "%%%%%%%%%%%  OPCOM   4-Feb-2017 22:09:55.81  %%%%%%%%%%%\nMessage from user A\n";
    let filler = filler.repeat(9);
    for (report, expected) in [
        ("%TCPIP-E-DISCONNECT, connection lost\n", Some('E')),
        ("%JBC-W-RESTARTS, symbiont restarted\n", Some('W')),
        ("%JBC-S-NORMAL, job completed\n", None),
    ] {
        let found = severe(&format!("{filler}{report}{filler}")).1;
        assert_eq!(found.first().map(|entry| entry.0), expected, "{report}");
    }
    let job = |id: &str, kind: &str, number: &str, at: usize| {
        format!(
            "{id}    {kind:<23} {number}   01/19/24  14:59:{at:02}.927337  PAYRPG  PAYLIB\n\
             {:37}Message . . . . :   Text {at}.\n",
            ""
        )
    };
    let mut log = String::new();
    for at in 0..30 {
        log.push_str(&match at {
            10 => job("MCH1202", "Escape", "40", at),
            20 => job("CPF0907", "Diagnostic", "20", at),
            _ => job("CPI1125", "Information", "00", at),
        });
    }
    assert_eq!(severe(&log), (Kind::Log, vec![('E', 21, 2), ('W', 41, 2)]));
}

#[test]
fn letters_of_some_entries_are_severities() {
    let log: String = (0..60)
        .map(|at| {
            let (letter, text) = match at {
                20 => ('E', "SRVE0068E: An exception was thrown"),
                40 => ('W', "J2CA0206W: A connection error occurred"),
                at if at % 3 == 0 => ('I', "SRVE0242I: Initialization successful"),
                _ => ('O', "order processed, errors=0"),
            };
            format!(
                "[9/3/24 13:23:{at:02}:671 CET] 000000{at:02} SystemOut     {letter}   {text}\n"
            )
        })
        .collect();
    assert_eq!(severe(&log), (Kind::Log, vec![('E', 21, 1), ('W', 41, 1)]));
}

#[test]
fn aligned_times_begin_entries() {
    for line in [
        "  95.5{at}7 {level} A.cpp:92: {text}",
        "  2019-12-15T07:54:{at}.195Z {level} a::b: {text}",
    ] {
        let log: String = (10..60)
            .map(|at| {
                let (level, text) = match at {
                    20 => ("Error", "failed"),
                    40 => ("Warning", "slow"),
                    _ => ("Info", "0 errors"),
                };
                let line = line.replace("{at}", &at.to_string()).replace("{text}", text);
                format!("{}\n", line.replace("{level}", level))
            })
            .collect();
        assert_eq!(severe(&log).1, [('E', 11, 1), ('W', 31, 1)], "{log}");
    }
}

#[test]
fn messages_of_make_and_translated_compilers_are_found() {
    let filler = "  CC       src/error_254.o\n# PASS:  59  # FAIL:  0  # ERROR: 0\n".repeat(9);
    for (report, level) in [
        ("make[2]: *** Ingen regel att skapa a.  Stannar.\n", 'E'),
        ("a.c:633:7: varning: implicit deklaration av funktionen x\n", 'W'),
        ("a.c:633:7: Fehler: unbekannter Typname in Zeile x\n", 'E'),
    ] {
        let found = severe(&format!("{filler}{report}{filler}")).1;
        assert_eq!(found, [(level, 19, 1)], "{report}");
    }
}
