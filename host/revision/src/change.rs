//! Changes of revisions, as the log, the audit log and the metrics report them.

use serde::Serialize;
use serde_json::Value;
use tracing::{error, info, warn};

use super::Revision;
use super::key_ring::short;
use crate::engine::SigningKey;
use crate::policy::{Difference, diff};

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeEvent {
    /// A new revision serves all sessions.
    Activated,
    /// The trial of a new revision began.
    TrialBegan,
    /// The revision on trial serves a larger share of sessions.
    Step,
    /// A trial succeeded: its revision serves all sessions.
    Promoted,
    /// An earlier revision was reactivated, or a trial ended without a promotion.
    RolledBack,
    /// A candidate was rejected.
    Refused,
    /// The signing keys were replaced.
    Keys,
}

impl ChangeEvent {
    /// Returns the name of the event in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Activated => "activated",
            Self::TrialBegan => "trial_began",
            Self::Step => "step",
            Self::Promoted => "promoted",
            Self::RolledBack => "rolled_back",
            Self::Refused => "refused",
            Self::Keys => "keys",
        }
    }
}

/// The cause of a change, with its name in the audit log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    /// An operator, with an admin call.
    Operator,
    /// A changed file.
    #[default]
    Files,
    /// A new bundle.
    Bundle,
    /// The gateway, which promoted or rolled back a revision automatically.
    Gateway,
}

impl Actor {
    /// Returns the name of the cause in the audit log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Files => "files",
            Self::Bundle => "bundle",
            Self::Gateway => "gateway",
        }
    }
}

/// A change of revisions or signing keys, with old and new values but without secrets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The kind of the change.
    pub event: ChangeEvent,
    /// The cause of the change.
    pub actor: Actor,
    /// The number of the revision before the change.
    pub from: u64,
    /// The number of the revision after the change. If a candidate was rejected, the number of the
    /// active revision.
    pub to: u64,
    /// The source of the revision after the change, or of the rejected candidate: a file path, a
    /// bundle, an admin call, a rollback of another replica, or the start of the process. `signing
    /// keys` for a change of keys.
    pub source: String,
    /// The reason for the change or the rejection. May be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The differences between the policies and components of both revisions, or between the keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
}

impl Change {
    pub(super) fn between(
        event: ChangeEvent,
        actor: Actor,
        from: &Revision,
        to: &Revision,
        reason: &str,
    ) -> Self {
        let document = |policy: &str| serde_json::from_str::<Value>(policy).unwrap_or_default();
        let mut differences = diff(&document(&from.policy), &document(&to.policy));
        if from.origin.component != to.origin.component {
            let told = |revision: &Revision| {
                format!("{} {}", revision.origin.version, revision.origin.component).into()
            };
            let path = "component".to_owned();
            differences.push(Difference { path, old: told(from), new: told(to) });
        }
        Self {
            event,
            actor,
            from: from.number,
            to: to.number,
            source: to.origin.source.clone(),
            reason: reason.to_owned(),
            differences,
        }
    }

    pub(super) fn refused(stays: u64, actor: Actor, source: &str, reason: &str) -> Self {
        let (source, reason) = (source.to_owned(), reason.to_owned());
        Self {
            event: ChangeEvent::Refused,
            actor,
            from: stays,
            to: stays,
            source,
            reason,
            differences: Vec::new(),
        }
    }

    /// Creates the record of a change of signing keys. Each key is described by the first digits of
    /// its digest. `number` is the number of the active revision.
    pub(super) fn keys(number: u64, before: &[SigningKey], after: &[SigningKey]) -> Self {
        let told = |keys: &[SigningKey]| -> Value { keys.iter().map(short).collect() };
        let path = "signingKeys".to_owned();
        let differences = vec![Difference { path, old: told(before), new: told(after) }];
        Self {
            event: ChangeEvent::Keys,
            actor: Actor::Files,
            from: number,
            to: number,
            source: "signing keys".to_owned(),
            reason: String::new(),
            differences,
        }
    }

    pub(super) fn log(&self) {
        let Self { from, to, source, reason, differences, .. } = self;
        let changed = serde_json::to_string(differences).unwrap_or_default();
        match self.event {
            ChangeEvent::Refused => {
                error!(
                    revision = to,
                    source, "candidate rejected, revision {to} continues to serve: {reason}"
                );
            }
            ChangeEvent::RolledBack => {
                warn!(from, to, "revision {from} was rolled back, revision {to} serves: {reason}");
            }
            event => info!(from, to, source, reason, changed, "revision change: {}", event.name()),
        }
    }
}
