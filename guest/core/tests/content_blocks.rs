//! Content blocks other than texts: links are paged, and user interfaces pass unchanged.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

use base64::Engine as _;
use context_guard_core::Record;
use context_guard_test_kit::guard::{NativeGuard, TestGuard, Verdict};
use serde_json::{Value, json};

const NOTICE: &str = "[context-guard]";

fn request(method: &str, params: Value) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string().into_bytes()
}

/// Returns the guard's version of a tool result, or none if it is sent unchanged.
fn shaped(
    guard: &NativeGuard,
    method: &str,
    name: &str,
    result: &Value,
) -> (Option<Value>, Record) {
    let Verdict::Forward(_, ticket) =
        guard.request(&request(method, json!({"name": name, "uri": name}))).unwrap()
    else {
        panic!("the request is forwarded")
    };
    let message = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
    let (shaped, record) = guard.response(&ticket, message.as_bytes()).unwrap();
    (
        shaped.map(|shaped| serde_json::from_slice::<Value>(&shaped).unwrap()["result"].clone()),
        record,
    )
}

fn guard(policy: Value) -> NativeGuard {
    NativeGuard::with_policy(&policy.to_string()).unwrap()
}

/// Returns the content blocks of a result, without result notices.
fn blocks(result: &Value) -> Vec<Value> {
    let is_notice =
        |block: &&Value| block["text"].as_str().is_some_and(|text| text.starts_with(NOTICE));
    result["content"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|block| !is_notice(block))
        .cloned()
        .collect()
}

/// Returns the blocks of a result and of all pages that its cursors lead to. Checks that every page
/// fits the budget.
fn walk(guard: &NativeGuard, (first, record): (Option<Value>, Record)) -> Vec<Value> {
    let fits = |record: &Record| {
        assert!(record.estimated_tokens <= record.budget, "{} tokens", record.estimated_tokens);
    };
    fits(&record);
    let mut result = first.unwrap();
    let mut all = blocks(&result);
    while let Some(cursor) = result["_meta"]["dev.context-guard/result"]["nextCursor"].as_str() {
        let params = json!({"name": "context_guard_read", "arguments": {"cursor": cursor}});
        let Verdict::Answer(answer, record) =
            guard.request(&request("tools/call", params)).unwrap()
        else {
            panic!("the read tool answers")
        };
        fits(&record);
        result = serde_json::from_slice::<Value>(&answer).unwrap()["result"].clone();
        let page = blocks(&result);
        assert!(!page.is_empty(), "{result}");
        all.extend(page);
    }
    all
}

