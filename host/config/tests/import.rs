//! `config import` converts the configuration of each client.
//!
//! `clients/` has one file per client, made from its documentation, and the expected result. With
//! CONTEXT_GUARD_BLESS=1 the test writes the results.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use context_guard_config::{Import, References, import, parse};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

fn imported(name: &str, text: &str) -> Import {
    import(Path::new(name), text).unwrap()
}

/// Returns the result as text. The folder of this package becomes `ROOT`.
fn described(result: &Import) -> String {
    let mut text = result.yaml.clone();
    for (name, fields) in &result.variables {
        writeln!(text, "# set {name}: {}", fields.join(", ")).unwrap();
    }
    for (kind, messages) in [("skipped", &result.skipped), ("note", &result.notes)] {
        for message in messages {
            writeln!(text, "# {kind} {message}").unwrap();
        }
    }
    text.replace(&folder().display().to_string(), "ROOT")
}

fn check(client: &str, file: &str) {
    let path = folder().join(client).join(file);
    let result = import(&path, &std::fs::read_to_string(&path).unwrap()).unwrap();
    parse(Path::new("gateway.yaml"), &result.yaml, [], References::Keep).unwrap();
    let expected = folder().join(client).join("expected.yaml");
    if std::env::var_os("CONTEXT_GUARD_BLESS").is_some() {
        std::fs::write(&expected, described(&result)).unwrap();
    }
    assert_eq!(described(&result), std::fs::read_to_string(expected).unwrap());
}

macro_rules! clients {
    ($($name:ident: $folder:literal $file:literal;)*) => {
        $(#[test] fn $name() { check($folder, $file); })*
    };
}

clients! {
    claude_desktop: "claude-desktop" "claude_desktop_config.json";
    claude_code: "claude-code" ".mcp.json";
    claude_code_user: "claude-code-user" ".claude.json";
    cursor: "cursor" ".cursor/mcp.json";
    vs_code: "vs-code" ".vscode/mcp.json";
    windsurf: "windsurf" "mcp_config.json";
    cline: "cline" "cline_mcp_settings.json";
    gemini_cli: "gemini-cli" "settings.json";
    zed: "zed" "settings.json";
    opencode: "opencode" "opencode.jsonc";
    opencode_v2: "opencode-v2" "opencode.jsonc";
    lm_studio: "lm-studio" "mcp.json";
    codex: "codex" "config.toml";
    goose: "goose" "config.yaml";
}

/// Returns the upstreams of the result.
fn upstreams(result: &Import) -> Vec<context_guard_config::Upstream> {
    parse(Path::new("gateway.yaml"), &result.yaml, [], References::Keep).unwrap().upstreams
}

fn fault(text: &str) -> String {
    import(Path::new("client.json"), text).unwrap_err().to_string()
}

#[test]
fn files_without_servers_are_errors() {
    for text in ["{}", "", "// nothing\n{}", r#"{"mcpServers": {}}"#, "a: b\n", "[x]\ny = 1\n"] {
        assert!(fault(text).contains("client.json: the file contains no MCP servers"), "{text}");
    }
    assert!(
        fault(r#"{"mcpServers": {"a": {"args": ["x"]}}}"#)
            .contains("mcpServers.a: the server has neither `command` nor `url`")
    );
    assert!(fault(r#"{"mcpServers": {"a": "#).contains("invalid JSON"));
    assert!(fault("[mcp_servers.a\ncommand = 1").contains("invalid TOML"));
    assert!(fault("extensions:\n  a: [1\nb").contains("invalid YAML"));
    assert!(fault("only words").contains("JSON, TOML or YAML"));
}

#[test]
fn wrapped_commands_are_unwrapped() {
    for wrapped in [
        r#"["context-guard", "wrap", "--", "srv", "--", "-x"]"#,
        r#"["/opt/bin/context-guard", "wrap", "srv", "--", "-x"]"#,
        r#"["C:\\cg\\context-guard.exe", "-v", "wrap", "--policy", "p.yaml", "--", "srv", "--", "-x"]"#,
        r#"["npx", "-y", "context-guard@1.2.3", "wrap", "--name=a", "--", "srv", "--", "-x"]"#,
        r#"["npx", "-y", "-p", "context-guard", "context-guard", "wrap", "--", "srv", "--", "-x"]"#,
        r#"["npm", "exec", "context-guard", "--", "wrap", "--", "srv", "--", "-x"]"#,
        r#"["cmd", "/c", "npx", "context-guard", "wrap", "--learn", "srv", "--", "-x"]"#,
        r#"["context-guard", "wrap", "--", "context-guard", "wrap", "--", "srv", "--", "-x"]"#,
    ] {
        let text = format!(r#"{{"mcp": {{"a": {{"type": "local", "command": {wrapped}}}}}}}"#);
        let result = imported("opencode.json", &text);
        assert_eq!(upstreams(&result)[0].command, ["srv", "--", "-x"], "{wrapped}");
    }
    // A server with this word in an argument is not wrapped.
    let text =
        r#"{"mcpServers": {"a": {"command": "grep", "args": ["context-guard", "wrap", "x"]}}}"#;
    assert_eq!(upstreams(&imported("m.json", text))[0].command.len(), 4);
}

#[test]
fn servers_without_a_program_are_skipped() {
    let text = r#"{"mcpServers": {
        "a": {"command": "", "args": ["x"]},
        "b": {"command": "b", "args": null}
    }}"#;
    let result = imported("mcp.json", text);
    assert_eq!(result.servers.len(), 1);
    assert!(result.skipped[0].contains("the program is empty"), "{:?}", result.skipped);
}

#[test]
fn copies_of_skipped_servers_are_skipped() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "type": "sse"}, "b": {"command": "b"}}}"#;
    let files = [(Path::new("one.json"), text), (Path::new("two.json"), text)];
    let result = context_guard_config::import_all(&files, &|_| None).unwrap();
    let names: Vec<&str> = result.servers.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["b", "b"]);
    let reject = |server: &context_guard_config::ImportedServer| {
        (server.name == "b" && server.file == Path::new("one.json")).then(|| "no".to_owned())
    };
    let result = context_guard_config::import_all(&files, &reject).unwrap();
    assert_eq!(result.servers.len(), 1);
    assert_eq!(result.servers[0].upstream, "b");
    assert!(result.skipped.contains(&"one.json: mcpServers.b: no".to_owned()));
}

