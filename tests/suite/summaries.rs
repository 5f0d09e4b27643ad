//! The acceptance scenarios of user story 2 and the edge cases of the specification on the example
//! server: `us2_1_…` is story 2, scenario 1.

use context_guard_test_support::answer::Answer;
use context_guard_test_support::client::Client;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};

/// Starts the example server behind the guard, under a policy of the examples.
fn under(policy: &str) -> Result<Client> {
    let policy = artifacts::root().join("examples/policies").join(policy);
    let arguments = [
        "--policy".into(),
        policy.into_os_string(),
        "--".into(),
        artifacts::property_server()?.into_os_string(),
    ];
    let mut client = Client::wrap(arguments)?;
    client.open("2025-11-25")?;
    Ok(client)
}

/// Returns the answer of the server without the guard.
fn raw(tool: &str) -> Result<Value> {
    let mut client = Client::start(artifacts::property_server()?, [""; 0])?;
    client.call(tool, json!({}))?.json()
}

#[test]
fn us2_1_large_booking_is_summarized() -> Result<()> {
    for mut client in [under("bookings.yaml")?, Client::property_server()?] {
        let answer = client.call("get_booking", json!({"id": "BK-0007"}))?;
        let shown = answer.json()?;
        let summary = &shown["summary"];
        for (path, expected) in [
            ("/id", "BK-0007"),
            ("/status", "pending"),
            ("/guest/name", "Alan Turing"),
            ("/checkIn", "2026-01-08"),
            ("/checkOut", "2026-01-13"),
            ("/property/title", "Old house in Porto"),
        ] {
            ensure!(summary.pointer(path) == Some(&json!(expected)), "{path} in {summary}");
        }
        ensure!(
            shown["meta"]["kind"] == "preview" && shown["meta"]["totalFields"].as_u64() > Some(10),
            "{shown}"
        );
        let details = &shown["meta"]["detailsAvailable"];
        ensure!(
            details["endpoint"] == "context_guard_read"
                && details["parameters"]["fields"].is_string(),
            "{details}"
        );
        let notice = answer.notice().context("no result notice")?;
        ensure!(
            notice.contains("SUMMARY, not the whole answer") && notice.contains("\"fields\""),
            "{notice}"
        );
        ensure!(
            answer.metadata()["loss"] == "condensed" && answer.tokens() <= 2_000,
            "{} tokens",
            answer.tokens()
        );
    }
    Ok(())
}

#[test]
fn us2_1_policy_selects_summary_fields() -> Result<()> {
    let answer = under("bookings.yaml")?.call("get_booking", json!({}))?;
    let summary = &answer.json()?["summary"];
    ensure!(summary["financial"] == json!({"currency": "EUR", "total": 2608.0}), "{summary}");
    let names: Vec<&String> = summary.as_object().context("no object")?.keys().collect();
    ensure!(names.len() == 7 && summary.get("messages").is_none(), "{names:?}");
    ensure!(answer.tokens() < 800, "{} tokens", answer.tokens());
    Ok(())
}

#[test]
fn us2_2_section_is_returned() -> Result<()> {
    let whole = raw("get_booking")?;
    let mut client = Client::property_server()?;
    let cursor = client.call("get_booking", json!({}))?.cursor().context("no cursor")?;
    for answer in [
        client.call("context_guard_read", json!({"cursor": cursor, "fields": "financial"}))?,
        client.call("get_booking", json!({"fields": "financial"}))?,
        client.call("get_booking", json!({"_guard": {"fields": ["financial"]}}))?,
    ] {
        ensure!(answer.json()? == json!({"financial": whole["financial"]}), "{:?}", answer.texts());
        ensure!(answer.metadata()["loss"] == "partial" && answer.metadata()["kind"] == "selection");
    }
    let path = client
        .call("context_guard_read", json!({"cursor": cursor, "path": "/financial/lines/3"}))?;
    ensure!(path.json()? == whole["financial"]["lines"][3]);
    let pieces = client.walk("get_booking", json!({"fields": "all"}))?;
    let text: String = pieces.iter().flat_map(Answer::texts).collect();
    ensure!(
        serde_json::from_str::<Value>(&text)? == whole,
        "fields=all does not give the original"
    );
    Ok(())
}

