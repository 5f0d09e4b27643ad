//! Generations: a component under a policy, taken in beside the running one, tried, promoted, and taken back (FR-026, FR-028, FR-033..FR-036).
//!
//! A request is begun and ended by one generation. What is new is read, compiled and tested beside the path of requests; then one pointer changes.

mod admission;
mod aside;
mod change;
mod numbers;
mod options;
mod selftest;
mod shadow;
mod signature;
mod sources;
mod trial;
mod watch;

pub use admission::Offer;
pub use change::{Change, Event};
pub use numbers::{Numbers, Snapshot};
pub use options::{Limits, Mode, RolloutOptions};
pub(crate) use shadow::Sent;
pub use signature::Trust;
pub use sources::{Content, Sources, read_component};
pub use trial::Trial;
pub(crate) use trial::share_of;
pub use watch::watch;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::engine::{
    CallContext, CompiledPolicy, Component, OnFault, RequestVerdict, ResponseVerdict, Settings,
    SigningKey, Surroundings,
};
use crate::{Error, Result};

/// A component under a policy.
pub struct Generation {
    /// Counts up from 1.
    pub number: u64,
    /// What it was made of.
    pub origin: Origin,
    /// The policy as it was given, JSON; empty is the default policy.
    pub policy: String,
    /// What it did so far.
    pub numbers: Numbers,
    component: Arc<Component>,
    settings: ArcSwap<Settings>,
    on_fault: OnFault,
    hard_byte_limit: usize,
}

/// What a generation was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Where it came from: a file, an admin call, the start.
    pub source: String,
    /// The version that the component says.
    pub version: String,
    /// SHA-256 of the component, in hex.
    pub component: String,
    /// SHA-256 of the policy, in hex.
    pub policy: String,
    /// When, in milliseconds since 1970.
    pub since_ms: u64,
}

/// SHA-256 in hex.
pub(crate) fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

impl Generation {
    fn new(
        number: u64,
        component: Arc<Component>,
        policy: &str,
        compiled: CompiledPolicy,
        keys: Vec<SigningKey>,
        origin: Origin,
    ) -> Self {
        for issue in compiled.warnings {
            tracing::warn!(path = issue.path, "{}", issue.reason);
        }
        Self {
            number,
            origin,
            policy: policy.to_owned(),
            numbers: Numbers::default(),
            component,
            settings: ArcSwap::from_pointee(Settings { policy: compiled.resolved, keys }),
            on_fault: compiled.on_fault,
            hard_byte_limit: usize::try_from(compiled.hard_byte_limit).unwrap_or(usize::MAX),
        }
    }

    /// What becomes of an answer that it fails on: how, and up to how many bytes.
    pub(crate) fn on_fault(&self) -> (OnFault, usize) {
        (self.on_fault, self.hard_byte_limit)
    }

    pub(crate) fn request(
        &self,
        surroundings: &Surroundings,
        cx: &CallContext,
        message: &[u8],
    ) -> Result<RequestVerdict> {
        self.component.on_request(surroundings, &self.settings.load(), cx, message)
    }

    pub(crate) fn response(
        &self,
        surroundings: &Surroundings,
        cx: &CallContext,
        ticket: &[u8],
        message: &[u8],
    ) -> Result<ResponseVerdict> {
        self.component.on_response(surroundings, &self.settings.load(), cx, ticket, message)
    }

    /// Compiles another policy for it: estimates that were corrected, nothing that an operator wrote.
    pub(crate) fn correct(&self, surroundings: &Surroundings, policy: &str) -> Result<()> {
        let compiled = self.component.compile_policy(surroundings, policy)?;
        let keys = self.settings.load().keys.clone();
        self.settings.store(Arc::new(Settings { policy: compiled.resolved, keys }));
        Ok(())
    }

    fn rekey(&self, keys: &[SigningKey]) {
        let policy = self.settings.load().policy.clone();
        self.settings.store(Arc::new(Settings { policy, keys: keys.to_vec() }));
    }

