//! The revisions of a fleet. Replicas share their state on a board in the store, count failures
//! together, and follow each other's rollbacks and promotions. There is no leader.
//!
//! A separate thread exchanges the board, so that no call waits for the store.

mod follow;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::stats::WindowReport;
use super::{Revision, Revisions};
use crate::{Error, Result};

/// The time between two exchanges of the board. A rollback reaches all replicas within two
/// exchanges, if the store is up.
const INTERVAL: Duration = Duration::from_millis(500);
/// The time without an update after which a replica counts as down.
const GONE_AFTER: Duration = Duration::from_secs(5);
/// The time without an update after which a replica is removed from the board.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// The time to live of the board after the last exchange of any replica.
const BOARD_TTL: Duration = Duration::from_secs(7 * 86_400);
/// The maximum number of records of each kind. The oldest are removed first.
const MAX_RECORDS: usize = 16;
/// The name of the board in the store.
const BOARD: &str = "revisions";
/// The prefix of the fields with the state of replicas. The id of the replica follows.
const REPLICA: &str = "replica-";
/// The prefix of the fields with rollbacks. The identity of the revision follows.
const ROLLBACK: &str = "rollback-";
/// The prefix of the fields with promotions. The identity of the revision follows.
const PROMOTION: &str = "promotion-";

/// A decision of one replica about a revision, which all replicas follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) reason: String,
    /// The address of the replica that decided.
    pub(super) by: String,
    /// The time of the decision, in milliseconds since 1970.
    at: u64,
    /// The revision that serves after the decision.
    pub(super) target: Target,
}

/// A revision, identified by its contents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Target {
    /// The identity of the revision at the replica that decided.
    #[serde(default)]
    id: String,
    /// The digest of the component.
    pub(super) component: String,
    /// The policy in JSON.
    pub(super) policy: String,
}

