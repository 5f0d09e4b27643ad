//! Lists under small budgets: every page names its place in the list and the next page.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

use context_guard_core::Record;
use context_guard_protocol::rest::RestRequest;
use context_guard_test_kit::guard::{NativeGuard, TestGuard, Verdict};
use serde_json::{Value, json};

const ITEMS: u64 = 500;

fn call(tool: &str, arguments: &Value) -> Vec<u8> {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        .to_string()
        .into_bytes()
}

/// Returns the answer of the guard to a call, with its record.
fn answer(guard: &NativeGuard, tool: &str, arguments: &Value, result: &Value) -> (Value, Record) {
    let (answer, record) = match guard.request(&call(tool, arguments)).unwrap() {
        Verdict::Answer(answer, record) => (answer, record),
        Verdict::Forward(_, ticket) => {
            let message = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
            let (answer, record) = guard.response(&ticket, message.as_bytes()).unwrap();
            (answer.unwrap(), record)
        }
    };
    (serde_json::from_slice::<Value>(&answer).unwrap()["result"].clone(), record)
}

/// Checks the paging fields of a page, and returns its cursor.
fn check(case: &str, (result, record): &(Value, Record)) -> Option<String> {
    assert!(record.estimated_tokens <= record.budget, "{case}: {}", record.estimated_tokens);
    let metadata = &result["_meta"]["dev.context-guard/result"];
    let cursor = metadata["nextCursor"].as_str();
    if metadata["kind"] == "page" {
        let texts = result["content"].as_array().unwrap();
        let payload: Value = serde_json::from_str(texts[0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(payload["nextCursor"].as_str(), cursor, "{case}: {payload}");
        assert_eq!(payload["meta"]["hasMore"], cursor.is_some(), "{case}: {payload}");
        assert_eq!(payload["meta"]["totalCount"], ITEMS, "{case}: {payload}");
        let message = json!({ "result": result }).to_string();
        let rest = RestRequest::parse("GET", "/bookings", &[]).response(200, message.as_bytes());
        assert_eq!(serde_json::from_slice::<Value>(&rest.body).unwrap(), payload, "{case}");
        let notice = texts.last().unwrap()["text"].as_str().unwrap();
        let named = cursor.is_none_or(|cursor| notice.contains(cursor))
            || notice.contains(r#"context_guard_read {"cursor":nextCursor}"#);
        assert!(named, "{case}: {notice}");
    }
    cursor.map(str::to_owned)
}

#[test]
fn pages_have_paging_fields_at_every_budget() {
    let booking = |at| {
        json!({"id": format!("BK-{at:04}"), "title": format!("Stay {at}"), "status": "open",
            "price": {"total": at * 7, "currency": "EUR"}, "email": format!("guest{at}@example.org")})
    };
    let items: Vec<Value> = (0..ITEMS).map(booking).collect();
    let object = json!({"bookings": items, "page": 1});
    let text = |value: &Value| json!({"content": [{"type": "text", "text": value.to_string()}]});
    let mut both = text(&object);
    both["structuredContent"] = object.clone();
    for budget in [200, 300, 400, 600, 800, 1_000, 1_500, 4_000] {
        for (name, result) in
            [("object", text(&object)), ("array", text(&json!(items))), ("both", both.clone())]
        {
            for arguments in [
                json!({}),
                json!({"_guard": {"fields": "all"}}),
                json!({"_guard": {"limit": 20}}),
                json!({"_guard": {"fields": "id,status"}}),
                json!({"_guard": {"response_mode": "ids_only"}}),
                json!({"_guard": {"response_mode": "metadata"}}),
            ] {
                // Structured content then has the cursor, and nothing else.
                if budget < 300 && name == "both" {
                    continue;
                }
                let case = format!("{name} {arguments} at {budget}");
                let guard =
                    NativeGuard::with_policy(&json!({"tokenBudgetThreshold": budget}).to_string())
                        .unwrap();
                let first = answer(&guard, "list", &arguments, &result);
                let cursor = check(&case, &first);
                // A list of ids fits a large budget.
                let Some(cursor) = cursor else {
                    assert!(budget >= 4_000 && arguments != json!({}), "{case}: {}", first.0);
                    continue;
                };
                check(
                    &case,
                    &answer(&guard, "context_guard_read", &json!({"cursor": cursor}), &result),
                );
            }
        }
    }
}
