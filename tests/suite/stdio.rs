//! `context-guard wrap` over stdio: unshaped lines pass byte for byte, and process exits are passed
//! on.

use context_guard_test_support::client::Client;
use context_guard_test_support::{Result, artifacts, ensure};
use serde_json::{Value, json};

fn shell(script: &str) -> Result<Client> {
    Client::wrap(["--", "sh", "-c", script])
}

#[test]
fn non_message_lines_pass() -> Result<()> {
    let odd = "Starting…\n{\"jsonrpc\": \"2.0\",  \"method\":\"notifications/x\",\"params\":{\"big\":12345678901234567890.10}}\r\n\n{broken\n\t[1,2\n\"text\"\nlast without end";
    let ended = shell(&format!("printf '%s' '{odd}'"))?.end()?;
    ensure!(ended.output == odd.as_bytes(), "{:?}", String::from_utf8_lossy(&ended.output));
    ensure!(ended.code == Some(0));
    Ok(())
}

#[test]
fn client_messages_pass_verbatim() -> Result<()> {
    let lines = [
        r#"{"jsonrpc":"2.0","id":1,"method":"vendor/unknown","params":{"n":1.0e+2,"a":"\u00e9"}}"#,
        r#"{"id":"x\/y","jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"q": 1},"name":"t","_meta":{"progressToken":7}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}"#,
        "not json",
    ];
    let mut client = shell("cat >&2")?;
    for line in lines {
        client.send(line.as_bytes())?;
    }
    let ended = client.end()?;
    ensure!(ended.errors == lines.join("\n") + "\n", "{}", ended.errors);
    Ok(())
}

#[test]
fn ambiguous_requests_are_refused() -> Result<()> {
    let twice = r#"{"id":1,"method":"ping","method":"tools/call","params":{"name":"t"}}"#;
    let without_id = r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"t"}}"#;
    let several = r#"{"id":1,"method":"ping"}{"id":2,"method":"tools/call"}"#;
    let mut client = shell("cat >&2")?;
    for line in [twice, without_id, several] {
        client.send(line.as_bytes())?;
        let refused: Value = serde_json::from_slice(&client.line()?)?;
        ensure!(refused["error"]["code"].as_i64().is_some_and(|code| code < 0), "{refused}");
    }
    let ended = client.end()?;
    ensure!(ended.errors.is_empty(), "{}", ended.errors);
    Ok(())
}

#[test]
fn unrequested_captures_pass_verbatim() -> Result<()> {
    let folder = artifacts::corpus()?
        .map(|corpus| corpus.join("mcp-captures"))
        .unwrap_or(artifacts::root().join("tests/captures"));
    let mut files: Vec<_> =
        std::fs::read_dir(folder)?.filter_map(|file| Some(file.ok()?.path())).collect();
    files.retain(|path| {
        path.extension().is_some_and(|ending| ending == "json") && !path.ends_with("index.json")
    });
    files.sort();
    ensure!(files.len() >= 20);
    let script =
        files.iter().map(|file| format!("cat '{}'; echo;", file.display())).collect::<String>();
    let mut expected = Vec::new();
    for file in &files {
        expected.extend(std::fs::read(file)?);
        expected.push(b'\n');
    }
    ensure!(shell(&script)?.end()?.output == expected);
    Ok(())
}

#[test]
fn exit_code_and_stderr_pass() -> Result<()> {
    let ended = shell("echo trouble >&2; exit 7")?.end()?;
    ensure!(
        (ended.code, ended.errors.as_str()) == (Some(7), "trouble\n"),
        "{:?} {}",
        ended.code,
        ended.errors
    );
    ensure!(shell("kill -9 $$")?.end()?.code == Some(137));
    let missing = Client::wrap(["--", "/no/such/server"])?.end()?;
    ensure!(
        missing.code == Some(127)
            && missing.errors.contains("/no/such/server")
            && missing.errors.contains("as you would type it"),
        "{}",
        missing.errors
    );
    Ok(())
}

#[test]
fn guard_exits_with_the_server() -> Result<()> {
    let mut client = shell("read line; exit 3")?;
    client.send(b"go")?;
    // Wait for the end of the output, with the input still open.
    ensure!(client.line().is_err());
    ensure!(client.end()?.code == Some(3));
    Ok(())
}