/// The state of a replica that it publishes on the board.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ReplicaStatus {
    /// The number of the exchange, which shows updates. Clocks of replicas are not compared.
    sequence: u64,
    address: String,
    active: RevisionStatus,
    trial: Option<TrialStatus>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct RevisionStatus {
    id: String,
    bundle: Option<u64>,
    version: String,
    source: String,
    calls: u64,
    faults: u64,
    window: WindowReport,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct TrialStatus {
    revision: RevisionStatus,
    percent: u8,
    step: usize,
}

impl ReplicaStatus {
    /// Returns the status of the revision with this identity. `None` if the replica does not serve
    /// it.
    fn revision(&self, id: &str) -> Option<&RevisionStatus> {
        let trial = self.trial.as_ref().map(|trial| &trial.revision);
        std::iter::once(&self.active).chain(trial).find(|revision| revision.id == id)
    }
}

/// A replica on the board.
struct Member {
    status: ReplicaStatus,
    /// The time of the last update, by the clock of this process.
    seen: Instant,
}

impl Member {
    fn is_gone(&self) -> bool {
        self.seen.elapsed() > GONE_AFTER
    }
}

/// The state of this process as a member of the fleet.
#[derive(Default)]
pub(super) struct FleetState(Mutex<BoardState>);

#[derive(Default)]
struct BoardState {
    /// The address of this replica. `None` if the gateway is not in a fleet.
    address: Option<String>,
    /// The records that are not on the board yet.
    pending: Vec<(String, Record)>,
    /// The names of the records that an exchange writes now.
    in_flight: Vec<String>,
    /// The names of fields to remove from the board.
    removed: Vec<String>,
    rollbacks: BTreeMap<String, Record>,
    promotions: BTreeMap<String, Record>,
    /// The revision whose rollback this replica followed last by a deployment, and the target. It
    /// is tried once, because a refusal takes seconds and would be repeated at each exchange.
    tried: Option<(String, Target)>,
    /// The replicas on the board, by id.
    members: BTreeMap<String, Member>,
}

impl FleetState {
    fn state(&self) -> MutexGuard<'_, BoardState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, kind: &str, revision: &Revision, target: &Revision, reason: &str, at: u64) {
        let mut state = self.state();
        let Some(by) = state.address.clone() else { return };
        let target = Target {
            id: target.id().to_owned(),
            component: target.origin.component.clone(),
            policy: target.policy.clone(),
        };
        let record = Record { reason: reason.to_owned(), by, at, target };
        state.pending.push((format!("{kind}{}", revision.id()), record));
    }

    /// Records a rollback from `bad` to `target` at the time `at`, in milliseconds since 1970, for
    /// all replicas.
    pub(super) fn add_rollback(&self, bad: &Revision, target: &Revision, reason: &str, at: u64) {
        self.add(ROLLBACK, bad, target, reason, at);
        self.forget_promotions(|id| id == bad.id());
    }

    /// Records the promotion of a revision at the time `at`, in milliseconds since 1970, for all
    /// replicas.
    pub(super) fn add_promotion(&self, revision: &Revision, reason: &str, at: u64) {
        self.add(PROMOTION, revision, revision, reason, at);
    }

    /// Removes the records of promotions that `revision` replaces, so that they do not promote a
    /// later trial of the same contents.
    pub(super) fn activated(&self, revision: &Revision) {
        self.forget_promotions(|id| id != revision.id());
    }

    fn forget_promotions(&self, is_removed: impl Fn(&str) -> bool) {
        self.state().forget(PROMOTION, is_removed);
    }

    /// Removes the record of the rollback of the revision `id`, because an operator deploys it
    /// again.
    pub(super) fn forget_rollback(&self, id: &str) {
        self.state().forget(ROLLBACK, |one| one == id);
    }

    /// Returns the fleet's rollback of the revision with the identity `id`. `None` if the board had
    /// no such record at the last exchange.
    pub(super) fn rollback(&self, id: &str) -> Option<Record> {
        self.state().rollbacks.get(id).cloned()
    }

    /// Returns the revision to deploy instead of the one with the identity `id`, which `record`
    /// rolled back. `None` if the fleet rolled back all that followed it, or the revision was
    /// returned before.
    fn next_target(&self, id: &str, record: &Record) -> Option<Target> {
        let mut state = self.state();
        let next = (id.to_owned(), state.final_target(record)?);
        if state.tried.as_ref() == Some(&next) {
            return None;
        }
        state.tried = Some(next.clone());
        Some(next.1)
    }

    /// Returns a report of all replicas and records as JSON. Null without a fleet.
    pub(super) fn report(&self) -> Value {
        let state = self.state();
        if state.address.is_none() {
            return Value::Null;
        }
        let replicas = state.members.iter().map(|(id, member)| {
            let ReplicaStatus { address, active, trial, .. } = &member.status;
            json!({
                "id": id,
                "address": address,
                "state": if member.is_gone() { "gone" } else { "live" },
                "active": revision_json(active),
                "trial": trial.as_ref().map(|trial| {
                    json!({"generation": revision_json(&trial.revision), "percent": trial.percent})
                }),
            })
        });
        let records = |records: &BTreeMap<String, Record>| -> Vec<Value> {
            let record = |(id, record): (&String, &Record)| {
                let Record { reason, by, at, .. } = record;
                json!({"id": id, "reason": reason, "by": by, "at": at})
            };
            records.iter().map(record).collect()
        };
        json!({
            "replicas": replicas.collect::<Vec<_>>(),
            "rollbacks": records(&state.rollbacks),
            "promotions": records(&state.promotions),
        })
    }
}

fn revision_json(status: &RevisionStatus) -> Value {
    let RevisionStatus { id, bundle, version, source, calls, faults, .. } = status;
    json!({
        "id": id, "bundle": bundle, "version": version, "source": source,
        "calls": calls, "faults": faults,
    })
}

