//! Reads from the store: pages, selected fields and chunks, at the start and the end of a small
//! snapshot and of the largest possible one.

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

/// Returns a read of three records of a list, or of a chunk of a text.
fn read(cursor: &str, is_list: bool) -> Vec<u8> {
    let mut arguments = json!({ "cursor": cursor });
    if is_list {
        arguments["limit"] = 3.into();
        arguments["fields"] = "all".into();
    }
    call("context_guard_read", &arguments)
}

/// A stored answer in each form of the guard.
struct StoredAnswer {
    size: &'static str,
    /// True if the answer is a list, false if it is a text.
    is_list: bool,
    request: Vec<u8>,
    answer: Vec<u8>,
    core: Core,
    sandbox: Sandbox,
    whole: Whole,
}

impl StoredAnswer {
    fn list(size: &'static str, request: Vec<u8>, answer: Vec<u8>) -> Result<Self> {
        Ok(Self { is_list: true, ..Self::text(size, request, answer)? })
    }

    fn text(size: &'static str, request: Vec<u8>, answer: Vec<u8>) -> Result<Self> {
        let (core, sandbox, whole) = (Core::new("{}")?, Sandbox::new("{}")?, Whole::new("{}")?);
        Ok(Self { size, is_list: false, request, answer, core, sandbox, whole })
    }

    /// Returns benches that read at an offset, one per form.
    fn benches(&self, what: &str, offset: u64, says: &str) -> Result<[Bench<'_>; 3]> {
        let group = format!("{what}-of-{}", self.size);
        Ok([
            self.bench(&group, "core", &self.core, offset, says)?,
            self.bench(&group, "component", &self.sandbox, offset, says)?,
            self.bench(&group, "filter", &self.whole, offset, says)?,
        ])
    }

    fn bench<'a, S: Side>(
        &self,
        group: &str,
        form: &'static str,
        side: &'a S,
        offset: u64,
        says: &str,
    ) -> Result<Bench<'a>> {
        let shaped = side.shape(&side.forward(&self.request)?, &self.answer)?;
        let shaped = shaped.context("the answer was not shaped")?;
        let read = read(&at_offset(&next(&shaped)?, offset)?, self.is_list);
        let page = String::from_utf8(side.read(&read)?)?;
        ensure!(page.contains(says) && !page.contains("isError"), "{group}, {form}: {page}");
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
            lists.push((StoredAnswer::list(size, request, structured(&list))?, items));
        }
        for place in ["first", "last"] {
            let mut benches = Vec::new();
            for (stored, items) in &lists {
                let offset = if place == "first" { 3 } else { items - 3 };
                let says = format!("bk_{:06}", offset + 1);
                benches.extend(stored.benches(&format!("{what}-{place}"), offset, &says)?);
            }
            turns.run(benches)?;
        }
    }
    let log = StoredAnswer::text("3MB", call("list", &json!({})), text(&log(3_000_000)))?;
    turns.run(log.benches("chunk-last", 2_900_000, "request")?.into())
}
