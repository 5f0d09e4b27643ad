//! Cursors of every kind of answer lead to the upstream's answer, whatever the first page showed.

#![allow(clippy::indexing_slicing, reason = "serde_json gives null for what is missing")]

mod client;

use anyhow::{Context as _, Result, ensure};
use client::{cursor, first, payload, read, text};
use context_guard_test_kit::guard::NativeGuard;
use proptest::prelude::*;
use serde_json::{Value, json};

fn bookings() -> impl Strategy<Value = Vec<Value>> {
    let booking = (0u32..1_000, "[a-z]{3,9}", "(open|done|held)", any::<bool>(), "[a-z ]{0,120}");
    prop::collection::vec(booking, 60..220).prop_map(|bookings| {
        let number = |(at, (total, name, status, nested, note)): (usize, _)| {
            let (total, name, status): (u32, String, String) = (total, name, status);
            let mut booking = json!({
                "id": format!("BK-{at:04}"), "title": format!("Stay of {name}"), "status": status,
                "price": {"total": total}, "guest": {"name": name, "email": format!("{name}@x.org")},
            });
            if nested {
                booking["content"] = Value::String(note);
            }
            booking
        };
        bookings.into_iter().enumerate().map(number).collect()
    })
}

/// Generates guard arguments of a first call that reduce its answer in some way.
fn reduction() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({"limit": 7}),
        json!({"fields": "all"}),
        json!({"fields": "id,status"}),
        json!({"fields": "bookings.id,bookings.price.total"}),
        json!({"fields": "title", "limit": 5}),
        json!({"response_mode": "ids_only"}),
        json!({"response_mode": "metadata"}),
        json!({"response_mode": "preview"}),
        json!({"response_mode": "full"}),
        json!({"response_mode": "metadata", "limit": 9}),
        json!({"where": "status!=open"}),
        json!({"where": "status=open", "fields": "id", "limit": 2}),
        json!({"path": "$..email", "limit": 10}),
        json!({"grep": "a", "limit": 3}),
        json!({"response_mode": "preview", "where": "price.total<900", "limit": 4}),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn queries_by_cursor_are_of_the_original(
        records in bookings(),
        reductions in prop::collection::vec(reduction(), 1..4),
        budget in 600u64..4_500,
        pick in any::<prop::sample::Index>(),
        policy in prop::sample::select(vec![
            json!({}),
            json!({"strip": ["nulls"], "stripFields": ["content"]}),
            json!({"orderBy": {"field": "price.total"}}),
        ]),
    ) {
        let mut policy = policy;
        policy["tokenBudgetThreshold"] = budget.into();
        let guard = NativeGuard::with_policy(&policy.to_string()).unwrap();
        let document = json!({"bookings": records, "page": 1}).to_string();
        let wanted = pick.get(&records)["id"].clone();
        let follow_ups = [
            json!({"where": "price.total>=500"}),
            json!({"path": "$..email"}),
            json!({"response_mode": "full", "filter_ids": [wanted]}),
            json!({"aggregate": "count by status, sum(price.total)"}),
            json!({"fields": "id,guest.name"}),
        ];
        // Every answer is of the same call, so equal follow-ups are equal in every byte.
        let mut all: Vec<Vec<String>> = vec![Vec::new(); follow_ups.len()];
        for reduction in std::iter::once(json!({"limit": 1})).chain(reductions) {
            let mut page = first(&guard, &reduction, &document).unwrap();
            // The cursors of later pages, and of queries of those, are no different.
            for _ in 0..2 {
                let Some(cursor) = cursor(&page) else { break };
                for (follow_up, answers) in follow_ups.iter().zip(&mut all) {
                    let mut arguments = follow_up.clone();
                    arguments["cursor"] = cursor.as_str().into();
                    let answer = read(&guard, &arguments).unwrap();
                    prop_assert!(answer["result"]["isError"].is_null(), "{answer}");
                    answers.push(text(&answer).to_owned());
                }
                page = read(&guard, &json!({"cursor": cursor, "limit": 7})).unwrap();
            }
        }
        for (follow_up, answers) in follow_ups.iter().zip(&all) {
            for answer in answers {
                prop_assert_eq!(answer, &answers[0], "{}", follow_up);
            }
        }
        let full: Value = serde_json::from_str(&all[2][0]).unwrap();
        let whole = pick.get(&records);
        let shown = &full["results"][0];
        for (key, value) in whole.as_object().unwrap() {
            prop_assert_eq!(&shown[key], value, "{}", shown);
        }
        let totals: Value = serde_json::from_str(&all[3][0]).unwrap();
        let sum: u64 = records.iter().filter_map(|record| record["price"]["total"].as_u64()).sum();
        prop_assert_eq!(&totals["records"], records.len());
        prop_assert_eq!(&totals["sum(price.total)"], sum);
    }

    #[test]
    fn complete_records_follow_a_selection(
        records in bookings(),
        limit in 1usize..40,
        filter in prop::sample::select(vec![None, Some("status=open")]),
        reduction in prop::sample::select(vec![
            json!({"fields": "id"}),
            json!({"fields": "bookings.title"}),
            json!({"response_mode": "metadata"}),
            json!({"response_mode": "ids_only"}),
        ]),
    ) {
        let guard = NativeGuard::with_policy("").unwrap();
        let document = json!({"bookings": records, "page": 1}).to_string();
        let mut arguments = reduction;
        arguments["limit"] = limit.into();
        if let Some(filter) = filter {
            arguments["where"] = filter.into();
        }
        let meets = |record: &&Value| filter.is_none() || record["status"] == "open";
        let expected: Vec<&Value> = records.iter().filter(meets).skip(limit).collect();
        let mut next = cursor(&first(&guard, &arguments, &document).unwrap());
        prop_assert!(expected.is_empty() || next.is_some());
        let mut found = Vec::new();
        while let Some(cursor) = next.filter(|_| !expected.is_empty()) {
            let page = read(&guard, &json!({"cursor": cursor, "fields": "all"})).unwrap();
            found.extend(payload(&page).unwrap()["bookings"].as_array().unwrap().clone());
            let meta = page["result"]["_meta"].as_object().unwrap().values().next().unwrap();
            next = meta["nextCursor"].as_str().map(str::to_owned);
        }
        prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    }

    /// Pages of a selection have its fields only. After `fields=all`, they have all fields.
    #[test]
    fn selections_go_on_as_they_are_asked(records in bookings(), limit in 1usize..9) {
        let guard = NativeGuard::with_policy("").unwrap();
        let document = json!({"bookings": records}).to_string();
        let arguments = json!({"fields": "bookings.id", "limit": limit});
        let mut next = cursor(&first(&guard, &arguments, &document).unwrap());
        let mut at = limit;
        let mut has_all = false;
        while let Some(cursor) = next {
            // The first half of the pages is of the selection.
            let asks = !has_all && at * 2 > records.len();
            has_all |= asks;
            let mut arguments = json!({ "cursor": cursor });
            if asks {
                arguments["fields"] = "all".into();
            }
            let page = read(&guard, &arguments).unwrap();
            let shown = payload(&page).unwrap()["bookings"].as_array().unwrap().clone();
            for (record, known) in shown.iter().zip(&records[at..]) {
                let selected = json!({"id": known["id"]});
                prop_assert_eq!(record, if has_all { known } else { &selected });
            }
            at += shown.len();
            let meta = page["result"]["_meta"].as_object().unwrap().values().next().unwrap();
            next = meta["nextCursor"].as_str().map(str::to_owned);
        }
        prop_assert_eq!(at, records.len());
    }

    #[test]
    fn limit_and_envelope_hold_for_selections(
        records in bookings(),
        count in prop::sample::select(vec![1usize, 3, 60]),
        // Up to 25 of the longest records fit the budget.
        limit in 1u64..25,
        query in prop::sample::select(vec![
            json!({"fields": "title"}),
            json!({"fields": "bookings.title"}),
            json!({"where": "price.total>=0"}),
            json!({"where": "price.total>=0", "fields": "id"}),
        ]),
    ) {
        let guard = NativeGuard::with_policy("").unwrap();
        let records = &records[..count];
        let document = json!({"bookings": records, "page": 1, "links": {"self": "/bookings"}});
        let mut arguments = query;
        arguments["limit"] = limit.into();
        let answer = first(&guard, &arguments, &document.to_string()).unwrap();
        let page = payload(&answer).unwrap();
        prop_assert_eq!((&page["page"], &page["links"]), (&document["page"], &document["links"]));
        let shown = page["bookings"].as_array().unwrap().len();
        prop_assert_eq!(shown, count.min(usize::try_from(limit).unwrap()));
        prop_assert_eq!(page["nextCursor"].is_string(), shown < count);
        prop_assert_eq!(page["meta"]["totalCount"].as_u64().unwrap_or(shown as u64), count as u64);
    }
}

