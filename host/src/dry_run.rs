//! Replays recorded traffic under another policy or component and compares the answers.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use crate::answer::{next_cursor, o200k, visible, whole_cursor};
use crate::clock::ManualClock;
use crate::engine::CallContext;
use crate::filter::{Filter, Request};
use crate::key_facts::KeyFacts;
use crate::recording::Exchange;

/// The totals of the answers that one side of a comparison (policy and component) sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// The number of o200k tokens of the sent answers.
    pub tokens: u64,
    /// The total length of the sent answers, in bytes.
    pub bytes: u64,
    /// The number of key facts (ids, names, error lines) of the original answers that the sent
    /// answers contain.
    #[serde(rename = "needles")]
    pub key_facts: u64,
    /// The number of key facts that the sent answers contain together with one further read of
    /// each.
    #[serde(rename = "reachableNeedles")]
    pub reachable_facts: u64,
    /// The number of guard calls that failed.
    pub faults: u64,
    /// The number of answers that the guard changed, or gave itself.
    pub shaped: u64,
    /// The number of tokens of the largest sent answer.
    pub largest: u64,
}

impl Side {
    /// Measures an answer. `sent` is the shaped answer, or `None` if the original is sent. `read`
    /// is the answer to one further read, or `None` without a cursor.
    fn measure(
        sent: Option<&[u8]>,
        read: Option<&[u8]>,
        original: &[u8],
        facts: &KeyFacts,
    ) -> Self {
        let message = sent.unwrap_or(original);
        let shown = visible(message);
        let tokens = o200k(&shown);
        let both = read.map_or_else(String::new, |read| format!("{shown}\n{}", visible(read)));
        Self {
            tokens,
            bytes: message.len() as u64,
            key_facts: facts.count_in(&shown),
            reachable_facts: facts.count_in(if read.is_some() { &both } else { &shown }),
            faults: 0,
            shaped: u64::from(sent.is_some()),
            largest: tokens,
        }
    }

    fn add(&mut self, other: &Self) {
        self.tokens += other.tokens;
        self.bytes += other.bytes;
        self.key_facts += other.key_facts;
        self.reachable_facts += other.reachable_facts;
        self.faults += other.faults;
        self.shaped += other.shaped;
        self.largest = self.largest.max(other.largest);
    }
}

/// A comparison of two policies or components over the answers of one endpoint, over one answer, or
/// over all answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The endpoint, such as `upstream::tool`. Empty for the comparison of all answers.
    pub endpoint: String,
    /// The number of compared answers.
    pub answers: u64,
    /// The number of o200k tokens of the original answers.
    pub original: u64,
    /// The number of key facts (ids, names, error lines) in the original answers.
    #[serde(rename = "needles")]
    pub key_facts: u64,
    /// The answers under the old policy or component.
    pub before: Side,
    /// The answers under the new policy or component.
    pub after: Side,
    /// The time of the recorded exchange, in milliseconds since 1970, if the row describes one
    /// answer. 0 for other rows.
    #[serde(skip_serializing_if = "is_zero")]
    pub timestamp: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Row {
    fn add(&mut self, one: &Self) {
        self.answers += one.answers;
        self.original += one.original;
        self.key_facts += one.key_facts;
        self.before.add(&one.before);
        self.after.add(&one.after);
    }

    /// Returns the growth of the tokens from `before` to `after`, in percent. Returns 0 if `before`
    /// has no tokens.
    #[must_use]
    pub fn growth(&self) -> f64 {
        ratio(self.after.tokens, self.before.tokens).map_or(0.0, |ratio| (ratio - 1.0) * 100.0)
    }

    /// Returns the share of the original answers' key facts that the answers of `side` contain,
    /// from 0 to 1. Returns 1 if the original answers have no key facts.
    #[must_use]
    pub fn recall(&self, side: &Side) -> f64 {
        ratio(side.key_facts, self.key_facts).unwrap_or(1.0)
    }

    /// Returns the share of the original answers' key facts that the answers of `side` and one
    /// further read of each contain. Returns 1 if the original answers have no key facts.
    #[must_use]
    pub fn reachable(&self, side: &Side) -> f64 {
        ratio(side.reachable_facts, self.key_facts).unwrap_or(1.0)
    }

    /// Returns the share of key facts that is lost from `before` to `after`, or 0. It is the larger
    /// of two losses: in the answers, and in the answers with one further read.
    #[must_use]
    pub fn recall_loss(&self) -> f64 {
        let first = self.recall(&self.before) - self.recall(&self.after);
        let reachable = self.reachable(&self.before) - self.reachable(&self.after);
        first.max(reachable).max(0.0)
    }
}

