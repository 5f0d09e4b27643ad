//! Parts of a call: scanning, pricing, cursors, instances. And the duration of a swap.

use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use context_guard::policy::Source;
use context_guard::revision::Candidate;
use context_guard_core::encoding::CursorFormat;
use context_guard_core::json::locate_lists::DocumentInfo;
use context_guard_core::json::text::Form;
use context_guard_core::snapshot::Cursor;
use context_guard_core::tokens::{Estimator, OriginalCost};
use context_guard_test_support::guards::NOW_MS;
use criterion::Bencher;
use serde_json::json;

use crate::inputs::{bookings, call, text};
use crate::sides::{PRINCIPAL, Sandbox, Side, Whole, caller, keys};
use crate::turns::{Bench, Turns};

/// Measures all parts.
pub(crate) fn run(turns: &mut Turns) -> Result<()> {
    scanning(turns)?;
    pricing(turns)?;
    cursors(turns)?;
    instances(turns)?;
    swap(turns)
}

fn scanning(turns: &mut Turns) -> Result<()> {
    let document = bookings(1_000_000);
    let survey = DocumentInfo::parse(document.as_bytes(), Form::Raw);
    ensure!(
        survey.is_some_and(|survey| survey.longest().is_some_and(|list| list.items.len() > 500))
    );
    let parse = || drop(serde_json::from_str::<serde_json::Value>(black_box(&document)));
    turns.run(vec![
        Bench::new("scan-1MB", "core", || {
            DocumentInfo::parse(black_box(document.as_bytes()), Form::Raw)
        }),
        Bench::new("scan-1MB", "value", parse),
    ])
}

fn pricing(turns: &mut Turns) -> Result<()> {
    let document = bookings(10_000_000);
    let document = document.as_bytes();
    let estimator = Estimator::default();
    let exact = estimator.price(document);
    let sampled = OriginalCost::estimate(&estimator, document, Form::Raw).tokens;
    ensure!(sampled.abs_diff(exact) * 20 <= exact, "{sampled} of {exact}");
    let samples = || OriginalCost::estimate(&estimator, black_box(document), Form::Raw);
    turns.run(vec![
        Bench::new("price-10MB", "all of it", || estimator.price(black_box(document))),
        Bench::new("price-10MB", "samples", samples),
    ])
}

fn cursors(turns: &mut Turns) -> Result<()> {
    let keys = keys()?;
    let cursor = Cursor::new("abcdefghijkl", 50, NOW_MS);
    let signed = cursor.sign(CursorFormat::Short, &keys, PRINCIPAL);
    ensure!(Cursor::verify(&signed, &keys, PRINCIPAL, NOW_MS, 1_000)?.offset == cursor.offset);
    let verify = || Cursor::verify(black_box(&signed), &keys, PRINCIPAL, NOW_MS, 1_000);
    turns.run(vec![
        Bench::new("cursor", "sign", || {
            black_box(&cursor).sign(CursorFormat::Short, &keys, PRINCIPAL)
        }),
        Bench::new("cursor", "verify", verify),
    ])
}

/// Compares a new instance per answer with a reused one.
fn instances(turns: &mut Turns) -> Result<()> {
    let answer = text(&bookings(100_000));
    let sandbox = Sandbox::new("{}")?;
    let ticket =
        sandbox.forward(&call("list", &json!({"_guard_limit": 3, "_guard_fields": "all"})))?;
    ensure!(sandbox.shape(&ticket, &answer)?.is_some());
    let request = call("list", &json!({}));
    let caller = caller();
    let mut instance = sandbox.component.instance(&sandbox.services, PRINCIPAL, answer.len())?;
    let at_once = |bencher: &mut Bencher<'_>| {
        bencher.iter_custom(|times| {
            let begin = Instant::now();
            std::thread::scope(|scope| {
                for share in [times.div_ceil(2), times / 2] {
                    let (sandbox, ticket, answer) = (&sandbox, &ticket, &answer);
                    scope.spawn(move || {
                        (0..share).for_each(|_| drop(black_box(sandbox.shape(ticket, answer))));
                    });
                }
            });
            begin.elapsed()
        });
    };
    turns.run(vec![
        Bench::new("instance", "new, and a request", || sandbox.forward(&request)),
        Bench::new("instance", "new, 100 kB", || sandbox.shape(&ticket, &answer)),
        Bench::new("instance", "used again, 100 kB", || {
            instance.on_response(&sandbox.settings, &caller, &ticket, &answer)
        }),
        Bench::timed("instance", "new, 100 kB, two threads at once", at_once),
    ])
}

/// Measures a policy change: parsing, self-test, and activation.
fn swap(turns: &mut Turns) -> Result<()> {
    let whole = Whole::new("{}")?;
    let budget = AtomicU64::new(3_000);
    let offer = || {
        let budget = budget.fetch_add(1, Ordering::Relaxed);
        let policy = Source::parse(
            Path::new("policy.json"),
            json!({"tokenBudgetThreshold": budget}).to_string(),
        )?;
        whole.0.revisions().deploy(&Candidate { policy: Some(policy), ..Candidate::default() })
    };
    ensure!(offer()?.is_some(), "the policy was not deployed");
    turns.run(vec![Bench::new("swap", "policy", offer)])
}
