//! Errors and warnings of logs in many styles, and texts that have none.
#![allow(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

mod style_check;

use context_guard_text::kind::Kind;
use style_check::{check, letter, number, severe, title, upper};

#[test]
fn common_styles() {
    let time = |at: usize| format!("2026-01-02 10:00:{at:02}");
    check("plain", |at, level, says| format!("{} {} {says}", time(at), upper(level)));
    check("python", |at, level, says| {
        format!("{},123 - app - {} - {says}", time(at), upper(level))
    });
    check("parentheses", |at, level, says| format!("{} ({}) {says}", time(at), upper(level)));
    check("level first", |at, level, says| format!("{} {} {says}", upper(level), time(at)));
    check("no time", |_, level, says| format!("{} {says}", upper(level)));
    check("title", |at, level, says| format!("{} {} {says}", time(at), title(level)));
    check("lower", |at, level, says| format!("{} {level} {says}", time(at)));
    check("lower with a colon", |at, level, says| format!("{} {level}: {says}", time(at)));
    check("epoch", |at, level, says| format!("17673480{at:02} {} {says}", upper(level)));
    check("epoch in ms", |at, level, says| format!("17673480{at:02}123 [{level}] {says}"));
    check("epoch with fraction", |at, level, says| format!("17673480{at:02}.123 {level} {says}"));
    check("journald", |at, level, says| {
        format!("Jan  2 10:00:{at:02} host app[12]: {} {says}", upper(level))
    });
    check("GitHub Actions", |at, level, says| {
        let mark = match level {
            "error" => "##[error]",
            "warn" => "##[warning]",
            _ => "",
        };
        format!("{}Z {mark}{says}", time(at)).replacen(' ', "T", 1)
    });
}

#[test]
fn prefixed_styles() {
    let time = |at: usize| format!("2026-01-02T10:00:{at:02}Z");
    let service = |at: usize| ["web_1  ", "db_1   ", "cache_1"][at % 3];
    check("docker compose", |at, level, says| {
        format!("{} | {} {} {says}", service(at), time(at), upper(level))
    });
    check("docker compose without times", |at, level, says| {
        format!("{} | {}: {says}", service(at), upper(level))
    });
    check("kubectl logs --prefix", |at, level, says| {
        format!("[pod/web-7d9f-x{}k/app] {} {} {says}", at % 3, time(at), upper(level))
    });
    check("stern", |at, level, says| format!("web-7d9f app {} {} {says}", time(at), upper(level)));
    check("file first", |at, level, says| format!("web.log:{} {} {says}", time(at), upper(level)));
    check("OpenStack", |at, level, says| {
        let time = time(at).replace(['T', 'Z'], " ");
        format!(
            "nova.log.1.2017-05-16_13:53:08 {time}25746 {} nova [req-{at}] {says}",
            upper(level)
        )
    });
    check("container runtime", |at, level, says| {
        format!("{} stdout F {} {says}", time(at), upper(level))
    });
    check("pino in docker compose", |at, level, says| {
        let level = number(level, [50, 40, 30, 20]);
        format!("{} | {{\"level\":{level},\"time\":{at},\"msg\":\"{says}\"}}", service(at))
    });
}

#[test]
fn coloured_styles() {
    check("escape codes", |at, level, says| {
        format!("\x1b[2m10:00:{at:02}\x1b[0m \x1b[31m{:>5}\x1b[0m app: {says}", upper(level))
    });
    check("lost escape characters", |at, level, says| {
        format!("[32m{}[0m 10:00:{at:02} {says}", upper(level))
    });
}

