//! Several processes share one history file. This program starts itself as the writers.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests: a panic is a failure"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use context_guard_history::{Event, Follows, History, HistoryOptions, Query, Reader};
use serde_json::Value;

const NOW_MS: u64 = 1_790_000_000_000;
const WRITERS: u64 = 6;
const CALLS: u64 = 500;
/// The maximum time until recorded calls are stored. It only bounds a test that hangs.
const HANG_LIMIT: Duration = Duration::from_secs(180);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, "writer", path, writer] => write(Path::new(path), writer.parse().unwrap()),
        [_, "until-killed", path] => write_until_killed(Path::new(path)),
        _ => {
            processes_share_a_file();
            killed_process_keeps_what_it_wrote();
            println!("test result: ok. 2 passed");
        }
    }
}

fn start(arguments: &[&str], path: &Path) -> Child {
    let (mode, rest) = arguments.split_first().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(mode).arg(path).args(rest).stdout(Stdio::piped()).spawn().unwrap()
}

fn event(tool: &str, tokens_before: u64) -> Event {
    Event {
        at_ms: NOW_MS,
        upstream: "files".to_owned(),
        tool: tool.to_owned(),
        tokens_before,
        tokens_sent: 100,
        ..Event::default()
    }
}

fn query(path: &Path, parameters: &[(&str, &str)]) -> Value {
    let query = Query::parse(parameters.iter().copied(), NOW_MS + 1_000).unwrap();
    Reader::open(path).unwrap().run(&query).unwrap()
}

/// Records calls in bursts, each with a follow-up read.
fn write(path: &Path, writer: u64) {
    let history = History::open(path, &HistoryOptions::default()).unwrap();
    for call in 0..CALLS {
        let snapshot = format!("{writer}.{call}");
        history
            .record(Event { snapshots: vec![snapshot.clone()], ..event("read", 1_000 + writer) });
        let follows = Follows::Call(Some(snapshot));
        history.record(Event { follows, ..event("unrelated", 0) });
        if call % 100 == 0 {
            assert!(history.flush());
        }
    }
    assert!(history.flush());
    assert_eq!(history.dropped(), 0);
}

fn processes_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let mut writers: Vec<Child> =
        (0..WRITERS).map(|writer| start(&["writer", &writer.to_string()], &path)).collect();
    // A reader uses the file all the time.
    let mut reads = 0;
    while writers.iter_mut().any(|writer| writer.try_wait().unwrap().is_none()) {
        if path.exists()
            && let Ok(reader) = Reader::open(&path)
        {
            reader.run(&Query::parse([("by", "tool")], NOW_MS + 1_000).unwrap()).unwrap();
            reads += 1;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(writers.iter_mut().all(|writer| writer.wait().unwrap().success()));
    assert!(reads > 0, "no query ran beside the writers");
    let answer = query(&path, &[("measure", "calls,followups,net_tokens_saved"), ("by", "tool")]);
    let calls = WRITERS * CALLS;
    let saved: u64 = (0..WRITERS).map(|writer| CALLS * (1_000 + writer - 200)).sum();
    let rows = answer["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "reads belong to the tool of their call: {answer}");
    assert_eq!(rows[0]["calls"], calls);
    assert_eq!(rows[0]["followups"], calls);
    assert_eq!(rows[0]["net_tokens_saved"], saved);
    println!("test processes_share_a_file ... ok");
}

/// Records a call each millisecond, and prints the number of calls so far.
fn write_until_killed(path: &Path) {
    let history = History::open(path, &HistoryOptions::default()).unwrap();
    for call in 1_u64.. {
        history.record(event("read", call));
        println!("{call}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn killed_process_keeps_what_it_wrote() {
    use std::io::{BufRead as _, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let mut writer = start(&["until-killed"], &path);
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let recorded: u64 = lines.nth(99).unwrap().unwrap().parse().unwrap();
    let stored = || query(&path, &[("measure", "calls")])["total"]["calls"].as_u64().unwrap();
    // The process never flushes: batches are written by themselves.
    let start = Instant::now();
    while stored() < recorded {
        assert!(start.elapsed() < HANG_LIMIT, "{} of {recorded} calls are stored", stored());
        std::thread::sleep(Duration::from_millis(5));
    }
    // SIGKILL on Unix.
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert!(stored() >= recorded, "{} of {recorded}", stored());
    println!("test killed_process_keeps_what_it_wrote ... ok");
}
