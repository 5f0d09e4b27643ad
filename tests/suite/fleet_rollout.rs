//! The rollout of a bundle at three replicas without a leader: one canary, one count of failures,
//! one rollback.

use std::collections::HashSet;

use context_guard_test_support::gateway::{Gateway, HttpClient};
use context_guard_test_support::operations::{
    active_revision, admin_call, admin_config, revision_report,
};
use context_guard_test_support::peers::Server;
use context_guard_test_support::redis::Redis;
use context_guard_test_support::wait::wait_until;
use context_guard_test_support::{Context, Result, artifacts, ensure};
use serde_json::{Value, json};

use super::fleet::{REPLICAS, Replicas};
use super::fleet_bundle::{BundleMaker, WebFile};

fn everything() -> Result<Value> {
    let everything = Server::npm("server-everything", &["stdio"])?;
    Ok(json!([{"name": "everything", "command": everything.0, "isolation": "shared"}]))
}

fn policy(budget: u64) -> Value {
    json!({"tokenBudgetThreshold": budget})
}

/// Three replicas with bundle 1, and the place of their bundle.
struct BundledFleet {
    replicas: Replicas,
    maker: BundleMaker,
    web: WebFile,
    _redis: Redis,
}

impl BundledFleet {
    fn start(name: &str, rollout: &Value) -> Result<Self> {
        let redis = Redis::start(name, &[])?;
        let maker = BundleMaker::new(name)?;
        let web = WebFile::start(maker.create(1, &policy(5_000), &[])?)?;
        let mut settings = maker.settings(&web.url);
        settings["rollout"] = rollout.clone();
        let replicas = Replicas::start(everything()?, &redis, &settings)?;
        let fleet = Self { replicas, maker, web, _redis: redis };
        fleet.wait("a fleet of three", |report| {
            let replicas = report["fleet"]["replicas"].as_array();
            replicas.is_some_and(|replicas| replicas.len() == REPLICAS)
        })?;
        Ok(fleet)
    }

    fn gateways(&self) -> &[Gateway] {
        &self.replicas.running
    }

    /// Waits until the report of each replica fulfils a condition.
    fn wait(&self, what: &str, is_met: impl Fn(&Value) -> bool) -> Result<()> {
        for gateway in self.gateways() {
            wait_until(what, || Ok(is_met(&revision_report(gateway)?)))?;
        }
        Ok(())
    }

    /// Publishes bundle `number` with the component that fails on demand.
    fn publish_faulty(&self, number: u64) -> Result<()> {
        let component = artifacts::faulty_component()?.display().to_string();
        let more = ["--component", component.as_str()];
        self.web.set(self.maker.create(number, &policy(5_000), &more)?);
        Ok(())
    }
}

/// Returns the bundle of the active revision.
fn active_bundle(report: &Value) -> Option<u64> {
    let revisions = report["generations"].as_array()?;
    let active = revisions.iter().find(|revision| revision["generation"] == report["active"])?;
    active["bundle"].as_u64()
}

fn fault(client: &mut HttpClient) -> Result<()> {
    let answer = client.call("echo", json!({"message": "inject-fault:trap and more"}))?;
    ensure!(answer.texts()[0].contains("and more"), "{}", answer.0);
    Ok(())
}

#[test]
fn failures_at_one_replica_roll_the_fleet_back() -> Result<()> {
    let fleet = BundledFleet::start("fleet-rollback", &json!({}))?;
    fleet.publish_faulty(2)?;
    fleet.wait("bundle 2", |report| active_bundle(report) == Some(2))?;
    let mut client = HttpClient::open(&fleet.gateways()[0].url(), &[], json!({}))?;
    for _ in 0..3 {
        fault(&mut client)?;
    }
    fleet.wait("a rollback", |report| active_bundle(report) == Some(1))?;
    let report = revision_report(&fleet.gateways()[1])?;
    let rollbacks = report["fleet"]["rollbacks"].as_array().context("no records")?;
    ensure!(rollbacks.len() == 1, "{report}");
    fleet.gateways()[1].process.wait_for_output(&["rolled it back: 3 of its last"])?;
    // The same contents with another number are another revision.
    fleet.publish_faulty(3)?;
    fleet.wait("bundle 3", |report| active_bundle(report) == Some(3))?;
    Ok(())
}

#[test]
fn failures_at_all_replicas_count_together() -> Result<()> {
    let fleet = BundledFleet::start("fleet-counters", &json!({}))?;
    fleet.publish_faulty(2)?;
    fleet.wait("bundle 2", |report| active_bundle(report) == Some(2))?;
    // One failure at each replica is less than the limit of three.
    for gateway in fleet.gateways() {
        fault(&mut HttpClient::open(&gateway.url(), &[], json!({}))?)?;
    }
    fleet.wait("a rollback", |report| active_bundle(report) == Some(1))?;
    wait_until("the reason in a log", || {
        let mut logs = fleet.gateways().iter().map(|gateway| gateway.process.output());
        Ok(logs.any(|log| log.contains("at 3 replicas, 3 of its last")))
    })?;
    Ok(())
}

