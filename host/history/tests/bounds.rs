//! The file remains within its retention and its maximum size. Follow-up reads count for the call
//! that they continue.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests: a panic is a failure")]

use std::path::Path;

use context_guard_history::{
    Event, Follows, History, HistoryOptions, ListQuery, Outcome, Query, Reader, Sample,
};
use serde_json::{Value, json};

const NOW_MS: u64 = 1_790_000_000_000;
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

fn open(path: &Path, max_bytes: u64) -> std::sync::Arc<History> {
    History::open(path, &HistoryOptions { max_bytes }).unwrap()
}

fn call(at_ms: u64, tool: &str, before: u64, sent: u64) -> Event {
    Event {
        at_ms,
        upstream: "files".to_owned(),
        tool: tool.to_owned(),
        tokens_before: before,
        tokens_sent: sent,
        ..Event::default()
    }
}

fn query(path: &Path, now_ms: u64, parameters: &[(&str, &str)]) -> Value {
    let query = Query::parse(parameters.iter().copied(), now_ms).unwrap();
    Reader::open(path).unwrap().run(&query).unwrap()
}

fn count(path: &Path, select: &str) -> i64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row(select, [], |row| row.get(0)).unwrap()
}

#[test]
fn follow_ups_belong_to_their_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let history = open(&path, 64 << 20);
    let follows = |name: &str| Follows::Call(Some(name.to_owned()));
    let snapshots = |name: &str| vec![name.to_owned()];
    history.record(Event {
        outcome: Outcome::Paginated,
        client: "claude-code",
        snapshots: snapshots("first"),
        ..call(NOW_MS, "list", 9_000, 4_000)
    });
    // The read arrives in the next hour, and stores the result of a query.
    let read = call(NOW_MS + HOUR_MS, "list", 9_000, 3_000);
    history.record(Event {
        follows: follows("first"),
        snapshots: snapshots("result"),
        ..read.clone()
    });
    history.record(Event { follows: follows("result"), ..read.clone() });
    // A call whose reads cost more than was saved.
    history.record(Event { snapshots: snapshots("costly"), ..call(NOW_MS, "log", 5_000, 4_900) });
    history.record(Event { follows: follows("costly"), ..read.clone() });
    // A cursor of another process.
    history.record(Event { follows: follows("elsewhere"), ..read });
    assert!(history.flush());
    let measures = "calls,followups,tokens_before,tokens_sent,tokens_followup,tokens_saved,net_tokens_saved,reduction";
    let now = NOW_MS + 2 * HOUR_MS;
    let answer = query(&path, now, &[("measure", measures), ("by", "tool"), ("order", "asc")]);
    let row = |tool: &str| {
        let rows = answer["rows"].as_array().unwrap();
        rows.iter().find(|row| row["tool"] == tool).unwrap().clone()
    };
    assert_eq!(
        row("log"),
        json!({"tool": "log", "calls": 1, "followups": 1, "tokens_before": 5_000,
            "tokens_sent": 4_900, "tokens_followup": 3_000, "tokens_saved": 100,
            "net_tokens_saved": -2_900, "reduction": -0.58})
    );
    assert_eq!(
        (row("list")["calls"].clone(), row("list")["followups"].clone()),
        (1.into(), 3.into())
    );
    let by_outcome = query(
        &path,
        now,
        &[("measure", "net_tokens_saved"), ("where", "client:claude-code,outcome:paginated")],
    );
    assert_eq!(by_outcome["total"]["net_tokens_saved"], 9_000 - 4_000 - 6_000);
    let steps = query(
        &path,
        now,
        &[("measure", "followups"), ("step", "1h"), ("where", "outcome:paginated")],
    );
    // The reads count at the time of the call.
    assert_eq!(steps["rows"][0]["points"].as_array().map(Vec::len), Some(1), "{steps}");
    assert_eq!(steps["rows"][0]["points"][0]["followups"], 2);
    let parents =
        "SELECT count(*) FROM record AS read JOIN record AS call ON call.id = read.parent";
    assert_eq!(count(&path, parents), 3);
}

#[test]
fn expired_cells_and_records_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    for (age_days, session) in [(500, "a"), (100, "b"), (20, "c"), (1, "d")] {
        // Each writer deletes what has expired with its first batch.
        let history = open(&path, 64 << 20);
        let event = call(NOW_MS - age_days * DAY_MS, "read", 10, 10);
        history.record(Event { session: session.to_owned(), ..event });
        assert!(history.flush());
    }
    let chunks =
        |level: i64| count(&path, &format!("SELECT count(*) FROM chunk WHERE id >> 40 = {level}"));
    assert_eq!((chunks(0), chunks(1), chunks(2)), (1, 2, 3));
    assert_eq!(count(&path, "SELECT count(*) FROM record"), 1);
    assert_eq!(count(&path, "SELECT count(*) FROM name WHERE kind = 3"), 1);
    let calls = |from: &str| query(&path, NOW_MS, &[("from", from)])["total"]["calls"].clone();
    assert_eq!((calls("-2d"), calls("-30d"), calls("-300d")), (1.into(), 2.into(), 3.into()));
}

#[test]
fn size_is_bounded_and_sums_remain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let max_bytes = 512 << 10;
    let history = open(&path, max_bytes);
    let calls = 30_000_u64;
    for at in 0..calls {
        history.record(call(NOW_MS + at * 1_000, &format!("tool{}", at % 20), 1_000, 100));
        if at % 5_000 == 4_999 {
            assert!(history.flush());
            let bytes = std::fs::metadata(&path).unwrap().len();
            // The records of one batch may exceed it before the oldest are deleted.
            assert!(bytes < 2 * max_bytes, "{bytes} bytes after {at} calls");
        }
    }
    let used = "SELECT (SELECT page_count FROM pragma_page_count)
        - (SELECT freelist_count FROM pragma_freelist_count)";
    assert!(count(&path, used) * 4_096 <= i64::try_from(max_bytes).unwrap());
    // Coarse cells are the last to go.
    let answer = query(&path, NOW_MS + 2 * DAY_MS, &[("from", "-30d"), ("step", "1d")]);
    assert_eq!(answer["total"]["calls"], calls);
    assert_eq!(history.dropped(), 0);
}

