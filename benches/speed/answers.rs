//! Whole calls that shape an answer.

use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::inputs::{bookings, both, call, catalogue, log, settings, structured, text};
use crate::sides::{Core, Sandbox, Side, Whole};
use crate::turns::{Bench, Turns};

const MB: usize = 1_000_000;

/// An answer, and its expected form.
struct Case {
    name: &'static str,
    policy: &'static str,
    request: Vec<u8>,
    answer: Vec<u8>,
    /// JSON of the same size, for the reference time of parsing.
    like: Vec<u8>,
    /// A text of the shaped answer. None if the answer is unchanged.
    says: Option<&'static str>,
}

fn cases() -> Vec<Case> {
    let list = bookings(MB);
    let small = bookings(100_000);
    let long = bookings(3 * MB);
    let lines = log(3 * MB);
    let wide = settings(MB);
    let tools = catalogue(500);
    let of = |name, answer, like: &str, says| Case {
        name,
        policy: "{}",
        request: call("list", &json!({})),
        answer,
        like: like.as_bytes().to_vec(),
        says: Some(says),
    };
    let page = json!({"_guard_limit": 3, "_guard_fields": "all"});
    let page = call("list", &page);
    let fields =
        call("list", &json!({"_guard_fields": "id,status,guest.name,stay.checkIn,price.base"}));
    let read: Value = serde_json::from_str(&list).unwrap_or_default();
    let next = "nextCursor";
    let fits = bookings(300);
    let dense = bookings(60_000);
    let records: Vec<_> = (0..650)
        .map(|id| {
            let name = format!("record {id}");
            json!({"id": id, "name": name, "value": id * id, "at": "2026-11-01"})
        })
        .collect();
    let records = json!(records).to_string();
    vec![
        Case { request: page.clone(), ..of("page-structured-1MB", structured(&list), &list, next) },
        Case { request: page.clone(), ..of("page-text-1MB", text(&list), &list, next) },
        Case { request: page.clone(), ..of("page-both-1MB", both(&list, &list), &list, next) },
        // Some SDKs send the text pretty-printed.
        Case {
            request: page.clone(),
            ..of("page-both-pretty-1MB", both(&format!("{read:#}"), &list), &list, next)
        },
        Case { request: page, ..of("page-text-100kB", text(&small), &small, next) },
        of("list-of-650-48kB", text(&records), &records, next),
        Case { says: None, ..of("fits-1kB", text(&fits), &fits, next) },
        Case {
            says: None,
            policy: r#"{"tokenBudgetThreshold": 1000000, "hardCap": 1000000, "chunkThreshold": 1000000, "pagination": false, "summaryThreshold": 1000000}"#,
            ..of("fits-60kB", text(&dense.replace('"', "'")), &dense, next)
        },
        of("condense-structured-1MB", structured(&list), &list, "CONDENSED"),
        of("condense-text-1MB", text(&list), &list, "CONDENSED"),
        of("condense-text-pretty-1MB", text(&format!("{read:#}")), &list, "CONDENSED"),
        Case {
            request: fields.clone(),
            ..of("project-structured-1MB", structured(&list), &list, "checkIn")
        },
        Case { request: fields, ..of("project-text-1MB", text(&list), &list, "checkIn") },
        Case {
            policy: r#"{"highlights": false}"#,
            ..of("chunk-plain-3MB", text(&lines), &long, "of ")
        },
        of("chunk-3MB", text(&lines), &long, "errors"),
        of("extract-1MB", structured(&wide), &wide, "SUMMARY"),
        Case {
            request: json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
                .to_string()
                .into_bytes(),
            ..of("tools-500", tools.clone(), &String::from_utf8_lossy(&tools), "context_guard_read")
        },
    ]
}

/// Returns the groups that are compared with parsing the same bytes.
pub(crate) fn alike() -> Vec<Vec<&'static str>> {
    let mut groups: Vec<(Vec<u8>, Vec<&str>)> = Vec::new();
    for case in cases() {
        match groups.iter_mut().find(|(like, _)| *like == case.like) {
            Some((_, names)) => names.push(case.name),
            None => groups.push((case.like, vec![case.name])),
        }
    }
    groups.into_iter().map(|(_, names)| names).collect()
}

/// Measures all cases.
pub(crate) fn run(turns: &mut Turns) -> Result<()> {
    for case in cases() {
        let core = Core::new(case.policy)?;
        let sandbox = Sandbox::new(case.policy)?;
        let whole = Whole::new(case.policy)?;
        let expected = core.shape(&core.forward(&case.request)?, &case.answer)?;
        case.check(expected.as_deref()).with_context(|| format!("in {}", case.name))?;
        let ticket = sandbox.forward(&case.request)?;
        let parse = || drop(black_box(serde_json::from_slice::<Value>(&case.like)));
        turns.run(vec![
            Bench::new(case.name, "value", parse),
            case.bench("core", &core, &expected)?,
            case.bench("component", &sandbox, &expected)?,
            case.bench("filter", &whole, &expected)?,
            Bench::cold(case.name, "value, cold", parse),
            Bench::cold(case.name, "component, cold", || sandbox.shape(&ticket, &case.answer)),
        ])?;
    }
    Ok(())
}

impl Case {
    fn check(&self, shaped: Option<&[u8]>) -> Result<()> {
        match (self.says, shaped) {
            (None, None) => Ok(()),
            (Some(says), Some(shaped)) => {
                let shaped = String::from_utf8_lossy(shaped);
                serde_json::from_str::<Value>(&shaped)?;
                ensure!(shaped.contains(says), "{shaped}");
                // A tool list loses nothing; any other answer is shortened.
                ensure!(
                    self.name.starts_with("tools") || shaped.len() < 40_000,
                    "{}",
                    shaped.len()
                );
                Ok(())
            }
            (_, shaped) => {
                anyhow::bail!("{:?}", shaped.map(String::from_utf8_lossy));
            }
        }
    }

    fn bench<'a, S: Side>(
        &'a self,
        form: &'static str,
        side: &'a S,
        expected: &Option<Vec<u8>>,
    ) -> Result<Bench<'a>>
    where
        S::Ticket: 'a,
    {
        let ticket = side.forward(&self.request)?;
        ensure!(
            side.shape(&ticket, &self.answer)? == *expected,
            "the {form} makes something else of {} than the core",
            self.name
        );
        Ok(Bench::new(self.name, form, move || side.shape(&ticket, &self.answer)))
    }
}
