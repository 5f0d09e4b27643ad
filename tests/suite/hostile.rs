//! Components that loop, trap, exhaust memory or return garbage. Each is stopped, the answer falls
//! back
//! to the byte limit, and the next call of a healthy component works.

use std::sync::Arc;
use std::time::{Duration, Instant};

use context_guard::Filter;
use context_guard::clock::SystemClock;
use context_guard::engine::{
    self, CallContext, Component, Engine, EngineOptions, HostServices, Settings, SigningKey,
};
use context_guard::filter::Request;
use context_guard::store::NoStore;
use context_guard_test_stub::component_that;
use context_guard_test_support::answer::Answer;
use context_guard_test_support::guards::{InspectableStore, SIGNING_KEY};
use context_guard_test_support::{Context, Result, artifacts, ensure, walk};
use serde_json::json;

/// Returns the faulty components with their names.
pub(crate) fn modules() -> Result<Vec<(&'static str, Vec<u8>)>> {
    let faults = ["unreachable", "(i32.const 3)", "(loop $for_ever (br $for_ever)) unreachable"];
    faults.into_iter().map(|fault| Ok((fault, component_that(fault)?))).collect()
}

fn component(engine: &Engine, fault: &str) -> Result<Component> {
    Ok(Component::load(engine, &component_that(fault)?)?)
}

fn engine() -> Result<Engine> {
    Ok(Engine::new(EngineOptions {
        max_memory: 64 << 20,
        deadline: Duration::from_millis(300),
        max_calls: 4,
        ..EngineOptions::default()
    })?)
}

fn filter(component: Component) -> Result<Filter> {
    let services =
        HostServices { store: Arc::new(InspectableStore::default()), clock: Arc::new(SystemClock) };
    Ok(Filter::new(
        Arc::new(component),
        services,
        "",
        vec![SigningKey { id: String::new(), secret: SIGNING_KEY.to_vec() }],
    )?)
}

fn context() -> CallContext {
    CallContext {
        principal: "tester".to_owned(),
        request_id: "1".to_owned(),
        ..CallContext::default()
    }
}

fn list(items: usize) -> Vec<u8> {
    let text = json!(
        (0..items)
            .map(|number| json!({"id": number, "name": format!("item {number}")}))
            .collect::<Vec<_>>()
    )
    .to_string();
    json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}], "structuredContent": {"x": 1}}}).to_string().into_bytes()
}

/// Asserts what must hold regardless of the fault.
fn is_survived(fault: &str) -> Result<()> {
    let engine = engine()?;
    let component = component(&engine, fault)?;
    let services =
        HostServices { store: Arc::new(InspectableStore::default()), clock: Arc::new(SystemClock) };
    let settings = Settings { policy: Vec::new(), keys: Vec::new() };
    let bad = filter(component)?;
    let next = self::component(&engine, fault)?;
    let call = walk::call("t", &json!({}));
    for round in 1..=3u64 {
        let Request::Forward(None, ticket) = bad.request(&context(), &call) else {
            context_guard_test_support::bail!("a request was changed or answered")
        };
        ensure!(ticket.is_limit(), "{ticket:?}");
        let failed = next.on_response(&services, &settings, &context(), &[1], &list(20));
        let is_stopped = matches!(failed, Err(engine::Error::Trap(_) | engine::Error::Deadline));
        ensure!(is_stopped, "{failed:?}");
        ensure!(
            bad.response(&context(), &ticket, &list(20)).is_none(),
            "what fits the byte limit did not pass"
        );
        let cut = bad
            .response(&context(), &ticket, &list(5_000))
            .context("a large answer passed unshaped")?;
        let answer = Answer::read(&cut)?;
        ensure!(
            cut.len() <= 10_240 && answer.notice().is_some_and(|notice| notice.contains("PARTIAL")),
            "{}",
            cut.len()
        );
        ensure!(answer.result()["structuredContent"]["context_guard"].is_object());
        ensure!(bad.faults() == round, "{} faults", bad.faults());
    }
    let healthy = filter(Component::load(&engine, &std::fs::read(artifacts::component()?)?)?)?;
    let Request::Forward(_, ticket) = healthy.request(&context(), &call) else {
        context_guard_test_support::bail!("answered")
    };
    let shaped = healthy.response(&context(), &ticket, &list(5_000)).context("not shaped")?;
    ensure!(Answer::read(&shaped)?.next_cursor().is_some() && healthy.faults() == 0);
    Ok(())
}

#[test]
fn trap_is_contained() -> Result<()> {
    is_survived("unreachable")
}

#[test]
fn endless_loop_is_stopped() -> Result<()> {
    is_survived("(loop $for_ever (br $for_ever)) unreachable")
}

