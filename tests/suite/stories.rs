//! The acceptance scenarios of user stories 1 and 4 on the example server: `us1_2_…` is story 1,
//! scenario 2.

use context_guard_test_support::answer::Answer;
use context_guard_test_support::client::Client;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};

fn bookings(answer: &Answer) -> Result<Vec<Value>> {
    Ok(answer.json()?["bookings"].as_array().context("no bookings")?.clone())
}

/// Returns the answer of the server without the guard.
fn raw(tool: &str) -> Result<Vec<u8>> {
    let mut client = Client::start(artifacts::property_server()?, [""; 0])?;
    client.send(
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}"}}}}"#)
            .as_bytes(),
    )?;
    client.line()
}

#[test]
fn us1_1_long_list_is_paged() -> Result<()> {
    let answer = Client::property_server()?.call("list_bookings", json!({}))?;
    let page = answer.json()?;
    // The page has room for more than 50 bookings.
    let shown = bookings(&answer)?.len();
    ensure!((51..=200).contains(&shown) && page["page"] == 1, "{shown}");
    ensure!(
        page["meta"] == json!({"totalCount": 500, "pageSize": shown, "hasMore": true}),
        "{}",
        page["meta"]
    );
    ensure!(
        page["nextCursor"].as_str() == answer.next_cursor().as_deref()
            && answer.next_cursor().is_some()
    );
    let notice = answer.notice().context("no result notice")?;
    ensure!(
        notice.contains(&format!("items 1-{shown} of 500"))
            && notice.contains(&format!("{} are NOT shown", 500 - shown)),
        "{notice}"
    );
    ensure!(answer.tokens() <= 4_000);
    Ok(())
}

#[test]
fn us1_2_cursor_leads_to_next_page() -> Result<()> {
    let mut client = Client::property_server()?;
    let first = client.call("list_bookings", json!({}))?;
    let cursor = first.next_cursor().context("no cursor")?;
    let by_tool = client.call("list_bookings", json!({ "cursor": cursor }))?;
    let by_reading = client.call("context_guard_read", json!({ "cursor": cursor }))?;
    ensure!(bookings(&by_tool)? == bookings(&by_reading)?);
    let ids: Vec<_> = bookings(&by_tool)?.iter().map(|booking| booking["id"].clone()).collect();
    let shown = bookings(&first)?.len();
    ensure!(ids.first() == Some(&json!(format!("BK-{shown:04}"))) && ids.len() >= 50, "{ids:?}");
    ensure!(by_tool.next_cursor().is_some_and(|next| next != cursor));
    Ok(())
}

#[test]
fn us1_3_short_list_is_unchanged() -> Result<()> {
    let mut client = Client::property_server()?;
    client.send(
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"recent_bookings"}}"#,
    )?;
    ensure!(client.line()? == raw("recent_bookings")?);
    Ok(())
}

#[test]
fn us1_4_last_page_has_no_cursor() -> Result<()> {
    let pages = Client::property_server()?.walk("list_bookings", json!({}))?;
    let last = pages.last().context("no page")?;
    ensure!(
        last.json()?.get("nextCursor").is_none()
            && last.json()?["meta"]["hasMore"] == false
            && last.cursors().is_empty()
    );
    let mut walked = Vec::new();
    for page in &pages {
        walked.extend(bookings(page)?);
    }
    ensure!(walked == bookings(&Answer::read(&raw("list_bookings")?)?)?);
    Ok(())
}

#[test]
fn fr_002_limit_is_at_most_200() -> Result<()> {
    let mut client = Client::property_server()?;
    ensure!(bookings(&client.call("list_bookings", json!({"limit": 7}))?)?.len() == 7);
    for (limit, reason) in [
        (json!(201), "limit exceeds maximum of 200"),
        (json!(0), "must be a whole number"),
        (json!(-1), "must be"),
        (json!("all"), "must be"),
    ] {
        let answer = client.call("list_bookings", json!({ "limit": limit }))?;
        ensure!(
            answer.is_error() && answer.all_texts().concat().contains(reason),
            "{limit}: {:?}",
            answer.all_texts()
        );
    }
    Ok(())
}

#[test]
fn fr_002_limit_applies_to_later_pages() -> Result<()> {
    let mut client = Client::property_server()?;
    let first = client.call("list_bookings", json!({"limit": 20}))?;
    let second = client.call("context_guard_read", json!({"cursor": first.next_cursor()}))?;
    ensure!(bookings(&second)?.len() == 20);
    Ok(())
}

#[test]
fn fr_008_invalid_cursor_is_rejected() -> Result<()> {
    let mut client = Client::property_server()?;
    let cursor = client.call("list_bookings", json!({}))?.next_cursor().context("no cursor")?;
    let forged = cursor.replacen('e', "f", 1);
    for (tool, cursor) in [
        ("list_bookings", forged.as_str()),
        ("list_transactions", &cursor),
        ("context_guard_read", "nonsense"),
    ] {
        let answer = client.call(tool, json!({ "cursor": cursor }))?;
        let text = answer.all_texts().concat();
        ensure!(
            answer.is_error()
                && text.starts_with("cursor_invalid")
                && text.contains("Repeat the original call"),
            "{tool}: {text}"
        );
    }
    Ok(())
}

#[test]
fn batch_returns_several_pages() -> Result<()> {
    let answer = Client::property_server()?.call("list_bookings", json!({"pages": 3}))?;
    ensure!(bookings(&answer)?.len() == 150 && answer.tokens() <= 12_000);
    Ok(())
}

