//! Programs over tools and stored answers: `context_guard_run` through the gateway.

use context_guard_test_support::answer::{Answer, o200k};
use context_guard_test_support::audit::audit_entries;
use context_guard_test_support::client::Client;
use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::operations::admin_config;
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure, peers};
use serde_json::{Value, json};

use crate::access::key;

const RUN: &str = "context_guard_run";

fn houses() -> Result<Value> {
    Ok(json!({"name": "houses", "command": [artifacts::property_server()?]}))
}

/// Returns an upstream whose tools return their arguments, with these definitions. It never answers
/// calls if `hangs`.
fn echo(name: &str, tools: &Value, hangs: bool) -> Result<Value> {
    let folder = peers::folder(&format!("programs-{name}"))?;
    let file = folder.join("tools.json");
    std::fs::write(&file, tools.to_string())?;
    let script = artifacts::root().join("tests/support/servers/catalogue.py");
    let mut command = vec![json!("python3"), json!(script), json!(file)];
    command.extend(hangs.then(|| json!("--hang")));
    Ok(json!({"name": name, "command": command}))
}

fn tool(name: &str, read_only: bool) -> Value {
    let hints = json!({"readOnlyHint": read_only});
    json!({"name": name, "inputSchema": {"type": "object"}, "annotations": hints})
}

fn start(upstreams: &[Value], more: Value) -> Result<(Gateway, HttpClient)> {
    let mut settings = json!({"code": {"enabled": true}});
    if let (Some(settings), Value::Object(more)) = (settings.as_object_mut(), more) {
        settings.extend(more);
    }
    let gateway = Gateway::start(upstreams.into(), settings)?;
    let client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    Ok((gateway, client))
}

fn run(client: &mut HttpClient, code: &str) -> Result<Answer> {
    client.call(RUN, json!({"code": code}))
}

/// Returns the value of a program, which must be JSON.
fn value(client: &mut HttpClient, code: &str) -> Result<Value> {
    let answer = run(client, code)?;
    let text = answer.all_texts().concat();
    ensure!(!answer.is_error(), "{code}: {text}");
    serde_json::from_str(&text).with_context(|| text.clone())
}

/// Returns the error of a program.
fn error(client: &mut HttpClient, code: &str) -> Result<String> {
    let answer = run(client, code)?;
    let text = answer.all_texts().concat();
    ensure!(answer.is_error(), "{code}: {text}");
    Ok(text)
}

#[test]
fn programs_compute_over_complete_results() -> Result<()> {
    let other = echo("other", &json!([tool("look", true)]), false)?;
    let (_gateway, mut client) = start(&[houses()?, other], json!({}))?;
    let whole = client.call("houses__list_bookings", json!({}))?;
    let code = "
        const { bookings } = await tools.houses.list_bookings();
        const other = await tools.other.look({n: bookings.length});
        const paid = bookings.filter((b) => b.status === 'confirmed');
        return {all: bookings.length, confirmed: paid.length, other};";
    let answer = run(&mut client, code)?;
    let found: Value = serde_json::from_str(&answer.all_texts().concat())?;
    ensure!(found["all"] == 500 && found["confirmed"] == 278, "{found}");
    ensure!(found["other"].to_string().contains("500"), "{found}");
    ensure!(answer.tokens() < 100, "{} tokens", answer.tokens());
    let facts = &answer.result()["_meta"]["dev.context-guard/run"];
    ensure!(facts["calls"] == 2, "{facts}");
    // The other result and the value cost little beside the bookings.
    let kept_out = facts["tokensKeptOut"].as_u64().context("no tokensKeptOut")?;
    ensure!((17_000..20_000).contains(&kept_out), "{kept_out} tokens; {}", whole.tokens());
    Ok(())
}

#[test]
fn large_values_are_shaped_like_any_answer() -> Result<()> {
    let (_gateway, mut client) = start(&[houses()?], json!({}))?;
    let answer = run(&mut client, "return (await tools.houses.list_bookings()).bookings")?;
    ensure!(o200k(&answer.all_texts().concat()) <= 4_000);
    let cursor = answer.cursor().context("no cursor")?;
    let read =
        client.call("context_guard_read", json!({"cursor": cursor, "aggregate": "count"}))?;
    ensure!(read.all_texts().concat().contains("500"), "{:?}", read.all_texts());
    // A program reads the value of an earlier one.
    let code = format!("return open('{cursor}').rows().countBy('status')");
    let counts = value(&mut client, &code)?;
    ensure!(counts == json!({"confirmed": 278, "cancelled": 111, "pending": 111}), "{counts}");
    let small =
        client.call(RUN, json!({"code": "return 'x '.repeat(9000)", "_guard": {"budget": 500}}))?;
    ensure!(o200k(&small.all_texts().concat()) <= 4_000);
    Ok(())
}

