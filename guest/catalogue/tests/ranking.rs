//! Rankings of small catalogues.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use context_guard_catalogue::index::{self, Index, Settings};
use context_guard_catalogue::rank::SearchRequest;
use context_guard_catalogue::tool::Tool;

/// The servers, names and descriptions of a catalogue.
const TOOLS: &[(&str, &str, &str)] = &[
    ("news", "search", "Search news."),
    ("mail", "search_mail", "Search mail in a mailbox."),
    ("shop", "search_products", "Search products of a shop."),
    ("music", "list_events", "Lists events; search by artist."),
    ("payments", "create_refund", "Refunds a charge."),
    ("calendar", "query_freebusy", "Returns the availability of people."),
    ("pictures", "blur", "Blurs a region of an image."),
    ("vcs", "reset", "Unstages changes."),
    ("security", "scan_ip", "Reports malware of an address."),
];

/// Returns the tools that a query finds, best first, with their scores.
fn found(query: &str) -> Vec<(String, f32)> {
    let definitions: Vec<(&str, String, String)> = TOOLS
        .iter()
        .map(|(server, name, description)| {
            let definition = format!(r#"{{"name":"{name}","description":"{description}"}}"#);
            (*server, format!("{server}__{name}"), definition)
        })
        .collect();
    let tools = definitions
        .iter()
        .map(|(server, wire_name, definition)| Tool::parse(server, wire_name, definition).unwrap());
    let bytes = index::compile(&tools.collect::<Vec<_>>(), &Settings::default());
    let index = Index::open(&bytes).unwrap();
    let hits = index.search(&SearchRequest::new(query)).hits;
    let name = |tool| index.tool(tool).unwrap().wire_name.to_owned();
    hits.iter().map(|hit| (name(hit.tool), hit.score)).collect()
}

#[test]
fn names_of_common_words_score_low() {
    let found = found("search an artist");
    let score = |name: &str| found.iter().find(|(found, _)| found == name).expect(name).1;
    assert!(score("news__search") - score("shop__search_products") < 0.1, "{found:?}");
    assert_eq!(found.first().unwrap().0, "music__list_events");
}

#[test]
fn everyday_words_find_tools() {
    for (query, tool) in [
        ("reimburse it", "payments__create_refund"),
        ("is she busy", "calendar__query_freebusy"),
        ("censor the face", "pictures__blur"),
        ("undo it", "vcs__reset"),
        ("is it a virus", "security__scan_ip"),
    ] {
        let found = found(query);
        assert_eq!(found.first().map(|(name, _)| name.as_str()), Some(tool), "{query}");
    }
}

#[test]
fn similar_texts_score_high() {
    // Neither tool has a word for clothing, nor a synonym.
    for query in ["search clothing", "search a retailer"] {
        let found = found(query);
        let score = |name: &str| found.iter().find(|(found, _)| found == name).expect(name).1;
        assert!(score("shop__search_products") - score("mail__search_mail") > 0.05, "{found:?}");
    }
}