#[test]
fn styles_of_servers() {
    check("Apache", |at, level, says| {
        format!("[Sun Dec 04 04:47:{at:02} 2005] [{level}] [client 1.2.3.4] {says}")
    });
    check("Apache 2.4", |at, level, says| {
        format!("[Sun Dec 04 04:47:{at:02}.123 2005] [core:{level}] [pid {at}] {says}")
    });
    check("HDFS", |at, level, says| {
        format!("081109 2036{:02} 148 {} dfs.DataNode: {says}", at + 10, upper(level))
    });
    check("BGL", |at, level, says| {
        let level = upper(level).replace("ERROR", "SEVERE");
        format!(
            "- 11178385{at:02} 2005.06.03 R02-M1 2005-06-03-15.42.50 R02 RAS KERNEL {level} {says}"
        )
    });
    check("PostgreSQL", |at, level, says| {
        let level =
            ["ERROR", "WARNING", "LOG", "STATEMENT"][usize::from(number(level, [0, 1, 2, 3]))];
        format!("2026-01-02 10:00:{at:02}.123 UTC [{at}] {level}:  {says}")
    });
    check("MySQL", |at, level, says| {
        let level =
            ["ERROR", "Warning", "System", "Note"][usize::from(number(level, [0, 1, 2, 3]))];
        format!("2026-01-02T10:00:{at:02}.123Z 0 [{level}] [MY-010] [Server] {says}")
    });
    check("Serilog", |at, level, says| {
        let level = ["ERR", "WRN", "INF", "DBG"][usize::from(number(level, [0, 1, 2, 3]))];
        format!("[10:00:{at:02} {level}] {says}")
    });
    check("Ruby", |at, level, says| {
        let (letter, level) = (letter(level), upper(level));
        format!("{letter}, [2026-01-02T10:00:{at:02}.1 #9] {level:>5} -- : {says}")
    });
}

#[test]
fn letters_and_numbers() {
    check("Android", |at, level, says| {
        format!("03-17 16:13:{at:02}.811  1702  2395 {} Window: {says}", letter(level))
    });
    check("Android with fatal errors", |at, level, says| {
        let letter = letter(level).replace('E', "F");
        format!("03-17 16:13:{at:02}.811  1702  2395 {letter} libc: {says}")
    });
    check("Android in short", |at, level, says| format!("{}/Tag( {at}): {says}", letter(level)));
    check("klog", |at, level, says| {
        let letter = letter(level).replace('D', "I");
        format!("{letter}0102 15:04:{at:02}.000 {at} x.go:1] {says}")
    });
    check("klog in docker compose", |at, level, says| {
        let letter = letter(level).replace('D', "I");
        format!("api-1  | {letter}0102 15:04:{at:02}.000 {at} x.go:1] {says}")
    });
    check("syslog priorities", |at, level, says| {
        format!("<{}>Jan  2 10:00:{at:02} host app: {says}", number(level, [11, 12, 14, 15]))
    });
    check("kernel priorities", |at, level, says| {
        format!("<{}>[   {at:02}.123456] usb: {says}", number(level, [3, 4, 6, 7]))
    });
}

