//! Tests of exchanges with a filter that shortens every answer.

use std::collections::BTreeMap;

use super::*;
use crate::settings::Api;

/// A filter that replaces `long` by `short` in responses, and answers calls of the tool `read_on`
/// itself.
#[derive(Default)]
struct Short {
    over: usize,
}

impl MessageFilter for Short {
    fn on_request(&mut self, _: &Caller, message: &[u8]) -> Verdict {
        let text = String::from_utf8_lossy(message);
        if text.contains("read_on") {
            return Verdict::Answer(br#"{"jsonrpc":"2.0","id":9,"result":{}}"#.to_vec());
        }
        if text.contains("tools/call") {
            let renamed = text.replace("wrapped", "inner");
            let changed = (renamed != text).then(|| renamed.into_bytes());
            return Verdict::Forward(changed, Ticket::Guard(b"t".to_vec()));
        }
        Verdict::Forward(None, Ticket::Pass)
    }

    fn on_response(&mut self, _: &Caller, ticket: &Ticket, message: &[u8]) -> Option<Vec<u8>> {
        assert_eq!(ticket, &Ticket::Guard(b"t".to_vec()));
        Some(String::from_utf8_lossy(message).replace("long", "short").into_bytes())
    }

    fn on_limit_exceeded(&mut self) {
        self.over += 1;
    }
}

const CALL: &[u8] =
    br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wrapped"}}"#;
const ANSWER: &[u8] = br#"{"jsonrpc":"2.0","id":1,"result":{"content":"long"}}"#;

fn open(settings: &Settings, method: &str, target: &str, headers: &[(&str, &str)]) -> HttpExchange {
    let headers: BTreeMap<&str, &str> = headers.iter().copied().collect();
    let header = |name: &str| headers.get(name).map(|value| (*value).to_owned());
    HttpExchange::open(settings, &RequestHead { method, target, header: &header })
}

fn mcp(settings: &Settings) -> HttpExchange {
    open(settings, "POST", "/mcp", &[("content-type", "application/json")])
}

fn head(content_type: &str) -> ResponseHead<'_> {
    ResponseHead { status: 200, content_type, is_encoded: false, content_length: None }
}