#[test]
fn text_and_structured_content_match() -> Result<()> {
    let mut client = Client::property_server()?;
    let first = client.call("list_listings", json!({"limit": 3}))?;
    let (text, structured) = (first.json()?, &first.result()["structuredContent"]);
    ensure!(text["listings"] == structured["listings"] && structured["currency"] == "EUR");
    ensure!(
        structured["context_guard"]["total"] == 300 && structured.get("meta").is_none(),
        "the schema is closed: {structured}"
    );
    let next = client.call("list_listings", json!({"cursor": first.next_cursor()}))?;
    ensure!(next.result()["structuredContent"]["listings"] == next.json()?["listings"]);
    // Two copies of a full page exceed the budget.
    let full = client.call("list_listings", json!({}))?;
    let structured = &full.result()["structuredContent"];
    ensure!(full.json()?["listings"].as_array().is_some_and(|listings| listings.len() > 3));
    ensure!(structured["context_guard"]["note"].is_string(), "{structured}");
    ensure!(structured.get("listings").is_none() && full.tokens() <= 4_000);
    Ok(())
}

#[test]
fn us4_1_long_log_is_chunked() -> Result<()> {
    let answer = Client::property_server()?.call("read_log", json!({}))?;
    let contract = answer.metadata();
    let lines = answer.texts().concat().lines().count();
    // From 200 lines, chunks grow to fill the budget.
    ensure!(lines >= 200, "{lines}");
    ensure!(
        contract["metadata"]["startLine"] == 1
            && contract["metadata"]["endLine"] == lines
            && contract["metadata"]["totalLines"] == 10_000,
        "{contract}"
    );
    ensure!(
        contract["chunkIndex"] == 0
            && contract["totalChunks"].as_u64() >= Some(20)
            && answer.next_cursor().is_some()
    );
    ensure!(contract["metadata"]["bytesInChunk"] == answer.texts().concat().len());
    Ok(())
}

#[test]
fn us4_2_chunks_end_at_entries() -> Result<()> {
    let mut client = Client::property_server()?;
    let chunks = client.walk("read_log", json!({}))?;
    ensure!(
        chunks.first().map(|chunk| chunk.metadata()["totalChunks"].clone())
            == Some(json!(chunks.len()))
    );
    for chunk in &chunks {
        let text = chunk.texts().concat();
        ensure!(
            text.as_bytes().first().is_some_and(u8::is_ascii_digit),
            "a chunk begins inside an entry: {text:.40}"
        );
        ensure!(chunk.tokens() <= 4_000);
    }
    let walked: String = chunks.iter().flat_map(Answer::texts).collect();
    ensure!(walked == Answer::read(&raw("read_log")?)?.texts().concat());
    Ok(())
}

#[test]
fn us4_2_chunks_end_at_sentences() -> Result<()> {
    let chunks = Client::property_server()?.walk("read_manual", json!({}))?;
    ensure!(chunks.len() > 2);
    for chunk in &chunks {
        let text = chunk.texts().concat();
        ensure!(text.matches("```").count() % 2 == 0, "a code block is cut");
        ensure!(
            matches!(text.trim_end().chars().last(), Some('.' | '`')),
            "ends with {:?}",
            text.chars().rev().take(30).collect::<String>()
        );
    }
    let walked: String = chunks.iter().flat_map(Answer::texts).collect();
    ensure!(walked == Answer::read(&raw("read_manual")?)?.texts().concat());
    Ok(())
}

#[test]
fn us4_3_line_range_is_returned() -> Result<()> {
    let mut client = Client::property_server()?;
    let log = Answer::read(&raw("read_log")?)?.texts().concat();
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let expected = lines.get(4_999..5_010).context("too short")?.concat();
    let direct = client.call("read_log", json!({"startLine": 5_000, "endLine": 5_010}))?;
    ensure!(
        direct.texts().concat() == expected
            && direct.metadata()["metadata"]["startLine"] == 5_000
            && direct.metadata()["metadata"]["endLine"] == 5_010
    );
    let cursor = client.call("read_log", json!({}))?.next_cursor();
    let limited = client.call(
        "context_guard_read",
        json!({"cursor": cursor, "startLine": 5_000, "endLine": 5_010}),
    )?;
    ensure!(limited.texts().concat() == expected);
    let beyond =
        client.call("context_guard_read", json!({"cursor": cursor, "startLine": 10_001}))?;
    ensure!(beyond.is_error() && beyond.all_texts().concat().contains("10000 lines"));
    Ok(())
}

#[test]
fn us4_3_long_line_range_is_chunked() -> Result<()> {
    let log = Answer::read(&raw("read_log")?)?.texts().concat();
    let expected: String = log.split_inclusive('\n').skip(99).take(901).collect();
    let parts =
        Client::property_server()?.walk("read_log", json!({"startLine": 100, "endLine": 1_000}))?;
    ensure!(parts.len() > 1 && parts.iter().all(|part| part.tokens() <= 4_000));
    ensure!(parts.iter().flat_map(Answer::texts).collect::<String>() == expected);
    Ok(())
}

#[test]
fn us4_4_short_text_is_unchanged() -> Result<()> {
    let mut client = Client::property_server()?;
    client.send(
        br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"short_note"}}"#,
    )?;
    ensure!(client.line()? == raw("short_note")?);
    Ok(())
}

#[test]
fn resources_are_chunked() -> Result<()> {
    let mut client = Client::property_server()?;
    let mut answer = client.request("resources/read", &json!({"uri": "property://log/today"}))?;
    let mut walked = answer.texts().concat();
    while let Some(cursor) = answer.next_cursor() {
        answer = client
            .request("resources/read", &json!({"uri": format!("context-guard://read/{cursor}")}))?;
        ensure!(answer.tokens() <= 4_000);
        walked.push_str(&answer.texts().concat());
    }
    ensure!(walked == Answer::read(&raw("read_log")?)?.texts().concat());
    Ok(())
}
