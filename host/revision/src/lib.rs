//! Revisions of the guard. A revision is a guard component with the policy it applies.
//!
//! A candidate is read, compiled and tested in the background. Then one pointer changes, and a
//! failing revision is rolled back. One revision serves a request from its begin to its end. If it
//! fails, another revision repeats the call.

#![forbid(unsafe_code)]

pub mod answer;
mod change;
mod deployment;
mod error;
mod file_watcher;
mod fleet;
mod identity;
mod key_ring;
pub mod keys;
mod layout;
mod principals;
mod report;
mod revisions;
mod rolled_back;
mod self_test;
mod shadow;
mod signature;
mod sources;
mod stats;
mod ticker;
mod trial;
mod validation;

pub use change::{Actor, Change, ChangeEvent};
pub use context_guard_config::{Mode, RolloutOptions};
pub use deployment::{Deployment, Loaded};
pub use error::{Error, Result, policy_issues};
pub use file_watcher::watch;
pub use fleet::join_fleet;
pub use identity::BundleLabel;
pub use layout::{BundleParts, Layout, PolicyPlace, read_component};
pub use principals::GATEWAY_PRINCIPAL;
pub use revisions::Revisions;
pub use rolled_back::RolledBack;
pub use shadow::ShadowExchange;
pub use signature::VerificationPolicy;
pub use sources::Sources;
pub use stats::{RevisionStats, StatsSnapshot};
pub use ticker::tick_regularly;
pub use trial::{Trial, session_percentile};
pub use validation::Candidate;

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::{Value, json};

use context_guard_config::{self as config, policy};
use context_guard_cursor_store::{self as store, clock};
use context_guard_engine::{
    self as engine, CallContext, CompiledPolicy, Component, HostServices, OnFault, RequestVerdict,
    ResponseVerdict, Settings, SigningKey, StoredPart, StoredRange, digest,
};

/// A guard component with the policy it applies.
pub struct Revision {
    /// The number of the revision, counted from 1.
    pub number: u64,
    /// The sources of the component and of the policy.
    pub origin: Origin,
    /// The policy in JSON, as the operator wrote it. Empty for the default policy.
    pub policy: String,
    /// The statistics of guard calls under this revision.
    pub stats: RevisionStats,
    /// The identity of the revision, which is the same at all replicas of a fleet.
    id: String,
    /// The number from which the sessions for the trial of the revision are chosen.
    salt: u64,
    component: Arc<Component>,
    settings: ArcSwap<Settings>,
    on_fault: OnFault,
    hard_byte_limit: usize,
    cursor_ttl_ms: u64,
    catalogue_prefix: Option<String>,
    holds_definitions: bool,
}

/// The origin of a revision's component and policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The cause of the deployment: a file, a bundle, an admin call, a rollback of another replica,
    /// or the start of the process.
    pub source: String,
    /// The version that the component reports.
    pub version: String,
    /// The SHA-256 digest of the component, in hexadecimal.
    pub component: String,
    /// The SHA-256 digest of the policy, in hexadecimal.
    pub policy: String,
    /// The time of deployment, in milliseconds since 1970.
    pub since_ms: u64,
    /// The bundle from which the revision was made. `None` if it was made from files.
    pub bundle: Option<BundleLabel>,
}

impl Revision {
    fn new(
        number: u64,
        component: Arc<Component>,
        policy: &str,
        compiled: CompiledPolicy,
        keys: Vec<SigningKey>,
        origin: Origin,
    ) -> Self {
        for issue in compiled.warnings {
            tracing::warn!(path = issue.path, "{}", issue.reason);
        }
        let (id, salt) = identity::identify(&origin);
        let document: Value = serde_json::from_str(policy).unwrap_or_default();
        Self {
            number,
            id,
            salt,
            origin,
            policy: policy.to_owned(),
            stats: RevisionStats::default(),
            component,
            settings: ArcSwap::from_pointee(Settings { policy: compiled.resolved, keys }),
            on_fault: compiled.on_fault,
            hard_byte_limit: usize::try_from(compiled.hard_byte_limit).unwrap_or(usize::MAX),
            cursor_ttl_ms: compiled.cursor_ttl_ms,
            catalogue_prefix: config::catalogue_prefix(&document).map(str::to_owned),
            holds_definitions: policy::holds_definitions(&document),
        }
    }

