//! Paths, links, permissions and the journal.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use context_guard_install::{
    Client, Document, Endpoint, Environment, Journal, Platform, Scope, find_files, read_file,
    replace_servers, undo, wrap, write_file,
};

use crate::check::guard;

const TEXT: &str = r#"{"mcpServers": {"a": {"command": "npx", "args": ["x"]}}}"#;

fn environment(home: &Path, platform: Platform, variables: &[(&str, &str)]) -> Environment {
    let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let variables = BTreeMap::from_iter(variables);
    Environment { platform, home: home.to_owned(), project: home.join("project"), variables }
}

fn create(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, TEXT).unwrap();
}

/// Returns the paths below `home` that are found after all of `paths` were created.
fn found(platform: Platform, variables: &[(&str, &str)], paths: &[&str]) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    for path in paths {
        create(&home.path().join(path));
    }
    let variables: Vec<(&str, String)> = variables
        .iter()
        .map(|&(name, value)| (name, home.path().join(value).display().to_string()))
        .collect();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let environment = environment(home.path(), platform, &variables);
    let locations = find_files(&environment, &Client::ALL);
    let relative = |path: &PathBuf| path.strip_prefix(home.path()).unwrap().display().to_string();
    locations.iter().map(|location| relative(&location.path)).collect()
}

#[test]
fn files_of_each_platform_are_found() {
    let linux = [
        ".claude.json",
        ".config/Claude/claude_desktop_config.json",
        ".cursor/mcp.json",
        ".config/Code/User/mcp.json",
        ".config/Code - Insiders/User/profiles/1a2b/mcp.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".codeium/windsurf/mcp_config.json",
        ".config/zed/settings.json",
    ];
    assert_eq!(found(Platform::Linux, &[], &linux), linux);
    let support = "Library/Application Support";
    let desktop = format!("{support}/Claude/claude_desktop_config.json");
    let code = format!("{support}/Code/User/mcp.json");
    let mac = [desktop.as_str(), code.as_str(), ".config/zed/settings.json"];
    assert_eq!(found(Platform::MacOs, &[], &mac), mac);
    let windows = [
        "AppData/Roaming/Claude/claude_desktop_config.json",
        "AppData/Local/Packages/Claude_pzs8/LocalCache/Roaming/Claude/claude_desktop_config.json",
        "AppData/Local/Claude-Data/claude_1/claude_desktop_config.json",
        "AppData/Roaming/Code/User/mcp.json",
        "AppData/Roaming/Zed/settings.json",
    ];
    assert_eq!(found(Platform::Windows, &[], &windows), windows);
}

#[test]
fn variables_move_files() {
    let variables = [
        ("CLAUDE_CONFIG_DIR", "a"),
        ("CODEX_HOME", "b"),
        ("GEMINI_CLI_HOME", "c"),
        ("XDG_CONFIG_HOME", "d"),
    ];
    let paths = [
        "a/.claude.json",
        "d/Claude/claude_desktop_config.json",
        "b/config.toml",
        "c/.gemini/settings.json",
        "d/zed/settings.json",
    ];
    assert_eq!(found(Platform::Linux, &variables, &paths), paths);
}

#[test]
fn files_of_a_project_are_marked() {
    let home = tempfile::tempdir().unwrap();
    let paths = [".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", ".codex/config.toml"];
    for path in paths {
        create(&home.path().join("project").join(path));
    }
    create(&home.path().join(".cursor/mcp.json"));
    let environment = environment(home.path(), Platform::Linux, &[]);
    let locations = find_files(&environment, &Client::ALL);
    let projects = locations.iter().filter(|location| location.scope == Scope::Project).count();
    assert_eq!((locations.len(), projects), (5, 4));
    let in_home = Environment { project: home.path().to_owned(), ..environment };
    let locations = find_files(&in_home, &[Client::Cursor]);
    assert_eq!(locations.len(), 1);
    assert_eq!(locations[0].scope, Scope::User);
}

#[test]
fn journal_undoes_what_was_written() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("mcp.json");
    create(&path);
    let journal = Journal::new(home.path().join("state/install"));
    let state = read_file(&path, &[home.path()]).unwrap();
    let document = Document::parse(Client::Cursor, &state.bytes).unwrap();
    let plan = wrap(&document, &guard(), &|_| true).unwrap();
    let backup = journal.add(Client::Cursor, &state, &plan, 1).unwrap();
    write_file(&state, &plan.bytes).unwrap();
    assert_eq!(journal.files(), [(Client::Cursor, state.target.clone())]);
    assert_eq!(fs::read_to_string(backup).unwrap(), TEXT);
    let state = read_file(&path, &[]).unwrap();
    let steps = journal.steps(&state.target).unwrap();
    let undone = undo(Client::Cursor, &state.bytes, &steps, None).unwrap();
    write_file(&state, &undone.bytes).unwrap();
    journal.finish(&state, None, &undone.unfinished).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), TEXT);
    assert!(journal.steps(&state.target).unwrap().is_empty());
    assert_eq!(fs::read_dir(home.path().join("state/install")).unwrap().count(), 0);
}

