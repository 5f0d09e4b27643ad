//! The operations on revisions: deployment, trials, rollback and the rotation of signing keys.

mod withdrawal;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use context_guard_config::document::{Issue, Issues};
use serde_json::Value;

use super::deployment::{ChangePermit, Deployment, DeploymentTable, Loaded};
use super::fleet::FleetState;
use super::key_ring::KeyRing;
use super::keys::MIN_KEY_BYTES;
use super::principals::PrincipalHasher;
use super::rolled_back::RolledBack;
use super::trial::Verdict;
use super::{
    Actor, BundleLabel, Change, ChangeEvent, Origin, Revision, RolloutOptions, Trial, digest,
};
use crate::engine::{CallContext, Component, HostServices, SigningKey};
use crate::policy::Source;
use crate::{Error, Result, config};

type Observer = Box<dyn Fn(&Change) + Send + Sync>;
type PolicyCheck = Box<dyn Fn(&Value) -> Option<Issue> + Send + Sync>;

/// All retained revisions of the guard, and the operations that change which ones serve.
pub struct Revisions {
    pub(super) services: HostServices,
    pub(super) options: RolloutOptions,
    pub(super) table: DeploymentTable<Revision, Trial>,
    ledger: Mutex<Ledger>,
    observer: OnceLock<Observer>,
    policy_check: OnceLock<PolicyCheck>,
    pub(super) principals: PrincipalHasher,
    pub(super) fleet: FleetState,
}

pub(super) struct Ledger {
    pub(super) last: u64,
    pub(super) keys: KeyRing,
    rolled_back: RolledBack,
}

impl Revisions {
    /// Creates the revisions of a guard with a first one, which becomes active. Its component is
    /// not self-tested, but must describe itself and compile the policy without an error.
    ///
    /// # Errors
    /// [`Error::Config`] if the policy is invalid, [`Error::Engine`].
    pub fn new(
        component: Arc<Component>,
        services: HostServices,
        policy: &str,
        keys: Vec<SigningKey>,
        options: RolloutOptions,
    ) -> Result<Self> {
        Self::from_bundle(component, services, policy, keys, options, None)
    }

