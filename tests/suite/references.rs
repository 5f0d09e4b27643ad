//! References carry stored values from one tool to another without the model.

use std::path::{Path, PathBuf};

use context_guard_test_support::answer::{Answer, o200k};
use context_guard_test_support::audit::audit_entries;
use context_guard_test_support::client::Client;
use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::peers::{self, Server};
use context_guard_test_support::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::access::with_two_keys;

/// Writes a document of 300 kB, which is text or JSON, with all kinds of characters.
fn document(folder: &Path, is_json: bool) -> Result<PathBuf> {
    let rows = (0..2_600).map(|id| {
        json!({"id": id, "title": format!("no. {id} \u{e9}\u{1F600}"), "body": "a \"b\"\\\t\u{7f} ".repeat(6)})
    });
    let text = if is_json {
        serde_json::to_string_pretty(&json!({"items": rows.collect::<Vec<_>>()}))?
    } else {
        rows.map(|row| row.to_string().replacen("{\"", "{ ", 1) + "\r\n").collect()
    };
    let file = folder.join(if is_json { "large.json" } else { "large.txt" });
    std::fs::write(&file, &text)?;
    ensure!(text.len() > 300_000, "{} bytes", text.len());
    Ok(file)
}

/// Returns the upstreams `one` and `two`: file servers with a folder each.
fn two_file_servers(name: &str) -> Result<(Value, [PathBuf; 2])> {
    let root = peers::folder(name)?;
    let folders = ["one", "two"].map(|folder| root.join(folder));
    let mut upstreams = Vec::new();
    for (folder, name) in folders.iter().zip(["one", "two"]) {
        std::fs::create_dir_all(folder)?;
        let server = Server::npm("server-filesystem", &[&folder.display().to_string()])?;
        upstreams.push(json!({"name": name, "command": server.0}));
    }
    Ok((upstreams.into(), folders))
}

/// Reads a file, and returns the cursor of the answer.
fn read(client: &mut HttpClient, file: &Path) -> Result<String> {
    let path = json!({"path": file.display().to_string()});
    let answer = client.call("one__read_text_file", path)?;
    answer.cursor().with_context(|| answer.0.to_string())
}

fn write(client: &mut HttpClient, server: &str, file: &Path, reference: &str) -> Result<Answer> {
    let arguments = json!({"path": file.display().to_string(), "content": {"$ref": reference}});
    client.call(&format!("{server}__write_file"), arguments)
}

fn refusal(answer: &Answer) -> Result<String> {
    ensure!(answer.is_error(), "{}", answer.0);
    Ok(answer.all_texts().concat())
}

#[test]
fn document_moves_between_servers() -> Result<()> {
    let (upstreams, [one, two]) = two_file_servers("references")?;
    let audit = one.with_file_name("audit");
    let policy = json!({"endpoints": [{"match": "two::*", "referencesFrom": ["one::read_*"]}]});
    let more = json!({"policy": policy, "audit": {"folder": audit}});
    let gateway = Gateway::start(upstreams, more)?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    for is_json in [false, true] {
        let file = document(&one, is_json)?;
        let cursor = read(&mut client, &file)?;
        let copy = two.join(file.file_name().context("no name")?);
        let written = write(&mut client, "two", &copy, &cursor)?;
        ensure!(!written.is_error(), "{}", written.0);
        ensure!(std::fs::read(&copy)? == std::fs::read(&file)?, "other bytes");
        // Reading and writing costs the model little of the document.
        ensure!(written.tokens() < 100, "{} tokens", written.tokens());
        let path = copy.display().to_string();
        let arguments = json!({"path": path, "content": {"$ref": cursor}}).to_string();
        ensure!(o200k(&arguments) < 300, "{arguments}");
        if is_json {
            let title = two.join("title.txt");
            let written = write(&mut client, "two", &title, &format!("{cursor}#/items/9/title"))?;
            ensure!(!written.is_error(), "{}", written.0);
            ensure!(std::fs::read_to_string(&title)? == "no. 9 \u{e9}\u{1F600}");
        }
    }
    gateway.stop()?;
    let entries = audit_entries(&audit)?;
    for (endpoint, outcome, detail) in [
        ("one::read_text_file", "Sent", "to two::write_file"),
        ("two::write_file", "Received", "from one::read_text_file"),
    ] {
        let is_this = |entry: &&Value| {
            entry["event"] == "reference"
                && entry["endpoint"] == endpoint
                && entry["outcome"] == outcome
                && entry["detail"] == detail
        };
        ensure!(entries.iter().filter(is_this).count() == 3, "{endpoint}: {entries:?}");
    }
    Ok(())
}

