//! What becomes of exchanges, under a filter that shortens.

use std::collections::BTreeMap;

use super::*;
use crate::{Ticket, Verdict};

/// Says what it was asked, and makes every answer shorter.
#[derive(Default)]
struct Short {
    over: usize,
}

impl Filter for Short {
    fn request(&mut self, _: &Caller, message: &[u8]) -> Verdict {
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

    fn response(&mut self, _: &Caller, ticket: &Ticket, message: &[u8]) -> Option<Vec<u8>> {
        assert_eq!(ticket, &Ticket::Guard(b"t".to_vec()));
        Some(String::from_utf8_lossy(message).replace("long", "short").into_bytes())
    }

    fn over_limit(&mut self) {
        self.over += 1;
    }
}

const CALL: &[u8] =
    br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wrapped"}}"#;
const ANSWER: &[u8] = br#"{"jsonrpc":"2.0","id":1,"result":{"content":"long"}}"#;

fn open(settings: &Settings, method: &str, target: &str, headers: &[(&str, &str)]) -> Exchange {
    let headers: BTreeMap<&str, &str> = headers.iter().copied().collect();
    let header = |name: &str| headers.get(name).map(|value| (*value).to_owned());
    Exchange::open(settings, &RequestHead { method, target, header: &header })
}

fn mcp(settings: &Settings) -> Exchange {
    open(settings, "POST", "/mcp", &[("content-type", "application/json")])
}

fn head(content_type: &str) -> ResponseHead<'_> {
    ResponseHead { status: 200, content_type, encoded: false, length: None }
}

