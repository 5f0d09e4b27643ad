//! Pages and chunks that are read from what is kept: the first after the answer and the last, of a small snapshot and of one as large as a message may be.

use anyhow::{Context, Result, ensure};
use context_guard_core::snapshot::Cursor;
use context_guard_test_support::guards::NOW;
use criterion::Criterion;
use serde_json::{Value, json};

use crate::inputs::{bookings, call, log, structured, text};
use crate::sides::{Core, PRINCIPAL, Sandbox, Side, Whole, keys};

/// The cursor that an answer leads on with.
fn next(answer: &[u8]) -> Result<String> {
    let answer: Value = serde_json::from_slice(answer)?;
    let meta = &answer["result"]["_meta"]["dev.context-guard/result"];
    Ok(meta["nextCursor"].as_str().with_context(|| format!("no cursor in {answer}"))?.to_owned())
}

/// The same cursor at another place.
fn at(cursor: &str, offset: u64) -> Result<String> {
    let keys = keys()?;
    let mut cursor = Cursor::verify(cursor, &keys, PRINCIPAL, NOW, u64::MAX)?;
    cursor.offset = offset;
    Ok(cursor.sign(&keys, PRINCIPAL))
}

fn read(cursor: &str) -> Vec<u8> {
    call("context_guard_read", &json!({"cursor": cursor, "limit": 3, "fields": "all"}))
}

/// Measures them all.
pub(crate) fn run(criterion: &mut Criterion) -> Result<()> {
    for (name, bytes) in [("1MB", 1_000_000), ("60MB", 60_000_000)] {
        let list = bookings(bytes);
        let items = list.matches("\"id\":\"bk_").count() as u64;
        let answer = structured(&list);
        drop(list);
        let request = call("list", &json!({"_guard_limit": 3, "_guard_fields": "all"}));
        for (place, offset) in [("first", 3), ("last", items - 3)] {
            let name = format!("page-{place}-of-{name}");
            sides(criterion, &name, &request, &answer, offset, &format!("bk_{:06}", offset + 1))?;
        }
    }
    let answer = text(&log(3_000_000));
    let request = call("list", &json!({}));
    sides(criterion, "chunk-last-of-3MB", &request, &answer, 2_900_000, "request")?;
    Ok(())
}

fn sides(
    criterion: &mut Criterion,
    name: &str,
    request: &[u8],
    answer: &[u8],
    offset: u64,
    says: &str,
) -> Result<()> {
    side(criterion, name, "core", &Core::new("{}")?, request, answer, offset, says)?;
    side(criterion, name, "component", &Sandbox::new("{}")?, request, answer, offset, says)?;
    side(criterion, name, "filter", &Whole::new("{}")?, request, answer, offset, says)
}

#[allow(clippy::too_many_arguments, reason = "one reading, and what is expected of it")]
fn side<S: Side>(
    criterion: &mut Criterion,
    name: &str,
    form: &str,
    side: &S,
    request: &[u8],
    answer: &[u8],
    offset: u64,
    says: &str,
) -> Result<()> {
    let shaped = side.shape(&side.forward(request)?, answer)?.context("it was not cut")?;
    let read = read(&at(&next(&shaped)?, offset)?);
    let page = String::from_utf8(side.read(&read)?)?;
    ensure!(page.contains(says) && !page.contains("isError"), "{name}, {form}: {page}");
    let mut group = criterion.benchmark_group(name);
    group.bench_function(form, |bencher| bencher.iter(|| side.read(&read)));
    group.finish();
    Ok(())
}