#[test]
fn fields_of_objects() {
    let late = "x".repeat(1_500);
    check("Cloud Logging", |at, level, says| {
        let level = upper(level).replace("DEBUG", "DEFAULT");
        let labels = if at % 3 == 0 { r#","labels":{"level":"7","errors":"0"}"# } else { "" };
        format!(r#"{{"message":"{says}","timestamp":"{at}"{labels},"severity":"{level}"}}"#)
    });
    check("late severity", |_, level, says| {
        format!(r#"{{"message":"{says}","data":"{late}","level":"{level}"}}"#)
    });
    check("MongoDB", |at, level, says| {
        let letter = letter(level).replace('D', "D1");
        format!(r#"{{"t":{{"$date":"2026-01-02T10:00:{at:02}"}},"s":"{letter}","msg":"{says}"}}"#)
    });
    check("journald", |at, level, says| {
        let number = number(level, [3, 4, 6, 7]);
        format!(r#"{{"__REALTIME":"{at}","PRIORITY":"{number}","MESSAGE":"{says}"}}"#)
    });
    check("GELF", |_, level, says| {
        let number = number(level, [3, 4, 6, 7]);
        format!(r#"{{"version":"1.1","short_message":"{says}","level":{number}}}"#)
    });
    check("OpenTelemetry", |_, level, says| {
        let number = number(level, [17, 13, 9, 5]);
        format!(r#"{{"body":"{says}","severityNumber":{number}}}"#)
    });
    check("Datadog", |_, level, says| format!(r#"{{"body":"{says}","status":"{level}"}}"#));
    check("log15", |at, level, says| {
        let level = level.replace("error", "eror").replace("debug", "dbug");
        format!("t=2026-01-02T10:00:{at:02} lvl={level} msg=\"{says}\"")
    });
}

#[test]
fn short_words_and_marks() {
    check("logrus", |at, level, says| {
        let level = upper(level).replace("ERROR", "ERRO").replace("DEBUG", "DEBU");
        format!("{level}[{at:04}] {says}")
    });
    check("geth", |at, level, says| {
        let level = upper(level).replace("ERROR", "EROR");
        format!("{level} [06-05|19:20:{at:02}.007] {says}")
    });
    check("ESP-IDF", |at, level, says| {
        format!("\x1b[0;32m{} ({at}1) boot: {says}\x1b[0m", letter(level))
    });
    check("DB2", |at, level, says| {
        format!("2026-01-02-10.00.{at:02}.123456+060 I123E456 LEVEL: {} {says}", title(level))
    });
    let mark = |level: &str| [".", "-", "*", "#"][usize::from(number(level, [2, 3, 0, 1]))];
    let redis: String = (0..20)
        .map(|at| {
            let mark = mark(if at == 7 { "warn" } else { "info" });
            format!("1234:M 02 Jan 2026 10:00:{at:02}.123 {mark} Ready\n")
        })
        .collect();
    assert_eq!(severe(&redis), (Kind::Log, vec![('W', 8, 1)]));
}

#[test]
fn reports_of_erlang() {
    let mut log = String::new();
    for at in 0..20 {
        let level = if at == 7 { "ERROR" } else { "INFO" };
        log.push_str(&format!(
            "={level} REPORT==== 3-Jan-2026::10:00:{at:02} ===\nGeneric server {at}\nReason: x\n\n"
        ));
    }
    assert_eq!(severe(&log), (Kind::Log, vec![('E', 29, 3)]));
}

#[test]
fn codes_of_network_devices() {
    let code = |level: &str| number(level, [3, 4, 6, 7]);
    check("Cisco IOS", |at, level, says| {
        format!("Jul  8 11:15:{at:02}.357: %LINK-{}-UPDOWN: {says}", code(level))
    });
    check("Cisco ASA behind syslog", |at, level, says| {
        format!("Jul  8 11:15:{at:02} fw1 %ASA-{}-106001: {says}", code(level))
    });
    check("Huawei", |at, level, says| {
        format!(
            "Jul  8 2026 11:15:{at:02} sw1 %%01IFNET/{}/LINK_STATE(l)[{at}]:{says}",
            code(level)
        )
    });
}

#[test]
fn severities_after_a_tab() {
    check("Pacemaker", |at, level, says| {
        format!("Feb 04 09:57:{at:02} node1 pcmk  [12] (get_peer) \t{level}: {says}")
    });
}

#[test]
fn severities_of_other_languages() {
    let languages = [
        ["SCHWERWIEGEND", "WARNUNG", "INFORMATION", "FEIN"],
        ["GRAVE", "ADVERTENCIA", "INFORMACIÓN", "DETALLADO"],
        ["GRAVE", "AVERTISSEMENT", "INFOS", "PRÉCIS"],
        ["重大", "警告", "情報", "詳細"],
        ["严重", "警告", "信息", "详细"],
    ];
    for names in languages {
        let name = |level: &str| names[usize::from(number(level, [0, 1, 2, 3]))];
        check("Tomcat", |at, level, says| {
            format!("02-Jan-2026 10:00:{at:02}.123 {} [main] a.b.C.d {says}", name(level))
        });
        check("one line", |at, level, says| {
            format!("2026-01-02 10:00:{at:02} {}: {says}", name(level))
        });
    }
}

#[test]
fn stack_traces_belong_to_their_entries() {
    let trace = "java.lang.IllegalState: ERROR x\n\tat a.B(C.java:1)\nCaused by: Error: y\n";
    let python = "Traceback (most recent call last):\n  File \"x\", line 1\nKeyError: ERROR\n";
    for trace in [trace, python] {
        let entry = |level: &str, trace: &str| format!("2026-01-02 10:00:00 {level} says\n{trace}");
        let text = [("INFO", ""), ("ERROR", trace), ("WARN", ""), ("INFO", ""), ("ERROR", "")]
            .map(|(level, trace)| entry(level, trace))
            .concat();
        assert_eq!(severe(&text).1, [('E', 2, 4), ('W', 6, 1), ('E', 8, 1)], "{text}");
        let prefixed: String = text.lines().map(|line| format!("web_1  | {line}\n")).collect();
        assert_eq!(severe(&prefixed).1, [('E', 2, 4), ('W', 6, 1), ('E', 8, 1)], "{prefixed}");
    }
    let timed = "2026-01-02T10:00:00Z ERROR x\n2026-01-02T10:00:00Z     at a.B(C.java:1)\n2026-01-02T10:00:01Z INFO y\n";
    assert_eq!(severe(timed).1, [('E', 1, 2)]);
}

#[test]
fn stack_traces_may_repeat_the_severity() {
    let mut log = String::new();
    for at in 0..30 {
        let head = |letter| format!("03-17 16:13:{at:02}.811 {letter}/App( 12): ");
        log.push_str(&format!("{}all is well\r\n", head('I')));
        if at == 9 {
            for line in ["FATAL EXCEPTION: main", "java.lang.Error: x", "\tat a.b.C(D.java:1)"] {
                log.push_str(&format!("{}{line}\r\n", head('E')));
            }
            log.push_str(&format!("{}Caused by: java.lang.Error: y\r\n", head('E')));
            log.push_str(&format!("{}\t... 9 more\r\n", head('E')));
        }
    }
    assert_eq!(severe(&log), (Kind::Log, vec![('E', 11, 1), ('E', 12, 4)]));
}

#[test]
fn rare_severities_of_logs_without_levels() {
    let log: String = (0..40)
        .map(|at| match at {
            20 => "Jan  2 10:00:20 host sshd[7]: error: maximum attempts exceeded\n".to_owned(),
            30 => "Jan  2 10:00:30 host postfix[8]: warning: unknown host\n".to_owned(),
            at => {
                format!("Jan  2 10:00:{at:02} host cron[{at}]: session with 0 errors, no error\n")
            }
        })
        .collect();
    assert_eq!(severe(&log), (Kind::Log, vec![('E', 21, 1), ('W', 31, 1)]));
}

#[test]
fn several_services_have_several_styles() {
    let lines = [
        "web_1 | 10:00:00 INFO started",
        "db_1  | 2026-01-02 10:00:00.123 UTC [7] LOG:  ready",
        "api_1 | {\"level\":\"info\",\"msg\":\"up\"}",
        "web_1 | 10:00:01 INFO found 0 errors",
        "db_1  | 2026-01-02 10:00:01.123 UTC [7] ERROR:  no such table",
        "api_1 | {\"level\":\"error\",\"msg\":\"refused\"}",
        "web_1 | 10:00:02 WARN slow",
        "api_1 | {\"level\":\"info\",\"msg\":\"up\"}",
    ];
    let text = lines.join("\n") + "\n";
    assert_eq!(severe(&text).1, [('E', 5, 1), ('E', 6, 1), ('W', 7, 1)], "{text}");
}

#[test]
fn other_texts_have_no_errors() {
    let graphql = "type Payload {\n  error: String\n  warning: String\n}\n\ninput Error {\n  message: String!\n  level: Level = ERROR\n}\n".repeat(20);
    let flat = "error: String\nid: ID\nwarning: String\nname: String\ninfo: String\nsize: Int\na: Int\nb: Int\nc: Int\nd: Int\n\n"
        .repeat(20);
    let yaml =
        "error: null\nlogging:\n  level: ERROR\n  error: true\nwarning: 5\nname: x\n".repeat(20);
    let csv = "id,severity,created,message\n".to_owned()
        + &"1,ERROR,2026-01-02 10:00:00,refused\n2,INFO,2026-01-02 10:00:01,ok\n".repeat(20);
    let markdown = "# Errors\n\nAn error is shown:\n\n| level | meaning |\n|---|---|\n| ERROR | bad |\n| WARN | so |\n\n## Warnings\n\nerror handling is hard.\n".repeat(5);
    let table = " id | level \n----+-------\n  1 | ERROR\n  2 | WARN\n".to_owned()
        + &"  3 | ERROR\n".repeat(20);
    let source = "fn run() -> Result<(), Error> {\n    error!(\"x\");\n    log.warn(\"y\");\n    Err(Error::Fatal)\n}\n\nconst ERROR: u8 = 1;\nERROR = 5\n".repeat(20);
    let prose = "The error was found late, and no warning was given.\nAn error of 5 percent remained.\nError handling is hard, they say.\n".repeat(20);
    let settings =
        "logging.level.root=WARN\nlogging.level.app=ERROR\nlogging.level.web=INFO\n".repeat(9);
    let schema = "{\n  \"properties\": {\n    \"error\": null,\n    \"level\": {\n      \"enum\": [\n        \"error\",\n        \"warning\"\n      ]\n    }\n  }\n}\n".repeat(9);
    let quoted = "id,date,address,total\n".to_owned()
        + &"1,2026-01-02T00:00:00,2211 W Street,3\n".repeat(20)
        + &"2,2026-01-02T00:00:00,\"5, W Road, ERROR\",3\n".repeat(9);
    for text in [graphql, flat, yaml, csv, quoted, markdown, table, source, prose, settings, schema]
    {
        assert_eq!(severe(&text).1, [], "{text:.200}");
    }
}

#[test]
fn errors_of_compilers_are_found() {
    let lines = "   Compiling a v0.1.0\nwarning: unused variable: `x`\n --> a.rs:1:2\n\nerror[E0308]: mismatched types\n --> a.rs:3:4\n\na.c:12:5: error: expected ';' before '}'\na.c:13:5: warning: unused variable 'y'\nnote: x\nnote: y\nnote: z\nnote: w\n";
    assert_eq!(severe(lines).1, [('W', 2, 1), ('E', 5, 1), ('E', 8, 1), ('W', 9, 1)]);
}

#[test]
fn reports_may_be_most_lines() {
    let npm = "npm WARN deprecated a@1.0.0: use b\n".repeat(9) + "npm error code ERESOLVE found\n";
    let found = severe(&npm).1;
    assert_eq!((found.len(), found.last()), (10, Some(&('E', 10, 1))));
    let compiler = "src/a.ts:1:2: error: no such name\n".repeat(9);
    assert_eq!(severe(&compiler).1.len(), 9);
}

#[test]
fn errors_of_php_are_found() {
    let log = "[02-Jan-2026 10:00:00 UTC] PHP Notice:  a in /b.php\n".repeat(5)
        + "[02-Jan-2026 10:00:01 UTC] PHP Warning:  a in /b.php\n"
        + "[02-Jan-2026 10:00:02 UTC] PHP Fatal error:  Uncaught Exception: x\n";
    assert_eq!(severe(&log), (Kind::Log, vec![('W', 6, 1), ('E', 7, 1)]));
    let others = "[02-Jan-2026 10:00:00 Europe/Berlin] PHP Deprecated:  a in /b.php\n".repeat(5)
        + "[02-Jan-2026 10:00:01 Europe/Berlin] PHP Warning:  a in /b.php\n";
    assert_eq!(severe(&others), (Kind::Log, vec![('W', 6, 1)]));
}

#[test]
fn logs_are_no_tables() {
    let health = "20171223-22:15:29:606|Step_LSC|30002312|onStandStepChanged 3579\n".repeat(20);
    let compose = "web_1  | GET / 200\nweb_1  | GET /a 200\ndb_1   | ready\n".repeat(9);
    assert_eq!((severe(&health).0, severe(&compose).0), (Kind::Log, Kind::Log));
}
