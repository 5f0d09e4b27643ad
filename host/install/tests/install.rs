//! Wraps, checks and restores configurations of each client.
//!
//! `clients/` has files in the style of each client: comments, trailing commas, inputs, headers,
//! disabled servers, line ends and byte-order marks.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::panic,
    reason = "tests"
)]

mod check;
mod endpoint;
mod files;
mod generated;
mod links;

use std::path::PathBuf;

use check::{Sample, commands, guard, samples, wrapped};
use context_guard_install::{Client, Document, Record, ServerState, Step, undo, wrap};

/// Returns the step that undo receives after an edit of `before`.
fn step(client: Client, before: &[u8], plan: &context_guard_install::Plan) -> Step {
    let hash = |bytes: &[u8]| {
        use sha2::Digest as _;
        sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let record = Record {
        client: client.id().to_owned(),
        path: String::new(),
        seconds: 0,
        before: hash(before),
        after: hash(&plan.bytes),
        backup: String::new(),
        servers: plan.servers.clone(),
        removed: plan.removed.clone(),
        added: plan.added.clone(),
        is_undone: false,
    };
    Step { record, backup: Some(before.to_vec()) }
}

/// Returns the step without its backup, so that undo restores the literals.
fn without_backup(mut step: Step) -> Step {
    step.backup = None;
    step
}

#[test]
fn every_client_has_five_samples() {
    for client in Client::ALL {
        assert!(samples().iter().filter(|one| one.client == client).count() >= 5, "{client:?}");
    }
}

#[test]
fn clients_accept_the_result() {
    for sample in samples() {
        let plan = wrapped(&sample);
        check::accept(&sample, &plan.bytes);
    }
}

#[test]
fn every_command_is_guarded_once() {
    for sample in samples() {
        let before = commands(sample.client, &sample.bytes);
        let plan = wrapped(&sample);
        let after = commands(sample.client, &plan.bytes);
        assert_eq!(before.len(), after.len(), "{}", sample.name);
        let mut expected = before;
        for change in &plan.changes {
            let path = (change.container.clone(), change.name.clone());
            let line = expected.get_mut(&path).unwrap();
            line.splice(0..0, ["/opt/context-guard".to_owned(), "wrap".into(), "--".into()]);
        }
        assert_eq!(after, expected, "{}", sample.name);
        let document = Document::parse(sample.client, &plan.bytes).unwrap();
        let again = wrap(&document, &guard(), &|_| true).unwrap();
        assert_eq!(again.changes, [], "{}", sample.name);
        assert_eq!(again.bytes, plan.bytes, "{}", sample.name);
    }
}

#[test]
fn undo_restores_the_backup() {
    for sample in samples() {
        let plan = wrapped(&sample);
        let steps = [step(sample.client, &sample.bytes, &plan)];
        let undone = undo(sample.client, &plan.bytes, &steps, None).unwrap();
        assert_eq!(undone.bytes, sample.bytes, "{}", sample.name);
        assert!(undone.is_exact, "{}", sample.name);
    }
}

#[test]
fn undo_without_backup_restores_the_literals() {
    for sample in samples() {
        let plan = wrapped(&sample);
        let steps = [without_backup(step(sample.client, &sample.bytes, &plan))];
        let undone = undo(sample.client, &plan.bytes, &steps, None).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        assert_eq!(text(&undone.bytes), text(&sample.bytes), "{}", sample.name);
        assert_eq!(undone.restored.len(), plan.changes.len(), "{}", sample.name);
    }
}

#[test]
fn undo_after_the_client_rewrote_the_file_restores_the_commands() {
    for sample in samples() {
        let plan = wrapped(&sample);
        let Some(rewritten) = check::rewrite(&sample, &plan.bytes) else { continue };
        let steps = [step(sample.client, &sample.bytes, &plan)];
        let undone = undo(sample.client, &rewritten, &steps, None).unwrap();
        let expected = commands(sample.client, &sample.bytes);
        assert_eq!(commands(sample.client, &undone.bytes), expected, "{}", sample.name);
        check::accept(&Sample { bytes: rewritten, ..sample }, &undone.bytes);
    }
}

#[test]
fn one_server_is_undone_alone() {
    for sample in samples() {
        let plan = wrapped(&sample);
        let Some(first) = plan.changes.first() else { continue };
        let steps = [step(sample.client, &sample.bytes, &plan)];
        let names = [first.name.clone()];
        let undone = undo(sample.client, &plan.bytes, &steps, Some(&names)).unwrap();
        let before = commands(sample.client, &sample.bytes);
        let all = commands(sample.client, &plan.bytes);
        for (path, line) in commands(sample.client, &undone.bytes) {
            let expected = if path.1 == first.name { &before[&path] } else { &all[&path] };
            assert_eq!(&line, expected, "{}: {path:?}", sample.name);
        }
    }
}

#[test]
fn second_install_and_two_undos_restore_the_first_file() {
    for sample in samples() {
        let one = wrap(&sample.document(), &guard(), &|name| name.len() % 2 == 0).unwrap();
        let middle = Document::parse(sample.client, &one.bytes).unwrap();
        let two = wrap(&middle, &guard(), &|_| true).unwrap();
        let steps =
            [step(sample.client, &one.bytes, &two), step(sample.client, &sample.bytes, &one)];
        let undone = undo(sample.client, &two.bytes, &steps, None).unwrap();
        assert_eq!(undone.bytes, sample.bytes, "{}", sample.name);
        let steps = steps.map(without_backup);
        let undone = undo(sample.client, &two.bytes, &steps, None).unwrap();
        assert_eq!(undone.bytes, sample.bytes, "{}", sample.name);
    }
}

#[test]
fn guarded_servers_without_a_record_are_undone_by_name_only() {
    let text = br#"{"mcpServers": {"a": {"command": "context-guard", "args": ["wrap", "--", "npx", "x"]}}}"#;
    let all = undo(Client::Cursor, text, &[], None).unwrap();
    assert_eq!(all.bytes, text);
    let named = undo(Client::Cursor, text, &[], Some(&["a".to_owned()])).unwrap();
    let expected = br#"{"mcpServers": {"a": {"command": "npx", "args": ["x"]}}}"#;
    assert_eq!(named.bytes, expected);
}

#[test]
fn guards_of_launchers_are_undone_by_name() {
    let undone = |server: &str| {
        let text = format!("{{\"mcpServers\": {{\"a\": {server}}}}}");
        let names = ["a".to_owned()];
        let undone = undo(Client::Cursor, text.as_bytes(), &[], Some(&names)).unwrap();
        (String::from_utf8(undone.bytes).unwrap(), undone.left.len())
    };
    let expected = r#"{"mcpServers": {"a": {"command": "npx", "args": ["x"]}}}"#.to_owned();
    for server in [
        r#"{"command": "npx", "args": ["-y", "context-guard", "wrap", "--", "npx", "x"]}"#,
        r#"{"command": "context-guard", "args": ["wrap", "npx", "x"]}"#,
        r#"{"command": "cmd", "args": ["/c", "npx", "context-guard", "wrap", "--", "npx", "x"]}"#,
    ] {
        assert_eq!(undone(server), (expected.clone(), 0), "{server}");
    }
    let shell = r#"{"command": "sh", "args": ["-c", "context-guard wrap -- npx x"]}"#;
    assert_eq!(undone(shell).1, 1);
}

#[test]
fn guard_with_another_name_is_refused() {
    let text = br#"{"mcpServers": {"a": {"command": "npx"}}}"#;
    let document = Document::parse(Client::Cursor, text).unwrap();
    let guard = context_guard_install::Guard::new("/opt/cg");
    let error = wrap(&document, &guard, &|_| true).unwrap_err().to_string();
    assert!(error.contains("name the program `context-guard`"), "{error}");
}

#[test]
fn later_edits_of_others_survive_undo() {
    let before = br#"{"mcpServers": {"a": {"command": "npx", "args": ["x"]}}}"#;
    let document = Document::parse(Client::Cursor, before).unwrap();
    let plan = wrap(&document, &guard(), &|_| true).unwrap();
    let edited = String::from_utf8(plan.bytes.clone()).unwrap().replace(
        r#"{"mcpServers": {"#,
        r#"{"theme": 1, "mcpServers": {"new": {"command": "uvx"}, "#,
    );
    let steps = [step(Client::Cursor, before, &plan)];
    let undone = undo(Client::Cursor, edited.as_bytes(), &steps, None).unwrap();
    let expected = r#"{"theme": 1, "mcpServers": {"new": {"command": "uvx"}, "a": {"command": "npx", "args": ["x"]}}}"#;
    assert_eq!(String::from_utf8(undone.bytes).unwrap(), expected);
    assert!(!undone.is_exact);
}

#[test]
fn layout_of_lists_is_kept() {
    let cases = [
        (
            r#"{"command":"a","args":["x","y"]}"#,
            r#"{"command":"G","args":["wrap","--","a","x","y"]}"#,
        ),
        (r#"{"command": "a"}"#, r#"{"command": "G", "args": ["wrap", "--", "a"]}"#),
        (
            "{\n\t\"command\": \"a\"\n}",
            "{\n\t\"command\": \"G\",\n\t\"args\": [\"wrap\", \"--\", \"a\"]\n}",
        ),
        (
            "{\"args\": [\r\n  \"x\"\r\n], \"command\": \"a\"}",
            "{\"args\": [\r\n  \"wrap\",\r\n  \"--\",\r\n  \"a\",\r\n  \"x\"\r\n], \"command\": \"G\"}",
        ),
    ];
    for (before, after) in cases {
        let file = |server: &str| format!("{{\"mcpServers\": {{\"s\": {server}}}}}");
        let document = Document::parse(Client::Cursor, file(before).as_bytes()).unwrap();
        let guard = context_guard_install::Guard::new("context-guard");
        let plan = wrap(&document, &guard, &|_| true).unwrap();
        let expected = file(&after.replace("\"G\"", "\"context-guard\""));
        assert_eq!(String::from_utf8(plan.bytes).unwrap(), expected);
    }
}

#[test]
fn scripts_of_windows_start_by_cmd() {
    let text = br#"{"mcpServers": {"a": {"command": "npx", "args": ["x"]}, "b": {"command": "C:\\n\\NPX.cmd"}, "c": {"command": "uvx"}}}"#;
    let document = Document::parse(Client::Cursor, text).unwrap();
    let guard = context_guard_install::Guard { uses_scripts: true, ..guard() };
    let plan = wrap(&document, &guard, &|_| true).unwrap();
    let lines: Vec<Vec<String>> =
        plan.changes.iter().map(|change| change.after[3..].to_vec()).collect();
    assert_eq!(
        lines,
        [vec!["cmd", "/c", "npx", "x"], vec!["cmd", "/c", r"C:\n\NPX.cmd"], vec!["uvx"]]
    );
    let steps = [without_backup(step(Client::Cursor, text, &plan))];
    assert_eq!(undo(Client::Cursor, &plan.bytes, &steps, None).unwrap().bytes, text);
    // The client wrote the file again with another layout.
    let layout = String::from_utf8(plan.bytes).unwrap().replace("\"wrap\", ", "\"wrap\",\n  ");
    let undone = undo(Client::Cursor, layout.as_bytes(), &steps, None).unwrap();
    assert_eq!(commands(Client::Cursor, &undone.bytes), commands(Client::Cursor, text));
}

#[test]
fn invalid_files_are_errors_with_a_place() {
    let fault =
        |client, text: &str| Document::parse(client, text.as_bytes()).unwrap_err().to_string();
    assert!(fault(Client::Cursor, "{\"a\": \n 'b'}").contains("on line 2 column 2"));
    assert!(fault(Client::Codex, "a = 1\nb = \n").contains("on line 2"));
    assert!(fault(Client::Zed, "[1]").contains("expected an object"));
    assert!(fault(Client::Cursor, "{\"mcpServers\": {}").contains("invalid JSON"));
    let bytes = Document::parse(Client::Cursor, b"{\"a\": \"\xff\"}").unwrap_err();
    assert!(bytes.to_string().contains("byte 7 is not UTF-8"));
    let deep = "[".repeat(100_000);
    assert!(fault(Client::Cursor, &format!("{{\"a\": {deep}")).contains("invalid JSON"));
}

#[test]
fn servers_that_stay_have_a_reason() {
    let reasons: Vec<String> = samples()
        .iter()
        .flat_map(|sample| {
            let document = sample.document();
            let servers = document.servers();
            let reason = |server: &context_guard_install::Server<'_>| match &server.state {
                ServerState::Unsupported(reason) => Some(format!("{}: {reason}", server.name)),
                _ => None,
            };
            servers.iter().filter_map(reason).collect::<Vec<_>>()
        })
        .collect();
    for expected in [
        "broken: it has no command",
        "line: its command contains arguments: move them to `args`",
        "pathless: its command has no `path`",
        "mcp-server-github: an extension of the client starts it",
    ] {
        assert!(reasons.iter().any(|reason| reason == expected), "{expected}: {reasons:?}");
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

impl Sample {
    fn document(&self) -> Document {
        Document::parse(self.client, &self.bytes).unwrap()
    }
}
