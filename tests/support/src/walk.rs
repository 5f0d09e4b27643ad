//! Follows cursors to their end, and reassembles the original.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::guards::{TestGuard, Verdict};

/// Returns a tool call as bytes.
#[must_use]
pub fn call(tool: &str, arguments: &Value) -> Vec<u8> {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
    call.to_string().into_bytes()
}

/// Returns the answer to a call of `tool` with guard arguments, if the upstream answers `message`.
/// None if it is unchanged.
///
/// # Errors
/// The guard fails.
pub fn shape(
    host: &dyn TestGuard,
    tool: &str,
    guard: &Value,
    message: &[u8],
) -> Result<Option<Vec<u8>>> {
    match host.request(&call(tool, &json!({ "_guard": guard })))? {
        Verdict::Forward(_, ticket) => Ok(host.response(&ticket, message)?.0),
        Verdict::Answer(answer, _) => Ok(Some(answer)),
    }
}

/// Calls the reading tool.
///
/// # Errors
/// The guard fails, or forwards the call.
pub fn read(host: &dyn TestGuard, arguments: &Value) -> Result<Answer> {
    match host.request(&call("context_guard_read", arguments))? {
        Verdict::Answer(answer, _) => Answer::read(&answer),
        Verdict::Forward(..) => bail!("the call of the reading tool was forwarded"),
    }
}

/// Returns the verbatim parts of an answer, to the end of its cursors. Reads the answer again if
/// `first` is condensed.
///
/// # Errors
/// A cursor fails, or there are more than 100,000 parts.
pub fn pages(host: &dyn TestGuard, first: Answer) -> Result<Vec<Answer>> {
    let first = match first.cursor().filter(|_| !first.is_verbatim_part()) {
        Some(cursor) => read(host, &json!({"cursor": cursor, "fields": "all"}))?,
        None => first,
    };
    continued(host, first, &json!({"fields": "all"}))
}

/// Returns an answer and the parts after it, to the end of its cursors. Each part is read with
/// these arguments.
///
/// # Errors
/// A cursor fails, or there are more than 100,000 parts.
pub fn continued(host: &dyn TestGuard, first: Answer, arguments: &Value) -> Result<Vec<Answer>> {
    let mut pages = vec![first];
    while let Some(cursor) = pages.last().and_then(Answer::next_cursor) {
        let mut arguments = arguments.clone();
        arguments["cursor"] = cursor.into();
        let page = read(host, &arguments)?;
        ensure!(!page.is_error(), "a cursor failed: {:?}", page.all_texts());
        pages.push(page);
        ensure!(pages.len() < 100_000, "more than 100,000 pages");
    }
    Ok(pages)
}

/// Returns the stored snapshots, each reassembled from its segments.
///
/// # Errors
/// The store has no snapshot.
pub fn snapshots(host: &dyn TestGuard) -> Result<Vec<Vec<u8>>> {
    let stored = host.stored();
    let snapshots: Vec<&String> = stored
        .keys()
        .filter(|key| key.len() == 12 && stored.contains_key(&format!("{key}.0")))
        .collect();
    let whole = |snapshot: &&String| {
        let mut bytes = Vec::new();
        let mut at = 0;
        while let Some(segment) = stored.get(&format!("{snapshot}.{at}")) {
            bytes.extend_from_slice(segment);
            at += 1;
        }
        bytes
    };
    ensure!(!snapshots.is_empty(), "the store has no snapshot");
    Ok(snapshots.iter().map(whole).collect())
}

/// Returns the items of all pages, in order. Items that span pages are reassembled from their
/// parts.
///
/// # Errors
/// A page does not match its result metadata.
pub fn items(pages: &[Answer]) -> Result<Vec<Value>> {
    let (mut items, mut part) = (Vec::new(), String::new());
    for page in pages {
        let contract = page.metadata();
        match contract["kind"].as_str().context("a page has no kind")? {
            "page" => items.extend(lists(&page.json()?)),
            "part" => {
                part.push_str(&page.texts().concat());
                if contract["toByte"] == contract["bytesInItem"] {
                    items.push(
                        serde_json::from_str(&std::mem::take(&mut part))
                            .context("the parts of an item are not JSON")?,
                    );
                }
            }
            kind => bail!("unexpected kind of page: {kind}"),
        }
    }
    Ok(items)
}

/// Returns the items of all lists of a page in the order of the document, which is their numbering.
fn lists(page: &Value) -> Vec<Value> {
    match page {
        Value::Array(items) => items.clone(),
        Value::Object(members) => members.values().flat_map(lists).collect(),
        _ => Vec::new(),
    }
}
