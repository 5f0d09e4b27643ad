//! Results with text and structured content: the budget pays for what the client's model sees.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "serde_json gives null for what is missing, and a panic is a failure"
)]

use context_guard_core::Record;
use context_guard_core::policy::{CLIENT_PROFILES, ClientProfile, VisibleContent};
use context_guard_core::tokens::Estimator;
use context_guard_test_kit::guard::{NativeGuard, TestGuard, Verdict};
use serde_json::{Value, json};

const RECORDS: usize = 300;

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

/// The contents of a result.
#[derive(PartialEq)]
enum Contents {
    Text,
    Both,
}

/// Returns the first answer of a client with `name` to a call whose result has both contents.
fn first(name: &str, policy: &Value, budget: u64) -> (NativeGuard, Value, Record) {
    first_of(name, policy, budget, Contents::Both)
}

/// Returns the first answer of a client with `name` to a call.
fn first_of(
    name: &str,
    policy: &Value,
    budget: u64,
    contents: Contents,
) -> (NativeGuard, Value, Record) {
    let mut policy = policy.clone();
    policy["tokenBudgetThreshold"] = budget.into();
    let guard = NativeGuard::with_policy(&policy.to_string()).unwrap().with_client(name);
    let records = records();
    let mut content = json!({"content": [{"type": "text", "text": records.to_string()}]});
    if contents == Contents::Both {
        content["structuredContent"] = records;
    }
    let (result, record) = call(&guard, &json!({"name": "list"}), &content);
    (guard, result, record)
}

/// Returns the cursor of a shaped result.
fn cursor(result: &Value) -> String {
    let metadata = &result["_meta"]["dev.context-guard/result"];
    let cursors = [&metadata["nextCursor"], &metadata["cursor"]];
    cursors.into_iter().find_map(Value::as_str).unwrap().to_owned()
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
        let (_, result, record) = first("Gemini-CLI-MCP-Client", &json!({}), budget);
        let (_, alone, _) = first_of("mcp", &json!({}), budget, Contents::Text);
        let (of_text, of_alone) = (shown(&text(&result).unwrap()), shown(&text(&alone).unwrap()));
        assert!(of_text * 20 >= of_alone * 19, "{budget}: {of_text}, of text alone {of_alone}");
        assert!(record.estimated_tokens <= budget, "{budget}: {record:?}");
        let structured = result["structuredContent"].as_object().unwrap();
        assert_eq!(structured.keys().collect::<Vec<_>>(), ["context_guard"], "{budget}");
        assert!(result["structuredContent"].to_string().contains(&cursor(&result)));
    }
}

#[test]
fn client_that_sees_structured_content_gets_the_budget_there() {
    for budget in [600, 1_000, 2_000, 4_000] {
        let (_, result, record) = first("claude-code (via mcp-remote 0.1.18)", &json!({}), budget);
        let (_, alone, _) = first_of("mcp", &json!({}), budget, Contents::Text);
        let structured = &result["structuredContent"];
        let (of_one, of_alone) = (shown(structured), shown(&text(&alone).unwrap()));
        assert!(of_one * 10 >= of_alone * 7, "{budget}: {of_one}, of text alone {of_alone}");
        assert!(record.estimated_tokens <= budget, "{budget}: {record:?}");
        // The text has the notice alone.
        assert_eq!(result["content"].as_array().unwrap().len(), 1, "{budget}: {result}");
        let notice = result["content"][0]["text"].as_str().unwrap();
        assert!(notice.starts_with("[context-guard] "), "{budget}: {notice}");
        assert!(structured["context_guard"]["note"].is_string(), "{budget}: {structured}");
    }
}