/// Endless calls of several principals run one after the other on all processors but one, each
/// until it has used its own time. Without turns, all end together after the time of one.
#[test]
fn long_calls_leave_a_processor_to_others() -> Result<()> {
    let deadline = Duration::from_millis(300);
    let long = std::thread::available_parallelism()?.get().saturating_sub(1).max(1);
    let calls = 3 * long;
    let max_calls = u32::try_from(calls)?;
    let options =
        EngineOptions { max_memory: 1 << 20, deadline, max_calls, ..EngineOptions::default() };
    let component =
        component(&Engine::new(options)?, "(loop $for_ever (br $for_ever)) unreachable")?;
    let services =
        HostServices { store: Arc::new(InspectableStore::default()), clock: Arc::new(SystemClock) };
    let settings = Settings { policy: Vec::new(), keys: Vec::new() };
    // Runs endless calls at once. Returns the time until all were stopped.
    let run = |calls: usize| -> Result<Duration> {
        let began = Instant::now();
        let ended = std::thread::scope(|scope| {
            let call = |number: usize| {
                let cx = CallContext { principal: format!("caller {}", number % 2), ..context() };
                let (component, services, settings) = (&component, &services, &settings);
                scope.spawn(move || component.on_response(services, settings, &cx, &[1], &list(20)))
            };
            let threads: Vec<_> = (0..calls).map(call).collect();
            threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        for call in ended {
            ensure!(matches!(call, Ok(Err(engine::Error::Deadline))), "{call:?}");
        }
        Ok(began.elapsed())
    };
    // The shortest of several runs is that of a call which the machine did not delay.
    let alone = [run(1)?, run(1)?, run(1)?].into_iter().min().unwrap_or_default();
    let together = run(calls)?;
    ensure!(together > alone * 3 / 2, "{calls} calls ran at once: {alone:?}, {together:?}");
    Ok(())
}

#[test]
fn memory_growth_is_limited() -> Result<()> {
    is_survived(
        "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable",
    )
}

#[test]
fn endless_recursion_is_contained() -> Result<()> {
    is_survived("(call 4 (i32.const 0))")
}

#[test]
fn invalid_results_are_rejected() -> Result<()> {
    // Pointers beyond the memory, unaligned pointers, an unknown variant case, a list longer than
    // the memory.
    is_survived("(i32.const 0x7ffffff8)")?;
    is_survived("(i32.const 3)")?;
    is_survived("(i32.store8 (i32.const 2048) (i32.const 77)) (i32.const 2048)")?;
    is_survived(
        "(i32.store (i32.const 2064) (i32.const 1)) (i32.store8 (i32.const 2056) (i32.const 1)) (i32.store (i32.const 2060) (i32.const 1024)) (i32.store (i32.const 2064) (i32.const 0x7fffffff)) (i32.const 2048)",
    )
}

#[test]
fn component_with_unknown_import_is_rejected() -> Result<()> {
    let wat = r#"(component (import "wasi:sockets/network@0.2.0" (instance (export "network" (type (sub resource))))) (import "evil:host/files@1.0.0" (instance (export "read" (func)))))"#;
    let refused = Component::load(&engine()?, &wat::parse_str(wat)?);
    let Err(engine::Error::Load(reason)) = refused else {
        context_guard_test_support::bail!("a component with an unknown import was accepted")
    };
    for part in ["wasi:sockets/network@0.2.0, evil:host/files@1.0.0", "cargo xtask build"] {
        ensure!(reason.contains(part), "{reason}");
    }
    ensure!(matches!(Component::load(&engine()?, b"\0asm\x01\0\0\0"), Err(engine::Error::Load(_))));
    ensure!(matches!(Component::load(&engine()?, b"no wasm"), Err(engine::Error::Load(_))));
    Ok(())
}

#[test]
fn failing_store_loses_no_answer() -> Result<()> {
    let component = Component::load(&engine()?, &std::fs::read(artifacts::component()?)?)?;
    let services = HostServices { store: Arc::new(NoStore), clock: Arc::new(SystemClock) };
    let filter = Filter::new(
        Arc::new(component),
        services,
        "",
        vec![SigningKey { id: String::new(), secret: SIGNING_KEY.to_vec() }],
    )?;
    let Request::Forward(_, ticket) = filter.request(&context(), &walk::call("t", &json!({})))
    else {
        context_guard_test_support::bail!("answered")
    };
    let cut = filter
        .response(&context(), &ticket, &list(5_000))
        .context("a large answer passed unshaped")?;
    ensure!(
        cut.len() <= 10_240 && Answer::read(&cut)?.cursors().is_empty() && filter.faults() == 1,
        "a cursor that leads nowhere"
    );
    Ok(())
}
