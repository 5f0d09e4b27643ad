//! Credentials and paths of requests to upstreams: nobody receives another's token, and no spelling
//! of a path evades a rule.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use context_guard_test_support::gateway::{Gateway, HttpClient, get};
use context_guard_test_support::scripted::{ScriptedResponse, ScriptedServer};
use context_guard_test_support::{Result, artifacts, ensure, peers};
use serde_json::{Value, json};

/// Starts an API whose lists name the caller's token.
fn api() -> Result<ScriptedServer> {
    ScriptedServer::from_fn(|request| {
        let owner = request.header("authorization");
        let rows: Vec<Value> = (0..500)
            .map(|at| json!({"id": at, "title": format!("mail {at} of {owner}"), "read": false}))
            .collect();
        ScriptedResponse::json(Value::from(rows).to_string())
    })
}

/// Starts an MCP server with one tool.
fn mcp_server() -> Result<ScriptedServer> {
    ScriptedServer::from_fn(|request| {
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let Some(id) = message.get("id") else { return ScriptedResponse::empty(202) };
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "mail", "version": "1"},
            }),
            Some("tools/list") => {
                json!({"tools": [{"name": "ping", "inputSchema": {"type": "object"}}]})
            }
            _ => json!({"content": [{"type": "text", "text": "pong"}]}),
        };
        ScriptedResponse::json(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
    })
}

/// Sends a GET request whose path no library normalizes, and returns the status of the answer.
fn raw_get(gateway: &Gateway, path: &str) -> Result<u16> {
    let address = gateway.base.trim_start_matches("http://");
    let mut connection = TcpStream::connect(address)?;
    write!(connection, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer.split(' ').nth(1).unwrap_or_default().parse()?)
}

#[test]
fn path_variants_do_not_evade_rules() -> Result<()> {
    let server = api()?;
    let endpoints = json!([
        {"path": "/api/admin*", "allow": false},
        {"path": "*", "guard": false},
    ]);
    let rest = json!({"url": format!("{}/tenant1", server.url()), "endpoints": endpoints});
    let gateway = Gateway::start(json!([{"name": "api", "rest": rest}]), json!({}))?;
    for path in [
        "/api/admin/x",
        "/api/%61dmin/x",
        "/api//admin/x",
        "/api/./admin/x",
        "/api/x/../admin/x",
        "/api/x/%2e%2e/admin/x",
        "/api/%2fadmin/x",
        "/api/;a/admin/x",
        "/api/ADMIN/x",
        "/api/\\admin",
        "/api/%5cadmin",
        "/api/../../tenant2/x",
        "/api/%2e%2e/%2E%2e/tenant2/x",
        "/api/..%2f..%2ftenant2/x",
        "/api/..;/..;/tenant2/x",
        "/api/admin%00",
        "//api/admin/x",
    ] {
        let status = raw_get(&gateway, path)?;
        ensure!([400, 403].contains(&status), "{path}: {status}");
        ensure!(server.requests().is_empty(), "{path}: the API received {:?}", server.requests());
    }
    ensure!(raw_get(&gateway, "/api/%75sers/./1%20a?x=%2f")? == 200);
    let line = server.requests().last().map(|request| request.line.clone()).unwrap_or_default();
    ensure!(line.starts_with("GET /tenant1/api/users/1%20a?x=%2f "), "{line}");
    let url = format!("{}/api/users", gateway.base);
    let overridden = get(&url, &[("x-http-method-override", "DELETE")])?;
    ensure!(overridden.status == 400, "{}", overridden.body);
    Ok(())
}

#[test]
fn several_upstreams_receive_no_credentials_of_clients() -> Result<()> {
    let (one, two) = (api()?, api()?);
    let upstream = |name: &str, server: &ScriptedServer, prefix: &str| {
        let rest = json!({"url": server.url(), "prefix": prefix});
        json!({"name": name, "rest": rest})
    };
    let credentials =
        [("authorization", "Bearer for-one"), ("cookie", "session=1"), ("x-api-key", "k")];
    let upstreams = json!([upstream("one", &one, "/one"), upstream("two", &two, "/two")]);
    let gateway = Gateway::start(upstreams, json!({}))?;
    for (server, path) in [(&one, "/one/x"), (&two, "/two/x")] {
        ensure!(get(&format!("{}{path}", gateway.base), &credentials)?.status == 200);
        let received = server.requests().last().cloned().unwrap_or_default();
        for (name, _) in credentials {
            ensure!(received.header(name).is_empty(), "{path}: received {name}");
        }
    }
    // A single upstream is the server to which the client would otherwise talk directly.
    let gateway = Gateway::start(json!([upstream("one", &one, "/one")]), json!({}))?;
    ensure!(get(&format!("{}/one/x", gateway.base), &credentials)?.status == 200);
    let received = one.requests().last().cloned().unwrap_or_default();
    ensure!(received.header("authorization") == "Bearer for-one", "{received:?}");
    Ok(())
}