#[test]
fn unknown_client_gets_the_content_once() {
    for budget in [600, 1_000, 2_000, 4_000] {
        let (guard, result, record) = first("mcp", &json!({}), budget);
        let (_, alone, _) = first_of("mcp", &json!({}), budget, Contents::Text);
        let (of_text, of_alone) = (shown(&text(&result).unwrap()), shown(&text(&alone).unwrap()));
        assert!(of_text * 20 >= of_alone * 17, "{budget}: {of_text}, of text alone {of_alone}");
        assert!(record.estimated_tokens <= budget, "{budget}: {record:?}");
        // A client that shows structured content alone learns how to read the same there.
        let metadata = &result["structuredContent"]["context_guard"];
        let note = metadata["note"].as_str().unwrap();
        let mut arguments = json!({"cursor": cursor(&result)});
        if note.contains("path \"$\"") {
            arguments["path"] = "$".into();
        }
        let params = json!({"name": "context_guard_read", "arguments": arguments});
        let read = text(&call(&guard, &params, &Value::Null).0).unwrap();
        assert_eq!(read["houses"][0]["id"], 0, "{budget}: {note}");
    }
}

#[test]
fn text_that_fits_alone_remains() {
    let rows: Vec<_> = records()["houses"].as_array().unwrap()[..60].to_vec();
    let houses = json!({ "houses": rows });
    let content = json!({
        "content": [{"type": "text", "text": houses.to_string()}], "structuredContent": houses,
    });
    let shaped = |budget: u64| {
        let policy = json!({ "tokenBudgetThreshold": budget });
        let guard = NativeGuard::with_policy(&policy.to_string()).unwrap().with_client("mcp");
        let (result, record) = call(&guard, &json!({"name": "list"}), &content);
        (guard, result, record)
    };
    let (_, whole, _) = shaped(8_000);
    assert_eq!(whole, content, "both contents fit");
    let (guard, once, record) = shaped(4_000);
    assert_eq!(once["content"], content["content"]);
    assert!(record.estimated_tokens <= 4_000, "{record:?}");
    let metadata = &once["structuredContent"]["context_guard"];
    assert_eq!(metadata["loss"], "lossless", "{metadata}");
    let cursor = metadata["cursor"].as_str().unwrap();
    let params = json!({"name": "context_guard_read", "arguments": {"cursor": cursor}});
    let read = call(&guard, &params, &Value::Null).0;
    assert_eq!(text(&read).unwrap()["houses"], houses["houses"], "{read}");
}

#[test]
fn members_around_a_text_remain() {
    let output: String = (0..600).map(|at| format!("step {at} of the build is done\n")).collect();
    for (name, length) in [("mcp", 3_900), ("gemini-cli-mcp-client", 12_000), ("mcp", 12_000)] {
        let output = output.get(..length).unwrap();
        let structured = json!({"exit_code": 1, "stdout": output, "stderr": "no space left"});
        let content =
            json!({"content": [{"type": "text", "text": output}], "structuredContent": structured});
        let policy = json!({"tokenBudgetThreshold": 1_500}).to_string();
        let guard = NativeGuard::with_policy(&policy).unwrap().with_client(name);
        let (result, record) = call(&guard, &json!({"name": "run"}), &content);
        let structured = &result["structuredContent"];
        assert_eq!(structured["exit_code"], 1, "{name}, {length}: {structured}");
        assert_eq!(structured["stderr"], "no space left");
        assert_eq!(structured["stdout"], "", "the text has it");
        assert!(record.estimated_tokens <= 1_500, "{name}, {length}: {record:?}");
    }
}

#[test]
fn members_beside_a_list_remain() {
    let rows: Vec<_> = records()["houses"].as_array().unwrap()[..60].to_vec();
    let structured = json!({"houses": rows, "total": 812, "nextPageToken": "abc"});
    let content = json!({
        "content": [{"type": "text", "text": json!(rows).to_string()}],
        "structuredContent": structured,
    });
    let guard = NativeGuard::with_policy("").unwrap().with_client("mcp");
    let (result, _) = call(&guard, &json!({"name": "list"}), &content);
    let shown = text(&result).unwrap();
    assert_eq!(
        (&shown["total"], &shown["nextPageToken"]),
        (&json!(812), &json!("abc")),
        "{result}"
    );
}