#[test]
fn limit_holds_for_modes_and_bare_lists() -> Result<()> {
    let guard = NativeGuard::with_policy("")?;
    let rows: Vec<Value> = (0..30).map(|id| json!({"id": id, "tag": "x"})).collect();
    let bare = Value::from(rows.clone()).to_string();
    for (query, key) in [
        (json!({"fields": "id", "limit": 2}), "items"),
        (json!({"where": "id>=3", "limit": 2}), "items"),
        (json!({"path": "$..id", "limit": 2}), "items"),
        (json!({"response_mode": "ids_only", "limit": 2}), "ids"),
        (json!({"response_mode": "metadata", "limit": 2}), "results"),
    ] {
        let page = payload(&first(&guard, &query, &bare)?)?;
        let shown = page[key].as_array().with_context(|| format!("{query}: {page}"))?;
        ensure!(shown.len() == 2 && page["nextCursor"].is_string(), "{query}: {page}");
    }
    Ok(())
}

#[test]
fn rules_of_an_upstream_apply_to_further_pages() -> Result<()> {
    let policy = r#"{"endpoints": [{"match": "crm::list", "defaultPageSize": 3}]}"#;
    let guard = NativeGuard::with_policy(policy)?.with_upstream("crm");
    let rows: Vec<Value> = (0..30).map(|id| json!({"id": id})).collect();
    let mut page = first(&guard, &json!({}), &Value::from(rows).to_string())?;
    // A host with several upstreams names none of them when its read tool is called.
    let guard = guard.with_upstream("");
    for number in 0..3 {
        let items = payload(&page)?["items"].as_array().map(Vec::len);
        ensure!(items == Some(3), "page {number}: {items:?}");
        page = read(&guard, &json!({"cursor": cursor(&page).context("no cursor")?}))?;
    }
    Ok(())
}