#[test]
fn lists_of_gemini_disable_servers() {
    for lists in [
        r#""mcp": {"allowed": ["a"]}"#,
        r#""allowMCPServers": ["a"]"#,
        r#""excludeMCPServers": ["b"]"#,
    ] {
        let servers = r#""mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}"#;
        let result = imported("settings.json", &format!("{{{lists}, {servers}}}"));
        let upstreams = upstreams(&result);
        assert_eq!(upstreams.len(), 1, "{lists}");
        assert_eq!(upstreams[0].name, "a", "{lists}");
    }
}

#[test]
fn different_secrets_have_different_variables() {
    let text = r#"{"mcpServers": {
        "a": {"command": "a", "env": {"TOKEN": "first"}},
        "b": {"command": "b", "env": {"TOKEN": "second", "MAX_TOKENS": "500", "AUTHOR": "Ada"}},
        "c": {"command": "c", "env": {"TOKEN": "first"}, "args": ["--api-key", "abcdefgh"]},
        "d": {"command": "d", "args": ["postgres://ada:lovelace@db/x", "--header=X-Key: k1234567"]},
        "e": {"url": "https://e.example/mcp", "headers": {"Authorization": "Basic YTpi"}}
    }}"#;
    let result = imported("mcp.json", text);
    for secret in ["first", "second", "abcdefgh", "lovelace", "k1234567", "YTpi"] {
        assert!(!described(&result).contains(secret), "{secret} in {}", described(&result));
    }
    for kept in ["MAX_TOKENS: '500'", "AUTHOR: Ada", "Basic ${env:E_AUTHORIZATION}"] {
        assert!(result.yaml.contains(kept), "{kept} not in {}", result.yaml);
    }
    let names: Vec<_> = result.variables.keys().map(String::as_str).collect();
    assert_eq!(names, ["B_TOKEN", "C_API_KEY", "D_SECRET", "D_X_KEY", "E_AUTHORIZATION", "TOKEN"]);
    assert_eq!(result.variables["TOKEN"], ["a.env.TOKEN", "c.env.TOKEN"]);
}

