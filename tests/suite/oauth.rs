//! Upstreams that need OAuth: logins, tokens of principals, refreshes, and refusals.

use std::path::{Path, PathBuf};
use std::process::Command;

use context_guard_test_support::authorization::{AuthorizationServer, browse};
use context_guard_test_support::gateway::{Gateway, HttpClient, Process, get, post};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure, peers};
use serde_json::{Value, json};

const KEY: &str = "a key of the tests that is long enough for tokens";

/// Returns the members of a configuration that store tokens in a folder.
fn with_tokens(folder: &Path, more: &Value) -> Value {
    let mut config = json!({"tokens": {"folder": folder.join("tokens"), "key": KEY}});
    config.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    config
}

fn upstream(name: &str, url: &str) -> Value {
    json!({"name": name, "url": url, "oauth": {}})
}

/// Starts a gateway with one upstream, which needs OAuth.
fn start(server: &AuthorizationServer, folder: &Path) -> Result<Gateway> {
    let upstreams = json!([upstream("notes", &server.url)]);
    Gateway::start(upstreams, with_tokens(folder, &json!({})))
}

/// Starts a gateway with two upstreams, of which one needs OAuth, and connects a client that has a
/// token of its own.
fn start_with_houses(server: &AuthorizationServer, folder: &Path) -> Result<(Gateway, HttpClient)> {
    let upstreams = json!([
        upstream("notes", &server.url),
        {"name": "houses", "command": [artifacts::property_server()?]},
    ]);
    let gateway = Gateway::start(upstreams, with_tokens(folder, &json!({})))?;
    let token = [("authorization", "Bearer of-the-client")];
    let client = HttpClient::open(&gateway.url(), &token, json!({}))?;
    Ok((gateway, client))
}

fn program(arguments: &[&str], config: &Path) -> Result<Command> {
    let mut command = Command::new(artifacts::program()?);
    command.args(arguments).arg("--config").arg(config);
    Ok(command)
}

/// Runs `context-guard login`, opens its page in a browser, and returns its output.
fn login(gateway: &Gateway, arguments: &[&str]) -> Result<String> {
    let arguments = [&["login", "--no-browser"], arguments].concat();
    let process = Process::start(program(&arguments, &config(gateway))?, false, "\n  http")?;
    browse(&page(&process.output())?, &[])?;
    stored(&process)
}

fn config(gateway: &Gateway) -> PathBuf {
    gateway.folder.join("gateway.json")
}

/// Returns the URL of the page that a login prints.
fn page(printed: &str) -> Result<String> {
    let url = printed.lines().find_map(|line| line.strip_prefix("  http"));
    Ok(format!("http{}", url.context("no page")?))
}

fn stored(process: &Process) -> Result<String> {
    wait_until("stored a token", || Ok(process.output().contains("stored a token")))
        .with_context(|| process.output())?;
    Ok(process.output())
}

fn text(client: &mut HttpClient, tool: &str) -> Result<String> {
    Ok(client.call(tool, json!({}))?.all_texts().join(""))
}

/// Returns the answer to a client that tries to connect.
fn connect(gateway: &Gateway, headers: &[(&str, &str)]) -> Result<String> {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    Ok(post(&gateway.url(), headers, &hello.to_string())?.body)
}

fn key(file: &Path, name: &str) -> Result<String> {
    let mut command = Command::new(artifacts::program()?);
    let output = command.args(["key", "new", "--name", name, "--file"]).arg(file).output()?;
    Ok(format!("Bearer {}", String::from_utf8(output.stdout)?.trim()))
}

