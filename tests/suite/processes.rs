//! Child processes of stdio upstreams: they end with their client, inherit no secrets of the
//! gateway, and their output neither fills memory nor goes unnoticed.

use std::process::Command;

use context_guard_test_support::answer::Answer;
use context_guard_test_support::client::Client;
use context_guard_test_support::gateway::{Gateway, HttpClient, agent, get, post, signal};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure, peers};
use serde_json::{Value, json};

fn script() -> String {
    artifacts::root().join("tests/support/servers/stubborn.mjs").display().to_string()
}

/// Starts a gateway before one stubborn server. `more` overrides members of the upstream.
fn gateway(more: Value, environment: &[(&str, &str)]) -> Result<Gateway> {
    let mut upstream = json!({"name": "stubborn", "command": ["node", script()]});
    for (name, value) in more.as_object().into_iter().flatten() {
        upstream[name] = value.clone();
    }
    Gateway::start_with(json!([upstream]), json!({}), environment)
}

fn open(gateway: &Gateway) -> Result<HttpClient> {
    HttpClient::open(&gateway.url(), &[], json!({}))
}

/// Returns the process ids of the server and of the process that it started.
fn pids(answer: &Answer) -> Result<Vec<u32>> {
    let pids: Vec<u32> = answer.texts()[0].split(' ').map(str::parse).collect::<Result<_, _>>()?;
    ensure!(pids.len() == 2 && pids.iter().all(|pid| runs(*pid)), "{pids:?} do not run");
    Ok(pids)
}

/// Returns true if the process exists and is no zombie, which has ended.
fn runs(pid: u32) -> bool {
    let state = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output();
    state.is_ok_and(|state| {
        let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
        !state.is_empty() && !state.starts_with('Z')
    })
}

fn all_end(pids: &[u32]) -> Result<()> {
    wait_until("end of the processes", || Ok(!pids.iter().any(|pid| runs(*pid))))?;
    Ok(())
}

fn log_has(gateway: &Gateway, text: &str) -> Result<()> {
    gateway.process.wait_for_output(&[text])?;
    Ok(())
}

#[test]
fn deleted_session_ends_stubborn_processes() -> Result<()> {
    let gateway = gateway(json!({}), &[])?;
    let mut client = open(&gateway)?;
    let pids = pids(&client.call("pids", json!({}))?)?;
    let deleted = agent().delete(gateway.url()).header("mcp-session-id", &client.session).call()?;
    ensure!(deleted.status().is_success(), "{}", deleted.status());
    all_end(&pids)
}

#[test]
fn idle_session_ends_stubborn_processes() -> Result<()> {
    let upstream = json!([{"name": "stubborn", "command": ["node", script(), "--polite"]}]);
    let limits = json!({"limits": {"sessionIdleSeconds": 1}});
    let gateway = Gateway::start(upstream, limits)?;
    let pids = pids(&open(&gateway)?.call("pids", json!({}))?)?;
    all_end(&pids)
}

#[test]
fn stopped_gateway_ends_stubborn_processes() -> Result<()> {
    let gateway = gateway(json!({}), &[])?;
    let mut client = open(&gateway)?;
    let pids = pids(&client.call("pids", json!({}))?)?;
    signal(gateway.process.pid(), "TERM")?;
    // The gateway ends after its processes.
    wait_until("end of the gateway", || Ok(!runs(gateway.process.pid())))?;
    ensure!(!pids.iter().any(|pid| runs(*pid)), "the gateway left its processes");
    Ok(())
}

#[test]
fn killed_gateway_leaves_no_process() -> Result<()> {
    let gateway = gateway(json!({}), &[])?;
    let mut client = open(&gateway)?;
    let pids = pids(&client.call("pids", json!({}))?)?;
    signal(gateway.process.pid(), "KILL")?;
    all_end(&pids)
}

