//! Properties of every answer, checked on the native core. Vectors and captures cover the other
//! forms.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write as _;
use std::sync::LazyLock;

use context_guard_test_kit::skips::is_ci;
use context_guard_test_support::answer::Answer;
use context_guard_test_support::guards::{NOW_MS, NativeGuard, SIGNING_KEY, TestGuard, Verdict};
use context_guard_test_support::walk::{self, call, pages, shape};
use context_guard_test_support::{Context, Result};
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, RngSeed};
use serde_json::{Value, json};

/// Text as people and programs write it. Random Unicode is neither, and costs more tokens than any
/// text estimate predicts.
fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        8 => "[a-z]{1,9} |[A-Z][a-z]{2,7}, |[0-9]{1,6}\\. |[a-z]{3}_[a-z]{4}=[0-9.]{1,5} ",
        1 => Just("ça naïve über señor ".to_owned()),
        1 => Just("日本語の部屋です。".to_owned()),
        1 => Just("Комната свободна ".to_owned()),
        1 => Just("🎉 ok 🚀 👩‍👩‍👧".to_owned()),
        1 => "[!-~]{1,6} ",
    ];
    prop::collection::vec(word, 0..14).prop_map(|words| words.concat())
}

/// A line of a log or of prose.
fn line() -> impl Strategy<Value = String> {
    ("(20[0-9]{2}-0[1-9]-1[0-9] (INFO|ERROR) )?", words()).prop_map(|(head, text)| head + &text)
}

