//! The core, bound to JavaScript.
//!
//! JavaScript stores are asynchronous, so `js/guard.js` contains the loop that loads and stores
//! entries. The loop repeats [`Core::request`] with the loaded entries until the core forwards or
//! answers the request.
//!
//! The package has two modules of this crate: one without jq, and one with the feature `jq`, which
//! is loaded for the first message that needs it. The first module reports such a message by the
//! step `jq`, and the caller repeats the call with the second.
#![allow(
    unsafe_code,
    missing_docs,
    clippy::must_use_candidate,
    clippy::indexing_slicing,
    reason = "wasm_bindgen generates code from the items below"
)]

use context_guard_core::policy;
use context_guard_core::snapshot::Keys;
use context_guard_core::snapshot::stored::{Entry, Loaded};
use context_guard_core::{Context, Fault, Guard, JqBuild, Plan, Record};
use context_guard_protocol::fallback;
use wasm_bindgen::prelude::*;

/// The guard, configured with a policy and signing keys.
#[wasm_bindgen]
pub struct Core {
    guard: Guard,
    policy: policy::Policy,
    warnings: Vec<String>,
}

/// The caller of a request, its upstream and protocol revision, and the state of the store and of
/// the module with jq.
#[wasm_bindgen]
#[derive(Default)]
pub struct Caller {
    principal: String,
    upstream: String,
    protocol_version: String,
    store_unavailable: bool,
    server: String,
    jq_failure: Option<String>,
}

#[wasm_bindgen]
impl Caller {
    /// Creates a caller. `jq_failure` is the reason why the module with jq cannot be loaded, with
    /// the way to solve the problem.
    #[wasm_bindgen(constructor)]
    pub fn new(
        principal: String,
        upstream: String,
        protocol_version: String,
        store_unavailable: bool,
        server: String,
        jq_failure: Option<String>,
    ) -> Self {
        Self { principal, upstream, protocol_version, store_unavailable, server, jq_failure }
    }
}

impl Caller {
    fn context(&self) -> Context<'_> {
        Context {
            principal: &self.principal,
            upstream: &self.upstream,
            protocol_version: &self.protocol_version,
            client_name: "",
            catalogue_version: "",
            lists_tools: Some(&self.server),
            full_list: false,
            only_count: false,
            store_unavailable: self.store_unavailable,
            jq_build: self.jq_failure.as_deref().map_or(JqBuild::Loadable, JqBuild::Failed),
        }
    }
}

/// The store entries that were loaded so far for a request.
#[wasm_bindgen]
#[derive(Default)]
pub struct Fetched(Loaded);

#[wasm_bindgen]
impl Fetched {
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    pub fn add(&mut self, key: String, value: Option<Vec<u8>>) {
        self.0.insert(key, value);
    }
}

/// The core's decision on a message, with the action that the JavaScript caller must take next.
#[wasm_bindgen]
#[derive(Default)]
pub struct Step {
    kind: &'static str,
    keys: Vec<String>,
    message: Option<Vec<u8>>,
    ticket: Vec<u8>,
    entries: Vec<(String, Vec<u8>)>,
    ttl_ms: f64,
    must_be_stored: bool,
    record: Option<Record>,
}

#[wasm_bindgen]
impl Step {
    /// The action: `load` entries, `forward` or `answer` the request, send the `shaped` response,
    /// or repeat the call with the module that has `jq`.
    #[wasm_bindgen(getter)]
    pub fn kind(&self) -> String {
        self.kind.to_owned()
    }

    /// The store keys to load (for `load`), or those whose time to live is renewed (for `answer`).
    #[wasm_bindgen(getter)]
    pub fn keys(&self) -> Vec<String> {
        self.keys.clone()
    }

    /// Removes and returns the message to send in place of the original. `undefined` to send the
    /// original.
    pub fn take_message(&mut self) -> Option<Vec<u8>> {
        self.message.take()
    }

    /// Removes and returns the ticket to pass to `response`. Empty if the guard does not need the
    /// response.
    pub fn take_ticket(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.ticket)
    }

    #[wasm_bindgen(getter)]
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Returns the key of the next entry to store. `undefined` after the last entry.
    pub fn next_key(&self) -> Option<String> {
        self.entries.last().map(|(key, _)| key.clone())
    }

    /// Removes the entry whose key `next_key` returns, and returns its value.
    pub fn take_value(&mut self) -> Option<Vec<u8>> {
        self.entries.pop().map(|(_, value)| value)
    }

    #[wasm_bindgen(getter)]
    pub fn ttl_ms(&self) -> f64 {
        self.ttl_ms
    }

    #[wasm_bindgen(getter)]
    pub fn must_be_stored(&self) -> bool {
        self.must_be_stored
    }

    /// Returns the telemetry record of the decision as JSON. `undefined` for `load`, `forward` and
    /// `jq`.
    #[wasm_bindgen(getter)]
    pub fn record(&self) -> Option<String> {
        serde_json::to_string(self.record.as_ref()?).ok()
    }
}

