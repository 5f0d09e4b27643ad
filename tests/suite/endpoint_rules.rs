//! Policy rules for the endpoints of several upstreams.

use context_guard_test_support::gateway::{ArchiveServer, Gateway, HttpClient};
use context_guard_test_support::peers::Server;
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::json;

#[test]
fn rules_of_an_upstream_apply_to_all_pages() -> Result<()> {
    let archive = ArchiveServer::start(true)?;
    let rule = json!({"match": "archive::list_bookings", "defaultPageSize": 7});
    let upstreams = json!([
        {"name": "archive", "url": archive.url},
        {"name": "houses", "command": [artifacts::property_server()?]},
    ]);
    let gateway = Gateway::start(upstreams, json!({"policy": {"endpoints": [rule]}}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let mut answer = client.call("archive__list_bookings", json!({}))?;
    for page in 0..3 {
        let items = answer.json()?["bookings"].as_array().map(Vec::len);
        ensure!(items == Some(7), "page {page}: {items:?}, {}", answer.0);
        let cursor = answer.next_cursor().context("no next page")?;
        answer = client.call("context_guard_read", json!({"cursor": cursor}))?;
    }
    let (_, records) = gateway.get_admin("/admin/telemetry?endpoint=archive::list_bookings")?;
    ensure!(records.matches("\"kind\":\"read\"").count() == 3, "{records}");
    Ok(())
}

#[test]
fn rules_apply_to_resources_of_one_upstream() -> Result<()> {
    let everything = Server::npm("server-everything", &["stdio"])?.0;
    let uri = "demo://resource/static/document/structure.md";
    let policy = json!({"endpoints": [
        {"match": "short::demo://resource/static/*", "tokenBudgetThreshold": 500},
        {"match": format!("whole::{uri}"), "shape": false},
    ]});
    let upstreams = json!([
        {"name": "short", "command": everything},
        {"name": "whole", "command": everything},
    ]);
    let gateway = Gateway::start(upstreams, json!({"policy": policy}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    wait_until("the lists of all upstreams", || {
        Ok(client.request("resources/list", json!({}))?.result()["_meta"].is_null())
    })?;
    // Both upstreams list this URI, so the gateway offers an alias for each.
    let alias = |upstream: &str| json!({"uri": format!("context-guard://server/{upstream}/{uri}")});
    let whole = client.request("resources/read", alias("whole"))?;
    let text = whole.texts().concat();
    ensure!(text.len() > 10_000 && whole.metadata().is_null(), "{}", whole.0);
    let mut part = client.request("resources/read", alias("short"))?;
    let mut read = String::new();
    loop {
        ensure!(part.tokens() <= 700, "{} tokens: {}", part.tokens(), part.0);
        read.push_str(&part.texts().concat());
        let Some(cursor) = part.next_cursor() else { break };
        part = client.call("context_guard_read", json!({"cursor": cursor}))?;
    }
    ensure!(read == text, "{} of {} bytes", read.len(), text.len());
    Ok(())
}
