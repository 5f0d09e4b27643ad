//! Trials of new revisions: canary, A/B, shadow, and their reports.

use context_guard_test_support::gateway::{ArchiveServer, Gateway, HttpClient, post};
use context_guard_test_support::operations::{
    TOKEN, active_revision, admin_call, admin_config, revision_report, run_program,
};
use context_guard_test_support::peers::Server;
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};

fn houses() -> Result<Value> {
    Ok(json!({"name": "houses", "command": [artifacts::property_server()?], "isolation": "shared"}))
}

fn gateway(rollout: Value) -> Result<Gateway> {
    let everything = Server::npm("server-everything", &["stdio"])?.0;
    let everything = json!({"name": "everything", "command": everything, "isolation": "shared"});
    start(json!([houses()?, everything]), rollout)
}

fn start(upstreams: Value, rollout: Value) -> Result<Gateway> {
    // All sessions are of one address.
    let limits = json!({"sessions": 1_000, "sessionsPerPrincipal": 1_000});
    let settings = json!({"admin": admin_config(), "rollout": rollout, "limits": limits});
    Gateway::start(upstreams, settings)
}

fn sessions(gateway: &Gateway, count: usize) -> Result<Vec<HttpClient>> {
    (0..count).map(|_| HttpClient::open(&gateway.url(), &[], json!({}))).collect()
}

/// Returns the revision of each session, identified by its budget.
fn served(clients: &mut [HttpClient]) -> Result<Vec<u64>> {
    served_by(clients, "houses__list_bookings")
}

fn served_by(clients: &mut [HttpClient], tool: &str) -> Result<Vec<u64>> {
    clients
        .iter_mut()
        .map(|client| {
            let answer = client.call(tool, json!({"limit": 5}))?;
            ensure!(!answer.is_error(), "{}", answer.0);
            let of = |name: &str| answer.metadata()[name].as_u64().unwrap_or_default();
            Ok(of("estimatedTokens") + of("budgetRemaining"))
        })
        .collect()
}

fn push(gateway: &Gateway, tokens: u64) -> Result<()> {
    let policy = json!({"tokenBudgetThreshold": tokens}).to_string();
    let reply = admin_call(gateway, "PUT", "/admin/policy", policy.as_bytes())?;
    ensure!(reply.status == 200, "{}", reply.body);
    Ok(())
}

#[test]
fn healthy_canary_is_promoted() -> Result<()> {
    let plan =
        json!({"mode": "canary", "steps": [5, 25, 50, 100], "stepSeconds": 0, "stepCalls": 1});
    let gateway = gateway(plan)?;
    let mut clients = sessions(&gateway, 80)?;
    ensure!(served(&mut clients)?.iter().all(|budget| *budget == 4_000));
    push(&gateway, 5_000)?;
    let mut before = Vec::new();
    wait_until("the promotion", || {
        let is_over = revision_report(&gateway)?["trial"].is_null();
        let now = served(&mut clients)?;
        // The new revision keeps the sessions that it serves.
        ensure!(before.iter().zip(&now).all(|(before, now)| before <= now), "{before:?} {now:?}");
        before = now;
        Ok(is_over)
    })?;
    ensure!(
        before.iter().all(|budget| *budget == 5_000)
            || served(&mut clients)?.iter().all(|budget| *budget == 5_000)
    );
    // The log has each step, however long the calls between two reports take.
    let steps = ["takes 25 %", "takes 50 %", "takes 100 %", "revision change: promoted"];
    let log = gateway.process.wait_for_output(&steps)?;
    ensure!(steps.iter().map(|step| log.find(step)).is_sorted(), "{log}");
    ensure!(active_revision(&gateway)? == 2);
    let metrics = gateway.get_admin("/metrics")?.1;
    ensure!(
        metrics.contains("context_guard_generation 2") && metrics.contains("event=\"promoted\""),
        "{metrics}"
    );
    Ok(())
}