#[test]
fn users_behind_one_key_share_no_answers() -> Result<()> {
    let server = api()?;
    let keys = peers::folder("credentials")?.join("keys.json");
    let created = Command::new(artifacts::program()?)
        .args(["key", "new", "--name", "application", "--file"])
        .arg(&keys)
        .output()?;
    let key = String::from_utf8(created.stdout)?.trim().to_owned();
    let upstream =
        json!({"name": "api", "authorization": "forward", "rest": {"url": server.url()}});
    let settings = json!({"access": {"keys": keys}, "cache": {}});
    let gateway = Gateway::start(json!([upstream]), settings)?;
    let ask = |user: &str, query: &str| {
        let url = format!("{}/mails{query}", gateway.base);
        get(&url, &[("x-api-key", &key), ("authorization", &format!("Bearer {user}"))])
    };
    let (first, second) = (ask("user-a", "?limit=5")?, ask("user-b", "?limit=5")?);
    ensure!(first.body.contains("of Bearer user-a"), "{}", first.body);
    ensure!(second.body.contains("of Bearer user-b"), "{}", second.body);
    let link = first.header("link");
    let (_, rest) = link.split_once("cursor=").unwrap_or_default();
    let cursor = rest.split(['>', '&']).next().unwrap_or_default();
    let own = ask("user-a", &format!("?cursor={cursor}"))?;
    ensure!(own.status == 200 && own.body.contains("user-a"), "{} {}", own.status, own.body);
    let stolen = ask("user-b", &format!("?cursor={cursor}"))?;
    ensure!(stolen.status == 400 && !stolen.body.contains("user-a"), "{}", stolen.body);
    Ok(())
}

#[test]
fn upstreams_receive_no_key_of_the_gateway() -> Result<()> {
    let (one, two) = (api()?, mcp_server()?);
    let keys = peers::folder("credentials-key")?.join("keys.json");
    let created = Command::new(artifacts::program()?)
        .args(["key", "new", "--name", "application", "--file"])
        .arg(&keys)
        .output()?;
    let key = String::from_utf8(created.stdout)?.trim().to_owned();
    let upstreams = json!([
        {"name": "one", "authorization": "forward", "rest": {"url": one.url(), "prefix": "/one"}},
        {"name": "two", "authorization": "forward", "url": format!("{}/mcp", two.url())},
        {"name": "three", "authorization": "forward", "url": format!("{}/mcp", two.url())},
    ]);
    let gateway = Gateway::start(upstreams, json!({ "access": {"keys": keys} }))?;
    let bearer = format!("Bearer {key}");
    // A key of another gateway, which is the upstream, is none of this one.
    let other = "Bearer cg_other_gateway";
    for (given, received) in [
        (vec![("authorization", bearer.as_str())], ["", ""]),
        (vec![("x-api-key", key.as_str())], ["", ""]),
        (vec![("x-api-key", key.as_str()), ("authorization", bearer.as_str())], ["", ""]),
        (vec![("x-api-key", key.as_str()), ("authorization", other)], [other, ""]),
        (vec![("x-api-key", "other"), ("authorization", bearer.as_str())], ["", "other"]),
    ] {
        let status = get(&format!("{}/one/x", gateway.base), &given)?.status;
        ensure!(status == 200, "{given:?}: {status}");
        let mut client = HttpClient::open(&gateway.url(), &given, json!({}))?;
        ensure!(!client.call("two_ping", json!({}))?.is_error());
        for server in [&one, &two] {
            let request = server.requests().last().cloned().unwrap_or_default();
            let names = ["authorization", "x-api-key"];
            ensure!(names.map(|name| request.header(name)) == received, "{given:?}: {request:?}");
        }
    }
    let (one, two) = (one.requests(), two.requests());
    for request in one.iter().chain(two.iter()) {
        ensure!(!format!("{request:?}").contains(&key), "{request:?}");
    }
    Ok(())
}
