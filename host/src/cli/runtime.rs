//! Builds the guard for a command, and reloads its files while it runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use context_guard::clock::SystemClock;
use context_guard::code::Sandbox;
use context_guard::config::{self, Config, Policy};
use context_guard::document::Issues;
use context_guard::engine::{
    AddressSpace, Component, Engine, EngineOptions, HostServices, SigningKey, compiled_folder,
    digest,
};
use context_guard::filter::FilterOptions;
use context_guard::policy::Source;
use context_guard::revision::{
    self, Error, Layout, PolicyPlace, Revisions, RolledBack, RolloutOptions, Sources,
    VerificationPolicy,
};
use context_guard::store::{self, CursorStore, MemoryLimits, MemoryStore, StoreOptions};
use context_guard::{Clock, Filter, embedded_component, embedded_sandbox, keys};
use tracing::warn;

use super::GuardOptions;
use super::bundle_follower::CurrentBundle;

/// The maximum number of concurrent guard calls for one client.
const SINGLE_CLIENT_CALLS: u32 = 4;

/// Returns the options of the WebAssembly engine that a gateway file's `component` sets.
pub(crate) fn engine_options(component: &config::Component) -> EngineOptions {
    EngineOptions {
        max_memory: component.memory_bytes,
        deadline: Duration::from_millis(component.deadline_ms),
        block: |wait| tokio::task::block_in_place(wait),
        ..EngineOptions::default()
    }
}

/// Returns the engine options for one client, whose messages arrive one after the other in each
/// direction.
///
/// Two calls run at a time, and two more while a revision is tested. Each call reserves only its
/// maximum memory, so that the process remains below 4 GB of address space.
fn single_client_engine() -> EngineOptions {
    EngineOptions {
        address_space: AddressSpace::Bounded,
        max_calls: SINGLE_CLIENT_CALLS,
        ..EngineOptions::default()
    }
}

/// Loads the guard component in the file that `layout` names, or the embedded one. A component that
/// `record` lists as rolled back is replaced by the one before it.
fn component(
    layout: &Layout,
    options: EngineOptions,
    record: &RolledBack,
) -> Result<Arc<Component>> {
    let engine = Engine::new(EngineOptions { compiled: compiled_folder(), ..options })?;
    let component = match layout.component()? {
        Some(bytes) => {
            let path = layout.component.as_ref().map(|(path, _)| path.clone());
            let bundle = layout.bundle.as_ref().filter(|bundle| bundle.component.is_some());
            let name = bundle.map(|bundle| bundle.name().into()).or(path).unwrap_or_default();
            let bytes = record.component_instead_of(&name, &bytes).unwrap_or(bytes);
            Component::load(&engine, &bytes)?
        }
        None => {
            let embedded = embedded_component().ok_or_else(|| {
                anyhow!("this program has no embedded guard component: build it with `cargo xtask build` or pass --component FILE")
            })?;
            Component::load_embedded(&engine, embedded)?
        }
    };
    Ok(Arc::new(component))
}

/// Creates the revisions of a gateway. The first one has the policy and component in `layout`. A
/// policy or component that was rolled back before this start is replaced by the one that was
/// active afterwards.
pub(crate) fn revisions(
    layout: &Layout,
    engine: EngineOptions,
    services: HostServices,
    keys: Vec<SigningKey>,
    options: RolloutOptions,
) -> Result<Arc<Revisions>> {
    let record = layout.file.as_deref().and_then(rollback_record).unwrap_or_default();
    let policy = layout.policy()?;
    let json = record.policy_instead_of(&policy).unwrap_or_else(|| policy.json());
    let component = component(layout, engine, &record)?;
    let bundle = layout.bundle.as_ref().map(|bundle| bundle.label.clone());
    let revisions = Revisions::from_bundle(component, services, &json, keys, options, bundle);
    let revisions = revisions.map_err(|error| located(error, &policy))?;
    revisions.remember_rollbacks(record);
    Ok(Arc::new(revisions))
}

