//! Results with text and structured content: the budget pays for what the client's model sees.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "serde_json gives null for what is missing, and a panic is a failure"
)]

use context_guard_core::Record;
use context_guard_test_kit::guard::{NativeGuard, TestGuard, Verdict};
use serde_json::{Value, json};

const RECORDS: usize = 300;
/// The number of values on a page of 50 whole records.
const FULL_PAGE: usize = 200;

fn records() -> Value {
    let record = |at: usize| {
        json!({
            "id": at, "title": format!("The house by the sea, number {at}"),
            "city": (["Lisbon", "Porto", "Faro"][at % 3]),
            "note": format!("Quiet rooms, a garden and {at} steps down to the beach."),
        })
    };
    json!({ "houses": (0..RECORDS).map(record).collect::<Vec<_>>() })
}

fn call(guard: &NativeGuard, params: &Value, content: &Value) -> (Value, Record) {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let (answer, record) = match guard.request(request.to_string().as_bytes()).unwrap() {
        Verdict::Answer(answer, record) => (answer, record),
        Verdict::Forward(_, ticket) => {
            let message = json!({"jsonrpc": "2.0", "id": 1, "result": content}).to_string();
            let (answer, record) = guard.response(&ticket, message.as_bytes()).unwrap();
            (answer.unwrap_or(message.into_bytes()), record)
        }
    };
    (serde_json::from_slice::<Value>(&answer).unwrap()["result"].clone(), record)
}

/// Returns the first answer of a client with `name` to a call whose result has both contents.
fn first(name: &str, policy: &Value, budget: u64) -> (NativeGuard, Value, Record) {
    let mut policy = policy.clone();
    policy["tokenBudgetThreshold"] = budget.into();
    let guard = NativeGuard::with_policy(&policy.to_string()).unwrap().with_client(name);
    let records = records();
    let content = json!({
        "content": [{"type": "text", "text": records.to_string()}], "structuredContent": records,
    });
    let (result, record) = call(&guard, &json!({"name": "list"}), &content);
    (guard, result, record)
}

fn text(result: &Value) -> Option<Value> {
    serde_json::from_str(result["content"][0]["text"].as_str()?).ok()
}

/// Returns the values of a member in the records of a document.
fn values(document: &Value, member: &str) -> usize {
    let houses = document["houses"].as_array();
    houses.map_or(0, |houses| houses.iter().filter(|house| !house[member].is_null()).count())
}

fn shown(document: &Value) -> usize {
    ["id", "title", "city", "note"].iter().map(|member| values(document, member)).sum()
}

#[test]
fn client_that_sees_text_gets_the_budget_as_text() {
    for budget in [600, 1_000, 2_000, 4_000] {
        let (_, both, _) = first("mcp", &json!({}), budget);
        let (_, result, record) = first("Visual Studio Code - Insiders", &json!({}), budget);
        let (of_both, of_text) = (shown(&text(&both).unwrap()), shown(&text(&result).unwrap()));
        let has_more = of_text * 10 >= of_both * 15 || of_text >= FULL_PAGE;
        assert!(has_more, "{budget}: {of_text}, halved {of_both}");
        assert!(record.estimated_tokens <= budget, "{budget}: {record:?}");
        let structured = result["structuredContent"].as_object().unwrap();
        assert_eq!(structured.keys().collect::<Vec<_>>(), ["context_guard"], "{budget}");
        let cursor = &result["_meta"]["dev.context-guard/result"]["nextCursor"];
        let cursor = [cursor, &result["_meta"]["dev.context-guard/result"]["cursor"]]
            .into_iter()
            .find(|cursor| cursor.is_string())
            .unwrap();
        assert!(result["structuredContent"].to_string().contains(cursor.as_str().unwrap()));
    }
}

#[test]
fn client_that_sees_structured_content_gets_the_budget_there() {
    for budget in [600, 1_000, 2_000, 4_000] {
        let (_, both, _) = first("mcp", &json!({}), budget);
        let (_, result, record) = first("claude-code (via mcp-remote 0.1.18)", &json!({}), budget);
        let structured = &result["structuredContent"];
        let (of_both, of_one) = (shown(&text(&both).unwrap()), shown(structured));
        let has_more = of_one * 10 >= of_both * 15 || of_one >= FULL_PAGE;
        assert!(has_more, "{budget}: {of_one}, halved {of_both}");
        assert!(record.estimated_tokens <= budget, "{budget}: {record:?}");
        // The text has the notice alone.
        assert_eq!(result["content"].as_array().unwrap().len(), 1, "{budget}: {result}");
        let notice = result["content"][0]["text"].as_str().unwrap();
        assert!(notice.starts_with("[context-guard] "), "{budget}: {notice}");
        assert!(structured["context_guard"]["note"].is_string(), "{budget}: {structured}");
    }
}

