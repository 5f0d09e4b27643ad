//! The commands of the program, as a user types them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use context_guard_test_support::answer::{Answer, o200k};
use context_guard_test_support::{Context, Result, artifacts, ensure, peers};
use serde_json::{Value, json};

/// A file that is no JSON.
const TEXT_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/LICENSE");

/// Runs the program with its state in `home`.
fn program(home: &Path, arguments: &[&str], input: &str) -> Result<Output> {
    let mut command = Command::new(artifacts::program()?);
    command.args(arguments).env("XDG_STATE_HOME", home).env_remove("CONTEXT_GUARD_SIGNING_KEYS");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    // A program that refuses its arguments exits without reading its input.
    drop(child.stdin.take().context("no input")?.write_all(input.as_bytes()));
    Ok(child.wait_with_output()?)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn bookings() -> Value {
    let booking = |number: usize| json!({"id": number, "guest": format!("guest {number}")});
    json!({"bookings": (0..500).map(booking).collect::<Vec<_>>()})
}

#[test]
fn shape_cursor_works_in_another_run() -> Result<()> {
    let home = peers::folder("shape")?;
    let file = home.join("bookings.json");
    std::fs::write(&file, bookings().to_string())?;
    let file = file.display().to_string();
    let first = program(&home, &["shape", &file, "--limit", "20"], "")?;
    let page: Value = serde_json::from_slice(&first.stdout)?;
    ensure!(page["bookings"].as_array().map(Vec::len) == Some(20));
    ensure!(page["meta"]["totalCount"] == 500);
    let report = text(&first.stderr);
    for word in ["tokens", "bytes", "before", "after", "loss", "partial", "cursor"] {
        ensure!(report.contains(word), "{word} in {report}");
    }
    let cursor = page["nextCursor"].as_str().context("no cursor")?;
    ensure!(report.contains(cursor));
    let second = program(&home, &["shape", &file, "--cursor", cursor], "")?;
    let second: Value = serde_json::from_slice(&second.stdout)?;
    ensure!(second["bookings"][0]["id"] == 20, "{second}");
    // The page of a query needs the query again.
    let query = ["shape", &file, "--where", "id >= 100", "--limit", "20"];
    let page: Value = serde_json::from_slice(&program(&home, &query, "")?.stdout)?;
    let cursor = page["nextCursor"].as_str().context("no cursor of the query")?;
    let next = [query.as_slice(), &["--cursor", cursor]].concat();
    let next: Value = serde_json::from_slice(&program(&home, &next, "")?.stdout)?;
    ensure!(next["bookings"][0]["id"] == 120, "{next}");
    let alone = program(&home, &["shape", &file, "--cursor", cursor], "")?;
    ensure!(text(&alone.stderr).contains("needs the same query"), "{}", text(&alone.stderr));
    // One cursor in 64 begins with a hyphen, and is no option.
    let unknown = program(&home, &["shape", &file, "--cursor", "-wlfjuHkGDH_5rwFFBRxPBnFSKw"], "")?;
    let error = text(&unknown.stderr) + &text(&unknown.stdout);
    ensure!(error.contains("cursor") && !error.contains("unexpected argument"), "{error}");
    std::fs::remove_dir_all(home)?;
    Ok(())
}

#[test]
fn shape_all_prints_the_original() -> Result<()> {
    let home = peers::folder("shape-all")?;
    let log: String =
        (0..5_000).map(|at| format!("2026-01-01 00:00:00 INFO line {at}\n")).collect();
    let all = program(&home, &["shape", "-", "--all"], &log)?;
    ensure!(text(&all.stdout) == log && all.status.success());
    ensure!(text(&all.stderr).contains("part 2"));
    std::fs::remove_dir_all(home)?;
    Ok(())
}

#[test]
fn shape_all_prints_a_selection() -> Result<()> {
    let home = peers::folder("shape-fields")?;
    let arguments = ["shape", "-", "--fields", "id", "--limit", "200", "--all", "--json"];
    let all = program(&home, &arguments, &bookings().to_string())?;
    let mut ids = 0;
    for line in text(&all.stdout).lines() {
        let page = Answer::read(line.as_bytes())?.json()?;
        let records = page["bookings"].as_array().context("no list")?;
        ensure!(records.iter().all(|record| *record == json!({"id": record["id"]})), "{page}");
        ids += records.len();
    }
    ensure!(ids == 500, "{ids} records");
    std::fs::remove_dir_all(home)?;
    Ok(())
}

#[test]
fn shape_json_prints_messages() -> Result<()> {
    let home = peers::folder("shape-json")?;
    let output = program(&home, &["shape", "--json"], &bookings().to_string())?;
    let answer = Answer::read(&output.stdout)?;
    ensure!(answer.next_cursor().is_some() && answer.notice().is_some());
    std::fs::remove_dir_all(home)?;
    Ok(())
}

#[test]
fn errors_have_a_reason_and_an_exit_code() -> Result<()> {
    let home = peers::folder("refusals")?;
    let cases: [(&[&str], i32, &str); 10] = [
        (&["shape", "--limit", "201"], 4, "limit exceeds maximum of 200"),
        (&["shape", "--cursor", "e30.e30"], 4, "cursor_invalid"),
        (&["shape", TEXT_FILE, "--aggregate", "count"], 4, "this answer is a text, not JSON"),
        (&["shape", "/no/such/file"], 3, "/no/such/file"),
        (&["shape", "--policy", "/no/such/policy.yaml"], 3, "/no/such/policy.yaml"),
        (&["shape", "--no-such-flag"], 2, "--no-such-flag"),
        (&["tokens"], 2, "<FILE>"),
        (&["serve", "--config", "x.yaml", "--listen", "foo"], 2, "--listen"),
        (&["wrap", "--", "no-such-program"], 127, "no-such-program"),
        (&["config", "import", "/no/such/file"], 3, "/no/such/file"),
    ];
    for (arguments, code, reason) in cases {
        let output = program(&home, arguments, "[]")?;
        let printed = text(&output.stderr);
        ensure!(
            output.status.code() == Some(code) && printed.contains(reason),
            "{arguments:?}: {:?} {printed}",
            output.status
        );
        let causes = printed.matches("No such file or directory").count();
        ensure!(causes <= 1, "{arguments:?}: {printed}");
    }
    std::fs::remove_dir_all(home)?;
    Ok(())
}

#[test]
fn tokens_are_estimated_and_counted() -> Result<()> {
    let home = peers::folder("tokens")?;
    let file = home.join("bookings.json");
    let content = bookings().to_string();
    std::fs::write(&file, &content)?;
    let path = file.display().to_string();
    let output = program(&home, &["tokens", "--exact", "--json", &path], "")?;
    let counted: Value = serde_json::from_slice(&output.stdout)?;
    let (exact, estimated) =
        (counted["exact"].as_u64().unwrap_or(0), counted["estimated"].as_u64().unwrap_or(0));
    ensure!(exact == o200k(&content) && estimated.abs_diff(exact) * 10 <= exact, "{counted}");
    ensure!(counted["chars4"] == context_guard_core::tokens::chars4::estimate(&content));
    let table = text(&program(&home, &["tokens", "--exact", &path], "")?.stdout);
    ensure!(table.contains("exact (o200k)") && table.contains("bookings.json"), "{table}");
    std::fs::remove_dir_all(home)?;
    Ok(())
}

#[test]
fn shape_notice_names_options() -> Result<()> {
    let home = peers::folder("shape-notice")?;
    let output = program(&home, &["shape"], &bookings().to_string())?;
    let report = text(&output.stderr);
    ensure!(report.contains("repeat this command with --cursor "), "{report}");
    ensure!(!report.contains("context_guard_read"), "{report}");
    std::fs::remove_dir_all(home)?;
    Ok(())
}

#[test]
fn completions_are_printed() -> Result<()> {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = program(&std::env::temp_dir(), &["completions", shell], "")?;
        let script = text(&output.stdout);
        ensure!(output.status.success() && script.contains("import"), "{shell}: {script}");
    }
    Ok(())
}

