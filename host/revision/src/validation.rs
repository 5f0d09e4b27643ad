//! Validates a candidate: compiles and tests it before it serves requests.

use std::sync::Arc;

use super::Mode;
use super::change::{Change, ChangeEvent};
use super::shadow::Shadow;
use super::trial::Trial;
use super::{Deployment, Origin, Revision, Revisions, digest, self_test};
use crate::engine::Component;
use crate::engine::background;
use crate::policy::Source;
use crate::{Error, Result, config};

/// A candidate for a new revision: a component, a policy or both.
#[derive(Clone, Debug, Default)]
pub struct Candidate {
    /// The source in logs and reports: a file or an admin call.
    pub source: String,
    /// The bytes of the component; `None` for that of the active revision.
    pub component: Option<Vec<u8>>,
    /// The policy; `None` for that of the active revision.
    pub policy: Option<Source>,
    /// The rollout mode; `None` for that of the rollout options.
    pub mode: Option<Mode>,
}

impl Revisions {
    /// Validates a candidate and starts its rollout. Returns the new revision, or `None` if it
    /// equals the active one.
    ///
    /// Compiles the component, checks its imports, compiles the policy and runs the self-test.
    /// Requests do not wait meanwhile. If a check fails, the active revision continues to serve.
    ///
    /// # Errors
    /// [`Error::Engine`], [`Error::Config`] or [`Error::Refused`] with all reasons that were found.
    pub fn deploy(&self, candidate: &Candidate) -> Result<Option<Arc<Revision>>> {
        let _turn = self.change();
        match self.validate(candidate) {
            Ok(revision) => {
                if let Some(revision) = &revision {
                    self.begin(revision, candidate.mode.unwrap_or(self.options.mode));
                }
                Ok(revision)
            }
            Err(error) => {
                self.refuse(&candidate.source, &error);
                Err(error)
            }
        }
    }

    /// Reports that a candidate was rejected. `source` is where it came from.
    pub(super) fn refuse(&self, source: &str, error: &Error) {
        self.tell(&Change::refused(self.active().number, source, &error.to_string()));
    }

    fn validate(&self, candidate: &Candidate) -> Result<Option<Arc<Revision>>> {
        let active = self.active();
        let component = match &candidate.component {
            Some(bytes) => self.component(bytes)?,
            None => Arc::clone(&active.component),
        };
        let policy = &candidate.policy.as_ref().map_or_else(|| active.policy.clone(), Source::json);
        let policy_digest = digest(policy.as_bytes());
        if component.digest() == active.component.digest() && policy_digest == active.origin.policy
        {
            return Ok(None);
        }
        let compiled = component.compile_policy(&self.services, policy);
        let compiled = compiled.map_err(|error| match (Error::from(error), &candidate.policy) {
            (Error::Config(config::Error::Policy(issues)), Some(source)) => {
                source.located(issues).into()
            }
            (error, _) => error,
        })?;
        let version = component.describe(&self.services)?.version;
        let origin = Origin {
            source: candidate.source.clone(),
            version,
            component: component.digest().to_owned(),
            policy: policy_digest,
            since_ms: self.services.now_ms(),
        };
        let (number, keys) = {
            let mut ledger = self.ledger();
            ledger.last += 1;
            (ledger.last, ledger.keys.clone())
        };
        let revision = Revision::new(number, component, policy, compiled, keys, origin);
        self_test::under_policy(&revision.component, &revision.settings.load())?;
        Ok(Some(Arc::new(revision)))
    }

    /// Returns the component with these bytes, from a retained revision if possible. A new one must
    /// pass the self-test.
    fn component(&self, bytes: &[u8]) -> Result<Arc<Component>> {
        let digest = digest(bytes);
        let kept = {
            let ledger = self.ledger();
            let mut all = ledger.kept.iter().map(|(kept, _)| &kept.component);
            all.find(|kept| kept.digest() == digest).map(Arc::clone)
        };
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let active = self.active();
        background::run(|| {
            let component = Component::load(active.component.engine(), bytes)?;
            self_test::run(&component, Some(&active.component))?;
            Ok(Arc::new(component))
        })
    }

    fn begin(&self, revision: &Arc<Revision>, mode: Mode) {
        let before = self.current.load_full();
        if let Some(running) = &before.trial {
            self.end_trial(running, "another candidate was deployed");
        }
        if mode == Mode::Swap {
            self.keep(revision);
            self.activate(revision, true);
            self.tell(&Change::between(ChangeEvent::Activated, &before.active, revision, ""));
            return;
        }
        let shadow = (mode == Mode::Shadow)
            .then(|| Shadow::start(Arc::clone(revision), &self.services))
            .and_then(Result::ok);
        let options = super::RolloutOptions { mode, ..self.options.clone() };
        let trial = Trial::new(Arc::clone(revision), &options, &before.active.stats, shadow);
        let reason = match mode {
            Mode::Shadow => "it shapes copies of the answers".to_owned(),
            _ => format!("it takes {} % of the sessions", trial.percent()),
        };
        self.current.store(Arc::new(Deployment {
            active: Arc::clone(&before.active),
            standby: before.standby.clone(),
            trial: Some(Arc::new(trial)),
        }));
        self.tell(&Change::between(ChangeEvent::TrialBegan, &before.active, revision, &reason));
    }
}
