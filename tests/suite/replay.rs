//! Replays messages of real servers through a session. An answer that needs no shaping passes byte
//! for byte; a shaped one is valid, within its budget, and leads to the whole.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use context_guard::clock::ManualClock;
use context_guard::engine::{HostServices, SigningKey};
use context_guard::gateway::Session;
use context_guard::{Clock, Filter};
use context_guard_test_support::answer::Answer;
use context_guard_test_support::guards::{InspectableStore, NOW_MS, SIGNING_KEY, component};
use context_guard_test_support::{Context, Result, artifacts, ensure, walk};
use serde_json::Value;
use serde_json::value::RawValue;

/// Returns a session, and its store for the test to read.
fn session() -> Result<(Session, Arc<InspectableStore>)> {
    let store = Arc::new(InspectableStore::default());
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at_ms(NOW_MS));
    let services = HostServices { store: Arc::clone(&store) as _, clock };
    let key = SigningKey { id: String::new(), secret: SIGNING_KEY.to_vec() };
    // Lists remain in full, so that their tools can be compared.
    let policy = r#"{"catalogue": {"mode": "full"}}"#;
    let filter = Filter::new(component()?, services, policy, vec![key])?;
    Ok((Session::new(Arc::new(filter), "tester", ""), store))
}

/// The captures of the project, and those of `cargo xtask test --corpus FOLDER`.
#[test]
fn captures_are_shaped_and_read_back() -> Result<()> {
    let replayed = folder(&artifacts::root().join("tests/captures"))?;
    ensure!(replayed.0 >= 20 && replayed.1 >= 4, "{replayed:?}");
    if let Some(corpus) = artifacts::corpus()? {
        let captures = corpus.join("mcp-captures");
        let (all, shaped) = folder(if captures.is_dir() { &captures } else { &corpus })?;
        eprintln!("{}: {all} messages replayed, {shaped} of them shaped", corpus.display());
    }
    Ok(())
}

/// Files as the text that a tool answers with: the captures, and the payloads of the corpus.
#[test]
fn payloads_are_shaped_and_read_back() -> Result<()> {
    let mut folders = vec![artifacts::root().join("tests/captures")];
    if let Some(corpus) = artifacts::corpus()?
        && let payloads = corpus.join("payloads")
        && payloads.is_dir()
    {
        for class in std::fs::read_dir(payloads)? {
            folders.push(class?.path());
        }
    }
    let call = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "arguments": {}}});
    let (mut all, mut shaped, mut failed) = (0, 0, Vec::new());
    for folder in folders {
        for file in std::fs::read_dir(folder)? {
            let path = file?.path();
            let text = std::fs::read_to_string(&path);
            let text = text.with_context(|| path.display().to_string())?;
            let message = serde_json::json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}});
            all += 1;
            match replay(&call, message.to_string().as_bytes()) {
                Ok(changed) => shaped += usize::from(changed),
                Err(error) => failed.push(format!("{}: {error:#}", path.display())),
            }
        }
    }
    eprintln!("{all} payloads replayed, {shaped} of them shaped");
    ensure!(failed.is_empty(), "{} of {all} failed:\n{}", failed.len(), failed.join("\n"));
    ensure!(all >= 20 && shaped >= 4, "only {shaped} of {all} were shaped");
    Ok(())
}

/// Replays all captures of a folder. Returns their number, and the number of those that were
/// shaped.
fn folder(path: &Path) -> Result<(usize, usize)> {
    let index: Value = serde_json::from_slice(&std::fs::read(path.join("index.json"))?)?;
    let (mut all, mut shaped, mut failed) = (0, 0, Vec::new());
    for (name, entry) in index.as_object().context("index.json is no object")? {
        let file = path.join(format!("{name}.json"));
        let message = std::fs::read(&file).with_context(|| file.display().to_string())?;
        match replay(&entry["request"], &message) {
            Ok(changed) => (all, shaped) = (all + 1, shaped + usize::from(changed)),
            Err(error) => failed.push(format!("{name}: {error:#}")),
        }
    }
    ensure!(failed.is_empty(), "{} of {all} failed:\n{}", failed.len(), failed.join("\n"));
    Ok((all, shaped))
}