#[test]
fn wrap_ends_stubborn_processes() -> Result<()> {
    for end in ["input", "TERM", "KILL"] {
        let mut client = Client::wrap(["--", "node", &script()])?;
        client.open("2025-11-25")?;
        let pids = pids(&client.call("pids", json!({}))?)?;
        if end == "input" {
            // The server is killed, and the exit code of `wrap` says so.
            ensure!(client.end()?.code == Some(128 + 9));
            ensure!(!pids.iter().any(|pid| runs(*pid)), "`wrap` left its processes");
        } else {
            signal(client.pid(), end)?;
            all_end(&pids).with_context(|| end.to_owned())?;
        }
    }
    Ok(())
}

#[test]
fn wrap_finishes_requests_after_the_end_of_input() -> Result<()> {
    // Longer than a server may take to exit.
    let script = r#"read line; sleep 5; echo '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'"#;
    let mut client = Client::wrap(["--", "sh", "-c", script])?;
    client.send(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#)?;
    let ended = client.end()?;
    ensure!(String::from_utf8(ended.output)?.contains("\"id\":1") && ended.code == Some(0));
    Ok(())
}

/// Returns how often an upstream was started.
fn starts(gateway: &Gateway, upstream: &str) -> Result<u64> {
    let metrics = gateway.get_admin("/metrics")?.1;
    let name = format!("context_guard_upstream_starts_total{{upstream=\"{upstream}\"}} ");
    let count = metrics.lines().find_map(|line| line.strip_prefix(&name));
    Ok(count.map_or(Ok(0), str::parse)?)
}

/// Opens a session of a client software with this name.
fn open_as(gateway: &Gateway, name: &str) -> Result<HttpClient> {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": name, "version": "1"},
    });
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let mut client = open(gateway)?;
    let opened = post(&gateway.url(), &[], &initialize.to_string())?;
    client.session = opened.header("mcp-session-id").to_owned();
    ensure!(!client.session.is_empty(), "{}", opened.body);
    Ok(client)
}

#[test]
fn processes_of_one_caller_are_limited() -> Result<()> {
    let upstream = json!([{"name": "stubborn", "command": ["node", script(), "--polite"]}]);
    let limits = json!({"limits": {"processesPerPrincipal": 2}});
    let gateway = Gateway::start(upstream, limits)?;
    let mut sessions = Vec::new();
    let mut servers = Vec::new();
    for _ in 0..6 {
        // An invented id makes no other caller.
        let invented = format!("invented-{}", sessions.len());
        let mut client =
            HttpClient::open(&gateway.url(), &[("mcp-session-id", &invented)], json!({}))?;
        client.headers.clear();
        servers.push(pids(&client.call("pids", json!({}))?)?[0]);
        sessions.push(client);
        let running = servers.iter().filter(|pid| runs(**pid)).count();
        ensure!(running <= 2, "{running} processes run");
    }
    // The process of the first session was idle for longest. Its next request starts another.
    ensure!(!runs(servers[0]) && runs(servers[5]));
    ensure!(pids(&sessions[0].call("pids", json!({}))?)?[0] != servers[0]);
    log_has(&gateway, "ended an idle process")
}

#[test]
fn sessions_without_requests_start_no_process() -> Result<()> {
    let server = |name: &str| json!({"name": name, "command": ["node", script(), "--polite"]});
    let several = Gateway::start(json!([server("a"), server("b")]), json!({}))?;
    // The gateway starts each upstream once, to read its lists.
    wait_until("one start", || Ok(starts(&several, "a")? == 1 && starts(&several, "b")? == 1))?;
    wait_until("a description", || {
        open(&several)?;
        let before = starts(&several, "a")?;
        open(&several)?;
        Ok(starts(&several, "a")? == before)
    })?;
    let alone = Gateway::start(json!([server("a")]), json!({}))?;
    open(&alone)?;
    for gateway in [several, alone] {
        let before = starts(&gateway, "a")?;
        let sessions = (0..20).map(|_| open(&gateway)).collect::<Result<Vec<_>>>()?;
        ensure!(starts(&gateway, "a")? == before);
        let mut client = sessions.into_iter().next().context("no session")?;
        let tool =
            if gateway.get_admin("/readyz")?.1.contains("\"b\"") { "a__pids" } else { "pids" };
        ensure!(!client.call(tool, json!({}))?.is_error());
        ensure!(starts(&gateway, "a")? == before + 1);
    }
    Ok(())
}