#[test]
fn canary_has_the_same_sessions_at_all_replicas() -> Result<()> {
    let rollout = json!({"mode": "canary", "steps": [40, 100], "stepSeconds": 0, "stepCalls": 60});
    let fleet = BundledFleet::start("fleet-canary", &rollout)?;
    // The fleet has one signing key, so that each replica serves each session.
    fleet.web.set(fleet.maker.create(2, &policy(200), &[])?);
    fleet.wait("a trial", |report| report["trial"]["percent"] == 40)?;
    let mut on_trial = HashSet::new();
    for session in 0..12 {
        let mut client = HttpClient::open(&fleet.replicas.balancer.url(), &[], json!({}))?;
        let mut chosen = HashSet::new();
        for gateway in fleet.gateways() {
            client.url = gateway.url();
            let message = "a word ".repeat(400);
            let answer = client.call("echo", json!({"message": message}))?;
            // The policy of bundle 2 shortens the answer.
            chosen.insert(answer.texts()[0].len() < 2_000);
        }
        ensure!(chosen.len() == 1, "session {session} was on both sides");
        if chosen.contains(&true) {
            on_trial.insert(session);
        }
    }
    ensure!(!on_trial.is_empty() && on_trial.len() < 12, "{} of 12", on_trial.len());
    // One replica has enough calls for the next step and the promotion: the others follow.
    let mut client = HttpClient::open(&fleet.gateways()[0].url(), &[], json!({}))?;
    wait_until("a promotion", || {
        for _ in 0..20 {
            // Each session is another caller.
            client = HttpClient::open(&fleet.gateways()[0].url(), &[], json!({}))?;
            client.call("echo", json!({"message": "a word"}))?;
        }
        Ok(active_bundle(&revision_report(&fleet.gateways()[0])?) == Some(2))
    })?;
    fleet.wait("the same promotion", |report| {
        active_bundle(report) == Some(2) && report["trial"].is_null()
    })?;
    Ok(())
}

#[test]
fn operator_decides_for_the_fleet() -> Result<()> {
    let fleet = BundledFleet::start("fleet-operator", &json!({}))?;
    fleet.web.set(fleet.maker.create(2, &policy(6_000), &[])?);
    fleet.wait("bundle 2", |report| active_bundle(report) == Some(2))?;
    let first = &fleet.gateways()[0];
    ensure!(admin_call(first, "POST", "/admin/rollback", b"")?.status == 200);
    fleet.wait("a rollback", |report| active_bundle(report) == Some(1))?;
    // A replica that starts later follows too: it has the policy of the rollback.
    let settings = fleet.replicas.settings.clone();
    let late = Gateway::start(fleet.replicas.upstreams.clone(), settings)?;
    wait_until("the earlier policy", || {
        let policy = admin_call(&late, "GET", "/admin/policy", b"")?.body;
        Ok(policy.contains("5000"))
    })?;
    // An operator deploys it nevertheless.
    let reloaded = admin_call(first, "POST", "/admin/reload", b"")?;
    ensure!(reloaded.status == 200, "{}", reloaded.body);
    wait_until("bundle 2", || Ok(active_bundle(&revision_report(first)?) == Some(2)))?;
    fleet.wait("no record", |report| report["fleet"]["rollbacks"] == json!([]))?;
    ensure!(active_bundle(&revision_report(first)?) == Some(2), "it was rolled back again");
    Ok(())
}

#[test]
fn fleet_without_redis_goes_on() -> Result<()> {
    let mut redis = Redis::start("fleet-alone", &[])?;
    let settings = json!({"admin": admin_config()});
    let replicas = Replicas::start(everything()?, &redis, &settings)?;
    let gateway = &replicas.running[0];
    let faulty = std::fs::read(artifacts::faulty_component()?)?;
    redis.down();
    let mut client = HttpClient::open(&gateway.url(), &[], json!({}))?;
    wait_until("the end of Redis", || {
        client.call("echo", json!({"message": "a word ".repeat(9_000)}))?;
        Ok(gateway.get_admin("/metrics")?.1.contains("context_guard_store_up 0"))
    })?;
    ensure!(admin_call(gateway, "PUT", "/admin/component", &faulty)?.status == 200);
    for _ in 0..3 {
        fault(&mut client)?;
    }
    wait_until("a rollback", || Ok(active_revision(gateway)? == 1))?;
    // The record reaches the others when Redis is back.
    redis.up()?;
    let other = &replicas.running[1];
    wait_until("the record", || {
        Ok(revision_report(other)?["fleet"]["rollbacks"]
            .as_array()
            .is_some_and(|all| all.len() == 1))
    })?;
    Ok(())
}