/// Makes a gateway one of several replicas, which the others reach at `address`. A thread shares
/// the state of its revisions until `revisions` is dropped.
///
/// # Errors
/// [`Error::Io`] if the thread cannot start, or the operating system provides no random bytes.
pub fn join_fleet(revisions: &Arc<Revisions>, address: String) -> Result<()> {
    let mut id = [0u8; 8];
    getrandom::fill(&mut id)
        .map_err(|error| Error::Io(std::io::Error::other(error.to_string())))?;
    let id = format!("{:016x}", u64::from_le_bytes(id));
    revisions.fleet.state().address = Some(address.clone());
    let revisions = Arc::downgrade(revisions);
    std::thread::Builder::new().name("fleet".to_owned()).spawn(move || {
        let mut replica = Replica { id, address, sequence: 0 };
        loop {
            let Some(revisions) = revisions.upgrade() else { return };
            replica.exchange(&revisions);
            drop(revisions);
            std::thread::sleep(INTERVAL);
        }
    })?;
    Ok(())
}

/// This process as a replica on the board.
struct Replica {
    id: String,
    address: String,
    sequence: u64,
}

impl Replica {
    /// Exchanges the board with the store, and follows its decisions. Does nothing while the store
    /// is down.
    fn exchange(&mut self, revisions: &Revisions) {
        let store = &revisions.services.store;
        if !store.is_up() {
            return;
        }
        if let Some(secret) = revisions.secrets().first() {
            revisions.principals.share(secret);
        }
        self.sequence += 1;
        let status = self.status(revisions);
        let (pending, removed) = {
            let mut state = revisions.fleet.state();
            state.in_flight = state.pending.iter().map(|(name, _)| name.clone()).collect();
            (std::mem::take(&mut state.pending), std::mem::take(&mut state.removed))
        };
        let field = |name: &str, value: Vec<u8>| (name.to_owned(), value);
        let mut written = vec![field(
            &format!("{REPLICA}{}", self.id),
            serde_json::to_vec(&status).unwrap_or_default(),
        )];
        let encode = |(name, record): &(String, Record)| {
            field(name, serde_json::to_vec(record).unwrap_or_default())
        };
        written.extend(pending.iter().map(encode));
        match store.exchange(BOARD, written, &removed, BOARD_TTL) {
            Ok(fields) => {
                revisions.fleet.state().read(&fields);
                revisions.follow_fleet();
            }
            Err(_) => revisions.fleet.state().retry(pending, removed),
        }
    }

    fn status(&self, revisions: &Revisions) -> ReplicaStatus {
        let current = revisions.table.current_full();
        let status = |revision: &Revision| {
            let stats = revision.stats.snapshot();
            RevisionStatus {
                id: revision.id().to_owned(),
                bundle: revision.origin.bundle.as_ref().map(|bundle| bundle.number),
                version: revision.origin.version.clone(),
                source: revision.origin.source.clone(),
                calls: stats.calls,
                faults: stats.faults,
                window: {
                    let is_listed = revisions.fleet.state().has_faults(revision.id());
                    revision.stats.window(is_listed, revisions.window())
                },
            }
        };
        ReplicaStatus {
            sequence: self.sequence,
            address: self.address.clone(),
            active: status(&current.active),
            trial: current.trial.as_ref().map(|trial| TrialStatus {
                revision: status(&trial.revision),
                percent: trial.percent(),
                step: trial.step(),
            }),
        }
    }
}

impl BoardState {
    /// Removes the records of a kind that `is_removed` selects by the identity of their revision.
    /// They may be on the board, about to be written, or both.
    fn forget(&mut self, kind: &str, is_removed: impl Fn(&str) -> bool) {
        let is_removed = |name: &str| name.strip_prefix(kind).is_some_and(&is_removed);
        self.pending.retain(|(name, _)| !is_removed(name));
        let records = if kind == ROLLBACK { &mut self.rollbacks } else { &mut self.promotions };
        let written = records.keys().map(|id| format!("{kind}{id}"));
        let written = written.chain(self.in_flight.iter().cloned());
        let forgotten: Vec<String> = written.filter(|name| is_removed(name)).collect();
        records.retain(|id, _| !is_removed(&format!("{kind}{id}")));
        for name in forgotten {
            if !self.removed.contains(&name) {
                self.removed.push(name);
            }
        }
    }

