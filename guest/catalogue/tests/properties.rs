//! Properties of every index and every search.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests: a panic is a failure")]

use context_guard_catalogue::index::{self, Index, Settings};
use context_guard_catalogue::rank::{Filter, SearchRequest};
use context_guard_catalogue::score::Usage;
use context_guard_catalogue::tool::Tool;
use proptest::prelude::*;

/// Definitions with the names of their servers.
type Definitions = Vec<(String, String)>;

fn definitions() -> impl Strategy<Value = Definitions> {
    let text = prop_oneof![
        "[a-z_]{1,12}",
        "[A-Za-z]{1,10}( [a-z]{1,8}){0,6}",
        any::<String>(),
        "[搜索指定 a-z.]{0,12}"
    ];
    let tool = ("[a-z]{1,6}", text.clone(), text.clone(), text);
    let definition = tool.prop_map(|(server, name, description, parameter)| {
        let definition = serde_json::json!({
            "name": name,
            "description": description,
            "inputSchema": {"properties": {parameter: {"description": "A value"}}},
        });
        (server, definition.to_string())
    });
    proptest::collection::vec(definition, 0..12)
}

fn compile(definitions: &Definitions) -> Vec<u8> {
    let tools: Vec<Tool<'_>> = definitions
        .iter()
        .map(|(server, definition)| Tool::parse(server, "", definition).unwrap())
        .collect();
    index::compile(&tools, &Settings::default())
}

fn name(definition: &str) -> String {
    let definition: serde_json::Value = serde_json::from_str(definition).unwrap();
    definition["name"].as_str().unwrap().to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn exact_names_come_first(definitions in definitions(), at in any::<prop::sample::Index>()) {
        prop_assume!(!definitions.is_empty());
        let bytes = compile(&definitions);
        let index = Index::open(&bytes).unwrap();
        let name = name(&definitions[at.index(definitions.len())].1);
        prop_assume!(name.trim_matches(['"', '\'', '`', ' ']) == name && name.trim() == name);
        prop_assume!(!name.starts_with("select:"));
        let found = index.search(&SearchRequest { limit: 12, ..SearchRequest::new(&name) });
        let hit = found.hits.iter().find(|hit| index.tool(hit.tool).unwrap().name == name);
        prop_assert!(hit.is_some_and(|hit| hit.is_exact), "{name:?}: {found:?}");
        prop_assert!(found.hits[0].is_verbatim, "{name:?}: {found:?}");
    }

    #[test]
    fn searches_repeat(
        definitions in definitions(),
        queries in proptest::collection::vec(any::<String>(), 1..4),
    ) {
        let bytes = compile(&definitions);
        prop_assert_eq!(&bytes, &compile(&definitions));
        let index = Index::open(&bytes).unwrap();
        let request = SearchRequest {
            queries: queries.iter().map(String::as_str).collect(),
            ..SearchRequest::new("")
        };
        let found = index.search(&request);
        prop_assert_eq!(&found, &index.search(&request));
        let mut tools: Vec<u32> = found.hits.iter().map(|hit| hit.tool).collect();
        tools.sort_unstable();
        tools.dedup();
        prop_assert_eq!(tools.len(), found.hits.len());
        prop_assert!(found.hits.iter().all(|hit| hit.score.is_finite()));
    }

    #[test]
    fn damaged_indexes_do_not_panic(
        definitions in definitions(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        length in any::<prop::sample::Index>(),
    ) {
        let mut bytes = compile(&definitions);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let cut = &bytes[..length.index(bytes.len() + 1)];
        for bytes in [bytes.as_slice(), cut] {
            if let Some(index) = Index::open(bytes) {
                let _ = index.search(&SearchRequest::new("get the vlaue of a search"));
                let _ = index.tools().count();
            }
        }
    }
}

#[test]
fn filters_are_hard() {
    let definition = r#"{"name":"list","annotations":{"readOnlyHint":true}}"#;
    let other = r#"{"name":"list"}"#;
    let mut tools = [
        Tool::parse("a", "a__list", definition).unwrap(),
        Tool::parse("b", "b__list", other).unwrap(),
    ];
    tools[1].usage = Usage { total: 4, success: 3, average_ms: 20.0, ..Usage::default() };
    let bytes = index::compile(&tools, &Settings::default());
    let index = Index::open(&bytes).unwrap();
    let names = |filter: Filter<'_>| -> Vec<&str> {
        let found = index.search(&SearchRequest { filter, ..SearchRequest::new("list") });
        assert_eq!(found.total, found.hits.len());
        found.hits.iter().map(|hit| index.tool(hit.tool).unwrap().wire_name).collect()
    };
    assert_eq!(names(Filter::default()).len(), 2);
    assert_eq!(names(Filter { server: Some("b"), ..Filter::default() }), ["b__list"]);
    assert_eq!(names(Filter { read_only: Some(true), ..Filter::default() }), ["a__list"]);
    // A tool without measurements meets no filter on measurements.
    assert_eq!(names(Filter { max_latency_ms: Some(30.0), ..Filter::default() }), ["b__list"]);
    assert_eq!(names(Filter { max_latency_ms: Some(10.0), ..Filter::default() }), [""; 0]);
    assert_eq!(names(Filter { min_success_rate: Some(75.0), ..Filter::default() }), ["b__list"]);
    assert_eq!(names(Filter { min_success_rate: Some(76.0), ..Filter::default() }), [""; 0]);
}