fn links(count: usize) -> Vec<Value> {
    let link = |at| {
        json!({"type": "resource_link", "uri": format!("file:///reports/{at}.md"),
            "name": format!("report-{at}"), "description": "The report of one day, with totals"})
    };
    (0..count).map(link).collect()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns the content block of a user interface whose HTML exceeds every budget.
fn interface(uri: &str, mime: &str) -> Value {
    let html = "<div class=\"card\">Total: 12</div>\n".repeat(20_000);
    json!({"uri": uri, "mimeType": mime, "text": html})
}

#[test]
fn links_are_paged() {
    let image = json!({"type": "image", "mimeType": "image/png", "data": "aGk="});
    let mixed: Vec<Value> = links(300)
        .into_iter()
        .zip((0..300).map(|at| text(&format!("Report {at}"))))
        .flat_map(<[Value; 2]>::from)
        .collect();
    for (content, threshold) in [
        (links(800), 4_000),
        (links(800), 600),
        ([vec![text("Found 500 reports:")], links(500)].concat(), 4_000),
        (mixed, 4_000),
        ([vec![text("Pictures")], vec![image; 120]].concat(), 4_000),
    ] {
        let guard = guard(json!({"tokenBudgetThreshold": threshold}));
        let first = shaped(&guard, "tools/call", "search", &json!({ "content": content }));
        assert_eq!(walk(&guard, first), content);
    }
}

#[test]
fn links_beside_structured_content_are_paged() {
    let guard = guard(json!({}));
    let data = json!({"reports": (0..10).map(|at| json!({"id": at})).collect::<Vec<_>>()});
    let content = [vec![text(&data.to_string())], links(500)].concat();
    let result = json!({"content": content, "structuredContent": data});
    let (first, record) = shaped(&guard, "tools/call", "search", &result);
    assert_eq!(first.as_ref().unwrap()["structuredContent"]["reports"], data["reports"]);
    assert_eq!(walk(&guard, (first, record)), content);
}

#[test]
fn few_links_are_kept_beside_a_list() {
    let guard = guard(json!({}));
    let rows: Vec<Value> =
        (0..2_000).map(|at| json!({"id": at, "name": format!("row {at}")})).collect();
    let content = [vec![text(&json!(rows).to_string())], links(5)].concat();
    let (result, record) = shaped(&guard, "tools/call", "list", &json!({ "content": content }));
    assert!(record.estimated_tokens <= record.budget);
    assert_eq!(blocks(&result.unwrap())[1..], links(5));
}

#[test]
fn few_links_pass_unchanged() {
    let guard = guard(json!({}));
    let content = [vec![text("Reports")], links(20)].concat();
    assert_eq!(shaped(&guard, "tools/call", "list", &json!({ "content": content })).0, None);
}

#[test]
fn interface_resources_pass_unchanged() {
    let guard = guard(json!({}));
    for (uri, mime) in [
        ("ui://files/preview", "text/html;profile=mcp-app"),
        ("ui://files/preview", "text/html"),
        ("https://example.org/app", "text/html; profile=\"mcp-app\""),
        ("component://card", "text/html+skybridge"),
    ] {
        let result = json!({"contents": [interface(uri, mime)]});
        let (changed, record) = shaped(&guard, "resources/read", uri, &result);
        assert_eq!((changed, record.original_tokens), (None, 0), "{uri} {mime}");
    }
    let page = json!({"contents": [interface("file:///index.html", "text/html")]});
    assert!(shaped(&guard, "resources/read", "file:///index.html", &page).0.is_some());
}

#[test]
fn embedded_interfaces_pass_unchanged() {
    let guard = guard(json!({}));
    let interface = json!({"type": "resource", "resource": interface("ui://a/b", "text/html")});
    let rows: Vec<Value> =
        (0..2_000).map(|at| json!({"id": at, "name": format!("row {at}")})).collect();
    let rows = json!({ "rows": rows });
    let texts: Vec<Value> =
        (0..300).map(|at| text(&format!("{at} {}", "word ".repeat(40)))).collect();
    for result in [
        json!({"content": [text(&rows.to_string()), interface]}),
        json!({"content": [interface, text(&rows.to_string())], "structuredContent": rows}),
        json!({"content": ([texts.clone(), vec![interface.clone()]].concat())}),
        json!({"content": ([vec![interface.clone()], texts.clone()].concat())}),
        json!({"content": ([links(800), vec![interface.clone()]].concat())}),
    ] {
        let (shaped, record) = shaped(&guard, "tools/call", "list", &result);
        assert!(record.estimated_tokens <= record.budget);
        let shown = blocks(&shaped.unwrap());
        assert_eq!(shown.iter().filter(|block| **block == interface).count(), 1);
    }
    let only = json!({ "content": [interface] });
    assert_eq!(shaped(&guard, "tools/call", "list", &only).0, None);
}

#[test]
fn base64_in_json_is_described() {
    let guard = guard(json!({}));
    let bytes: Vec<u8> =
        b"\x89PNG".iter().copied().chain((0..60_000_u32).map(|at| (at * at % 251) as u8)).collect();
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    let periodic = base64::engine::general_purpose::STANDARD.encode(b"abc".repeat(20_000));
    let document = json!({"id": 7, "name": "logo", "data": data, "other": periodic});
    let rows: Vec<Value> = (0..20).map(|at| json!({"id": at, "data": data})).collect();
    for (payload, path) in [(document.clone(), "/summary/data"), (json!(rows), "/items/3/data")] {
        let content = json!({"content": [text(&payload.to_string())]});
        let (result, _) = shaped(&guard, "tools/call", "file", &content);
        let shown: Value =
            serde_json::from_str(blocks(&result.unwrap())[0]["text"].as_str().unwrap()).unwrap();
        let described =
            "base64 of a PNG image, about 60006 bytes decoded ... [80008 more characters]";
        assert_eq!(shown.pointer(path), Some(&json!(described)), "{shown}");
    }
    let content = json!({"content": [text(&document.to_string())]});
    let (result, _) = shaped(&guard, "tools/call", "file", &content);
    let shown = blocks(&result.unwrap())[0]["text"].as_str().unwrap().to_owned();
    assert!(shown.contains("base64, about 60000 bytes decoded"), "{shown}");
}

#[test]
fn errors_in_later_blocks_are_quoted() {
    let guard = guard(json!({}));
    let text = |text: &str| json!({"type": "text", "text": text});
    let lines: String = (0..900).map(|at| format!("step {at} is done\n")).collect();
    let third = format!("{lines}error: the disk is full now\n{lines}");
    let content = [text(&lines.repeat(3)), text("FATAL: the reason"), text(&third)];
    let result = json!({"content": content, "isError": true});
    let (shaped, record) = shaped(&guard, "tools/call", "t", &result);
    assert!(record.estimated_tokens <= record.budget, "{} tokens", record.estimated_tokens);
    let shaped = shaped.unwrap().to_string();
    for quote in ["2: FATAL: the reason", "3: error: the disk is full now"] {
        assert!(shaped.contains(quote), "{quote} in {shaped}");
    }
}

#[test]
fn reason_in_the_middle_of_an_error_is_quoted() {
    let guard = guard(json!({}));
    let numbers: Vec<usize> = (0..4_000).collect();
    let error = json!({"a": numbers, "error": {"code": 42, "message": "quota"}, "trace": numbers});
    for text in [error.to_string(), serde_json::to_string_pretty(&error).unwrap()] {
        let content = [json!({"type": "text", "text": text})];
        let result = json!({"content": content, "isError": true});
        let (shaped, record) = shaped(&guard, "tools/call", "t", &result);
        assert!(record.estimated_tokens <= record.budget, "{} tokens", record.estimated_tokens);
        let shaped = shaped.unwrap().to_string();
        let at = shaped.find("error: {").unwrap_or_else(|| panic!("{shaped}"));
        assert!(shaped.get(at..at + 90).is_some_and(|text| text.contains("quota")), "{shaped}");
    }
}

/// Returns an image block whose data has about `bytes` characters.
fn image(bytes: usize) -> Value {
    let data: Vec<u8> = b"\x89PNG"
        .iter()
        .copied()
        .chain((0..bytes as u32 * 3 / 4).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8))
        .collect();
    let data = base64::engine::general_purpose::STANDARD.encode(data);
    json!({"type": "image", "mimeType": "image/png", "data": data})
}