fn item() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Into::into),
        any::<bool>().prop_map(Into::into),
        Just(Value::Null),
        "[a-zA-Z0-9 .,:/_\"\\\\\n-]{0,40}".prop_map(Into::into),
        words().prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 16, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::vec(("[a-z]{1,8}", inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// A record with any subset of its members in any order. Occasionally null or a text.
fn record() -> impl Strategy<Value = Value> {
    let members = (
        prop::option::of(any::<u32>()),
        prop::option::of("[a-zé \"\\\\\n]{0,60}"),
        prop::option::of((any::<u8>(), words())),
        words(),
        any::<bool>(),
    );
    let object = members.prop_map(|(id, name, size, text, first)| {
        let mut members = serde_json::Map::new();
        if first {
            members.insert("description".to_owned(), text.clone().into());
        }
        if let Some((height, text)) = size {
            members.insert("size".to_owned(), json!({"unit": text, "height": height}));
        }
        members.extend(id.map(|id| ("id".to_owned(), id.into())));
        members.extend(name.map(|name| ("name".to_owned(), name.into())));
        if !first {
            members.insert("notes".to_owned(), json!([text, {"id": 1}]));
        }
        Value::Object(members)
    });
    prop_oneof![12 => object, 1 => Just(Value::Null), 1 => words().prop_map(Into::into)]
}

/// A document of any shape: wide or deep objects, several lists, long texts, records of different
/// kinds.
fn document() -> impl Strategy<Value = Value> {
    let record =
        ("[a-z]{1,6}", words(), item(), any::<u32>()).prop_map(|(name, text, extra, id)| {
            let url = format!("https://example.org/{id}");
            json!({"id": id, "name": name, "description": text, "extra": extra, "html_url": url})
        });
    let list = prop::collection::vec(prop_oneof![4 => record, 1 => item()], 0..90);
    let members = prop::collection::vec(("[a-z_]{1,10}", item()), 0..60);
    (list.clone(), list, members, prop::collection::vec(words(), 0..60), 0usize..4).prop_map(
        |(first, second, members, text, kind)| match kind {
            0 => Value::from(first),
            1 => json!({"items": first, "others": second, "note": text.concat()}),
            2 => Value::Object(members.into_iter().collect()),
            _ => {
                let detail = Value::Object(members.into_iter().collect());
                json!({"result": {"detail": detail, "text": text.concat(), "list": first}})
            }
        },
    )
}

/// Returns a tool answer with `payload` as text and, if `structured`, as structured content.
fn answer(payload: &Value, pretty: bool, structured: bool) -> Vec<u8> {
    let text =
        if pretty { serde_json::to_string_pretty(payload) } else { serde_json::to_string(payload) }
            .unwrap();
    text_answer(&text, structured.then_some(payload))
}

fn text_answer(text: &str, structured: Option<&Value>) -> Vec<u8> {
    let mut result = json!({"content": [{"type": "text", "text": text}]});
    if let Some(structured) = structured {
        result["structuredContent"] = structured.clone();
    }
    json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string().into_bytes()
}

fn policy(budget: u64) -> String {
    json!({"tokenBudgetThreshold": budget, "hardCap": budget.max(12_000)}).to_string()
}

/// Edits of a message. Each has a position, as a share of its length, and a kind.
fn damage() -> impl Strategy<Value = Vec<(prop::sample::Index, Damage)>> {
    let kind = prop_oneof![
        any::<u8>().prop_map(Damage::Replace),
        prop::sample::select(&b"\"\\{}[]:,0-e."[..]).prop_map(Damage::Replace),
        prop::sample::select(&b"\"\\{}[]:,"[..]).prop_map(Damage::Insert),
        (1usize..40).prop_map(Damage::Remove),
        Just(Damage::Truncate),
    ];
    prop::collection::vec((any::<prop::sample::Index>(), kind), 1..4)
}

#[derive(Clone, Debug)]
enum Damage {
    Replace(u8),
    Insert(u8),
    Remove(usize),
    Truncate,
}

fn damaged(message: &[u8], damage: &[(prop::sample::Index, Damage)]) -> Vec<u8> {
    let mut bytes = message.to_vec();
    for (index, kind) in damage.iter().filter(|_| !message.is_empty()) {
        if bytes.is_empty() {
            break;
        }
        let at = index.index(bytes.len());
        match kind {
            Damage::Replace(byte) => bytes[at] = *byte,
            Damage::Insert(byte) => bytes.insert(at, *byte),
            Damage::Remove(count) => drop(bytes.drain(at..bytes.len().min(at + count))),
            Damage::Truncate => bytes.truncate(at),
        }
    }
    bytes
}

/// Shapes a message and follows its cursors. None if the message is unchanged.
fn walked(host: &NativeGuard, message: &[u8], budget: u64) -> Result<Option<Vec<Answer>>> {
    let Some(shaped) = shape(host, "t", &json!({}), message)? else { return Ok(None) };
    let pages = pages(host, Answer::read(&shaped)?)?;
    for page in &pages {
        context_guard_test_support::ensure!(
            page.tokens() <= budget,
            "{} tokens over {budget}: {:?}",
            page.tokens(),
            page.all_texts()
        );
    }
    Ok(Some(pages))
}

/// The seed of all properties of this run: that of PROPTEST_RNG_SEED, a random one in CI, and
/// otherwise a fixed one. It is printed, and a failing case is written to `proptest-regressions`.
fn seed() -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| {
        let given = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| {
            if is_ci() { RandomState::new().build_hasher().finish() } else { 2026 }
        });
        // Writes to the stream itself, because libtest hides the output of passing tests.
        let _ = writeln!(std::io::stderr(), "Properties: repeat with PROPTEST_RNG_SEED={seed}");
        seed
    });
    *SEED
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 96,
        rng_seed: RngSeed::Fixed(seed()),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/proptest-regressions/properties.txt"
        )))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn pages_reassemble_the_list(
        items in prop::collection::vec(item(), 0..260),
        budget in 200u64..5_000,
        bare: bool,
        pretty: bool,
        structured: bool,
    ) {
        let payload = if bare {
            Value::from(items.clone())
        } else {
            json!({"total": items.len(), "rows": items, "page": 1})
        };
        let structured = structured && !bare;
        let message = answer(&payload, pretty, structured);
        let host = NativeGuard::with_policy(&policy(budget)).unwrap();
        match walked(&host, &message, budget).unwrap() {
            None => prop_assert!(Answer::read(&message).unwrap().tokens() <= budget),
            Some(pages) if pages[0].metadata()["kind"] == "chunk" => {
                let text: String = pages.iter().flat_map(Answer::texts).collect();
                prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), payload);
            }
            Some(pages) => prop_assert_eq!(walk::items(&pages).unwrap(), items),
        }
    }

    /// Pages of selected fields contain those fields of each record in its order, whichever the
    /// record has. A query reads the same records.
    #[test]
    fn selected_fields_are_complete(
        records in prop::collection::vec(record(), 1..260),
        budget in 200u64..3_000,
        bare: bool,
        pretty: bool,
        structured: bool,
    ) {
        let chosen = |record: &Value| {
            let members = record.as_object().into_iter().flatten();
            let named = members.filter(|(key, _)| matches!(key.as_str(), "id" | "name" | "size"));
            let select = |(key, value): (&String, &Value)| {
                let is_size = key == "size";
                let value =
                    if is_size { json!({"height": value["height"]}) } else { value.clone() };
                (key.clone(), value)
            };
            Value::Object(named.map(select).collect())
        };
        let (payload, fields) = if bare {
            (Value::from(records.clone()), "id,name,size.height")
        } else {
            (json!({"rows": records, "page": 1}), "rows.id,rows.name,rows.size.height")
        };
        let message = answer(&payload, pretty, structured && !bare);
        let host = NativeGuard::with_policy(&policy(budget)).unwrap();
        let shaped = shape(&host, "t", &json!({"fields": fields}), &message).unwrap().unwrap();
        let first = Answer::read(&shaped).unwrap();
        let expected: Vec<Value> = records.iter().map(chosen).collect();
        if records.iter().all(|record| chosen(record) == json!({})) {
            return Ok(());
        }
        if first.metadata()["kind"] == "selection" {
            let document = json!({"rows": expected, "page": 1});
            let expected = if bare { Value::from(expected) } else { document };
            prop_assert_eq!(first.json().unwrap(), expected);
            return Ok(());
        }
        let cursor = first.next_cursor().unwrap();
        // `fields` of a later call would select other fields.
        let pages = walk::continued(&host, first, &json!({})).unwrap();
        for page in &pages {
            prop_assert!(
                page.tokens() <= budget,
                "{} tokens over {budget}: {:?}",
                page.tokens(),
                page.all_texts()
            );
        }
        prop_assert_eq!(walk::items(&pages).unwrap(), expected.clone());
        let totals = walk::read(&host, &json!({"cursor": cursor, "aggregate": "count"}))
            .unwrap()
            .json()
            .unwrap();
        prop_assert_eq!(totals["count"].as_u64(), Some(expected.len() as u64));
    }

    #[test]
    fn chunks_reassemble_the_text(
        lines in prop::collection::vec(line(), 0..400),
        budget in 200u64..5_000,
        wrapped: bool,
    ) {
        let text = lines.join("\n");
        let structured = wrapped.then(|| json!({ "content": text }));
        let message = text_answer(&text, structured.as_ref());
        let host = NativeGuard::with_policy(&policy(budget)).unwrap();
        match walked(&host, &message, budget).unwrap() {
            None => prop_assert!(Answer::read(&message).unwrap().tokens() <= budget),
            Some(pages) => {
                prop_assert_eq!(pages.iter().flat_map(Answer::texts).collect::<String>(), text);
                prop_assert_eq!(pages[0].metadata()["totalChunks"].as_u64().unwrap_or(0) > 0, true);
            }
        }
    }

    /// Any first answer is within its budget, valid, labelled, leads to the whole, and is no error.
    #[test]
    fn first_answer_is_valid(
        payload in document(),
        budget in 200u64..5_000,
        pretty: bool,
        structured: bool,
    ) {
        let structured = structured && payload.is_object();
        let message = answer(&payload, pretty, structured);
        let host = NativeGuard::with_policy(&policy(budget)).unwrap();
        let Some(shaped) = shape(&host, "t", &json!({}), &message).unwrap() else {
            let whole = Answer::read(&message).unwrap();
            prop_assert!(
                whole.tokens() <= budget,
                "{} tokens over {budget} unshaped: {:?}",
                whole.tokens(),
                whole.all_texts()
            );
            return Ok(());
        };
        let shaped = Answer::read(&shaped).unwrap();
        let metadata = shaped.metadata();
        prop_assert!(
            shaped.tokens() <= budget,
            "{} tokens over {budget}: {:?}",
            shaped.tokens(),
            shaped.all_texts()
        );
        prop_assert!(!shaped.is_error() && shaped.cursor().is_some());
        let kind = metadata["kind"].as_str().unwrap();
        prop_assert!(
            matches!(kind, "chunk" | "part") || shaped.json().is_ok(),
            "{kind}: {:?}",
            shaped.all_texts()
        );
        // Under a small budget, the notice names the member beside the list instead.
        let cursor = shaped.cursor().unwrap();
        let is_beside = || shaped.json().is_ok_and(|page| page["nextCursor"] == cursor);
        match shaped.notice() {
            Some(notice) => {
                let is_named = notice.contains("{\"cursor\":nextCursor}") && is_beside();
                prop_assert!(notice.contains(&cursor) || is_named, "{notice}");
            }
            // A text that has everything remains as it is.
            None => {
                prop_assert!(structured && metadata["loss"] == "lossless", "{kind}");
                let metadata = &shaped.result()["structuredContent"]["context_guard"];
                prop_assert!(metadata["cursor"] == cursor, "{metadata}");
            }
        }
        if structured {
            prop_assert!(
                shaped.result()["structuredContent"]["context_guard"]["loss"] == metadata["loss"]
            );
        }
        prop_assert!(
            walk::snapshots(&host)
                .unwrap()
                .iter()
                .any(|stored| message.windows(stored.len()).any(|window| window == stored))
        );
    }

    /// Totals cover all records, regardless of how many are shown.
    #[test]
    fn totals_cover_all_records(
        prices in prop::collection::vec(-1_000_000i64..1_000_000, 201..500),
    ) {
        let rows: Vec<Value> = prices
            .iter()
            .enumerate()
            .map(|(id, price)| json!({"id": id, "price": price, "kind": id % 3}))
            .collect();
        let host = NativeGuard::with_policy("").unwrap();
        let first = shape(&host, "t", &json!({}), &answer(&json!({ "rows": rows }), false, false))
            .unwrap()
            .unwrap();
        let cursor = Answer::read(&first).unwrap().cursor();
        let totals = |aggregate: &str| {
            let read = walk::read(&host, &json!({"cursor": cursor, "aggregate": aggregate}));
            read.unwrap().json().unwrap()
        };
        let by_kind = totals("count by kind");
        let totals = totals("count, sum(price), min(price), max(price)");
        prop_assert_eq!(totals["count"].as_u64(), Some(prices.len() as u64));
        prop_assert_eq!(totals["sum(price)"].as_i64(), Some(prices.iter().sum()));
        prop_assert_eq!(totals["min(price)"].as_i64(), prices.iter().min().copied());
        prop_assert_eq!(totals["max(price)"].as_i64(), prices.iter().max().copied());
        prop_assert_eq!(
            by_kind["count by kind"]["1"].as_u64(),
            Some(prices.len().div_ceil(3) as u64 - u64::from(prices.len() % 3 == 1))
        );
    }

    #[test]
    fn small_answer_is_unchanged(
        items in prop::collection::vec(0u32..1_000, 0..50),
        text in "[a-z .\n]{0,2000}",
    ) {
        let host = NativeGuard::with_policy("").unwrap();
        prop_assert_eq!(
            shape(&host, "t", &json!({}), &answer(&json!({ "items": items }), true, true)).unwrap(),
            None
        );
        prop_assert_eq!(shape(&host, "t", &json!({}), &text_answer(&text, None)).unwrap(), None);
        prop_assert!(host.stored().is_empty());
    }

    #[test]
    fn output_is_deterministic(
        items in prop::collection::vec(item(), 51..120),
        text in "[a-z .\n]{9000,9500}",
    ) {
        let other = json!({"kind": "other"});
        for message in
            [answer(&json!({ "rows": items }), true, true), text_answer(&text, Some(&other))]
        {
            let shaped = || {
                let host = NativeGuard::with_policy("").unwrap();
                (shape(&host, "t", &json!({}), &message).unwrap(), host.stored())
            };
            prop_assert_eq!(shaped(), shaped());
        }
    }

    #[test]
    fn snapshot_is_verbatim(items in prop::collection::vec(item(), 51..200), pretty: bool) {
        let host = NativeGuard::with_policy(&policy(200)).unwrap();
        let message = answer(&json!({ "rows": items }), pretty, false);
        let shaped = shape(&host, "t", &json!({}), &message).unwrap();
        prop_assert!(shaped.is_some());
        for stored in walk::snapshots(&host).unwrap() {
            prop_assert!(message.windows(stored.len()).any(|window| window == stored));
        }
    }

    #[test]
    fn damaged_messages_do_not_panic(payload in document(), structured: bool, damage in damage()) {
        let host = NativeGuard::with_policy(&policy(200)).unwrap();
        let message = answer(&payload, true, structured);
        let Verdict::Forward(_, ticket) = host.request(&call("t", &json!({}))).unwrap() else {
            panic!("answered")
        };
        let _ = host.response(&ticket, &damaged(&message, &damage));
        let _ = host.response(&damaged(&ticket, &damage), &message);
        let guard = json!({"where": "id>=1", "fields": "id,name", "aggregate": "count by name"});
        let query = json!({"_guard": guard, "payload": payload});
        let _ = host.request(&damaged(&call("t", &query), &damage));
    }

    /// Any text inside a valid message reaches the strategies. Random bytes would be rejected as a
    /// message.
    #[test]
    fn texts_of_any_characters_do_not_panic(
        text in prop::collection::vec(any::<char>(), 0..6_000),
        head in "(\\[|\\{|diff --git|# |[0-9]{4}-[0-9]{2}-[0-9]{2} ERROR )?",
    ) {
        let host = NativeGuard::with_policy(&policy(200)).unwrap();
        let text: String = head.chars().chain(text).collect();
        let message = text_answer(&text, None);
        if let Some(pages) = walked(&host, &message, u64::MAX).unwrap() {
            prop_assert!(!pages.is_empty());
        }
    }

    #[test]
    fn invalid_cursors_are_rejected(
        principal in "[a-z]{0,8}",
        at in 0usize..100,
        flip in 1u8..127,
    ) {
        let mut host = NativeGuard::with_policy("").unwrap();
        let first = shape(
            &host,
            "t",
            &json!({}),
            &answer(&json!((0..4_000).collect::<Vec<_>>()), false, false),
        )
        .unwrap()
        .unwrap();
        let cursor = Answer::read(&first).unwrap().next_cursor().unwrap();
        let says = |host: &NativeGuard, cursor: &str| {
            walk::read(host, &json!({ "cursor": cursor })).unwrap().all_texts().concat()
        };
        prop_assert!(says(&host, &cursor).contains("PARTIAL LIST"));
        let mut forged = cursor.clone().into_bytes();
        let at = at % (forged.len() - 1);
        forged[at] = if forged[at] == flip { b'!' } else { flip };
        prop_assert!(says(&host, &String::from_utf8_lossy(&forged)).starts_with("cursor_invalid"));
        // A lifetime is exact to a minute.
        host.advance_ms(661_000);
        prop_assert!(says(&host, &cursor).starts_with("cursor_expired"));
        let stranger = host.with_principal(&format!("{principal}x"));
        prop_assert!(says(&stranger, &cursor).starts_with("cursor_invalid"));
    }
}

