//! Requests and headers that the HTTP front and the admin endpoint refuse, add and remove.

use std::process::Command;

use context_guard_test_support::audit::audit_text;
use context_guard_test_support::gateway::{Gateway, Process, agent, get, post};
use context_guard_test_support::operations::{TOKEN, admin_config};
use context_guard_test_support::scripted::{ScriptedResponse, ScriptedServer};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, bail, ensure, peers};
use serde_json::{Value, json};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

fn houses() -> Result<Value> {
    Ok(json!([{"name": "houses", "command": [artifacts::property_server()?]}]))
}

#[test]
fn admin_pages_and_guesses_are_refused() -> Result<()> {
    let open = Gateway::start(houses()?, json!({}))?;
    for path in ["/metrics", "/admin/telemetry", "/admin/policy", "/admin/generations"] {
        let url = format!("{}{path}", open.admin);
        ensure!(get(&url, &[])?.status == 200, "{path}");
        ensure!(get(&url, &[("host", "evil.example")])?.status == 403, "{path}");
        ensure!(get(&url, &[("origin", "https://evil.example")])?.status == 403, "{path}");
    }
    let folder = peers::folder("admin-guesses")?.join("audit");
    let audit = json!({"folder": folder});
    let gateway = Gateway::start(houses()?, json!({"admin": admin_config(), "audit": audit}))?;
    let metrics = format!("{}/metrics", gateway.admin);
    let right = format!("Bearer {TOKEN}");
    ensure!(get(&metrics, &[("authorization", &right)])?.status == 200);
    for _ in 0..10 {
        ensure!(get(&metrics, &[("authorization", "Bearer wrong")])?.status == 401);
    }
    let limited = get(&metrics, &[("authorization", &right)])?;
    ensure!(limited.status == 429, "{} {}", limited.status, limited.body);
    ensure!((1..=6).contains(&limited.header("retry-after").parse::<u64>()?));
    ensure!(get(&format!("{}/healthz", gateway.admin), &[])?.status == 200);
    wait_until("audit entries", || {
        let text = audit_text(&folder)?;
        Ok(text.lines().filter(|line| line.contains(r#""outcome":"admin""#)).count() == 11)
    })?;
    Ok(())
}

#[test]
fn readiness_details_need_the_token() -> Result<()> {
    let gateway = Gateway::start(houses()?, json!({"admin": admin_config()}))?;
    let url = format!("{}/readyz", gateway.admin);
    let seen = |headers: &[(&str, &str)]| -> Result<Value> {
        let answer = get(&url, headers)?;
        ensure!(answer.status == 200, "{}", answer.body);
        Ok(serde_json::from_str(&answer.body)?)
    };
    ensure!(seen(&[])? == json!({"ready": true}));
    ensure!(seen(&[("authorization", "Bearer wrong")])? == json!({"ready": true}));
    let right = format!("Bearer {TOKEN}");
    ensure!(seen(&[("authorization", &right)])?["upstreams"].is_array());
    ensure!(seen(&[("authorization", &right), ("host", "evil.example")])?.get("store").is_none());
    Ok(())
}

#[test]
fn unsafe_configuration_is_refused() -> Result<()> {
    let folder = peers::folder("unsafe")?;
    let file = folder.join("gateway.yaml");
    let upstream = "upstreams:\n  - {name: a, command: [cat]}\n";
    for (setting, expected) in [
        ("admin: {listen: '0.0.0.0:8809'}", "admin.token"),
        ("limits: {bufferedBytes: 1000}", "limits.requestBytes"),
        ("limits: {bufferedBytes: 20000000}", "twice limits.requestBytes"),
        ("limits: {memoryPercent: 101}", "memoryPercent"),
        ("access: {proxyProtocol: true}", "access.trustedProxies"),
        ("signingKeys: [short]", "at least 16 bytes"),
    ] {
        std::fs::write(&file, format!("listen: 127.0.0.1:0\n{setting}\n{upstream}"))?;
        let mut command = Command::new(artifacts::program()?);
        command.args(["serve", "--config"]).arg(&file);
        match Process::start(command, false, "serving") {
            Ok(_) => bail!("{setting} is accepted"),
            Err(error) => ensure!(error.to_string().contains(expected), "{setting}: {error}"),
        }
    }
    Ok(())
}

#[test]
fn lost_audit_entries_are_counted() -> Result<()> {
    for is_required in [false, true] {
        let folder = peers::folder(&format!("audit-full-{is_required}"))?;
        // The file of every day of the test is a full disk.
        for day in ["now", "tomorrow"] {
            let date = Command::new("date").args(["-u", "-d", day, "+%F"]).output()?;
            let date = String::from_utf8(date.stdout)?;
            let file = folder.join(format!("audit.{}.jsonl", date.trim()));
            std::os::unix::fs::symlink("/dev/full", file)?;
        }
        let audit = json!({"folder": folder, "required": is_required});
        let gateway = Gateway::start(houses()?, json!({"audit": audit}))?;
        let refusal = || post(&gateway.url(), &[("origin", "https://evil.example")], PING);
        ensure!(refusal()?.status == 403);
        wait_until("a count of lost entries", || {
            let metrics = gateway.get_admin("/metrics")?.1;
            let lost =
                metrics.lines().find_map(|l| l.strip_prefix("context_guard_audit_lost_total "));
            Ok(lost.context("no metric")?.parse::<u64>()? > 0)
        })?;
        gateway.process.wait_for_output(&["audit log cannot be written"])?;
        let reply = post(&gateway.url(), &[], PING)?;
        ensure!((reply.status == 503) == is_required, "{} {}", reply.status, reply.body);
        ensure!(!is_required || reply.body.contains("audit.required"), "{}", reply.body);
    }
    Ok(())
}

#[test]
fn requests_are_refused_while_memory_is_short() -> Result<()> {
    let gateway = Gateway::start(houses()?, json!({"limits": {"memoryBytes": 1_000_000}}))?;
    wait_until("a refusal", || Ok(post(&gateway.url(), &[], PING)?.status == 503))?;
    let refused = post(&gateway.url(), &[], PING)?;
    ensure!(!refused.header("retry-after").is_empty(), "{}", refused.body);
    ensure!(refused.body.contains("limits.memoryPercent"), "{}", refused.body);
    ensure!(get(&format!("{}/healthz", gateway.base), &[])?.status == 200);
    // The end of a session frees memory.
    let deleted = agent().delete(gateway.url()).header("mcp-session-id", "unknown").call()?;
    ensure!(deleted.status() == 404, "{}", deleted.status());
    let metrics = gateway.get_admin("/metrics")?.1;
    ensure!(metrics.contains("context_guard_memory_pressure 1"), "{metrics}");
    let log = gateway.process.wait_for_output(&["memory is short"])?;
    ensure!(log.matches("memory is short").count() == 1, "{log}");
    Ok(())
}

#[test]
fn allowed_origins_may_send_requests() -> Result<()> {
    let origin = "https://app.example";
    let access = json!({"allowOrigins": [origin], "rateLimit": {"perMinute": 0}});
    let gateway = Gateway::start(houses()?, json!({"access": access}))?;
    let preflight = |origin: &str| -> Result<ureq::http::Response<ureq::Body>> {
        let request = ureq::http::Request::builder()
            .method("OPTIONS")
            .uri(gateway.url())
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "content-type,mcp-session-id");
        Ok(agent().run(request.body(())?)?)
    };
    let allowed = preflight(origin)?;
    ensure!(allowed.status() == 204, "{}", allowed.status());
    let headers = allowed.headers();
    ensure!(headers["access-control-allow-origin"] == origin, "{headers:?}");
    ensure!(headers["access-control-allow-methods"] == "POST", "{headers:?}");
    ensure!(
        headers["access-control-allow-headers"] == "content-type,mcp-session-id",
        "{headers:?}"
    );
    let refused = preflight("https://evil.example")?;
    ensure!(refused.status() == 403, "{}", refused.status());
    ensure!(!refused.headers().contains_key("access-control-allow-origin"));
    let reply = post(&gateway.url(), &[("origin", origin)], PING)?;
    ensure!(reply.header("access-control-allow-origin") == origin, "{:?}", reply.headers);
    ensure!(reply.header("access-control-expose-headers").contains("Mcp-Session-Id"));
    // A page of another site that embeds a URL of the gateway sends no Origin.
    let embedded = get(&gateway.url(), &[("sec-fetch-site", "cross-site")])?;
    ensure!(embedded.status == 403, "{} {}", embedded.status, embedded.body);
    Ok(())
}

#[test]
fn headers_of_clients_and_apis_are_filtered() -> Result<()> {
    let server = ScriptedServer::from_fn(|request| {
        let response = ScriptedResponse::json("{\"x\":1}");
        if request.line.contains("/packed") {
            return response.with("content-encoding", "gzip");
        }
        response
            .with("set-cookie", "session=1")
            .with("access-control-allow-origin", "*")
            .with("x-total-count", "7")
    })?;
    let start = |access: Value| {
        let api = json!([{"name": "api", "rest": {"url": server.url()}}]);
        Gateway::start(api, json!({"access": access}))
    };
    let claims = [
        ("x-forwarded-for", "203.0.113.7"),
        ("x-real-ip", "203.0.113.7"),
        ("forwarded", "for=203.0.113.7"),
        ("x-forwarded-host", "evil.example"),
    ];
    for (access, expected, is_trusted) in [
        (json!({}), "127.0.0.1", false),
        (json!({"trustedProxies": ["127.0.0.0/8"]}), "203.0.113.7, 127.0.0.1", true),
    ] {
        let gateway = start(access)?;
        let reply = get(&format!("{}/things", gateway.base), &claims)?;
        ensure!(reply.status == 200, "{} {}", reply.status, reply.body);
        ensure!(reply.header("x-total-count") == "7", "{:?}", reply.headers);
        for name in ["set-cookie", "access-control-allow-origin"] {
            ensure!(!reply.headers.contains_key(name), "{:?}", reply.headers);
        }
        let received = server.requests().pop().context("no request")?;
        ensure!(received.header("x-forwarded-for") == expected, "{received:?}");
        for name in ["x-real-ip", "forwarded", "x-forwarded-host"] {
            ensure!(received.header(name).is_empty() != is_trusted, "{received:?}");
        }
        let packed = get(&format!("{}/packed", gateway.base), &[])?;
        ensure!(packed.status == 502 && packed.body.contains("gzip"), "{}", packed.body);
    }
    Ok(())
}

#[test]
fn long_tool_names_are_refused() -> Result<()> {
    let gateway = Gateway::start(houses()?, json!({}))?;
    let call = |bytes: usize| {
        let params = json!({"name": "x".repeat(bytes), "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        post(&gateway.url(), &[], &call.to_string())
    };
    let refused = call(9 << 20)?;
    ensure!(refused.status == 400 && refused.body.contains("256 bytes"), "{}", refused.body);
    ensure!(refused.answer()?.0["error"]["code"] == -32602, "{}", refused.body);
    ensure!(!call(256)?.body.contains("256 bytes"));
    Ok(())
}