    /// For people and their programs.
    #[must_use]
    pub fn json(&self, state: &str) -> Value {
        let Origin { source, version, component, policy, since_ms } = &self.origin;
        json!({"generation": self.number, "state": state, "source": source, "version": version, "component": component, "policy": policy, "since": since_ms, "numbers": self.numbers.json()})
    }
}

/// What serves now.
pub(crate) struct Current {
    pub(crate) active: Arc<Generation>,
    /// What served before, and takes over where the active one fails. None where it was found bad itself.
    pub(crate) standby: Option<Arc<Generation>>,
    pub(crate) trial: Option<Arc<Trial>>,
}

type Observer = Box<dyn Fn(&Change) + Send + Sync>;

/// All generations that are kept.
pub struct Generations {
    surroundings: Surroundings,
    options: RolloutOptions,
    current: ArcSwap<Current>,
    ledger: Mutex<Ledger>,
    /// One change at a time.
    changing: Mutex<()>,
    observer: OnceLock<Observer>,
}

struct Ledger {
    last: u64,
    /// The active one, those before it, and those that were taken back: the oldest first.
    kept: VecDeque<(Arc<Generation>, bool)>,
    keys: Vec<SigningKey>,
}

impl Generations {
    /// The first generation. It is not tested against itself: an operator sees at once that nothing starts.
    ///
    /// # Errors
    /// [`Error::Policy`], [`Error::Trap`].
    pub fn new(
        component: Arc<Component>,
        surroundings: Surroundings,
        policy: &str,
        keys: Vec<SigningKey>,
        options: RolloutOptions,
    ) -> Result<Self> {
        let compiled = component.compile_policy(&surroundings, policy)?;
        let origin = Origin {
            source: "start".to_owned(),
            version: component.describe(&surroundings)?.version,
            component: component.digest().to_owned(),
            policy: digest(policy.as_bytes()),
            since_ms: surroundings.now_ms(),
        };
        let first = Arc::new(Generation::new(1, component, policy, compiled, keys.clone(), origin));
        let current = Current { active: Arc::clone(&first), standby: None, trial: None };
        let ledger = Ledger { last: 1, kept: [(first, true)].into(), keys };
        Ok(Self {
            surroundings,
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
    pub(crate) fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// The rules for what is new.
    #[must_use]
    pub fn options(&self) -> &RolloutOptions {
        &self.options
    }

    pub(crate) fn current(&self) -> arc_swap::Guard<Arc<Current>> {
        self.current.load()
    }

    /// The generation that serves this caller: the trial takes its share of sessions, the same ones all the while.
    pub(crate) fn choose(&self, cx: &CallContext) -> Arc<Generation> {
        let current = self.current.load();
        match &current.trial {
            Some(trial) if trial.takes(cx) => Arc::clone(&trial.generation),
            _ => Arc::clone(&current.active),
        }
    }

    /// The generation that does a failed call again, if there is a sound one.
    pub(crate) fn instead_of(&self, failed: &Generation) -> Option<Arc<Generation>> {
        let current = self.current.load();
        if current.active.number == failed.number {
            return current.standby.clone();
        }
        Some(Arc::clone(&current.active))
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, change: &Change) {
        change.log();
        if let Some(observer) = self.observer.get() {
            observer(change);
        }
    }

    /// Makes a generation the active one. Requests in flight end on theirs.
    fn activate(&self, generation: &Arc<Generation>, before_is_sound: bool) {
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
                .filter(|(kept, sound)| *sound && kept.number < generation.number);
            sound.next().map(|(kept, _)| Arc::clone(kept))
        };
        let active = Arc::clone(generation);
        self.current.store(Arc::new(Current { active, standby, trial: None }));
    }

    /// Keeps a generation, and forgets the oldest beyond the number that is kept. What serves is never forgotten.
    fn keep(&self, generation: &Arc<Generation>) {
        let current = self.current.load_full();
        let serves = |kept: &Generation| {
            kept.number == current.active.number
                || kept.number == generation.number
                || current.standby.as_ref().is_some_and(|standby| standby.number == kept.number)
        };
        let mut ledger = self.ledger();
        ledger.kept.push_back((Arc::clone(generation), true));
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
            trial.generation.rekey(&keys);
        }
        self.tell(&Change::keys(self.active().number, &before, &keys));
        Ok(())
    }

    /// The active generation.
    #[must_use]
    pub fn active(&self) -> Arc<Generation> {
        Arc::clone(&self.current.load().active)
    }

    /// The running trial.
    #[must_use]
    pub fn trial(&self) -> Option<Arc<Trial>> {
        self.current.load().trial.clone()
    }

    /// Goes back to the generation before, or to one that is kept by its number; a running trial ends first.
    ///
    /// # Errors
    /// [`Error::Refused`] where there is none.
    pub fn roll_back(&self, to: Option<u64>, reason: &str) -> Result<Arc<Generation>> {
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

    /// Makes the trial's generation the active one, now.
    ///
    /// # Errors
    /// [`Error::Refused`] where there is no trial.
    pub fn promote(&self, reason: &str) -> Result<Arc<Generation>> {
        let _turn = self.change();
        let current = self.current.load_full();
        let Some(trial) = &current.trial else {
            return Err(Error::Refused(
                "no trial is running: there is nothing to promote".to_owned(),
            ));
        };
        self.keep(&trial.generation);
        self.activate(&trial.generation, true);
        self.tell(&Change::between(Event::Promoted, &current.active, &trial.generation, reason));
        Ok(Arc::clone(&trial.generation))
    }

    fn end_trial(&self, trial: &Trial, reason: &str) {
        let current = self.current.load_full();
        if current.trial.as_ref().is_none_or(|own| own.generation.number != trial.generation.number)
        {
            return;
        }
        self.current.store(Arc::new(Current {
            active: Arc::clone(&current.active),
            standby: current.standby.clone(),
            trial: None,
        }));
        let (from, to) = (&trial.generation, &current.active);
        self.tell(&Change::between(Event::RolledBack, from, to, reason));
    }

    /// A generation failed on a call. Repeated failure takes it back. A call never waits for that: where something else changes just now, the next failure does it.
    pub(crate) fn failed(&self, generation: &Generation) {
        let Some(reason) = generation.numbers.is_bad(&self.options.limits) else { return };
        let Ok(_turn) = self.changing.try_lock() else { return };
        let current = self.current.load_full();
        let trial = current.trial.as_ref();
        if let Some(trial) = trial.filter(|trial| trial.generation.number == generation.number) {
            self.end_trial(trial, &reason);
        } else if current.active.number == generation.number
            && let Some(standby) = &current.standby
        {
            self.take_back(&current.active, standby, &reason);
        }
    }

    /// Has an earlier generation serve again.
    fn take_back(&self, bad: &Generation, target: &Arc<Generation>, reason: &str) {
        self.condemn(bad.number);
        self.activate(target, false);
        self.tell(&Change::between(Event::RolledBack, bad, target, reason));
    }

    /// Looks after a trial: the next step of its plan, its promotion, or its end. To be called about once a second.
    pub fn tick(&self) {
        let current = self.current.load_full();
        let Some(trial) = &current.trial else { return };
        match trial.verdict(&self.options, &current.active.numbers) {
            trial::Verdict::Wait => {}
            trial::Verdict::Step(share) => {
                let reason = format!("it takes {share} % of the sessions now");
                self.tell(&Change::between(
                    Event::Step,
                    &current.active,
                    &trial.generation,
                    &reason,
                ));
            }
            trial::Verdict::Promote => {
                let _ = self.promote("every step of its plan went well");
            }
            trial::Verdict::End(reason) => {
                let _turn = self.change();
                self.end_trial(trial, &reason);
            }
        }
    }

    /// What is kept, what serves, and what a trial has shown.
    #[must_use]
    pub fn report(&self) -> Value {
        let current = self.current.load_full();
        let state = |generation: &Generation, sound: bool| {
            if generation.number == current.active.number {
                "active"
            } else if !sound {
                "taken back"
            } else if current
                .standby
                .as_ref()
                .is_some_and(|standby| standby.number == generation.number)
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
