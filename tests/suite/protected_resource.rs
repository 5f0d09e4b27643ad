//! The gateway as an OAuth protected resource: its metadata, its challenges, and a real client.

use std::net::TcpListener;
use std::process::Command;

use context_guard_test_support::authorization::{AuthorizationServer, connect_sdk};
use context_guard_test_support::gateway::{Gateway, get, post};
use context_guard_test_support::{Result, artifacts, ensure, peers};
use serde_json::{Value, json};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

fn houses() -> Result<Value> {
    Ok(json!([{"name": "houses", "command": [artifacts::property_server()?]}]))
}

/// Returns an address of loopback that was free just now.
fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

#[test]
fn real_client_logs_in_with_published_metadata() -> Result<()> {
    let server = AuthorizationServer::start(&[])?;
    let address = free_address()?;
    let jwt = json!({
        "jwksUrl": format!("{}/jwks", server.base),
        "issuer": server.base,
        "audience": format!("http://{address}/mcp"),
        "scopes": ["read"],
    });
    let access = json!({"jwt": jwt, "rateLimit": {"perMinute": 0}});
    let gateway = Gateway::start(houses()?, json!({"listen": address, "access": access}))?;
    let connected = connect_sdk(&gateway.url())?;
    let tools = connected["tools"].to_string();
    ensure!(tools.contains("list_bookings"), "{connected}");
    ensure!(connected["tokens"]["scope"] == "read", "{connected}");
    Ok(())
}

#[test]
fn refusals_lead_to_the_metadata() -> Result<()> {
    let folder = peers::folder("resource")?;
    let script = artifacts::root().join("tests/support/clients/tokens.py");
    let python = artifacts::peers()?.join("py/bin/python");
    let output = Command::new(python).arg(script).arg(&folder).output()?;
    let tokens: Value = serde_json::from_slice(&output.stdout)?;
    let jwt = json!({
        "jwksFile": folder.join("jwks.json"), "issuer": "https://issuer.example", "audience": "guard",
        "authorizationServers": ["https://login.example"], "scopes": ["files:read", "files:write"],
    });
    let access = json!({"jwt": jwt, "rateLimit": {"perMinute": 0}});
    let gateway = Gateway::start(houses()?, json!({"access": access}))?;
    let metadata_url = format!("{}/.well-known/oauth-protected-resource/mcp", gateway.base);
    let expected = json!({
        "resource": gateway.url(),
        "authorization_servers": ["https://login.example"],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["files:read", "files:write"],
    });
    for url in [&metadata_url, metadata_url.trim_end_matches("/mcp")] {
        let published = get(url, &[])?;
        ensure!(published.status == 200, "{}", published.body);
        ensure!(serde_json::from_str::<Value>(&published.body)? == expected, "{}", published.body);
    }
    // A foreign Host must not become the address of the resource.
    let foreign = get(&metadata_url, &[("host", "evil.example")])?;
    ensure!(foreign.status == 403, "{} {}", foreign.status, foreign.body);
    let challenge = |bearer: &str, status: u16| -> Result<String> {
        let headers = [("authorization", bearer)];
        let headers = if bearer.is_empty() { &[][..] } else { &headers[..] };
        let refused = post(&gateway.url(), headers, PING)?;
        ensure!(refused.status == status, "{} {}", refused.status, refused.body);
        Ok(refused.header("www-authenticate").to_owned())
    };
    let rest = format!("scope=\"files:read files:write\", resource_metadata=\"{metadata_url}\"");
    ensure!(challenge("", 401)? == format!("Bearer {rest}"));
    let invalid = challenge("Bearer x", 401)?;
    ensure!(invalid.starts_with("Bearer error=\"invalid_token\", "), "{invalid}");
    ensure!(invalid.ends_with(&rest), "{invalid}");
    let good = format!("Bearer {}", tokens["good"].as_str().unwrap_or_default());
    let lacking = challenge(&good, 403)?;
    ensure!(lacking.starts_with("Bearer error=\"insufficient_scope\", "), "{lacking}");
    ensure!(lacking.ends_with(&rest), "{lacking}");
    // Without a checked Host, a gateway that listens everywhere cannot know its URL.
    let open = json!({"listen": "0.0.0.0:0", "access": access});
    let open = Gateway::start(houses()?, open)?;
    let port = open.base.rsplit(':').next().unwrap_or_default();
    let base = format!("http://127.0.0.1:{port}");
    let unknown = get(&format!("{base}/.well-known/oauth-protected-resource"), &[])?;
    ensure!(unknown.status == 401, "{} {}", unknown.status, unknown.body);
    let refused = post(&format!("{base}/mcp"), &[("host", "evil.example")], PING)?;
    ensure!(!refused.header("www-authenticate").contains("evil"), "the Host was reflected");
    Ok(())
}
