//! Ends trials and rolls back revisions, and reports these changes.

use super::Revisions;
use crate::deployment::{ChangePermit, Withdrawal};
use crate::{Actor, Change, ChangeEvent, Revision, Trial};

impl Revisions {
    /// Reports that a trial ended without a promotion. If `failed` is true, records it as a
    /// rollback. The other replicas follow if `is_shared` is true.
    pub(super) fn report_end_of_trial(
        &self,
        trial: &Trial,
        actor: Actor,
        reason: &str,
        failed: bool,
        is_shared: bool,
    ) {
        let (from, to) = (&trial.revision, &self.active());
        let now = self.services.now_ms();
        if failed {
            self.ledger().rolled_back.add(from, to, reason, now);
        }
        if is_shared {
            self.fleet.add_rollback(from, to, reason, now);
        }
        self.report_change(&Change::between(ChangeEvent::RolledBack, actor, from, to, reason));
    }

    /// Withdraws the revision `number`: ends its trial, or rolls it back, and reports that. The
    /// other replicas follow if `is_shared` is true.
    ///
    /// Returns false if the revision no longer serves, or is active and has no standby.
    pub(crate) fn withdraw(
        &self,
        permit: &ChangePermit<'_>,
        number: u64,
        reason: &str,
        is_shared: bool,
    ) -> bool {
        match self.table.withdraw(permit, number) {
            Some(Withdrawal::Trial(trial)) => {
                self.report_end_of_trial(&trial, Actor::Gateway, reason, true, is_shared);
            }
            Some(Withdrawal::Active { from, to }) => {
                self.report_rollback(&from, &to, Actor::Gateway, reason, is_shared);
            }
            None => return false,
        }
        true
    }

    /// Records and reports the rollback from `bad` to `target`. The other replicas follow if
    /// `is_shared` is true.
    pub(super) fn report_rollback(
        &self,
        bad: &Revision,
        target: &Revision,
        actor: Actor,
        reason: &str,
        is_shared: bool,
    ) {
        let now = self.services.now_ms();
        let mut ledger = self.ledger();
        ledger.rolled_back.forget(target);
        ledger.rolled_back.add(bad, target, reason, now);
        drop(ledger);
        if is_shared {
            self.fleet.forget_rollback(target.id());
            self.fleet.add_rollback(bad, target, reason, now);
        }
        self.report_change(&Change::between(ChangeEvent::RolledBack, actor, bad, target, reason));
    }
}
