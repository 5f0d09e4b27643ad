//! The state machine of deployments: the active revision, the standby, the trial, and the retained
//! revisions. Requests read it without a lock, while one change at a time replaces it.

mod atomic;
#[cfg(test)]
mod model;

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

pub use atomic::Loaded;
use atomic::{AtomicPointer, Mutex, MutexGuard};

use super::{Revision, Trial};

/// The revisions that serve requests at one point in time.
pub struct Deployment<R = Revision, T = Trial> {
    /// The revision that serves all callers except those of the trial.
    pub active: Arc<R>,
    /// The revision that was active before, or the newest earlier one that was never rolled back
    /// after a rollback. It answers calls on which the active revision fails. `None` if there is no
    /// such revision.
    pub standby: Option<Arc<R>>,
    /// The running trial of a new revision. `None` if no trial is running.
    pub trial: Option<Arc<T>>,
}

/// A revision, or the trial of one.
pub(super) trait Numbered {
    /// Returns the number of the revision.
    fn number(&self) -> u64;
}

impl Numbered for Revision {
    fn number(&self) -> u64 {
        self.number
    }
}

impl Numbered for Trial {
    fn number(&self) -> u64 {
        self.revision.number
    }
}

/// The permission to change the deployment. Only one exists at a time.
pub(super) struct ChangePermit<'a>(#[allow(dead_code, reason = "a guard")] MutexGuard<'a, ()>);

/// The effect of [`DeploymentTable::withdraw`].
pub(super) enum Withdrawal<R, T> {
    /// The revision was on trial. The trial has ended.
    Trial(Arc<T>),
    /// The revision `from` was active. `to` is now active.
    Active { from: Arc<R>, to: Arc<R> },
}

/// The current deployment and the retained revisions.
pub(super) struct DeploymentTable<R, T> {
    current: AtomicPointer<Deployment<R, T>>,
    /// The retained revisions, the oldest first. The flag is false if the revision was rolled back.
    kept: Mutex<VecDeque<(Arc<R>, bool)>>,
    /// A lock that is held while the deployment is changed.
    changing: Mutex<()>,
}

impl<R: Numbered, T: Numbered> DeploymentTable<R, T> {
    /// Creates a table whose active revision is `first`.
    pub(super) fn new(first: Arc<R>) -> Self {
        let kept = [(Arc::clone(&first), true)].into();
        let deployment = Deployment { active: first, standby: None, trial: None };
        Self {
            current: AtomicPointer::from_pointee(deployment),
            kept: Mutex::new(kept),
            changing: Mutex::new(()),
        }
    }

    /// Returns the current deployment for a short read, without counting a reference.
    pub(super) fn current(&self) -> Loaded<Arc<Deployment<R, T>>> {
        self.current.load()
    }

    /// Returns a counted reference to the current deployment, which can be held for longer.
    pub(super) fn current_full(&self) -> Arc<Deployment<R, T>> {
        self.current.load_full()
    }

    /// Returns the retained revisions, the oldest first. The flag is false if the revision was
    /// rolled back.
    pub(super) fn kept(&self) -> VecDeque<(Arc<R>, bool)> {
        self.lock_kept().clone()
    }

    fn lock_kept(&self) -> MutexGuard<'_, VecDeque<(Arc<R>, bool)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other change is in progress, and returns the permission to change the
    /// deployment.
    pub(super) fn begin_change(&self) -> ChangePermit<'_> {
        ChangePermit(self.changing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the permission to change the deployment. `None` if another change is in progress.
    pub(super) fn try_begin_change(&self) -> Option<ChangePermit<'_>> {
        self.changing.try_lock().ok().map(ChangePermit)
    }

    /// Makes a revision the active one, and ends a running trial. If `before_is_sound` is true, the
    /// previous one becomes the standby, otherwise an earlier one does. Requests in flight complete
    /// on the revision that began them.
    pub(super) fn activate(
        &self,
        permit: &ChangePermit<'_>,
        revision: &Arc<R>,
        before_is_sound: bool,
    ) {
        let standby = if before_is_sound {
            Some(Arc::clone(&self.current.load().active))
        } else {
            self.earlier_sound(permit, revision)
        };
        let active = Arc::clone(revision);
        self.current.store(Arc::new(Deployment { active, standby, trial: None }));
    }

