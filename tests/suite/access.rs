//! Access control: keys, tokens, limits, TLS and invalid configuration.

use context_guard_test_support::audit::audit_text;
use context_guard_test_support::faulty_server::FaultyServer;
use context_guard_test_support::gateway::{Gateway, HttpClient, Process, get, post, signal};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, bail, ensure, peers};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn houses() -> Result<Value> {
    Ok(json!([{"name": "houses", "command": [artifacts::property_server()?]}]))
}

/// Adds an API key to `file` and returns it.
pub(crate) fn key(file: &std::path::Path, name: &str) -> Result<String> {
    let output = Command::new(artifacts::program()?)
        .args(["key", "new", "--name", name, "--file"])
        .arg(file)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Starts a gateway with keys for alice and bob. Returns it with the Authorization of each.
pub(crate) fn with_two_keys(
    name: &str,
    upstreams: Value,
    limits: Value,
) -> Result<(Gateway, [String; 2])> {
    let file = peers::folder(name)?.join("keys.json");
    let keys = [key(&file, "alice")?, key(&file, "bob")?].map(|key| format!("Bearer {key}"));
    let access = json!({"keys": file, "rateLimit": {"perMinute": 0}});
    let gateway = Gateway::start(upstreams, json!({"access": access, "limits": limits}))?;
    Ok((gateway, keys))
}

#[test]
fn sessions_of_one_principal_do_not_end_those_of_another() -> Result<()> {
    let limits = json!({"sessions": 8});
    let (gateway, [alice, bob]) = with_two_keys("session-shares", houses()?, limits)?;
    let open = |key: &str| HttpClient::open(&gateway.url(), &[("authorization", key)], json!({}));
    let mut of_alice = open(&alice)?;
    let mut of_bob = (0..12).map(|_| open(&bob)).collect::<Result<Vec<_>>>()?;
    ensure!(of_alice.request("ping", json!({})).is_ok(), "the session of alice ended");
    // Bob has a quarter of the sessions, but at least 4.
    let lives = of_bob.iter_mut().map(|client| client.request("ping", json!({})).is_ok());
    let lives: Vec<bool> = lives.collect();
    ensure!(lives == [[false; 8].as_slice(), &[true; 4]].concat(), "{lives:?}");
    Ok(())
}

#[test]
fn session_of_an_upstream_belongs_to_its_principal() -> Result<()> {
    let server = FaultyServer::start()?;
    let upstreams = json!([{"name": "faulty", "url": server.url}]);
    let limits = json!({"sessions": 4});
    let (gateway, [alice, bob]) = with_two_keys("session-owners", upstreams, limits)?;
    let of_alice = HttpClient::open(&gateway.url(), &[("authorization", &alice)], json!({}))?;
    ensure!(!of_alice.session.is_empty());
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let status = |key: &str, session: &str| -> Result<u16> {
        let headers = [("authorization", key), ("mcp-session-id", session)];
        Ok(post(&gateway.url(), &headers, list)?.status)
    };
    ensure!(status(&bob, &of_alice.session)? == 404);
    for invented in 0..20 {
        ensure!(status(&bob, &format!("invented-{invented}"))? == 404);
    }
    ensure!(status(&bob, &of_alice.session)? == 404);
    ensure!(status(&alice, &of_alice.session)? == 200);
    let task = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}"#;
    let headers = [("authorization", alice.as_str()), ("mcp-session-id", &of_alice.session)];
    let refused = post(&gateway.url(), &headers, task)?;
    ensure!(refused.body.contains("Unknown task"), "{}", refused.body);
    Ok(())
}

