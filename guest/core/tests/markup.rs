//! HTML pages and XML documents: the text of a page and the failures of a report are in the first
//! answer, wherever they are in the source.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "serde_json gives null for what is missing, and a panic is a failure"
)]

mod client;

use client::first;
use context_guard_test_kit::guard::NativeGuard;
use serde_json::json;

/// Returns all texts of the first answer with `text`.
fn answer(text: &str) -> String {
    let guard = NativeGuard::with_policy("{}").unwrap();
    let answer = first(&guard, &json!({}), text).unwrap();
    let meta = &answer["result"]["_meta"]["dev.context-guard/result"];
    assert!(meta["budgetUsed"].as_f64().unwrap() <= 1.0, "{meta}");
    let blocks = answer["result"]["content"].as_array().unwrap();
    blocks.iter().map(|block| block["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

fn page(separator: &str) -> String {
    let scripts: Vec<String> =
        (0..300).map(|at| format!("<script>var setting{at} = '{at} < 3';</script>")).collect();
    let items: Vec<String> =
        (0..200).map(|at| format!("<li><a href=\"/{at}\">Topic {at}</a></li>")).collect();
    [
        "<!DOCTYPE html><html><head><title>Tide tables</title>",
        &scripts.join(separator),
        "</head><body><nav><ul>",
        &items.join(separator),
        "</ul></nav><article><h1>How tides work</h1>",
        "<p>The moon pulls the water of the <b>oceans</b> towards itself.</p>",
        "<h2>Spring tides</h2><p>At full moon, high tides are highest.</p>",
        "</article></body></html>",
    ]
    .join(separator)
}

#[test]
fn page_shows_its_text() {
    for separator in ["\n", ""] {
        let shown = answer(&page(separator));
        for part in [
            "# Tide tables",
            "# How tides work",
            "The moon pulls the water of the oceans towards itself.",
            "At full moon, high tides are highest.",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert!(!shown.contains("Topic 7"), "{shown}");
    }
}

#[test]
fn page_in_a_document_shows_its_text() {
    let document = json!({"url": "https://example.org/tides", "status": 200, "body": page("\n")});
    let shown = answer(&document.to_string());
    assert!(shown.contains("At full moon, high tides are highest."), "{shown}");
}

#[test]
fn report_shows_its_failures() {
    let case = |at: usize| {
        let inside = match at {
            777 => "<failure message=\"expected 3 &lt; 2\">at Sums.add(Sums.java:7)</failure>",
            901 => "<error message=\"connection refused\"/>",
            _ => "",
        };
        let names = format!("classname=\"shop.Sums\" name=\"case{at}\"");
        format!("<testcase {names} time=\"0.0{at}\">{inside}</testcase>")
    };
    let cases: Vec<String> = (0..1_000).map(case).collect();
    let report = format!(
        "<?xml version=\"1.0\"?>\n<testsuite name=\"all\" tests=\"1000\">\n{}\n</testsuite>",
        cases.join("\n")
    );
    let shown = answer(&report);
    for part in [
        "failures and errors (2):",
        "780: testcase classname=shop.Sums name=case777 > failure message=expected 3 < 2: at Sums",
        "904: testcase classname=shop.Sums name=case901 > error message=connection refused",
        "testcase 1000",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

/// Returns an accessibility snapshot of a shop: a long menu, then the products.
fn snapshot() -> String {
    let mut lines = vec!["### Snapshot".to_owned(), "```yaml".to_owned()];
    let mut add = |line: String| lines.push(line);
    add("- generic [active] [ref=e1]:".to_owned());
    add("  - navigation [ref=e2]:".to_owned());
    for at in 0..600 {
        add(format!("    - listitem [ref=e{}]:", 1_000 + at));
        add(format!("      - link \"Topic {at}\" [ref=e{}] [cursor=pointer]:", 2_000 + at));
        add(format!("        - /url: https://example.org/topics/{at}"));
    }
    add("  - main [ref=e3]:".to_owned());
    add("    - heading \"Boots\" [level=1] [ref=e4]".to_owned());
    add("    - textbox \"Search boots\" [ref=e5]".to_owned());
    for at in 0..30 {
        add(format!("    - generic [ref=e{}]:", 3_000 + at));
        add(format!("      - paragraph [ref=e{}]: Model {at} is made of leather.", 4_000 + at));
        add(format!("      - button \"Buy model {at}\" [ref=e{}] [cursor=pointer]", 5_000 + at));
    }
    lines.join("\n")
}

#[test]
fn snapshot_shows_its_main_content_and_controls() {
    let shown = answer(&snapshot());
    for part in
        ["[Topic 0](e2000)", "# Boots", "textbox e5 \"Search boots\"", "more of these lines"]
    {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    for at in 0..30 {
        let part =
            format!("Model {at} is made of leather. button e{} \"Buy model {at}\"", 5_000 + at);
        assert!(shown.contains(&part), "{part} in\n{shown}");
    }
    let in_json = answer(&json!({"page": snapshot()}).to_string());
    assert!(in_json.contains("button e5029"), "{in_json}");
}
