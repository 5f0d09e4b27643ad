//! Answers of every shape in the validation of real clients: three SDKs and the inspector.

use std::ffi::OsStr;
use std::process::Command;

use context_guard_test_support::answer::Answer;
use context_guard_test_support::artifacts;
use context_guard_test_support::client::Client;
use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::peers::{self, CLIENTS, Server, call};
use context_guard_test_support::{Context, Result, ensure};
use serde_json::{Value, json};

/// Returns a policy with a small budget.
fn tight(folder: &std::path::Path) -> Result<String> {
    let path = folder.join("tight.json");
    let policy = json!({"tokenBudgetThreshold": 900, "summaryThreshold": 600, "endpoints": [{"match": "list_transactions", "orderBy": {"field": "at"}}]});
    std::fs::write(&path, policy.to_string())?;
    Ok(path.display().to_string())
}

fn once(tool: &str, arguments: Value) -> Value {
    json!({"op": "call", "name": tool, "arguments": arguments})
}

#[test]
fn sdk_clients_accept_every_shape() -> Result<()> {
    let folder = peers::folder("clients")?;
    let server = Server::property()?.wrapped_with(&["--policy", &tight(&folder)?])?;
    let steps = [
        once("get_booking", json!({})),
        once("get_booking", json!({"fields": "guest,checkIn"})),
        once("list_listings", json!({})),
        once("list_listings", json!({"limit": 10, "fields": "id,title"})),
        once("list_listings", json!({"response_mode": "ids_only"})),
        once("list_listings", json!({"response_mode": "preview", "filter_ids": ["LS-003"]})),
        once("list_listings", json!({"_guard": {"aggregate": "count by city"}})),
        once("list_transactions", json!({})),
        once("read_log", json!({})),
        call("list_bookings", json!({"limit": 200})),
    ];
    for client in CLIENTS {
        let outcomes = peers::run(client, &server, &steps)?;
        for answer in outcomes.iter().skip(1).flatten() {
            ensure!(!answer.is_error(), "{client}: {:?}", answer.all_texts());
            ensure!(
                answer.tokens() <= 900,
                "{client}: {} tokens: {:?}",
                answer.tokens(),
                answer.notice()
            );
        }
        let losses: Vec<&Value> =
            outcomes.iter().skip(1).map(|answers| &answers[0].metadata()["loss"]).collect();
        ensure!(losses[0] == "condensed" && losses[1] == "partial", "{client}: {losses:?}");
        let listing = &outcomes[6][0];
        ensure!(
            listing.result()["structuredContent"]["context_guard"]["content"]["results"][0]["metadata"]
                ["id"]
                == "LS-003",
            "{client}: {}",
            listing.0
        );
        let bookings: usize = outcomes[10]
            .iter()
            .filter_map(|page| page.json().ok()?["bookings"].as_array().map(Vec::len))
            .sum();
        ensure!(bookings == 500, "{client}: {bookings} bookings");
    }
    Ok(std::fs::remove_dir_all(folder)?)
}

#[test]
fn clients_of_one_content_accept_every_shape() -> Result<()> {
    let folder = peers::folder("one-content")?;
    let steps = [
        once("list_listings", json!({})),
        once("list_listings", json!({"limit": 10, "fields": "id,title"})),
        once("list_listings", json!({"response_mode": "ids_only"})),
        once("list_listings", json!({"_guard": {"aggregate": "count by city"}})),
        call("list_listings", json!({"limit": 100})),
    ];
    for visible in ["text", "structured"] {
        let path = folder.join(format!("{visible}.json"));
        let policy = json!({"tokenBudgetThreshold": 900, "visibleContent": visible});
        std::fs::write(&path, policy.to_string())?;
        let server =
            Server::property()?.wrapped_with(&["--policy", &path.display().to_string()])?;
        for client in CLIENTS {
            let outcomes = peers::run(client, &server, &steps)?;
            for answer in outcomes.iter().skip(1).flatten() {
                ensure!(!answer.is_error(), "{client}: {:?}", answer.all_texts());
                let structured = &answer.result()["structuredContent"];
                let is_once = match visible {
                    // The read tool answers with text alone.
                    _ if structured.is_null() => !answer.texts().is_empty(),
                    "text" => structured.as_object().is_some_and(|members| members.len() == 1),
                    _ => answer.texts().is_empty(),
                };
                ensure!(is_once, "{client}, {visible}: {}", answer.0);
            }
            let listings: usize = outcomes[5]
                .iter()
                .filter_map(|page| {
                    let text = page.json().unwrap_or_default();
                    let structured = &page.result()["structuredContent"];
                    let shown = [&text, structured, &structured["context_guard"]["content"]];
                    shown.iter().find_map(|shown| shown["listings"].as_array().map(Vec::len))
                })
                .sum();
            ensure!(listings == 300, "{client}, {visible}: {listings} listings");
        }
    }
    Ok(std::fs::remove_dir_all(folder)?)
}