#[test]
fn images_shown_as_text_are_withheld() {
    let content = vec![text("The page has a form."), image(60_000)];
    let result = json!({ "content": content });
    // Cline shows at most 8,000 characters.
    let cline = guard(json!({"clientProfile": "cline"}));
    let (first, record) = shaped(&cline, "tools/call", "screenshot", &result);
    let first = first.unwrap();
    let shown = first.to_string();
    assert!(shown.len() < 4_800, "{shown}");
    assert!(shown.contains("The page has a form."), "{shown}");
    assert!(shown.contains("base64 of a PNG image"), "{shown}");
    assert!(record.estimated_tokens <= record.budget);
    // Its data can be read.
    let cursor = &first["_meta"]["dev.context-guard/result"]["cursor"];
    let read = json!({"name": "context_guard_read", "arguments": {"cursor": cursor}});
    let Verdict::Answer(answer, _) = cline.request(&request("tools/call", read)).unwrap() else {
        panic!("the read tool answers")
    };
    let answer = String::from_utf8(answer).unwrap();
    let data = content[1]["data"].as_str().unwrap();
    assert!(answer.contains(data.get(..200).unwrap()), "{answer}");
    // Clients that pass images on get them unchanged.
    for client in ["claude-code", "unknown"] {
        let other = guard(json!({ "clientProfile": client }));
        assert_eq!(shaped(&other, "tools/call", "screenshot", &result).0, None, "{client}");
    }
    // A small image fits.
    let small = json!({"content": [text("A dot"), image(600)]});
    assert_eq!(shaped(&cline, "tools/call", "screenshot", &small).0, None);
}

#[test]
fn pages_of_images_fit_clients_that_show_them_as_text() {
    let content: Vec<Value> = (0..40).map(|_| image(900)).collect();
    let cline = guard(json!({"clientProfile": "cline"}));
    let first = shaped(&cline, "tools/call", "frames", &json!({ "content": content }));
    let shown = first.0.as_ref().unwrap().to_string();
    assert!(shown.len() < 4_800, "{} bytes: {shown}", shown.len());
    let pages = walk(&cline, first);
    assert_eq!(pages, content);
}
