//! Paths, links, permissions and the journal.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use context_guard_install::{
    Client, Document, Endpoint, Environment, FileState, Journal, Platform, Scope, UndoResult,
    find_files, read_file, replace_servers, undo, wrap, write_file,
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

/// A configuration in a home folder of its own, with a journal.
struct Home {
    _folder: tempfile::TempDir,
    path: PathBuf,
    journal: Journal,
}

impl Home {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.json");
        fs::write(&path, text).unwrap();
        let journal = Journal::new(folder.path().join("state"));
        Self { _folder: folder, path, journal }
    }

    fn state(&self) -> FileState {
        read_file(&self.path, &[]).unwrap()
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap()
    }

    /// Wraps the servers of `state`, and returns the backup.
    fn wrap(&self, state: &FileState) -> context_guard_install::Result<PathBuf> {
        let document = Document::parse(Client::Cursor, &state.bytes).unwrap();
        let plan = wrap(&document, &guard(), &|_| true).unwrap();
        self.journal.apply(Client::Cursor, state, &plan, 1)
    }

    /// Replaces the servers with an endpoint, and returns the backup.
    fn replace(&self) -> PathBuf {
        let state = self.state();
        let document = Document::parse(Client::Cursor, &state.bytes).unwrap();
        let endpoint = Endpoint::Url("http://127.0.0.1:8808/mcp".to_owned());
        let plan = replace_servers(&document, &endpoint, &|_| true).unwrap();
        self.journal.apply(Client::Cursor, &state, &plan, 1).unwrap()
    }

    /// Undoes the edits of the servers in `names`, or of all servers if it is `None`. Returns the
    /// result and the remaining backups.
    fn undo(&self, names: Option<&[String]>) -> (UndoResult, Vec<PathBuf>) {
        let state = self.state();
        let steps = self.journal.steps(&state.target).unwrap();
        let undone = undo(Client::Cursor, &state.bytes, &steps, names).unwrap();
        let kept = self.journal.restore(&state, &undone, names).unwrap();
        (undone, kept)
    }
}

#[test]
fn journal_undoes_what_was_written() {
    let home = Home::new(TEXT);
    let backup = home.wrap(&home.state()).unwrap();
    let target = home.state().target;
    assert_eq!(home.journal.files(), [(Client::Cursor, target.clone())]);
    assert_eq!(fs::read_to_string(&backup).unwrap(), TEXT);
    let (undone, kept) = home.undo(None);
    assert!(undone.is_exact && kept.is_empty() && !backup.exists());
    assert_eq!(home.text(), TEXT);
    assert!(home.journal.steps(&target).unwrap().is_empty());
    assert!(!backup.parent().unwrap().exists());
}

#[test]
fn backup_remains_if_the_file_differs() {
    let home = Home::new(TEXT);
    let backup = home.wrap(&home.state()).unwrap();
    fs::write(&home.path, home.text().replacen('{', "{\"theme\": 1, ", 1)).unwrap();
    let (undone, kept) = home.undo(None);
    assert_eq!(undone.restored, ["a"]);
    assert_eq!(kept, std::slice::from_ref(&backup));
    assert_eq!(fs::read_to_string(&backup).unwrap(), TEXT);
    // The edit is not undone twice, and an exact undo of the next one keeps the backup.
    assert!(home.journal.files().is_empty());
    let next = home.wrap(&home.state()).unwrap();
    let (undone, kept) = home.undo(None);
    assert!(undone.is_exact && kept.is_empty());
    assert!(backup.exists() && !next.exists());
}

#[test]
fn failed_edit_keeps_the_record_of_another() {
    let home = Home::new(TEXT);
    let state = home.state();
    let backup = home.wrap(&state).unwrap();
    // Another process has read the file before it was edited.
    let error = home.wrap(&state).unwrap_err().to_string();
    assert!(error.contains("changed while it was edited"), "{error}");
    assert_eq!(home.journal.steps(&state.target).unwrap().len(), 1);
    assert_eq!(fs::read_to_string(&backup).unwrap(), TEXT);
    assert!(home.undo(None).0.is_exact);
    assert_eq!(home.text(), TEXT);
}

