//! Regression tests for differences between the former separate protocol layers of hosts and
//! guests. Each test runs a table of message bodies through this crate. The comment above it names
//! the difference.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests may fail the test"
)]

use context_guard_protocol::batch::MAX_BATCH_MESSAGES;
use context_guard_protocol::fallback::{OnFault, limit};
use context_guard_protocol::http::{
    Replacement, RequestAction, RequestHead, ResponseAction, ResponseHead,
};
use context_guard_protocol::sse::Framer;
use context_guard_protocol::{
    Api, Caller, HttpExchange, MessageFilter, Settings, Ticket, Verdict, glob, is_same_id,
};
use serde_json::{Value, json};

/// A test filter that answers the method `own` itself, forwards all other requests with a ticket,
/// and pretty-prints every response.
struct PrettyPrinter;

impl MessageFilter for PrettyPrinter {
    fn on_request(&mut self, _: &Caller, message: &[u8]) -> Verdict {
        let message: Value = serde_json::from_slice(message).unwrap_or_default();
        if message["method"] == "own" {
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": "own"});
            return Verdict::Answer(answer.to_string().into_bytes());
        }
        Verdict::Forward(None, Ticket::Guard(b"ticket".to_vec()))
    }

    fn on_response(&mut self, _: &Caller, _: &Ticket, message: &[u8]) -> Option<Vec<u8>> {
        let mut message: Value = serde_json::from_slice(message).ok()?;
        message["shaped"] = true.into();
        serde_json::to_vec_pretty(&message).ok()
    }
}

fn post(request: &str, version: &str, settings: &Settings) -> HttpExchange {
    let header = |name: &str| match name {
        "content-type" => Some("Application/JSON".to_owned()),
        "mcp-protocol-version" => Some(version.to_owned()),
        _ => None,
    };
    let head = RequestHead { method: "POST", target: "/mcp", header: &header };
    let mut exchange = HttpExchange::open(settings, &head);
    exchange.on_request(&mut PrettyPrinter, request.as_bytes());
    exchange
}

fn response(content_type: &str) -> ResponseHead<'_> {
    ResponseHead { status: 200, content_type, is_encoded: false, content_length: None }
}

/// Passes a byte stream through the exchange in chunks of three bytes. Returns the messages that it
/// sends.
fn through_events(exchange: &mut HttpExchange, stream: &str) -> Vec<Value> {
    assert_eq!(exchange.on_response(&response("text/event-stream")), ResponseAction::Events);
    let mut framer = Framer::default();
    for chunk in stream.as_bytes().chunks(3) {
        framer.push(&exchange.on_events(&mut PrettyPrinter, chunk, false));
    }
    framer.push(&exchange.on_events(&mut PrettyPrinter, b"", true));
    let mut events: Vec<_> = std::iter::from_fn(|| framer.next_event()).collect();
    events.extend(framer.finish());
    let data = events.iter().filter_map(|event| event.data());
    data.map(|data| serde_json::from_slice(&data).expect("an event without JSON")).collect()
}

