//! The guard in both forms behind one trait: the native core, and the component in wasmtime.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Result, anyhow};
use bytes::Bytes;
use context_guard::Clock;
use context_guard::clock::ManualClock;
use context_guard::engine::{
    CallContext, Component, Decision, Engine, EngineOptions, HostServices, Outcome, RequestVerdict,
    Settings, SigningKey,
};
use context_guard::store::{CursorStore, StoreError};
use context_guard_core::Record;

pub use context_guard_test_kit::guard::{
    NOW_MS, NativeGuard, Response, SIGNING_KEY, TestGuard, Verdict,
};

/// A store without expiry or limits whose entries tests can read.
#[derive(Default)]
pub struct InspectableStore(Mutex<BTreeMap<String, Vec<u8>>>);

impl InspectableStore {
    /// Returns all stored entries by their keys.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl CursorStore for InspectableStore {
    fn get(&self, _: &str, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(keys.iter().map(|key| all.get(key).map(|value| Bytes::copy_from_slice(value))).collect())
    }

    fn put(&self, _: &str, entries: Vec<(String, Vec<u8>)>, _: Duration) -> Result<(), StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(entries);
        Ok(())
    }

    fn extend(&self, _: &str, _: &[String], _: Duration) -> Result<(), StoreError> {
        Ok(())
    }

    fn delete(&self, _: &str, keys: &[String]) -> Result<(), StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| !keys.contains(key));
        Ok(())
    }
}

/// Returns the engine that all tests of this process share.
///
/// # Errors
/// The engine does not start.
pub fn engine() -> Result<Engine> {
    static ENGINE: OnceLock<Option<Engine>> = OnceLock::new();
    ENGINE
        .get_or_init(|| Engine::new(EngineOptions::default()).ok())
        .clone()
        .ok_or_else(|| anyhow!("the engine cannot be started"))
}

/// Returns the release component, compiled once for all tests of this process.
///
/// # Errors
/// The component was not built.
pub fn component() -> Result<Arc<Component>> {
    static COMPONENT: OnceLock<Result<Arc<Component>, String>> = OnceLock::new();
    let load = || -> Result<Arc<Component>> {
        Ok(Arc::new(Component::load(&engine()?, &std::fs::read(crate::artifacts::component()?)?)?))
    };
    COMPONENT
        .get_or_init(|| load().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(|error| anyhow!(error))
}

/// The component in wasmtime.
pub struct ComponentGuard {
    component: Arc<Component>,
    services: HostServices,
    store: Arc<InspectableStore>,
    settings: Settings,
    principal: String,
}

impl ComponentGuard {
    /// Instantiates a component under a policy.
    ///
    /// # Errors
    /// The policy is invalid.
    pub fn new(
        component: Arc<Component>,
        policy: &str,
        principal: &str,
        now_ms: u64,
        keys: &[&[u8]],
    ) -> Result<Self> {
        let store = Arc::new(InspectableStore::default());
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at_ms(now_ms));
        let services = HostServices { store: Arc::clone(&store) as Arc<dyn CursorStore>, clock };
        let policy = component.compile_policy(&services, policy)?.resolved;
        let keys = keys
            .iter()
            .map(|secret| SigningKey { id: String::new(), secret: secret.to_vec() })
            .collect();
        Ok(Self {
            component,
            services,
            store,
            settings: Settings { policy, keys },
            principal: principal.to_owned(),
        })
    }

    fn context(&self) -> CallContext {
        let lists_tools = Some(String::new());
        CallContext { principal: self.principal.clone(), lists_tools, ..CallContext::default() }
    }
}

fn changed(outcome: Outcome) -> Option<Vec<u8>> {
    match outcome {
        Outcome::Unchanged => None,
        Outcome::Shaped(message) => Some(message),
    }
}

/// Converts a decision to the record that it was made from.
fn record(decision: Decision) -> Record {
    use context_guard::engine::{LossClass, ResponseMode};
    use context_guard_core::Loss;
    use context_guard_core::query::response_mode::ResponseMode as CoreMode;
    Record {
        endpoint: decision.endpoint,
        mode: decision.mode,
        loss: match decision.loss {
            LossClass::None => Loss::None,
            LossClass::Lossless => Loss::Lossless,
            LossClass::Partial => Loss::Partial,
            LossClass::Condensed => Loss::Condensed,
            LossClass::Described => Loss::Described,
        },
        estimated_tokens: decision.estimated_tokens,
        response_bytes: decision.response_bytes,
        original_tokens: decision.original_tokens,
        original_tokens_sampled: decision.original_tokens_sampled,
        original_bytes: decision.original_bytes,
        budget: decision.budget,
        item_count: decision.item_count,
        response_mode: decision.response_mode.map(|mode| match mode {
            ResponseMode::IdsOnly => CoreMode::IdsOnly,
            ResponseMode::Metadata => CoreMode::Metadata,
            ResponseMode::Preview => CoreMode::Preview,
            ResponseMode::Full => CoreMode::Full,
        }),
        read_only: decision.read_only,
        // The vectors do not cover it: names of snapshots are digests.
        origin: Box::default(),
    }
}

impl TestGuard for ComponentGuard {
    fn request(&self, message: &[u8]) -> Result<Verdict> {
        Ok(
            match self.component.on_request(
                &self.services,
                &self.settings,
                &self.context(),
                message,
            )? {
                RequestVerdict::Forward(forward) => {
                    Verdict::Forward(changed(forward.message), forward.ticket)
                }
                RequestVerdict::Answer(answer) => {
                    Verdict::Answer(answer.message, record(answer.decision))
                }
            },
        )
    }

    fn response(&self, ticket: &[u8], message: &[u8]) -> Result<Response> {
        let verdict = self.component.on_response(
            &self.services,
            &self.settings,
            &self.context(),
            ticket,
            message,
        )?;
        Ok((changed(verdict.message), record(verdict.decision)))
    }

    fn stored(&self) -> BTreeMap<String, Vec<u8>> {
        self.store.all()
    }
}
