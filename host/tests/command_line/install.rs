//! `install` on the command line.

use serde_json::Value;

use crate::{Home, PROGRAM, code, errors, example, out};

#[test]
fn install_and_undo_restore_the_bytes() {
    let home = Home::new();
    let before = example("files");
    home.write(".cursor/mcp.json", &before);
    let output = home.run(&["install", "--yes"]);
    assert_eq!(code(&output), 0, "{}", errors(&output));
    let after = home.read(".cursor/mcp.json");
    assert!(after.contains("\"args\": [\"wrap\", \"--\", "), "{after}");
    assert!(after.contains("// mine"), "{after}");
    assert!(!out(&output).contains("secret-value"), "{}", out(&output));
    let again = home.run(&["install", "--yes"]);
    assert!(out(&again).contains("guarded already"), "{}", out(&again));
    assert_eq!(home.read(".cursor/mcp.json"), after);
    let undone = home.run(&["install", "--undo", "--yes"]);
    assert_eq!(code(&undone), 0, "{}", errors(&undone));
    assert_eq!(home.read(".cursor/mcp.json"), before);
}

#[test]
fn nothing_is_written_without_a_terminal_or_yes() {
    let home = Home::new();
    home.write(".cursor/mcp.json", &example("files"));
    let output = home.run(&["install"]);
    assert_eq!(code(&output), 2);
    assert!(errors(&output).contains("add --yes"), "{}", errors(&output));
    let output = home.run(&["install", "--dry-run"]);
    assert_eq!(code(&output), 0);
    assert_eq!(home.read(".cursor/mcp.json"), example("files"));
    assert!(!home.path(".local/state/context-guard/install").exists());
}

#[test]
fn invalid_files_fail_and_others_are_written() {
    let home = Home::new();
    home.write(".cursor/mcp.json", "{\"mcpServers\": {");
    home.write(".claude.json", &example("files"));
    let output = home.run(&["install", "--yes"]);
    assert_eq!(code(&output), 3);
    assert!(out(&output).contains("failed: invalid JSON"), "{}", out(&output));
    assert_eq!(home.read(".cursor/mcp.json"), "{\"mcpServers\": {");
    assert!(home.read(".claude.json").contains("wrap"));
}

