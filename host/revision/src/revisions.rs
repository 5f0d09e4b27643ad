//! All revisions that are kept: which one serves, which one is tried, which one is taken back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use serde_json::{Value, json};

use super::trial::Verdict;
use super::{Change, ChangeEvent, Origin, Revision, RolloutOptions, Trial, digest};
use crate::engine::{CallContext, Component, HostServices, SigningKey};
use crate::{Error, Result};

/// What serves now.
pub struct Deployment {
    /// The revision that serves everybody but the sessions of the trial.
    pub active: Arc<Revision>,
    /// What served before, and takes over where the active one fails. None where it was found bad itself.
    pub standby: Option<Arc<Revision>>,
    /// The revision on trial.
    pub trial: Option<Arc<Trial>>,
}

type Observer = Box<dyn Fn(&Change) + Send + Sync>;

/// All revisions that are kept.
pub struct Revisions {
    pub(super) services: HostServices,
    pub(super) options: RolloutOptions,
    pub(super) current: ArcSwap<Deployment>,
    ledger: Mutex<Ledger>,
    /// One change at a time.
    changing: Mutex<()>,
    observer: OnceLock<Observer>,
}

pub(super) struct Ledger {
    pub(super) last: u64,
    /// The active one, those before it, and those that were taken back: the oldest first.
    pub(super) kept: VecDeque<(Arc<Revision>, bool)>,
    pub(super) keys: Vec<SigningKey>,
}

impl Revisions {
    /// The first revision. It is not tested against itself: an operator sees at once that nothing starts.
    ///
    /// # Errors
    /// [`Error::Policy`], [`Error::Trap`].
    pub fn new(
        component: Arc<Component>,
        services: HostServices,
        policy: &str,
        keys: Vec<SigningKey>,
        options: RolloutOptions,
    ) -> Result<Self> {
        let compiled = component.compile_policy(&services, policy)?;
        let origin = Origin {
            source: "start".to_owned(),
            version: component.describe(&services)?.version,
            component: component.digest().to_owned(),
            policy: digest(policy.as_bytes()),
            since_ms: services.now_ms(),
        };
        let first = Arc::new(Revision::new(1, component, policy, compiled, keys.clone(), origin));
        let current = Deployment { active: Arc::clone(&first), standby: None, trial: None };
        let ledger = Ledger { last: 1, kept: [(first, true)].into(), keys };
        Ok(Self {
            services,
            options,
            current: ArcSwap::from_pointee(current),
            ledger: Mutex::new(ledger),
            changing: Mutex::new(()),
            observer: OnceLock::new(),
        })
    }

    /// Has every change told, with what it was.
    pub fn observe(&self, observer: impl Fn(&Change) + Send + Sync + 'static) {
        let _ = self.observer.set(Box::new(observer));
    }

    /// What calls are made with.
    pub fn services(&self) -> &HostServices {
        &self.services
    }

    /// The rules for what is new.
    #[must_use]
    pub fn options(&self) -> &RolloutOptions {
        &self.options
    }

    /// Returns the revisions that serve now.
    pub fn current(&self) -> arc_swap::Guard<Arc<Deployment>> {
        self.current.load()
    }

    /// The revision that serves this caller: the trial takes its share of sessions, the same ones all the while.
    pub fn choose(&self, cx: &CallContext) -> Arc<Revision> {
        let current = self.current.load();
        match &current.trial {
            Some(trial) if trial.takes(cx) => Arc::clone(&trial.revision),
            _ => Arc::clone(&current.active),
        }
    }

    /// The revision that does a failed call again, if there is a sound one.
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

