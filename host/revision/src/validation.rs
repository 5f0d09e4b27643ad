//! Validates a candidate: compiles and tests the candidate before it serves requests.

use std::sync::Arc;

use super::Mode;
use super::change::{Actor, Change, ChangeEvent};
use super::deployment::ChangePermit;
use super::shadow::Shadow;
use super::trial::Trial;
use super::{BundleLabel, Origin, Revision, Revisions, digest, self_test};
use crate::engine::Component;
use crate::engine::background;
use crate::policy::Source;
use crate::{Error, Result, config};

/// A candidate for a new revision: a component, a policy or both.
#[derive(Clone, Debug, Default)]
pub struct Candidate {
    /// The source of the candidate in logs and reports: a file, a bundle, an admin call or a
    /// rollback of another replica.
    pub source: String,
    /// The bytes of the component. `None` to use the component of the active revision.
    pub component: Option<Vec<u8>>,
    /// The policy. `None` to use the policy of the active revision.
    pub policy: Option<Source>,
    /// The rollout mode. `None` to use that of the rollout options.
    pub mode: Option<Mode>,
    /// True if a missing component or policy is taken from the revision on trial, if there is one.
    /// Otherwise it is taken from the active revision.
    pub joins_trial: bool,
    /// The cause of the deployment.
    pub actor: Actor,
    /// True if the candidate is deployed even if another replica of the fleet has rolled it back.
    pub overrides_rollback: bool,
    /// The bundle from which the candidate is made. `None` if it is made from files or an admin
    /// call.
    pub bundle: Option<BundleLabel>,
}

/// The compiled and tested component of a candidate.
pub(super) struct PreparedComponent {
    component: Arc<Component>,
    /// The digest of the active component whose cursors the self-test exchanged with this one. The
    /// component of a retained revision is not tested again: then it is that of the active one.
    tested_with: String,
}

impl Revisions {
    /// Validates a candidate and starts its rollout. Returns the new revision, or `None` if the
    /// candidate equals the active one.
    ///
    /// Compiles the component, checks its imports, compiles the policy and runs the self-test.
    /// Requests continue meanwhile. If a check fails, the active revision continues to serve.
    ///
    /// # Errors
    /// [`Error::Engine`], [`Error::Config`] or [`Error::Refused`], with all issues of the policy or
    /// the first failed test. Also [`Error::Refused`] if the fleet has rolled back the candidate.
    pub fn deploy(&self, candidate: &Candidate) -> Result<Option<Arc<Revision>>> {
        let prepared = self.prepare(candidate);
        self.deploy_prepared(candidate, prepared)
    }

    /// Compiles and tests the component of a candidate, which takes seconds. Does not block other
    /// changes. Returns `None` if the candidate has no component.
    pub(super) fn prepare(&self, candidate: &Candidate) -> Result<Option<PreparedComponent>> {
        candidate.component.as_deref().map(|bytes| self.component(bytes)).transpose()
    }

    /// Deploys a candidate. `prepared` is the result of [`Self::prepare`] for it.
    ///
    /// # Errors
    /// As [`Self::deploy`].
    pub(super) fn deploy_prepared(
        &self,
        candidate: &Candidate,
        prepared: Result<Option<PreparedComponent>>,
    ) -> Result<Option<Arc<Revision>>> {
        let permit = self.table.begin_change();
        match prepared.and_then(|component| self.validate(candidate, component)) {
            Ok(revision) => {
                if let Some(revision) = &revision {
                    self.respect_fleet(candidate, revision)?;
                    self.begin(&permit, revision, candidate)?;
                }
                Ok(revision)
            }
            Err(error) => {
                self.refuse(candidate.actor, &candidate.source, &error);
                Err(error)
            }
        }
    }

    /// Rejects a revision that the fleet has rolled back, unless an operator deploys it.
    fn respect_fleet(&self, candidate: &Candidate, revision: &Revision) -> Result<()> {
        if candidate.actor == Actor::Operator || candidate.overrides_rollback {
            self.fleet.forget_rollback(revision.id());
            return Ok(());
        }
        let Some(rollback) = self.fleet.rollback(revision.id()) else { return Ok(()) };
        let error = Error::Refused(format!(
            "replica {} rolled it back: {}; `context-guard revisions reload` deploys it nevertheless",
            rollback.by, rollback.reason
        ));
        self.refuse(candidate.actor, &candidate.source, &error);
        Err(error)
    }