#[test]
fn long_cursors_fit_the_budget_too() {
    let records = records();
    let rows = records["houses"].as_array().unwrap();
    let policy = r#"{"cursorMode": "replay", "endpoints": [{"match": "*", "readOnly": true}]}"#;
    let arguments = json!({"query": "house ".repeat(150)});
    let mut long = 0;
    for count in 40..90 {
        let houses = json!({ "houses": rows[..count] });
        let content = json!({
            "content": [{"type": "text", "text": houses.to_string()}], "structuredContent": houses,
        });
        let guard = NativeGuard::with_policy(policy).unwrap().with_client("mcp");
        let params = json!({"name": "list", "arguments": arguments});
        let (result, record) = call(&guard, &params, &content);
        assert!(record.estimated_tokens <= 4_000, "{count}: {record:?}");
        let is_shaped = result["structuredContent"]["context_guard"].is_object();
        long += usize::from(is_shaped && cursor(&result).len() > 500);
    }
    assert!(long > 10, "{long} answers have a cursor with the call to repeat");
}

#[test]
fn small_excerpt_is_in_both_contents() {
    let (_, result, _) =
        first("mcp", &json!({"fields": ["id"], "stripFields": ["note", "title"]}), 9_000);
    assert!(
        shown(&text(&result).unwrap()) > 0 && shown(&result["structuredContent"]) > 0,
        "{result}"
    );
}

#[test]
fn content_that_is_not_shown_gets_a_small_part() {
    let records = records();
    let log: Vec<String> = (0..900).map(|at| format!("step {at} of the search is done")).collect();
    let content = json!({
        "content": [{"type": "text", "text": log.join("\n")}], "structuredContent": records,
    });
    let seen = |client: &str| {
        let guard = NativeGuard::with_policy("").unwrap().with_client(client);
        let (result, record) = call(&guard, &json!({"name": "list"}), &content);
        assert!(record.estimated_tokens <= 4_000, "{client}: {record:?}");
        let lines = result["content"][0]["text"].as_str().unwrap().lines().count();
        (lines, shown(&result["structuredContent"]))
    };
    let ((text, structured), (of_unknown, halved)) = (seen("claude-code"), seen("mcp"));
    assert!(structured * 3 >= halved * 4 && text < of_unknown, "{structured}, {halved}, {text}");
    let (lines, _) = seen("gemini-cli-mcp-client");
    assert!(lines * 3 >= of_unknown * 4, "{lines}, {of_unknown}");
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
    assert!(shown(&text(&both).unwrap()) > 0 && shown(&both["structuredContent"]) == 0);
    assert!(both["structuredContent"]["context_guard"]["note"].is_string());
    let of_text = first("claude-code", &json!({"visibleContent": "text"}), 4_000).1;
    assert!(shown(&text(&of_text).unwrap()) > 0 && shown(&of_text["structuredContent"]) == 0);
    let unknown = first("", &json!({"visibleContent": "structured"}), 4_000).1;
    assert!(text(&unknown).is_none() && shown(&unknown["structuredContent"]) > 0);
    let as_other = first("mcp", &json!({"clientProfile": "claude-code"}), 12_000);
    assert!(text(&as_other.1).is_none() && as_other.2.budget == 9_500);
    let as_unknown = first("claude-code", &json!({"clientProfile": "unknown"}), 4_000).1;
    assert!(shown(&text(&as_unknown).unwrap()) > 0);
    let refused = NativeGuard::with_policy(r#"{"clientProfile": "clod"}"#).err().unwrap();
    let refused = format!("{refused:#}");
    assert!(refused.contains("clientProfile") && refused.contains("claude-code"), "{refused}");
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
        ("short lines", "a\n".repeat(40_000)),
    ]
}

