//! The revisions of a fleet. Replicas share their state on a board in the store, count failures
//! together, and follow each other's rollbacks and promotions. There is no leader.
//!
//! A separate thread exchanges the board, so that no call waits for the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::stats::WindowReport;
use super::{Actor, Mode, Revision, Revisions};
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
    /// The names of fields to remove from the board.
    removed: Vec<String>,
    rollbacks: BTreeMap<String, Record>,
    promotions: BTreeMap<String, Record>,
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
        let target =
            Target { component: target.origin.component.clone(), policy: target.policy.clone() };
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
        let mut state = self.state();
        let BoardState { promotions, removed, .. } = &mut *state;
        promotions.retain(|id, _| {
            let is_removed = is_removed(id);
            if is_removed {
                removed.push(format!("{PROMOTION}{id}"));
            }
            !is_removed
        });
    }

    /// Removes the record of the rollback of the revision `id`, because an operator deploys it
    /// again. A record that is not on the board yet remains.
    pub(super) fn forget_rollback(&self, id: &str) {
        let mut state = self.state();
        if state.rollbacks.remove(id).is_some() {
            state.removed.push(format!("{ROLLBACK}{id}"));
        }
    }

    /// Returns the fleet's rollback of the revision with the identity `id`. `None` if the board had
    /// no such record at the last exchange.
    pub(super) fn rollback(&self, id: &str) -> Option<Record> {
        self.state().rollbacks.get(id).cloned()
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
            Err(_) => {
                let mut state = revisions.fleet.state();
                state.pending.extend(pending);
                state.removed.extend(removed);
            }
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
                window: revision.stats.window(revisions.fleet.state().has_faults(revision.id())),
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
    /// Reads the fields of the board. Ignores fields of an unknown format.
    fn read(&mut self, fields: &[(String, bytes::Bytes)]) {
        let mut members = BTreeMap::new();
        self.rollbacks.clear();
        self.promotions.clear();
        for (name, value) in fields {
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

impl Revisions {
    /// Follows the decisions of other replicas. Also withdraws a revision that failed too often at
    /// all replicas together.
    fn follow_fleet(&self) {
        let current = self.table.current_full();
        let trial = current.trial.as_ref();
        for revision in trial.map(|trial| &trial.revision).into_iter().chain([&current.active]) {
            if let Some(record) = self.fleet.rollback(revision.id()) {
                self.follow_rollback(revision, &record);
                continue;
            }
            let windows = self.fleet.state().windows(revision.id());
            if let Some(reason) = super::stats::judge(&windows, &self.options.limits) {
                let reason = format!("at {} replicas, {reason}", windows.len());
                self.withdraw(&self.table.turn(), revision.number, &reason, true);
            }
        }
        let Some(trial) = &self.trial() else { return };
        let id = trial.revision.id();
        let (step, promotion) = {
            let state = self.fleet.state();
            (state.step(id), state.promotions.get(id).cloned())
        };
        if let Some(promotion) = promotion {
            let reason = format!("replica {} promoted it: {}", promotion.by, promotion.reason);
            self.follow_promotion(trial.revision.number, &reason);
        } else if let Some(step) = step.filter(|_| trial.mode == Mode::Canary)
            && trial.join_step(step, &self.options)
        {
            self.report_step(&current.active, trial, ", as at another replica");
        }
    }

    fn follow_rollback(&self, revision: &Arc<Revision>, record: &Record) {
        let reason = format!("replica {} rolled it back: {}", record.by, record.reason);
        if self.withdraw(&self.table.turn(), revision.number, &reason, false) {
            return;
        }
        // A replica that started after the rollback has no earlier revision.
        let target = &record.target;
        if target.component != revision.origin.component || target.policy == revision.policy {
            return;
        }
        let policy = serde_json::from_str(&target.policy).ok();
        let candidate = super::Candidate {
            source: format!("rollback of replica {}", record.by),
            policy: Some(crate::policy::Source::inline(policy)),
            mode: Some(Mode::Swap),
            actor: Actor::Gateway,
            ..super::Candidate::default()
        };
        // The refusal is reported.
        let _ = self.deploy(&candidate);
    }
}