#[test]
fn dropped_events_are_in_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let history = open(&path, 64 << 20);
    history.record(call(NOW_MS, "read", 10, 10));
    assert!(history.flush());
    // The writer waits for the lock of another connection, and its queue fills. If recording waited
    // for the writer, it would wait for this thread forever.
    let blocker = rusqlite::Connection::open(&path).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let recorded = (1..=1_000_000_u64).find(|_| {
        history.record(call(NOW_MS, "read", 10, 10));
        history.dropped() > 0
    });
    let recorded = recorded.unwrap();
    assert_eq!(query(&path, NOW_MS + 1_000, &[])["total"]["calls"], 1);
    blocker.execute_batch("COMMIT").unwrap();
    while !history.flush() {}
    let dropped = history.dropped();
    let answer = query(&path, NOW_MS + 1_000, &[]);
    assert_eq!(answer["dropped"], dropped);
    assert_eq!(answer["total"]["calls"], 1 + recorded - dropped);
}

#[test]
fn sessions_and_records_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let history = open(&path, 64 << 20);
    for at in 0..7 {
        let session = if at % 2 == 0 { "even" } else { "odd" };
        history.record(Event {
            session: session.to_owned(),
            snapshots: vec![at.to_string()],
            ..call(NOW_MS + at, &format!("tool{at}"), 1_000, 100)
        });
    }
    let read = call(NOW_MS + 10, "tool2", 0, 40);
    let follows = Follows::Call(Some("2".to_owned()));
    history.record(Event { session: "even".to_owned(), follows, ..read });
    assert!(history.flush());
    let reader = Reader::open(&path).unwrap();
    let list = ListQuery::sessions([("from", "-1h")], NOW_MS).unwrap();
    let sessions = reader.sessions(&list).unwrap();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(2));
    let even = &sessions["sessions"][0];
    assert_eq!(
        (&even["session"], &even["calls"], &even["followups"]),
        (&"even".into(), &4.into(), &1.into())
    );
    assert_eq!(even["net_tokens_saved"], 4 * 900 - 40);
    let by_session = |more: (&str, &str)| {
        let measures = ("measure", "calls,followups,net_tokens_saved");
        query(&path, NOW_MS + 1_000, &[measures, ("by", "session,client"), more])["rows"].clone()
    };
    let client = call(NOW_MS, "tool", 1, 1).client;
    let row = |session: &str, calls: u64, followups: u64, net: u64| {
        json!({
            "session": session, "client": client,
            "calls": calls, "followups": followups, "net_tokens_saved": net,
        })
    };
    let (even, odd) = (row("even", 4, 1, 3_560), row("odd", 3, 0, 2_700));
    assert_eq!(by_session(("from", "-1h")), json!([even, odd]));
    assert_eq!(by_session(("where", "session:o*")), json!([odd]));
    assert_eq!(by_session(("where", "client:none")), json!([]));
    assert_eq!(by_session(("to", "-1h")), json!([]));
    let records = |parameters: &[(&str, &str)]| {
        let list = ListQuery::records(parameters.iter().copied(), NOW_MS).unwrap();
        let found = reader.records(&list).unwrap();
        let tools = found["records"].as_array().unwrap().iter();
        let tools: Vec<String> =
            tools.map(|record| record["tool"].as_str().unwrap().to_owned()).collect();
        (tools.join(" "), found["next"].clone())
    };
    let (first, next) = records(&[("session", "odd"), ("limit", "2")]);
    assert_eq!(first, "tool5 tool3");
    let next = next.to_string();
    let rest = records(&[("session", "odd"), ("limit", "2"), ("before", &next)]);
    assert_eq!(rest, ("tool1".to_owned(), Value::Null));
    assert_eq!(records(&[("tool", "*4"), ("outcome", "passed")]).0, "tool4");
    // A request and its follow-up reads.
    assert_eq!(records(&[("id", "3")]).0, "tool2 tool2");
    for (name, value) in
        [("limit", "501"), ("limit", "0"), ("before", "x"), ("tol", "x"), ("from", "x")]
    {
        assert!(ListQuery::records([(name, value)], NOW_MS).is_err(), "{name}={value}");
    }
}

#[test]
fn samples_give_the_error_of_estimates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let history = open(&path, 64 << 20);
    history.record(call(NOW_MS, "read", 1_000, 100));
    for (estimated, actual, is_off) in [(120, 100, false), (60, 100, true)] {
        history.record_sample(Sample {
            at_ms: NOW_MS,
            upstream: "files".to_owned(),
            tool: "read".to_owned(),
            client: context_guard_history::OTHER,
            outcome: Outcome::Passed,
            revision: 2,
            estimated,
            actual,
            is_off,
        });
    }
    assert!(history.flush());
    let measures = ("measure", "samples,estimate_error,samples_off,calls");
    let answer = query(&path, NOW_MS + 1_000, &[measures, ("by", "tool")]);
    let expected = json!([{"tool": "read", "samples": 2, "estimate_error": -0.1,
        "samples_off": 1, "calls": 1}]);
    assert_eq!(answer["rows"], expected);
    let by_revision = query(&path, NOW_MS + 1_000, &[measures, ("by", "tool,revision")]);
    assert_eq!(by_revision["rows"].as_array().map(Vec::len), Some(2), "{by_revision}");
}
