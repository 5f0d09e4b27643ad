//! The set of retained revisions: the active one, the trial and those to roll back to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use serde_json::{Value, json};

use super::key_ring::KeyRing;
use super::keys::MIN_KEY_BYTES;
use super::principals::PrincipalHasher;
use super::rolled_back::RolledBack;
use super::trial::Verdict;
use super::{Actor, Change, ChangeEvent, Origin, Revision, RolloutOptions, Trial, digest};
use crate::engine::{CallContext, Component, HostServices, SigningKey};
use crate::{Error, Result};

/// The revisions that serve requests at one point in time.
pub struct Deployment {
    /// The revision that serves all callers except those of the trial.
    pub active: Arc<Revision>,
    /// The newest earlier revision that was never rolled back. It repeats calls on which the active
    /// one fails.
    pub standby: Option<Arc<Revision>>,
    /// The running trial of a new revision, if there is one.
    pub trial: Option<Arc<Trial>>,
}

type Observer = Box<dyn Fn(&Change) + Send + Sync>;

/// All retained revisions of the guard, and the operations that change which ones serve.
pub struct Revisions {
    pub(super) services: HostServices,
    pub(super) options: RolloutOptions,
    pub(super) current: ArcSwap<Deployment>,
    ledger: Mutex<Ledger>,
    /// A lock that is held while the deployment is changed.
    changing: Mutex<()>,
    observer: OnceLock<Observer>,
    pub(super) principals: PrincipalHasher,
}