#[test]
fn references_without_equivalent_are_refused() {
    for (value, reason) in [
        ("${workspaceFolder}/x", "is the folder that is open in the client"),
        ("${command:pick}", "has no equivalent"),
        ("${fileDirname}", "is known to the client alone"),
        ("${X", "is never closed"),
        ("${A:-${B}}", "contains another reference"),
    ] {
        let text = format!(
            r#"{{"mcpServers": {{"a": {{"command": "a", "env": {{"V": "{value}"}}}}, "b": {{"command": "b"}}}}}}"#
        );
        let result = imported("mcp.json", &text);
        assert_eq!(upstreams(&result).len(), 1);
        let message = &result.skipped[0];
        assert!(
            message.starts_with("mcp.json: mcpServers.a: env.V: `${") && message.contains(reason),
            "{message}"
        );
    }
}

#[test]
fn containers_of_other_clients_are_found() {
    for (name, text) in [
        ("settings.json", r#"{"amp.mcpServers": {"x": {"command": "x"}}}"#),
        ("settings.json", r#"{"mcp": {"servers": {"x": {"command": "x"}}, "inputs": []}}"#),
        (
            "devcontainer.json",
            r#"{"customizations": {"vscode": {"mcp": {"servers": {"x": {"command": "x"}}}}}}"#,
        ),
        (".mcp.json", "\u{feff}{\"x\": {\"command\": \"x\"}}"),
        ("config.yaml", "mcpServers:\n  - name: x\n    command: x\n"),
        ("librechat.yaml", "version: 1\nmcpServers:\n  x:\n    command: x\n"),
    ] {
        let upstreams = upstreams(&imported(name, text));
        assert_eq!((upstreams[0].name.as_str(), upstreams.len()), ("x", 1), "{text}");
    }
}

#[test]
fn names_are_valid_and_unique() {
    let long = "a-very-long-name-of-a-server-that-is-cut";
    let text = format!(
        r#"{{"mcpServers": {{"my files": {{"command": "a"}}, "my-files": {{"command": "b"}},
            "{long}1": {{"command": "c"}}, "{long}2": {{"command": "d"}},
            "日本": {{"command": "e"}}, "a__b_": {{"command": "f"}}}}}}"#
    );
    let result = imported("mcp.json", &text);
    let names: Vec<String> = upstreams(&result).into_iter().map(|one| one.name).collect();
    let long = long.get(..32).unwrap();
    let numbered = format!("{}-2", long.get(..30).unwrap());
    assert_eq!(names, ["my-files", "my-files-2", long, &numbered, "server", "a_b"]);
    assert_eq!(result.notes.len(), 6);
}

#[test]
fn disabled_upstreams_need_no_variables() {
    let text = r#"{"mcpServers": {"x": {"command": "x", "disabled": true,
        "env": {"K_TOKEN": "${env:CONTEXT_GUARD_NO_SUCH_VARIABLE}"}}, "y": {"command": "y"}}}"#;
    let result = imported("mcp.json", text);
    let config = parse(Path::new("g.yaml"), &result.yaml, [], References::Resolve).unwrap();
    assert_eq!((config.upstreams[0].name.as_str(), config.disabled), ("y", vec!["x".to_owned()]));
}

#[test]
fn references_in_commands_and_urls_are_resolved() {
    let text = "upstreams:\n  - name: a\n    command: [sh, -c, 'echo ${PATH} ${x', '${env:NONE_SUCH:-left}']\n  - name: b\n    url: 'https://${env:NONE_SUCH:-b.example}/mcp'\n";
    let config = parse(Path::new("g.yaml"), text, [], References::Resolve).unwrap();
    assert_eq!(config.upstreams[0].command, ["sh", "-c", "echo ${PATH} ${x", "left"]);
    assert_eq!(config.upstreams[1].url.as_deref(), Some("https://b.example/mcp"));
    let missing = text.replace(":-left", "");
    let fault = parse(Path::new("g.yaml"), &missing, [], References::Resolve).unwrap_err();
    assert!(fault.to_string().contains("line 3: upstreams[0].command[3]"), "{fault}");
}