#[test]
fn call_is_renamed_and_answer_shaped() {
    let (mut filter, mut exchange) = (Short::default(), mcp(&Settings::default()));
    let RequestAction::Forward { body: Some(body), mcp_headers, target: None } =
        exchange.on_request(&mut filter, CALL)
    else {
        panic!("not forwarded")
    };
    assert!(String::from_utf8_lossy(&body).contains("inner"));
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(mcp_headers, [("mcp-method", text("tools/call")), ("mcp-name", text("inner"))]);
    assert_eq!(
        exchange.on_response(&head("application/json")),
        ResponseAction::Collect { max_bytes: 10 << 20, with_head: false }
    );
    let shaped = exchange.on_body(&mut filter, ANSWER).unwrap();
    assert!(shaped.head().is_none() && shaped.body().ends_with(br#""short"}}"#));
}

#[test]
fn other_messages_pass() {
    let (mut filter, mut exchange) = (Short::default(), mcp(&Settings::default()));
    for body in
        [br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.as_slice(), b"{\"a\":1}", b"[]", b""]
    {
        let pass = RequestAction::Forward { body: None, target: None, mcp_headers: Vec::new() };
        assert_eq!(exchange.on_request(&mut filter, body), pass);
    }
    assert_eq!(exchange.on_response(&head("application/json")), ResponseAction::Pass);
    for (method, kind) in [("GET", "application/json"), ("POST", "text/plain")] {
        assert!(open(&Settings::default(), method, "/", &[("content-type", kind)]).is_ignored());
    }
    let elsewhere = Settings { mcp: vec!["/mcp*".to_owned()], ..Settings::default() };
    assert!(open(&elsewhere, "POST", "/x", &[("content-type", "application/json")]).is_ignored());
}

#[test]
fn requests_that_the_guard_cannot_read_are_refused() {
    let settings = Settings { mcp: vec!["/mcp".to_owned()], ..Settings::default() };
    let mut filter = Short::default();
    let repeated = br#"{"id":1,"method":"ping","method":"tools/call"}"#.as_slice();
    let without_id = br#"{"method":"tools/call","params":{"name":"wrapped"}}"#;
    let marked = [b"\xef\xbb\xbf", CALL].concat();
    let utf16: Vec<u8> = CALL.iter().flat_map(|byte| [*byte, 0]).collect();
    for (body, code) in [
        (marked.as_slice(), "-32700"),
        (&utf16, "-32700"),
        (b"no JSON", "-32700"),
        (repeated, "-32600"),
        (without_id, "-32600"),
    ] {
        let action = mcp(&settings).on_request(&mut filter, body);
        let RequestAction::Respond(response) = action else { panic!("{body:?} is forwarded") };
        assert_eq!(response.status, 400);
        assert!(String::from_utf8(response.body).unwrap().contains(code));
    }
    let headers = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let mut compressed = open(&settings, "POST", "/mcp", &headers);
    let action = compressed.on_request(&mut filter, b"\x1f\x8b");
    assert!(matches!(action, RequestAction::Respond(response) if response.status == 415));
    // Without paths of MCP, such a request may be to another API. Clients of MCP accept events.
    let is_refused = |accept: &str, body: &[u8]| {
        let headers = [&headers[..], &[("accept", accept)]].concat();
        let mut exchange = open(&Settings::default(), "POST", "/orders", &headers);
        matches!(exchange.on_request(&mut Short::default(), body), RequestAction::Respond(_))
    };
    assert!(is_refused("application/json, text/event-stream", b"\x1f\x8b"));
    assert!(!is_refused("application/json", b"\x1f\x8b"));
    let lines = open(&settings, "POST", "/mcp", &[("content-type", "application/jsonl")]);
    assert!(lines.is_ignored());
    let twice = [("content-type", "application/json,application/json")];
    assert!(!open(&settings, "POST", "/mcp", &twice).is_ignored());
}

#[test]
fn batches_are_split_and_joined() {
    let (mut filter, mut exchange) = (Short::default(), mcp(&Settings::default()));
    let read = br#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"read_on"}}"#;
    let batch = [b"[".as_slice(), read, b", ", CALL, b"]"].concat();
    let onward = exchange.on_request(&mut filter, &batch);
    let RequestAction::Forward { body: Some(body), .. } = onward else { panic!("{onward:?}") };
    assert!(!String::from_utf8_lossy(&body).contains("read_on"));
    let answers = exchange.on_body(&mut filter, &[b"[".as_slice(), ANSWER, b"]"].concat()).unwrap();
    let answers: Vec<serde_json::Value> = serde_json::from_slice(answers.body()).unwrap();
    assert_eq!((&answers[0]["id"], &answers[1]["result"]["content"]), (&9.into(), &"short".into()));
    let mut alone = mcp(&Settings::default());
    let onward = alone.on_request(&mut filter, &[b"[".as_slice(), read, b"]"].concat());
    assert!(matches!(onward, RequestAction::Respond(response) if response.body.starts_with(b"[{")));
}

#[test]
fn events_are_shaped_at_any_chunk_size() {
    let (mut filter, mut exchange) = (Short::default(), mcp(&Settings::default()));
    exchange.on_request(&mut filter, CALL);
    assert_eq!(
        exchange.on_response(&head("text/event-stream; charset=utf-8")),
        ResponseAction::Events
    );
    let progress = br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"a":"long"}}"#;
    let stream = [b"id: 1\ndata: ".as_slice(), progress, b"\n\ndata: ", ANSWER, b"\n\n"].concat();
    let mut sent = Vec::new();
    for chunk in stream.chunks(7) {
        sent.extend(exchange.on_events(&mut filter, chunk, false));
    }
    sent.extend(exchange.on_events(&mut filter, b"", true));
    let sent = String::from_utf8(sent).unwrap();
    assert!(sent.starts_with("id: 1\ndata: ") && sent.contains(r#""a":"long"#), "{sent}");
    assert!(sent.ends_with("\"short\"}}\n\n"), "{sent}");
}

#[test]
fn oversized_answers_are_refused_or_forwarded() {
    let long = format!("data: {}\n\ndata: {{}}\n\n", "x".repeat(500));
    for (over, told) in [(OverLimit::Refuse, true), (OverLimit::Forward, false)] {
        let settings = Settings { max_body: 100, over_max_body: over, ..Settings::default() };
        let (mut filter, mut exchange) = (Short::default(), mcp(&settings));
        exchange.on_request(&mut filter, CALL);
        let mut sent = Vec::new();
        for chunk in long.as_bytes().chunks(40) {
            sent.extend(exchange.on_events(&mut filter, chunk, false));
        }
        let sent = String::from_utf8(sent).unwrap();
        assert_eq!((sent.contains("maxBody"), sent.contains("xxx")), (told, !told), "{sent}");
        assert!(sent.ends_with("data: {}\n\n"));
        assert_eq!(filter.over, 1);
        let mut exchange = mcp(&settings);
        exchange.on_request(&mut filter, CALL);
        let known = ResponseHead { content_length: Some(101), ..head("application/json") };
        assert_eq!(exchange.on_response(&known), ResponseAction::TooLong);
        assert_eq!(exchange.on_oversized_body(&mut filter, true).is_some(), told);
        assert!(told || mcp(&settings).on_oversized_body(&mut filter, false).is_some());
    }
}

#[test]
fn api_is_paged_by_query() {
    let api = Api { method: "GET".into(), path: "/v1/*".into(), own: vec![], guard: true };
    let settings = Settings { apis: vec![api], ..Settings::default() };
    let (mut filter, mut exchange) =
        (Short::default(), open(&settings, "GET", "/v1/things?limit=5&a=b", &[]));
    let RequestAction::Forward { target, .. } = exchange.on_request(&mut filter, b"") else {
        panic!()
    };
    assert_eq!(target.as_deref(), Some("/v1/things?a=b"));
    assert_eq!(
        exchange.on_response(&head("application/json")),
        ResponseAction::Collect { max_bytes: 512 << 10, with_head: true }
    );
    let shaped = exchange.on_body(&mut filter, br#"["long"]"#).unwrap();
    assert_eq!(shaped.body(), br#"["short"]"#);
    assert!(open(&settings, "POST", "/v1/things", &[]).is_ignored());
}

#[test]
fn client_is_named_by_header_or_stateless_request() {
    struct Names(Vec<Option<String>>);
    impl MessageFilter for Names {
        fn on_request(&mut self, caller: &Caller, _: &[u8]) -> Verdict {
            self.0.push(caller.client.clone());
            Verdict::Forward(None, Ticket::Pass)
        }
        fn on_response(&mut self, _: &Caller, _: &Ticket, _: &[u8]) -> Option<Vec<u8>> {
            None
        }
        fn on_limit_exceeded(&mut self) {}
    }
    let request = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"io.modelcontextprotocol/clientInfo":{"name":"zed","version":"1"}}}}"#;
    let json = ("content-type", "application/json");
    let stateless = ("mcp-protocol-version", "2026-07-28");
    let named = ("x-context-guard-client", "claude-code");
    let mut names = Names(Vec::new());
    for headers in [vec![json], vec![json, stateless], vec![json, stateless, named]] {
        open(&Settings::default(), "POST", "/mcp", &headers).on_request(&mut names, request);
    }
    let expected = [None, Some("zed".to_owned()), Some("claude-code".to_owned())];
    assert_eq!(names.0, expected);
}

#[test]
fn credentials_identify_callers() {
    let who = |headers: &[(&str, &str)]| {
        let headers: BTreeMap<&str, &str> = headers.iter().copied().collect();
        let header = |name: &str| headers.get(name).map(|value| (*value).to_owned());
        identify_caller(&Settings::default(), &header).principal
    };
    assert_eq!(who(&[]), "anonymous");
    let all = [who(&[]), who(&[("authorization", "a")]), who(&[("cookie", "a")])];
    assert!(all[0] != all[1] && all[1] != all[2] && all[1] == who(&[("authorization", "a")]));
}
