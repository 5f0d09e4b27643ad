//! The history of calls: `wrap` records them, `stats` queries them, and follow-up reads count for
//! their call.

use std::path::Path;
use std::process::{Command, Output};

use context_guard_test_support::answer::Answer;
use context_guard_test_support::client::Client;
use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::{Context, Result, artifacts, ensure, peers};
use serde_json::{Value, json};

/// Starts the example server behind `wrap`, with this folder for its state.
fn wrap(state: &Path, options: &[&str], client: &str) -> Result<Client> {
    let home = format!("XDG_STATE_HOME={}", state.display());
    let program = artifacts::program()?;
    let server = artifacts::property_server()?;
    let start = ["-u", "CONTEXT_GUARD_NO_HISTORY", &home, &program.display().to_string(), "wrap"];
    let server = server.display().to_string();
    let arguments = [&start[..], options, &["--", &server]].concat();
    let mut started = Client::start("env", arguments)?;
    let info = json!({"name": client, "version": "1"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    started.request("initialize", &hello)?;
    started.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
    started.request("tools/list", &json!({}))?;
    Ok(started)
}

fn stats(state: &Path, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(artifacts::program()?);
    Ok(command.arg("stats").args(arguments).env("XDG_STATE_HOME", state).output()?)
}

fn answer(state: &Path, arguments: &[&str]) -> Result<Value> {
    let output = stats(state, &[arguments, &["--json"]].concat())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).with_context(|| errors.into_owned())
}

fn call(client: &mut Client, tool: &str, arguments: &Value) -> Result<Value> {
    let answer = client.request("tools/call", &json!({"name": tool, "arguments": arguments}))?;
    Ok(answer.0)
}

/// Returns the result metadata of an answer that the guard shaped.
fn metadata(answer: &Value) -> Result<&Value> {
    let meta = answer["result"]["_meta"].as_object().and_then(|meta| meta.values().next());
    meta.with_context(|| format!("not shaped: {answer}"))
}

fn tokens(metadata: &Value, name: &str) -> Result<i64> {
    metadata[name].as_i64().with_context(|| format!("{name} is missing: {metadata}"))
}

#[test]
fn wrapped_calls_are_counted_net_of_their_reads() -> Result<()> {
    let state = peers::folder("history-net")?;
    let mut client = wrap(&state, &[], "claude-code")?;
    let first = call(&mut client, "list_bookings", &json!({}))?;
    let (mut followups, mut sent_later) = (0, 0);
    let mut cursor = metadata(&first)?["nextCursor"].clone();
    for _ in 0..2 {
        let page = call(&mut client, "context_guard_read", &json!({"cursor": cursor}))?;
        sent_later += tokens(metadata(&page)?, "estimatedTokens")?;
        followups += 1;
        cursor = metadata(&page)?["nextCursor"].clone();
    }
    call(&mut client, "chosen_by_a_client", &json!({}))?;
    let refused = call(&mut client, "context_guard_read", &json!({"cursor": "nonsense"}))?;
    ensure!(refused["result"]["isError"] == true, "{refused}");
    ensure!(client.end()?.code == Some(0));

    let measures = "calls,followups,tokens_before,tokens_sent,tokens_followup,net_tokens_saved,oversized,paged";
    let found = answer(&state, &["--by", "tool", "--measure", measures])?;
    let row = |tool: &str| {
        let rows = found["rows"].as_array().into_iter().flatten();
        rows.clone().find(|row| row["tool"] == tool).cloned().with_context(|| found.to_string())
    };
    let meta = metadata(&first)?;
    let (before, sent) = (tokens(meta, "originalTokens")?, tokens(meta, "estimatedTokens")?);
    let expected = json!({
        "tool": "list_bookings", "calls": 1, "followups": followups, "oversized": 1, "paged": 1,
        "tokens_before": before, "tokens_sent": sent, "tokens_followup": sent_later,
        "net_tokens_saved": before - sent - sent_later,
    });
    ensure!(row("list_bookings")? == expected, "{found} instead of {expected}");
    // Clients choose names, so an unlisted one is not stored.
    ensure!(row("_OTHER")?["calls"] == 1, "{found}");
    ensure!(row("context_guard_read")?["calls"] == 0, "{found}");
    ensure!(found["total"]["calls"] == 2 && found["dropped"] == 0, "{found}");
    let by_client = answer(&state, &["--by", "client,outcome", "--where", "outcome:paginated"])?;
    ensure!(by_client["rows"][0]["client"] == "claude-code", "{by_client}");
    ensure!(by_client["rows"].as_array().map(Vec::len) == Some(1), "{by_client}");
    let by_upstream = answer(&state, &["--by", "upstream", "--measure", "calls"])?;
    ensure!(by_upstream["rows"][0]["upstream"] != "", "{by_upstream}");
    Ok(())
}

#[test]
fn net_savings_agree_with_an_exact_count() -> Result<()> {
    let state = peers::folder("history-exact")?;
    let mut client = wrap(&state, &[], "a client of our own")?;
    let mut direct = Client::start(artifacts::property_server()?, [] as [&str; 0])?;
    direct.open("2025-11-25")?;
    let cost = |answer: &Value| i64::try_from(Answer(answer.clone()).tokens());
    let mut exact = 0;
    // The number of pages that are read after the first: none, some, or all.
    for (tool, arguments, pages) in [
        ("list_bookings", json!({}), 2),
        ("list_bookings", json!({"status": "pending"}), usize::MAX),
        ("recent_bookings", json!({}), 0),
        ("list_listings", json!({}), 1),
        ("list_transactions", json!({}), 0),
        ("get_booking", json!({"id": "BK-0007"}), 1),
        ("read_log", json!({}), 3),
        ("read_manual", json!({}), usize::MAX),
        ("short_note", json!({}), 0),
    ] {
        exact += cost(&call(&mut direct, tool, &arguments)?)?;
        let first = call(&mut client, tool, &arguments)?;
        exact -= cost(&first)?;
        let next = |answer: Value| Answer(answer).next_cursor();
        let mut cursor = next(first);
        for _ in 0..pages {
            let Some(place) = cursor else { break };
            let page = call(&mut client, "context_guard_read", &json!({"cursor": place}))?;
            exact -= cost(&page)?;
            cursor = next(page);
        }
    }
    ensure!(client.end()?.code == Some(0));
    let found = answer(&state, &["--measure", "net_tokens_saved,followups"])?;
    let counted = found["total"]["net_tokens_saved"].as_i64().context("no total")?;
    eprintln!("exact {exact}, counted {counted}");
    ensure!((exact - counted).abs() * 20 <= exact, "{counted} instead of {exact}: {found}");
    Ok(())
}

#[test]
fn processes_share_the_history_and_can_leave_it() -> Result<()> {
    let state = peers::folder("history-shared")?;
    let mut clients = Vec::new();
    for name in ["claude-code", "a client of our own", "a client of our own"] {
        clients.push(wrap(&state, &[], name)?);
    }
    let mut absent = wrap(&state, &["--no-history"], "claude-code")?;
    for client in clients.iter_mut().chain([&mut absent]) {
        call(client, "list_bookings", &json!({}))?;
    }
    for client in clients.into_iter().chain([absent]) {
        ensure!(client.end()?.code == Some(0));
    }
    let found = answer(&state, &["--by", "client", "--measure", "calls"])?;
    let expected = json!([{"client": "_OTHER", "calls": 2}, {"client": "claude-code", "calls": 1}]);
    ensure!(found["rows"] == expected, "{found}");
    Ok(())
}

#[test]
fn statistics_are_readable_and_errors_name_what_is_valid() -> Result<()> {
    let state = peers::folder("history-readable")?;
    let missing = stats(&state, &[])?;
    let errors = String::from_utf8_lossy(&missing.stderr).into_owned();
    ensure!(missing.status.code() == Some(1) && errors.contains("no history at"), "{errors}");
    let mut client = wrap(&state, &[], "claude-code")?;
    call(&mut client, "list_bookings", &json!({}))?;
    ensure!(client.end()?.code == Some(0));
    let table = String::from_utf8(stats(&state, &[])?.stdout)?;
    ensure!(table.contains("| list_bookings |") && table.contains("net_tokens_saved"), "{table}");
    for (arguments, expected) in [
        (["--measure", "savings"], "net_tokens_saved"),
        (["--by", "tools"], "upstream, tool, client, outcome, revision"),
        (["--where", "outcome:pages"], "paginated, summarized, chunked"),
        (["--since", "yesterday"], "RFC 3339"),
    ] {
        let output = stats(&state, &arguments)?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(2) && errors.contains(expected), "{errors}");
    }
    Ok(())
}