#[test]
fn failing_canary_is_rolled_back() -> Result<()> {
    let gateway = gateway(json!({"mode": "canary", "steps": [50, 100], "stepSeconds": 600}))?;
    let mut clients = sessions(&gateway, 20)?;
    let pushed = admin_call(
        &gateway,
        "PUT",
        "/admin/component",
        &std::fs::read(artifacts::faulty_component()?)?,
    )?;
    ensure!(pushed.status == 200 && pushed.body.contains("\"active\":1"), "{}", pushed.body);
    wait_until("the end of the trial", || {
        for client in &mut clients {
            let answer = client
                .call("everything__echo", json!({"message": "inject-fault:trap, and more"}))?;
            ensure!(answer.texts()[0].contains("and more"), "{}", answer.0);
        }
        Ok(revision_report(&gateway)?["trial"].is_null())
    })?;
    ensure!(active_revision(&gateway)? == 1);
    gateway.process.wait_for_output(&["of its last"])?;
    Ok(())
}

#[test]
fn ab_trial_runs_until_decided() -> Result<()> {
    let gateway = gateway(json!({"mode": "ab", "share": 50}))?;
    let mut clients = sessions(&gateway, 40)?;
    push(&gateway, 2_000)?;
    let sides = served(&mut clients)?;
    let new = sides.iter().filter(|budget| **budget == 2_000).count();
    ensure!((8..=32).contains(&new), "{new} of 40");
    ensure!(served(&mut clients)? == sides, "a session changed its revision");
    let trial = revision_report(&gateway)?["trial"].clone();
    let answers = |side: &str| trial[side]["answers"].as_u64().unwrap_or_default();
    ensure!(
        answers("active") + answers("candidate") >= 80 && answers("candidate") as usize >= 2 * new,
        "{trial}"
    );
    let shown = run_program(&["generations", "--admin", &gateway.admin, "--token", TOKEN])?;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    ensure!(
        shown.contains("on trial (ab): revision 2, 50 % of the sessions")
            && shown.contains("| candidate"),
        "{shown}"
    );
    let promoted =
        run_program(&["generations", "--admin", &gateway.admin, "--token", TOKEN, "promote"])?;
    ensure!(promoted.status.success() && active_revision(&gateway)? == 2);
    ensure!(served(&mut clients)?.iter().all(|budget| *budget == 2_000));
    // If an operator ends a trial, the previous revision remains active.
    push(&gateway, 3_000)?;
    let ended =
        run_program(&["generations", "--admin", &gateway.admin, "--token", TOKEN, "rollback"])?;
    ensure!(
        ended.status.success()
            && active_revision(&gateway)? == 2
            && revision_report(&gateway)?["trial"].is_null()
    );
    let nothing =
        run_program(&["generations", "--admin", &gateway.admin, "--token", TOKEN, "promote"])?;
    let printed = String::from_utf8_lossy(&nothing.stderr).into_owned();
    ensure!(
        nothing.status.code() == Some(1) && printed.contains("no trial is running"),
        "{printed}"
    );
    Ok(())
}

/// Checks that an A/B trial and a canary serve their shares of 400 sessions, each session always by
/// the same revision.
fn check_split(upstreams: Value, tool: &str) -> Result<()> {
    // A canary never advances with so many calls to wait for.
    let canary = json!({"mode": "canary", "steps": [5, 100], "stepCalls": 1_000_000});
    for (rollout, expected) in [(json!({"mode": "ab", "share": 50}), 160..=240), (canary, 4..=44)] {
        let gateway = start(upstreams.clone(), rollout)?;
        let mut clients = sessions(&gateway, 400)?;
        push(&gateway, 2_000)?;
        let shown = || -> Result<String> {
            let shown = run_program(&["revisions", "--admin", &gateway.admin, "--token", TOKEN])?;
            Ok(String::from_utf8_lossy(&shown.stdout).into_owned())
        };
        ensure!(shown()?.contains("no session has entered the trial"), "{}", shown()?);
        let sides = served_by(&mut clients, tool)?;
        let new = sides.iter().filter(|budget| **budget == 2_000).count();
        ensure!(expected.contains(&new), "{new} of 400");
        ensure!(served_by(&mut clients, tool)? == sides, "a session changed its revision");
        let trial = revision_report(&gateway)?["trial"].clone();
        ensure!(
            trial["candidate"]["sessions"] == new
                && trial["active"]["sessions"] == 400 - new
                && trial["candidate"]["principals"] == 0
                && trial["active"]["principals"] == 0,
            "{trial}"
        );
        let shown = shown()?;
        ensure!(!shown.contains("no session has entered"), "{shown}");
        if trial["mode"] == "canary" {
            let calls = trial["progress"]["calls"].as_u64().unwrap_or_default();
            ensure!(calls >= 2 * new as u64, "{trial}");
            let progress = format!("step 1 of 2 (5 %): {calls} of 1000000 calls, ");
            ensure!(shown.contains(&progress), "{progress} is not in {shown}");
        }
    }
    Ok(())
}