#[test]
fn contents_of_one_client_lead_to_all_records() {
    for name in ["claude-code", "gemini-cli-mcp-client", "codex-mcp-client"] {
        let (guard, first, _) = first(name, &json!({"summarization": false}), 2_000);
        let sees_text = name.starts_with("gemini");
        let mut result = first;
        let mut ids: Vec<u64> = Vec::new();
        loop {
            let shown = text(&result).filter(|_| sees_text);
            let shown = shown.unwrap_or_else(|| result["structuredContent"].clone());
            let houses = shown["houses"].as_array().unwrap();
            ids.extend(houses.iter().map(|house| house["id"].as_u64().unwrap()));
            let cursor = &result["_meta"]["dev.context-guard/result"]["nextCursor"];
            let Some(cursor) = cursor.as_str() else { break };
            let arguments = json!({"_guard": {"cursor": cursor}});
            let params = json!({"name": "list", "arguments": arguments});
            result = call(&guard, &params, &Value::Null).0;
        }
        assert_eq!(ids, (0..RECORDS as u64).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn policy_overrides_the_client() {
    let both = first("claude-code", &json!({"visibleContent": "both"}), 4_000).1;
    assert!(shown(&text(&both).unwrap()) > 0 && shown(&both["structuredContent"]) > 0);
    let of_text = first("claude-code", &json!({"visibleContent": "text"}), 4_000).1;
    assert!(shown(&text(&of_text).unwrap()) > 0 && shown(&of_text["structuredContent"]) == 0);
    let unknown = first("", &json!({"visibleContent": "structured"}), 4_000).1;
    assert!(text(&unknown).is_none() && shown(&unknown["structuredContent"]) > 0);
}

#[test]
fn results_with_text_alone_are_shown_to_every_client() {
    let guard = NativeGuard::with_policy("").unwrap().with_client("claude-code");
    let content = json!({"content": [{"type": "text", "text": records().to_string()}]});
    let (result, _) = call(&guard, &json!({"name": "list"}), &content);
    assert!(shown(&text(&result).unwrap()) > 0, "{result}");
}

#[test]
fn budgets_stay_below_the_limit_of_the_client() {
    let threshold = |name, budget| first(name, &json!({"hardCap": 40_000}), budget).2.budget;
    assert_eq!(threshold("claude-code", 20_000), 9_500);
    assert_eq!(threshold("claude-code", 3_000), 3_000);
    assert_eq!(threshold("mcp", 20_000), 20_000);
}

/// Returns payloads of several kinds that exceed every limit.
fn texts() -> Vec<(&'static str, String)> {
    let log = |at: usize| {
        format!(
            "2026-01-02T10:{:02}:{:02}Z INFO booking {at} of the house by the sea was confirmed",
            at / 60 % 60,
            at % 60
        )
    };
    let words = |at: usize| ["house", "garden", "beach", "sea", "stairs", "rooms"][at * 7 % 11 % 6];
    let prose =
        (0..9_000).map(|at| format!("{}{}", words(at), if at % 9 == 0 { ". " } else { " " }));
    let summary = json!({"name": "the house", "description": "A quiet place by the sea. ".repeat(2_000), "rooms": {"first": {"beds": 2, "view": "garden".repeat(900)}}});
    vec![
        ("list", records().to_string()),
        ("log", (0..4_000).map(log).collect::<Vec<_>>().join("\n")),
        ("prose", prose.collect()),
        ("document", summary.to_string()),
        ("spaces", format!("{{\"a\": [{}]}}", vec![" ".repeat(300) + "1"; 400].join(","))),
        ("one line", "0123456789abcdef".repeat(9_000)),
    ]
}

#[test]
fn shown_bytes_stay_below_the_limit_of_the_client() {
    for (client, most) in [("Visual Studio Code", 8_192), ("github-copilot-developer", 10_240)] {
        for (name, document) in texts() {
            let guard = NativeGuard::with_policy(r#"{"tokenBudgetThreshold": 12000}"#).unwrap();
            let guard = guard.with_client(client);
            let content = json!({"content": [{"type": "text", "text": document}]});
            let (mut result, _) = call(&guard, &json!({"name": "list"}), &content);
            for page in 0..4 {
                let blocks = result["content"].as_array().unwrap();
                let bytes: usize =
                    blocks.iter().map(|block| block["text"].as_str().unwrap().len()).sum();
                assert!(bytes <= most, "{client}, {name}, page {page}: {bytes} bytes");
                // A summary, or 50 small records, may be less.
                let is_summary = ["document", "spaces"].contains(&name);
                let is_used = page > 0 || is_summary || bytes * 2 >= most;
                assert!(is_used, "{client}, {name}: {bytes} bytes");
                let cursor = &result["_meta"]["dev.context-guard/result"]["nextCursor"];
                let Some(cursor) = cursor.as_str() else { break };
                let arguments = json!({ "cursor": cursor });
                let params = json!({"name": "context_guard_read", "arguments": arguments});
                result = call(&guard, &params, &Value::Null).0;
            }
        }
    }
}