/// Returns what a client shows of a result to its model.
fn shown_of(profile: &ClientProfile, result: &Value) -> Vec<String> {
    let structured = &result["structuredContent"];
    let structured = (!structured.is_null()).then(|| structured.to_string());
    let blocks = result["content"].as_array().unwrap().iter();
    let texts: Vec<String> =
        blocks.map(|block| block["text"].as_str().unwrap().to_owned()).collect();
    match (profile.visible, structured) {
        (VisibleContent::Text, _) | (_, None) => texts,
        (VisibleContent::Structured, Some(structured)) => vec![structured],
        (VisibleContent::Both, Some(structured)) => [texts, vec![structured]].concat(),
    }
}

/// Checks that a client shows a result of a tool completely.
fn check_limits(profile: &ClientProfile, result: &Value, about: &str) {
    let shown = shown_of(profile, result);
    let is_error = result["isError"] == true;
    let bytes: usize = shown.iter().map(String::len).sum();
    let characters: usize = shown.iter().map(|text| text.chars().count()).sum();
    let lines: usize = shown.iter().map(|text| text.split('\n').count()).sum();
    let most = |limit: Option<u64>| limit.map_or(usize::MAX, |most| most as usize);
    assert!(bytes <= most(profile.max_bytes), "{about}: {bytes} bytes");
    assert!(characters <= most(profile.max_characters), "{about}: {characters} characters");
    assert!(lines <= most(profile.max_lines), "{about}: {lines} lines");
    let of_errors = most(profile.max_error_characters.filter(|_| is_error));
    assert!(characters <= of_errors, "{about}: {characters} characters of an error");
    let tokens: u64 =
        shown.iter().map(|text| Estimator::default().measure(text.as_bytes()).tokens).sum();
    assert!(tokens <= profile.max_tokens.unwrap_or(u64::MAX), "{about}: {tokens} tokens");
    let metadata = &result["_meta"]["dev.context-guard/result"];
    let has_cursor = metadata["nextCursor"].is_string() || metadata["cursor"].is_string();
    if profile.cuts_end && has_cursor && !is_error {
        let whole = shown.join("\n");
        let head = whole.chars().take(2_000).collect::<String>();
        assert!(head.contains(&cursor(result)), "{about}: no cursor in {head}");
        let last = result["content"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap();
        assert!(last.contains(&cursor(result)), "{about}: no cursor in {last}");
    }
}

#[test]
fn no_client_cuts_a_result() {
    let mut used = 0;
    for profile in &CLIENT_PROFILES {
        for (name, document) in texts() {
            let parsed: Option<Value> = serde_json::from_str(&document).ok();
            let block = json!([{"type": "text", "text": document}]);
            let mut results = vec![
                json!({ "content": block }),
                json!({"content": block, "isError": true}),
                json!({"content": block, "structuredContent": {"result": document}}),
            ];
            if let Some(parsed) = parsed.filter(Value::is_object) {
                results.push(json!({"content": block, "structuredContent": parsed}));
            }
            for content in results {
                let guard = NativeGuard::with_policy(r#"{"tokenBudgetThreshold": 12000}"#).unwrap();
                let guard = guard.with_client(profile.name);
                let (mut result, _) = call(&guard, &json!({"name": "list"}), &content);
                for page in 0..4 {
                    let about = format!("{}, {name}, page {page}", profile.name);
                    check_limits(profile, &result, &about);
                    let bytes: usize = shown_of(profile, &result).iter().map(String::len).sum();
                    // A summary, or 50 small records, may be less.
                    let limit = profile.shown_limits(false).bytes.unwrap_or(u64::MAX);
                    used += usize::from(bytes as u64 * 2 >= limit);
                    let cursor = &result["_meta"]["dev.context-guard/result"]["nextCursor"];
                    let Some(cursor) = cursor.as_str() else { break };
                    let arguments = json!({ "cursor": cursor });
                    let params = json!({"name": "context_guard_read", "arguments": arguments});
                    result = call(&guard, &params, &Value::Null).0;
                }
            }
        }
    }
    assert!(used > 100, "{used} results use half of the limit in bytes");
}