#[test]
fn servers_are_listed_at_the_start_with_few_places() -> Result<()> {
    let server =
        |at: usize| json!({"name": format!("s{at}"), "command": ["node", script(), "--polite"]});
    let servers: Vec<Value> = (0..5).map(server).collect();
    let gateway = Gateway::start(json!(servers), json!({"limits": {"processes": 4}}))?;
    wait_until("one start of each server", || {
        Ok((0..5).map(|at| starts(&gateway, &format!("s{at}"))).sum::<Result<u64>>()? == 5)
    })?;
    wait_until("the tools of each server", || {
        let (_, body) = gateway.get_admin("/admin/v1/catalogue/servers")?;
        Ok(body.matches("tool_count").count() == 5)
    })?;
    Ok(())
}

#[test]
fn client_software_of_a_principal_shares_a_process() -> Result<()> {
    let gateway = gateway(json!({"isolation": "principal"}), &[])?;
    let mut servers = Vec::new();
    for name in ["one", "two", "three"] {
        servers.push(pids(&open_as(&gateway, name)?.call("pids", json!({}))?)?[0]);
    }
    ensure!(servers.iter().all(|pid| *pid == servers[0]), "{servers:?}");
    Ok(())
}

/// Calls the tool `pids` as a client of the stateless protocol mode.
fn stateless_pids(gateway: &Gateway) -> Result<Vec<u32>> {
    let version = "2026-07-28";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "pids", "arguments": {}, "_meta": meta},
    });
    let headers =
        [("mcp-protocol-version", version), ("mcp-method", "tools/call"), ("mcp-name", "pids")];
    let reply = post(&gateway.url(), &headers, &call.to_string())?;
    ensure!(reply.status == 200, "{}: {}", reply.status, reply.body);
    pids(&reply.answer()?)
}

#[test]
fn clients_of_both_protocol_modes_share_a_process() -> Result<()> {
    let gateway = gateway(json!({"isolation": "shared"}), &[])?;
    let first = pids(&open(&gateway)?.call("pids", json!({}))?)?;
    ensure!(stateless_pids(&gateway)? == first, "each mode has its own process");
    Ok(())
}

#[test]
fn mode_that_ends_a_process_is_tried_once() -> Result<()> {
    let strict = json!({"command": ["node", script(), "--polite", "--strict"]});
    let gateway = gateway(strict, &[])?;
    for expected in [2, 3] {
        let server = stateless_pids(&gateway)?[0];
        ensure!(starts(&gateway, "stubborn")? == expected, "{}", starts(&gateway, "stubborn")?);
        Command::new("kill").args(["-KILL", &server.to_string()]).status()?;
        all_end(&[server])?;
    }
    Ok(())
}