#[wasm_bindgen]
impl Core {
    /// Creates a guard from a policy document and signing keys. Throws an error that lists all
    /// issues of either.
    #[wasm_bindgen(constructor)]
    pub fn new(policy: &str, keys: Vec<Secret>) -> Result<Core, JsError> {
        let told = |issue: &policy::Issue| format!("{}: {}", issue.path, issue.reason);
        let compiled = policy::compile(policy).map_err(|issues| {
            let issues: Vec<String> = issues.iter().map(told).collect();
            JsError::new(&format!("invalid policy: {}", issues.join("; ")))
        })?;
        let keys = Keys::new(keys.iter().map(|key| key.0.as_slice()))
            .map_err(|reason| JsError::new(&reason))?;
        let warnings = compiled.warnings.iter().map(told).collect();
        let guard = Guard::new(compiled.policy.clone(), keys);
        Ok(Self { guard, policy: compiled.policy, warnings })
    }

    /// Returns the warnings about the policy document.
    #[wasm_bindgen(getter)]
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    pub fn request(
        &self,
        caller: &Caller,
        message: &[u8],
        fetched: &Fetched,
        now_ms: f64,
    ) -> Result<Step, JsError> {
        let now_ms = milliseconds(now_ms);
        let plan = self.guard.on_request(&caller.context(), message, &fetched.0, now_ms);
        if matches!(plan, Err(Fault::NeedsJq)) {
            return Ok(Step { kind: "jq", ..Step::default() });
        }
        Ok(match plan? {
            Plan::Load(keys) => Step { kind: "load", keys, ..Step::default() },
            Plan::Forward { message, ticket, .. } => {
                Step { kind: "forward", message, ticket, ..Step::default() }
            }
            Plan::Answer { message, entries, extend, ttl_ms, record } => Step {
                kind: "answer",
                keys: extend,
                message: Some(message),
                entries: owned(entries),
                ttl_ms: duration(ttl_ms),
                must_be_stored: true,
                record: Some(record),
                ..Step::default()
            },
        })
    }

    pub fn response(
        &self,
        caller: &Caller,
        ticket: &[u8],
        message: &[u8],
        now_ms: f64,
    ) -> Result<Step, JsError> {
        let now_ms = milliseconds(now_ms);
        let shaped = self.guard.on_response(&caller.context(), ticket, message, now_ms);
        if matches!(shaped, Err(Fault::NeedsJq)) {
            return Ok(Step { kind: "jq", ..Step::default() });
        }
        let shaped = shaped?;
        Ok(Step {
            kind: "shaped",
            message: shaped.message,
            entries: owned(shaped.entries),
            ttl_ms: duration(shaped.ttl_ms),
            must_be_stored: shaped.must_be_stored,
            record: Some(shaped.record),
            ..Step::default()
        })
    }

    /// Returns the replacement for an answer that the guard failed to process. `undefined` to send
    /// the answer unchanged.
    pub fn limit(&self, message: &[u8]) -> Option<Vec<u8>> {
        let bytes = usize::try_from(self.policy.hard_byte_limit()).unwrap_or(usize::MAX);
        fallback::limit(message, self.policy.on_fault().into(), bytes)
    }

    /// Returns the estimated number of tokens of a text, by the estimator that the policy sets for
    /// the endpoint `upstream::name`.
    pub fn estimate(&self, upstream: &str, name: &str, text: &[u8]) -> f64 {
        duration(self.policy.settings_for(upstream, name).estimator.price(text))
    }
}

/// A secret that signs cursors.
#[wasm_bindgen]
pub struct Secret(Vec<u8>);

#[wasm_bindgen]
impl Secret {
    #[wasm_bindgen(constructor)]
    pub fn new(secret: Vec<u8>) -> Self {
        Self(secret)
    }
}

/// Converts store entries to owned ones in reverse order, because `take_value` pops them from the
/// end.
fn owned(entries: Vec<Entry<'_>>) -> Vec<(String, Vec<u8>)> {
    entries.into_iter().rev().map(|entry| (entry.key, entry.value.into_owned())).collect()
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a JavaScript time is a whole number far below 2^53; others saturate"
)]
fn milliseconds(now_ms: f64) -> u64 {
    now_ms as u64
}

#[allow(clippy::cast_precision_loss, reason = "a number of JavaScript")]
fn duration(ms: u64) -> f64 {
    ms as f64
}