#[test]
fn stored_answers_are_read_in_parts() -> Result<()> {
    let (_gateway, mut client) = start(&[houses()?], json!({}))?;
    let list = client.call("list_bookings", json!({}))?.cursor().context("no cursor")?;
    let log = client.call("read_log", json!({}))?.cursor().context("no cursor")?;
    let code = "
        const list = open(cursors[0]), log = open(cursors[1]);
        const rows = list.rows();
        return {
          kinds: [list.kind, log.kind], counts: [list.count, rows.count(), log.count, log.rows().count()],
          sum: rows.sum('total'), top: rows.top(1, 'total').map((b) => b.total),
          whole: list.value().bookings.length, lines: log.text().split('\\n').length,
          errors: log.rows().filter((line) => line.includes('ERROR')).count(),
        };";
    let answer = client.call(RUN, json!({"code": code, "cursors": [list, log]}))?;
    let found: Value = serde_json::from_str(&answer.all_texts().concat())?;
    ensure!(found["kinds"] == json!(["records", "lines"]), "{found}");
    ensure!(found["sum"] == 196_970 && found["top"] == json!([891]), "{found}");
    let counts = &found["counts"];
    ensure!(counts[0] == 500 && counts[0] == counts[1] && counts[2] == counts[3], "{found}");
    ensure!(found["whole"] == 500 && found["errors"].as_u64() > Some(10), "{found}");
    Ok(())
}

#[test]
fn cursors_of_others_are_refused() -> Result<()> {
    let file = peers::folder("programs-principals")?.join("keys.json");
    let keys = [key(&file, "alice")?, key(&file, "bob")?].map(|key| format!("Bearer {key}"));
    let settings = json!({"access": {"keys": file}, "code": {"enabled": true}});
    let gateway = Gateway::start(json!([houses()?]), settings)?;
    let open = |key: &str| HttpClient::open(&gateway.url(), &[("authorization", key)], json!({}));
    let (mut alice, mut bob) = (open(&keys[0])?, open(&keys[1])?);
    let cursor = alice.call("list_bookings", json!({}))?.cursor().context("no cursor")?;
    let code = format!("return open('{cursor}').count");
    ensure!(value(&mut alice, &code)? == 500);
    let refused = error(&mut bob, &code)?;
    ensure!(refused.contains("cursor_invalid"), "{refused}");
    let forged = error(&mut alice, "return open('S1tWOF_uCMrckKIBVppkGnuVCg').count")?;
    ensure!(forged.contains("cursor_invalid"), "{forged}");
    Ok(())
}

