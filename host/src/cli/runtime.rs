//! The guard, ready for a command.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use context_guard::clock::SystemClock;
use context_guard::engine::{Component, Engine, EngineOptions, SigningKey, Surroundings};
use context_guard::store::{MemoryLimits, MemoryStore};
use context_guard::{Clock, Filter, embedded_component, policy_file};

use super::GuardOptions;

/// What a filter is made of.
pub(crate) struct Guard {
    /// As JSON; empty: the default policy.
    pub(crate) policy: String,
    /// None: the one inside this program.
    pub(crate) component: Option<PathBuf>,
    pub(crate) engine: EngineOptions,
    pub(crate) store: MemoryLimits,
}

impl Guard {
    /// Loads component and policy.
    pub(crate) fn build(&self, keys: Vec<SigningKey>) -> Result<Filter> {
        let engine = Engine::new(self.engine.clone())?;
        let component = match &self.component {
            Some(path) => {
                let bytes = std::fs::read(path)
                    .with_context(|| format!("the component {} cannot be read", path.display()))?;
                Component::load(&engine, &bytes)?
            }
            None => {
                let embedded = embedded_component().ok_or_else(|| {
                    anyhow!("this program was built without the guard component: build it with `cargo xtask build`, or name one with --component FILE")
                })?;
                Component::load(&engine, embedded)?
            }
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let store = Arc::new(MemoryStore::new(Arc::clone(&clock), self.store));
        Ok(Filter::new(Arc::new(component), Surroundings { store, clock }, &self.policy, keys)?)
    }
}

impl GuardOptions {
    /// Loads component and policy, to be shared.
    pub(crate) fn filter(&self, keys: Vec<SigningKey>) -> Result<Arc<Filter>> {
        self.build(keys).map(Arc::new)
    }

    /// Loads component and policy.
    pub(crate) fn build(&self, keys: Vec<SigningKey>) -> Result<Filter> {
        let policy = match &self.policy {
            Some(path) => policy_file::read(path)?,
            None => String::new(),
        };
        let guard = Guard {
            policy,
            component: self.component.clone(),
            engine: EngineOptions::default(),
            store: MemoryLimits::default(),
        };
        guard.build(keys)
    }
}