fn replay(request: &Value, message: &[u8]) -> Result<bool> {
    let (session, store) = session()?;
    let request_bytes = request.to_string().into_bytes();
    let sent = session.from_client(&request_bytes);
    ensure!(
        sent.client.is_none() && sent.upstream == Some(Cow::Borrowed(request_bytes.as_slice())),
        "the request was changed"
    );
    let answer = session.from_upstream(message).pop().context("no answer")?;
    let Cow::Owned(shaped) = answer else {
        ensure!(answer == message);
        let tokens = Answer::read(message)?.tokens();
        ensure!(
            request["method"] != "tools/call" || tokens <= 4_000,
            "{tokens} tokens passed unshaped"
        );
        return Ok(false);
    };
    let shaped = Answer::read(&shaped)?;
    if request["method"] == "tools/list" {
        return same_tools(&Answer::read(message)?, &shaped).map(|()| true);
    }
    let original = Answer::read(message)?;
    ensure!(
        shaped.0["id"] == original.0["id"]
            && shaped.result().get("isError") == original.result().get("isError")
    );
    snapshots_are_verbatim(&store.all(), message)?;
    let originals = originals(&original, message)?;
    let mut recovered = Vec::new();
    for cursor in shaped.cursors() {
        let pages = pages(&session, shaped.clone(), &cursor)?;
        for page in &pages {
            let tokens = page.tokens();
            ensure!(tokens <= 4_000, "{tokens} tokens: {:?}", page.notice());
        }
        recovered.extend(whole(&original, &originals, &pages)?);
    }
    // A text may be the structured content once more: one snapshot then serves both.
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    for text in original.texts().iter().filter(|text| !shaped.texts().contains(text)) {
        let same = |other: &&String| {
            *other == text || parsed(other).is_some_and(|json| Some(json) == parsed(text))
        };
        ensure!(recovered.iter().any(|other| same(&other)), "no cursor leads to {text}");
    }
    ensure!(!shaped.cursors().is_empty(), "shaped without a cursor: {:?}", shaped.notice());
    Ok(true)
}

/// Follows a cursor to its end.
fn pages(session: &Session, first: Answer, cursor: &str) -> Result<Vec<Answer>> {
    // A condensed answer is read again in full, from its beginning.
    let mut pages = if first.is_verbatim_part() { vec![first] } else { Vec::new() };
    let mut next = Some(cursor.to_owned());
    while let Some(cursor) = next {
        let call = walk::call(
            "context_guard_read",
            &serde_json::json!({"cursor": cursor, "fields": "all"}),
        );
        let page = Answer::read(
            &session.from_client(&call).client.context("the cursor was sent to the upstream")?,
        )?;
        ensure!(!page.is_error(), "a cursor failed: {:?}", page.all_texts());
        next = page.next_cursor();
        pages.push(page);
    }
    Ok(pages)
}