    /// Returns the policy's treatment of an answer on which the guard failed, and the maximum size
    /// of such an answer in bytes.
    pub fn on_fault(&self) -> (OnFault, usize) {
        (self.on_fault, self.hard_byte_limit)
    }

    /// Returns the base path of the HTTP API of the tool catalogue. `None` if the policy disables
    /// the API.
    #[must_use]
    pub fn catalogue_prefix(&self) -> Option<&str> {
        self.catalogue_prefix.as_deref()
    }

    /// Returns true if the policy withholds definitions of tools (`catalogue.hold`).
    #[must_use]
    pub fn holds_definitions(&self) -> bool {
        self.holds_definitions
    }

    /// Calls the guard on a client's JSON-RPC request.
    ///
    /// # Errors
    /// As [`Component::on_request`].
    pub fn request(
        &self,
        services: &HostServices,
        cx: &CallContext,
        message: &[u8],
    ) -> engine::Result<RequestVerdict> {
        self.component.on_request(services, &self.settings.load(), cx, message)
    }

    /// Returns the component of this revision.
    #[must_use]
    pub fn component(&self) -> &Arc<Component> {
        &self.component
    }

    /// Calls the guard on an upstream's JSON-RPC response. `ticket` is the ticket in the guard's
    /// verdict on the request.
    ///
    /// # Errors
    /// As [`Component::on_response`].
    pub fn response(
        &self,
        services: &HostServices,
        cx: &CallContext,
        ticket: &[u8],
        message: &[u8],
    ) -> engine::Result<ResponseVerdict> {
        self.component.on_response(services, &self.settings.load(), cx, ticket, message)
    }

    /// Reads a part of the stored answer of a cursor, for a program.
    ///
    /// # Errors
    /// As [`Component::read_stored`].
    pub fn read_stored(
        &self,
        services: &HostServices,
        cx: &CallContext,
        cursor: &str,
        range: StoredRange,
    ) -> engine::Result<StoredPart> {
        self.component.read_stored(services, &self.settings.load(), cx, cursor, range)
    }

    /// Compiles `policy`, a copy of the operator's policy with corrected token estimates, and
    /// applies it from now on. Reports still contain the operator's policy.
    ///
    /// # Errors
    /// [`Error::Config`] if the policy is invalid, [`Error::Engine`].
    pub fn correct(&self, services: &HostServices, policy: &str) -> Result<()> {
        let compiled = self.component.compile_policy(services, policy)?;
        // The keys can change meanwhile: replaced ones must not return.
        self.settings.rcu(|settings| Settings {
            policy: compiled.resolved.clone(),
            keys: settings.keys.clone(),
        });
        Ok(())
    }

    /// Returns the identity of the revision, a digest of its component, its policy and the number
    /// of its bundle. It is the same at all replicas of a fleet.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    fn rekey(&self, keys: &[SigningKey]) {
        self.settings
            .rcu(|settings| Settings { policy: settings.policy.clone(), keys: keys.to_vec() });
    }

    /// Returns a JSON report of the revision. `state` is the state in the report, such as `active`
    /// or `standby`.
    #[must_use]
    pub fn json(&self, state: &str) -> Value {
        let Origin { source, version, component, policy, since_ms, bundle } = &self.origin;
        json!({
            "generation": self.number,
            "state": state,
            "source": source,
            "version": version,
            "component": component,
            "policy": policy,
            "id": self.id,
            "bundle": bundle.as_ref().map(|bundle| bundle.number),
            "since": since_ms,
            "numbers": self.stats.json(),
        })
    }
}
