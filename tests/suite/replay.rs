//! Messages of real servers, replayed through the session that the pump runs: what needs no shaping comes out byte for byte, what is shaped is valid, within its
//! budget, and leads to the whole.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use context_guard::clock::ManualClock;
use context_guard::engine::{SigningKey, Surroundings};
use context_guard::gateway::Session;
use context_guard::{Clock, Filter};
use context_guard_test_support::answer::Answer;
use context_guard_test_support::guards::{KEY, NOW, OpenStore, component};
use context_guard_test_support::{Context, Result, artifacts, ensure, walk};
use serde_json::Value;

/// A session with a store that the test can look into.
fn session() -> Result<(Session, Arc<OpenStore>)> {
    let store = Arc::new(OpenStore::default());
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at_ms(NOW));
    let surroundings = Surroundings { store: Arc::clone(&store) as _, clock };
    let key = SigningKey { id: String::new(), secret: KEY.to_vec() };
    let filter = Filter::new(component()?, surroundings, "", vec![key])?;
    Ok((Session::new(Arc::new(filter), "tester", ""), store))
}

#[test]
fn captures_of_the_project() -> Result<()> {
    let replayed = folder(&artifacts::root().join("tests/captures"))?;
    ensure!(replayed.0 >= 20 && replayed.1 >= 4, "{replayed:?}");
    Ok(())
}

#[test]
fn captures_of_a_folder_that_was_given() -> Result<()> {
    if let Some(corpus) = artifacts::corpus() {
        let captures = corpus.join("mcp-captures");
        let replayed = folder(if captures.is_dir() { &captures } else { &corpus })?;
        eprintln!(
            "{}: {} messages replayed, {} of them shaped",
            corpus.display(),
            replayed.0,
            replayed.1
        );
    }
    Ok(())
}

/// Tool results as text, by class: each is replayed as if a tool had answered with it.
#[test]
fn payloads_of_a_folder_that_was_given() -> Result<()> {
    let Some(payloads) = artifacts::corpus().map(|corpus| corpus.join("payloads")) else {
        return Ok(());
    };
    if !payloads.is_dir() {
        return Ok(());
    }
    let call = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "arguments": {}}});
    let (mut all, mut shaped, mut failed) = (0, 0, Vec::new());
    for class in std::fs::read_dir(payloads)? {
        for file in std::fs::read_dir(class?.path())? {
            let path = file?.path();
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
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
    Ok(())
}

/// Replays all captures of a folder; how many there were, and how many of them were shaped.
fn folder(path: &Path) -> Result<(usize, usize)> {
    let index: Value = serde_json::from_slice(&std::fs::read(path.join("index.json"))?)?;
    let (mut all, mut shaped, mut failed) = (0, 0, Vec::new());
    for (name, entry) in index.as_object().context("index.json is no object")? {
        let Ok(message) = std::fs::read(path.join(format!("{name}.json"))) else { continue };
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
    let answer = session.from_upstream(message);
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
    let kept = store.all();
    for cursor in shaped.cursors() {
        let pages = pages(&session, shaped.clone(), &cursor)?;
        for page in &pages {
            let tokens = page.tokens();
            ensure!(tokens <= 4_000, "{tokens} tokens: {:?}", page.notice());
        }
        whole(&original, &pages, &kept, message)?;
    }
    ensure!(!shaped.cursors().is_empty(), "shaped, with no way to the rest: {:?}", shaped.notice());
    Ok(true)
}

/// Follows one cursor to its end.
fn pages(session: &Session, first: Answer, cursor: &str) -> Result<Vec<Answer>> {
    // What is condensed is read again, whole, from its beginning.
    let mut pages = if first.is_in_whole_pieces() { vec![first] } else { Vec::new() };
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

/// What the pages show, put together, is what the upstream said; and what is kept stands in its message byte for byte.
fn whole(
    original: &Answer,
    pages: &[Answer],
    kept: &std::collections::BTreeMap<String, Vec<u8>>,
    message: &[u8],
) -> Result<()> {
    let snapshots: Vec<&String> = kept
        .keys()
        .filter(|key| key.len() == 16 && kept.contains_key(&format!("{key}.0")))
        .collect();
    for snapshot in snapshots {
        let segments = (0..).map_while(|at| kept.get(&format!("{snapshot}.{at}")));
        let bytes: Vec<u8> = segments.flatten().copied().collect();
        ensure!(contains(message, &bytes), "what is kept is not what came");
    }
    let texts: Vec<String> = pages.iter().map(|page| page.texts().concat()).collect();
    let walked = texts.concat();
    let candidates = original
        .texts()
        .into_iter()
        .chain(original.result().get("structuredContent").map(Value::to_string));
    if pages.iter().any(|page| page.contract()["kind"] == "chunk") {
        let structured_text = original.result()["structuredContent"]
            .as_object()
            .into_iter()
            .flat_map(|object| object.values())
            .filter_map(Value::as_str);
        ensure!(
            candidates
                .chain(structured_text.map(str::to_owned))
                .any(|text| same_text(&walked, &text)),
            "the chunks are not the text"
        );
        return Ok(());
    }
    let blocks: Vec<String> = pages.iter().flat_map(Answer::texts).collect();
    if blocks == original.texts() {
        return Ok(());
    }
    let items = walk::items(pages)?;
    let mut lists = Vec::new();
    for document in candidates.filter_map(|text| serde_json::from_str::<Value>(&text).ok()) {
        collect(&document, &mut lists);
    }
    // Small lists beside the one that is paged stand on every page: they are taken out of both sides.
    ensure!(
        lists.iter().any(|list| subsequence(list, &items)),
        "the pages are not the list: {} items",
        items.len()
    );
    Ok(())
}

fn same_text(walked: &str, original: &str) -> bool {
    let json = || {
        Some(
            serde_json::from_str::<Value>(walked).ok()?
                == serde_json::from_str::<Value>(original).ok()?,
        )
    };
    walked == original || json().unwrap_or(false)
}

fn collect(value: &Value, lists: &mut Vec<Vec<Value>>) {
    match value {
        Value::Array(items) => lists.push(items.clone()),
        Value::Object(members) => members.values().for_each(|value| collect(value, lists)),
        _ => {}
    }
}

fn subsequence(list: &[Value], items: &[Value]) -> bool {
    let mut items = items.iter();
    !list.is_empty() && list.iter().all(|item| items.any(|other| other == item))
}

fn contains(message: &[u8], bytes: &[u8]) -> bool {
    bytes.is_empty() || message.windows(bytes.len()).any(|window| window == bytes)
}