#[test]
fn a_call_is_renamed_and_its_answer_changed() {
    let (mut filter, mut exchange) = (Short::default(), mcp(&Settings::default()));
    let Onward::Forward { body: Some(body), subject, target: None } =
        exchange.request(&mut filter, CALL)
    else {
        panic!("not forwarded")
    };
    assert!(String::from_utf8_lossy(&body).contains("inner"));
    assert_eq!(subject.as_deref(), Some("inner"));
    assert_eq!(
        exchange.response(&head("application/json")),
        Way::Collect { most: 10 << 20, with_head: false }
    );
    let shaped = exchange.answer(&mut filter, ANSWER).unwrap();
    assert!(shaped.head.is_none() && shaped.body.ends_with(br#""short"}}"#));
}

#[test]
fn what_is_no_call_is_not_looked_at() {
    let (mut filter, mut exchange) = (Short::default(), mcp(&Settings::default()));
    for body in [br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.as_slice(), b"no JSON", b"[", b""] {
        let pass = Onward::Forward { body: None, target: None, subject: None };
        assert_eq!(exchange.request(&mut filter, body), pass);
    }
    assert_eq!(exchange.response(&head("application/json")), Way::Pass);
    for (method, kind) in [("GET", "application/json"), ("POST", "text/plain")] {
        assert!(open(&Settings::default(), method, "/", &[("content-type", kind)]).passes());
    }
    let elsewhere = Settings { mcp: vec!["/mcp*".to_owned()], ..Settings::default() };
    assert!(open(&elsewhere, "POST", "/x", &[("content-type", "application/json")]).passes());
}

#[test]
fn batches_are_taken_apart_and_put_together() {
    let (mut filter, mut exchange) = (Short::default(), mcp(&Settings::default()));
    let read = br#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"read_on"}}"#;
    let batch = [b"[".as_slice(), read, b", ", CALL, b"]"].concat();
    let onward = exchange.request(&mut filter, &batch);
    let Onward::Forward { body: Some(body), .. } = onward else { panic!("{onward:?}") };
    assert!(!String::from_utf8_lossy(&body).contains("read_on"));
    let answers = exchange.answer(&mut filter, &[b"[".as_slice(), ANSWER, b"]"].concat()).unwrap();
    let answers: Vec<serde_json::Value> = serde_json::from_slice(&answers.body).unwrap();
    assert_eq!((&answers[0]["id"], &answers[1]["result"]["content"]), (&9.into(), &"short".into()));
    let mut alone = mcp(&Settings::default());
    let onward = alone.request(&mut filter, &[b"[".as_slice(), read, b"]"].concat());
    assert!(matches!(onward, Onward::Answer(reply) if reply.body.starts_with(b"[{")));
}

#[test]
fn events_are_changed_one_by_one_however_they_come() {
    let (mut filter, mut exchange) = (Short::default(), mcp(&Settings::default()));
    exchange.request(&mut filter, CALL);
    assert_eq!(exchange.response(&head("text/event-stream; charset=utf-8")), Way::Events);
    let progress = br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"a":"long"}}"#;
    let stream = [b"id: 1\ndata: ".as_slice(), progress, b"\n\ndata: ", ANSWER, b"\n\n"].concat();
    let mut sent = Vec::new();
    for chunk in stream.chunks(7) {
        sent.extend(exchange.events(&mut filter, chunk, false));
    }
    sent.extend(exchange.events(&mut filter, b"", true));
    let sent = String::from_utf8(sent).unwrap();
    assert!(sent.starts_with("id: 1\ndata: ") && sent.contains(r#""a":"long"#), "{sent}");
    assert!(sent.ends_with("\"short\"}}\n\n"), "{sent}");
}

#[test]
fn what_is_too_long_is_refused_or_sent_on() {
    let long = format!("data: {}\n\ndata: {{}}\n\n", "x".repeat(500));
    for (over, told) in [(OverLimit::Refuse, true), (OverLimit::Forward, false)] {
        let settings = Settings { max_body: 100, over_max_body: over, ..Settings::default() };
        let (mut filter, mut exchange) = (Short::default(), mcp(&settings));
        exchange.request(&mut filter, CALL);
        let mut sent = Vec::new();
        for chunk in long.as_bytes().chunks(40) {
            sent.extend(exchange.events(&mut filter, chunk, false));
        }
        let sent = String::from_utf8(sent).unwrap();
        assert_eq!((sent.contains("maxBody"), sent.contains("xxx")), (told, !told), "{sent}");
        assert!(sent.ends_with("data: {}\n\n"));
        assert_eq!(filter.over, 1);
        let mut exchange = mcp(&settings);
        exchange.request(&mut filter, CALL);
        let known = ResponseHead { length: Some(101), ..head("application/json") };
        assert_eq!(exchange.response(&known), Way::TooLong);
        assert_eq!(exchange.too_long(&mut filter, true).is_some(), told);
        assert!(told || mcp(&settings).too_long(&mut filter, false).is_some());
    }
}

#[test]
fn an_api_is_paged_in_its_query() {
    let api = crate::Api { method: "GET".into(), path: "/v1/*".into(), own: vec![], guard: true };
    let settings = Settings { apis: vec![api], ..Settings::default() };
    let (mut filter, mut exchange) =
        (Short::default(), open(&settings, "GET", "/v1/things?limit=5&a=b", &[]));
    let Onward::Forward { target, .. } = exchange.request(&mut filter, b"") else { panic!() };
    assert_eq!(target.as_deref(), Some("/v1/things?a=b"));
    assert_eq!(
        exchange.response(&head("application/json")),
        Way::Collect { most: 512 << 10, with_head: true }
    );
    let shaped = exchange.answer(&mut filter, br#"["long"]"#).unwrap();
    assert_eq!(shaped.body, br#"["short"]"#);
    assert!(open(&settings, "POST", "/v1/things", &[]).passes());
}

#[test]
fn callers_with_other_credentials_are_others() {
    let who = |headers: &[(&str, &str)]| {
        let headers: BTreeMap<&str, &str> = headers.iter().copied().collect();
        let header = |name: &str| headers.get(name).map(|value| (*value).to_owned());
        caller(&Settings::default(), &RequestHead { method: "POST", target: "/", header: &header })
            .principal
    };
    assert_eq!(who(&[]), "anonymous");
    let all = [who(&[]), who(&[("authorization", "a")]), who(&[("cookie", "a")])];
    assert!(all[0] != all[1] && all[1] != all[2] && all[1] == who(&[("authorization", "a")]));
}