#[test]
fn each_cursor_lives_its_full_time() -> Result<()> {
    let records: Vec<Value> = (0..9_000).map(|id| json!({"id": id, "even": id % 2 == 0})).collect();
    let list = answer(&Value::from(records), false, false);
    for guard in [json!({}), json!({"fields": "id"})] {
        let mut host = NativeGuard::new("", "tester", NOW_MS, &[SIGNING_KEY])?;
        let mut page = Answer::read(&shape(&host, "t", &guard, &list)?.context("not shaped")?)?;
        for _ in 0..20 {
            host.advance_ms(590_000);
            page = walk::read(&host, &json!({"cursor": page.next_cursor()}))?;
            context_guard_test_support::ensure!(!page.is_error(), "{:?}", page.all_texts());
        }
    }
    Ok(())
}

#[test]
fn oversized_item_is_read_in_parts() -> Result<()> {
    let large: Vec<String> = (0..4_000).map(|number| format!("word{number}")).collect();
    let items = vec![
        json!({"id": 1}),
        json!({"id": 2, "words": large, "nested": {"deep": [1, 2, 3]}}),
        json!({"id": 3}),
    ];
    let host = NativeGuard::with_policy("")?;
    let walked = walked(&host, &answer(&Value::from(items.clone()), true, false), 4_000)?
        .context("not shaped")?;
    context_guard_test_support::ensure!(
        walked.iter().any(|page| page.metadata()["kind"] == "part")
    );
    context_guard_test_support::ensure!(walk::items(&walked)? == items);
    Ok(())
}
