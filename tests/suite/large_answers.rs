//! Answers of 16 to 60 MB in the worst shapes: each is shortened to the hard cap, and what it
//! withholds is found by a search.

use context_guard_test_support::client::Client;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};

/// The maximum number of tokens of an answer, by default.
const HARD_CAP: u64 = 12_000;

#[test]
fn no_large_answer_is_lost() -> Result<()> {
    let script = artifacts::root().join("tests/support/servers/large.mjs");
    let script = script.to_str().context("a path that is not UTF-8")?;
    let mut client = Client::wrap(["--", "node", "--max-old-space-size=4000", script])?;
    let tools = client.open("2025-11-25")?;
    let tools = tools.result()["tools"].as_array().cloned().context("no tools")?;
    let names = tools.iter().filter_map(|tool| tool["name"].as_str());
    let mut checked = 0;
    for name in names.filter(|name| !name.starts_with("context_guard")) {
        let answer = client.call(name, json!({}))?;
        let tokens = answer.tokens();
        ensure!(!answer.is_error() && tokens <= HARD_CAP, "{name}: {tokens} tokens");
        let cursor = answer.cursor().with_context(|| format!("{name}: {:.600}", answer.0))?;
        let found =
            client.call("context_guard_read", json!({"cursor": cursor, "grep": "NEEDLE"}))?;
        let text = found.all_texts().concat();
        ensure!(
            !found.is_error() && text.contains("NEEDLE") && found.tokens() <= HARD_CAP,
            "{name}: {text:.600}"
        );
        let next = client.call("context_guard_read", json!({"cursor": cursor}))?;
        ensure!(
            !next.is_error() && next.tokens() <= HARD_CAP && next.0["result"] != Value::Null,
            "{name}: {:.600}",
            next.0
        );
        checked += 1;
    }
    ensure!(checked == 20, "{checked} answers");
    Ok(())
}