#[test]
fn login_stores_a_token_for_a_running_gateway() -> Result<()> {
    let (server, folder) = (AuthorizationServer::start(&[])?, peers::folder("oauth-login")?);
    let (gateway, mut client) = start_with_houses(&server, &folder)?;
    let refused = client.call("notes__whoami", json!({}))?;
    let reason = refused.all_texts().join("");
    ensure!(refused.is_error() && reason.contains("context-guard login notes"), "{reason}");
    let printed = login(&gateway, &["notes"])?;
    ensure!(printed.contains("registered the client"), "{printed}");
    ensure!(text(&mut client, "notes__whoami")?.contains("user-1"));
    // Only the gateway's tokens reach the server, and none of them reaches a file in plain text.
    let received = server.received()?;
    ensure!(received.iter().any(|request| request["method"] == "tools/call"));
    for request in &received {
        ensure!(!request.to_string().contains("of-the-client"), "{request}");
    }
    let token = received.last().context("no request")?["authorization"].to_string();
    let token = token.trim_matches('"').trim_start_matches("Bearer ").to_owned();
    ensure!(token.len() > 20, "{token}");
    for entry in std::fs::read_dir(folder.join("tokens"))? {
        let stored = std::fs::read(entry?.path())?;
        ensure!(!String::from_utf8_lossy(&stored).contains(&token), "a token in plain text");
    }
    ensure!(!gateway.process.output().contains(&token), "a token in the log");
    // Another scope: the tool names it, and a further login obtains it.
    let refused = client.call("notes__write_note", json!({}))?;
    let reason = refused.all_texts().join("");
    ensure!(reason.contains("--scope write"), "{reason}");
    login(&gateway, &["notes", "--scope", "write"])?;
    ensure!(text(&mut client, "notes__write_note")?.contains("written by user-2"));
    // A wrong key is explained, and a logout needs none.
    let wrong = "CONTEXT_GUARD__TOKENS__KEY";
    let mut command = program(&["login", "notes", "--no-browser"], &config(&gateway))?;
    let output = command.env(wrong, KEY.to_uppercase()).output()?;
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(3) && printed.contains("another key"), "{printed}");
    for (code, message) in [(0, "removed"), (1, "no token is stored")] {
        let output = program(&["logout", "notes"], &config(&gateway))?.output()?;
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(code) && printed.contains(message), "{printed}");
    }
    let reason = text(&mut client, "notes__whoami")?;
    ensure!(reason.contains("context-guard login notes"), "{reason}");
    Ok(())
}

#[test]
fn tokens_belong_to_one_principal() -> Result<()> {
    let (server, folder) = (AuthorizationServer::start(&[])?, peers::folder("oauth-principals")?);
    let file = folder.join("keys.json");
    let (alice, bob) = (key(&file, "alice")?, key(&file, "bob")?);
    let access = json!({"keys": file, "rateLimit": {"perMinute": 0}});
    let config = with_tokens(&folder, &json!({"access": access}));
    let gateway = Gateway::start(json!([upstream("notes", &server.url)]), config)?;
    let printed = program(&["login", "notes"], &self::config(&gateway))?.output()?;
    ensure!(String::from_utf8_lossy(&printed.stderr).contains("--principal"));
    login(&gateway, &["notes", "--principal", "alice"])?;
    let open = |key: &str| HttpClient::open(&gateway.url(), &[("authorization", key)], json!({}));
    let mut first = open(&alice)?;
    ensure!(text(&mut first, "whoami")?.contains("user-1"));
    let before = server.received()?.len();
    let refused = connect(&gateway, &[("authorization", bob.as_str())])?;
    ensure!(refused.contains("context-guard login notes --principal key:bob"), "{refused}");
    ensure!(server.received()?.len() == before, "a request without a token was sent");
    login(&gateway, &["notes", "--principal", "key:bob"])?;
    let mut second = open(&bob)?;
    ensure!(text(&mut second, "whoami")?.contains("user-2"));
    ensure!(text(&mut first, "whoami")?.contains("user-1"));
    Ok(())
}

#[test]
fn tokens_reach_an_sse_upstream() -> Result<()> {
    let (server, folder) =
        (AuthorizationServer::start(&[("SSE", "1")])?, peers::folder("oauth-sse")?);
    let (gateway, mut client) = start_with_houses(&server, &folder)?;
    let reason = text(&mut client, "notes__whoami")?;
    ensure!(reason.contains("context-guard login notes"), "{reason}");
    login(&gateway, &["notes"])?;
    // The login itself sends a request without a token, to find the authorization server.
    let before = server.received()?.len();
    ensure!(text(&mut client, "notes__whoami")?.contains("user-1"));
    // The stream remains open, and further messages have a new token.
    server.expire_tokens()?;
    ensure!(text(&mut client, "notes__whoami")?.contains("user-1"));
    let reason = text(&mut client, "notes__write_note")?;
    ensure!(reason.contains("--scope write"), "{reason}");
    let received = server.received()?.split_off(before);
    ensure!(received.iter().filter(|request| request["method"] == "tools/call").count() >= 3);
    for request in &received {
        let is_bearer =
            request["authorization"].as_str().is_some_and(|own| own.starts_with("Bearer "));
        ensure!(is_bearer && !request.to_string().contains("of-the-client"), "{request}");
    }
    Ok(())
}

