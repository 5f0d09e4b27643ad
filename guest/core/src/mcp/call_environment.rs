//! Builds the contexts in which payloads are shaped, from the inputs of a call.

use crate::policy::{EndpointSettings, Policy, endpoint_name};
use crate::query::Query;
use crate::shape::context::{RequestOptions, ShapeContext};
use crate::shape::render::SchemaConstraint;
use crate::snapshot::{Keys, Replay, Scope};

/// The inputs for shaping an answer that do not depend on the called tool or resource.
#[derive(Clone, Copy)]
pub struct CallEnvironment<'a> {
    /// The policy, from which the settings of the endpoint are taken.
    pub policy: &'a Policy,
    /// The valid signing keys.
    pub keys: &'a Keys,
    /// The identity of the caller, to which snapshots and cursors are bound.
    pub principal: &'a str,
    /// The name of the upstream, the first part of endpoint names.
    pub upstream: &'a str,
    /// The name in the client's `clientInfo`; empty if it is not known.
    pub client_name: &'a str,
    /// The members that the tool's output schema accepts in structured content.
    pub schema_constraint: SchemaConstraint,
    /// The name of the guard's own tool, which reads the rest of an answer by its cursor.
    pub read_tool: &'a str,
    /// The token budget that the caller requests, if any.
    pub budget: Option<u64>,
    /// The current time, in milliseconds since 1970.
    pub now_ms: u64,
    /// The upstream call that cursors repeat. `None` if the answer is stored instead.
    pub replay: Option<&'a Replay>,
}

/// A tool or resource of the upstream, with its settings.
pub struct Endpoint<'n> {
    /// The endpoint's name with its upstream: `upstream::name`.
    pub full_name: String,
    /// The endpoint's name without its upstream.
    pub name: &'n str,
    /// The settings of the policy for this endpoint.
    pub settings: EndpointSettings,
}

impl<'a> CallEnvironment<'a> {
    /// Returns the upstream's endpoint `name`, with its settings for the client.
    #[must_use]
    pub fn endpoint<'n>(&self, name: &'n str) -> Endpoint<'n> {
        let full_name = endpoint_name(self.upstream, name);
        let settings = self.policy.settings_for(self.upstream, name).for_client(self.client_name);
        Endpoint { full_name, name, settings }
    }

    /// Returns the scope of snapshots and cursors: the principal and the endpoint.
    #[must_use]
    pub fn scope<'c>(&'c self, endpoint: &'c Endpoint<'_>) -> Scope<'c> {
        Scope { principal: self.principal, endpoint: &endpoint.full_name }
    }

    /// Returns the inputs for shaping answers of an endpoint. `arguments` is a hash of the tool's
    /// arguments.
    #[must_use]
    pub fn shape_context<'c>(
        &'c self,
        endpoint: &'c Endpoint<'c>,
        arguments: u128,
        options: RequestOptions,
        query: &'c Query,
    ) -> ShapeContext<'c> {
        ShapeContext {
            limits: &endpoint.settings,
            keys: self.keys,
            scope: self.scope(endpoint),
            upstream: self.upstream,
            name: endpoint.name,
            arguments,
            options,
            query,
            since: None,
            budget: self.budget,
            original: None,
            now_ms: self.now_ms,
            read_tool: self.read_tool,
            schema_constraint: self.schema_constraint,
            replay: self.replay,
        }
    }
}
