//! The self-test of a candidate component. The component shapes answers with known contents, which
//! the test then reads to their end.
//!
//! A new component may shape differently. It must not lose, invent or reveal anything, and it must
//! accept the cursors of the active component.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::answer;
use crate::clock::ManualClock;
use crate::engine::{
    self, CallContext, Component, Decision, HostServices, LossClass, Outcome, RequestVerdict,
    Settings, SigningKey,
};
use crate::store::{MemoryLimits, MemoryStore};
use crate::{Error, Result};

/// The constant time that the clock shows during the self-test, in milliseconds since 1970.
const TEST_TIME_MS: u64 = 1_790_000_000_000;
/// The number of records in the list that the self-test shapes.
const RECORDS: u64 = 400;
/// The number of lines in the text that the self-test shapes.
const LINES: u64 = 3_000;
/// The maximum number of reads for all pages of one answer. More reads mean that cursors form a
/// cycle.
const MAX_READS: usize = 500;

/// Tests the candidate component. Also tests that `candidate` and `running`, the active component,
/// accept each other's cursors.
///
/// # Errors
/// [`Error::Refused`] with the first failure, or [`Error::Engine`] if a call of the component
/// fails. The test ends there, because later failures could result from it.
pub(super) fn run(candidate: &Component, running: Option<&Component>) -> Result<()> {
    let bench = Bench::new();
    let subject = Subject::new(candidate, &bench)?;
    subject.describes_itself()?;
    subject.checks_policies()?;
    subject.leaves_alone_what_fits()?;
    subject.refuses_what_is_no_message()?;
    subject.pages_a_list()?;
    subject.chunks_a_text()?;
    subject.knows_its_cursors()?;
    if let Some(running) = running {
        let before = Subject::new(running, &bench)?;
        Subject::hands_over(&before, &subject, "cursors of the active component are not accepted")?;
        Subject::hands_over(&subject, &before, "the active component does not accept its cursors")?;
    }
    Ok(())
}

/// Tests a component with the policy it will serve: shaping a list must return a valid answer under
/// any policy.
pub(super) fn under_policy(component: &Component, settings: &Settings) -> Result<()> {
    let bench = Bench::new();
    let subject = Subject { component, bench: &bench, settings: settings.clone() };
    let original = list();
    let (shaped, _) = subject.shape(&original)?;
    if let Some(shaped) = shaped {
        is_answer("a list under the policy", &shaped)?;
    }
    Ok(())
}

fn wrong(vector: &str, what: impl std::fmt::Display) -> Error {
    Error::Refused(format!("the component failed its self-test: {vector}: {what}"))
}

/// The store and the clock that components use during the self-test.
struct Bench(HostServices);

impl Bench {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at_ms(TEST_TIME_MS));
        let store = Arc::new(MemoryStore::new(Arc::clone(&clock) as _, MemoryLimits::default()));
        Self(HostServices { store, clock })
    }
}

/// A component under test, with its compiled policy.
struct Subject<'b> {
    component: &'b Component,
    bench: &'b Bench,
    settings: Settings,
}

fn cx(principal: &str) -> CallContext {
    CallContext {
        principal: principal.to_owned(),
        request_id: "self-test".to_owned(),
        ..CallContext::default()
    }
}

fn call(tool: &str, arguments: &Value) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
        .to_string()
        .into_bytes()
}

fn response(text: &str) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": text}]}})
        .to_string()
        .into_bytes()
}

fn record(id: u64) -> Value {
    json!({
        "id": id,
        "guest": format!("Guest {id}"),
        "status": if id.is_multiple_of(3) { "open" } else { "paid" },
        "price": {"total": id * 17, "currency": "EUR"},
        "note": "Arrives late, wants a quiet room.",
    })
}

fn list() -> Vec<u8> {
    response(&Value::from((0..RECORDS).map(record).collect::<Vec<_>>()).to_string())
}

fn text() -> String {
    (0..LINES).fold(String::new(), |text, line| {
        text + &format!("2026-03-01T00:00:{:02}Z INFO booking {line} synchronised\n", line % 60)
    })
}