#[test]
fn long_descriptions_of_clients_are_refused() -> Result<()> {
    let server = FaultyServer::start()?;
    let one = json!([{"name": "faulty", "url": server.url}]);
    for upstreams in [houses()?, one] {
        let gateway = Gateway::start(upstreams, json!({}))?;
        let initialize = |capabilities: &str| -> Result<String> {
            let params = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"experimental": {"x": capabilities}},
                "clientInfo": {"name": "t", "version": "1"},
            });
            let request =
                json!({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": params});
            Ok(post(&gateway.url(), &[], &request.to_string())?.body)
        };
        ensure!(initialize("short")?.contains("\"result\""));
        let refused = initialize(&"x".repeat(17_000))?;
        ensure!(refused.contains("-32602") && refused.contains("\"id\":7"), "{refused}");
    }
    let gateway = Gateway::start(houses()?, json!({}))?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    ensure!(client.request("logging/setLevel", json!({"level": "warning"})).is_ok());
    let refused = client.request("logging/setLevel", json!({"level": "x".repeat(100_000)}))?;
    ensure!(refused.0["error"]["code"] == -32602, "{}", refused.0);
    Ok(())
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

#[test]
fn access_keys_separate_principals() -> Result<()> {
    let folder = peers::folder("access")?;
    let file = folder.join("keys.json");
    let (alice, bob) = (key(&file, "alice")?, key(&file, "bob")?);
    let access = json!({"keys": file, "rateLimit": {"perMinute": 0}});
    let audit = folder.join("audit");
    let gateway = Gateway::start(houses()?, json!({"access": access, "audit": {"folder": audit}}))?;
    let refused = post(&gateway.url(), &[], HELLO)?;
    ensure!(
        refused.status == 401 && refused.header("www-authenticate") == "Bearer",
        "{}",
        refused.body
    );
    let wrong = post(&gateway.url(), &[("authorization", "Bearer cg_nobody_x")], HELLO)?;
    ensure!(wrong.status == 401, "{}", wrong.body);
    let bearer = |key: &str| format!("Bearer {key}");
    let (of_alice, of_bob) = (bearer(&alice), bearer(&bob));
    let mut one = HttpClient::open(&gateway.url(), &[("authorization", &of_alice)], json!({}))?;
    let mut two = HttpClient::open(&gateway.url(), &[("x-api-key", &bob)], json!({}))?;
    let page = one.call("list_bookings", json!({"limit": 5}))?;
    let cursor = page.next_cursor().with_context(|| page.0.to_string())?;
    ensure!(!one.call("context_guard_read", json!({"cursor": cursor}))?.is_error());
    let stolen = two.call("context_guard_read", json!({"cursor": cursor}))?;
    ensure!(
        stolen.is_error() && stolen.all_texts().join("").contains("cursor_invalid"),
        "{}",
        stolen.0
    );
    // For another principal a session does not exist.
    let body = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let other = post(
        &gateway.url(),
        &[("authorization", &of_bob), ("mcp-session-id", &one.session)],
        body,
    )?;
    ensure!(other.status == 404, "{} {}", other.status, other.body);
    gateway.stop()?;
    let printed = audit_text(&audit)?;
    ensure!(
        printed.contains(r#""principal":"key:alice""#) && printed.contains(r#""event":"refused""#),
        "{printed}"
    );
    for secret in [&alice, &bob] {
        ensure!(!printed.contains(secret.as_str()), "the audit log contains a key");
    }
    Ok(())
}

#[test]
fn upstream_credentials_separate_principals() -> Result<()> {
    let gateway = Gateway::start(houses()?, json!({}))?;
    let client =
        |token: &str| HttpClient::open(&gateway.url(), &[("authorization", token)], json!({}));
    let (mut one, mut two) = (client("Bearer one")?, client("Bearer two")?);
    let cursor = one.call("list_bookings", json!({}))?.next_cursor().context("no cursor")?;
    ensure!(!one.call("context_guard_read", json!({"cursor": cursor}))?.is_error());
    let stolen = two.call("context_guard_read", json!({"cursor": cursor}))?;
    ensure!(stolen.all_texts().join("").contains("cursor_invalid"), "{}", stolen.0);
    // The cache of one principal must not serve another.
    let ids = json!({"response_mode": "ids_only"});
    ensure!(!two.call("list_bookings", ids)?.is_error());
    let records = gateway.get_admin("/admin/telemetry?endpoint=*list_bookings")?.1;
    ensure!(!records.contains("Bearer") && records.contains("anonymous#"), "{records}");
    Ok(())
}

#[test]
fn rates_sizes_hosts_and_origins_are_limited() -> Result<()> {
    let limited =
        json!({"access": {"rateLimit": {"perMinute": 5}}, "limits": {"requestBytes": 2_000}});
    let gateway = Gateway::start(houses()?, limited)?;
    let evil = post(&gateway.url(), &[("origin", "https://evil.example")], HELLO)?;
    ensure!(evil.status == 403 && evil.body.contains("allowOrigins"), "{}", evil.body);
    let rebound = post(&gateway.url(), &[("host", "evil.example")], HELLO)?;
    ensure!(rebound.status == 403 && rebound.body.contains("allowHosts"), "{}", rebound.body);
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#,
        "x".repeat(3_000)
    );
    let long = post(&gateway.url(), &[], &long)?;
    ensure!(long.status == 413 && long.body.contains("limits.requestBytes"), "{}", long.body);
    let mut last = long;
    for _ in 0..6 {
        last = post(&gateway.url(), &[], HELLO)?;
    }
    ensure!(last.status == 429, "{} {}", last.status, last.body);
    let wait: u64 = last.header("retry-after").parse()?;
    ensure!((1..=60).contains(&wait), "{wait}");
    // Health checks are exempt from limits.
    ensure!(get(&format!("{}/healthz", gateway.base), &[])?.status == 200);
    let metrics = gateway.get_admin("/metrics")?.1;
    for reason in ["origin", "host", "size", "rate"] {
        ensure!(
            metrics.contains(&format!("context_guard_refused_total{{reason=\"{reason}\"}}")),
            "{reason}: {metrics}"
        );
    }
    let elsewhere = Gateway::start(houses()?, json!({"access": {"allowIps": ["10.0.0.0/8"]}}))?;
    ensure!(post(&elsewhere.url(), &[], HELLO)?.status == 403);
    Ok(())
}