/// Compiles the sandbox for programs. `None` if the gateway file does not enable it. The sandbox
/// shares the engine of the guard component.
pub(crate) fn sandbox(config: &Config, revisions: &Revisions) -> Result<Option<Arc<Sandbox>>> {
    if !config.code.enabled {
        return Ok(None);
    }
    let engine = revisions.active().component().engine().clone();
    let sandbox = match (&config.code.file, embedded_sandbox()) {
        (Some(file), _) => {
            let file = config.folder.join(file);
            let bytes = std::fs::read(&file).with_context(|| file.display().to_string())?;
            Sandbox::load(&engine, &bytes).with_context(|| file.display().to_string())?
        }
        (None, Some(embedded)) => Sandbox::load_embedded(&engine, embedded)?,
        (None, None) => bail!(
            "code.enabled: this program has no embedded sandbox: build it with `cargo xtask build`, which needs clang, or set code.file"
        ),
    };
    Ok(Some(Arc::new(sandbox)))
}

/// Opens the record of rollbacks for this gateway file, in a folder next to the cache of compiled
/// components. Returns `None` if there is no folder for it.
fn rollback_record(gateway_file: &Path) -> Option<RolledBack> {
    let folder = compiled_folder()?.parent()?.join("rollbacks");
    Some(RolledBack::open(folder.join(record_name(gateway_file)?)))
}

/// Returns the file with the last lists of the upstreams of this gateway file, in the user's state
/// folder. `None` if there is no folder for it.
pub(crate) fn list_file(gateway_file: &Path) -> Option<PathBuf> {
    Some(config::state_folder().ok()?.join("lists").join(record_name(gateway_file)?))
}

