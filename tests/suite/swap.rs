//! User story 3 and hot swap: policy, component and keys change under live traffic.

use context_guard_test_support::answer::Answer;
use context_guard_test_support::audit::wait_for_audit;
use context_guard_test_support::client::Client;
use context_guard_test_support::gateway::{Gateway, HttpClient, get, signal};
use context_guard_test_support::operations::{
    TOKEN, active_revision, admin_call, admin_call_with, admin_config, replace_file,
    revision_report, run_program,
};
use context_guard_test_support::peers::{self, Server};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn houses() -> Result<Value> {
    Ok(
        json!([{"name": "houses", "command": [artifacts::property_server()?], "isolation": "shared"}]),
    )
}

/// Starts a gateway with this policy file.
fn gateway(policy: &Path) -> Result<Gateway> {
    Gateway::start(houses()?, json!({"policy": policy, "admin": admin_config()}))
}

fn open(gateway: &Gateway) -> Result<HttpClient> {
    HttpClient::open(&gateway.url(), &[], json!({}))
}

/// Creates a policy file in its own folder.
fn policy(name: &str, text: &str) -> Result<PathBuf> {
    let path = peers::folder(name)?.join("policy.yaml");
    std::fs::write(&path, text)?;
    Ok(path)
}

/// Returns the ids of the bookings in an answer, in order.
fn bookings(answer: &Answer) -> Result<Vec<Value>> {
    let page = answer.json()?;
    // A page of selected fields has the records alone, under a name of its own.
    let list = page.get("bookings").unwrap_or(&page["items"]);
    let list = list.as_array().with_context(|| answer.0.to_string())?;
    Ok(list.iter().map(|booking| booking["id"].clone()).collect())
}

fn threshold(answer: &Answer) -> f64 {
    // Used and remaining tokens add up to the threshold.
    let of = |name: &str| answer.metadata()[name].as_f64().unwrap_or_default();
    of("estimatedTokens") + of("budgetRemaining")
}

#[test]
fn us3_1_new_limit_applies_without_restart() -> Result<()> {
    let file = policy("us3-1", "tokenBudgetThreshold: 4000\n")?;
    let gateway = gateway(&file)?;
    let mut client = open(&gateway)?;
    ensure!(threshold(&client.call("list_bookings", json!({}))?) == 4_000.0);
    std::fs::write(&file, "tokenBudgetThreshold: 8000\n")?;
    wait_until("a budget of 8000 tokens", || {
        Ok(threshold(&client.call("list_bookings", json!({}))?) == 8_000.0)
    })?;
    ensure!(active_revision(&gateway)? == 2);
    // Written in place, replaced as editors do, and announced by a signal.
    replace_file(&file, b"tokenBudgetThreshold: 6000\n")?;
    wait_until("a budget of 6000 tokens", || {
        Ok(threshold(&client.call("list_bookings", json!({}))?) == 6_000.0)
    })?;
    signal(gateway.process.pid(), "HUP")?;
    std::fs::write(&file, "{tokenBudgetThreshold: 5000}")?;
    wait_until("a budget of 5000 tokens", || {
        Ok(threshold(&client.call("list_bookings", json!({}))?) == 5_000.0)
    })?;
    Ok(())
}

#[test]
fn us3_2_endpoint_flag_affects_one_endpoint() -> Result<()> {
    // Everything fits into these budgets, so only the flag decides about pages.
    let off =
        "tokenBudgetThreshold: 100000\nhardCap: 100000\npagination: false\nsummarization: false\n";
    let file = policy("us3-2", off)?;
    let gateway = gateway(&file)?;
    let mut client = open(&gateway)?;
    for tool in ["list_bookings", "list_transactions"] {
        let whole = client.call(tool, json!({}))?;
        ensure!(whole.next_cursor().is_none(), "{tool}: {}", whole.metadata());
    }
    let on = "endpoints:\n  - match: 'houses::list_bookings'\n    pagination: true\n";
    std::fs::write(&file, format!("{off}{on}"))?;
    wait_until("pages of bookings", || {
        let page = client.call("list_bookings", json!({}))?;
        Ok(page.next_cursor().is_some()
            && page.json()?["bookings"].as_array().map(Vec::len) == Some(200))
    })?;
    let whole = client.call("list_transactions", json!({}))?;
    ensure!(whole.next_cursor().is_none(), "{}", whole.metadata());
    Ok(())
}