    /// Creates the revisions of a guard as [`Self::new`] does. `bundle` is the bundle from which
    /// the first one was made, or `None`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn from_bundle(
        component: Arc<Component>,
        services: HostServices,
        policy: &str,
        keys: Vec<SigningKey>,
        options: RolloutOptions,
        bundle: Option<BundleLabel>,
    ) -> Result<Self> {
        let keys = KeyRing::new(keys);
        let verifying = keys.protect(&services);
        let compiled = component.compile_policy(&services, policy)?;
        let origin = Origin {
            source: "start".to_owned(),
            version: component.describe(&services)?.version,
            component: component.digest().to_owned(),
            policy: digest(policy.as_bytes()),
            since_ms: services.now_ms(),
            bundle,
        };
        let first = Arc::new(Revision::new(1, component, policy, compiled, verifying, origin));
        let ledger = Ledger { last: 1, keys, rolled_back: RolledBack::default() };
        Ok(Self {
            services,
            options,
            table: DeploymentTable::new(first),
            ledger: Mutex::new(ledger),
            observer: OnceLock::new(),
            policy_check: OnceLock::new(),
            principals: PrincipalHasher::default(),
            fleet: FleetState::default(),
        })
    }

    /// Registers the function to call after each change. Only the first registration has an effect.
    pub fn observe(&self, observer: impl Fn(&Change) + Send + Sync + 'static) {
        let _ = self.observer.set(Box::new(observer));
    }

    /// Checks the active policy and each later one with `check`, a rule that needs more data than
    /// the policy. Only the first registration has an effect.
    ///
    /// # Errors
    /// [`Error::Config`] with the issue of the active policy.
    pub fn check_policies(
        &self,
        check: impl Fn(&Value) -> Option<Issue> + Send + Sync + 'static,
    ) -> Result<()> {
        let active: Value = serde_json::from_str(&self.active().policy).unwrap_or_default();
        let issue = check(&active);
        let _ = self.policy_check.set(Box::new(check));
        issue.map_or(Ok(()), |issue| Err(config::Error::Policy(Issues(vec![issue])).into()))
    }

    /// Rejects a policy that the registered check does not accept.
    pub(super) fn check_policy(&self, policy: &Source) -> Result<()> {
        match self.policy_check.get().and_then(|check| check(policy.document())) {
            Some(issue) => Err(policy.located(Issues(vec![issue])).into()),
            None => Ok(()),
        }
    }

    /// Sets the record of rollbacks, which a later process also reads.
    pub fn remember_rollbacks(&self, record: RolledBack) {
        self.ledger().rolled_back = record;
    }

    /// Returns the store and the clock that guard calls use.
    pub fn services(&self) -> &HostServices {
        &self.services
    }

    /// Returns the rollout options.
    #[must_use]
    pub fn options(&self) -> &RolloutOptions {
        &self.options
    }

    /// Returns the revisions that serve requests now.
    pub fn current(&self) -> Loaded<Arc<Deployment>> {
        self.table.current()
    }

    /// Returns the revision that serves the caller `cx`. That is the revision on trial for its
    /// share of sessions, otherwise the active one.
    pub fn choose(&self, cx: &CallContext) -> Arc<Revision> {
        let current = self.table.current();
        match &current.trial {
            Some(trial) if trial.takes(cx) => Arc::clone(&trial.revision),
            _ => Arc::clone(&current.active),
        }
    }

    /// Returns the revision on which to repeat a call that failed on `failed`: the standby if
    /// `failed` is active, otherwise the active one. `None` if there is no standby.
    pub fn fallback_for(&self, failed: &Revision) -> Option<Arc<Revision>> {
        let current = self.table.current();
        if current.active.number == failed.number {
            return current.standby.clone();
        }
        Some(Arc::clone(&current.active))
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs a change, and passes it to the observer.
    pub(super) fn report_change(&self, change: &Change) {
        change.log();
        if let Some(observer) = self.observer.get() {
            observer(change);
        }
    }

    /// Makes a revision the active one. The previous one becomes the standby.
    pub(super) fn activate(&self, permit: &ChangePermit<'_>, revision: &Arc<Revision>) {
        self.table.keep(permit, revision, self.options.keep);
        self.table.activate(permit, revision, true);
        self.ledger().rolled_back.forget(revision);
        self.fleet.activated(revision);
    }

    /// Returns the secrets of all keys that verify cursors. The first one is that of the signing
    /// key.
    #[must_use]
    pub fn secrets(&self) -> Vec<Vec<u8>> {
        self.ledger().keys.verifying().into_iter().map(|key| key.secret).collect()
    }

    /// Replaces the signing keys. The first key signs, and all keys verify. If `keep_dropped` is
    /// true, a removed key that has signed in this process verifies until its last cursors have
    /// expired. All other removed keys become invalid at once.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no key, or a key is too short.
    pub fn rotate(&self, keys: Vec<SigningKey>, keep_dropped: bool) -> Result<()> {
        if keys.is_empty() || keys.iter().any(|key| key.secret.len() < MIN_KEY_BYTES) {
            return Err(Error::Refused(format!(
                "signing keys need at least {MIN_KEY_BYTES} bytes each; the current keys remain in use"
            )));
        }
        let permit = self.table.begin_change();
        let (now, lifetime) = (self.services.now_ms(), self.cursor_lifetime_ms());
        let (before, changed) = {
            let ring = &mut self.ledger().keys;
            let before = ring.configured().to_vec();
            (before, ring.replace(&keys, keep_dropped.then_some(lifetime), now))
        };
        if changed {
            self.rekey(&permit);
        }
        if before != keys {
            self.report_change(&Change::keys(self.active().number, &before, &keys));
        }
        Ok(())
    }

    /// Applies the key ring to all revisions.
    fn rekey(&self, _: &ChangePermit<'_>) {
        let keys = self.ledger().keys.protect(&self.services);
        for (kept, _) in self.table.kept() {
            kept.rekey(&keys);
        }
        if let Some(trial) = &self.table.current().trial {
            trial.revision.rekey(&keys);
        }
    }

    /// Returns the longest cursor lifetime of all retained revisions, in milliseconds.
    fn cursor_lifetime_ms(&self) -> u64 {
        let kept = self.table.kept().iter().map(|(kept, _)| kept.cursor_ttl_ms).max();
        let trial = self.trial().map(|trial| trial.revision.cursor_ttl_ms);
        kept.max(trial).unwrap_or_default()
    }

    /// Returns the removed keys that still verify as JSON. Each has the first digits of its digest,
    /// and the time at which it becomes invalid.
    pub(super) fn dropped_keys(&self) -> Value {
        self.ledger().keys.dropped_json()
    }

    /// Returns the state of contents that are not active, and the reason for that state. `offered`
    /// is their digest, and `of` returns the digest of the same contents of a revision. `None` if
    /// they are active.
    pub(super) fn difference(
        &self,
        active: &Revision,
        offered: &str,
        of: fn(&Revision) -> &str,
    ) -> Option<(&'static str, String)> {
        if of(active) == offered {
            return None;
        }
        if let Some(trial) = self.trial().filter(|trial| of(&trial.revision) == offered) {
            return Some(("on trial", format!("revision {}", trial.revision.number)));
        }
        Some(match self.ledger().rolled_back.reason(offered) {
            Some(reason) => ("rolled back", reason.to_owned()),
            None => ("replaced", format!("revision {}: {}", active.number, active.origin.source)),
        })
    }

    /// Returns the active revision, which serves all callers except those of a trial.
    #[must_use]
    pub fn active(&self) -> Arc<Revision> {
        Arc::clone(&self.table.current().active)
    }

    /// Returns the running trial. `None` if no trial is running.
    #[must_use]
    pub fn trial(&self) -> Option<Arc<Trial>> {
        self.table.current().trial.clone()
    }

    /// Rolls back to the retained revision with the number `to`. With `None`, ends the running
    /// trial. If there is no trial, rolls back to the standby. A rollback to a number also ends the
    /// trial. Returns the active revision.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such revision, or it is active already.
    pub fn roll_back(&self, to: Option<u64>, reason: &str) -> Result<Arc<Revision>> {
        let actor = Actor::Operator;
        let permit = self.table.begin_change();
        let current = self.table.current_full();
        if let (Some(trial), None) = (&current.trial, to) {
            self.end_trial(&permit, trial, actor, reason, true);
            return Ok(Arc::clone(&current.active));
        }
        let target = match to {
            Some(number) => {
                let mut kept = self.table.kept().into_iter().map(|(kept, _)| kept);
                kept.find(|kept| kept.number == number)
            }
            None => current.standby.clone(),
        };
        let target =
            target.filter(|target| target.number != current.active.number).ok_or_else(|| {
                let kept: Vec<String> =
                    self.table.kept().iter().map(|(kept, _)| kept.number.to_string()).collect();
                Error::Refused(format!(
                    "no such revision to roll back to: {} is active, {} are retained",
                    current.active.number,
                    kept.join(", ")
                ))
            })?;
        if let Some(trial) = &current.trial {
            self.end_trial(&permit, trial, actor, reason, false);
        }
        self.table.take_back(&permit, current.active.number, &target);
        self.report_rollback(&current.active, &target, actor, reason, true);
        Ok(target)
    }

    /// Promotes the revision on trial to the active one, and returns it.
    ///
    /// # Errors
    /// [`Error::Refused`] if no trial is running.
    pub fn promote(&self, actor: Actor, reason: &str) -> Result<Arc<Revision>> {
        self.promote_trial(None, actor, reason, true)
    }

    /// Promotes the revision on trial, because another replica has promoted it.
    pub(super) fn follow_promotion(&self, number: u64, reason: &str) {
        // Fails if the trial was replaced meanwhile.
        let _ = self.promote_trial(Some(number), Actor::Gateway, reason, false);
    }

    /// Promotes the revision on trial. `judged` is its number if a verdict on the trial is the
    /// reason, otherwise `None`. The other replicas follow if `is_shared` is true.
    fn promote_trial(
        &self,
        judged: Option<u64>,
        actor: Actor,
        reason: &str,
        is_shared: bool,
    ) -> Result<Arc<Revision>> {
        let permit = self.table.begin_change();
        let current = self.table.current_full();
        let Some(trial) = self.table.promotable(&permit, judged) else {
            return Err(Error::Refused("nothing to promote: no trial is running".to_owned()));
        };
        self.activate(&permit, &trial.revision);
        if is_shared {
            self.fleet.add_promotion(&trial.revision, reason, self.services.now_ms());
        }
        self.report_change(&Change::between(
            ChangeEvent::Promoted,
            actor,
            &current.active,
            &trial.revision,
            reason,
        ));
        Ok(Arc::clone(&trial.revision))
    }

    /// Ends a trial. If `failed` is true, its policy and component count as rolled back.
    pub(super) fn end_trial(
        &self,
        permit: &ChangePermit<'_>,
        trial: &Trial,
        actor: Actor,
        reason: &str,
        failed: bool,
    ) {
        if self.table.end_trial(permit, trial.revision.number) {
            self.report_end_of_trial(trial, actor, reason, failed, failed);
        }
    }

    /// Counts a call of a principal that failed on `revision` and succeeded on another revision. If
    /// there were too many such calls recently, rolls back `revision` or ends its trial.
    ///
    /// Never blocks a call: if another change is in progress, the next failure triggers the
    /// rollback.
    ///
    /// A call that no other revision answers must not be reported here. A client could otherwise
    /// send such calls to choose the active revision.
    pub fn failed(&self, revision: &Revision, principal: &str) {
        let Some(principal) = self.principals.hash(principal) else { return };
        revision.stats.blame(principal, self.window());
        let Some(reason) = revision.stats.is_bad(&self.options.limits) else { return };
        let Some(permit) = self.table.try_begin_change() else { return };
        self.withdraw(&permit, revision.number, &reason, true);
    }

    /// Advances the running trial to its next step, its promotion or its end. Also drops removed
    /// keys whose cursors have expired. Only a canary advances by itself.
    ///
    /// The thread of [`crate::tick_regularly`] calls this every second.
    pub fn tick(&self) {
        if self.ledger().keys.expire(self.services.now_ms()) {
            self.rekey(&self.table.begin_change());
        }
        let current = self.table.current_full();
        let Some(trial) = &current.trial else { return };
        match trial.verdict(&self.options, &current.active.stats) {
            Verdict::Wait => {}
            Verdict::Step => self.report_step(&current.active, trial, ""),
            Verdict::Promote => {
                // Fails if the trial was replaced since the verdict, which is then void.
                let judged = Some(trial.revision.number);
                let _ = self.promote_trial(judged, Actor::Gateway, "all steps succeeded", true);
            }
            Verdict::End(reason) => {
                self.end_trial(&self.table.begin_change(), trial, Actor::Gateway, &reason, true);
            }
        }
    }

    /// Reports that a trial serves its current share of sessions. `cause` is appended to the
    /// report.
    pub(super) fn report_step(&self, active: &Revision, trial: &Trial, cause: &str) {
        let reason = format!("it takes {} % of the sessions{cause}", trial.percent());
        let (event, actor) = (ChangeEvent::Step, Actor::Gateway);
        self.report_change(&Change::between(event, actor, active, &trial.revision, &reason));
    }
}
