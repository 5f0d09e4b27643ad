//! Policy commands, dry runs and the response cache.

use context_guard::clock::SystemClock;
use context_guard::engine::{Component, Engine, EngineOptions, HostServices};
use context_guard::policy::{self, Source};
use context_guard::store::NoStore;
use context_guard_core::policy::compile;
use context_guard_test_support::audit::audit_text;
use context_guard_test_support::gateway::{ConformanceServer, Gateway, HttpClient};
use context_guard_test_support::operations::{admin_call, admin_config, run_program};
use context_guard_test_support::peers::{self, Server};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn policy_check_reports_every_error() -> Result<()> {
    let folder = peers::folder("check")?;
    let at = |name: &str| folder.join(name).display().to_string();
    std::fs::write(
        folder.join("bad.yaml"),
        "tokenBudgetTreshold: 4000\nhardCap: 100\nadvertise: compct\nendpoints:\n  - match: 'list_*'\n    defaultPageSize: 900\n  - chunkSize: 5\n  - match: x\n    cursorTtl: 700\n",
    )?;
    let checked = run_program(&["policy", "check", &at("bad.yaml")])?;
    let printed = String::from_utf8_lossy(&checked.stderr).into_owned();
    ensure!(checked.status.code() == Some(3), "{printed}");
    for expected in [
        "line 1: tokenBudgetTreshold: unknown setting `tokenBudgetTreshold` (did you mean `tokenBudgetThreshold`?)",
        "line 2: hardCap: 100 is below",
        "line 3: advertise: unknown value `compct` (did you mean `compact`?)",
        "line 6: endpoints[0].defaultPageSize: 900 exceeds maxPageSize, 200",
        "endpoints[1].match: missing",
        "line 9: endpoints[2].cursorTtl: applies to all endpoints",
    ] {
        ensure!(printed.contains(expected), "{expected} is not in {printed}");
    }
    let machine = run_program(&["policy", "check", "--json", &at("bad.yaml")])?;
    let report: Value = serde_json::from_str(&out(&machine))?;
    ensure!(
        machine.status.code() == Some(3)
            && report["valid"] == false
            && report["issues"][0]["line"] == 1,
        "{report}"
    );
    std::fs::write(
        folder.join("good.toml"),
        "hardCap = 9000\n[[endpoints]]\nmatch = 'a'\nchunkSize = 5\n",
    )?;
    let good = run_program(&["policy", "check", &at("good.toml")])?;
    ensure!(good.status.success() && out(&good).contains(": valid"), "{}", out(&good));
    ensure!(run_program(&["policy", "check", &at("none.yaml")])?.status.code() == Some(3));
    Ok(())
}

#[test]
fn policy_explain_names_sources() -> Result<()> {
    let folder = peers::folder("explain")?;
    let file = folder.join("policy.yaml");
    std::fs::write(
        &file,
        "tokenBudgetThreshold: 6000\nendpoints:\n  - match: 'GET /bookings*'\n    defaultPageSize: 20\n  - match: 'crm::list_users'\n    defaultPageSize: 10\n",
    )?;
    let explained = run_program(&[
        "policy",
        "explain",
        &file.display().to_string(),
        "--endpoint",
        "GET /bookings/open",
        "--set",
    ])?;
    let table = out(&explained);
    ensure!(
        table.contains("endpoints[0] `GET /bookings*`, line 4")
            && table.contains("6000")
            && table.contains("top of the policy, line 1"),
        "{table}"
    );
    ensure!(!table.contains("chunkSize"), "{table}");
    let machine = run_program(&[
        "policy",
        "explain",
        &file.display().to_string(),
        "--endpoint",
        "crm::list_users",
        "--json",
    ])?;
    let explained: Value = serde_json::from_str(&out(&machine))?;
    ensure!(
        explained["defaultPageSize"]
            == json!({"value": 10, "from": "endpoints[1] `crm::list_users`, line 6"}),
        "{explained}"
    );
    ensure!(explained["chunkSize"] == json!({"value": 200, "from": "default"}), "{explained}");
    Ok(())
}