    /// Queues the changes of an exchange that failed again. Records that were forgotten meanwhile
    /// are dropped.
    fn retry(&mut self, mut pending: Vec<(String, Record)>, removed: Vec<String>) {
        self.in_flight.clear();
        pending.retain(|(name, _)| !self.removed.contains(name));
        // Later records of the same revision must win.
        pending.append(&mut self.pending);
        self.pending = pending;
        self.removed.extend(removed);
    }

    /// Reads the fields of the board after an exchange. Ignores fields of an unknown format, and
    /// records that were forgotten during the exchange.
    fn read(&mut self, fields: &[(String, bytes::Bytes)]) {
        let mut members = BTreeMap::new();
        self.in_flight.clear();
        self.rollbacks.clear();
        self.promotions.clear();
        let forgotten = self.removed.clone();
        for (name, value) in fields.iter().filter(|(name, _)| !forgotten.contains(name)) {
            if let Some(id) = name.strip_prefix(REPLICA) {
                let Ok(status) = serde_json::from_slice::<ReplicaStatus>(value) else { continue };
                let before = self.members.remove(id);
                let unchanged = before.filter(|member| member.status.sequence == status.sequence);
                let seen = unchanged.map_or_else(Instant::now, |member| member.seen);
                if seen.elapsed() > FORGOTTEN_AFTER {
                    self.removed.push(name.clone());
                }
                members.insert(id.to_owned(), Member { status, seen });
            } else if let Ok(record) = serde_json::from_slice::<Record>(value) {
                if let Some(id) = name.strip_prefix(ROLLBACK) {
                    self.rollbacks.insert(id.to_owned(), record);
                } else if let Some(id) = name.strip_prefix(PROMOTION) {
                    self.promotions.insert(id.to_owned(), record);
                }
            }
        }
        self.members = members;
        let kinds = [(ROLLBACK, &mut self.rollbacks), (PROMOTION, &mut self.promotions)];
        for (kind, records) in kinds {
            while records.len() > MAX_RECORDS {
                let oldest = records.iter().min_by_key(|(_, record)| record.at);
                let Some(oldest) = oldest.map(|(id, _)| id.clone()) else { break };
                records.remove(&oldest);
                self.removed.push(format!("{kind}{oldest}"));
            }
        }
    }

    /// Returns the revision that serves after the rollback in `record`. Follows targets that were
    /// later rolled back themselves. `None` if they form a cycle.
    fn final_target(&self, record: &Record) -> Option<Target> {
        let mut target = &record.target;
        for _ in 0..=self.rollbacks.len() {
            let Some(next) = self.rollbacks.get(&target.id) else { return Some(target.clone()) };
            target = &next.target;
        }
        None
    }

    fn live(&self) -> impl Iterator<Item = &ReplicaStatus> {
        self.members.values().filter(|member| !member.is_gone()).map(|member| &member.status)
    }

    /// Returns true if a live replica had failures of the revision `id`.
    fn has_faults(&self, id: &str) -> bool {
        self.live().filter_map(|status| status.revision(id)).any(|one| one.window.faults > 0)
    }

    /// Returns the recent calls of the revision `id` at each live replica.
    fn windows(&self, id: &str) -> Vec<WindowReport> {
        self.live().filter_map(|status| status.revision(id)).map(|one| one.window.clone()).collect()
    }

    /// Returns the highest canary step that a live replica has reached for the revision `id`.
    /// `None` if none runs its trial.
    fn step(&self, id: &str) -> Option<usize> {
        let trials = self.live().filter_map(|status| status.trial.as_ref());
        trials.filter(|trial| trial.revision.id == id).map(|trial| trial.step).max()
    }
}