/// Returns the index of a tool for the weather and one for letters.
fn weather_and_mail() -> Vec<u8> {
    let tools = [
        Tool::parse("w", "w__a", r#"{"name":"get_forecast","description":"Weather of a city"}"#),
        Tool::parse("w", "w__b", r#"{"name":"send_mail","description":"Sends a letter"}"#),
    ];
    let tools: Vec<Tool<'_>> = tools.into_iter().flatten().collect();
    index::compile(&tools, &Settings::default())
}

#[test]
fn misspelled_words_are_corrected() {
    let bytes = weather_and_mail();
    let index = Index::open(&bytes).unwrap();
    for query in ["weahter", "forcast", "lettre", "getforecast", "we ather", "sned mial", "citty"] {
        let found = index.search(&SearchRequest::new(query));
        let expected = u32::from(["lettre", "sned mial"].contains(&query));
        assert_eq!(found.hits.first().map(|hit| hit.tool), Some(expected), "{query}");
    }
}

#[test]
fn corrected_words_count_like_correct_ones() {
    let bytes = weather_and_mail();
    let index = Index::open(&bytes).unwrap();
    let score = |query: &str| index.search(&SearchRequest::new(query)).hits[0].score;
    for (correct, misspelled) in [
        ("weather city", "waether city"),
        ("weather city", "weathercity"),
        ("sends letters", "sends lettres"),
        // A word that occurs in both spellings is a repetition.
        ("letters letter", "letters leter"),
    ] {
        let difference = score(correct) - score(misspelled);
        assert!(difference.abs() < 1e-5, "{misspelled}: {difference}");
    }
    // A capitalized word inside a sentence is probably a name.
    assert!(score("weather for Lettre") > score("weather for lettre"));
}

#[test]
fn queries_take_turns() {
    let definitions: Definitions = ["send 1", "send 2", "paint 1", "paint 2"]
        .map(|text| ("s".to_owned(), format!(r#"{{"name":"{text}"}}"#)))
        .to_vec();
    let bytes = compile(&definitions);
    let index = Index::open(&bytes).unwrap();
    let request =
        SearchRequest { queries: vec!["send", "paint"], limit: 3, ..SearchRequest::new("") };
    let found = index.search(&request);
    let hits: Vec<(u32, usize)> = found.hits.iter().map(|hit| (hit.tool, hit.query)).collect();
    assert_eq!(hits, [(0, 0), (2, 1), (1, 0)]);
    assert_eq!((found.total, found.queries[0].total), (4, 2));
}