#[test]
fn answers_match_by_id() -> Result<()> {
    // The upstream answers the second call first, and writes the result before the id.
    let list =
        serde_json::to_string(&(0..300).map(|number| json!({"n": number})).collect::<Vec<_>>())?;
    let result = json!({"content": [{"type": "text", "text": list}]});
    let script = format!(
        "read a; read b; read c; printf '%s\\n' '{{\"result\":{result},\"jsonrpc\":\"2.0\",\"id\":2}}' '{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"content\":[]}}}}'"
    );
    let mut client = shell(&script)?;
    for id in 1..=2 {
        client.send(
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#
            )
            .as_bytes(),
        )?;
    }
    client.send(b"{}")?;
    let first: Value = serde_json::from_slice(&client.line()?)?;
    let page: Value =
        serde_json::from_str(first["result"]["content"][0]["text"].as_str().unwrap_or_default())?;
    ensure!(
        first["id"] == 2
            && page["items"].as_array().map(Vec::len) == Some(200)
            && page["meta"]["totalCount"] == 300,
        "{first}"
    );
    ensure!(client.line()? == br#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#);
    Ok(())
}

#[test]
fn batches_are_shaped() -> Result<()> {
    let list = serde_json::to_string(&(0..5_000).collect::<Vec<_>>())?;
    let answer = json!([{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": list}]}}, {"jsonrpc": "2.0", "id": 2, "result": {}}]);
    let mut client = shell(&format!("read a; printf '%s\\n' '{answer}'"))?;
    client.send(br#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#)?;
    let shaped: Value = serde_json::from_slice(&client.line()?)?;
    ensure!(
        shaped[0]["result"]["content"][0]["text"]
            .as_str()
            .is_some_and(|text| text.contains("\"totalCount\":5000"))
            && shaped[1]["result"] == json!({})
    );
    Ok(())
}

#[test]
fn huge_lines_pass_and_are_shaped() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("context-guard-large-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("large.json");
    let text = "A line of text that is long enough to fill something, and ends with a full stop.\n"
        .repeat(130_000);
    let line =
        json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}})
            .to_string();
    ensure!(line.len() > 10_000_000);
    std::fs::write(&path, line.clone() + "\n" + &line.replace("\"id\":1", "\"id\":99") + "\n")?;
    let mut client = shell(&format!("read a; cat {}; read b", path.display()))?;
    client.send(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#)?;
    let shaped = client.line()?;
    ensure!(
        shaped.len() < 30_000 && shaped.windows(10).any(|window| window == b"nextCursor"),
        "{}",
        shaped.len()
    );
    // Nobody requested 99: the message passes in full.
    ensure!(client.line()?.len() == line.len() + 1);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

#[test]
fn signing_key_is_stored_for_later_runs() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("context-guard-state-{}", std::process::id()));
    let run = |home: &std::path::Path, arguments: &[&str]| -> Result<String> {
        let output = std::process::Command::new(artifacts::program()?)
            .args(arguments)
            .env_remove("CONTEXT_GUARD_SIGNING_KEYS")
            .env_remove("XDG_STATE_HOME")
            .env("HOME", home)
            .output()?;
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{printed}");
        Ok(printed)
    };
    let payload = artifacts::root().join("tests/suite/main.rs").display().to_string();
    let commands = [vec!["wrap", "--", "true"], vec!["shape", payload.as_str()]];
    let file = folder.join(".local/state/context-guard/signing-key");
    for command in &commands {
        let printed = run(&folder, command)?;
        ensure!(!printed.contains("signing key"), "{printed}");
        let key = std::fs::read_to_string(&file)?;
        run(&folder, command)?;
        ensure!(std::fs::read_to_string(&file)? == key && key.len() > 40, "another key");
    }
    // A folder cannot be created below a file.
    for command in &commands {
        let printed = run(&file, command)?;
        ensure!(printed.matches("the signing key cannot be stored").count() == 1, "{printed}");
    }
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

#[test]
fn invalid_policy_exits_with_3() -> Result<()> {
    let path =
        std::env::temp_dir().join(format!("context-guard-policy-{}.yaml", std::process::id()));
    std::fs::write(&path, "hardCap: 10\nendpoints:\n  - shape: true\n")?;
    let ended = Client::wrap(["--policy", &path.display().to_string(), "--", "cat"])?.end()?;
    std::fs::remove_file(path)?;
    ensure!(
        ended.code == Some(3)
            && ended.errors.contains("hardCap: 10")
            && ended.errors.contains("endpoints[0].match"),
        "{}",
        ended.errors
    );
    Ok(())
}
