//! Follows the rollbacks and promotions of other replicas.

use std::sync::Arc;

use super::Record;
use crate::{Actor, Candidate, Mode, Revision, Revisions, stats};

impl Revisions {
    /// Follows the decisions of other replicas. Also withdraws a revision that failed too often at
    /// all replicas together.
    pub(super) fn follow_fleet(&self) {
        let current = self.table.current_full();
        let trial = current.trial.as_ref();
        for revision in trial.map(|trial| &trial.revision).into_iter().chain([&current.active]) {
            if let Some(record) = self.fleet.rollback(revision.id()) {
                self.follow_rollback(revision, &record);
                continue;
            }
            let windows = self.fleet.state().windows(revision.id());
            if let Some(reason) = stats::rollback_reason(&windows, &self.options.limits) {
                let reason = format!("at {} replicas, {reason}", windows.len());
                self.withdraw(&self.table.begin_change(), revision.number, &reason, true);
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
        if self.withdraw(&self.table.begin_change(), revision.number, &reason, false) {
            return;
        }
        // A replica that started after the rollback has no earlier revision.
        let Some(target) = self.fleet.next_target(revision.id(), record) else { return };
        if target.component != revision.origin.component || target.policy == revision.policy {
            return;
        }
        let policy = serde_json::from_str(&target.policy).ok();
        let candidate = Candidate {
            source: format!("rollback of replica {}", record.by),
            policy: Some(crate::policy::Source::inline(policy)),
            mode: Some(Mode::Swap),
            actor: Actor::Gateway,
            ..Candidate::default()
        };
        // The refusal is reported.
        if let Ok(Some(_)) = self.deploy(&candidate) {
            self.table.discard(&self.table.begin_change(), revision.number);
        }
    }
}