/// Returns the name of a file with records about this gateway file.
fn record_name(gateway_file: &Path) -> Option<String> {
    let name = digest(std::path::absolute(gateway_file).ok()?.as_os_str().as_encoded_bytes());
    Some(format!("{}.json", name.get(..16)?))
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
    /// Returns the locations of the policy and component in the command line options.
    fn layout(&self) -> Layout {
        let policy = self.policy.clone().map_or_else(PolicyPlace::default, PolicyPlace::File);
        let component = self.component.clone().map(|path| (path, VerificationPolicy::Any));
        Layout { policy, component, ..Layout::default() }
    }

    /// Builds a filter with the policy and component in the options. `keys` sign its cursors.
    pub(crate) fn build(&self, keys: Vec<SigningKey>, clock: Arc<dyn Clock>) -> Result<Filter> {
        Ok(Filter::with_options(self.revisions(keys, clock)?, FilterOptions::default()))
    }

    /// Creates the revisions of a filter. The first one has the policy and component in the
    /// options. `keys` sign its cursors.
    pub(crate) fn revisions(
        &self,
        keys: Vec<SigningKey>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Revisions>> {
        let options = RolloutOptions::default();
        revisions(&self.layout(), single_client_engine(), in_memory(clock), keys, options)
    }

    /// Watches the policy and component files, and reloads them when they change. Ends when the
    /// filter is dropped.
    pub(crate) fn watch(&self, filter: &Filter) -> Result<()> {
        let options = self.clone();
        let sources = Arc::new(Sources::new(move || Ok(options.layout())));
        if !sources.files().is_empty() {
            revision::tick_regularly(filter.revisions())?;
            revision::watch(filter.revisions(), sources)?;
        }
        Ok(())
    }

    /// Validates the policy that the options name and returns its warnings.
    pub(crate) fn check(&self) -> Result<Issues> {
        check(&self.layout())
    }
}

/// Validates the policy in `layout` with its component and returns the warnings.
pub(crate) fn check(layout: &Layout) -> Result<Issues> {
    let policy = layout.policy()?;
    let compiled = component(layout, EngineOptions::default(), &RolledBack::default())?
        .compile_policy(&in_memory(Arc::new(SystemClock)), &policy.json())
        .map_err(|error| located(error.into(), &policy))?;
    Ok(revision::policy_issues(&compiled.warnings))
}

/// The gateway file, and the command line options that override its members.
pub(crate) struct GatewayFiles {
    /// The gateway file. `None` if the command line contains the whole configuration.
    pub(crate) config: Option<PathBuf>,
    /// The component file that the command line sets. `None` to use that of the gateway file.
    pub(crate) component: Option<PathBuf>,
    /// The bundle that replaces parts of the files. `None` if the gateway follows no bundle.
    pub(crate) bundle: Option<CurrentBundle>,
}

impl GatewayFiles {
    /// Returns the locations of the sources that a parsed gateway file names.
    pub(crate) fn layout_of(&self, config: &Config) -> Result<Layout, Error> {
        let policy = match &config.policy {
            Some(Policy::File(path)) => PolicyPlace::File(config.folder.join(path)),
            Some(Policy::Inline(policy)) => {
                PolicyPlace::Inline(Source::inline(Some(policy.clone())))
            }
            None => PolicyPlace::default(),
        };
        let named = config.component.file.as_ref().map(|file| config.folder.join(file));
        let component = match self.component.clone().or(named) {
            Some(path) => Some((path, VerificationPolicy::configured(&config.component)?)),
            None => None,
        };
        Ok(Layout {
            file: self.config.clone(),
            policy,
            component,
            keys: Some(config.signing_keys.clone()),
            folder: config.folder.clone(),
            keep_dropped_keys: config.keep_dropped_keys,
            bundle: self
                .bundle
                .as_ref()
                .and_then(|bundle| bundle.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        })
    }
}

/// Returns these signing keys, or a random one for this run if `keys` is `None`. Fails if a key is
/// too short.
pub(crate) fn keys_or_random(keys: Option<Vec<SigningKey>>) -> Result<Vec<SigningKey>> {
    match keys {
        Some(keys) => long_enough(keys, &format!("signingKeys or {}", keys::VARIABLE)),
        None => {
            warn!(
                "no signing key is configured (signingKeys or {}): cursors become invalid when this process ends",
                keys::VARIABLE
            );
            Ok(vec![keys::random()?])
        }
    }
}

/// Returns the signing keys. Fails if one is too short. `place` is their source, for the message.
fn long_enough(keys: Vec<SigningKey>, place: &str) -> Result<Vec<SigningKey>> {
    if keys.iter().any(|key| key.secret.len() < keys::MIN_KEY_BYTES) {
        bail!("signing keys need at least {} bytes each ({place})", keys::MIN_KEY_BYTES);
    }
    Ok(keys)
}

/// Returns the signing keys in the environment, otherwise the key in the user's state folder.
/// Creates that key if it is missing. If that fails, returns a random key for this run. Fails if a
/// key is too short.
pub(crate) fn user_keys() -> Result<Vec<SigningKey>> {
    if let Some(keys) = keys::from_environment() {
        return long_enough(keys, keys::VARIABLE);
    }
    let stored = || {
        let file = config::state_folder()?.join("signing-key");
        anyhow::Ok((keys::from_file(&file)?, file))
    };
    match stored() {
        Ok((key, file)) => long_enough(vec![key], &file.display().to_string()),
        Err(error) => {
            warn!(
                "the signing key cannot be stored: {error}; cursors become invalid when this process ends. Set {} or XDG_STATE_HOME",
                keys::VARIABLE
            );
            Ok(vec![keys::random()?])
        }
    }
}

/// Opens the cursor store that the configuration selects.
pub(crate) fn store(config: &Config, clock: &Arc<dyn Clock>) -> Result<Arc<dyn CursorStore>> {
    let options = StoreOptions {
        url: config.store.url.expose(),
        prefix: &config.store.prefix,
        timeout: Duration::from_millis(config.store.timeout_ms),
        memory_bytes: config.limits.store_bytes,
        principal_bytes: config.limits.store_bytes_per_principal(config.authenticates_callers()),
        local_bytes: config.store.local_bytes,
    };
    Ok(store::open(&options, clock)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_keys_are_refused() {
        let key = |secret: &str| SigningKey { id: "0".to_owned(), secret: secret.into() };
        let long = key("0123456789abcdef");
        assert!(long_enough(vec![long.clone()], "here").is_ok());
        let error = long_enough(vec![long, key("0123456789abcde")], "here").unwrap_err();
        assert!(error.to_string().contains("16 bytes each (here)"), "{error}");
    }
}