/// The host computes the explanation, the guard applies the policy. Both must agree on every
/// setting and rule.
#[test]
fn explanation_matches_guard() -> Result<()> {
    let rules = json!([
        {"match": "crm::*", "tokenBudgetThreshold": 3000, "chunkSize": 50, "fields": ["id"]},
        {"match": "list_users", "defaultPageSize": 7, "estimator": {"scale": 1.5}},
        {"match": "list_*", "defaultPageSize": 20, "maxPageSize": 100, "compact": true},
        {"match": "crm::list_users", "fields": [], "cursorMode": "replay"},
        {"match": "GET /a?c", "previewChars": 50, "keywords": ["x"], "strip": ["nulls"]},
    ]);
    let document = json!({"hardCap": 9000, "estimator": {"method": "chars4"}, "endpoints": rules});
    let text = document.to_string();
    let source = Source::parse(Path::new("policy.json"), text.clone())?;
    let compiled = compile(&text)
        .map_err(|issues| context_guard_test_support::Error::msg(format!("{issues:?}")))?;
    for (upstream, name) in [
        ("crm", "list_users"),
        ("crm", "get"),
        ("", "list_users"),
        ("x", "list_rooms"),
        ("", "GET /abc"),
        ("", "other"),
    ] {
        let limits = compiled.policy.settings_for(upstream, name);
        let endpoint =
            if upstream.is_empty() { name.to_owned() } else { format!("{upstream}::{name}") };
        let explained = policy::explain(&source, &endpoint);
        let explained = |setting: &str| {
            explained
                .iter()
                .find(|one| one.setting == setting)
                .map_or(Value::Null, |one| one.value.clone())
        };
        for (setting, applied) in [
            ("tokenBudgetThreshold", json!(limits.threshold)),
            ("hardCap", json!(limits.hard_cap)),
            ("defaultPageSize", json!(limits.default_page_size)),
            ("maxPageSize", json!(limits.max_page_size)),
            ("chunkSize", json!(limits.chunk_size)),
            ("compact", json!(limits.compact)),
            ("cursorMode", json!(limits.cursor_mode)),
            ("previewChars", json!(limits.preview_chars)),
            ("keywords", json!(limits.keywords)),
            ("strip", json!(limits.strip)),
            ("estimator.method", json!(limits.estimator.method)),
            ("estimator.scale", json!(limits.estimator.scale)),
        ] {
            ensure!(
                explained(setting) == applied,
                "{endpoint}, {setting}: {} is explained, {applied} applies",
                explained(setting)
            );
        }
        ensure!(explained("fields").is_null() == limits.fields.is_none(), "{endpoint}: fields");
    }
    Ok(())
}

#[test]
fn policy_diff_reports_differences() -> Result<()> {
    let folder = peers::folder("diff")?;
    let (old, new) = (folder.join("old.yaml"), folder.join("new.toml"));
    std::fs::write(&old, "hardCap: 9000\nendpoints:\n  - {match: a, chunkSize: 5}\n")?;
    std::fs::write(&new, "hardCap = 8000\n[[endpoints]]\nmatch = 'a'\nchunkSize = 7\n")?;
    let (old, new) = (old.display().to_string(), new.display().to_string());
    let differs = run_program(&["policy", "diff", &old, &new])?;
    let table = out(&differs);
    ensure!(
        differs.status.code() == Some(1)
            && table.contains("endpoints[a].chunkSize")
            && table.contains("8000"),
        "{table}"
    );
    let same = run_program(&["policy", "diff", &old, &old])?;
    ensure!(same.status.success() && out(&same).contains("no differences"));
    let applied = run_program(&["policy", "diff", &old, &new, "--endpoint", "b", "--json"])?;
    let applied: Value = serde_json::from_str(&out(&applied))?;
    ensure!(applied == json!([{"path": "hardCap", "old": 9000, "new": 8000}]), "{applied}");
    Ok(())
}

#[test]
fn published_schema_matches_component() -> Result<()> {
    let component = Component::load(
        &Engine::new(EngineOptions::default())?,
        &std::fs::read(artifacts::component()?)?,
    )?;
    let services = HostServices { store: Arc::new(NoStore), clock: Arc::new(SystemClock) };
    let described = component.describe(&services)?;
    ensure!(described.policy_schema_digest == context_guard_core::policy::schema_digest());
    ensure!(policy::SCHEMA == context_guard_core::policy::SCHEMA);
    Ok(())
}

