//! A plain JSON API: to the guard an endpoint is a tool named `GET /path`, and a body is what that tool answers with.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use crate::exchange::{Onward, Reply, ResponseHead, Shaped};
use crate::{Caller, Filter, Ticket, Verdict};

/// Parameters that are the guard's under their own names, unless an endpoint keeps them.
const PLAIN: [&str; 9] = [
    "cursor",
    "limit",
    "pages",
    "startLine",
    "endLine",
    "fields",
    "response_mode",
    "filter_ids",
    "min_score",
];
/// Every parameter of the guard can be written with this before it.
const PREFIX: &str = "_guard_";

/// A request, taken apart.
#[derive(Debug)]
pub(crate) struct Asked {
    caller: Caller,
    path: String,
    /// The query without the guard's parameters, as it is spelt.
    query: String,
    /// The call that stands for it.
    call: Vec<u8>,
    ticket: Ticket,
}

impl Asked {
    pub(crate) fn of(caller: Caller, method: &str, target: &str, own: &[String]) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (mut kept, mut arguments, mut guarded) = (Vec::new(), Map::new(), Map::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name), decoded(value));
            let is_own = own.contains(&name) || !PLAIN.contains(&name.as_str());
            match name.strip_prefix(PREFIX) {
                Some(name) => drop(guarded.insert(name.to_owned(), number(value))),
                None if !is_own => drop(guarded.insert(name, number(value))),
                None => {
                    kept.push(pair);
                    arguments.insert(name, value.into());
                }
            }
        }
        arguments.insert("_guard".to_owned(), guarded.into());
        let endpoint = format!("{method} {path}");
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": endpoint, "arguments": arguments}});
        Self {
            caller,
            path: path.to_owned(),
            query: kept.join("&"),
            call: call.to_string().into_bytes(),
            ticket: Ticket::Pass,
        }
    }

    pub(crate) fn request(&mut self, filter: &mut dyn Filter) -> Onward {
        match filter.request(&self.caller, &self.call) {
            Verdict::Answer(answer) => {
                let Shaped { head, body } = self.shaped(&answer);
                Onward::Answer(head.unwrap_or_else(|| Reply::json(200, body)))
            }
            Verdict::Forward(_, ticket) => {
                self.ticket = ticket;
                let query = if self.query.is_empty() { "" } else { "?" };
                let target = Some(format!("{}{query}{}", self.path, self.query));
                Onward::Forward { body: None, target, subject: None }
            }
        }
    }

    /// Whether there is something to shape: text, whole and not compressed.
    pub(crate) fn looks_at(&self, head: &ResponseHead<'_>) -> bool {
        let kind = head.content_type;
        self.ticket != Ticket::Pass
            && (200..300).contains(&head.status)
            && head.status != 206
            && !head.encoded
            && (kind.starts_with("text/") || kind.contains("json"))
            && !kind.starts_with("text/event-stream")
    }

    pub(crate) fn answer(&self, filter: &mut dyn Filter, body: &[u8]) -> Option<Shaped> {
        let text = serde_json::to_string(std::str::from_utf8(body).ok()?).ok()?;
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":{text}}}]}}}}"#
        );
        let shaped = filter.response(&self.caller, &self.ticket, message.as_bytes())?;
        Some(self.shaped(&shaped))
    }

    /// What the guard answers a tool with, as a response of the API.
    fn shaped(&self, answer: &[u8]) -> Shaped {
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        let blocks = answer.pointer("/result/content").and_then(Value::as_array);
        let texts: Vec<&str> =
            blocks.into_iter().flatten().filter_map(|block| block.get("text")?.as_str()).collect();
        let with_head = |reply: Reply| Shaped { body: reply.body.clone(), head: Some(reply) };
        if answer.pointer("/result/isError") == Some(&Value::Bool(true)) {
            return with_head(refused(&texts.join(" ")));
        }
        let contract = answer.pointer("/result/_meta/dev.context-guard~1result");
        let fact = |name: &str| contract.and_then(|contract| contract.get(name)).cloned();
        let content = texts.iter().find(|text| !text.starts_with("[context-guard]"));
        let content = content.copied().unwrap_or_default();
        let body = if serde_json::from_str::<serde::de::IgnoredAny>(content).is_ok() {
            content.to_owned()
        } else {
            let facts = ["chunkIndex", "totalChunks", "nextCursor", "metadata"];
            let facts = facts.iter().filter_map(|name| Some(((*name).to_owned(), fact(name)?)));
            let mut chunk: Map<String, Value> = facts.collect();
            chunk.insert("content".to_owned(), content.into());
            Value::Object(chunk).to_string()
        };
        let mut reply = Reply::json(200, body.into_bytes());
        if let Some(Value::String(loss)) = fact("loss") {
            reply.headers.push(("x-context-guard", loss));
        }
        if let Some(Value::String(cursor)) = fact("nextCursor") {
            let query =
                if self.query.is_empty() { String::new() } else { format!("{}&", self.query) };
            reply
                .headers
                .push(("link", format!("<{}?{query}cursor={cursor}>; rel=\"next\"", self.path)));
        }
        with_head(reply)
    }
}

/// A refusal of the guard, by what it says.
fn refused(detail: &str) -> Reply {
    let codes = [("cursor_expired", 410), ("cursor_invalid", 400), ("data_changed", 409)];
    let code = codes.iter().find(|(code, _)| detail.contains(code));
    let (code, status) = code.copied().unwrap_or(("bad_request", 400));
    problem(status, code, detail)
}

/// An error as RFC 9457 has it.
pub(crate) fn problem(status: u16, code: &str, detail: &str) -> Reply {
    let body = json!({"type": "about:blank", "status": status, "detail": detail, "code": code});
    Reply {
        content_type: "application/problem+json",
        ..Reply::json(status, body.to_string().into_bytes())
    }
}

fn number(value: String) -> Value {
    let number = value.parse::<i64>().map(Value::from);
    let number = number.or_else(|_| value.parse::<f64>().map(Value::from));
    number.ok().filter(Value::is_number).unwrap_or_else(|| value.into())
}

fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guards_parameters_are_taken_out_and_the_rest_stays_as_it_is_spelt() {
        let own = ["fields".to_owned()];
        let target = "/a/b?q=x%20y&limit=5&fields=id%2Cname&_guard_fields=id&z=+&min_score=0.5";
        let asked = Asked::of(Caller::default(), "GET", target, &own);
        assert_eq!(
            (asked.path.as_str(), asked.query.as_str()),
            ("/a/b", "q=x%20y&fields=id%2Cname&z=+")
        );
        let call: Value = serde_json::from_slice(&asked.call).unwrap();
        assert_eq!(
            call["params"]["arguments"],
            json!({"q": "x y", "fields": "id,name", "z": " ", "_guard": {"limit": 5, "fields": "id", "min_score": 0.5}})
        );
    }
}
