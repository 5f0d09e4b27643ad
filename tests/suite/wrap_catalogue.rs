//! The tool catalogue of `wrap`: one server with a long list of tools.

use std::ffi::OsString;

use context_guard_test_support::client::Client;
use context_guard_test_support::{Context, Result, answer, artifacts, ensure, peers};
use serde_json::{Value, json};

const SEARCH: &str = "context_guard_search_tools";
const DESCRIBE: &str = "context_guard_describe_tools";
const BROWSE: &str = "context_guard_browse_tools";
const CALL_READ: &str = "context_guard_call_read";
const CALL: &str = "context_guard_call";

/// The definitions of many tools; those with an even number are read-only.
fn tools(count: usize) -> Value {
    let tool = |at: usize| {
        json!({
            "name": format!("process_parcel_{at}"),
            "description": format!("Processes the parcel with number {at}. Returns a report."),
            "inputSchema": {"type": "object", "properties": {
                "value": {"type": "string", "description": "The value that is processed"},
                "count": {"type": "integer", "minimum": 1}
            }, "required": ["value"]},
            "annotations": {"readOnlyHint": at.is_multiple_of(2)}
        })
    };
    (0..count).map(tool).collect()
}

/// Starts `wrap` before a server with `count` tools, with this policy.
fn wrap(name: &str, count: usize, policy: &Value) -> Result<Client> {
    let folder = peers::folder(name)?;
    let file = folder.join("tools.json");
    std::fs::write(&file, tools(count).to_string())?;
    let rules = folder.join("policy.json");
    std::fs::write(&rules, policy.to_string())?;
    let script = artifacts::root().join("tests/support/servers/catalogue.py");
    let words: [OsString; 6] = [
        "--policy".into(),
        rules.into(),
        "--".into(),
        "python3".into(),
        script.into(),
        file.into(),
    ];
    Client::wrap(words)
}