#[test]
fn gateway_secrets_are_not_inherited() -> Result<()> {
    let environment = [
        ("CONTEXT_GUARD_SIGNING_KEYS", "a secret signing key, number 1"),
        ("CONTEXT_GUARD__LIMITS__QUEUE", "7"),
        ("GUARD_KEY", "a secret signing key, number 2"),
        ("UNRELATED_TOKEN", "secret-3"),
        ("WANTED_ONE", "one"),
        ("WANTED_TWO", "two"),
        ("LC_TEST", "language"),
        ("HTTPS_PROXY", "http://proxy.example"),
    ];
    let upstream = json!([{
        "name": "stubborn",
        "command": ["node", script()],
        "env": {"OWN": "own-${env:WANTED_ONE}"},
        "inheritEnv": ["WANTED_*", "GUARD_*"],
    }]);
    let keys = json!({"signingKeys": ["${env:GUARD_KEY}"]});
    let gateway = Gateway::start_with(upstream, keys, &environment)?;
    let answer = open(&gateway)?.call("environment", json!({}))?;
    let seen = answer.json()?;
    ensure!(!seen.to_string().contains("secret"), "{seen}");
    ensure!(seen["CONTEXT_GUARD__LIMITS__QUEUE"].is_null(), "{seen}");
    for (name, value) in [
        ("OWN", "own-one"),
        ("WANTED_ONE", "one"),
        ("WANTED_TWO", "two"),
        ("LC_TEST", "language"),
        ("HTTPS_PROXY", "http://proxy.example"),
    ] {
        ensure!(seen[name] == value, "{name}: {seen}");
    }
    ensure!(seen["PATH"].is_string() && seen["HOME"].is_string(), "{seen}");
    Ok(())
}

#[test]
fn wrap_passes_the_environment_of_the_client() -> Result<()> {
    let show = |flags: &[&str]| -> Result<String> {
        let output = Command::new(artifacts::program()?)
            .arg("wrap")
            .args(flags)
            .args(["--", "env"])
            .env("CONTEXT_GUARD_SIGNING_KEYS", "a secret signing key of a test")
            .env("CONTEXT_GUARD_LOG", "error")
            .env("GITHUB_TOKEN", "of the client")
            .output()?;
        Ok(String::from_utf8(output.stdout)?)
    };
    let seen = show(&[])?;
    ensure!(
        seen.contains("GITHUB_TOKEN=of the client") && !seen.contains("CONTEXT_GUARD"),
        "{seen}"
    );
    let seen = show(&["--inherit-env", "CONTEXT_GUARD_LOG"])?;
    ensure!(seen.contains("CONTEXT_GUARD_LOG=error") && !seen.contains("secret"), "{seen}");
    Ok(())
}

#[test]
fn odd_standard_error_is_survived() -> Result<()> {
    let gateway = gateway(json!({"stderrLevel": "info"}), &[])?;
    let mut client = open(&gateway)?;
    ensure!(client.call("latin1", json!({}))?.texts()[0] == "complained");
    log_has(&gateway, "stderr: caf\u{fffd}\\rforged line")?;
    ensure!(client.call("flood", json!({"megabytes": 1}))?.texts()[0] == "flooded");
    let memory = || -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.process.pid()))?;
        let line = status.lines().find(|line| line.starts_with("VmHWM")).context("no VmHWM")?;
        Ok(line.split_whitespace().nth(1).context("no number")?.parse()?)
    };
    let before = memory()?;
    ensure!(client.call("flood", json!({"megabytes": 100}))?.texts()[0] == "flooded");
    let grown = memory()? - before;
    ensure!(grown < 20_000, "100 MB of standard error took {grown} kB of memory");
    Ok(())
}

#[test]
fn state_changes_of_an_upstream_are_logged() -> Result<()> {
    let gateway = gateway(json!({}), &[])?;
    let mut client = open(&gateway)?;
    log_has(&gateway, "upstream is up")?;
    ensure!(client.call("die", json!({}))?.is_error());
    log_has(&gateway, "upstream is down: its process ended (exit status: 3)")?;
    log_has(&gateway, "last lines of its standard error: Error: the database is locked")?;
    ensure!(!client.call("pids", json!({}))?.is_error());
    log_has(&gateway, "upstream is up again")?;
    Ok(())
}