#[test]
fn programs_are_off_by_default() -> Result<()> {
    let gateway = Gateway::start(json!([houses()?]), json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    let listed = client.request("tools/list", json!({}))?;
    ensure!(!listed.result().to_string().contains(RUN), "{}", listed.result());
    ensure!(
        run(&mut client, "return 1").is_ok_and(|answer| answer.0.get("error").is_some())
            || run(&mut client, "return 1")?.is_error()
    );
    Ok(())
}

#[test]
fn writing_tools_need_the_operator() -> Result<()> {
    let tools = json!([tool("look", true), tool("add", false), tool("drop", false)]);
    let upstreams = [echo("shop", &tools, false)?, houses()?];
    let code = json!({"enabled": true, "tools": ["shop::a*"]});
    let (_gateway, mut client) = start(&upstreams, json!({"code": code}))?;
    ensure!(value(&mut client, "await tools.shop.add({n: 1}); return 1")? == 1);
    let refused = error(&mut client, "await tools.shop.drop({}); return 1")?;
    ensure!(refused.contains("code.tools"), "{refused}");
    // A program that fails after a write says so.
    let failed = error(&mut client, "await tools.shop.look(); await tools.shop.add();\nnull.x")?;
    ensure!(failed.contains("at line 2") && failed.contains("shop.look: done\n"), "{failed}");
    ensure!(failed.contains("shop.add: done; it may have changed something"), "{failed}");
    let unknown = error(&mut client, "return tools.shop.lok()")?;
    ensure!(unknown.contains("(did you mean `look`?)"), "{unknown}");
    ensure!(unknown.contains("its tools for programs are look, add\n"), "{unknown}");
    let elsewhere = error(&mut client, "return tools.shops.look()")?;
    ensure!(elsewhere.contains("no server `shops` (did you mean `shop`?)"), "{elsewhere}");
    ensure!(elsewhere.contains("the servers are shop, houses"), "{elsewhere}");
    let unnamed = error(&mut client, "return tools.shop_look()")?;
    ensure!(unnamed.contains("(did you mean `shop__look`?)"), "{unnamed}");
    let listed = value(&mut client, "return [Object.keys(tools), Object.keys(tools.shop)]")?;
    ensure!(listed == json!([["shop", "houses"], ["look", "add"]]), "{listed}");
    let itself = error(&mut client, "return tools.context_guard_run({code: 'return 1'})")?;
    ensure!(itself.contains("a program cannot run programs"), "{itself}");
    Ok(())
}

#[test]
fn hidden_tools_are_not_callable() -> Result<()> {
    let tools = json!([tool("look", true), tool("secret", true)]);
    let upstreams = [echo("shop", &tools, false)?, houses()?];
    let policy = json!({"catalogue": {"hide": ["shop::secret"]}});
    let (_gateway, mut client) = start(&upstreams, json!({"policy": policy}))?;
    wait_until("lists of all servers", || {
        Ok(client.request("tools/list", json!({}))?.result().to_string().contains("shop__look"))
    })?;
    let refused = error(&mut client, "return tools.shop.secret()")?;
    ensure!(refused.contains("no tool `secret`; its tools for programs are look"), "{refused}");
    ensure!(value(&mut client, "return Object.keys(tools.shop)")? == json!(["look"]));
    let declared = client.call(RUN, json!({"declare": ["shop.*"]}))?.all_texts().concat();
    ensure!(declared.contains("tools.shop.look(") && !declared.contains("secret"), "{declared}");
    // The first line has the price of what follows.
    let (head, rest) = declared.split_once('\n').context("no lines")?;
    let price = head.strip_prefix("// 1 tool, about ").and_then(|rest| rest.split(' ').next());
    let price: u64 = price.with_context(|| declared.clone())?.parse()?;
    ensure!(price.abs_diff(o200k(rest)) <= 10, "{declared}: {} tokens", o200k(rest));
    Ok(())
}

#[test]
fn runs_end_at_their_deadline() -> Result<()> {
    let upstreams = [echo("slow", &json!([tool("wait", true)]), true)?, houses()?];
    // The list of the slow upstream is not known before it answers, so that its tool is asked for.
    let (_gateway, mut client) = start(&upstreams, json!({}))?;
    for code in ["return tools.slow.wait()", "for (;;);"] {
        let answer = client.call(RUN, json!({"code": code, "timeoutMs": 500}))?;
        ensure!(answer.all_texts().concat().contains("deadline"), "{:?}", answer.all_texts());
    }
    ensure!(value(&mut client, "return 1")? == 1);
    Ok(())
}

#[test]
fn calls_of_programs_count_for_the_rate_limit() -> Result<()> {
    let file = peers::folder("programs-rate")?.join("keys.json");
    let key = format!("Bearer {}", key(&file, "alice")?);
    let access = json!({"keys": file, "rateLimit": {"perMinute": 20}});
    let settings = json!({"access": access, "code": {"enabled": true}});
    let gateway = Gateway::start(json!([houses()?]), settings)?;
    let mut client =
        HttpClient::open(&gateway.url(), &[("authorization", key.as_str())], json!({}))?;
    let code = "for (let i = 0; i < 40; i++) await tools.short_note(); return 1";
    let refused = error(&mut client, code)?;
    ensure!(refused.contains("the rate limit of this caller is reached"), "{refused}");
    Ok(())
}

#[test]
fn calls_of_programs_are_recorded_under_their_run() -> Result<()> {
    let audit = peers::folder("programs-audit")?.join("audit");
    let settings = json!({"admin": admin_config(), "audit": {"folder": audit}});
    let (gateway, mut client) = start(&[houses()?], settings)?;
    value(&mut client, "await tools.list_bookings(); await tools.$search('notes'); return 1")?;
    let (_, records) = gateway.get_admin("/admin/telemetry")?;
    let records: Value = serde_json::from_str(&records)?;
    let all = records.as_array().or(records["records"].as_array()).context("no records")?;
    let find = |name: &str| {
        let found = all.iter().find(|record| record["endpoint"] == name);
        found.with_context(|| format!("no record of {name}: {records}"))
    };
    let run = find(RUN)?;
    let booked = find("houses::list_bookings")?;
    ensure!(booked["parent"] == run["requestId"], "{booked} of {run}");
    ensure!(run["tokensKeptOut"].as_u64() > Some(10_000), "{run}");
    ensure!(run.get("parent").is_none(), "{run}");
    // The audit log has the same links, also for the guard's own tools.
    let mut entries = Vec::new();
    wait_until("audit entries", || {
        entries = audit_entries(&audit)?;
        Ok(entries.iter().any(|entry| entry["endpoint"] == RUN))
    })?;
    let audited = |name: &str| {
        let entry = entries.iter().find(|entry| entry["endpoint"] == name);
        entry.with_context(|| format!("no entry of {name}: {entries:?}"))
    };
    let outer = audited(RUN)?;
    ensure!(outer["requestId"] == run["requestId"] && outer.get("parent").is_none(), "{outer}");
    for name in ["houses::list_bookings", "context_guard_search_tools"] {
        let inner = audited(name)?;
        ensure!(inner["parent"] == outer["requestId"], "{inner} of {outer}");
    }
    Ok(())
}

#[test]
fn list_may_have_only_tools_that_find_and_run() -> Result<()> {
    let policy = json!({"catalogue": {"mode": "tiered"}});
    let settings = json!({"code": {"enabled": true, "only": true}, "policy": policy});
    let upstreams = [houses()?, echo("other", &json!([tool("look", true)]), false)?];
    let (_gateway, mut client) = start(&upstreams, settings)?;
    let listed = client.request("tools/list", json!({}))?;
    let names: Vec<&str> = listed.result()["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    ensure!(names.contains(&RUN) && names.contains(&"context_guard_search_tools"), "{names:?}");
    ensure!(names.iter().all(|name| name.starts_with("context_guard_")), "{names:?}");
    let found = run(&mut client, "return tools.$search('list all bookings')")?;
    ensure!(found.all_texts().concat().contains("houses__list_bookings"));
    // A tool remains callable under the name that clients see.
    let code = "return (await tools.houses__list_bookings()).bookings.length";
    ensure!(value(&mut client, code)? == 500);
    Ok(())
}

#[test]
fn many_runs_at_once_end_one_after_the_other() -> Result<()> {
    let (gateway, _) = start(&[houses()?], json!({"access": {"rateLimit": {"perMinute": 0}}}))?;
    let url = gateway.url();
    let ended = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..40)
            .map(|at| {
                let code = format!("return (await tools.list_bookings()).bookings.length + {at}");
                let url = &url;
                scope.spawn(move || value(&mut HttpClient::open(url, &[], json!({}))?, &code))
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect::<Vec<_>>()
    });
    for (at, end) in ended.into_iter().enumerate() {
        ensure!(end? == 500 + at);
    }
    Ok(())
}

#[test]
fn wrap_runs_programs_over_one_server() -> Result<()> {
    let server = artifacts::property_server()?.into_os_string();
    let mut client = Client::wrap(["--code".into(), "--".into(), server])?;
    client.open("2025-11-25")?;
    let listed = client.request("tools/list", &json!({}))?.result()["tools"].to_string();
    ensure!(listed.contains(RUN) && listed.contains("\"list_bookings\""), "{listed}");
    let code = "return (await tools.list_bookings()).bookings.length";
    let answer = client.call(RUN, json!({"code": code}))?;
    ensure!(answer.all_texts() == ["500"], "{:?}", answer.all_texts());
    let cursor = client.call("list_bookings", json!({}))?.cursor().context("no cursor")?;
    let code = format!("return open('{cursor}').rows().sum('total')");
    let answer = client.call(RUN, json!({"code": code}))?;
    ensure!(answer.all_texts() == ["196970"], "{:?}", answer.all_texts());
    Ok(())
}
