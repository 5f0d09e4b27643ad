//! The latency of calls while Redis is killed or frozen.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::load::quantiles;
use context_guard_test_support::redis::Redis;
use context_guard_test_support::{Result, ensure};
use serde_json::json;

use super::{replica, upstream};

/// The number of clients, and the time between two calls of each.
const CLIENTS: u32 = 30;
const PAUSE: Duration = Duration::from_millis(200);
/// The number of calls that read a whole list, which is about eight pages and the first answer.
const CALLS_OF_A_LIST: u32 = 9;
/// The duration of each phase.
const PHASE_TIME: Duration = Duration::from_secs(60);
/// The limit of a quick call.
const LIMIT_MS: f64 = 50.0;
/// The phases, and the state of Redis in each.
const PHASES: [&str; 5] = ["up", "killed", "up again", "frozen", "up again"];

/// Prints the latencies in each phase.
pub(crate) fn report() -> Result<()> {
    let (mut redis, server) = (Redis::start("bench-outage", &[])?, upstream::start()?);
    let settings = json!({
        "limits": {"perPrincipal": 60},
        "access": {"rateLimit": {"perMinute": 60_000}},
    });
    let replicas: Vec<Gateway> =
        (0..2).map(|_| replica(&server, &redis, &settings, 2)).collect::<Result<_>>()?;
    let urls: Vec<String> = replicas.iter().map(Gateway::url).collect();
    let (phase, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let times: [Mutex<Vec<Duration>>; PHASES.len()] = Default::default();
    let errors: [AtomicUsize; PHASES.len()] = Default::default();
    std::thread::scope(|scope| -> Result<()> {
        let (urls, phase, stop, times, errors) = (&urls, &phase, &stop, &times, &errors);
        for number in 0..CLIENTS {
            scope.spawn(move || {
                // The calls of the clients remain spread over time, also after a pause of all, and
                // so do the first calls of their lists, which cost more than the others.
                let mut turn = Instant::now() + PAUSE * CALLS_OF_A_LIST * number / CLIENTS;
                let url = &urls[number as usize % urls.len()];
                let Ok(mut client) = HttpClient::open(url, &[], json!({})) else { return };
                let mut cursor = None::<String>;
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(turn.saturating_duration_since(Instant::now()));
                    let (began, now) = (Instant::now(), phase.load(Ordering::Relaxed));
                    let answer = match cursor.take() {
                        Some(cursor) => {
                            client.call("context_guard_read", json!({ "cursor": cursor }))
                        }
                        None => client.call("list", json!({})),
                    };
                    let time = began.elapsed();
                    times[now].lock().unwrap_or_else(PoisonError::into_inner).push(time);
                    match answer {
                        Ok(answer) if !answer.is_error() => cursor = answer.next_cursor(),
                        _ => _ = errors[now].fetch_add(1, Ordering::Relaxed),
                    }
                    while turn < Instant::now() {
                        turn += PAUSE;
                    }
                }
            });
        }
        // Clients connect.
        std::thread::sleep(Duration::from_secs(2));
        for times in times {
            times.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        let result = (0..PHASES.len()).try_for_each(|at| {
            phase.store(at, Ordering::Relaxed);
            match at {
                1 => redis.down(),
                2 => redis.up()?,
                3 => redis.freeze(true)?,
                4 => redis.freeze(false)?,
                _ => {}
            }
            std::thread::sleep(PHASE_TIME);
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        result
    })?;
    println!("## While Redis is away\n");
    println!(
        "{CLIENTS} clients of two replicas, each with a call every {} ms: lists of 100 kB, and \
         their next pages. {} s for each state of Redis. Rate limit and `limits.perPrincipal` \
         are set.\n",
        PAUSE.as_millis(),
        PHASE_TIME.as_secs()
    );
    println!(
        "| Redis | calls | errors | median | p99 | maximum | above {LIMIT_MS:.0} ms |\n\
         |---|--:|--:|--:|--:|--:|--:|"
    );
    for ((name, times), errors) in PHASES.iter().zip(times).zip(&errors) {
        let mut times = times.into_inner().unwrap_or_else(PoisonError::into_inner);
        let [median, p99, longest] = quantiles(&mut times, [0.5, 0.99, 1.0]);
        let limit = Duration::from_secs_f64(LIMIT_MS / 1_000.0);
        let slow = times.iter().filter(|time| **time > limit).count();
        ensure!(!times.is_empty(), "no calls while Redis was {name}");
        println!(
            "| {name} | {} | {} | {median:.1} ms | {p99:.1} ms | {longest:.0} ms | {:.2} % |",
            times.len(),
            errors.load(Ordering::Relaxed),
            slow as f64 * 100.0 / times.len() as f64
        );
    }
    Ok(())
}