#[test]
fn references_are_refused_before_the_upstream() -> Result<()> {
    let (upstreams, [one, two]) = two_file_servers("references-refused")?;
    let (gateway, [alice, bob]) = with_two_keys("references-keys", upstreams, json!({}))?;
    let open = |key: &str| HttpClient::open(&gateway.url(), &[("authorization", key)], json!({}));
    let (mut of_alice, mut of_bob) = (open(&alice)?, open(&bob)?);
    let cursor = read(&mut of_alice, &document(&one, false)?)?;
    // Within one upstream, references need no permission.
    let copy = one.join("copy.txt");
    ensure!(!write(&mut of_alice, "one", &copy, &cursor)?.is_error());
    ensure!(std::fs::read(&copy)? == std::fs::read(one.join("large.txt"))?);
    let target = two.join("x.txt");
    let other = refusal(&write(&mut of_alice, "two", &target, &cursor)?)?;
    ensure!(other.contains("referencesFrom: [\"one::read_text_file\"]"), "{other}");
    let stolen = refusal(&write(&mut of_bob, "one", &one.join("y.txt"), &cursor)?)?;
    ensure!(stolen.contains("was not sent") && stolen.contains("cursor_invalid"), "{stolen}");
    ensure!(!target.exists() && !one.join("y.txt").exists(), "a call was sent");
    Ok(())
}

#[test]
fn references_work_behind_one_server() -> Result<()> {
    let folder = peers::folder("references-wrap")?;
    let server = Server::npm("server-filesystem", &[&folder.display().to_string()])?;
    let policy = folder.join("policy.json");
    std::fs::write(&policy, r#"{"maxReferenceBytes": 320000}"#)?;
    let mut arguments = vec!["--policy".to_owned(), policy.display().to_string(), "--".to_owned()];
    arguments.extend(server.0);
    let mut client = Client::wrap(&arguments)?;
    client.open("2025-11-25")?;
    let tools = client.request("tools/list", &json!({}))?;
    let tools = tools.result()["tools"].as_array().context("no tools")?;
    let read = tools.iter().find(|tool| tool["name"] == "context_guard_read");
    // Clients keep `_meta` for themselves: the model sees the other members.
    let mut read = read.context("no read tool")?.clone();
    if let Some(members) = read.as_object_mut() {
        members.remove("_meta");
    }
    let tokens = o200k(&read.to_string());
    ensure!(tokens <= 250, "the read tool has {tokens} tokens");
    let file = document(&folder, false)?;
    let answer = client.call("read_text_file", json!({"path": file.display().to_string()}))?;
    let cursor = answer.cursor().with_context(|| answer.0.to_string())?;
    let copy = folder.join("copy.txt");
    let write =
        |reference: Value| json!({"path": copy.display().to_string(), "content": reference});
    let large = client.call("write_file", write(json!({"$ref": cursor})))?;
    let reason = refusal(&large)?;
    ensure!(reason.contains("at most 320000 are accepted in a call"), "{reason}");
    // The upstream gets a schema as it is, and refuses an object for a text.
    let schema = client.call("write_file", write(json!({"$ref": "#/definitions/content"})))?;
    ensure!(schema.0.to_string().contains("content"), "{}", schema.0);
    ensure!(!schema.0.to_string().contains("reference"), "{}", schema.0);
    ensure!(!copy.exists(), "a call was sent");
    Ok(())
}

#[test]
fn unusable_references_say_what_to_do() -> Result<()> {
    let (upstreams, [one, _]) = two_file_servers("references-unusable")?;
    let more = json!({"signingKeys": ["a key of this test alone"]});
    let gateway = Gateway::start(upstreams.clone(), more.clone())?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let file = document(&one, true)?;
    let cursor = read(&mut client, &file)?;
    let target = one.join("not-written.txt");
    let mut refused = |reference: &str| refusal(&write(&mut client, "one", &target, reference)?);
    let forged = format!("AAAA{}", cursor.get(4..).context("a short cursor")?);
    for (reference, reason, advice) in [
        (forged, "cursor_invalid", "without a cursor"),
        (format!("{cursor}#/items/99999/title"), "leads to nothing", "items"),
        (format!("{cursor}#$.items[*].title"), "values, and one is needed", "one"),
        (format!("{cursor}#$.items[?"), "cannot be read", "JSON Pointer"),
    ] {
        let message = refused(&reference)?;
        ensure!(message.contains("was not sent"), "{reference}: {message}");
        ensure!(message.contains(reason) && message.contains(advice), "{reference}: {message}");
    }
    // A path leads into the whole answer, also with the cursor of a later page.
    let page = client.call("context_guard_read", json!({"cursor": cursor}))?;
    let later = page.cursor().context("no later page")?;
    ensure!(later != cursor, "the same page");
    let copy = one.join("title.txt");
    ensure!(!write(&mut client, "one", &copy, &format!("{later}#/items/2/title"))?.is_error());
    ensure!(std::fs::read_to_string(&copy)? == "no. 2 \u{e9}\u{1F600}");
    drop(gateway);
    // The answer was in memory. The key is the same, so that the cursor remains genuine.
    let gateway = Gateway::start(upstreams, more)?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let lost = refusal(&write(&mut client, "one", &target, &cursor)?)?;
    ensure!(lost.contains("cursor_expired") && lost.contains("was not sent"), "{lost}");
    ensure!(!target.exists(), "a call was sent");
    Ok(())
}