fn listed(client: &mut Client) -> Result<Vec<Value>> {
    let answer = client.request("tools/list", &json!({}))?;
    answer.result()["tools"].as_array().cloned().context("no list")
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

fn text(client: &mut Client, tool: &str, arguments: Value) -> Result<String> {
    Ok(client.call(tool, arguments)?.all_texts().join("\n"))
}

#[test]
fn long_list_is_tiered() -> Result<()> {
    let mut client = wrap("wrap-tiered", 150, &json!({"catalogue": {"pins": ["*_parcel_77"]}}))?;
    let first = client.open("2025-11-25")?;
    let list = first.result()["tools"].as_array().cloned().context("no list")?;
    let known = names(&list);
    ensure!(
        known[..6] == [SEARCH, DESCRIBE, BROWSE, CALL_READ, CALL, "process_parcel_77"],
        "{known:?}"
    );
    ensure!(known.len() == 19 && known.last() == Some(&"context_guard_read"), "{known:?}");
    ensure!(list[0]["description"] == "Finds tools. One query per need. 150 tools", "{}", list[0]);
    let tokens = answer::o200k(&json!(list).to_string());
    ensure!(tokens <= 3_000, "{tokens} tokens");
    ensure!(first.result().get("_meta").is_none(), "facts for the gateway: {}", first.0);
    // No call changes the list.
    text(&mut client, SEARCH, json!({"queries": ["process parcel"]}))?;
    ensure!(listed(&mut client)? == list);
    Ok(())
}

#[test]
fn short_list_and_full_mode_pass() -> Result<()> {
    let full = json!({"catalogue": {"mode": "full"}});
    for (count, policy) in [(10, json!({})), (150, full)] {
        let mut client = wrap(&format!("wrap-full-{count}"), count, &policy)?;
        let list = client.open("2025-11-25")?.result()["tools"].clone();
        let list = list.as_array().context("no list")?;
        ensure!(list.len() == count + 1, "{:?}", names(list));
        ensure!(list[..count] == tools(count).as_array().context("no tools")?[..]);
    }
    Ok(())
}

#[test]
fn tools_are_found_described_browsed_and_called() -> Result<()> {
    let mut client = wrap("wrap-find", 150, &json!({}))?;
    client.open("2025-11-25")?;
    let wanted = "process_parcel_112";
    let found = text(&mut client, SEARCH, json!({"queries": ["number 112 of the parcels"]}))?;
    let signature = format!(
        "{wanted}(count?:int, value:string /*The value that is processed*/) // Processes the parcel with number 112"
    );
    ensure!(found.lines().nth(1) == Some(&signature), "{found}");
    ensure!(found.ends_with("narrow with more words"), "{found}");
    let described = text(&mut client, DESCRIBE, json!({"names": [wanted]}))?;
    ensure!(serde_json::from_str::<Value>(&described)? == tools(150)[112], "{described}");
    let overview = text(&mut client, BROWSE, json!({}))?;
    ensure!(overview.starts_with("tools: 150 tools, 1 server ("), "{overview}");
    let page = text(&mut client, BROWSE, json!({"category": "tools", "page": 8}))?;
    ensure!(page.ends_with("shown 10 of 150 tools"), "{page}");
    // A call through the catalogue equals a direct call.
    let arguments = json!({"value": "x", "count": 2});
    let mut direct = client.call(wanted, arguments.clone())?.0;
    for tool in [CALL_READ, CALL] {
        let call = json!({"name": wanted, "arguments": arguments});
        let through = client.call(tool, call)?.0;
        direct["id"] = through["id"].clone();
        ensure!(through == direct, "{through}\n{direct}");
    }
    let writes = json!({"name": "process_parcel_113", "arguments": arguments});
    let refused = text(&mut client, CALL_READ, writes)?;
    ensure!(refused.ends_with("is not marked read-only: use context_guard_call"), "{refused}");
    let wrong = text(&mut client, CALL, json!({"name": wanted, "arguments": {"count": "two"}}))?;
    ensure!(wrong.starts_with("arguments.value: required, but missing\n"), "{wrong}");
    let unknown = text(&mut client, CALL, json!({"name": "proces_parcel_112", "arguments": {}}))?;
    ensure!(unknown.contains("similar: process_parcel_112"), "{unknown}");
    Ok(())
}

#[test]
fn calls_before_the_first_list_are_answered() -> Result<()> {
    let mut client = wrap("wrap-early", 150, &json!({}))?;
    let info = json!({"name": "test", "version": "1"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    client.request("initialize", &hello)?;
    let found = text(&mut client, SEARCH, json!({"queries": ["number 112 of the parcels"]}))?;
    ensure!(found.contains("\nprocess_parcel_112("), "{found}");
    let call = json!({"name": "process_parcel_112", "arguments": {"value": "x"}});
    ensure!(!client.call(CALL, call)?.is_error());
    Ok(())
}

#[test]
fn hidden_tools_are_unknown() -> Result<()> {
    // The list is short, but not passed unchanged.
    let mut client = wrap("wrap-hide", 5, &json!({"catalogue": {"hide": ["*_parcel_3"]}}))?;
    let list = client.open("2025-11-25")?.result()["tools"].clone();
    let list = list.as_array().context("no list")?;
    ensure!(list.len() == 5 && !names(list).contains(&"process_parcel_3"), "{:?}", names(list));
    let refused = client.call("process_parcel_3", json!({"value": "x"}))?;
    ensure!(refused.0.to_string().contains("no tool"), "{}", refused.0);
    Ok(())
}

#[test]
fn clients_that_defer_tools_get_the_full_list() -> Result<()> {
    let mut client = wrap("wrap-defer", 150, &json!({}))?;
    let info = json!({"name": "claude-code", "version": "2"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    client.request("initialize", &hello)?;
    ensure!(listed(&mut client)?.len() == 151);
    Ok(())
}