#[test]
fn us2_3_small_answer_is_unchanged() -> Result<()> {
    let mut client = Client::property_server()?;
    let direct =
        Client::start(artifacts::property_server()?, [""; 0])?.call("short_note", json!({}))?;
    let guarded = client.call("short_note", json!({}))?;
    ensure!(direct.result() == guarded.result(), "{}", guarded.0);
    Ok(())
}

#[test]
fn us2_4_metadata_shows_tokens() -> Result<()> {
    let answer = Client::property_server()?.call("get_booking", json!({}))?;
    let contract = answer.metadata();
    let (estimated, left) =
        (contract["estimatedTokens"].as_u64(), contract["budgetRemaining"].as_u64());
    ensure!(
        estimated
            .is_some_and(|estimated| estimated.abs_diff(answer.tokens()) * 5 <= answer.tokens()),
        "{contract}"
    );
    ensure!(
        estimated.zip(left).map(|(estimated, left)| estimated + left) == Some(4_000),
        "{contract}"
    );
    ensure!(contract["budgetUsed"].as_f64().is_some_and(|used| used > 0.0 && used <= 1.0));
    Ok(())
}

#[test]
fn edge_invalid_cursor_has_advice() -> Result<()> {
    let answer = Client::property_server()?
        .call("context_guard_read", json!({"cursor": "abc.def", "fields": "id"}))?;
    let text = answer.all_texts().concat();
    ensure!(
        answer.is_error()
            && text.starts_with("cursor_invalid")
            && text.contains("Repeat the original call"),
        "{text}"
    );
    Ok(())
}

#[test]
fn edge_malformed_parameters_are_rejected() -> Result<()> {
    let mut client = Client::property_server()?;
    for (arguments, reason) in [
        (json!({"limit": 201}), "limit exceeds maximum of 200"),
        (json!({"cursor": 5}), "invalid cursor format"),
        (json!({"fields": "id,,x"}), "fields has an empty path"),
        (json!({"response_mode": "tiny"}), "ids_only, metadata, preview or full"),
        (json!({"_guard": {"path": "$["}}), "JSON Pointer such as /items/0/name"),
        (json!({"_guard": {"grep": "("}}), "no regular expression"),
        (json!({"_guard": {"aggregate": "total"}}), "count by status"),
        (json!({"_guard": {"where": "status"}}), "status=confirmed"),
        (json!({"_guard": {"fields": "id", "aggregate": "count"}}), "cannot be asked for together"),
    ] {
        let answer = client.call("list_bookings", arguments.clone())?;
        let text = answer.all_texts().concat();
        ensure!(answer.is_error() && text.contains(reason), "{arguments}: {text}");
    }
    Ok(())
}

#[test]
fn edge_binary_text_is_described() -> Result<()> {
    use context_guard_test_support::guards::NativeGuard;
    use context_guard_test_support::walk::{pages, shape};
    let bytes: Vec<u8> = b"\x89PNG\r\n"
        .iter()
        .copied()
        .chain((0..30_000u32).map(|at| (at * 7919 % 251) as u8))
        .collect();
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
    let message = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": encoded}]}});
    let host = NativeGuard::with_policy("")?;
    let shaped = Answer::read(
        &shape(&host, "screenshot", &json!({}), message.to_string().as_bytes())?
            .context("not shaped")?,
    )?;
    let text = shaped.texts().concat();
    ensure!(
        shaped.metadata()["loss"] == "described" && text.contains("base64 of a PNG image"),
        "{text}"
    );
    let whole: String = pages(&host, shaped)?.iter().flat_map(Answer::texts).collect();
    ensure!(whole == encoded, "the described data is not stored");
    Ok(())
}

#[test]
fn edge_pages_are_consistent_after_changes() -> Result<()> {
    use context_guard_test_support::guards::NativeGuard;
    use context_guard_test_support::walk::{items, pages, shape};
    let list = |from: usize| {
        let items: Vec<Value> =
            (from..from + 300).map(|id| json!({"id": id, "name": format!("row {id}")})).collect();
        json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": json!({ "rows": items }).to_string()}]}})
    };
    let host = NativeGuard::with_policy("")?;
    let first = Answer::read(
        &shape(&host, "rows", &json!({}), list(0).to_string().as_bytes())?.context("not shaped")?,
    )?;
    // The data changes, and the tool is called again. A cursor leads to the data of its own call.
    shape(&host, "rows", &json!({}), list(1_000).to_string().as_bytes())?;
    let walked = items(&pages(&host, first)?)?;
    ensure!(walked.len() == 300 && walked.iter().all(|row| row["id"].as_u64() < Some(300)));
    Ok(())
}