#[test]
fn keyed_callers_share_an_address() -> Result<()> {
    let file = peers::folder("shared-address")?.join("keys");
    let keys: Vec<String> =
        (0..40).map(|caller| key(&file, &format!("caller-{caller}"))).collect::<Result<_>>()?;
    let access = json!({
        "keys": file,
        "rateLimit": {"perMinute": 10},
        "trustedProxies": ["127.0.0.0/8"],
    });
    let gateway = Gateway::start(houses()?, json!({"access": access}))?;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let status = |headers: &[(&str, &str)]| -> Result<u16> {
        Ok(post(&gateway.url(), headers, ping)?.status)
    };
    // All callers reach their own limit through one address.
    for key in &keys {
        for _ in 0..10 {
            ensure!(status(&[("x-api-key", key)])? != 429);
        }
        ensure!(status(&[("x-api-key", key)])? == 429);
    }
    // The address is limited for those who fail to authenticate, wherever they claim to be.
    let guess =
        |forwarded: &str| status(&[("x-api-key", "cg_wrong_key"), ("x-forwarded-for", forwarded)]);
    for attempt in 0..10 {
        ensure!(guess(&format!("10.0.0.{attempt}, 203.0.113.1"))? == 401);
    }
    ensure!(guess("10.0.0.99, 203.0.113.1")? == 429);
    ensure!(guess("203.0.113.2")? == 401, "another caller behind the same proxy");
    Ok(())
}

#[test]
fn loopback_is_not_limited_by_default() -> Result<()> {
    let gateway = Gateway::start(houses()?, json!({"access": {}}))?;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for _ in 0..150 {
        ensure!(post(&gateway.url(), &[], ping)?.status != 429);
    }
    Ok(())
}