/// Parses a message, and checks that it answers the self-test's request. `vector` is the name of
/// the test case in errors.
fn is_answer(vector: &str, message: &[u8]) -> Result<Value> {
    let answer: Value = serde_json::from_slice(message)
        .map_err(|error| wrong(vector, format!("the answer is not JSON: {error}")))?;
    let whole = answer.get("id") == Some(&json!(7)) && answer.pointer("/result/content").is_some();
    if whole { Ok(answer) } else { Err(wrong(vector, "the answer does not belong to the request")) }
}

impl<'b> Subject<'b> {
    fn new(component: &'b Component, bench: &'b Bench) -> Result<Self> {
        let compiled = component.compile_policy(&bench.0, "")?;
        let key = SigningKey { id: String::new(), secret: b"the key of the self-test".to_vec() };
        let settings = Settings { policy: compiled.resolved, keys: vec![key] };
        Ok(Self { component, bench, settings })
    }

    fn request(&self, principal: &str, message: &[u8]) -> engine::Result<RequestVerdict> {
        self.component.on_request(&self.bench.0, &self.settings, &cx(principal), message)
    }

    /// Passes `message`, an upstream's response, through the component. Returns the shaped answer
    /// (`None` if unchanged) and the decision.
    fn shape(&self, message: &[u8]) -> Result<(Option<Vec<u8>>, Decision)> {
        let RequestVerdict::Forward(forward) = self.request("self-test", &call("t", &json!({})))?
        else {
            return Err(wrong("a call without a cursor", "it was answered instead of forwarded"));
        };
        if forward.ticket.is_empty() {
            // A policy may disable shaping.
            return Ok((None, Decision::default()));
        }
        let verdict = self.component.on_response(
            &self.bench.0,
            &self.settings,
            &cx("self-test"),
            &forward.ticket,
            message,
        )?;
        Ok((
            match verdict.message {
                Outcome::Unchanged => None,
                Outcome::Shaped(message) => Some(message),
            },
            verdict.decision,
        ))
    }

    /// Returns the component's answer to a call of its tool `context_guard_read`. `vector` is the
    /// name of the test case in errors.
    fn read(&self, vector: &str, principal: &str, arguments: &Value) -> Result<Vec<u8>> {
        match self.request(principal, &call("context_guard_read", arguments))? {
            RequestVerdict::Answer(answer) => {
                is_answer(vector, &answer.message)?;
                Ok(answer.message)
            }
            RequestVerdict::Forward(_) => Err(wrong(vector, "a cursor was not accepted")),
        }
    }

    fn describes_itself(&self) -> Result<()> {
        let described = self.component.describe(&self.bench.0)?;
        if described.name.is_empty()
            || described.version.is_empty()
            || described.policy_schema_digest.is_empty()
        {
            return Err(wrong("describe", "a field of the description is empty"));
        }
        Ok(())
    }

    fn checks_policies(&self) -> Result<()> {
        match self.component.compile_policy(&self.bench.0, r#"{"tokenBudgetThreshold": "x"}"#) {
            Err(engine::Error::Policy(_)) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Err(wrong("an invalid policy", "it was accepted")),
        }
    }

    fn leaves_alone_what_fits(&self) -> Result<()> {
        let (shaped, decision) = self.shape(&response("[{\"id\":1}]"))?;
        if shaped.is_some() || decision.loss != LossClass::None {
            return Err(wrong("an answer that fits", "it was changed"));
        }
        Ok(())
    }

    fn refuses_what_is_no_message(&self) -> Result<()> {
        match self.request("self-test", b"{\"jsonrpc\":") {
            Err(engine::Error::Fault(_)) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Err(wrong("an incomplete message", "it was accepted")),
        }
    }