#[test]
fn totals_include_hidden_rows() -> Result<()> {
    let bookings = raw("list_bookings")?;
    let sum: u64 = bookings["bookings"]
        .as_array()
        .context("no list")?
        .iter()
        .filter_map(|booking| booking["total"].as_u64())
        .sum();
    let mut client = Client::property_server()?;
    let cursor = client.call("list_bookings", json!({}))?.cursor().context("no cursor")?;
    let totals = client
        .call(
            "context_guard_read",
            json!({"cursor": cursor, "aggregate": "count by status, sum(total), distinct(guest)"}),
        )?
        .json()?;
    ensure!(totals["records"] == 500 && totals["sum(total)"] == sum, "{totals}");
    ensure!(totals["distinct(guest)"]["count"] == 12, "{totals}");
    let confirmed = client
        .call(
            "context_guard_read",
            json!({"cursor": cursor, "where": "status=confirmed,total>=700", "fields": "id,total"}),
        )?
        .json()?;
    let expected: Vec<Value> = bookings["bookings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|booking| {
            booking["status"] == "confirmed" && booking["total"].as_u64() >= Some(700)
        })
        .map(|booking| json!({"id": booking["id"], "total": booking["total"]}))
        .collect();
    // The document around the records remains as it is.
    let document = json!({"bookings": expected, "page": 1});
    ensure!(!expected.is_empty() && confirmed == document, "{confirmed}");
    Ok(())
}

#[test]
fn log_search_returns_context() -> Result<()> {
    let mut client = Client::property_server()?;
    let first = client.call("read_log", json!({}))?;
    let notice = first.notice().context("no result notice")?;
    ensure!(
        notice.contains("errors") && notice.contains("ERROR sync ") && notice.contains("the end:"),
        "{notice}"
    );
    let found = client.call(
        "context_guard_read",
        json!({"cursor": first.cursor(), "grep": "ERROR sync 23[0-9]+ failed", "context": 1}),
    )?;
    let text = found.texts().concat();
    ensure!(
        text.contains("ERROR sync 233 failed")
            && text.contains("Traceback: timeout")
            && text.contains("sync 232 ok"),
        "{text}"
    );
    Ok(())
}

#[test]
fn fr_006_policy_orders_list() -> Result<()> {
    let answer = under("financial.yaml")?.call("list_transactions", json!({}))?;
    let shown = answer.json()?;
    let times: Vec<&str> = shown["items"]
        .as_array()
        .context("no items")?
        .iter()
        .filter_map(|item| item["at"].as_str())
        .collect();
    let mut sorted = times.clone();
    sorted.sort_unstable();
    sorted.reverse();
    ensure!(times.len() >= 50 && times == sorted && times.first() > Some(&"2026-12"), "{times:?}");
    Ok(())
}

#[test]
fn truncation_marks_are_rejected() -> Result<()> {
    let mut client = Client::property_server()?;
    let marked = json!({"status": "The house stands by the sea ... [12 more words]"});
    let refused = client.call("list_bookings", marked.clone())?;
    ensure!(
        refused.is_error() && refused.all_texts().concat().contains("was not sent"),
        "{:?}",
        refused.all_texts()
    );
    let mut meant = marked;
    meant["_guard_verbatim"] = true.into();
    ensure!(!client.call("list_bookings", meant)?.is_error());
    Ok(())
}

#[test]
fn summary_matches_tool_schema() -> Result<()> {
    let answer = Client::property_server()?
        .call("list_listings", json!({"fields": "id,nightly", "limit": 5}))?;
    let structured = &answer.result()["structuredContent"];
    let names: Vec<&String> = structured.as_object().context("no object")?.keys().collect();
    ensure!(names == ["context_guard"], "the schema is closed: {names:?}");
    ensure!(
        structured["context_guard"]["content"]["listings"][0]
            == json!({"id": "LS-000", "nightly": 60}),
        "{structured}"
    );
    Ok(())
}