    /// Adds a revision to the retained ones. Drops the oldest beyond `limit`, except those that
    /// serve.
    pub(super) fn keep(&self, _: &ChangePermit<'_>, revision: &Arc<R>, limit: usize) {
        let current = self.current.load_full();
        let serves = |kept: &R| {
            kept.number() == current.active.number()
                || kept.number() == revision.number()
                || current.standby.as_ref().is_some_and(|standby| standby.number() == kept.number())
        };
        let mut kept = self.lock_kept();
        kept.push_back((Arc::clone(revision), true));
        while kept.len() > limit.max(1) {
            let Some(oldest) = kept.iter().position(|(kept, _)| !serves(kept)) else {
                break;
            };
            kept.remove(oldest);
        }
    }

    /// Starts a trial in addition to the active revision.
    pub(super) fn begin_trial(&self, _: &ChangePermit<'_>, trial: Arc<T>) {
        self.set_trial(Some(trial));
    }

    /// Ends the trial of the revision `number`. Returns false if no trial of that revision is
    /// running.
    pub(super) fn end_trial(&self, _: &ChangePermit<'_>, number: u64) -> bool {
        let is_running =
            self.current.load().trial.as_ref().is_some_and(|trial| trial.number() == number);
        if is_running {
            self.set_trial(None);
        }
        is_running
    }

    fn set_trial(&self, trial: Option<Arc<T>>) {
        let current = self.current.load_full();
        self.current.store(Arc::new(Deployment {
            active: Arc::clone(&current.active),
            standby: current.standby.clone(),
            trial,
        }));
    }

    /// Returns the running trial. `None` if there is none, or `judged` is the number of another
    /// revision. A verdict on a replaced trial must not promote its successor.
    pub(super) fn promotable(&self, _: &ChangePermit<'_>, judged: Option<u64>) -> Option<Arc<T>> {
        let trial = self.current.load().trial.clone();
        trial.filter(|trial| judged.is_none_or(|number| number == trial.number()))
    }

    /// Rolls back from the active revision `bad` to `target`, and marks `bad` as rolled back.
    pub(super) fn take_back(&self, permit: &ChangePermit<'_>, bad: u64, target: &Arc<R>) {
        self.mark_rolled_back(bad);
        self.activate(permit, target, false);
    }

    /// Marks the revision `bad` as rolled back. If it is the standby, an earlier one replaces it.
    pub(super) fn discard(&self, permit: &ChangePermit<'_>, bad: u64) {
        self.mark_rolled_back(bad);
        let current = self.current.load_full();
        if current.standby.as_ref().is_some_and(|standby| standby.number() == bad) {
            let standby = self.earlier_sound(permit, &current.active);
            let (active, trial) = (Arc::clone(&current.active), current.trial.clone());
            self.current.store(Arc::new(Deployment { active, standby, trial }));
        }
    }

    fn mark_rolled_back(&self, bad: u64) {
        for (kept, sound) in self.lock_kept().iter_mut() {
            *sound &= kept.number() != bad;
        }
    }

    /// Returns the latest revision before `revision` that was never rolled back.
    fn earlier_sound(&self, _: &ChangePermit<'_>, revision: &R) -> Option<Arc<R>> {
        let kept = self.lock_kept();
        let mut sound =
            kept.iter().rev().filter(|(kept, sound)| *sound && kept.number() < revision.number());
        sound.next().map(|(kept, _)| Arc::clone(kept))
    }

    /// Withdraws the failed revision `number`: ends its trial, or rolls back to the standby.
    /// Returns `None` without a change if the revision no longer serves, or there is no standby.
    pub(super) fn withdraw(
        &self,
        permit: &ChangePermit<'_>,
        number: u64,
    ) -> Option<Withdrawal<R, T>> {
        let current = self.current.load_full();
        if let Some(trial) = &current.trial
            && self.end_trial(permit, number)
        {
            return Some(Withdrawal::Trial(Arc::clone(trial)));
        }
        let to = current.standby.as_ref().filter(|_| current.active.number() == number)?;
        self.take_back(permit, number, to);
        Some(Withdrawal::Active { from: Arc::clone(&current.active), to: Arc::clone(to) })
    }
}