#[test]
fn us3_3_defaults_are_safe() -> Result<()> {
    let gateway = Gateway::start(houses()?, json!({}))?;
    let mut client = open(&gateway)?;
    let answer = client.call("list_bookings", json!({}))?;
    ensure!(threshold(&answer) == 4_000.0 && answer.tokens() <= 4_000, "{}", answer.tokens());
    // With one small field, all records fit.
    let page = client.call("list_bookings", json!({"fields": "id"}))?;
    ensure!(bookings(&page)?.len() == 500 && page.tokens() <= 4_000, "{}", page.0);
    let settings =
        std::fs::read_to_string(artifacts::root().join("docs/reference/policy-settings.md"))?;
    for documented in ["| `tokenBudgetThreshold` | `4000` |", "| `defaultPageSize` | `50` |"] {
        ensure!(settings.contains(documented), "{documented} is not documented");
    }
    // Without an admin token nothing can be changed.
    let refused = admin_call(&gateway, "POST", "/admin/reload", b"")?;
    ensure!(refused.status == 403 && refused.body.contains("admin.token"), "{}", refused.body);
    Ok(())
}

#[test]
fn us3_4_invalid_policy_is_rejected() -> Result<()> {
    let file = policy("us3-4", "tokenBudgetThreshold: 4000\n")?;
    let gateway = gateway(&file)?;
    let mut client = open(&gateway)?;
    std::fs::write(
        &file,
        "tokenBudgetThreshold: 4000\nendpoints:\n  - match: a\n    chunksize: 5\n    hardCap: 5\n",
    )?;
    gateway.process.wait_for_output(&["candidate rejected"])?;
    let printed = gateway.process.output();
    for expected in [
        "policy.yaml",
        "line 4: endpoints[0].chunksize: unknown setting `chunksize` (did you mean `chunkSize`?)",
        "line 5: endpoints[0].hardCap",
        "revision 1 continues to serve",
    ] {
        ensure!(printed.contains(expected), "{expected} is not in {printed}");
    }
    for broken in ["tokenBudgetThreshold: [\n", "", "tokenBudgetThreshold: 100\n"] {
        std::fs::write(&file, broken)?;
        let refused = admin_call(&gateway, "POST", "/admin/reload", b"")?;
        ensure!(refused.status == 422, "{broken:?}: {} {}", refused.status, refused.body);
        ensure!(threshold(&client.call("list_bookings", json!({}))?) == 4_000.0);
    }
    ensure!(active_revision(&gateway)? == 1);
    ensure!(
        gateway.get_admin("/metrics")?.1.contains("context_guard_changes_total{event=\"refused\"}")
    );
    // The corrected file is deployed.
    std::fs::write(&file, "tokenBudgetThreshold: 4500\n")?;
    wait_until("the corrected policy", || {
        Ok(threshold(&client.call("list_bookings", json!({}))?) == 4_500.0)
    })?;
    Ok(())
}

#[test]
fn wrap_reloads_policy() -> Result<()> {
    let file = policy("wrap", "tokenBudgetThreshold: 4000\n")?;
    let server = artifacts::property_server()?;
    let arguments = ["--policy", &file.display().to_string(), "--", &server.display().to_string()];
    let mut client = Client::wrap(arguments)?;
    client.open("2025-11-25")?;
    ensure!(threshold(&client.call("list_bookings", json!({}))?) == 4_000.0);
    replace_file(&file, b"tokenBudgetThreshold: 2000\n")?;
    wait_until("a budget of 2000 tokens", || {
        Ok(threshold(&client.call("list_bookings", json!({}))?) == 2_000.0)
    })?;
    Ok(())
}