#[test]
fn ended_sessions_are_no_failures_of_their_upstream() -> Result<()> {
    let houses = json!([{"name": "houses", "command": [artifacts::property_server()?]}]);
    let gateway = Gateway::start(houses, json!({}))?;
    // Each process exits as soon as its input is closed.
    for _ in 0..40 {
        let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
        ensure!(!client.call("get_booking", json!({"id": "BK-0007"}))?.is_error());
        agent().delete(gateway.url()).header("mcp-session-id", &client.session).call()?;
    }
    let log = gateway.process.wait_for_output(&["upstream is up"])?;
    ensure!(!log.contains("upstream is down"), "{log}");
    Ok(())
}

#[test]
fn missing_program_is_logged_at_start() -> Result<()> {
    let upstreams = json!([
        {"name": "gone", "command": ["no-such-program-anywhere"]},
        {"name": "here", "command": ["node", script()]},
    ]);
    let gateway = Gateway::start(upstreams, json!({}))?;
    log_has(&gateway, "upstream is down: its program cannot be found: no-such-program-anywhere")?;
    let (status, body) = gateway.get_admin("/readyz")?;
    let state: Value = serde_json::from_str(&body)?;
    ensure!(status == 200 && state["ready"] == true, "{body}");
    ensure!(state["upstreams"][0]["state"] == "down", "{body}");
    // The gateway starts the upstream without a client, so its state may be known already.
    ensure!(state["upstreams"][1]["state"] != "down", "{body}");
    ensure!(state["store"] == "up" && state["revision"] == 1, "{body}");
    let alone = json!([{"name": "gone", "command": ["no-such-program-anywhere"]}]);
    let gateway = Gateway::start(alone, json!({}))?;
    wait_until("readiness 503", || {
        Ok(get(&format!("{}/readyz", gateway.base), &[])?.status == 503)
    })?;
    Ok(())
}

#[test]
fn plain_output_is_reported_once() -> Result<()> {
    let warning = "that are not MCP messages";
    let first = r#"the first is "Server \"ready\" on stdio""#;
    let gateway = gateway(json!({}), &[])?;
    let mut client = open(&gateway)?;
    for _ in 0..2 {
        ensure!(client.call("chat", json!({}))?.texts()[0] == "chatted");
    }
    let log = gateway.process.wait_for_output(&[warning, first])?;
    ensure!(log.matches(warning).count() == 1, "{log}");
    let mut client = Client::wrap(["--", "node", &script(), "--polite"])?;
    client.open("2025-11-25")?;
    for _ in 0..2 {
        client
            .send(br#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"chat"}}"#)?;
        // The lines pass: the client decides what to do with them.
        ensure!(client.line()? == br#"Server "ready" on stdio"#);
        ensure!(client.line()? == b"another line");
        ensure!(client.line()? == br#"{"level":30,"msg":"a JSON log"}"#);
        ensure!(Answer::read(&client.line()?)?.texts()[0] == "chatted");
    }
    let errors = client.end()?.errors;
    ensure!(errors.matches(warning).count() == 1 && errors.contains(first), "{errors}");
    Ok(())
}

#[test]
#[cfg(target_os = "linux")]
fn resource_limits_hold_for_processes() -> Result<()> {
    let server = artifacts::property_server()?.display().to_string();
    let folder = peers::folder("resource-limits")?;
    let script = format!("cat /proc/self/limits > '{}/limits'; exec '{server}'", folder.display());
    let limits = json!({"files": 64, "cpuSeconds": 600});
    let upstream = json!({"name": "houses", "command": ["sh", "-c", script], "limits": limits});
    let gateway = Gateway::start(json!([upstream]), json!({}))?;
    let answer = open(&gateway)?.call("list_bookings", json!({"limit": 1}))?;
    ensure!(!answer.is_error(), "{}", answer.0);
    let limits = std::fs::read_to_string(folder.join("limits"))?;
    for (name, limit) in [("Max open files", "64"), ("Max cpu time", "600")] {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).context(name)?;
        let values: Vec<&str> = line.split_whitespace().take(2).collect();
        ensure!(values == [limit, limit], "{line}");
    }
    Ok(())
}
