//! How something new is taken in: read, checked, compiled, tested, and only then given to requests.

use std::sync::Arc;

use super::Mode;
use super::change::{Change, Event};
use super::shadow::Shadow;
use super::trial::Trial;
use super::{Current, Generation, Generations, Origin, digest, selftest};
use crate::engine::Component;
use crate::engine::background::aside;
use crate::policy::Source;
use crate::{Error, Result, config};

/// Something new.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// Where it comes from, for the record.
    pub source: String,
    /// Another component; none: the active one.
    pub component: Option<Vec<u8>>,
    /// Another policy; none: the active one.
    pub policy: Option<Source>,
    /// How it comes in, where that is not what the options say.
    pub mode: Option<Mode>,
}

impl Generations {
    /// Takes something new in (R004): compiles it, checks its world, asks it what it is, compiles the policy, runs the self-test, and begins to use it. None where it is what
    /// serves already. Where anything is wrong it is refused, and what serves serves on. Takes as long as compiling does; requests do not wait for it.
    ///
    /// # Errors
    /// [`Error::Engine`], [`Error::Policy`], [`Error::Refused`], each with every reason that was found.
    pub fn offer(&self, offer: &Offer) -> Result<Option<Arc<Generation>>> {
        let _turn = self.change();
        match self.admit(offer) {
            Ok(generation) => {
                if let Some(generation) = &generation {
                    self.begin(generation, offer.mode.unwrap_or(self.options.mode));
                }
                Ok(generation)
            }
            Err(error) => {
                self.refuse(&offer.source, &error);
                Err(error)
            }
        }
    }

    /// Tells that something could not be taken in.
    pub(super) fn refuse(&self, source: &str, error: &Error) {
        self.tell(&Change::refused(self.active().number, source, &error.to_string()));
    }

    fn admit(&self, offer: &Offer) -> Result<Option<Arc<Generation>>> {
        let active = self.active();
        let component = match &offer.component {
            Some(bytes) => self.component(bytes)?,
            None => Arc::clone(&active.component),
        };
        let policy = &offer.policy.as_ref().map_or_else(|| active.policy.clone(), Source::json);
        let policy_digest = digest(policy.as_bytes());
        if component.digest() == active.component.digest() && policy_digest == active.origin.policy
        {
            return Ok(None);
        }
        let compiled = component.compile_policy(&self.surroundings, policy);
        let compiled = compiled.map_err(|error| match (Error::from(error), &offer.policy) {
            (Error::Config(config::Error::Policy(issues)), Some(source)) => {
                source.located(issues).into()
            }
            (error, _) => error,
        })?;
        let version = component.describe(&self.surroundings)?.version;
        let origin = Origin {
            source: offer.source.clone(),
            version,
            component: component.digest().to_owned(),
            policy: policy_digest,
            since_ms: self.surroundings.now_ms(),
        };
        let (number, keys) = {
            let mut ledger = self.ledger();
            ledger.last += 1;
            (ledger.last, ledger.keys.clone())
        };
        let generation = Generation::new(number, component, policy, compiled, keys, origin);
        selftest::under_policy(&generation.component, &generation.settings.load())?;
        Ok(Some(Arc::new(generation)))
    }

    /// The component of these bytes: one that is kept, or a new one that has passed the self-test.
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
        aside(|| {
            let component = Component::load(active.component.engine(), bytes)?;
            selftest::run(&component, Some(&active.component))?;
            Ok(Arc::new(component))
        })
    }

    fn begin(&self, generation: &Arc<Generation>, mode: Mode) {
        let before = self.current.load_full();
        if let Some(running) = &before.trial {
            self.end_trial(running, "another generation was offered");
        }
        if mode == Mode::Swap {
            self.keep(generation);
            self.activate(generation, true);
            self.tell(&Change::between(Event::Activated, &before.active, generation, ""));
            return;
        }
        let shadow = (mode == Mode::Shadow)
            .then(|| Shadow::start(Arc::clone(generation), &self.surroundings))
            .and_then(Result::ok);
        let options = super::RolloutOptions { mode, ..self.options.clone() };
        let trial = Trial::new(Arc::clone(generation), &options, &before.active.numbers, shadow);
        let reason = match mode {
            Mode::Shadow => "it shapes beside the active one".to_owned(),
            _ => format!("it takes {} % of the sessions", trial.percent()),
        };
        self.current.store(Arc::new(Current {
            active: Arc::clone(&before.active),
            standby: before.standby.clone(),
            trial: Some(Arc::new(trial)),
        }));
        self.tell(&Change::between(Event::TrialBegan, &before.active, generation, &reason));
    }
}