#[test]
fn replaced_symlink_is_detected() -> Result<()> {
    use std::os::unix::fs::symlink;
    let folder = peers::folder("configmap")?;
    let version = |name: &str, tokens: u32| -> Result<()> {
        std::fs::create_dir(folder.join(name))?;
        Ok(std::fs::write(
            folder.join(name).join("policy.yaml"),
            format!("tokenBudgetThreshold: {tokens}\n"),
        )?)
    };
    version("..one", 4_000)?;
    symlink("..one", folder.join("..data"))?;
    symlink("..data/policy.yaml", folder.join("policy.yaml"))?;
    let gateway = gateway(&folder.join("policy.yaml"))?;
    let mut client = open(&gateway)?;
    for (name, tokens) in [("..two", 7_000), ("..three", 5_000)] {
        version(name, tokens)?;
        symlink(name, folder.join("..data_tmp"))?;
        std::fs::rename(folder.join("..data_tmp"), folder.join("..data"))?;
        wait_until(name, || {
            Ok(threshold(&client.call("list_bookings", json!({}))?) == f64::from(tokens))
        })?;
    }
    Ok(())
}

#[test]
fn environment_overrides_reloaded_policy() -> Result<()> {
    let file = policy("override", "tokenBudgetThreshold: 4000\nhardCap: 12000\n")?;
    let gateway = Gateway::start_with(
        houses()?,
        json!({"policy": file, "admin": admin_config()}),
        &[("CONTEXT_GUARD__POLICY__TOKEN_BUDGET_THRESHOLD", "3000")],
    )?;
    let mut client = open(&gateway)?;
    ensure!(threshold(&client.call("list_bookings", json!({}))?) == 3_000.0);
    std::fs::write(&file, "tokenBudgetThreshold: 9000\ndefaultPageSize: 3\n")?;
    wait_until("pages of three", || {
        Ok(client.call("list_bookings", json!({}))?.json()?["bookings"].as_array().map(Vec::len)
            == Some(3))
    })?;
    ensure!(threshold(&client.call("list_bookings", json!({}))?) == 3_000.0);
    Ok(())
}

#[test]
fn cursors_survive_component_swap() -> Result<()> {
    let folder = peers::folder("component")?;
    let (file, policy) = (folder.join("guard.wasm"), folder.join("policy.yaml"));
    std::fs::copy(artifacts::component()?, &file)?;
    std::fs::write(&policy, "tokenBudgetThreshold: 4000\n")?;
    let gateway = Gateway::start(
        houses()?,
        json!({"component": {"file": file}, "policy": policy, "admin": admin_config(), "audit": {"folder": folder.join("audit")}}),
    )?;
    let component_of = |number: u64| -> Result<Value> {
        let report = revision_report(&gateway)?;
        let all = report["generations"].as_array().into_iter().flatten();
        let mut found =
            all.filter(|one| one["generation"] == number).map(|one| one["component"].clone());
        found.next_back().filter(|digest| !digest.is_null()).with_context(|| report.to_string())
    };
    let mut client = open(&gateway)?;
    let cursor =
        client.call("list_bookings", json!({"limit": 20}))?.next_cursor().context("no cursor")?;
    // Other bytes, the same behaviour.
    replace_file(&file, &std::fs::read(artifacts::other_component()?)?)?;
    wait_until("the new component", || Ok(active_revision(&gateway)? == 2))?;
    let after = client.call("context_guard_read", json!({"cursor": cursor, "fields": "all"}))?;
    ensure!(!after.is_error() && after.json()?["bookings"][0]["id"].is_string(), "{}", after.0);
    let later =
        client.call("list_bookings", json!({"limit": 20}))?.next_cursor().context("no cursor")?;
    let back = run_program(&[
        "generations",
        "--config",
        &config(&gateway),
        "--admin",
        &gateway.admin,
        "--token",
        TOKEN,
        "rollback",
    ])?;
    ensure!(back.status.success(), "{}", String::from_utf8_lossy(&back.stderr));
    ensure!(active_revision(&gateway)? == 1);
    let read = client.call("context_guard_read", json!({"cursor": later}))?;
    ensure!(!read.is_error(), "{}", read.0);
    // The watcher reads all files when one changes. It must not deploy the rolled-back component
    // again; a reload on request must.
    replace_file(&policy, b"tokenBudgetThreshold: 5000\n")?;
    wait_until("the new policy", || Ok(active_revision(&gateway)? == 3))?;
    ensure!(component_of(3)? == component_of(1)? && component_of(3)? != component_of(2)?);
    let again =
        run_program(&["generations", "--admin", &gateway.admin, "--token", TOKEN, "reload"])?;
    ensure!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    ensure!(active_revision(&gateway)? == 4 && component_of(4)? == component_of(2)?);
    let table = run_program(&["generations", "--admin", &gateway.admin, "--token", TOKEN])?;
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    for shown in ["active", "rolled back", "guard.wasm", "standby"] {
        ensure!(table.contains(shown), "{shown} is not in {table}");
    }
    let expected = ["\"event\":\"change\"", "rolled_back", "component"];
    wait_for_audit(&folder.join("audit"), &expected)?;
    Ok(())
}