#[test]
fn jwt_is_verified_against_a_key_set() -> Result<()> {
    let folder = peers::folder("jwt")?;
    let script = artifacts::root().join("tests/support/clients/tokens.py");
    let output = Command::new(artifacts::peers()?.join("py/bin/python"))
        .arg(script)
        .arg(&folder)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tokens: Value = serde_json::from_slice(&output.stdout)?;
    let jwt = json!({"jwksFile": folder.join("jwks.json"), "issuer": "https://issuer.example", "audience": "guard"});
    // Fetch the same key set from a URL.
    let mut command = Command::new(artifacts::peers()?.join("py/bin/python"));
    command
        .args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"])
        .arg(&folder);
    let served = Process::start(command, true, "port ")?;
    let printed = served.output();
    let port = printed.split_once("port ").and_then(|(_, rest)| rest.split_whitespace().next());
    let url = format!("http://127.0.0.1:{}/jwks.json", port.context("no port")?);
    let mut by_url = jwt.clone();
    by_url["jwksUrl"] = json!(url);
    by_url.as_object_mut().context("an object")?.remove("jwksFile");
    for jwt in [jwt, by_url] {
        let access = json!({"jwt": jwt, "rateLimit": {"perMinute": 0}});
        let gateway = Gateway::start(houses()?, json!({"access": access}))?;
        for (name, token) in tokens.as_object().context("no tokens")? {
            let bearer = format!("Bearer {}", token.as_str().unwrap_or_default());
            let reply = post(&gateway.url(), &[("authorization", &bearer)], HELLO)?;
            let expected = if name == "good" { 200 } else { 401 };
            ensure!(reply.status == expected, "{name}: {} {}", reply.status, reply.body);
        }
    }
    Ok(())
}

/// Writes a new certificate of `localhost` with its key to a folder.
fn make_certificate(folder: &Path) -> Result<()> {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .arg("-keyout")
        .arg(folder.join("key.pem"))
        .arg("-out")
        .arg(folder.join("cert.pem"))
        .output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}

/// Starts a gateway with the certificate in a folder.
fn start_with_tls(folder: &Path) -> Result<Gateway> {
    let tls = json!({"cert": folder.join("cert.pem"), "key": folder.join("key.pem")});
    let gateway = Gateway::start(houses()?, json!({"tls": tls}))?;
    ensure!(gateway.base.starts_with("https://"), "{}", gateway.base);
    Ok(gateway)
}

/// Opens a session with an HTTP version, and trusts the certificate in the folder. Returns what
/// was printed.
fn open_over_tls(gateway: &Gateway, version: &str, folder: &Path) -> Result<String> {
    let output = Command::new("curl")
        .args(["-sS", version, "--cacert"])
        .arg(folder.join("cert.pem"))
        .args(["-H", "content-type: application/json"])
        .args(["-H", "accept: application/json, text/event-stream", "-d", HELLO])
        .arg(gateway.url().replace("127.0.0.1", "localhost"))
        .output()?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn configured_certificate_enables_tls() -> Result<()> {
    let folder = peers::folder("tls")?;
    make_certificate(&folder)?;
    let gateway = start_with_tls(&folder)?;
    for version in ["--http1.1", "--http2"] {
        let printed = open_over_tls(&gateway, version, &folder)?;
        ensure!(printed.contains("protocolVersion"), "{version}: {printed}");
    }
    Ok(())
}

#[test]
fn changed_certificate_serves_new_connections() -> Result<()> {
    let folder = peers::folder("tls-change")?;
    make_certificate(&folder)?;
    let gateway = start_with_tls(&folder)?;
    let address = gateway.base.trim_start_matches("https://");
    let mut old = Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut input = old.stdin.take().context("no input")?;
    let mut lines = BufReader::new(old.stdout.take().context("no output")?).lines();
    let mut ask = || -> Result<()> {
        input.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        let answered = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("200 OK")));
        ensure!(answered.is_some(), "the connection ended");
        Ok(())
    };
    ask()?;
    // Curl trusts only the certificate that the file has now.
    make_certificate(&folder)?;
    let serves = || Ok(open_over_tls(&gateway, "--http2", &folder)?.contains("protocolVersion"));
    wait_until("the changed certificate", serves)?;
    // The last certificate remains in use while the files are invalid.
    std::fs::write(folder.join("key.pem"), "no key")?;
    let log = || Ok(gateway.process.output().contains("the last certificates remain in use"));
    wait_until("a warning", log)?;
    ensure!(serves()?);
    ask()?;
    old.kill()?;
    old.wait()?;
    Ok(())
}