fn same_tools(original: &Answer, shaped: &Answer) -> Result<()> {
    let names = |answer: &Answer| -> Vec<Value> {
        answer.result()["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|tool| tool["name"].clone())
            .collect()
    };
    let mut expected = names(original);
    expected.push("context_guard_read".into());
    ensure!(names(shaped) == expected);
    Ok(())
}

/// Asserts that every snapshot in the store occurs byte for byte in the message.
fn snapshots_are_verbatim(stored: &BTreeMap<String, Vec<u8>>, message: &[u8]) -> Result<()> {
    let is_snapshot = |key: &&String| key.len() == 12 && stored.contains_key(&format!("{key}.0"));
    for snapshot in stored.keys().filter(is_snapshot) {
        let segments = (0..).map_while(|at| stored.get(&format!("{snapshot}.{at}")));
        let bytes: Vec<u8> = segments.flatten().copied().collect();
        ensure!(contains(message, &bytes), "a snapshot differs from the message");
    }
    Ok(())
}

/// Returns the parts of an answer that a cursor can lead to: its texts, its structured content as
/// it arrived, and the texts that are members of that.
fn originals(original: &Answer, message: &[u8]) -> Result<Vec<String>> {
    type Members<'a> = BTreeMap<String, &'a RawValue>;
    let mut all = original.texts();
    let envelope: Members<'_> = serde_json::from_slice(message)?;
    let result: Members<'_> = envelope
        .get("result")
        .and_then(|result| serde_json::from_str(result.get()).ok())
        .unwrap_or_default();
    all.extend(result.get("structuredContent").map(|raw| raw.get().to_owned()));
    let structured = original.result()["structuredContent"].as_object();
    let members = structured.into_iter().flat_map(|object| object.values());
    all.extend(members.filter_map(Value::as_str).map(str::to_owned));
    Ok(all)
}

/// Asserts that the pages of a cursor are one of the originals or the list of all texts, nothing
/// missing and nothing twice. Returns which.
fn whole(original: &Answer, originals: &[String], pages: &[Answer]) -> Result<Vec<String>> {
    let is_kind = |kind: &str| pages.iter().any(|page| page.metadata()["kind"] == kind);
    if is_kind("chunk") {
        let text: String = pages.iter().flat_map(Answer::texts).collect();
        ensure!(originals.contains(&text), "the chunks are none of the texts");
        return Ok(vec![text]);
    }
    let blocks: Vec<String> = pages.iter().flat_map(Answer::texts).collect();
    if blocks == original.texts() {
        return Ok(blocks);
    }
    let documents =
        originals.iter().filter_map(|text| Some((text, serde_json::from_str::<Value>(text).ok()?)));
    let found = if is_kind("part") {
        // A part is a piece of one record and has no place in a document: compare the records.
        let items = walk::items(pages)?;
        // Items are numbered through all lists of the document.
        let holds = |document: &Value| {
            let lists = lists(document);
            lists.contains(&items) || lists.concat() == items
        };
        documents.filter(|(_, document)| holds(document)).map(|(text, _)| text.clone()).next()
    } else {
        let shown = pages.iter().map(Answer::json).collect::<Result<Vec<_>>>()?;
        let shown: Vec<&Value> = shown.iter().collect();
        documents
            .filter(|(_, document)| reassembles(document, &shown))
            .map(|(text, _)| text.clone())
            .next()
    };
    Ok(vec![found.context("the pages are none of the documents")?])
}

/// The members that the guard adds to an object whose list it pages.
const PAGING_MEMBERS: [&str; 2] = ["nextCursor", "meta"];

/// Returns true if pages of a document add up to it. A list is continued from page to page, or
/// is repeated on every page; everything else is the same on every page that has it.
fn reassembles(document: &Value, pages: &[&Value]) -> bool {
    match document {
        Value::Array(items) => {
            let parts: Option<Vec<&Vec<Value>>> =
                pages.iter().map(|page| page.as_array()).collect();
            parts.is_some_and(|parts| {
                parts.iter().all(|part| *part == items) || parts.into_iter().flatten().eq(items)
            })
        }
        Value::Object(members) => {
            let known = |page: &&Value| {
                page.as_object().is_some_and(|page| {
                    let mut keys = page.keys().map(String::as_str);
                    keys.all(|key| members.contains_key(key) || PAGING_MEMBERS.contains(&key))
                })
            };
            pages.iter().all(known)
                && members.iter().all(|(key, value)| {
                    let shown: Vec<&Value> =
                        pages.iter().filter_map(|page| page.get(key)).collect();
                    !shown.is_empty() && reassembles(value, &shown)
                })
        }
        _ => pages.iter().all(|page| *page == document),
    }
}

#[test]
fn missing_or_repeated_records_are_detected() {
    use serde_json::json;
    let document = json!({"rows": [1, 2, 3], "tags": ["a"], "total": 3});
    let page = |rows: Value| json!({"rows": rows, "tags": ["a"], "total": 3});
    let adds_up = |pages: &[Value]| reassembles(&document, &pages.iter().collect::<Vec<_>>());
    assert!(adds_up(&[page(json!([1, 2])), page(json!([3]))]));
    let added = json!({"rows": [1, 2, 3], "tags": ["a"], "total": 3, "added": 1});
    assert!(!adds_up(&[added]));
    for rows in [json!([2]), json!([2, 3, 4]), json!([3, 2]), json!([2, 2, 3])] {
        assert!(!adds_up(&[page(json!([1])), page(rows)]));
    }
    assert!(!adds_up(&[json!({"rows": [1, 2, 3]})]));
    assert!(!adds_up(&[json!({"rows": [1, 2, 3], "tags": [], "total": 3})]));
}

/// Returns all lists of a document, at any depth.
fn lists(value: &Value) -> Vec<Vec<Value>> {
    match value {
        Value::Array(items) => vec![items.clone()],
        Value::Object(members) => members.values().flat_map(lists).collect(),
        _ => Vec::new(),
    }
}

fn contains(message: &[u8], bytes: &[u8]) -> bool {
    bytes.is_empty() || message.windows(bytes.len()).any(|window| window == bytes)
}