#[allow(clippy::cast_precision_loss, reason = "a ratio of counts")]
fn ratio(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// The result of comparing two policies or components on recorded traffic.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The comparison for each endpoint, in the order of their names.
    pub endpoints: Vec<Row>,
    /// The comparison of all answers.
    pub total: Row,
    /// The single answers with the most faults, lost key facts or token growth, in descending
    /// order.
    pub worst: Vec<Row>,
}

/// Replays recorded traffic in its order through the filters `before` and `after`, which need
/// separate stores. The report lists the `worst` worst answers. After each exchange, `see` is
/// called with the number of finished exchanges. Lists of tools teach the guard, but are not
/// compared, and `see` is not called after them.
///
/// `clock`, which both filters must use, is set to the time of each exchange, so that the same
/// traffic gives the same report.
#[must_use]
pub fn compare(
    before: &Filter,
    after: &Filter,
    clock: &ManualClock,
    traffic: &[Exchange],
    worst: usize,
    mut see: impl FnMut(usize),
) -> Report {
    let mut endpoints: BTreeMap<&str, Row> = BTreeMap::new();
    let mut report = Report::default();
    let mut answers: Vec<Row> = Vec::new();
    for (at, exchange) in traffic.iter().enumerate() {
        clock.set_ms(exchange.timestamp);
        let (request, response) = (exchange.request.to_string(), exchange.response.to_string());
        // A list of tools teaches the guard about tools; it is not an answer to compare.
        if exchange.request.get("method").is_some_and(|method| method == "tools/list") {
            for filter in [before, after] {
                let _ = send(filter, exchange, request.as_bytes(), response.as_bytes());
            }
            continue;
        }
        let facts = KeyFacts::extract(response.as_bytes());
        let side = |filter: &Filter| {
            let sent = send(filter, exchange, request.as_bytes(), response.as_bytes());
            let shaped = sent.0.as_deref();
            let read = shaped.and_then(|shaped| read_on(filter, exchange, shaped));
            let side = Side::measure(shaped, read.as_deref(), response.as_bytes(), &facts);
            Side { faults: sent.1, ..side }
        };
        let (now, then) = (side(before), side(after));
        let row = Row {
            endpoint: exchange.endpoint.clone(),
            answers: 1,
            original: o200k(&visible(response.as_bytes())),
            key_facts: facts.len(),
            before: now,
            after: then,
            timestamp: exchange.timestamp,
        };
        let sum = endpoints.entry(&exchange.endpoint).or_default();
        sum.endpoint.clone_from(&exchange.endpoint);
        sum.add(&row);
        report.total.add(&row);
        answers.push(row);
        see(at + 1);
    }
    // Lost key facts weigh more than growth.
    let harm = |row: &Row| {
        let lost = row.before.key_facts.saturating_sub(row.after.key_facts);
        let grown = row.after.tokens.saturating_sub(row.before.tokens);
        (row.after.faults, lost * 20 + grown)
    };
    answers.retain(|row| harm(row) > (0, 0));
    answers.sort_by_key(|row| std::cmp::Reverse(harm(row)));
    answers.truncate(worst);
    report.endpoints = endpoints.into_values().collect();
    report.worst = answers;
    report
}

fn context(exchange: &Exchange) -> CallContext {
    CallContext {
        principal: exchange.principal.clone(),
        request_id: "replay".to_owned(),
        upstream: exchange.upstream.clone(),
        protocol_version: exchange.protocol_version.clone(),
        ..CallContext::default()
    }
}

/// Reads the next part of a shaped answer by its cursor. Returns `None` if the answer has no
/// cursor, or the guard does not answer the read itself.
fn read_on(filter: &Filter, exchange: &Exchange, shaped: &[u8]) -> Option<Vec<u8>> {
    let cursor = next_cursor(shaped).or_else(|| whole_cursor(shaped))?;
    let read = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "context_guard_read", "arguments": {"cursor": cursor},
    }});
    match filter.request(&context(exchange), read.to_string().as_bytes()) {
        Request::Answer(answer, ..) => Some(answer),
        // The recording has no answer to a repeated call.
        Request::Forward(..) => None,
    }
}

/// Passes a recorded exchange through a filter. Returns the answer that the filter sends, and the
/// number of guard faults. The answer is `None` if the upstream's answer is sent unchanged.
fn send(
    filter: &Filter,
    exchange: &Exchange,
    request: &[u8],
    response: &[u8],
) -> (Option<Vec<u8>>, u64) {
    let cx = context(exchange);
    let faults = filter.faults();
    let sent = match filter.request(&cx, request) {
        Request::Answer(answer, ..) => Some(answer),
        Request::Forward(_, ticket) => filter.response(&cx, &ticket, response),
    };
    (sent, filter.faults() - faults)
}