#[test]
fn backup_of_a_deleted_file_is_found() {
    let home = Home::new(TEXT);
    let target = home.state().target;
    let backup = home.wrap(&home.state()).unwrap();
    assert_eq!(home.journal.missing_files(), []);
    fs::remove_file(&home.path).unwrap();
    assert_eq!(home.journal.missing_files(), [(target, backup)]);
}

#[test]
fn edits_at_the_same_time_can_be_undone() {
    for _ in 0..20 {
        let home = Home::new(TEXT);
        let states = [home.state(), home.state(), home.state(), home.state()];
        let written: usize = std::thread::scope(|scope| {
            let threads = states.each_ref().map(|state| scope.spawn(|| home.wrap(state)));
            threads.into_iter().map(|thread| usize::from(thread.join().unwrap().is_ok())).sum()
        });
        assert_eq!(written, 1);
        assert_eq!(home.journal.steps(&states[0].target).unwrap().len(), 1);
        home.undo(None);
        assert_eq!(home.text(), TEXT);
    }
}

#[test]
fn journal_keeps_servers_that_were_not_restored() {
    let home = Home::new(TEXT);
    let backup = home.replace();
    // The user adds another server with the name of the replaced one.
    let other = r#"{"mcpServers": {"a": {"command": "uvx", "args": ["y"]}}}"#;
    fs::write(&home.path, other).unwrap();
    assert_eq!(home.undo(None).0.left.len(), 1);
    assert_eq!(fs::read_to_string(&backup).unwrap(), TEXT);
    fs::write(&home.path, r#"{"mcpServers": {}}"#).unwrap();
    let (undone, kept) = home.undo(None);
    assert_eq!(undone.left, []);
    assert!(home.text().contains(r#"{"command": "npx", "args": ["x"]}"#), "{}", home.text());
    assert_eq!(kept, [backup]);
}

#[test]
fn undo_of_one_replaced_server_finishes_the_edit() {
    let home = Home::new(r#"{"mcpServers": {"a": {"command": "npx"}, "b": {"command": "uvx"}}}"#);
    home.replace();
    let steps = home.journal.steps(&home.state().target).unwrap();
    let (undone, _) = home.undo(Some(&["a".to_owned()]));
    assert_eq!((undone.restored.len(), undone.left.len()), (2, 0));
    // Without the end of the record, a further undo finds both servers as they were.
    let again = undo(Client::Cursor, &home.state().bytes, &steps, None).unwrap();
    assert_eq!((again.left.len(), again.unfinished.len()), (0, 0));
    assert!(home.journal.steps(&home.state().target).unwrap().is_empty());
}

#[test]
fn wrapped_server_without_guard_leaves_no_record() {
    let home = Home::new(TEXT);
    home.wrap(&home.state()).unwrap();
    // The user removed the guard by hand.
    fs::write(&home.path, TEXT).unwrap();
    let (undone, kept) = home.undo(None);
    assert_eq!((undone.left.len(), undone.unfinished.len(), kept.len()), (1, 0, 1));
    assert!(home.journal.files().is_empty());
}

#[test]
fn journal_keeps_the_newest_edits() {
    let home = Home::new(TEXT);
    let document = Document::parse(Client::Cursor, TEXT.as_bytes()).unwrap();
    let plan = wrap(&document, &guard(), &|_| true).unwrap();
    for seconds in 0..30 {
        fs::write(&home.path, TEXT).unwrap();
        home.journal.apply(Client::Cursor, &home.state(), &plan, seconds / 2).unwrap();
    }
    let steps = home.journal.steps(&home.state().target).unwrap();
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
    let journal = Journal::new(home.path().join("s"));
    let backup = journal.apply(Client::Cursor, &state, &plan, 1).unwrap();
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    let folder = backup.parent().unwrap();
    assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
}