fn config(gateway: &Gateway) -> String {
    gateway.folder.join("gateway.json").display().to_string()
}

#[test]
fn checksum_or_signature_is_required() -> Result<()> {
    let folder = peers::folder("trust")?;
    let file = folder.join("guard.wasm");
    let minisign = |arguments: &[&str]| -> Result<()> {
        let output = Command::new("minisign").current_dir(&folder).args(arguments).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    minisign(&["-G", "-W", "-p", "key.pub", "-s", "key.sec"])?;
    minisign(&["-G", "-W", "-p", "other.pub", "-s", "other.sec"])?;
    std::fs::copy(artifacts::component()?, &file)?;
    minisign(&["-S", "-W", "-s", "key.sec", "-m", "guard.wasm"])?;
    let public = std::fs::read_to_string(folder.join("key.pub"))?;
    let public = public.lines().last().context("no key")?;
    let component = json!({"file": file, "require": "signature", "publicKeys": [public]});
    let gateway =
        Gateway::start(houses()?, json!({"component": component, "admin": admin_config()}))?;
    let other = std::fs::read(artifacts::other_component()?)?;
    replace_file(&file, &other)?;
    gateway.process.wait_for_output(&["signature does not match"])?;
    minisign(&["-S", "-W", "-s", "other.sec", "-m", "guard.wasm"])?;
    ensure!(admin_call(&gateway, "POST", "/admin/reload", b"")?.status == 422);
    ensure!(active_revision(&gateway)? == 1);
    let pushed = admin_call(&gateway, "PUT", "/admin/component", &other)?;
    ensure!(pushed.status == 422 && pushed.body.contains("signature"), "{}", pushed.body);
    minisign(&["-S", "-W", "-s", "key.sec", "-m", "guard.wasm"])?;
    wait_until("the signed component", || Ok(active_revision(&gateway)? == 2))?;
    drop(gateway);
    let sum = |bytes: &[u8]| -> Result<String> {
        std::fs::write(folder.join("sum-of"), bytes)?;
        let output = Command::new("sha256sum").current_dir(&folder).arg("sum-of").output()?;
        Ok(String::from_utf8(output.stdout)?)
    };
    let first = std::fs::read(artifacts::component()?)?;
    std::fs::write(&file, &first)?;
    std::fs::write(folder.join("guard.wasm.sha256"), sum(&first)?)?;
    let component = json!({"file": file, "require": "checksum"});
    let gateway =
        Gateway::start(houses()?, json!({"component": component, "admin": admin_config()}))?;
    replace_file(&file, &other)?;
    gateway.process.wait_for_output(&["SHA-256"])?;
    std::fs::write(folder.join("guard.wasm.sha256"), sum(&other)?)?;
    wait_until("the checked component", || Ok(active_revision(&gateway)? == 2))?;
    Ok(())
}

#[test]
fn failed_self_test_rejects_component() -> Result<()> {
    let gateway = Gateway::start(houses()?, json!({"admin": admin_config()}))?;
    let mut client = open(&gateway)?;
    let bad = super::hostile::modules()?;
    for (fault, bytes) in bad {
        let refused = admin_call(&gateway, "PUT", "/admin/component", &bytes)?;
        ensure!(refused.status == 422, "{fault}: {} {}", refused.status, refused.body);
        ensure!(client.call("list_bookings", json!({}))?.metadata()["kind"] == "page", "{fault}");
    }
    for (bytes, expected) in [
        (&b"no component"[..], "invalid guard component"),
        (&wat::parse_str("(component)")?[..], "invalid guard component"),
    ] {
        let refused = admin_call(&gateway, "PUT", "/admin/component", bytes)?;
        ensure!(refused.status == 422 && refused.body.contains(expected), "{}", refused.body);
    }
    ensure!(active_revision(&gateway)? == 1);
    Ok(())
}

#[test]
fn failing_component_is_rolled_back() -> Result<()> {
    let everything = Server::npm("server-everything", &["stdio"])?;
    let upstreams = json!([{"name": "everything", "command": everything.0, "isolation": "shared"}]);
    for fault in ["trap", "garbage", "id", "memory", "loop"] {
        let gateway = Gateway::start(
            upstreams.clone(),
            // A loop runs into this deadline on every call until it is rolled back.
            json!({"admin": admin_config(), "component": {"deadlineMs": 1_000}}),
        )?;
        let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
        let swapped = admin_call(
            &gateway,
            "PUT",
            "/admin/component",
            &std::fs::read(artifacts::faulty_component()?)?,
        )?;
        ensure!(swapped.status == 200, "{}", swapped.body);
        // Ordinary calls work in the faulty revision.
        let healthy = client.call("echo", json!({"message": "hello"}))?;
        ensure!(healthy.texts()[0].contains("hello"), "{}", healthy.0);
        let long: String = (0..4_000).map(|at| format!("line {at} of a text\n")).collect();
        for call in 0..4 {
            let answer =
                client.call("echo", json!({"message": format!("inject-fault:{fault}\n{long}")}))?;
            // The healthy revision shaped the answer. The byte limit's fallback would not lead to
            // the whole.
            let contract = answer.metadata();
            ensure!(
                contract["kind"] == "chunk" && answer.next_cursor().is_some(),
                "{fault} {call}: {}",
                answer.0
            );
        }
        wait_until("a rollback", || Ok(active_revision(&gateway)? == 1))?;
        let state = revision_report(&gateway)?["generations"][0]["state"].clone();
        ensure!(state == "rolled back", "{fault}: {state}");
        gateway.process.wait_for_output(&["revision 2 was rolled back"])?;
    }
    Ok(())
}

#[test]
fn keys_rotate_without_a_restart() -> Result<()> {
    let folder = peers::folder("rotation")?;
    let (first, second) = (folder.join("first"), folder.join("second"));
    std::fs::write(&first, "the first key of this test\n")?;
    std::fs::write(&second, "the second key of this test\n")?;
    let keys = json!([
        format!("${{file:{}}}", first.display()),
        format!("${{file:{}}}", second.display())
    ]);
    let gateway = Gateway::start(
        houses()?,
        json!({"signingKeys": keys, "admin": admin_config(), "audit": {"folder": folder.join("audit")}}),
    )?;
    let mut client = open(&gateway)?;
    let page = |client: &mut HttpClient| -> Result<String> {
        client.call("list_bookings", json!({"limit": 5}))?.next_cursor().context("no cursor")
    };
    let old = page(&mut client)?;
    // The new key signs; the previous one still verifies.
    std::fs::write(&second, std::fs::read(&first)?)?;
    std::fs::write(&first, "a new key of this test\n")?;
    let audit = wait_for_audit(&folder.join("audit"), &["signingKeys"])?;
    ensure!(!audit.contains("key of this test"), "{audit}");
    let mut new = page(&mut client)?;
    wait_until("cursors of the new key", || {
        new = page(&mut client)?;
        Ok(new != old)
    })?;
    for cursor in [&old, &new] {
        ensure!(!client.call("context_guard_read", json!({"cursor": cursor}))?.is_error());
    }
    // The old key was removed too early: it verifies until its cursors have expired.
    std::fs::write(&second, "another key of this test\n")?;
    gateway.process.wait_for_output(&["a signing key was removed"])?;
    ensure!(!client.call("context_guard_read", json!({"cursor": old}))?.is_error());
    let shown = run_program(&["revisions", "--admin", &gateway.admin, "--token", TOKEN])?;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    ensure!(shown.contains("still verifies cursors"), "{shown}");
    // A setting revokes it at once.
    let file = gateway.folder.join("gateway.json");
    let mut settings: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    settings["keepDroppedKeys"] = json!(false);
    replace_file(&file, settings.to_string().as_bytes())?;
    wait_until("the end of the old key", || {
        let old = client.call("context_guard_read", json!({"cursor": old}))?;
        Ok(old.is_error() && old.all_texts()[0].contains("cursor_invalid"))
    })?;
    std::fs::write(&first, "short\n")?;
    gateway.process.wait_for_output(&["the current keys remain in use"])?;
    let last = page(&mut client)?;
    ensure!(!client.call("context_guard_read", json!({"cursor": last}))?.is_error());
    Ok(())
}

#[test]
fn admin_pushes_policy() -> Result<()> {
    let gateway = Gateway::start(houses()?, json!({"admin": admin_config()}))?;
    let mut client = open(&gateway)?;
    let yaml = [("content-type", "application/yaml")];
    let pushed =
        admin_call_with(&gateway, "PUT", "/admin/policy", b"tokenBudgetThreshold: 5000\n", &yaml)?;
    ensure!(pushed.status == 200 && pushed.body.contains("\"generation\":2"), "{}", pushed.body);
    ensure!(threshold(&client.call("list_bookings", json!({}))?) == 5_000.0);
    let form = [("content-type", "application/x-www-form-urlencoded")];
    for same in [
        "tokenBudgetThreshold: 5000\n",
        "tokenBudgetThreshold = 5000\n",
        "{\"tokenBudgetThreshold\": 5000}",
    ] {
        // curl sends this content type for any file.
        let same = admin_call_with(&gateway, "PUT", "/admin/policy", same.as_bytes(), &form)?;
        ensure!(same.status == 200 && same.body.contains("\"changed\":false"), "{}", same.body);
    }
    let wrong = admin_call_with(
        &gateway,
        "PUT",
        "/admin/policy",
        b"a: 1\ntokenBudgetTreshold: 5\n",
        &yaml,
    )?;
    ensure!(
        wrong.status == 422
            && wrong.body.contains("line 2: tokenBudgetTreshold")
            && wrong.body.contains("did you mean"),
        "{}",
        wrong.body
    );
    let stranger =
        get(&format!("{}/admin/generations", gateway.admin), &[("authorization", "Bearer wrong")])?;
    ensure!(stranger.status == 401, "{}", stranger.status);
    Ok(())
}

/// `cargo xtask bench swap` makes a thousand swaps. Here fewer are enough to detect a disturbance.
#[test]
fn swaps_do_not_disturb_clients() -> Result<()> {
    const SWAPS: u64 = 40;
    let gateway = Gateway::start(houses()?, json!({"admin": admin_config()}))?;
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let walk = || -> Result<()> {
        let mut client = open(&gateway)?;
        while !stop.load(Ordering::Relaxed) {
            let mut answer = client.call("list_bookings", json!({"limit": 40, "fields": "all"}))?;
            let mut ids = Vec::new();
            loop {
                ensure!(!answer.is_error(), "{}", answer.0);
                ids.extend(bookings(&answer)?);
                calls.fetch_add(1, Ordering::Relaxed);
                let Some(cursor) = answer.next_cursor() else { break };
                answer = client
                    .call("context_guard_read", json!({"cursor": cursor, "fields": "all"}))?;
            }
            // Each booking once, in order: a swap neither repeats nor skips one.
            let all: Vec<Value> = (0..500).map(|at| format!("BK-{at:04}").into()).collect();
            ensure!(ids == all, "{} bookings: {ids:?}", ids.len());
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(walk)).collect();
        let swapping = || -> Result<()> {
            let components =
                [artifacts::other_component()?, artifacts::component()?].map(std::fs::read);
            let [one, two] = components;
            let components = [one?, two?];
            for swap in 0..SWAPS {
                let policy = json!({"tokenBudgetThreshold": 4_000 + swap}).to_string();
                let reply = if swap.is_multiple_of(2) {
                    admin_call(&gateway, "PUT", "/admin/policy", policy.as_bytes())?
                } else {
                    admin_call(
                        &gateway,
                        "PUT",
                        "/admin/component",
                        &components[usize::from(swap % 4 == 1)],
                    )?
                };
                ensure!(reply.status == 200, "{}", reply.body);
            }
            Ok(())
        };
        let swapped = swapping();
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            match client.join() {
                Ok(walked) => walked?,
                Err(_) => context_guard_test_support::bail!("a client panicked"),
            }
        }
        swapped
    })?;
    ensure!(active_revision(&gateway)? > SWAPS / 2, "{}", active_revision(&gateway)?);
    ensure!(calls.load(Ordering::Relaxed) > 100, "{} calls", calls.load(Ordering::Relaxed));
    Ok(())
}