// The guests compared ids by their text, and wrote a shaped message as one `data` line. The host
// compared large integers as floating-point numbers.
#[test]
fn answers_are_found_by_id_and_survive_framing() {
    for (request_id, answer_id, is_same) in [
        ("1", "1", true),
        ("1", "1.0", true),
        ("1e2", "100", true),
        (r#""a/b""#, r#""a\/b""#, true),
        (r#""é""#, r#""\u00e9""#, true),
        ("1", r#""1""#, false),
        ("9007199254740993", "9007199254740992", false),
        ("18446744073709551617", "18446744073709551616", false),
    ] {
        assert_eq!(is_same_id(request_id, answer_id), is_same);
        let request = format!(r#"{{"jsonrpc":"2.0","id":{request_id},"method":"tools/call"}}"#);
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{answer_id},"result":{{}}}}"#);
        let body =
            post(&request, "", &Settings::default()).on_body(&mut PrettyPrinter, answer.as_bytes());
        assert_eq!(body.is_some(), is_same, "{request_id} {answer_id}");
        for end in ["\n", "\r\n", "\r"] {
            let stream = format!("id: 1{end}data: {answer}{end}{end}");
            let mut exchange = post(&request, "", &Settings::default());
            let messages = through_events(&mut exchange, &stream);
            assert_eq!(messages.len(), 1);
            assert_eq!(messages[0]["shaped"] == true, is_same, "{request_id} {end:?}");
        }
    }
}

// The guests did not shape batches inside an event. Neither copy shaped the last event of a stream
// that ended with a lone carriage return.
#[test]
fn batches_are_shaped_in_bodies_and_events() {
    let request = r#"[{"id":1,"method":"tools/call"},{"id":2,"method":"tools/call"}]"#;
    let answers = r#"[{"id":2,"result":{}},{"method":"notifications/x"},{"id":1,"result":{}}]"#;
    let is_shaped = |answers: &Value| {
        answers[0]["shaped"] == true
            && answers[1].get("shaped").is_none()
            && answers[2]["shaped"] == true
    };
    let shaped = post(request, "", &Settings::default())
        .on_body(&mut PrettyPrinter, answers.as_bytes())
        .expect("unchanged");
    assert!(is_shaped(&serde_json::from_slice(shaped.body()).expect("no JSON")));
    for stream in [format!("data: {answers}\n\n"), format!("data: {answers}\r\r")] {
        let messages = through_events(&mut post(request, "", &Settings::default()), &stream);
        assert!(messages.len() == 1 && is_shaped(&messages[0]), "{messages:?}");
    }
}

// Both copies lost the guard's own answers if the upstream had nothing else to answer.
#[test]
fn own_answers_survive_an_empty_response() {
    let request = r#"[{"id":1,"method":"own"},{"method":"notifications/x"}]"#;
    for content_type in ["", "text/plain"] {
        let mut exchange = post(request, "", &Settings::default());
        let ResponseAction::Respond(own) = exchange.on_response(&response(content_type)) else {
            panic!("no answer")
        };
        let answers: Value = serde_json::from_slice(&own.body).expect("no JSON");
        assert_eq!((own.status, &answers[0]["result"]), (200, &json!("own")));
    }
}

// Behind Envoy, stateful clients received `resultType`.
#[test]
fn result_type_is_sent_to_stateless_clients_only() {
    let stateless = r#"{"id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    let stateful = r#"{"id":1,"method":"tools/call"}"#;
    let settings = Settings { max_body: 50, ..Settings::default() };
    for (request, version, expected) in [
        (stateful, "", false),
        (stateful, "2025-11-25", false),
        (stateful, "2026-07-28", true),
        (stateless, "", true),
    ] {
        let refused = post(request, version, &settings).on_oversized_body(&mut PrettyPrinter, true);
        let refused: Value =
            serde_json::from_slice(refused.expect("forwarded").body()).expect("no JSON");
        assert_eq!(refused["result"]["isError"], true);
        assert_eq!(refused["result"].get("resultType").is_some(), expected, "{version}");
        let long = format!("data: {}\n\n", "x".repeat(100));
        for answer in through_events(&mut post(request, version, &settings), &long) {
            assert_eq!(answer["result"].get("resultType").is_some(), expected, "{version}");
        }
    }
}

// Guests ended a stream without an answer in silence. The host reported the failure.
#[test]
fn unanswered_requests_fail_at_the_end_of_a_stream() {
    let request = r#"{"id":7,"method":"tools/call"}"#;
    for (stream, failures) in [("data: {}\n\n", 1), ("", 1), ("id: 1\ndata: {}\n\n", 0)] {
        let messages = through_events(&mut post(request, "", &Settings::default()), stream);
        let failed = messages.iter().filter(|message| message["result"]["isError"] == true);
        assert_eq!(failed.count(), failures, "{stream:?}");
    }
}

// The guests' fallback dropped `ttlMs`, `cacheScope`, embedded resources and the tail. The host's
// exceeded the limit where control characters were not spread evenly.
#[test]
fn fallback_keeps_members_and_both_ends() {
    let members =
        json!({"isError": false, "resultType": "complete", "ttlMs": 5, "cacheScope": "public"});
    let blocks = |text: &str| {
        json!([
            {"type": "text", "text": format!("first {text}")},
            {"type": "resource", "resource": {"uri": "x://1", "text": "embedded, last"}},
        ])
    };
    let control = ["\u{1}".repeat(30_000), "x".repeat(60_000)].concat();
    for text in ["x".repeat(60_000), "€".repeat(40_000), control] {
        let mut result = members.clone();
        result["content"] = blocks(&text);
        let message = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
        let cut = limit(message.as_bytes(), OnFault::Limit, 10_240).expect("unchanged");
        assert!(cut.len() <= 10_240, "{}", cut.len());
        let cut: Value = serde_json::from_slice(&cut).expect("no JSON");
        for (name, value) in members.as_object().expect("an object") {
            assert_eq!(&cut["result"][name], value);
        }
        let shown = cut["result"]["content"][0]["text"].as_str().expect("no text");
        assert!(shown.starts_with("first ") && shown.ends_with("embedded, last"));
    }
}

// The host's globs had no `?`.
#[test]
fn globs_have_one_meaning() {
    for (pattern, path, expected) in [
        ("/v?/things", "/v1/things", true),
        ("/v?/things", "/v10/things", false),
        ("/v*/things", "/v10/things", true),
        ("/v1/thing", "/v1/things", false),
    ] {
        assert_eq!(glob::matches(pattern, path), expected);
        let api = Api { method: "*".into(), path: pattern.into(), own: vec![], guard: true };
        let settings = Settings { mcp: vec![], apis: vec![api], ..Settings::default() };
        let head = RequestHead { method: "GET", target: path, header: &|_| None };
        assert_eq!(!HttpExchange::open(&settings, &head).is_ignored(), expected, "{pattern}");
        let settings = Settings { mcp: vec![pattern.into()], ..Settings::default() };
        let json = |_: &str| Some("application/json".to_owned());
        let header = |name: &str| json(name).filter(|_| name == "content-type");
        let head = RequestHead { method: "POST", target: path, header: &header };
        assert_eq!(!HttpExchange::open(&settings, &head).is_ignored(), expected, "{pattern}");
    }
}

// The guests accepted batches of any length.
#[test]
fn messages_of_a_batch_are_limited() {
    for (messages, is_shaped) in [(MAX_BATCH_MESSAGES, true), (MAX_BATCH_MESSAGES + 1, false)] {
        let requests: Vec<Value> =
            (0..messages).map(|id| json!({"id": id, "method": "tools/call"})).collect();
        let mut exchange = post(&Value::from(requests).to_string(), "", &Settings::default());
        let answer = json!({"id": 1, "result": {}}).to_string();
        let shaped = exchange.on_body(&mut PrettyPrinter, answer.as_bytes());
        assert_eq!(shaped.is_some(), is_shaped, "{messages}");
    }
}

// The guests replaced the API's status by 200, the host had no 409, and each had its own problem
// document.
#[test]
fn api_responses_have_one_form() {
    struct Answer(Value);
    impl MessageFilter for Answer {
        fn on_request(&mut self, _: &Caller, _: &[u8]) -> Verdict {
            Verdict::Forward(None, Ticket::Guard(Vec::new()))
        }
        fn on_response(&mut self, _: &Caller, _: &Ticket, _: &[u8]) -> Option<Vec<u8>> {
            Some(self.0.to_string().into_bytes())
        }
    }
    let api = Api { method: "GET".into(), path: "/a".into(), own: vec![], guard: true };
    let settings = Settings { apis: vec![api], ..Settings::default() };
    for (text, is_error, upstream_status, status) in [
        ("[1]", false, 200, 200),
        ("[1]", false, 203, 203),
        ("data_changed: x", true, 200, 409),
        ("cursor_expired: x", true, 200, 410),
    ] {
        let result = json!({"content": [{"type": "text", "text": text}], "isError": is_error});
        let mut filter = Answer(json!({"id": 1, "result": result}));
        let head = RequestHead { method: "GET", target: "/a", header: &|_| None };
        let mut exchange = HttpExchange::open(&settings, &head);
        let action = exchange.on_request(&mut filter, b"");
        assert!(matches!(action, RequestAction::Forward { .. }));
        let head = ResponseHead { status: upstream_status, ..response("Application/JSON") };
        assert!(matches!(exchange.on_response(&head), ResponseAction::Collect { .. }));
        let Some(Replacement::Response(shaped)) = exchange.on_body(&mut filter, b"[1, 2]") else {
            panic!("unchanged")
        };
        assert_eq!(shaped.status, status, "{text}");
        let body: Value = serde_json::from_slice(&shaped.body).expect("no JSON");
        assert_eq!(body.get("title").is_some(), is_error);
    }
    // A part of a body, or a compressed one, is no document.
    for head in [
        ResponseHead { status: 206, ..response("application/json") },
        ResponseHead { is_encoded: true, ..response("application/json") },
    ] {
        let mut filter = Answer(Value::Null);
        let request = RequestHead { method: "GET", target: "/a", header: &|_| None };
        let mut exchange = HttpExchange::open(&settings, &request);
        exchange.on_request(&mut filter, b"");
        assert_eq!(exchange.on_response(&head), ResponseAction::Pass);
    }
}
