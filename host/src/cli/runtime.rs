//! Builds the guard for a command, and reloads its files while it runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use context_guard::clock::SystemClock;
use context_guard::config::{self, Config, Policy};
use context_guard::document::Issues;
use context_guard::engine::{
    Component, Engine, EngineOptions, HostServices, SigningKey, compiled_folder,
};
use context_guard::filter::FilterOptions;
use context_guard::policy::Source;
use context_guard::revision::{
    self, Content, Error, Revisions, RolloutOptions, Sources, VerificationPolicy,
};
use context_guard::store::{self, CursorStore, MemoryLimits, MemoryStore, StoreOptions};
use context_guard::{Clock, Filter, embedded_component, keys};
use tracing::warn;

use super::GuardOptions;

/// Returns the options of the WebAssembly engine that a gateway file's `component` sets.
pub(crate) fn engine_options(component: &config::Component) -> EngineOptions {
    EngineOptions {
        max_memory: component.memory_bytes,
        deadline: Duration::from_millis(component.deadline_ms),
        ..EngineOptions::default()
    }
}

/// Loads the guard component from the file that `content` names, or else the embedded one.
fn component(content: &Content, options: EngineOptions) -> Result<Arc<Component>> {
    let engine = Engine::new(EngineOptions { compiled: compiled_folder(), ..options })?;
    let component = match &content.component {
        Some((path, trust)) => Component::load(&engine, &revision::read_component(path, trust)?)?,
        None => {
            let embedded = embedded_component().ok_or_else(|| {
                anyhow!("this program has no embedded guard component: build it with `cargo xtask build` or pass --component FILE")
            })?;
            Component::load(&engine, embedded)?
        }
    };
    Ok(Arc::new(component))
}

/// Creates the revisions of a gateway. The first one consists of the policy and component in
/// `content`.
pub(crate) fn revisions(
    content: &Content,
    engine: EngineOptions,
    services: HostServices,
    keys: Vec<SigningKey>,
    options: RolloutOptions,
) -> Result<Arc<Revisions>> {
    let policy = content.policy.json();
    let revisions = Revisions::new(component(content, engine)?, services, &policy, keys, options);
    Ok(revisions.map(Arc::new).map_err(|error| located(error, &content.policy))?)
}

fn located(error: Error, policy: &Source) -> Error {
    match error {
        Error::Config(config::Error::Policy(issues)) => policy.located(issues).into(),
        error => error,
    }
}

fn in_memory(clock: Arc<dyn Clock>) -> HostServices {
    let store = Arc::new(MemoryStore::new(Arc::clone(&clock), MemoryLimits::default()));
    HostServices { store, clock }
}

impl GuardOptions {
    /// Reads the policy and component files that the command line options name.
    fn content(&self) -> Result<Content, Error> {
        let policy = match &self.policy {
            Some(path) => Source::read(path)?,
            None => Source::inline(None),
        };
        let files = self.policy.iter().chain(&self.component).cloned().collect();
        let component = self.component.clone().map(|path| (path, VerificationPolicy::Any));
        Ok(Content { policy, component, keys: None, files })
    }

    /// Builds a filter that runs the guard as these options say. `keys` sign its cursors.
    pub(crate) fn build(&self, keys: Vec<SigningKey>, clock: Arc<dyn Clock>) -> Result<Filter> {
        Ok(Filter::with_options(self.revisions(keys, clock)?, FilterOptions::default()))
    }

    /// Creates the revisions of a filter. The first one consists of the policy and component that
    /// these options name. `keys` sign its cursors.
    pub(crate) fn revisions(
        &self,
        keys: Vec<SigningKey>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Revisions>> {
        let (content, options) = (self.content()?, RolloutOptions::default());
        revisions(&content, EngineOptions::default(), in_memory(clock), keys, options)
    }

    /// Starts to watch the policy and component files, and reloads them when they change, as long
    /// as the filter exists.
    pub(crate) fn watch(&self, filter: &Filter) -> Result<()> {
        let options = self.clone();
        let sources = Arc::new(Sources::new(move || options.content()));
        if !sources.files().is_empty() {
            revision::watch(filter.revisions(), sources)?;
        }
        Ok(())
    }

    /// Validates the policy that the options name and returns its warnings.
    pub(crate) fn check(&self) -> Result<Issues> {
        check(&self.content()?)
    }
}

/// Validates the policy in `content` with its component and returns the warnings.
pub(crate) fn check(content: &Content) -> Result<Issues> {
    let compiled = component(content, EngineOptions::default())?
        .compile_policy(&in_memory(Arc::new(SystemClock)), &content.policy.json())
        .map_err(|error| located(error.into(), &content.policy))?;
    Ok(revision::policy_issues(&compiled.warnings))
}

/// The files of a gateway, in particular for reading them again at each reload.
pub(crate) struct GatewayFiles {
    pub(crate) config: PathBuf,
    /// The component file that the command line names instead of the gateway file.
    pub(crate) component: Option<PathBuf>,
}

impl GatewayFiles {
    /// Reads the gateway file and the files it names.
    pub(crate) fn content(&self) -> Result<Content, Error> {
        self.content_for(&config::read(&self.config)?)
    }

    /// Reads the files that a parsed gateway file names.
    pub(crate) fn content_for(&self, config: &Config) -> Result<Content, Error> {
        let mut files = vec![self.config.clone()];
        let policy = match &config.policy {
            Some(Policy::File(path)) => {
                let path = config.folder.join(path);
                files.push(path.clone());
                Source::read(&path)?
            }
            Some(Policy::Inline(policy)) => Source::inline(Some(policy.clone())),
            None => Source::inline(None),
        };
        let named = config.component.file.as_ref().map(|file| config.folder.join(file));
        let component = match self.component.clone().or(named) {
            Some(path) => {
                let trust = VerificationPolicy::configured(&config.component)?;
                files.push(path.clone());
                files.extend(trust.sidecar(&path));
                Some((path, trust))
            }
            None => None,
        };
        files.extend(config.signing_keys.iter().flat_map(|key| key.files().iter().cloned()));
        Ok(Content { policy, component, keys: signing_keys(config), files })
    }
}

/// Returns the signing keys of the configuration, or else those of the environment. `None` if
/// neither has any.
fn signing_keys(config: &Config) -> Option<Vec<SigningKey>> {
    let keys = config.signing_keys.iter().enumerate().map(|(at, key)| SigningKey {
        id: at.to_string(),
        secret: key.expose().as_bytes().to_vec(),
    });
    let keys: Vec<SigningKey> = keys.collect();
    if keys.is_empty() { keys::from_environment() } else { Some(keys) }
}

/// Returns `keys`, or a random signing key for this run if they are `None`.
pub(crate) fn keys_or_random(keys: Option<Vec<SigningKey>>) -> Result<Vec<SigningKey>> {
    match keys {
        Some(keys) => Ok(keys),
        None => {
            warn!(
                "no signing key is configured (signingKeys or {}): cursors become invalid when this process ends",
                keys::VARIABLE
            );
            Ok(vec![keys::random()?])
        }
    }
}

/// Opens the cursor store that a configuration names.
pub(crate) fn store(config: &Config, clock: &Arc<dyn Clock>) -> Result<Arc<dyn CursorStore>> {
    let options = StoreOptions {
        url: config.store.url.expose(),
        prefix: &config.store.prefix,
        timeout: Duration::from_millis(config.store.timeout_ms),
        memory_bytes: config.limits.store_bytes,
        local_bytes: config.store.local_bytes,
    };
    Ok(store::open(&options, clock)?)
}
