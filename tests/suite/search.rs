//! The example search server behind the guard: response modes on a tool without any, and their
//! savings.

use context_guard_test_support::answer::{Answer, o200k};
use context_guard_test_support::client::Client;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};

fn guarded() -> Result<Client> {
    let mut client = Client::wrap(["--".into(), artifacts::search_server()?.into_os_string()])?;
    client.open("2025-11-25")?;
    Ok(client)
}

fn direct(tool: &str, arguments: &Value) -> Result<Answer> {
    Client::start(artifacts::search_server()?, [""; 0])?.call(tool, arguments.clone())
}

fn ids(results: &Value) -> Vec<String> {
    let results = results.as_array().cloned().unwrap_or_default();
    let id = |result: &Value| {
        result
            .get("id")
            .or(result.pointer("/metadata/id"))
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    results.iter().filter_map(id).collect()
}

#[test]
fn each_mode_saves_tokens() -> Result<()> {
    let query = json!({"query": "parse and serialize json", "top_k": 10});
    let whole = direct("semantic_search", &query)?;
    let before = o200k(&whole.texts().concat());
    let expected = ids(&whole.json()?["results"]);
    ensure!(
        expected.len() == 10 && before > 4_000,
        "{} documents, {before} tokens",
        expected.len()
    );
    let mut client = guarded()?;
    let mut shown = |mode: &str| -> Result<(u64, Value)> {
        let mut arguments = query.clone();
        arguments["response_mode"] = mode.into();
        let answer = client.call("semantic_search", arguments)?;
        ensure!(answer.metadata()["kind"] == "selection", "{mode}: {}", answer.metadata());
        Ok((answer.tokens(), answer.json()?))
    };
    let (tokens, answer) = shown("ids_only")?;
    ensure!(
        answer["mode"] == "ids_only" && answer["count"] == 10 && answer["ids"] == json!(expected),
        "{answer}"
    );
    // About ten tokens per id, plus the result notice.
    ensure!(tokens < 300, "{tokens} tokens");
    let (metadata, answer) = shown("metadata")?;
    ensure!(
        ids(&answer["results"]) == expected && answer["results"][0].get("content").is_none(),
        "{answer}"
    );
    let (preview, answer) = shown("preview")?;
    ensure!(
        ids(&answer["results"]) == expected
            && answer["results"][0]["preview"].as_str().is_some_and(|text| text.len() > 50),
        "{answer}"
    );
    eprintln!(
        "semantic_search, 10 documents: {before} tokens whole, {tokens} ids_only, {metadata} metadata, {preview} preview"
    );
    ensure!(tokens < metadata && metadata < preview, "{tokens}, {metadata}, {preview}");
    // The target of the modes: 47 to 77 % fewer tokens.
    ensure!(
        preview * 100 <= before * 53 && metadata * 100 <= before * 23,
        "{before}: {metadata}, {preview}"
    );
    Ok(())
}

#[test]
fn documents_are_fetched_by_id() -> Result<()> {
    let query = json!({"query": "asynchronous runtime", "top_k": 8});
    let whole = direct("semantic_search", &query)?.json()?;
    let mut client = guarded()?;
    let mut with = |name: &str, value: Value, mode: &str| -> Result<Answer> {
        let mut arguments = query.clone();
        arguments["response_mode"] = mode.into();
        arguments[name] = value;
        client.call("semantic_search", arguments)
    };
    let listed = with("limit", json!(50), "metadata")?.json()?;
    let chosen = ids(&listed["results"]).get(2).cloned().context("fewer than three results")?;
    let found = with("filter_ids", json!([chosen]), "preview")?.json()?;
    ensure!(found["count"] == 1 && found["results"][0]["metadata"]["id"] == chosen, "{found}");
    let document = whole["results"][2].clone();
    let full = with("filter_ids", json!([chosen]), "full")?;
    let mut text: String = full.texts().concat();
    if full.metadata()["kind"] != "selection" {
        text = client
            .walk("context_guard_read", json!({"cursor": full.cursor()}))?
            .iter()
            .flat_map(Answer::texts)
            .collect();
    }
    ensure!(text.contains(document["title"].as_str().context("no title")?), "{text:.400}");
    Ok(())
}

#[test]
fn scores_and_vendors_filter() -> Result<()> {
    let mut client = guarded()?;
    let all =
        direct("semantic_search", &json!({"query": "random numbers", "top_k": 20}))?.json()?;
    let good: Vec<Value> = all["results"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|result| result["score"].as_f64() >= Some(0.5))
        .map(|result| result["id"].clone())
        .collect();
    // `min_score` belongs to the server, so the guard's argument is named `_guard_min_score`.
    let arguments = json!({"query": "random numbers", "top_k": 20, "_guard_min_score": 0.5, "response_mode": "ids_only"});
    let found = client.call("semantic_search", arguments)?.json()?;
    ensure!(!good.is_empty() && found["ids"] == Value::from(good.clone()), "{found}, not {good:?}");
    let vendor = all["results"][0]["vendor"].as_str().context("no vendor")?.to_owned();
    let documents = client
        .call("find_vendor_info", json!({"vendor": vendor, "response_mode": "metadata"}))?
        .json()?;
    ensure!(
        documents["count"].as_u64() >= Some(1) && documents["results"][0]["vendor"] == vendor,
        "{documents}"
    );
    Ok(())
}

#[test]
fn invalid_arguments_reach_the_server() -> Result<()> {
    let mut client = guarded()?;
    for (arguments, reason) in [
        (json!({"query": "x"}), "2 to 1000 characters"),
        (json!({"query": "json", "top_k": 101}), "from 1 to 100"),
    ] {
        let answer = client.call("semantic_search", arguments)?;
        ensure!(
            answer.is_error() && answer.all_texts().concat().contains(reason),
            "{:?}",
            answer.all_texts()
        );
    }
    Ok(())
}
