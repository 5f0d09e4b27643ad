//! `doctor` on the command line.

use serde_json::Value;

use crate::{Home, PROGRAM, code, example, out};

/// Runs `doctor --json`, and returns its exit code and checks.
fn checks(home: &Home, arguments: &[&str]) -> (i32, Vec<Value>) {
    let output = home.run(&[&["doctor", "--json"], arguments].concat());
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    (code(&output), report["checks"].as_array().unwrap().clone())
}

fn find<'a>(checks: &'a [Value], check: &str, subject: &str) -> &'a Value {
    let is_wanted =
        |one: &&Value| one["check"] == check && one["subject"].as_str().unwrap().contains(subject);
    checks.iter().find(is_wanted).unwrap_or_else(|| panic!("no {check} {subject}: {checks:#?}"))
}

#[test]
fn servers_are_started_once() {
    let home = Home::new();
    home.write(".cursor/mcp.json", &example("files"));
    let (code, checks) = checks(&home, &[]);
    assert_eq!(code, 0, "{checks:#?}");
    let start = find(&checks, "start", "cursor: files");
    assert_eq!(start["status"], "ok");
    assert!(start["message"].as_str().unwrap().starts_with("8 tools"), "{start}");
    assert_eq!(find(&checks, "guard", "cursor: files")["status"], "warning");
}

#[cfg(unix)]
#[test]
fn failures_say_what_to_do() {
    let home = Home::new();
    let text = r#"{"mcpServers": {
        "missing": {"command": "no-such-program"},
        "silent": {"command": "sleep", "args": ["60"]},
        "dies": {"command": "sh", "args": ["-c", "echo no token >&2; exit 3"]},
        "off": {"command": "no-such-program", "disabled": true},
        "moved": {"command": "/gone/context-guard", "args": ["wrap", "--", "sh"]}
    }}"#;
    home.write(".cursor/mcp.json", text);
    let (code, checks) = checks(&home, &["--timeout", "1"]);
    assert_eq!(code, 1);
    let advice = |check, subject| {
        let found = find(&checks, check, subject);
        format!("{} {} {}", found["status"], found["message"], found["advice"])
    };
    assert!(advice("command", "missing").contains("install no-such-program"));
    assert!(advice("start", "silent").contains("in time"));
    assert!(advice("start", "dies").contains("no token"));
    assert!(advice("server", "off").contains("disabled"));
    assert!(advice("command", "moved").contains("install --undo"));
}

#[test]
fn endpoints_of_gateways_are_checked() {
    let home = Home::new();
    let endpoint = |arguments: &str| {
        let text = format!(
            r#"{{"mcpServers": {{"context-guard": {{"command": "{PROGRAM}", "args": [{arguments}]}}}}}}"#
        );
        home.write(".cursor/mcp.json", &text);
    };
    endpoint(r#""stdio", "--config", "/no/gateway.yaml""#);
    let (code, all) = checks(&home, &[]);
    assert_eq!(code, 1, "{all:#?}");
    let start = find(&all, "start", "cursor: context-guard");
    assert!(start["message"].as_str().unwrap().contains("/no/gateway.yaml"), "{start}");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = format!(r#"{{"mcpServers": {{"context-guard": {{"url": "http://{free}/mcp"}}}}}}"#);
    home.write(".cursor/mcp.json", &text);
    let (code, all) = checks(&home, &[]);
    assert_eq!(code, 1, "{all:#?}");
    assert_eq!(find(&all, "endpoint", "cursor: context-guard")["status"], "failed");
}

#[cfg(unix)]
#[test]
fn servers_start_where_the_client_starts_them() {
    let home = Home::new();
    let server = home.write("shop/srv", "#!/bin/sh\nexec \"$SERVER\" example-server\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&server, mode).unwrap();
    let env = format!(r#""env": {{"SERVER": "{PROGRAM}"}}"#);
    let shop = home.path("shop").display().to_string();
    home.write(
        ".claude.json",
        &format!(
            r#"{{"projects": {{"{shop}": {{"mcpServers": {{"db": {{"command": "./srv", {env}}}}}}}}}}}"#
        ),
    );
    let gemini = format!(
        r#"{{"mcpServers": {{"srv": {{"command": "$HOME/shop/srv", {env}}},
            "gone": {{"command": "x", "cwd": "/no/folder"}}}}}}"#
    );
    home.write(".gemini/settings.json", &gemini);
    home.write(".config/Code/User/settings.json", r#"{"editor.fontSize": 12 "a": 1}"#);
    let (_, all) = checks(&home, &[]);
    assert_eq!(find(&all, "start", &format!("claude-code: {shop}: db"))["status"], "ok");
    assert_eq!(find(&all, "start", "gemini-cli: srv")["status"], "ok");
    let gone = find(&all, "command", "gemini-cli: gone");
    assert!(gone["message"].as_str().unwrap().contains("its folder /no/folder"), "{gone}");
    let is_failed = |one: &&Value| one["status"] == "failed";
    assert_eq!(all.iter().filter(is_failed).count(), 1, "{all:#?}");
}

#[test]
fn gateway_file_ports_and_store_are_checked() {
    let home = Home::new();
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    home.write(
        "project/gateway.yaml",
        &format!(
            "listen: {address}\nupstreams:\n  - name: a\n    command: [{PROGRAM}, example-server]\n"
        ),
    );
    let (code, all) = checks(&home, &["--no-start", "--config", "gateway.yaml"]);
    assert_eq!(code, 1);
    assert_eq!(find(&all, "port", "listen")["status"], "failed");
    assert_eq!(find(&all, "store", "store")["status"], "ok");
    drop(socket);
    let (code, all) = checks(&home, &["--no-start", "--config", "gateway.yaml"]);
    assert_eq!(code, 0, "{all:#?}");
}

#[cfg(unix)]
#[test]
fn upstreams_are_started_as_the_gateway_does() {
    let home = Home::new();
    let upstreams = format!(
        r#"listen: 127.0.0.1:0
upstreams:
  - name: example
    command: [{PROGRAM}, example-server]
  - name: variables
    command: [sh, -c, 'echo "client: $SECRET, own: $OWN" >&2; exit 3']
    env: {{OWN: value}}
  - name: web
    url: http://127.0.0.1:9/mcp
"#
    );
    home.write("project/gateway.yaml", &upstreams);
    let arguments = ["doctor", "--json", "--config", "gateway.yaml"];
    let output = home.command(&arguments).env("SECRET", "leaked").output().unwrap();
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    let all = report["checks"].as_array().unwrap();
    assert_eq!(code(&output), 1);
    let example = find(all, "start", "gateway.yaml: example");
    assert!(example["message"].as_str().unwrap().starts_with("8 tools"), "{example}");
    let variables = find(all, "start", "gateway.yaml: variables");
    assert!(variables["message"].as_str().unwrap().contains("client: , own: value"), "{variables}");
    assert_eq!(find(all, "server", "gateway.yaml: web")["status"], "skipped");
}

#[cfg(unix)]
#[test]
fn readable_keys_are_failures() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    assert_eq!(checks(&home, &["--no-start"]).0, 0);
    let key = home.path(".local/state/context-guard/signing-key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, all) = checks(&home, &["--no-start"]);
    assert_eq!(code, 1);
    assert!(find(&all, "keys", "signing")["advice"].as_str().unwrap().contains("chmod 600"));
}