#[test]
fn invalid_configuration_lists_all_errors() -> Result<()> {
    let folder = peers::folder("config")?;
    let file = folder.join("gateway.yaml");
    std::fs::write(
        &file,
        "listen: nowhere\nlimits:\n  concurency: 3\nupstreams:\n  - name: a\n  - name: a\n    command: [cat]\npolicy: {hardCap: 1}\n",
    )?;
    for command in [vec!["config", "check"], vec!["serve", "--config"]] {
        let output = Command::new(artifacts::program()?).args(&command).arg(&file).output()?;
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(3), "{command:?}: {:?}", output.status);
        for fault in [
            "line 1: listen",
            "line 3: limits.concurency",
            "did you mean `concurrency`",
            "line 5: upstreams[0]",
            "line 6: upstreams[1].name",
        ] {
            ensure!(printed.contains(fault), "{command:?}: {fault} is not in {printed}");
        }
    }
    std::fs::write(&file, "upstreams:\n  - {name: a, command: [cat]}\npolicy: {hardCap: 1}\n")?;
    let output =
        Command::new(artifacts::program()?).args(["config", "check"]).arg(&file).output()?;
    ensure!(
        output.status.code() == Some(3)
            && String::from_utf8_lossy(&output.stderr).contains("hardCap"),
        "{output:?}"
    );
    let client = folder.join("client.json");
    std::fs::write(&client, r#"{"mcpServers":{"files":{"command":"npx","args":["-y","x"]}}}"#)?;
    let output =
        Command::new(artifacts::program()?).args(["config", "import"]).arg(&client).output()?;
    std::fs::write(&file, &output.stdout)?;
    let output =
        Command::new(artifacts::program()?).args(["config", "check"]).arg(&file).output()?;
    ensure!(output.status.success(), "{output:?}");
    // A second gateway on the same address explains the conflict.
    let gateway = Gateway::start(houses()?, json!({}))?;
    let address = gateway.base.trim_start_matches("http://");
    let mut again = Command::new(artifacts::program()?);
    again.args(["serve", "--listen", address, "--config"]).arg(&file);
    match Process::start(again, false, "serving") {
        Ok(_) => bail!("two gateways listen on {address}"),
        Err(error) => ensure!(error.to_string().contains("cannot listen on"), "{error}"),
    }
    Ok(())
}

#[test]
fn refusals_reach_http2_clients_that_still_send() -> Result<()> {
    let (gateway, _) = with_two_keys("refusals", houses()?, json!({}))?;
    // Longer than the windows of HTTP/2, so that the refusal arrives before the body has ended.
    let body = peers::folder("refusals")?.join("body.json");
    std::fs::write(&body, vec![b' '; 400_000])?;
    // The first ones are refused at once. The others are stopped while they send, for longer than
    // a busy machine stops a process.
    let clients = (0..60u64).map(|attempt| {
        let mut client = Command::new("curl");
        client
            .args(["-sS", "--http2-prior-knowledge", "-H", "content-type: application/json"])
            .args(["-o", "/dev/null", "-w", "%{http_code}", "--data-binary"])
            .arg(format!("@{}", body.display()))
            .arg(gateway.url())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        std::thread::spawn(move || -> Result<()> {
            let client = client.spawn()?;
            let id = client.id();
            if attempt >= 20 {
                std::thread::sleep(Duration::from_millis(attempt / 2));
                signal(id, "STOP")?;
                std::thread::sleep(Duration::from_secs(3));
                signal(id, "CONT")?;
            }
            let output = client.wait_with_output()?;
            let is_refused = output.stdout == b"401" && output.stderr.is_empty();
            ensure!(is_refused, "{attempt}: {output:?}");
            Ok(())
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
    }
    Ok(())
}