    /// Makes a revision the active one. Requests in flight end on theirs.
    pub(super) fn activate(&self, revision: &Arc<Revision>, before_is_sound: bool) {
        let active = Arc::clone(&self.current.load().active);
        let standby = if before_is_sound {
            Some(active)
        } else {
            // Of what is kept, the latest that was never taken back, before the new one.
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
    }

    /// Keeps a revision, and forgets the oldest beyond the number that is kept. What serves is never forgotten.
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

    /// Takes other signing keys: the first signs, all verify. Cursors of keys that are still among them stay valid.
    ///
    /// # Errors
    /// [`Error::Refused`] where there is none, or one is too short.
    pub fn rotate(&self, keys: Vec<SigningKey>) -> Result<()> {
        const LEAST: usize = 16;
        if keys.is_empty() || keys.iter().any(|key| key.secret.len() < LEAST) {
            return Err(Error::Refused(format!(
                "signing keys are needed, of {LEAST} bytes at least: the ones in use stay"
            )));
        }
        let _turn = self.change();
        let before = std::mem::replace(&mut self.ledger().keys, keys.clone());
        if before == keys {
            return Ok(());
        }
        for (kept, _) in &self.ledger().kept {
            kept.rekey(&keys);
        }
        if let Some(trial) = &self.current.load().trial {
            trial.revision.rekey(&keys);
        }
        self.tell(&Change::keys(self.active().number, &before, &keys));
        Ok(())
    }

    /// The active revision.
    #[must_use]
    pub fn active(&self) -> Arc<Revision> {
        Arc::clone(&self.current.load().active)
    }

    /// The running trial.
    #[must_use]
    pub fn trial(&self) -> Option<Arc<Trial>> {
        self.current.load().trial.clone()
    }

    /// Goes back to the revision before, or to one that is kept by its number; a running trial ends first.
    ///
    /// # Errors
    /// [`Error::Refused`] where there is none.
    pub fn roll_back(&self, to: Option<u64>, reason: &str) -> Result<Arc<Revision>> {
        let _turn = self.change();
        let current = self.current.load_full();
        if let (Some(trial), None) = (&current.trial, to) {
            self.end_trial(trial, reason);
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
                    "there is no such generation to go back to: {} is active, and {} are kept",
                    current.active.number,
                    kept.join(", ")
                ))
            })?;
        self.take_back(&current.active, &target, reason);
        Ok(target)
    }

    /// Makes the trial's revision the active one, now.
    ///
    /// # Errors
    /// [`Error::Refused`] where there is no trial.
    pub fn promote(&self, reason: &str) -> Result<Arc<Revision>> {
        let _turn = self.change();
        let current = self.current.load_full();
        let Some(trial) = &current.trial else {
            return Err(Error::Refused(
                "no trial is running: there is nothing to promote".to_owned(),
            ));
        };
        self.keep(&trial.revision);
        self.activate(&trial.revision, true);
        self.tell(&Change::between(
            ChangeEvent::Promoted,
            &current.active,
            &trial.revision,
            reason,
        ));
        Ok(Arc::clone(&trial.revision))
    }

    pub(super) fn end_trial(&self, trial: &Trial, reason: &str) {
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
        self.tell(&Change::between(ChangeEvent::RolledBack, from, to, reason));
    }

    /// A revision failed on a call. Repeated failure takes it back. A call never waits for that: where something else changes just now, the next failure does it.
    pub fn failed(&self, revision: &Revision) {
        let Some(reason) = revision.stats.is_bad(&self.options.limits) else { return };
        let Ok(_turn) = self.changing.try_lock() else { return };
        let current = self.current.load_full();
        let trial = current.trial.as_ref();
        if let Some(trial) = trial.filter(|trial| trial.revision.number == revision.number) {
            self.end_trial(trial, &reason);
        } else if current.active.number == revision.number
            && let Some(standby) = &current.standby
        {
            self.take_back(&current.active, standby, &reason);
        }
    }

    /// Has an earlier revision serve again.
    fn take_back(&self, bad: &Revision, target: &Arc<Revision>, reason: &str) {
        self.condemn(bad.number);
        self.activate(target, false);
        self.tell(&Change::between(ChangeEvent::RolledBack, bad, target, reason));
    }

    /// Looks after a trial: the next step of its plan, its promotion, or its end. To be called about once a second.
    pub fn tick(&self) {
        let current = self.current.load_full();
        let Some(trial) = &current.trial else { return };
        match trial.verdict(&self.options, &current.active.stats) {
            Verdict::Wait => {}
            Verdict::Step(share) => {
                let reason = format!("it takes {share} % of the sessions now");
                self.tell(&Change::between(
                    ChangeEvent::Step,
                    &current.active,
                    &trial.revision,
                    &reason,
                ));
            }
            Verdict::Promote => {
                let _ = self.promote("every step of its plan went well");
            }
            Verdict::End(reason) => {
                let _turn = self.change();
                self.end_trial(trial, &reason);
            }
        }
    }

    /// What is kept, what serves, and what a trial has shown.
    #[must_use]
    pub fn report(&self) -> Value {
        let current = self.current.load_full();
        let state = |revision: &Revision, sound: bool| {
            if revision.number == current.active.number {
                "active"
            } else if !sound {
                "taken back"
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
        let trial = current.trial.as_ref().map(|trial| trial.json(&current.active));
        json!({"active": current.active.number, "generations": kept, "trial": trial})
    }
}