#[test]
fn client_servers_are_imported() -> Result<()> {
    let home = peers::folder("import")?;
    let (client, gateway) = (home.join("mcp.json"), home.join("gateway.yaml"));
    let [client_path, gateway_path] = [&client, &gateway].map(|path| path.display().to_string());
    std::fs::write(&client, r#"{"mcpServers": {}}"#)?;
    let empty = program(&home, &["config", "import", &client_path], "")?;
    ensure!(empty.status.code() == Some(3) && empty.stdout.is_empty(), "{empty:?}");
    ensure!(text(&empty.stderr).contains("contains no MCP servers"), "{empty:?}");
    std::fs::write(
        &client,
        r#"{"servers": {
            // Guarded already.
            "a": {"command": "context-guard", "args": ["wrap", "--", "no-such-program"],
                  "env": {"CONTEXT_GUARD_TEST_TOKEN": "hidden-value"}},
            "b": {"type": "websocket", "url": "wss://example.com/mcp"},
        }}"#,
    )?;
    let output = program(&home, &["config", "import", &client_path], "")?;
    let (printed, report) = (text(&output.stdout), text(&output.stderr));
    ensure!(output.status.success() && !printed.contains("hidden-value"), "{printed}{report}");
    ensure!(report.contains("skipped: ") && report.contains("servers.b: type: "), "{report}");
    ensure!(report.contains("CONTEXT_GUARD_TEST_TOKEN  (a.env.CONTEXT_GUARD_TEST_TOKEN)"));
    std::fs::write(&gateway, printed)?;
    let checked = program(&home, &["config", "check", &gateway_path], "")?;
    ensure!(checked.status.code() == Some(3), "{checked:?}");
    let checked = program(&home, &["config", "check", "--no-secrets", &gateway_path], "")?;
    let report = text(&checked.stderr);
    ensure!(checked.status.success(), "{report}");
    ensure!(report.contains("the program `no-such-program` is not on PATH"), "{report}");
    std::fs::remove_dir_all(home)?;
    Ok(())
}

/// The demo works with the program alone.
#[test]
fn demo_verifies_its_claims() -> Result<()> {
    let home = peers::folder("demo")?;
    let alone = home.join("context-guard");
    std::fs::copy(artifacts::program()?, &alone)?;
    let output = Command::new(&alone).arg("demo").current_dir(&home).output()?;
    let printed = text(&output.stdout);
    ensure!(output.status.success(), "{printed}{}", text(&output.stderr));
    ensure!(
        printed.contains("500 bookings on 6 pages")
            && printed.contains("together they equal the 500 of the server"),
        "{printed}"
    );
    ensure!(printed.contains("together they equal the log of the server"));
    std::fs::remove_dir_all(home)?;
    Ok(())
}

#[test]
fn help_shows_examples() -> Result<()> {
    let home = std::env::temp_dir();
    let help = text(&program(&home, &["--help"], "")?.stdout);
    for word in
        ["wrap", "shape", "tokens", "demo", "Examples", "Exit codes", "CONTEXT_GUARD_SIGNING_KEYS"]
    {
        ensure!(help.contains(word), "{word} in {help}");
    }
    ensure!(text(&program(&home, &["wrap", "--help"], "")?.stdout).contains("mcpServers"));
    Ok(())
}
