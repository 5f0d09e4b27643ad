//! The guard behind one interface for all its forms, and the native core as the first form.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, anyhow};
use context_guard_core::policy;
use context_guard_core::snapshot::Keys;
use context_guard_core::snapshot::stored::{Entry, Loaded};
use context_guard_core::{Context, Guard, Plan, Record};

/// The signing key of the tests.
pub const SIGNING_KEY: &[u8] = b"a-key-for-tests,-32-bytes-long!!";
/// The start of the tests' clock, in milliseconds since 1970.
pub const NOW_MS: u64 = 1_790_000_000_000;

/// The guard's decision on a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Forward the request, changed or not, and pass this ticket along with its response.
    Forward(Option<Vec<u8>>, Vec<u8>),
    /// Answer the request without the upstream.
    Answer(Vec<u8>, Record),
}

/// A response, shaped or not.
pub type Response = (Option<Vec<u8>>, Record);

/// A guard with a store of its own.
pub trait TestGuard {
    /// Handles a request.
    ///
    /// # Errors
    /// Fails if the guard fails.
    fn request(&self, message: &[u8]) -> Result<Verdict>;
    /// Handles a response.
    ///
    /// # Errors
    /// Fails if the guard fails.
    fn response(&self, ticket: &[u8], message: &[u8]) -> Result<Response>;
    /// Returns everything in the store.
    fn stored(&self) -> BTreeMap<String, Vec<u8>>;
}

/// The native core.
pub struct NativeGuard {
    guard: Guard,
    principal: String,
    upstream: String,
    client_name: String,
    lists_tools: bool,
    now_ms: u64,
    store: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl NativeGuard {
    /// Creates a guard under a policy.
    ///
    /// # Errors
    /// Fails if the policy or a key is invalid.
    pub fn new(policy: &str, principal: &str, now_ms: u64, keys: &[&[u8]]) -> Result<Self> {
        let compiled = policy::compile(policy).map_err(|issues| anyhow!("{issues:?}"))?;
        let keys = Keys::new(keys.iter().copied()).map_err(|reason| anyhow!(reason))?;
        Ok(Self {
            guard: Guard::new(compiled.policy, keys),
            principal: principal.to_owned(),
            upstream: String::new(),
            client_name: String::new(),
            lists_tools: false,
            now_ms,
            store: Mutex::default(),
        })
    }

    /// Creates a guard with the key, principal and time of most tests.
    ///
    /// # Errors
    /// Fails if the policy is invalid.
    pub fn with_policy(policy: &str) -> Result<Self> {
        Self::new(policy, "tester", NOW_MS, &[SIGNING_KEY])
    }

    /// Changes the policy, and keeps the store.
    ///
    /// # Errors
    /// Fails if the policy is invalid.
    pub fn change_policy(&mut self, policy: &str) -> Result<()> {
        self.guard = Self::with_policy(policy)?.guard;
        Ok(())
    }

    /// Advances the clock.
    pub fn advance_ms(&mut self, by: u64) {
        self.now_ms += by;
    }

    /// Changes the principal, and keeps policy and store.
    #[must_use]
    pub fn with_principal(mut self, principal: &str) -> Self {
        principal.clone_into(&mut self.principal);
        self
    }

    /// Changes the name of the upstream, and keeps policy and store.
    #[must_use]
    pub fn with_upstream(mut self, upstream: &str) -> Self {
        upstream.clone_into(&mut self.upstream);
        self
    }

    /// Changes the name of the client, and keeps policy and store.
    #[must_use]
    pub fn with_client(mut self, name: &str) -> Self {
        name.clone_into(&mut self.client_name);
        self
    }

    /// Makes the guard keep the tool catalogue of the upstream.
    #[must_use]
    pub fn listing_tools(mut self) -> Self {
        self.lists_tools = true;
        self
    }

    fn context(&self) -> Context<'_> {
        Context {
            principal: &self.principal,
            upstream: &self.upstream,
            client_name: &self.client_name,
            lists_tools: self.lists_tools.then_some(""),
            ..Context::default()
        }
    }

    fn put(&self, entries: Vec<Entry<'_>>) {
        let entries = entries.into_iter().map(|entry| (entry.key, entry.value.into_owned()));
        self.store.lock().unwrap_or_else(PoisonError::into_inner).extend(entries);
    }
}

impl TestGuard for NativeGuard {
    fn request(&self, message: &[u8]) -> Result<Verdict> {
        let mut loaded = Loaded::new();
        loop {
            match self.guard.on_request(&self.context(), message, &loaded, self.now_ms)? {
                Plan::Load(keys) => {
                    let all = self.stored();
                    loaded
                        .extend(keys.into_iter().map(|key| (key.clone(), all.get(&key).cloned())));
                }
                Plan::Forward { message, ticket, .. } => {
                    return Ok(Verdict::Forward(message, ticket));
                }
                Plan::Answer { message, entries, record, .. } => {
                    self.put(entries);
                    return Ok(Verdict::Answer(message, record));
                }
            }
        }
    }

    fn response(&self, ticket: &[u8], message: &[u8]) -> Result<Response> {
        let shaped = self.guard.on_response(&self.context(), ticket, message, self.now_ms)?;
        self.put(shaped.entries);
        Ok((shaped.message, shaped.record))
    }

    fn stored(&self) -> BTreeMap<String, Vec<u8>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