#[test]
fn refresh_happens_once_for_concurrent_calls() -> Result<()> {
    let (server, folder) = (AuthorizationServer::start(&[])?, peers::folder("oauth-refresh")?);
    let gateway = start(&server, &folder)?;
    login(&gateway, &["notes"])?;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(HttpClient::open(&gateway.url(), &[], json!({}))?);
    }
    // The server ends all tokens of a login if a refresh token is used twice.
    for _ in 0..3 {
        for client in &mut clients {
            ensure!(text(client, "whoami")?.contains("user-1"));
        }
        server.expire_tokens()?;
        let answers: Vec<Result<String>> = std::thread::scope(|scope| {
            let calls: Vec<_> =
                clients.iter_mut().map(|client| scope.spawn(|| text(client, "whoami"))).collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        for answer in answers {
            let answer = answer?;
            ensure!(answer.contains("user-1"), "{answer}");
        }
    }
    let refreshes = gateway.process.output().matches("token refreshed").count();
    ensure!(refreshes == 3, "{refreshes} refreshes for 3 expiries: {}", server.output());
    // The stored token is the last one: a restarted gateway needs no login.
    server.expire_tokens()?;
    let gateway = gateway.restart()?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    ensure!(text(&mut client, "whoami")?.contains("user-1"));
    Ok(())
}

#[test]
fn expired_token_is_refreshed_before_use() -> Result<()> {
    // Tokens that live for less than the margin of refreshes: each call needs a new one.
    let server = AuthorizationServer::start(&[("TTL", "4")])?;
    let folder = peers::folder("oauth-expiry")?;
    let gateway = start(&server, &folder)?;
    login(&gateway, &["notes"])?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    for _ in 0..3 {
        ensure!(text(&mut client, "whoami")?.contains("user-1"));
    }
    gateway.process.wait_for_output(&["token refreshed"])?;
    Ok(())
}

#[test]
fn device_flow_needs_no_browser_here() -> Result<()> {
    let (server, folder) = (AuthorizationServer::start(&[])?, peers::folder("oauth-device")?);
    let gateway = start(&server, &folder)?;
    let login = program(&["login", "notes", "--device"], &config(&gateway))?;
    let process = Process::start(login, false, "enter the code")?;
    let printed = process.output();
    let rest = printed.split_once("enter the code ").context("no code")?.1;
    let code = rest.split_whitespace().next().context("no code")?;
    browse(&format!("{}/device", server.base), &[&format!("user_code={code}")])?;
    stored(&process)?;
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    ensure!(text(&mut client, "whoami")?.contains("user-1"));
    // Where it is not offered, the command says so.
    let server = AuthorizationServer::start(&[("NO_DEVICE", "1")])?;
    let gateway = start(&server, &folder)?;
    // The token is that of another URL, and is not sent to this one.
    let refused = connect(&gateway, &[])?;
    ensure!(refused.contains("for another URL"), "{refused}");
    ensure!(server.received()?.is_empty());
    let output = program(&["login", "notes", "--device"], &config(&gateway))?.output()?;
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(printed.contains("offers no device flow") && !output.status.success(), "{printed}");
    Ok(())
}

#[test]
fn forged_answers_are_refused() -> Result<()> {
    let (server, folder) = (AuthorizationServer::start(&[])?, peers::folder("oauth-forged")?);
    let gateway = start(&server, &folder)?;
    let begin_login = || {
        let login = program(&["login", "notes", "--no-browser"], &config(&gateway))?;
        Process::start(login, false, "\n  http")
    };
    let process = begin_login()?;
    let url = page(&process.output())?;
    let parameter = |name: &str| -> Result<String> {
        let (_, rest) = url.split_once(&format!("{name}=")).context("no parameter")?;
        Ok(rest.split('&').next().unwrap_or_default().to_owned())
    };
    ensure!(parameter("code_challenge_method")? == "S256", "{url}");
    let callback = parameter("redirect_uri")?.replace("%3A", ":").replace("%2F", "/");
    let (state, issuer) = (parameter("state")?, server.base.replace(':', "%3A"));
    // A page in the browser does not know the state. It changes nothing.
    let forged = get(&format!("{callback}?code=x&state=guess&iss={issuer}"), &[])?;
    ensure!(forged.status == 400, "{}", forged.body);
    let other = format!("{callback}?code=x&state={state}&iss=https%3A%2F%2Fevil.example");
    let refused = get(&other, &[])?;
    ensure!(refused.status == 400 && refused.body.contains("another issuer"), "{}", refused.body);
    wait_until("the refusal", || Ok(process.output().contains("another issuer")))?;
    // The real answer after a guess is accepted.
    let process = begin_login()?;
    let url = page(&process.output())?;
    browse(&url, &[])?;
    stored(&process)?;
    // Metadata of another issuer.
    let posing =
        AuthorizationServer::start(&[("ISSUER", &server.base.replace("127.0.0.1", "localhost"))])?;
    let gateway = start(&posing, &folder)?;
    let login = ["login", "notes", "--no-browser"];
    std::fs::remove_dir_all(folder.join("tokens"))?;
    let output = program(&login, &config(&gateway))?.output()?;
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(!output.status.success() && printed.contains("another issuer"), "{printed}");
    Ok(())
}