    fn pages_a_list(&self) -> Result<()> {
        let vector = "a list of 400 records";
        let original = list();
        let (first, decision) = self.shape(&original)?;
        let Some(first) = first else { return Err(wrong(vector, "it was sent in full")) };
        is_answer(vector, &first)?;
        if decision.estimated_tokens > decision.budget
            || decision.response_bytes != first.len() as u64
        {
            return Err(wrong(vector, "the answer does not match its decision"));
        }
        if self.shape(&original)?.0.as_ref() != Some(&first) {
            return Err(wrong(vector, "the second call returned another answer"));
        }
        let mut records = Vec::new();
        self.walk(vector, &first, |part| {
            let page: Value = serde_json::from_str(part).unwrap_or_default();
            let items = page.get("items").unwrap_or(&page);
            records.extend(items.as_array().into_iter().flatten().cloned());
        })?;
        if records == (0..RECORDS).map(record).collect::<Vec<_>>() {
            Ok(())
        } else {
            Err(wrong(
                vector,
                format!("its pages have {} records, which differ from the list", records.len()),
            ))
        }
    }

    fn chunks_a_text(&self) -> Result<()> {
        let vector = "a text of 3,000 lines";
        let original = text();
        let (first, _) = self.shape(&response(&original))?;
        let Some(first) = first else { return Err(wrong(vector, "it was sent in full")) };
        is_answer(vector, &first)?;
        let mut whole = String::new();
        self.walk(vector, &first, |part| whole.push_str(part))?;
        if whole == original {
            Ok(())
        } else {
            Err(wrong(vector, "its chunks differ from the text"))
        }
    }

    /// Reads all pages by following cursors, beginning with the answer `first`. Calls `see` with
    /// each content text. `vector` is the name of the test case in errors.
    fn walk(&self, vector: &str, first: &[u8], mut see: impl FnMut(&str)) -> Result<()> {
        // The first answer may be condensed: `fields: all` reads its page again in full.
        let mut message = first.to_vec();
        for read in 0..MAX_READS {
            let contract = answer::contract(&message);
            let condensed = contract
                .as_ref()
                .is_some_and(|contract| contract.get("loss") == Some(&json!("condensed")));
            if !condensed {
                answer::content(&message).iter().for_each(|part| see(part));
            } else if read > 0 {
                return Err(wrong(vector, "a page with all fields was condensed"));
            }
            let Some(cursor) = answer::next_cursor(&message)
                .or_else(|| condensed.then(|| answer::whole_cursor(&message)).flatten())
            else {
                return Ok(());
            };
            message =
                self.read(vector, "self-test", &json!({"cursor": cursor, "fields": "all"}))?;
        }
        Err(wrong(vector, "its cursors form a cycle"))
    }

    fn cursor(&self) -> Result<String> {
        let (first, _) = self.shape(&list())?;
        let cursor = first.as_deref().and_then(answer::next_cursor);
        cursor.ok_or_else(|| wrong("a list of 400 records", "there is no next cursor"))
    }

    fn knows_its_cursors(&self) -> Result<()> {
        let cursor = self.cursor()?;
        let forged: String = cursor.chars().rev().collect();
        for (vector, principal, cursor) in [
            ("a forged cursor", "self-test", &forged),
            ("another principal's cursor", "somebody else", &cursor),
        ] {
            let answer = self.read(vector, principal, &json!({"cursor": cursor}))?;
            let answer = is_answer(vector, &answer)?;
            if answer.pointer("/result/isError") != Some(&json!(true)) {
                return Err(wrong(vector, "it was served"));
            }
        }
        Ok(())
    }

    /// Checks that a cursor which `from` issued reads pages that begin with the same record, with
    /// `from` and with `to`. `otherwise` is the error message.
    fn hands_over(from: &Self, to: &Self, otherwise: &str) -> Result<()> {
        let arguments = json!({"cursor": from.cursor()?, "fields": "all"});
        let read = |subject: &Self| {
            let message = subject.read(otherwise, "self-test", &arguments)?;
            let page = answer::content(&message).concat();
            let page: Value = serde_json::from_str(&page).unwrap_or_default();
            Ok::<_, Error>(page.pointer("/items/0/id").cloned())
        };
        match (read(from)?, read(to)?) {
            (Some(own), Some(other)) if own == other => Ok(()),
            (own, other) => Err(wrong(
                "the hand-over of cursors",
                format!("{otherwise}: {other:?} instead of {own:?}"),
            )),
        }
    }
}