fn houses() -> Result<Value> {
    Ok(
        json!([{"name": "houses", "command": [artifacts::property_server()?], "isolation": "shared"}]),
    )
}

#[test]
fn original_answers_count_once() -> Result<()> {
    let everything = Server::npm("server-everything", &["stdio"])?.0;
    let upstreams = json!([
        houses()?[0],
        {"name": "everything", "command": everything, "isolation": "shared"},
    ]);
    let policy = json!({"endpoints": [{"match": "houses::short_note", "shape": false}]});
    let gateway = Gateway::start(upstreams, json!({"policy": policy}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let first = client.call("houses__list_bookings", json!({}))?;
    let mut sent = first.metadata()["estimatedTokens"].as_u64().context("no estimate")?;
    let original = first.metadata()["originalTokens"].as_u64();
    let mut cursor = first.next_cursor();
    for _ in 0..2 {
        let page = client
            .call("context_guard_read", json!({"cursor": cursor.context("no further page")?}))?;
        sent += page.metadata()["estimatedTokens"].as_u64().context("no estimate")?;
        cursor = page.next_cursor();
    }
    client.call("houses__short_note", json!({}))?;
    let (_, text) = gateway.get_admin("/metrics")?;
    let sum = |labels: &[&str]| -> u64 {
        let lines = text.lines().filter(|line| line.starts_with("context_guard_tokens_total{"));
        let lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    let tool = ["upstream=\"houses\"", "tool=\"list_bookings\""];
    let of = |kind: &str, side: &str| {
        let (kind, side) = (format!("kind=\"{kind}\""), format!("side=\"{side}\""));
        sum(&[tool[0], tool[1], &kind, &side])
    };
    ensure!(Some(of("call", "original")) == original, "{original:?}: {text}");
    ensure!(of("call", "sent") + of("read", "sent") == sent, "{sent}: {text}");
    ensure!(of("read", "original") == 0, "{text}");
    ensure!(!text.contains("upstream=\"\",tool=\"list_bookings\""), "{text}");
    // Calls that are not shaped are recorded under their tool, with tokens.
    ensure!(sum(&["tool=\"short_note\"", "side=\"sent\""]) > 0, "{text}");
    let (_, records) = gateway.get_admin("/admin/telemetry?endpoint=houses::*")?;
    let records: Value = serde_json::from_str(&records)?;
    let kinds: Vec<&str> = records["records"]
        .as_array()
        .context("no records")?
        .iter()
        .filter(|record| record["endpoint"] == "houses::list_bookings")
        .filter_map(|record| record["kind"].as_str())
        .collect();
    ensure!(kinds == ["read", "read", "call"], "{records}");
    Ok(())
}

#[test]
fn dry_run_compares_policies() -> Result<()> {
    let folder = peers::folder("dry-run")?;
    let (traffic, new) = (folder.join("traffic.jsonl"), folder.join("new.yaml"));
    let recording = json!({"file": traffic, "redact": ["guest"], "redactPatterns": ["Lovelace"]});
    let gateway = Gateway::start(houses()?, json!({"recording": recording}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    for tool in [
        "list_bookings",
        "list_transactions",
        "get_booking",
        "read_log",
        "short_note",
        "list_listings",
    ] {
        ensure!(!client.call(tool, json!({}))?.is_error());
    }
    let mut text = String::new();
    wait_until("six exchanges", || {
        text = std::fs::read_to_string(&traffic)?;
        Ok(text.lines().filter(|line| line.contains("tools/call")).count() == 6)
    })?;
    for gone in ["Lovelace", "Hopper", "\\\"guest\\\":\\\"A"] {
        ensure!(!text.contains(gone), "{gone} is in the recording");
    }
    ensure!(text.contains("[redacted]") && text.contains("BK-0001") && !text.contains("anonymous"));
    let traffic = traffic.display().to_string();
    std::fs::write(&new, "tokenBudgetThreshold: 1500\n")?;
    let new = new.display().to_string();
    let compared = run_program(&["replay", &traffic, "--policy", &new])?;
    let table = out(&compared);
    ensure!(compared.status.success(), "{table} {}", String::from_utf8_lossy(&compared.stderr));
    for shown in ["houses::list_bookings", "houses::read_log", "| all", "recall after"] {
        ensure!(table.contains(shown), "{shown} is not in {table}");
    }
    let report: Value = serde_json::from_str(&out(&run_program(&[
        "replay", &traffic, "--policy", &new, "--json",
    ])?))?;
    let total = &report["report"]["total"];
    let tokens = |side: &str| total[side]["tokens"].as_u64().unwrap_or_default();
    ensure!(
        tokens("after") < tokens("before")
            && tokens("before") < total["original"].as_u64().unwrap_or_default(),
        "{total}"
    );
    let rows = report["report"]["endpoints"].as_array().context("no rows")?;
    ensure!(rows.iter().all(|row| row["after"]["largest"].as_u64() <= Some(1_500)), "{rows:?}");
    // Limits fail the command in CI, and name each endpoint above its limit.
    let fewer = folder.join("fewer.yaml");
    std::fs::write(&fewer, "defaultPageSize: 5\n")?;
    let fewer = fewer.display().to_string();
    for (policy, limit, value, expected) in [
        (&new, "--max-tokens", "1000", "has"),
        (&fewer, "--max-recall-loss", "0.01", "recall of key facts falls by"),
    ] {
        let past = run_program(&["replay", &traffic, "--policy", policy, limit, value])?;
        ensure!(
            past.status.code() == Some(5)
                && out(&past).contains("limit exceeded")
                && out(&past).contains(expected),
            "{limit}: {}",
            out(&past)
        );
    }
    // The same policy on both sides loses nothing, although a page has few of the key facts.
    let unchanged =
        ["--before", &new, "--policy", &new, "--max-growth", "0", "--max-recall-loss", "0"];
    let unchanged = run_program(&[["replay", &traffic].as_slice(), &unchanged].concat())?;
    ensure!(unchanged.status.success(), "{}", out(&unchanged));
    let bookings = rows.iter().find(|row| row["endpoint"] == "houses::list_bookings");
    let bookings = &bookings.context("no bookings")?["after"];
    ensure!(
        bookings["needles"].as_u64() > Some(0)
            && bookings["reachableNeedles"].as_u64() > bookings["needles"].as_u64(),
        "{bookings}"
    );
    let grown = run_program(&["replay", &traffic, "--before", &new, "--max-growth", "10"])?;
    ensure!(out(&grown).contains("worst results"), "{}", out(&grown));
    ensure!(
        grown.status.code() == Some(5) && out(&grown).contains("answers grow by"),
        "{}",
        out(&grown)
    );
    let faulty = run_program(&[
        "replay",
        &traffic,
        "--component",
        &artifacts::other_component()?.display().to_string(),
        "--max-growth",
        "0",
    ])?;
    ensure!(faulty.status.success(), "the same code gives a different result: {}", out(&faulty));
    std::fs::write(folder.join("broken.jsonl"), "{}\n")?;
    let broken = run_program(&["replay", &folder.join("broken.jsonl").display().to_string()])?;
    ensure!(
        broken.status.code() == Some(3)
            && String::from_utf8_lossy(&broken.stderr).contains("line 1")
    );
    Ok(())
}

#[test]
fn cache_stores_and_invalidates() -> Result<()> {
    let folder = peers::folder("cache")?;
    let file = folder.join("a.txt");
    std::fs::write(&file, "one\n")?;
    let files = Server::npm("server-filesystem", &[&folder.display().to_string()])?;
    let upstreams = json!([
        {"name": "files", "command": files.0, "isolation": "shared"},
        {"name": "houses", "command": [artifacts::property_server()?], "isolation": "shared"},
        ConformanceServer::stdio("fixture", json!({"isolation": "shared"}))?,
    ]);
    let policy = json!({"endpoints": [{"match": "fixture::test_simple_text", "readOnly": true}]});
    let audit = folder.join("audit");
    let more = json!({
        "admin": admin_config(),
        "cache": {"bytes": 500_000},
        "policy": policy,
        "audit": {"folder": audit, "required": true},
    });
    let gateway = Gateway::start(upstreams, more)?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let path = json!({"path": file.display().to_string()});
    let read = |client: &mut HttpClient| -> Result<String> {
        Ok(client.call("files__read_text_file", path.clone())?.texts().concat())
    };
    ensure!(read(&mut client)?.contains("one"));
    std::fs::write(&file, "two\n")?;
    ensure!(read(&mut client)?.contains("one"), "the answer was not cached");
    // Another session of the same principal gets the cached answer under its own request ids.
    let mut other = HttpClient::open(&gateway.url(), &[], json!({}))?;
    ensure!(other.request("ping", json!({})).is_ok() && read(&mut other)?.contains("one"));
    // Other credentials are another principal, even if the gateway requires no authentication.
    let bearer = [("authorization", "Bearer of somebody else")];
    let mut stranger = HttpClient::open(&gateway.url(), &bearer, json!({}))?;
    ensure!(read(&mut stranger)?.contains("two"), "another's answer was given");
    let purge = |body: Value| -> Result<Value> {
        let reply =
            admin_call(&gateway, "POST", "/admin/cache/purge", body.to_string().as_bytes())?;
        ensure!(reply.status == 200, "{}", reply.body);
        Ok(serde_json::from_str(&reply.body)?)
    };
    ensure!(purge(json!({"tool": "houses::*"}))?["purged"] == 0);
    ensure!(purge(json!({"tool": "files::read_*"}))?["purged"] == 2);
    let audited = audit_text(&audit)?;
    ensure!(audited.contains("2 answers removed by") && audited.contains("files::read_*"));
    ensure!(read(&mut client)?.contains("two"));
    // Tools that are not read-only are called each time.
    let write = json!({"path": folder.join("b.txt").display().to_string(), "content": "x"});
    for _ in 0..2 {
        ensure!(!client.call("files__write_file", write.clone())?.is_error());
        std::fs::remove_file(folder.join("b.txt")).context("the file was not written")?;
    }
    // All renderings of one answer share one cache entry, and expire with it.
    client.call("houses__list_bookings", json!({}))?;
    for mode in ["ids_only", "metadata", "full"] {
        let rendered = client.call("houses__list_bookings", json!({"response_mode": mode}))?;
        ensure!(!rendered.is_error(), "{}", rendered.0);
    }
    let metrics = gateway.get_admin("/metrics")?.1;
    for line in [
        "cache_lookups_total{tier=\"full\",hit=\"true\"}",
        "cache_lookups_total{tier=\"metadata\",hit=\"true\"}",
        "cache_lookups_total{tier=\"full\",hit=\"false\"}",
    ] {
        ensure!(metrics.contains(line), "{line} is not in {metrics}");
    }
    ensure!(purge(json!({"document": "BK-0001"}))?["purged"].as_u64() >= Some(1));
    let records = admin_call(
        &gateway,
        "GET",
        "/admin/telemetry?endpoint=files::read_text_file&limit=10",
        b"",
    )?
    .body;
    ensure!(
        records.contains("\"cache\":\"full\"") && records.contains("\"cache\":\"\""),
        "{records}"
    );
    // If the upstream announces that its tools changed, its cached answers are dropped.
    let entries = || -> Result<Value> {
        let explained: Value =
            serde_json::from_str(&admin_call(&gateway, "GET", "/admin/cache", b"")?.body)?;
        Ok(explained["entries"].clone())
    };
    let before = entries()?.as_u64().context("no number")?;
    for _ in 0..2 {
        ensure!(!client.call("fixture__test_simple_text", json!({}))?.is_error());
    }
    ensure!(entries()? == before + 1);
    ensure!(!client.call("fixture__test_trigger_tool_change", json!({}))?.is_error());
    wait_until("an invalidated cache", || Ok(entries()? == before))?;
    ensure!(purge(json!({}))?["entries"] == 0);
    Ok(())
}