#[test]
fn gateway_answers_queries() -> Result<()> {
    let server = artifacts::property_server()?;
    let upstream = |name: &str| json!({"name": name, "command": [&server]});
    let upstreams = json!([upstream("houses"), upstream("archive")]);
    let gateway = Gateway::start(upstreams, json!({"history": {"file": "history.db"}}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    client.request("tools/list", json!({}))?;
    let first = client.call("houses__list_bookings", json!({}))?.0;
    let cursor = metadata(&first)?["nextCursor"].clone();
    let page = client.call("context_guard_read", json!({"cursor": cursor}))?.0;
    client.call("archive__short_note", json!({}))?;
    let meta = metadata(&first)?;
    let net = tokens(meta, "originalTokens")?
        - tokens(meta, "estimatedTokens")?
        - tokens(metadata(&page)?, "estimatedTokens")?;
    let path = "/admin/v1/query?measure=net_tokens_saved,calls,followups&by=upstream,tool&from=-1h";
    let (status, body) = gateway.get_admin(path)?;
    ensure!(status == 200, "{body}");
    let found: Value = serde_json::from_str(&body)?;
    let row = |upstream: &str, tool: &str, net: i64, followups: u64| {
        json!({"upstream": upstream, "tool": tool, "net_tokens_saved": net, "calls": 1,
            "followups": followups})
    };
    let expected =
        json!([row("houses", "list_bookings", net, 1), row("archive", "short_note", 0, 0)]);
    ensure!(found["rows"] == expected, "{found} instead of {expected}");
    let (status, body) = gateway.get_admin("/admin/v1/query?measure=tokns")?;
    ensure!(status == 400 && body.contains("net_tokens_saved"), "{body}");
    let other = Gateway::start(json!([upstream("houses")]), json!({}))?;
    let (status, body) = other.get_admin("/admin/v1/query")?;
    ensure!(status == 404 && body.contains("history: {}"), "{body}");
    Ok(())
}
