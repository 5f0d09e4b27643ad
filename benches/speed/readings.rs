//! Reads from the store: queries over all records, and pages, selected fields and chunks. They are
//! at the start and the end of a small snapshot and of the largest possible one.

use anyhow::{Context, Result, ensure};
use context_guard_core::encoding::CursorFormat;
use context_guard_core::snapshot::Cursor;
use context_guard_test_support::guards::NOW_MS;
use serde_json::{Value, json};

use crate::inputs::{bookings, call, log, structured, text};
use crate::sides::{Core, PRINCIPAL, Sandbox, Side, Whole, keys};
use crate::turns::{Bench, Turns};

/// Returns the cursor of an answer.
fn next(answer: &[u8]) -> Result<String> {
    let answer: Value = serde_json::from_slice(answer)?;
    let meta = &answer["result"]["_meta"]["dev.context-guard/result"];
    Ok(meta["nextCursor"].as_str().with_context(|| format!("no cursor in {answer}"))?.to_owned())
}

/// Returns the same cursor at another offset.
fn at_offset(cursor: &str, offset: u64) -> Result<String> {
    let keys = keys()?;
    let mut cursor = Cursor::verify(cursor, &keys, PRINCIPAL, NOW_MS, u64::MAX)?;
    cursor.offset = offset;
    Ok(cursor.sign(CursorFormat::Short, &keys, PRINCIPAL))
}

/// A read of a stored answer.
struct Reading {
    /// The position in the list or text.
    offset: u64,
    /// The arguments beside the cursor.
    arguments: Value,
    /// A part of the answer.
    says: String,
}

impl Reading {
    /// Reads three records of a list.
    fn records(offset: u64, says: String) -> Self {
        Self { offset, arguments: json!({"limit": 3, "fields": "all"}), says }
    }

    /// Returns the call with the cursor of an answer.
    fn call(&self, answer: &[u8]) -> Result<Vec<u8>> {
        let mut arguments = self.arguments.clone();
        arguments["cursor"] = at_offset(&next(answer)?, self.offset)?.into();
        Ok(call("context_guard_read", &arguments))
    }
}

/// A stored answer in each form of the guard.
struct StoredAnswer {
    size: &'static str,
    request: Vec<u8>,
    answer: Vec<u8>,
    core: Core,
    sandbox: Sandbox,
    whole: Whole,
}

impl StoredAnswer {
    fn new(size: &'static str, request: Vec<u8>, answer: Vec<u8>) -> Result<Self> {
        let (core, sandbox, whole) = (Core::new("{}")?, Sandbox::new("{}")?, Whole::new("{}")?);
        Ok(Self { size, request, answer, core, sandbox, whole })
    }

    /// Returns benches of a reading, one per form.
    fn benches(&self, what: &str, reading: &Reading) -> Result<[Bench<'_>; 3]> {
        let group = format!("{what}-of-{}", self.size);
        Ok([
            self.bench(&group, "core", &self.core, reading)?,
            self.bench(&group, "component", &self.sandbox, reading)?,
            self.bench(&group, "filter", &self.whole, reading)?,
        ])
    }

    fn bench<'a, S: Side>(
        &self,
        group: &str,
        form: &'static str,
        side: &'a S,
        reading: &Reading,
    ) -> Result<Bench<'a>> {
        let shaped = side.shape(&side.forward(&self.request)?, &self.answer)?;
        let shaped = shaped.context("the answer was not shaped")?;
        let read = reading.call(&shaped)?;
        let page = String::from_utf8(side.read(&read)?)?;
        let is_right = page.contains(&reading.says) && !page.contains("isError");
        ensure!(is_right, "{group}, {form}: {page}");
        Ok(Bench::new(group, form, move || side.read(&read)))
    }
}

/// Measures all reads.
pub(crate) fn run(turns: &mut Turns) -> Result<()> {
    for (what, fields) in [("page", "all"), ("fields", "id,status,guest.name")] {
        let mut lists = Vec::new();
        for (size, bytes) in [("1MB", 1_000_000), ("60MB", 60_000_000)] {
            let list = bookings(bytes);
            let items = list.matches("\"id\":\"bk_").count() as u64;
            let request = call("list", &json!({"_guard_limit": 3, "_guard_fields": fields}));
            lists.push((StoredAnswer::new(size, request, structured(&list))?, items));
        }
        for place in ["first", "last"] {
            let mut benches = Vec::new();
            for (stored, items) in &lists {
                let offset = if place == "first" { 3 } else { items - 3 };
                let reading = Reading::records(offset, format!("bk_{:06}", offset + 1));
                benches.extend(stored.benches(&format!("{what}-{place}"), &reading)?);
            }
            turns.run(benches)?;
        }
    }
    let log = StoredAnswer::new("3MB", call("list", &json!({})), text(&log(3_000_000)))?;
    let end = Reading { offset: 2_900_000, arguments: json!({}), says: "request".to_owned() };
    turns.run(log.benches("chunk-last", &end)?.into())?;
    let list = bookings(10_000_000);
    let list = StoredAnswer::new("10MB", call("list", &json!({})), structured(&list))?;
    let total =
        json!({"where": "price.base > 250", "aggregate": "count, avg(price.base) by status"});
    let program = json!({"jq": ".bookings | map(select(.price.base > 499) | {id, status})"});
    for (what, arguments) in [("where", total), ("jq", program)] {
        let reading = Reading { offset: 0, arguments, says: "cancelled".to_owned() };
        turns.run(list.benches(what, &reading)?.into())?;
    }
    Ok(())
}