#[test]
fn profile_of_a_client_is_chosen_by_flag_and_header() -> Result<()> {
    let houses = artifacts::property_server()?;
    let profile = ("x-context-guard-client", "claude-code");
    let is_structured = |answer: &Answer| {
        let content = &answer.result()["structuredContent"]["listings"];
        answer.texts().is_empty() && content.is_array()
    };
    for count in [1, 2] {
        let upstreams = (0..count).map(|at| json!({"name": format!("s{at}"), "command": [houses]}));
        let gateway = Gateway::start(upstreams.collect(), json!({}))?;
        let tool = if count == 1 { "list_listings" } else { "s0__list_listings" };
        for (headers, is_chosen) in [(&[profile][..], true), (&[][..], false)] {
            let mut client = HttpClient::open(&gateway.url(), headers, json!({}))?;
            let answer = client.call(tool, json!({}))?;
            ensure!(is_structured(&answer) == is_chosen, "{count} servers: {}", answer.0);
        }
    }
    // A stateless client describes itself in each request.
    let mut stateless = Client::wrap([OsStr::new("--"), houses.as_os_str()])?;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "1"},
    });
    let call = json!({"name": "list_listings", "arguments": {}, "_meta": meta});
    let answer = stateless.request("tools/call", &call)?;
    ensure!(is_structured(&answer), "{}", answer.0);
    let flag = Server::property()?.wrapped_with(&["--client-profile", "claude-code"])?;
    let answers = peers::run(CLIENTS[0], &flag, &[once("list_listings", json!({}))])?;
    let answer = answers.get(1).and_then(|answers| answers.first()).context("no answer")?;
    ensure!(is_structured(answer), "{}", answer.0);
    let wrong = Server::property()?.wrapped_with(&["--client-profile", "clod"])?;
    let wrong = Command::new(&wrong.0[0]).args(&wrong.0[1..]).output()?;
    let reason = String::from_utf8_lossy(&wrong.stderr);
    ensure!(wrong.status.code() == Some(2) && reason.contains("codex-mcp-client"), "{reason}");
    Ok(())
}

#[test]
fn condensed_graph_matches_its_schema() -> Result<()> {
    let folder = peers::folder("typed")?;
    let file = folder.join("memory.jsonl");
    let lines: String = (0..60)
        .map(|at| json!({"type": "entity", "name": format!("Entity {at}"), "entityType": "person", "observations": vec!["a long observation that goes on for a while, and then some more"; 6]}).to_string() + "\n")
        .collect();
    std::fs::write(&file, lines)?;
    let server =
        Server::npm("server-memory", &[])?.wrapped_with(&["--policy", &tight(&folder)?])?;
    let server = Server(
        [vec!["env".to_owned(), format!("MEMORY_FILE_PATH={}", file.display())], server.0].concat(),
    );
    for client in CLIENTS {
        let outcomes = peers::run(client, &server, &[once("read_graph", json!({}))])?;
        let answer = outcomes.get(1).and_then(|answers| answers.first()).context("no answer")?;
        ensure!(
            answer.metadata()["loss"] == "condensed" && answer.tokens() <= 900,
            "{client}: {} tokens, {}",
            answer.tokens(),
            answer.metadata()
        );
        let shown = answer.all_texts().concat();
        ensure!(shown.contains("Entity 0") && shown.contains("CONDENSED"), "{client}: {shown}");
        ensure!(
            answer.result()["structuredContent"]["context_guard"]["note"].is_string(),
            "{client}: {}",
            answer.0
        );
    }
    Ok(std::fs::remove_dir_all(folder)?)
}

#[test]
fn inspector_accepts_every_shape() -> Result<()> {
    let folder = peers::folder("inspector")?;
    let server = Server::property()?.wrapped_with(&["--policy", &tight(&folder)?])?;
    let inspect = |tool: &str, arguments: &[&str]| -> Result<Answer> {
        let answer = peers::inspect(&server, &folder, tool, arguments)?;
        ensure!(!answer.is_error() && answer.tokens() <= 900, "{tool}: {:?}", answer.all_texts());
        Ok(answer)
    };
    ensure!(inspect("get_booking", &[])?.metadata()["loss"] == "condensed");
    ensure!(inspect("list_listings", &[])?.metadata()["kind"] == "page");
    ensure!(inspect("list_listings", &["fields=id,title"])?.metadata()["total"] == 300);
    ensure!(inspect("list_listings", &["response_mode=ids_only"])?.notice().is_some());
    ensure!(inspect("read_log", &[])?.metadata()["kind"] == "chunk");
    Ok(std::fs::remove_dir_all(folder)?)
}
