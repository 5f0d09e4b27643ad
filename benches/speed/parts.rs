//! What a call consists of: scanning, pricing, cursors, instances; and what comes between calls: a swap.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use context_guard::generation::Offer;
use context_guard::policy::Source;
use context_guard_core::json::survey::Survey;
use context_guard_core::json::text::Form;
use context_guard_core::snapshot::Cursor;
use context_guard_core::tokens::{Estimator, Original};
use context_guard_test_support::guards::NOW;
use criterion::{Criterion, Throughput};
use serde_json::json;

use crate::inputs::{bookings, call, text};
use crate::sides::{PRINCIPAL, Sandbox, Side, Whole, caller, keys};

/// Measures them all.
pub(crate) fn run(criterion: &mut Criterion) -> Result<()> {
    scanning(criterion)?;
    pricing(criterion)?;
    cursors(criterion)?;
    instances(criterion)?;
    swap(criterion)
}

fn scanning(criterion: &mut Criterion) -> Result<()> {
    let document = bookings(1_000_000);
    let survey = Survey::of(document.as_bytes(), Form::Raw);
    ensure!(
        survey.is_some_and(|survey| survey.longest().is_some_and(|list| list.items.len() > 500))
    );
    let mut group = criterion.benchmark_group("scan-1MB");
    group.throughput(Throughput::Bytes(document.len() as u64));
    group.bench_function("core", |bencher| {
        bencher.iter(|| Survey::of(black_box(document.as_bytes()), Form::Raw));
    });
    group.bench_function("value", |bencher| {
        bencher.iter(|| drop(serde_json::from_str::<serde_json::Value>(black_box(&document))));
    });
    group.finish();
    Ok(())
}

fn pricing(criterion: &mut Criterion) -> Result<()> {
    let document = bookings(10_000_000);
    let estimator = Estimator::default();
    let exact = estimator.price(document.as_bytes());
    let sampled = Original::price(&estimator, document.as_bytes(), Form::Raw).tokens;
    ensure!(sampled.abs_diff(exact) * 20 <= exact, "{sampled} of {exact}");
    let mut group = criterion.benchmark_group("price-10MB");
    group.throughput(Throughput::Bytes(document.len() as u64));
    group.bench_function("all of it", |bencher| {
        bencher.iter(|| estimator.price(black_box(document.as_bytes())));
    });
    group.bench_function("samples", |bencher| {
        bencher.iter(|| Original::price(&estimator, black_box(document.as_bytes()), Form::Raw));
    });
    group.finish();
    Ok(())
}

fn cursors(criterion: &mut Criterion) -> Result<()> {
    let keys = keys()?;
    let cursor = Cursor::new("abcdefghijklmnop", 50, NOW);
    let signed = cursor.sign(&keys, PRINCIPAL);
    ensure!(Cursor::verify(&signed, &keys, PRINCIPAL, NOW, 1_000)? == cursor);
    let mut group = criterion.benchmark_group("cursor");
    group.bench_function("sign", |bencher| {
        bencher.iter(|| black_box(&cursor).sign(&keys, PRINCIPAL))
    });
    group.bench_function("verify", |bencher| {
        bencher.iter(|| Cursor::verify(black_box(&signed), &keys, PRINCIPAL, NOW, 1_000));
    });
    group.finish();
    Ok(())
}

/// A new instance for every answer, beside one that is used again.
fn instances(criterion: &mut Criterion) -> Result<()> {
    let answer = text(&bookings(100_000));
    let sandbox = Arc::new(Sandbox::new("{}")?);
    let ticket =
        sandbox.forward(&call("list", &json!({"_guard_limit": 3, "_guard_fields": "all"})))?;
    ensure!(sandbox.shape(&ticket, &answer)?.is_some());
    let mut group = criterion.benchmark_group("instance");
    let request = call("list", &json!({}));
    group.bench_function("new, and a request", |bencher| {
        bencher.iter(|| sandbox.forward(&request));
    });
    group.bench_function("new, 100 kB", |bencher| bencher.iter(|| sandbox.shape(&ticket, &answer)));
    let caller = caller();
    let mut instance =
        sandbox.component.instance(&sandbox.surroundings, PRINCIPAL, answer.len())?;
    group.bench_function("used again, 100 kB", |bencher| {
        bencher.iter(|| instance.on_response(&sandbox.settings, &caller, &ticket, &answer));
    });
    group.bench_function("new, 100 kB, two threads at once", |bencher| {
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
    });
    group.finish();
    Ok(())
}

/// Another policy, taken in, tested and begun with.
fn swap(criterion: &mut Criterion) -> Result<()> {
    let whole = Whole::new("{}")?;
    let budget = AtomicU64::new(3_000);
    let offer = || {
        let budget = budget.fetch_add(1, Ordering::Relaxed);
        let policy = Source::parse(
            Path::new("policy.json"),
            json!({"tokenBudgetThreshold": budget}).to_string(),
        )?;
        whole.0.generations().offer(&Offer { policy: Some(policy), ..Offer::default() })
    };
    ensure!(offer()?.is_some(), "the policy was not taken in");
    let mut group = criterion.benchmark_group("swap");
    group.bench_function("policy", |bencher| bencher.iter(&offer));
    group.finish();
    Ok(())
}