#[test]
fn sessions_of_one_http_upstream_are_split() -> Result<()> {
    let server = ArchiveServer::start(true)?;
    check_split(json!([{"name": "archive", "url": server.url}]), "list_bookings")
}

#[test]
fn sessions_of_one_stdio_upstream_are_split() -> Result<()> {
    check_split(json!([houses()?]), "list_bookings")
}

#[test]
fn sessions_of_two_upstreams_are_split() -> Result<()> {
    let server = ArchiveServer::start(true)?;
    let archive = json!({"name": "archive", "url": server.url});
    check_split(json!([houses()?, archive]), "houses__list_bookings")
}

#[test]
fn stateless_callers_are_split_by_principal() -> Result<()> {
    let server = ArchiveServer::start(true)?;
    let gateway =
        start(json!([{"name": "archive", "url": server.url}]), json!({"mode": "ab", "share": 50}))?;
    push(&gateway, 2_000)?;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "list_bookings", "arguments": {"limit": 5},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        },
    }});
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "list_bookings"),
    ];
    for _ in 0..3 {
        let reply = post(&gateway.url(), &headers, &call.to_string())?;
        ensure!(reply.status == 200 && !reply.answer()?.is_error(), "{}", reply.body);
    }
    let trial = revision_report(&gateway)?["trial"].clone();
    let count = |kind: &str| {
        let side = |side: &str| trial[side][kind].as_u64().unwrap_or_default();
        side("active") + side("candidate")
    };
    ensure!(count("principals") == 1 && count("sessions") == 0, "{trial}");
    let shown = run_program(&["revisions", "--admin", &gateway.admin, "--token", TOKEN])?;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    ensure!(shown.contains("callers without a session are split by principal"), "{shown}");
    Ok(())
}

#[test]
fn shadow_difference_is_reported() -> Result<()> {
    let gateway = gateway(json!({"mode": "shadow"}))?;
    let mut clients = sessions(&gateway, 4)?;
    push(&gateway, 1_000)?;
    for _ in 0..5 {
        ensure!(served(&mut clients)?.iter().all(|budget| *budget == 4_000));
        clients[0].call("houses__list_transactions", json!({}))?;
        clients[0].call("houses__short_note", json!({}))?;
    }
    let mut shadow = Value::Null;
    wait_until("a comparison", || {
        shadow = revision_report(&gateway)?["trial"]["shadow"].clone();
        let answers: u64 =
            shadow.as_array().into_iter().flatten().filter_map(|one| one["answers"].as_u64()).sum();
        Ok(answers >= 25)
    })?;
    let of = |endpoint: &str| {
        let all = shadow.as_array().into_iter().flatten();
        all.clone()
            .find(|one| one["endpoint"] == endpoint)
            .cloned()
            .with_context(|| shadow.to_string())
    };
    let list = of("houses::list_transactions")?;
    ensure!(
        list["candidateTokens"].as_u64() < list["activeTokens"].as_u64() && list["same"] == 0,
        "{list}"
    );
    let note = of("houses::short_note")?;
    ensure!(note["same"] == note["answers"] && note["faults"] == 0, "{note}");
    Ok(())
}

#[test]
fn sampled_sessions_are_recorded() -> Result<()> {
    let gateway = gateway(json!({"unshaped": 100}))?;
    let mut client = sessions(&gateway, 1)?.remove(0);
    let whole = client.call("houses__list_bookings", json!({}))?;
    ensure!(
        whole.metadata().is_null()
            && whole.json()?["bookings"].as_array().map(Vec::len) == Some(500)
    );
    let records: Value = serde_json::from_str(
        &admin_call(&gateway, "GET", "/admin/telemetry?endpoint=houses::list_bookings", b"")?.body,
    )?;
    let record = &records["records"][0];
    ensure!(
        record["originalTokens"].as_u64() > Some(10_000)
            && record["estimatedTokens"].as_u64() <= Some(4_000)
            && record["generation"] == 1,
        "{record}"
    );
    Ok(())
}