#[test]
fn one_server_of_one_client_is_guarded() {
    let home = Home::new();
    let two = r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}"#;
    home.write(".cursor/mcp.json", two);
    home.write(".claude.json", two);
    let output = home.run(&["install", "--client", "cursor", "--server", "b", "--yes", "--json"]);
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(report["files"].as_array().unwrap().len(), 1);
    assert_eq!(report["files"][0]["status"], "changed");
    assert_eq!(report["files"][0]["servers"][0]["name"], "b");
    assert!(home.read(".cursor/mcp.json").contains(r#""a": {"command": "x"}"#));
    assert_eq!(home.read(".claude.json"), two);
    let output = home.run(&["install", "--server", "c", "--dry-run"]);
    assert_eq!(code(&output), 1);
    assert!(errors(&output).contains("known servers are a, b"), "{}", errors(&output));
}

#[test]
fn files_of_a_project_need_the_option() {
    let home = Home::new();
    home.write("project/.mcp.json", &example("files"));
    let output = home.run(&["install", "--yes"]);
    assert!(out(&output).contains("add --project"), "{}", out(&output));
    assert_eq!(home.read("project/.mcp.json"), example("files"));
    home.run(&["install", "--project", "--yes"]);
    assert!(home.read("project/.mcp.json").contains("wrap"));
    // Undo knows the file, in whichever folder it is started.
    let mut undo = home.command(&["install", "--undo", "--yes"]);
    assert!(undo.current_dir(home.path("")).status().unwrap().success());
    assert_eq!(home.read("project/.mcp.json"), example("files"));
}

#[test]
fn gateway_replaces_servers_and_is_undone() {
    let home = Home::new();
    home.write(".cursor/mcp.json", &example("files"));
    let output = home.run(&["install", "--gateway", "gateway.yaml", "--stdio", "--yes"]);
    assert_eq!(code(&output), 0, "{}", errors(&output));
    let after = home.read(".cursor/mcp.json");
    assert!(after.contains("\"stdio\", \"--config\""), "{after}");
    assert!(after.contains("\"env\": {\"API_KEY\": \"secret-value\"}"), "{after}");
    let gateway = home.read("project/gateway.yaml");
    assert!(gateway.contains("${env:API_KEY}") && !gateway.contains("secret-value"), "{gateway}");
    home.run(&["install", "--undo", "--yes"]);
    assert_eq!(home.read(".cursor/mcp.json"), example("files"));
}

/// Returns a configuration with one server that has a token.
fn with_token(name: &str, argument: &str, token: &str) -> String {
    format!(
        r#"{{"mcpServers": {{"{name}": {{"command": "npx", "args": ["{argument}"], "env": {{"API_TOKEN": "{token}"}}}}}}}}"#
    )
}

const DESKTOP: &str = ".config/Claude/claude_desktop_config.json";

#[cfg(target_os = "linux")]
#[test]
fn gateway_file_is_written_with_a_changed_file_only() {
    let home = Home::new();
    home.write(DESKTOP, &with_token("files", "fs", "sk-one"));
    let install =
        |more: &[&str]| home.run(&[&["install", "--gateway", "g.yaml", "--yes"], more].concat());
    let output = install(&[]);
    assert_eq!(code(&output), 3);
    assert!(out(&output).contains("add `--stdio`"), "{}", out(&output));
    assert!(!home.path("project/g.yaml").exists());
    // The servers of a file that fails are not in the gateway file.
    home.write(".cursor/mcp.json", &with_token("db", "db", "sk-two"));
    assert_eq!(code(&install(&[])), 3);
    let gateway = home.read("project/g.yaml");
    assert!(gateway.contains("name: db") && !gateway.contains("name: files"), "{gateway}");
}

#[cfg(target_os = "linux")]
#[test]
fn existing_gateway_gets_the_variables_of_the_client() {
    let home = Home::new();
    home.write(".cursor/mcp.json", &with_token("files", "fs", "sk-one"));
    home.write(DESKTOP, &with_token("files", "fs", "sk-one"));
    let output = home.run(&["install", "--client", "cursor", "--gateway", "g.yaml", "--yes"]);
    assert_eq!(code(&output), 0, "{}", errors(&output));
    assert!(out(&output).contains("API_TOKEN: its value is in the backup"), "{}", out(&output));
    let desktop = ["install", "--client", "claude-desktop", "--gateway", "g.yaml", "--stdio"];
    let output = home.run(&[&desktop[..], &["--yes"]].concat());
    assert_eq!(code(&output), 0, "{}", errors(&output));
    let endpoint = home.read(DESKTOP);
    assert!(endpoint.contains(r#""env": {"API_TOKEN": "sk-one"}"#), "{endpoint}");
    assert!(!out(&output).contains("API_TOKEN"), "{}", out(&output));
    // Another variable of the gateway has no value in the client's file.
    home.run(&["install", "--undo", "--yes"]);
    let more = "- name: db\n  command: [db]\n  env:\n    KEY: ${env:DB_KEY}\n";
    home.write("project/g.yaml", &(home.read("project/g.yaml") + more));
    let output = home.run(&[&desktop[..], &["--yes"]].concat());
    assert!(out(&output).contains("for the gateway:\n  DB_KEY\n"), "{}", out(&output));
}

#[test]
fn other_server_of_the_same_name_remains() {
    let home = Home::new();
    home.write(".cursor/mcp.json", &with_token("files", "/one", "sk-one"));
    let other = with_token("files", "/two", "sk-two");
    home.write(".codeium/windsurf/mcp_config.json", &other);
    home.run(&["install", "--client", "cursor", "--gateway", "g.yaml", "--yes"]);
    let output = home.run(&["install", "--client", "windsurf", "--gateway", "g.yaml", "--yes"]);
    assert!(out(&output).contains("another server of this name"), "{}", out(&output));
    assert_eq!(home.read(".codeium/windsurf/mcp_config.json"), other);
}

#[test]
fn servers_without_a_usable_command_are_not_in_the_gateway() {
    let home = Home::new();
    let text = r#"{"mcpServers": {"a": {"command": "npx -y x"}, "b": {"command": "y", "args": "z"},
        "c": {"command": "c"}}}"#;
    home.write(".cursor/mcp.json", text);
    let output = home.run(&["install", "--gateway", "g.yaml", "--yes"]);
    assert_eq!(code(&output), 0, "{}", errors(&output));
    let gateway = home.read("project/g.yaml");
    assert_eq!(gateway.matches("name:").count(), 1, "{gateway}");
    assert!(out(&output).contains("skipped: "), "{}", out(&output));
}

#[cfg(unix)]
#[test]
fn file_of_two_clients_is_edited_once() {
    let home = Home::new();
    let shared = home.write("shared/mcp.json", &example("files"));
    for link in [".cursor/mcp.json", ".codeium/windsurf/mcp_config.json"] {
        let link = home.path(link);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&shared, link).unwrap();
    }
    let output = home.run(&["install", "--yes"]);
    assert_eq!(code(&output), 0, "{}", errors(&output));
    assert!(home.read("shared/mcp.json").contains("wrap"));
    let output = home.run(&["install", "--undo", "--yes"]);
    assert_eq!(code(&output), 0, "{}", errors(&output));
    assert_eq!(home.read("shared/mcp.json"), example("files"));
}