    /// Reports that the candidate from `source` was rejected because of `error`.
    pub(super) fn refuse(&self, actor: Actor, source: &str, error: &Error) {
        self.report_change(&Change::refused(
            self.active().number,
            actor,
            source,
            &error.to_string(),
        ));
    }

    fn validate(
        &self,
        candidate: &Candidate,
        prepared: Option<PreparedComponent>,
    ) -> Result<Option<Arc<Revision>>> {
        let active = self.active();
        let trial = self.trial().filter(|_| candidate.joins_trial);
        let base = trial.map_or_else(|| Arc::clone(&active), |trial| Arc::clone(&trial.revision));
        let component = match prepared {
            Some(prepared) => {
                // Another component became active while this one was compiled.
                if prepared.tested_with != active.component.digest() {
                    self_test::run(&prepared.component, Some(&active.component))?;
                }
                prepared.component
            }
            None => Arc::clone(&base.component),
        };
        let policy = &candidate.policy.as_ref().map_or_else(|| base.policy.clone(), Source::json);
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
        candidate.policy.as_ref().map_or(Ok(()), |policy| self.check_policy(policy))?;
        let version = component.describe(&self.services)?.version;
        let origin = Origin {
            source: candidate.source.clone(),
            version,
            component: component.digest().to_owned(),
            policy: policy_digest,
            since_ms: self.services.now_ms(),
            bundle: candidate.bundle.clone(),
        };
        let (number, keys) = {
            let mut ledger = self.ledger();
            ledger.last += 1;
            (ledger.last, ledger.keys.verifying())
        };
        let revision = Revision::new(number, component, policy, compiled, keys, origin);
        self_test::under_policy(&revision.component, &revision.settings.load())?;
        Ok(Some(Arc::new(revision)))
    }

    /// Returns the component with these bytes. Uses that of a retained revision, or compiles and
    /// tests a new one.
    fn component(&self, bytes: &[u8]) -> Result<PreparedComponent> {
        let digest = digest(bytes);
        let active = self.active();
        let tested_with = active.component.digest().to_owned();
        let kept = {
            let mut all =
                self.table.kept().into_iter().map(|(kept, _)| Arc::clone(&kept.component));
            all.find(|kept| kept.digest() == digest)
        };
        if let Some(component) = kept {
            return Ok(PreparedComponent { component, tested_with });
        }
        background::run(|| {
            let component = Arc::new(Component::load(active.component.engine(), bytes)?);
            self_test::run(&component, Some(&active.component))?;
            Ok(PreparedComponent { component, tested_with })
        })
    }

    /// Starts the rollout of a valid revision. Changes nothing if the thread of a shadow cannot
    /// start.
    fn begin(
        &self,
        permit: &ChangePermit<'_>,
        revision: &Arc<Revision>,
        candidate: &Candidate,
    ) -> Result<()> {
        let (mode, actor) = (candidate.mode.unwrap_or(self.options.mode), candidate.actor);
        let shadow = (mode == Mode::Shadow)
            .then(|| Shadow::start(Arc::clone(revision), &self.services))
            .transpose()
            .inspect_err(|error| self.refuse(actor, &candidate.source, error))?;
        let before = self.table.current_full();
        if let Some(running) = &before.trial {
            self.end_trial(permit, running, actor, "another candidate was deployed", false);
        }
        if mode == Mode::Swap {
            self.activate(permit, revision);
            self.report_change(&Change::between(
                ChangeEvent::Activated,
                actor,
                &before.active,
                revision,
                "",
            ));
            return Ok(());
        }
        let options = super::RolloutOptions { mode, ..self.options.clone() };
        let trial = Trial::new(Arc::clone(revision), &options, &before.active.stats, shadow);
        let reason = match mode {
            Mode::Shadow => "it shapes copies of the answers".to_owned(),
            _ => format!("it takes {} % of the sessions", trial.percent()),
        };
        self.table.begin_trial(permit, Arc::new(trial));
        self.report_change(&Change::between(
            ChangeEvent::TrialBegan,
            actor,
            &before.active,
            revision,
            &reason,
        ));
        Ok(())
    }
}
