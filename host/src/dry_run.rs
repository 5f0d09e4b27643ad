//! Recorded traffic under another policy or component: what would have been sent, beside what is sent now.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::answer::{o200k, visible};
use crate::clock::ManualClock;
use crate::engine::CallContext;
use crate::filter::{Filter, Request};
use crate::needles::Needles;
use crate::recording::Exchange;

/// One side of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// Tokens as sent.
    pub tokens: u64,
    /// Bytes as sent.
    pub bytes: u64,
    /// Needles that are still there.
    pub needles: u64,
    /// Answers that the guard failed on.
    pub faults: u64,
    /// Answers that it changed.
    pub shaped: u64,
    /// Tokens of the largest answer.
    pub largest: u64,
}

impl Side {
    fn of(sent: Option<&[u8]>, original: &[u8], needles: &Needles) -> Self {
        let message = sent.unwrap_or(original);
        let shown = visible(message);
        let tokens = o200k(&shown);
        Self {
            tokens,
            bytes: message.len() as u64,
            needles: needles.kept(&shown),
            faults: 0,
            shaped: u64::from(sent.is_some()),
            largest: tokens,
        }
    }

    fn add(&mut self, other: &Self) {
        self.tokens += other.tokens;
        self.bytes += other.bytes;
        self.needles += other.needles;
        self.faults += other.faults;
        self.shaped += other.shaped;
        self.largest = self.largest.max(other.largest);
    }
}

/// An endpoint, or one answer of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// `upstream::tool`.
    pub endpoint: String,
    /// Answers.
    pub answers: u64,
    /// Tokens as the upstream gave them.
    pub original: u64,
    /// Needles in them.
    pub needles: u64,
    /// As it is now.
    pub before: Side,
    /// As it would be.
    pub after: Side,
    /// When the answer was recorded, of a single one.
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
        self.needles += one.needles;
        self.before.add(&one.before);
        self.after.add(&one.after);
    }

    /// How much larger answers become, in percent of what they are now.
    #[must_use]
    pub fn growth(&self) -> f64 {
        ratio(self.after.tokens, self.before.tokens).map_or(0.0, |ratio| (ratio - 1.0) * 100.0)
    }

    /// The share of needles that a side keeps; 1 where there are none.
    #[must_use]
    pub fn recall(&self, side: &Side) -> f64 {
        ratio(side.needles, self.needles).unwrap_or(1.0)
    }
}

#[allow(clippy::cast_precision_loss, reason = "a ratio of counts")]
fn ratio(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// By endpoint.
    pub endpoints: Vec<Row>,
    /// All together.
    pub total: Row,
    /// The answers that grow most, or lose most needles.
    pub worst: Vec<Row>,
}

/// Runs traffic through both filters, in its order; each should have a store of its own. Tokens are counted with o200k. `see` hears how many are done.
///
/// `clock`, which both filters read, is set to when each answer was recorded: the same traffic gives the same report.
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
        // What tools there are is learnt from; it is no answer to shape.
        if exchange.request.get("method").is_some_and(|method| method == "tools/list") {
            for filter in [before, after] {
                let _ = send(filter, exchange, request.as_bytes(), response.as_bytes());
            }
            continue;
        }
        let needles = Needles::of(response.as_bytes());
        let side = |filter: &Filter| {
            let sent = send(filter, exchange, request.as_bytes(), response.as_bytes());
            Side { faults: sent.1, ..Side::of(sent.0.as_deref(), response.as_bytes(), &needles) }
        };
        let (now, then) = (side(before), side(after));
        let row = Row {
            endpoint: exchange.endpoint.clone(),
            answers: 1,
            original: o200k(&visible(response.as_bytes())),
            needles: needles.len(),
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
    // What is lost weighs more than what is longer.
    let harm = |row: &Row| {
        let lost = row.before.needles.saturating_sub(row.after.needles);
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

/// What a filter sends in the place of an answer, if it changes it, and how often it failed.
fn send(
    filter: &Filter,
    exchange: &Exchange,
    request: &[u8],
    response: &[u8],
) -> (Option<Vec<u8>>, u64) {
    let cx = CallContext {
        principal: exchange.principal.clone(),
        request_id: "replay".to_owned(),
        upstream: exchange.upstream.clone(),
        protocol_version: exchange.protocol_version.clone(),
        ..CallContext::default()
    };
    let faults = filter.faults();
    let sent = match filter.request(&cx, request) {
        Request::Answer(answer, _) => Some(answer),
        Request::Forward(_, ticket) => filter.response(&cx, &ticket, response),
    };
    (sent, filter.faults() - faults)
}