pub(super) struct Ledger {
    pub(super) last: u64,
    /// The retained revisions, the oldest first. The flag is false if the revision was rolled back.
    pub(super) kept: VecDeque<(Arc<Revision>, bool)>,
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
        let keys = KeyRing::new(keys);
        let verifying = keys.protect(&services);
        let compiled = component.compile_policy(&services, policy)?;
        let origin = Origin {
            source: "start".to_owned(),
            version: component.describe(&services)?.version,
            component: component.digest().to_owned(),
            policy: digest(policy.as_bytes()),
            since_ms: services.now_ms(),
        };
        let first = Arc::new(Revision::new(1, component, policy, compiled, verifying, origin));
        let current = Deployment { active: Arc::clone(&first), standby: None, trial: None };
        let ledger = Ledger {
            last: 1,
            kept: [(first, true)].into(),
            keys,
            rolled_back: RolledBack::default(),
        };
        Ok(Self {
            services,
            options,
            current: ArcSwap::from_pointee(current),
            ledger: Mutex::new(ledger),
            changing: Mutex::new(()),
            observer: OnceLock::new(),
            principals: PrincipalHasher::default(),
        })
    }

    /// Registers the function to call after each change. Only the first registration has an effect.
    pub fn observe(&self, observer: impl Fn(&Change) + Send + Sync + 'static) {
        let _ = self.observer.set(Box::new(observer));
    }

    /// Sets the record of what was rolled back, which also tells a later process.
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
    pub fn current(&self) -> arc_swap::Guard<Arc<Deployment>> {
        self.current.load()
    }

    /// Returns the revision that serves the caller `cx`: the one on trial for its share of
    /// sessions, else the active one.
    pub fn choose(&self, cx: &CallContext) -> Arc<Revision> {
        let current = self.current.load();
        match &current.trial {
            Some(trial) if trial.takes(cx) => Arc::clone(&trial.revision),
            _ => Arc::clone(&current.active),
        }
    }

    /// Returns the revision on which to repeat a call that failed on `failed`. It is the standby if
    /// `failed` is active, else the active one.
    pub fn fallback_for(&self, failed: &Revision) -> Option<Arc<Revision>> {
        let current = self.current.load();
        if current.active.number == failed.number {
            return current.standby.clone();
        }
        Some(Arc::clone(&current.active))
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, change: &Change) {
        change.log();
        if let Some(observer) = self.observer.get() {
            observer(change);
        }
    }

    /// Makes a revision the active one. The previous one becomes the standby if `before_is_sound`,
    /// else an earlier one does. Requests in flight end on the revision that began them.
    pub(super) fn activate(&self, revision: &Arc<Revision>, before_is_sound: bool) {
        let active = Arc::clone(&self.current.load().active);
        let standby = if before_is_sound {
            Some(active)
        } else {
            // The standby is the latest revision before the new one that was never rolled back.
            let ledger = self.ledger();
            let mut sound = ledger
                .kept
                .iter()
                .rev()
                .filter(|(kept, sound)| *sound && kept.number < revision.number);
            sound.next().map(|(kept, _)| Arc::clone(kept))
        };
        let active = Arc::clone(revision);
        self.current.store(Arc::new(Deployment { active, standby, trial: None }));
        self.ledger().rolled_back.forget(revision);
    }

    /// Adds a revision to the retained ones, and drops the oldest beyond the limit, except those
    /// that serve.
    pub(super) fn keep(&self, revision: &Arc<Revision>) {
        let current = self.current.load_full();
        let serves = |kept: &Revision| {
            kept.number == current.active.number
                || kept.number == revision.number
                || current.standby.as_ref().is_some_and(|standby| standby.number == kept.number)
        };
        let mut ledger = self.ledger();
        ledger.kept.push_back((Arc::clone(revision), true));
        while ledger.kept.len() > self.options.keep.max(1) {
            let Some(oldest) = ledger.kept.iter().position(|(kept, _)| !serves(kept)) else {
                break;
            };
            ledger.kept.remove(oldest);
        }
    }

    fn condemn(&self, number: u64) {
        for (kept, sound) in &mut self.ledger().kept {
            *sound &= kept.number != number;
        }
    }

    /// Replaces the signing keys. The first key signs, all verify. If `keep_dropped` is true, a
    /// removed key verifies until its last cursors have expired; otherwise they become invalid.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no key, or a key is too short.
    pub fn rotate(&self, keys: Vec<SigningKey>, keep_dropped: bool) -> Result<()> {
        if keys.is_empty() || keys.iter().any(|key| key.secret.len() < MIN_KEY_BYTES) {
            return Err(Error::Refused(format!(
                "signing keys need at least {MIN_KEY_BYTES} bytes each; the current keys remain in use"
            )));
        }
        let _turn = self.change();
        let (now, lifetime) = (self.services.now_ms(), self.cursor_lifetime_ms());
        let (before, changed) = {
            let ring = &mut self.ledger().keys;
            let before = ring.configured().to_vec();
            (before, ring.replace(&keys, keep_dropped.then_some(lifetime), now))
        };
        if changed {
            self.rekey();
        }
        if before != keys {
            self.tell(&Change::keys(self.active().number, &before, &keys));
        }
        Ok(())
    }

    /// Applies the key ring to all revisions.
    fn rekey(&self) {
        let ledger = self.ledger();
        let keys = ledger.keys.protect(&self.services);
        for (kept, _) in &ledger.kept {
            kept.rekey(&keys);
        }
        if let Some(trial) = &self.current.load().trial {
            trial.revision.rekey(&keys);
        }
    }

    /// Returns the longest cursor lifetime of the revisions that serve or served.
    fn cursor_lifetime_ms(&self) -> u64 {
        let kept = self.ledger().kept.iter().map(|(kept, _)| kept.cursor_ttl_ms).max();
        let trial = self.trial().map(|trial| trial.revision.cursor_ttl_ms);
        kept.max(trial).unwrap_or_default()
    }

    /// Returns the removed keys that still verify, each by the first digits of its digest and the
    /// time at which it ends, in JSON.
    pub(super) fn dropped_keys(&self) -> Value {
        self.ledger().keys.dropped_json()
    }

    /// Returns the state of contents with the digest `offered` that are not those of `active`, and
    /// its reason. `of` returns the digest of a revision's contents of that kind. `None` if they
    /// are the active ones.
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

    /// Returns the active revision, which serves all callers but those of a trial.
    #[must_use]
    pub fn active(&self) -> Arc<Revision> {
        Arc::clone(&self.current.load().active)
    }

    /// Returns the running trial, or `None` if none is running.
    #[must_use]
    pub fn trial(&self) -> Option<Arc<Trial>> {
        self.current.load().trial.clone()
    }

    /// Rolls back to the retained revision with the number `to`. If `None`, ends the running trial
    /// or, without one, rolls back to the standby. Returns the active revision.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such revision.
    pub fn roll_back(&self, to: Option<u64>, reason: &str) -> Result<Arc<Revision>> {
        let actor = Actor::Operator;
        let _turn = self.change();
        let current = self.current.load_full();
        if let (Some(trial), None) = (&current.trial, to) {
            self.end_trial(trial, actor, reason, true);
            return Ok(Arc::clone(&current.active));
        }
        let target = match to {
            Some(number) => self
                .ledger()
                .kept
                .iter()
                .map(|(kept, _)| kept)
                .find(|kept| kept.number == number)
                .cloned(),
            None => current.standby.clone(),
        };
        let target =
            target.filter(|target| target.number != current.active.number).ok_or_else(|| {
                let kept: Vec<String> =
                    self.ledger().kept.iter().map(|(kept, _)| kept.number.to_string()).collect();
                Error::Refused(format!(
                    "no such revision to roll back to: {} is active, {} are retained",
                    current.active.number,
                    kept.join(", ")
                ))
            })?;
        self.take_back(&current.active, &target, actor, reason);
        Ok(target)
    }

    /// Promotes the revision on trial to the active one and returns it.
    ///
    /// # Errors
    /// [`Error::Refused`] if no trial is running.
    pub fn promote(&self, actor: Actor, reason: &str) -> Result<Arc<Revision>> {
        let _turn = self.change();
        let current = self.current.load_full();
        let Some(trial) = &current.trial else {
            return Err(Error::Refused("nothing to promote: no trial is running".to_owned()));
        };
        self.keep(&trial.revision);
        self.activate(&trial.revision, true);
        self.tell(&Change::between(
            ChangeEvent::Promoted,
            actor,
            &current.active,
            &trial.revision,
            reason,
        ));
        Ok(Arc::clone(&trial.revision))
    }

    /// Ends a trial. If it failed, its policy and component count as rolled back.
    pub(super) fn end_trial(&self, trial: &Trial, actor: Actor, reason: &str, failed: bool) {
        let current = self.current.load_full();
        if current.trial.as_ref().is_none_or(|own| own.revision.number != trial.revision.number) {
            return;
        }
        self.current.store(Arc::new(Deployment {
            active: Arc::clone(&current.active),
            standby: current.standby.clone(),
            trial: None,
        }));
        let (from, to) = (&trial.revision, &current.active);
        if failed {
            self.ledger().rolled_back.add(from, to, reason, self.services.now_ms());
        }
        self.tell(&Change::between(ChangeEvent::RolledBack, actor, from, to, reason));
    }

    /// Counts a call of a principal that failed on `revision` and succeeded on another one. Rolls
    /// back `revision`, or ends its trial, if there were too many such calls recently. Never blocks
    /// a call: if another change is in progress, the next failure triggers the rollback.
    ///
    /// A call that no other revision answers must not be reported here: a client could send such
    /// calls to choose the active revision.
    pub fn failed(&self, revision: &Revision, principal: &str) {
        let Some(principal) = self.principals.hash(principal) else { return };
        revision.stats.blame(principal, self.window());
        let Some(reason) = revision.stats.is_bad(&self.options.limits) else { return };
        let Ok(_turn) = self.changing.try_lock() else { return };
        let current = self.current.load_full();
        let trial = current.trial.as_ref();
        if let Some(trial) = trial.filter(|trial| trial.revision.number == revision.number) {
            self.end_trial(trial, Actor::Gateway, &reason, true);
        } else if current.active.number == revision.number
            && let Some(standby) = &current.standby
        {
            self.take_back(&current.active, standby, Actor::Gateway, &reason);
        }
    }

    /// Rolls back from `bad` to `target`: marks `bad` as rolled back and activates `target`.
    fn take_back(&self, bad: &Revision, target: &Arc<Revision>, actor: Actor, reason: &str) {
        self.condemn(bad.number);
        self.activate(target, false);
        self.ledger().rolled_back.add(bad, target, reason, self.services.now_ms());
        self.tell(&Change::between(ChangeEvent::RolledBack, actor, bad, target, reason));
    }

    /// Advances the running trial: to its next step, its promotion or its end. Also ends removed
    /// keys whose cursors have expired. The file watcher calls this every second.
    pub fn tick(&self) {
        if self.ledger().keys.expire(self.services.now_ms()) {
            let _turn = self.change();
            self.rekey();
        }
        let current = self.current.load_full();
        let Some(trial) = &current.trial else { return };
        match trial.verdict(&self.options, &current.active.stats) {
            Verdict::Wait => {}
            Verdict::Step(share) => {
                let reason = format!("it takes {share} % of the sessions");
                self.tell(&Change::between(
                    ChangeEvent::Step,
                    Actor::Gateway,
                    &current.active,
                    &trial.revision,
                    &reason,
                ));
            }
            Verdict::Promote => {
                let _ = self.promote(Actor::Gateway, "all steps succeeded");
            }
            Verdict::End(reason) => {
                let _turn = self.change();
                self.end_trial(trial, Actor::Gateway, &reason, true);
            }
        }
    }

    /// Returns a JSON report of the retained revisions and of the trial.
    #[must_use]
    pub fn report(&self) -> Value {
        let current = self.current.load_full();
        let state = |revision: &Revision, sound: bool| {
            if revision.number == current.active.number {
                "active"
            } else if !sound {
                "rolled back"
            } else if current
                .standby
                .as_ref()
                .is_some_and(|standby| standby.number == revision.number)
            {
                "standby"
            } else {
                "kept"
            }
        };
        let ledger = self.ledger();
        let kept: Vec<Value> =
            ledger.kept.iter().rev().map(|(kept, sound)| kept.json(state(kept, *sound))).collect();
        let trial = current.trial.as_ref().map(|trial| trial.json(&current.active, &self.options));
        json!({"active": current.active.number, "generations": kept, "trial": trial})
    }
}