#[test]
fn journal_keeps_servers_that_were_not_restored() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("mcp.json");
    create(&path);
    let journal = Journal::new(home.path().join("state"));
    let state = read_file(&path, &[]).unwrap();
    let document = Document::parse(Client::Cursor, &state.bytes).unwrap();
    let endpoint = Endpoint::Url("http://127.0.0.1:8808/mcp".to_owned());
    let plan = replace_servers(&document, &endpoint, &|_| true).unwrap();
    let backup = journal.add(Client::Cursor, &state, &plan, 1).unwrap();
    // The user adds another server with the name of the replaced one.
    let other = r#"{"mcpServers": {"a": {"command": "uvx", "args": ["y"]}}}"#;
    let undo_in = |text: &str| {
        fs::write(&path, text).unwrap();
        let state = read_file(&path, &[]).unwrap();
        let steps = journal.steps(&state.target).unwrap();
        let undone = undo(Client::Cursor, &state.bytes, &steps, None).unwrap();
        journal.finish(&state, None, &undone.unfinished).unwrap();
        (undone.left.len(), String::from_utf8(undone.bytes).unwrap())
    };
    assert_eq!(undo_in(other).0, 1);
    assert_eq!(fs::read_to_string(&backup).unwrap(), TEXT);
    let (left, text) = undo_in(r#"{"mcpServers": {}}"#);
    assert!(left == 0 && text.contains(r#"{"command": "npx", "args": ["x"]}"#), "{text}");
    assert!(!backup.exists());
}

#[test]
fn undo_of_one_replaced_server_finishes_the_edit() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("mcp.json");
    let both = r#"{"mcpServers": {"a": {"command": "npx"}, "b": {"command": "uvx"}}}"#;
    fs::write(&path, both).unwrap();
    let journal = Journal::new(home.path().join("state"));
    let state = read_file(&path, &[]).unwrap();
    let document = Document::parse(Client::Cursor, &state.bytes).unwrap();
    let endpoint = Endpoint::Url("http://127.0.0.1:8808/mcp".to_owned());
    let plan = replace_servers(&document, &endpoint, &|_| true).unwrap();
    journal.add(Client::Cursor, &state, &plan, 1).unwrap();
    write_file(&state, &plan.bytes).unwrap();
    let state = read_file(&path, &[]).unwrap();
    let steps = journal.steps(&state.target).unwrap();
    let selected = ["a".to_owned()];
    let undone = undo(Client::Cursor, &state.bytes, &steps, Some(&selected)).unwrap();
    assert_eq!((undone.restored.len(), undone.left.len()), (2, 0));
    write_file(&state, &undone.bytes).unwrap();
    // Without the end of the record, a further undo finds both servers as they were.
    let state = read_file(&path, &[]).unwrap();
    let again = undo(Client::Cursor, &state.bytes, &steps, None).unwrap();
    assert_eq!((again.left.len(), again.unfinished.len()), (0, 0));
    journal.finish(&state, Some(&undone.restored), &undone.unfinished).unwrap();
    assert!(journal.steps(&state.target).unwrap().is_empty());
}

#[test]
fn wrapped_server_without_guard_leaves_no_record() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("mcp.json");
    create(&path);
    let journal = Journal::new(home.path().join("state"));
    let state = read_file(&path, &[]).unwrap();
    let document = Document::parse(Client::Cursor, &state.bytes).unwrap();
    let plan = wrap(&document, &guard(), &|_| true).unwrap();
    journal.add(Client::Cursor, &state, &plan, 1).unwrap();
    // The user removed the guard by hand.
    let steps = journal.steps(&state.target).unwrap();
    let undone = undo(Client::Cursor, &state.bytes, &steps, None).unwrap();
    assert_eq!((undone.left.len(), undone.unfinished.len()), (1, 0));
}

#[test]
fn journal_keeps_the_newest_edits() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("mcp.json");
    create(&path);
    let journal = Journal::new(home.path().join("state"));
    let state = read_file(&path, &[]).unwrap();
    let document = Document::parse(Client::Cursor, &state.bytes).unwrap();
    let plan = wrap(&document, &guard(), &|_| true).unwrap();
    for seconds in 0..30 {
        journal.add(Client::Cursor, &state, &plan, seconds / 2).unwrap();
    }
    let steps = journal.steps(&state.target).unwrap();
    assert_eq!(steps.len(), 20);
    assert!(steps.iter().all(|step| step.backup.is_some()));
    assert_eq!(steps[0].record.seconds, 14);
}

#[test]
fn changed_file_is_not_overwritten() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("mcp.json");
    create(&path);
    let state = read_file(&path, &[]).unwrap();
    fs::write(&path, "{}").unwrap();
    let error = write_file(&state, b"new").unwrap_err().to_string();
    assert!(error.contains("changed while it was edited"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn mode_and_links_are_kept() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let home = tempfile::tempdir().unwrap();
    let real = home.path().join("dotfiles/mcp.json");
    create(&real);
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    let link = home.path().join("mcp.json");
    symlink(&real, &link).unwrap();
    let state = read_file(&link, &[home.path()]).unwrap();
    write_file(&state, b"{}").unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().file_type().is_symlink());
    assert_eq!(fs::read_to_string(&real).unwrap(), "{}");
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    let other = tempfile::tempdir().unwrap();
    let error = read_file(&link, &[other.path()]).unwrap_err().to_string();
    assert!(error.contains("outside of the home folder"), "{error}");
    let state = read_file(&real, &[home.path()]).unwrap();
    let document = Document::parse(Client::Cursor, TEXT.as_bytes()).unwrap();
    let plan = wrap(&document, &guard(), &|_| true).unwrap();
    let backup = Journal::new(home.path().join("s")).add(Client::Cursor, &state, &plan, 1).unwrap();
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    let folder = backup.parent().unwrap();
    assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
}