#[test]
fn state_is_never_in_the_current_folder() {
    let home = Home::new();
    home.write(".cursor/mcp.json", &example("files"));
    let mut install = home.command(&["install", "--yes"]);
    assert!(install.env("XDG_STATE_HOME", "").status().unwrap().success());
    assert!(home.path(".local/state/context-guard/install").exists());
    assert!(!home.path("project/context-guard").exists());
}

#[test]
fn backup_of_a_changed_file_is_reported() {
    let home = Home::new();
    home.write(".cursor/mcp.json", &example("files"));
    home.run(&["install", "--yes"]);
    let changed = home.read(".cursor/mcp.json").replacen('{', "{\"theme\": 1, ", 1);
    home.write(".cursor/mcp.json", &changed);
    let output = home.run(&["install", "--undo", "--yes"]);
    assert!(out(&output).contains("the file before `install` remains in"), "{}", out(&output));
}

#[test]
fn named_file_is_edited() {
    let home = Home::new();
    home.write("project/other.json", &example("files"));
    let arguments = ["install", "--client", "cursor", "--file", "other.json", "--yes"];
    let output = home.run(&arguments);
    assert_eq!(code(&output), 0, "{}", errors(&output));
    assert!(home.read("project/other.json").contains(PROGRAM));
    let output = home.run(&["install", "--file", "other.json"]);
    assert_eq!(code(&output), 2);
}

#[test]
fn policy_is_checked_and_passed() {
    let home = Home::new();
    home.write(".cursor/mcp.json", &example("files"));
    home.write("project/policy.yaml", "tokenBudgetThreshold: 1000\n");
    home.write("project/bad.yaml", "rules: [\n");
    let run = |policy: &str| {
        let mut command = home.command(&["install", "--policy", policy, "--yes"]);
        command.env("CONTEXT_GUARD_COMPONENT", crate::stub::path()).output().unwrap()
    };
    let output = run("bad.yaml");
    assert_eq!(code(&output), 3, "{}", errors(&output));
    assert!(errors(&output).contains("bad.yaml"), "{}", errors(&output));
    assert_eq!(home.read(".cursor/mcp.json"), example("files"));
    let output = run("policy.yaml");
    assert_eq!(code(&output), 0, "{}", errors(&output));
    assert!(home.read(".cursor/mcp.json").contains("\"wrap\", \"--policy\", \""));
}
