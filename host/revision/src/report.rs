//! The report of all revisions.

use serde_json::{Value, json};

use super::{Revision, Revisions};

impl Revisions {
    /// Returns a JSON report of the retained revisions, of the trial and of the fleet.
    #[must_use]
    pub fn report(&self) -> Value {
        let current = self.table.current_full();
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
        let kept = self.table.kept();
        let kept: Vec<Value> =
            kept.iter().rev().map(|(kept, sound)| kept.json(state(kept, *sound))).collect();
        let trial = current.trial.as_ref().map(|trial| trial.json(&current.active, &self.options));
        json!({
            "active": current.active.number,
            "generations": kept,
            "trial": trial,
            "fleet": self.fleet.report(),
        })
    }
}
