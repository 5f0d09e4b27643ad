//! The limit of concurrent requests of a principal at several replicas together.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use context_guard_test_support::gateway::{Gateway, get};
use context_guard_test_support::redis::Redis;
use context_guard_test_support::scripted::{ScriptedResponse, ScriptedServer};
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Error, Result, ensure};
use serde_json::json;

use super::fleet::{REPLICAS, Replicas};

/// The maximum number of requests of the principal in flight.
const LIMIT: usize = 10;

#[derive(Default)]
struct GateState {
    /// The number of requests that have arrived.
    begun: usize,
    in_flight: usize,
    /// The greatest number of requests in flight.
    peak: usize,
    /// The number of requests since the start that may end. Those that arrived first end first.
    released: usize,
}

/// Holds the requests that reach an upstream until the test releases them.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request, and waits until it is released.
    fn pass(&self) {
        let mut state = self.state();
        state.begun += 1;
        let number = state.begun;
        state.in_flight += 1;
        state.peak = state.peak.max(state.in_flight);
        // Otherwise one request could wait until the gateway gives it up.
        let wait = self.changed.wait_while(state, |state| state.released < number);
        let mut state = wait.unwrap_or_else(PoisonError::into_inner);
        state.in_flight -= 1;
    }

    fn release(&self, requests: usize) {
        self.state().released += requests;
        self.changed.notify_all();
    }

    /// Waits until `requests` have arrived since the start.
    fn wait_for(&self, requests: usize) -> Result<()> {
        wait_until("requests at the upstream", || Ok(self.state().begun >= requests))?;
        let begun = self.state().begun;
        ensure!(begun == requests, "{begun} requests instead of {requests}");
        Ok(())
    }
}

/// Starts replicas with the limit before an upstream whose requests wait at a gate.
fn start(redis: &Redis) -> Result<(Replicas, Arc<Gate>)> {
    let gate = Arc::new(Gate::default());
    let passed = Arc::clone(&gate);
    let api = ScriptedServer::from_fn(move |_| {
        passed.pass();
        ScriptedResponse::json("{\"x\":1}")
    })?;
    let upstreams = json!([{"name": "api", "rest": {"url": api.url()}}]);
    let limits = json!({"limits": {"perPrincipal": LIMIT}});
    Ok((Replicas::start(upstreams, redis, &limits)?, gate))
}

/// Sends requests to a replica at once. Each returns its status, or none without a response.
fn send(replica: &Gateway, requests: usize) -> Vec<JoinHandle<Option<u16>>> {
    let url = format!("{}/things", replica.base);
    let request = |url: String| move || get(&url, &[]).ok().map(|reply| reply.status);
    (0..requests).map(|_| std::thread::spawn(request(url.clone()))).collect()
}

fn join(requests: Vec<JoinHandle<Option<u16>>>) -> Result<()> {
    for request in requests {
        let status = request.join().map_err(|_| Error::msg("a client panicked"))?;
        ensure!(status == Some(200), "status {status:?}");
    }
    Ok(())
}

/// Returns true if no replica holds slots in Redis.
fn has_no_slots(redis: &Redis) -> Result<bool> {
    Ok(redis.ask(&["keys", "*:slots"])?.trim().is_empty())
}

#[test]
fn concurrency_of_a_principal_holds_for_all_replicas() -> Result<()> {
    const REQUESTS: usize = 20;
    let redis = Redis::start("fleet-slots", &[])?;
    let (mut replicas, gate) = start(&redis)?;
    let requests = replicas.running.iter().flat_map(|replica| send(replica, REQUESTS)).collect();
    gate.wait_for(LIMIT)?;
    for ended in 1..=REPLICAS * REQUESTS - LIMIT {
        gate.release(1);
        gate.wait_for(LIMIT + ended)?;
    }
    gate.release(LIMIT);
    join(requests)?;
    ensure!(gate.state().peak == LIMIT, "{} in flight", gate.state().peak);
    // One replica alone may use all slots, when the others have given them back.
    let requests = send(&replicas.running[1], LIMIT + 5);
    gate.wait_for(REPLICAS * REQUESTS + LIMIT)?;
    gate.release(LIMIT + 5);
    join(requests)?;
    ensure!(gate.state().peak == LIMIT, "{} in flight", gate.state().peak);
    // A replica that stops gives its slots back.
    for replica in replicas.running.drain(..) {
        replica.stop()?;
    }
    ensure!(has_no_slots(&redis)?, "slots of replicas that have stopped");
    Ok(())
}

#[test]
fn slots_of_a_killed_replica_return() -> Result<()> {
    let redis = Redis::start("fleet-killed-slots", &[])?;
    let (mut replicas, gate) = start(&redis)?;
    let lost = send(&replicas.running[0], LIMIT);
    gate.wait_for(LIMIT)?;
    let waiting = send(&replicas.running[1], LIMIT);
    drop(replicas.running.remove(0));
    gate.wait_for(2 * LIMIT)?;
    gate.release(2 * LIMIT);
    join(waiting)?;
    ensure!(join(lost).is_err(), "a killed replica has answered");
    Ok(())
}

#[test]
fn replicas_without_redis_have_equal_shares() -> Result<()> {
    const SHARE: usize = LIMIT / REPLICAS;
    let mut redis = Redis::start("fleet-no-slots", &[])?;
    let (replicas, gate) = start(&redis)?;
    let first = replicas.running.iter().flat_map(|replica| send(replica, 1)).collect();
    gate.release(REPLICAS);
    join(first)?;
    wait_until("the return of all slots", || has_no_slots(&redis))?;
    redis.down();
    let requests = replicas.running.iter().flat_map(|replica| send(replica, LIMIT)).collect();
    let begun = REPLICAS;
    gate.wait_for(begun + REPLICAS * SHARE)?;
    gate.release(REPLICAS * LIMIT);
    join(requests)?;
    let peak = gate.state().peak;
    ensure!(peak == REPLICAS * SHARE, "{peak} in flight without Redis");
    // One replica may use all slots again.
    redis.up()?;
    let requests = send(&replicas.running[2], LIMIT);
    gate.wait_for(begun + REPLICAS * LIMIT + LIMIT)?;
    gate.release(LIMIT);
    join(requests)
}
